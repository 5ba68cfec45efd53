//! What the live screen shows: how things stand at one moment, and what the
//! user wants done. Between the session, which makes the one and obeys the
//! other, and the screen, which draws and asks.

use std::sync::Arc;

pub use crate::model::lanes::{LEVELS, MAX_LANES, PIECES, Piece};
use crate::report::Report;
pub use pace::Speed;

pub mod pace;

/// How things stand. Times are in ns since watching began.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// As it would be delivered if watching ended now.
    pub report: Report,
    /// When it was taken. The report begins later if it was reset.
    pub now_ns: u64,
    /// What each of `report.threads` does, in their order.
    pub doing: Vec<Doing>,
    /// The barrier times of each of `report.sites`, in their order.
    pub histograms: Vec<Histogram>,
    /// What the counters of `report.counters` say, in their order.
    pub counters: Vec<CounterFigures>,
    /// What the threads did lately.
    pub lanes: Lanes,
    /// Episodes that ended in each of the last steps of [`PACE_STEP_NS`], at
    /// most [`PACE_STEPS`], the newest last; the newest is not over yet.
    pub pace: Vec<u32>,
    /// Whether the probes are on.
    pub watching: Watching,
    /// When they were off: from, to.
    pub gaps: Vec<(u64, u64)>,
    /// What sbt itself has used of one CPU lately, percent; `None` before it
    /// is known.
    pub own_share_pct: Option<f64>,
    /// What the program has written, if its output comes through us.
    pub output: Option<Arc<Output>>,
    /// What was told of single episodes and phases, and warnings: the last
    /// lines, oldest first.
    pub told: Arc<Vec<String>>,
    /// Which counters there are to choose from, once somebody has asked.
    pub offers: Option<Arc<Vec<Offer>>>,
    /// The answer to what the user asked for last, such as where a report was
    /// saved, with a number that changes with each.
    pub notice: Option<(u64, String)>,
    /// Where in a recording that is, if it is one.
    pub replay: Option<Replaying>,
}

/// Where in a recording a snapshot is. Times are in ns since the recording begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaying {
    /// The moment that is shown.
    pub at_ns: u64,
    /// The last one; `None` if it is not known yet.
    pub of_ns: Option<u64>,
    /// How fast it goes, or would.
    pub speed: Speed,
    /// What it does.
    pub motion: Playing,
}

/// What a replay does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Playing {
    /// It goes on.
    On,
    /// It stands still.
    Paused,
    /// There is no more.
    AtEnd,
}

/// How often a time was in each of some ranges that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(
    /// From so many ns to twice that (the first range begins at 0): how often.
    pub Vec<(u64, u64)>,
);

/// A step of [`Snapshot::pace`], ns.
pub const PACE_STEP_NS: u64 = 500_000_000;

/// The most steps of [`Snapshot::pace`].
pub const PACE_STEPS: usize = 120;

/// A counter that could be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What it is called.
    pub name: String,
    /// What it counts, if that is not its name.
    pub about: String,
    /// Why it cannot be counted here.
    pub missing: Option<String>,
}

/// What a counter says, in the order of the report's lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterFigures {
    /// Whether it is counted now, as far as the user wants it.
    pub is_chosen: bool,
    /// Of the work of all threads before the barriers of `report.sites`.
    pub sites: Vec<CounterFigure>,
    /// Of the work of each thread of `report.sites[].threads`.
    pub site_threads: Vec<Vec<CounterFigure>>,
    /// Of all work of `report.threads`.
    pub threads: Vec<CounterFigure>,
    /// Of the work of all threads in `report.phases`.
    pub phases: Vec<CounterFigure>,
    /// Of the work of all threads in `report.conceptual_phases`.
    pub conceptual: Vec<CounterFigure>,
    /// Of what threads did in `report.intervals`; its phase is one way of one thread.
    pub intervals: Vec<CounterFigure>,
}

/// What a counter says of some work: numbers of events, or ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CounterFigure {
    /// Since watching began, or since the last reset; `None` if nothing is known.
    pub sum: Option<u64>,
    /// The mean of a phase, of all threads that the row is about together.
    pub per_phase: Option<f64>,
    /// A second of wall time, over the last seconds in which a phase has ended.
    pub per_second: Option<f64>,
}

/// What a thread does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It is outside of all barriers, since this time.
    Working {
        /// ns.
        since_ns: u64,
    },
    /// It is in a barrier.
    Waiting {
        /// Since when, ns.
        since_ns: u64,
        /// From where it was called.
        at: String,
    },
    /// It has ended.
    Ended,
    /// It has met no barrier yet, or what it does was not seen.
    Unknown,
}

/// Whether the probes are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// They are.
    On,
    /// Not at the user's wish, since this time, ns.
    Off {
        /// ns.
        since_ns: u64,
    },
    /// The target has ended, with this exit status if it was ours to take.
    Ended {
        /// 128 + N for signal N.
        status: Option<u8>,
        /// From the beginning of the program, or of watching it, to its end, ns.
        ran_ns: u64,
    },
}

/// What threads did lately, each cut into equal pieces of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// How long a piece is, ns: one of [`LEVELS`].
    pub piece_ns: u64,
    /// Where the last piece of every lane ends.
    pub end_ns: u64,
    /// At most [`MAX_LANES`].
    pub lanes: Vec<Lane>,
}

/// One thread's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Its number in the report.
    pub thread: u32,
    /// The oldest first, at most [`PIECES`].
    pub pieces: Vec<Piece>,
}

/// The end of a program's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The last lines, oldest first, without control characters.
    pub lines: Vec<String>,
    /// Bytes written in all.
    pub bytes: u64,
}

/// What the user wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// End the watching; the program goes on.
    Leave,
    /// The program is to get an interrupt, as from a terminal; ends the
    /// watching too.
    Interrupt,
    /// Probes off, or on again.
    Toggle,
    /// All sums from zero on.
    Reset,
    /// Tell which counters there are.
    Offer,
    /// Count these from now on, by their names, and no others.
    Count(Vec<String>),
    /// Save the report to a file.
    Save,
    /// Give a site (its number in the report) a name, in `sbt.toml` too.
    Name {
        /// Its number.
        site: u32,
        /// Not empty.
        name: String,
    },
    /// The lanes are to have the next of [`LEVELS`], towards shorter pieces or
    /// longer ones.
    Zoom {
        /// Shorter.
        closer: bool,
    },
    /// The program is to read this.
    Keys(Vec<u8>),
    /// The program's terminal has this size: columns, rows.
    Size(u16, u16),
    /// Stop, as a shell's job control does.
    Suspend,
    /// Of a recording.
    Play(Play),
}

/// What the user wants of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    /// Stand still, or go on.
    Toggle,
    /// To the end of the next episode.
    Step,
    /// Twice as fast.
    Faster,
    /// Half as fast.
    Slower,
    /// From the beginning.
    Begin,
    /// To the end.
    End,
}
