//! The live screen while it is open: when to show the next snapshot.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, unbounded_channel},
        watch,
    },
    time::{Instant, sleep_until},
};

use super::{Turn, observer::Observer};
use crate::{
    output,
    screen::{Handle, Look, Screen},
};
use sbt_engine::{
    live::{Request, Snapshot},
    report::Report,
};

/// The shortest time between two snapshots.
const PERIOD: Duration = Duration::from_millis(150);
/// The longest time between two snapshots: the screen shows the time in seconds.
const CALM: Duration = Duration::from_secs(1);
/// The time between a snapshot and the next one after a request of the user.
const PROMPT: Duration = Duration::from_millis(20);
/// Snapshots take at most one part in this many of the time.
const SPARED: u32 = 50;

/// The screen while it is open.
pub struct OpenScreen {
    pub handle: Handle,
    latest: watch::Sender<Arc<Snapshot>>,
    requests: UnboundedReceiver<Request>,
    pub observer: Observer,
    /// The time of the latest snapshot.
    taken: Instant,
    /// The earliest time of the next snapshot.
    due: Instant,
    /// Something has happened since the latest snapshot.
    pub news: bool,
    /// sbt is in the background, so the terminal belongs to another job.
    pub is_away: bool,
    /// The report of a program that has ended: from then on only the user's actions and the output
    /// of other processes change the screen.
    pub last: Option<Box<Report>>,
}

impl OpenScreen {
    /// Opens the screen with its first snapshot.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub fn open(look: Look, observer: Observer, first: Snapshot) -> io::Result<Self> {
        let (latest, receiver) = watch::channel(Arc::new(first));
        let (sender, requests) = unbounded_channel();
        Ok(Self {
            handle: Screen::spawn(look, receiver, sender)?,
            latest,
            requests,
            observer,
            taken: Instant::now(),
            due: Instant::now(),
            news: false,
            is_away: false,
            last: None,
        })
    }

    /// Waits for a request, or for the time of the next snapshot; for ever without a screen.
    pub async fn turn(screen: &mut Option<Self>) -> Turn {
        let Some(screen) = screen else {
            return std::future::pending().await;
        };
        let is_still = screen.last.is_some() && !screen.is_away;
        let due = if screen.news {
            screen.due
        } else {
            screen.taken + CALM
        };
        tokio::select! {
            // A screen that closes by itself has lost its terminal.
            request = screen.requests.recv() => Turn::Asked(request.unwrap_or(Request::Leave)),
            () = sleep_until(due), if screen.news || !is_still => Turn::Due,
        }
    }

    /// Begins a snapshot. Returns whether one is wanted, and whether the terminal is back.
    pub fn begin_snapshot(&mut self) -> (bool, bool) {
        let is_back = self.is_away && output::has_terminal();
        if is_back {
            self.is_away = false;
        }
        self.taken = Instant::now();
        self.news = false;
        (!self.is_away, is_back)
    }

    /// Sends a snapshot that [`Self::begin_snapshot`] began.
    pub fn send(&mut self, snapshot: Snapshot) {
        let _screen_is_gone = self.latest.send(Arc::new(snapshot));
        self.due = self.taken + PERIOD.max(self.taken.elapsed() * SPARED);
    }

    /// Shows the answer to a request soon.
    pub fn hurry(&mut self) {
        self.due = self.due.min(self.taken + PROMPT);
        self.news = true;
    }

    /// Closes the screen, and returns the observer with the lines kept meanwhile.
    pub fn close(self) -> Observer {
        self.handle.close();
        self.observer
    }
}
