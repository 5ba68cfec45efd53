//! The terminal: taken over, drawn to from a thread of its own, and given back
//! whatever happens. A terminal that takes nothing more (a connection that
//! hangs) holds up that thread only.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    os::{fd::AsFd as _, unix::fs::OpenOptionsExt as _},
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering},
        mpsc::{
            Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
        },
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Hide,
        event::{self, EnableBracketedPaste, EnableFocusChange, Event},
        execute,
        style::Print,
        terminal::{EnterAlternateScreen, disable_raw_mode, enable_raw_mode, size},
    },
};
use tokio::sync::{mpsc::UnboundedSender, watch};

use super::{State, program_size};
use crate::panics;
use crate::screen::theme::Look;
use sbt_engine::live::{Request, Snapshot};
use sbt_program::pty::GIVE_BACK;

/// Between two frames at the least.
const FRAME: Duration = Duration::from_millis(100);
/// The same while the user looks elsewhere.
const UNFOCUSED: Duration = Duration::from_millis(500);
/// How often it is looked for something new.
const LOOK: Duration = Duration::from_millis(100);
/// The library looks for nothing at all if it may not wait.
const INSTANT: Duration = Duration::from_millis(1);
/// How long the terminal is given to take what restores it.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long to wait before a terminal that takes nothing is tried again.
const RETRY: Duration = Duration::from_millis(10);

// Clicks and the wheel, with coordinates of any size; not every movement.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether writing has to come to an end.
static GIVE_UP: AtomicBool = AtomicBool::new(false);

/// The terminal to write to, without blocking for ever.
struct Tty {
    file: File,
    /// When to give up; `None`: when told to.
    until: Option<Instant>,
}

impl Tty {
    fn open(until: Option<Instant>) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open("/dev/tty")?;
        Ok(Self { file, until })
    }

    fn is_over(&self) -> bool {
        self.until.map_or_else(
            || GIVE_UP.load(Ordering::Relaxed),
            |until| Instant::now() >= until,
        )
    }
}

impl Write for Tty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while !self.is_over() {
            match self.file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(RETRY),
                result => return result,
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until there is something to read or time is up; which it is.
///
/// # Errors
///
/// Nobody is at the other end any more. The library that reads the keys would
/// try for ever.
fn wait_for_keys(tty: &File, timeout: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(tty.as_fd(), PollFlags::POLLIN)];
    // Whole ms, and not fewer than asked for: it would be asked for again at once.
    let timeout = timeout + Duration::from_millis(1);
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    match fds[0].revents() {
        Some(events) if events.intersects(gone) => Err(ErrorKind::BrokenPipe.into()),
        Some(events) => Ok(events.contains(PollFlags::POLLIN)),
        None => Ok(false),
    }
}

/// Takes the terminal over.
fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let mut tty = BufWriter::new(Tty::open(Some(Instant::now() + PATIENCE))?);
    execute!(
        tty,
        EnterAlternateScreen,
        Hide,
        EnableFocusChange,
        EnableBracketedPaste,
        Print(MOUSE_ON),
    )
}

/// Gives the terminal back, if it is ours. For those who are about to end the
/// process; everybody else closes the [`Handle`].
pub fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    GIVE_UP.store(true, Ordering::SeqCst);
    if let Ok(tty) = Tty::open(Some(Instant::now() + PATIENCE)) {
        let mut tty = BufWriter::new(tty);
        // If it takes nothing, there is nothing that we could do about it.
        let _gone = execute!(tty, Print(GIVE_BACK),);
    }
    let _gone = disable_raw_mode();
}

/// A panic's message has to be readable.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !panics::is_caught() {
                restore();
            }
            before(info);
        }));
    });
}

/// What the thread is told; each is answered when done.
enum Order {
    Suspend(SyncSender<()>),
    Resume,
    Close,
}

/// The screen's thread.
pub struct Screen {
    look: Look,
    latest: watch::Receiver<Arc<Snapshot>>,
    requests: UnboundedSender<Request>,
    orders: Receiver<Order>,
}

/// The session's end of it.
pub struct Handle {
    orders: Sender<Order>,
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes the terminal over and draws what is `latest` until closed. What
    /// the user wants comes through `requests`, the size that the program's
    /// terminal should have first; when their receiver finds the other end
    /// gone, the terminal is.
    ///
    /// # Errors
    ///
    /// There is no terminal, or it cannot be taken over.
    pub fn spawn(
        look: Look,
        latest: watch::Receiver<Arc<Snapshot>>,
        requests: UnboundedSender<Request>,
    ) -> io::Result<Handle> {
        restore_on_panic();
        GIVE_UP.store(false, Ordering::SeqCst);
        // From here on, whatever fails gives it back.
        let guard = Guard;
        take()?;
        let (orders, theirs) = channel();
        let (end, done) = sync_channel(1);
        let screen = Self {
            look,
            latest,
            requests,
            orders: theirs,
        };
        let thread = std::thread::Builder::new()
            .name("sbt screen".into())
            .spawn(move || {
                let guard = guard;
                // Without a terminal there is nobody to tell.
                let _gone = screen.run();
                drop(guard);
                let _nobody = end.try_send(());
            })?;
        Ok(Handle {
            orders,
            done,
            thread: Some(thread),
        })
    }

