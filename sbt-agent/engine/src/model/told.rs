//! Single episodes for whoever wants to see them one by one.

use serde::{Deserialize, Serialize};

use super::{
    ids::{PlaceId, SiteId, ThreadId},
    parts::{Done, Split},
};
use crate::event::Reading;

/// Which episodes are told beside those of watched places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// All of them.
    pub all: bool,
    /// Those whose barrier time exceeds this, ns.
    pub above_ns: Option<u64>,
}

impl Telling {
    pub(super) fn wants(self, done: &Done) -> bool {
        self.all || self.above_ns.is_some_and(|limit| done.barrier_ns() > limit)
    }
}

/// A complete episode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    /// Where.
    pub site: SiteId,
    /// How many were completed there before.
    pub index: u64,
    /// Its times.
    pub done: Done,
    /// In order of arrival.
    pub arrivals: Vec<Arrival>,
}

/// One thread's arrival in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Who.
    pub thread: ThreadId,
    /// From where.
    pub place: PlaceId,
    /// When, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// `L - a_i`, ns.
    pub idle_ns: u64,
    /// `d_i - L`, ns, if the departure was seen.
    pub release_ns: Option<u64>,
    /// `a_i - start_i`, ns, if the start is known.
    pub work_ns: Option<u64>,
    /// How that splits up; recordings of older versions do not have it.
    #[serde(default)]
    pub split: Split,
    /// What counters said of that work, if anything is counted.
    pub counts: Option<Reading>,
}

impl Told {
    /// The arrivals in their order, each with the time since the one before
    /// it, ns; 0 for the first.
    pub fn in_order(&self) -> impl Iterator<Item = (u64, &Arrival)> {
        let mut before = None;
        self.arrivals.iter().map(move |arrival| {
            let gap_ns = before.map_or(0, |before| arrival.time_ns - before);
            before = Some(arrival.time_ns);
            (gap_ns, arrival)
        })
    }
}
