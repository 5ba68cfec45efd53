//! Single episodes, for a view that shows each episode.

use serde::{Deserialize, Serialize};

use super::{
    ids::{PlaceId, SiteId, ThreadId},
    parts::{Done, Split},
};
use crate::event::Reading;

/// The choice of episodes that are reported in addition to those of watched places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// All episodes.
    pub all: bool,
    /// Episodes whose barrier time exceeds this, ns.
    pub above_ns: Option<u64>,
}

impl Telling {
    pub(super) fn wants(self, done: &Done) -> bool {
        self.all || self.above_ns.is_some_and(|limit| done.barrier_ns() > limit)
    }
}

/// A complete episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToldEpisode {
    /// The site of the episode.
    pub site: SiteId,
    /// Episodes completed at the site before this one.
    pub index: u64,
    /// The number of the phase that ends with this episode among those of all sites, from 1, in the order
    /// in which their last threads were seen to leave; 0 in data of older versions.
    #[serde(default)]
    pub number: u64,
    /// Times and straggler of the episode.
    pub done: Done,
    /// The arrivals in order of time.
    pub arrivals: Vec<Arrival>,
}

/// One thread's arrival in an episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The thread.
    pub thread: ThreadId,
    /// The place from which the thread called the barrier.
    pub place: PlaceId,
    /// The time at which the thread arrived, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// Idle time, `L - a_i`, ns.
    pub idle_ns: u64,
    /// Release time, `d_i - L`, ns; `None` if the departure was not seen.
    pub release_ns: Option<u64>,
    /// Work before the arrival, `a_i - start_i`, ns; `None` if the start is unknown.
    pub work_ns: Option<u64>,
    /// The split of the work into running, ready and blocked time; absent in recordings of older
    /// versions.
    #[serde(default)]
    pub split: Split,
    /// Counter values for the work, if anything is counted.
    pub counts: Option<Reading>,
}

impl ToldEpisode {
    /// The arrivals in order, each with the time since the previous arrival, ns; 0 for the first.
    pub fn in_order(&self) -> impl Iterator<Item = (u64, &Arrival)> {
        let mut before = None;
        self.arrivals.iter().map(move |arrival| {
            let gap_ns = before.map_or(0, |before| arrival.time_ns - before);
            before = Some(arrival.time_ns);
            (gap_ns, arrival)
        })
    }
}
