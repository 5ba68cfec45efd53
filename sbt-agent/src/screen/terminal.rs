//! Takes the terminal over, draws to it from a separate thread, and always gives it back. A
//! terminal that accepts no output (for example, a connection that hangs) blocks this thread only.

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

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// Minimum time between two frames while the window has no focus.
const UNFOCUSED: Duration = Duration::from_millis(500);
/// Interval of polling for keys and snapshots.
const LOOK: Duration = Duration::from_millis(100);
/// Timeout for reading events; with a timeout of zero the library does not look at all.
const INSTANT: Duration = Duration::from_millis(1);
/// Timeout for reading events that the library may hold back: it gives none if this thread loses its
/// CPU for longer than the timeout as it begins to look.
const SURELY: Duration = Duration::from_millis(20);
/// Maximum wait for the terminal to accept its restoration.
const PATIENCE: Duration = Duration::from_millis(500);
/// Delay before the next attempt to write to a blocked terminal.
const RETRY: Duration = Duration::from_millis(10);

// Reports clicks and the wheel, with coordinates of any size, but not every movement.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";

/// Whether the screen has taken the terminal over.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Tells blocked writers to give up.
static GIVE_UP: AtomicBool = AtomicBool::new(false);

/// The terminal opened for writing; writes do not block for ever.
struct Tty {
    file: File,
    /// Deadline for writing. `None`: writing is given up only when [`GIVE_UP`] is set.
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

/// Waits until there is input or time is up. Returns whether there is input.
///
/// # Errors
///
/// The terminal has hung up. The library that reads the keys would retry for ever.
fn wait_for_keys(tty: &File, timeout: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(tty.as_fd(), PollFlags::POLLIN)];
    // Rounded up to whole ms: a shorter wait would lead to another one at once.
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

/// Gives the terminal back if it was taken over. For code that is about to end the process; all
/// other code closes the [`Handle`].
pub fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    GIVE_UP.store(true, Ordering::SeqCst);
    if let Ok(tty) = Tty::open(Some(Instant::now() + PATIENCE)) {
        let mut tty = BufWriter::new(tty);
        // If the terminal accepts nothing, nothing can be done about it.
        let _gone = execute!(tty, Print(GIVE_BACK),);
    }
    let _gone = disable_raw_mode();
}

/// Restores the terminal on a panic, so that the panic's message can be read.
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

/// Orders to the screen's thread.
enum Order {
    Suspend(SyncSender<()>),
    Resume,
    Close,
}

/// The screen, run by its own thread.
pub struct Screen {
    look: Look,
    latest: watch::Receiver<Arc<Snapshot>>,
    requests: UnboundedSender<Request>,
    orders: Receiver<Order>,
}

/// The session's handle to the screen's thread.
pub struct Handle {
    orders: Sender<Order>,
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes the terminal over and draws the `latest` snapshot until closed. The user's requests
    /// arrive through `requests`; the first of them is the size for the program's terminal. The
    /// sender is dropped if the terminal hangs up.
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
        // From here on the guard gives the terminal back on any error.
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
                // Without a terminal an error cannot be reported to the user.
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
        let mut state = State::for_newcomer(self.look);
        let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 16, Tty::open(None)?));
        let mut terminal = Terminal::new(backend)?;
        let keys = Tty::open(None)?.file;
        let mut snapshot = self.latest.borrow_and_update().clone();
        // From here on the library learns about new sizes. It may already have read earlier key
        // presses, which polling the terminal would not find.
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
                    // Redraw everything. `clear` would query the cursor position on standard
                    // output.
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
            let held_back = std::mem::take(&mut has_read);
            let timeout = if held_back { SURELY } else { INSTANT };
            let has_keys = held_back || wait_for_keys(&keys, wait)?;
            let size_now = size().ok();
            if size_now != size_then {
                size_then = size_now;
                self.ask_size();
                is_old = true;
            }
            // Polling for keys that are not there costs 1 ms of CPU time.
            while has_keys && event::poll(timeout)? {
                let event = event::read()?;
                has_read = true;
                match event {
                    Event::FocusGained => frame = FRAME,
                    Event::FocusLost => frame = UNFOCUSED,
                    // A user who presses keys is looking, whatever the focus.
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

    /// Gives the terminal back until told to resume. Returns `false` if the screen is to end.
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
    /// Gives the terminal back until [`Handle::resume`], before the process stops. Waits for this
    /// for a limited time.
    pub fn suspend(&self) {
        let (done, wait) = sync_channel(1);
        if self.orders.send(Order::Suspend(done)).is_ok()
            && wait.recv_timeout(LOOK + 2 * PATIENCE) == Err(RecvTimeoutError::Timeout)
        {
            restore();
        }
    }

    /// Takes the terminal over again after [`Handle::suspend`].
    pub fn resume(&self) {
        let _screen_is_gone = self.orders.send(Order::Resume);
    }

    /// Gives the terminal back and ends the thread. Waits for a limited time.
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
            // A thread that panicked has reported this itself.
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