    fn run(mut self) -> io::Result<()> {
        let mut state = State::new(self.look);
        let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 16, Tty::open(None)?));
        let mut terminal = Terminal::new(backend)?;
        let keys = Tty::open(None)?.file;
        let mut snapshot = self.latest.borrow_and_update().clone();
        // The library hears of a new size from here on. It may have read what was
        // pressed until now, which nobody will find in the terminal any more.
        let mut has_read = event::poll(INSTANT)?;
        self.ask_size();
        let mut drawn: Option<Instant> = None;
        let mut is_old = true;
        let mut size_then = size().ok();
        let mut frame = FRAME;
        loop {
            match self.orders.try_recv() {
                Ok(Order::Close) | Err(TryRecvError::Disconnected) => return Ok(()),
                Ok(Order::Suspend(done)) => {
                    if !self.suspend(&done)? {
                        return Ok(());
                    }
                    // All of it anew. `clear` would ask the terminal for its
                    // cursor, on standard output.
                    terminal.resize(terminal.size()?.into())?;
                    self.ask_size();
                    is_old = true;
                }
                Ok(Order::Resume) | Err(TryRecvError::Empty) => {}
            }
            if self.latest.has_changed().unwrap_or(false) {
                snapshot = self.latest.borrow_and_update().clone();
                is_old = true;
            }
            let wait = drawn.map_or(Duration::ZERO, |at| frame.saturating_sub(at.elapsed()));
            if is_old && wait.is_zero() {
                terminal.draw(|frame| state.draw(frame, &snapshot))?;
                (drawn, is_old) = (Some(Instant::now()), false);
            }
            let wait = if is_old { wait.min(LOOK) } else { LOOK };
            let has_keys = std::mem::take(&mut has_read) || wait_for_keys(&keys, wait)?;
            let size_now = size().ok();
            if size_now != size_then {
                size_then = size_now;
                self.ask_size();
                is_old = true;
            }
            // To ask for keys where there are none costs a millisecond of CPU time.
            while has_keys && event::poll(INSTANT)? {
                let event = event::read()?;
                match event {
                    Event::FocusGained => frame = FRAME,
                    Event::FocusLost => frame = UNFOCUSED,
                    // Whoever presses keys is there.
                    _ => frame = frame.min(FRAME),
                }
                for request in state.event(&event, &snapshot) {
                    if self.requests.send(request).is_err() {
                        return Ok(());
                    }
                }
                is_old = true;
            }
        }
    }

    fn ask_size(&self) {
        if let Ok((columns, rows)) = size() {
            let (columns, rows) = program_size(columns, rows);
            let _session_is_over = self.requests.send(Request::Size(columns, rows));
        }
    }

    /// Lets the terminal go until told to go on; whether to go on at all.
    fn suspend(&self, done: &SyncSender<()>) -> io::Result<bool> {
        restore();
        let _nobody = done.try_send(());
        loop {
            match self.orders.recv() {
                Ok(Order::Resume) => break,
                Ok(Order::Suspend(done)) => drop(done.try_send(())),
                Ok(Order::Close) | Err(_) => return Ok(false),
            }
        }
        GIVE_UP.store(false, Ordering::SeqCst);
        take()?;
        Ok(true)
    }
}

/// Gives the terminal back when dropped.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

impl Handle {
    /// Gives the terminal back until [`Handle::resume`], before the process
    /// stops. Waits for it, but not for ever.
    pub fn suspend(&self) {
        let (done, wait) = sync_channel(1);
        if self.orders.send(Order::Suspend(done)).is_ok()
            && wait.recv_timeout(LOOK + 2 * PATIENCE) == Err(RecvTimeoutError::Timeout)
        {
            restore();
        }
    }

    /// Takes the terminal over again, after [`Handle::suspend`].
    pub fn resume(&self) {
        let _screen_is_gone = self.orders.send(Order::Resume);
    }

    /// Gives the terminal back and ends the thread; does not wait for ever.
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let _screen_is_gone = self.orders.send(Order::Close);
        GIVE_UP.store(true, Ordering::SeqCst);
        match self.done.recv_timeout(LOOK + 2 * PATIENCE) {
            // Also after a panic there, which has told about itself.
            Ok(()) | Err(RecvTimeoutError::Disconnected) => drop(thread.join()),
            Err(RecvTimeoutError::Timeout) => restore(),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
