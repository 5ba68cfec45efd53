//! The data of the live screen: the state at one moment, and the user's requests. The session makes
//! snapshots and obeys requests; the screen draws snapshots and makes requests.

use std::sync::Arc;

pub use crate::model::lanes::{LEVELS, MAX_LANES, PIECES, Piece};
use crate::report::Report;
pub use pace::Speed;

pub mod pace;

/// The state at one moment. Times are in ns since watching began.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The report, as it would be if watching ended now.
    pub report: Report,
    /// The moment of the snapshot. The report begins later if it was reset.
    pub now_ns: u64,
    /// The present activity of each of `report.threads`, in their order.
    pub doing: Vec<Doing>,
    /// The barrier times of each of `report.sites`, in their order.
    pub histograms: Vec<Histogram>,
    /// The values of `report.counters`, in their order.
    pub counters: Vec<CounterFigures>,
    /// The recent activity of the threads.
    pub lanes: Lanes,
    /// Numbers of episodes that ended in each of the last steps of [`PACE_STEP_NS`], the newest
    /// last; at most [`PACE_STEPS`]. The newest step is not over yet.
    pub pace: Vec<u32>,
    /// Whether the probes are on.
    pub watching: Watching,
    /// The time at which the probes were off: from, to.
    pub gaps: Vec<(u64, u64)>,
    /// CPU time that sbt used recently, in percent of one CPU; `None` before it is known.
    pub own_share_pct: Option<f64>,
    /// The program's output, if it passes through sbt.
    pub output: Option<Arc<Output>>,
    /// Messages about single episodes and phases, and warnings: the last lines, oldest first.
    pub told: Arc<Vec<TimedLine>>,
    /// The available counters; `None` until the user asks for them.
    pub offers: Option<Arc<Vec<Offer>>>,
    /// The answer to the user's last request, such as where a report was saved, with a number that
    /// changes with each answer.
    pub notice: Option<(u64, String)>,
    /// The position in a recording; `None` if this is no recording.
    pub replay: Option<Replaying>,
}

/// The position in a recording. Times are in ns since the beginning of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaying {
    /// The moment that is shown.
    pub at_ns: u64,
    /// The last moment; `None` if it is not known yet.
    pub of_ns: Option<u64>,
    /// The speed of the replay, also while it is paused.
    pub speed: Speed,
    /// The state of the replay.
    pub motion: Playing,
}

/// The state of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Playing {
    /// The replay is running.
    On,
    /// The replay is paused.
    Paused,
    /// The replay has reached the end.
    AtEnd,
}

/// The number of times that a time lay in each of several consecutive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(
    /// Beginning of a range, ns, and how often a time lay in it. A range ends at twice its
    /// beginning; the first begins at 0.
    pub Vec<(u64, u64)>,
);

/// Length of a step in [`Snapshot::pace`], ns.
pub const PACE_STEP_NS: u64 = 500_000_000;

/// Largest number of steps in [`Snapshot::pace`].
pub const PACE_STEPS: usize = 120;

/// A counter that the user can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The name of the counter.
    pub name: String,
    /// The meaning of the counter; empty if the name is clear.
    pub about: String,
    /// Why the counter is not available on this machine; `None` if it is available.
    pub missing: Option<String>,
}

/// The values of a counter, in the order of the report's lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterFigures {
    /// Whether the user wants the counter to be counted now.
    pub is_chosen: bool,
    /// For each of `report.sites`: the work of all threads before the site's barriers.
    pub sites: Vec<CounterFigure>,
    /// For each of `report.sites[].threads`: the thread's work there.
    pub site_threads: Vec<Vec<CounterFigure>>,
    /// For each of `report.threads`: all of its work.
    pub threads: Vec<CounterFigure>,
    /// For each of `report.phases`: the work of all threads.
    pub phases: Vec<CounterFigure>,
    /// For each of `report.conceptual_phases`: the work of all threads.
    pub conceptual: Vec<CounterFigure>,
    /// For each of `report.intervals`: what threads did in it. `per_phase` is the mean of a single
    /// passage.
    pub intervals: Vec<CounterFigure>,
}

/// Values of a counter for some work: numbers of events, or ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CounterFigure {
    /// The sum since watching began or since the last reset; `None` if it is unknown.
    pub sum: Option<u64>,
    /// The mean for a phase, of all threads of the row together.
    pub per_phase: Option<f64>,
    /// The value for each second of wall time, over the last seconds in which a phase ended.
    pub per_second: Option<f64>,
}

/// The present activity of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The thread is outside of all barriers.
    Working {
        /// Since when, ns.
        since_ns: u64,
    },
    /// The thread is outside of all barriers, and each look for a while saw it asleep.
    Asleep {
        /// Since when at least, ns.
        since_ns: u64,
    },
    /// The thread is in a barrier.
    Waiting {
        /// Since when, ns.
        since_ns: u64,
        /// From where the barrier was called.
        at: String,
    },
    /// The thread has ended.
    Ended,
    /// The thread has not come to a barrier yet, or what it does was not seen.
    Unknown,
}

/// Whether the probes are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// The probes are on.
    On,
    /// The probes are off at the user's request.
    Off {
        /// Since when, ns.
        since_ns: u64,
    },
    /// The target has ended.
    Ended {
        /// Its exit status, 128 + N for signal N; `None` if it is unknown.
        status: Option<u8>,
        /// Time from the program's start, or from the start of watching, to its end, ns.
        ran_ns: u64,
    },
}

/// The recent activity of the threads, in pieces of equal time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// Length of a piece, ns: one of [`LEVELS`].
    pub piece_ns: u64,
    /// The end of the last piece in every lane, ns.
    pub end_ns: u64,
    /// The lanes; at most [`MAX_LANES`].
    pub lanes: Vec<Lane>,
}

/// The recent activity of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// The id of the thread in the report.
    pub thread: u32,
    /// The pieces, the oldest first; at most [`PIECES`].
    pub pieces: Vec<Piece>,
}

/// A line of text and its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimedLine {
    /// `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// The line, without its end.
    pub text: String,
}

/// The end of a program's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The last lines, oldest first, without control characters; each with the time at which sbt read
    /// its end; `u64::MAX` for a line without end so far.
    pub lines: Vec<TimedLine>,
    /// Number of bytes written in all.
    pub bytes: u64,
}

/// A request of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// End watching; the program goes on.
    Leave,
    /// Send the program an interrupt, as from a terminal, and end watching.
    Interrupt,
    /// Turn the probes off, or on again.
    Toggle,
    /// Reset all totals.
    Reset,
    /// List the available counters.
    Offer,
    /// Count only the counters with these names from now on.
    Count(Vec<String>),
    /// Save the report to a file.
    Save,
    /// Give a site a name, also in `sbt.toml`.
    Name {
        /// The id of the site in the report.
        site: u32,
        /// The name; not empty.
        name: String,
    },
    /// Draw the lanes with the next of [`LEVELS`], with shorter or longer pieces.
    Zoom {
        /// Whether pieces get shorter.
        closer: bool,
    },
    /// Send these bytes to the program's input.
    Keys(Vec<u8>),
    /// Tell the program the size of its terminal: columns, rows.
    Size(u16, u16),
    /// Suspend sbt, as a shell's job control does.
    Suspend,
    /// Control the replay of a recording.
    Play(Play),
}

/// A request of the user about a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    /// Pause, or continue.
    Toggle,
    /// Go to the end of the next episode.
    Step,
    /// Double the speed.
    Faster,
    /// Halve the speed.
    Slower,
    /// Go to the beginning.
    Begin,
    /// Go to the end.
    End,
}
