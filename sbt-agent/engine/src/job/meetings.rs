//! The collectives of all ranks of a machine, by the clock of that machine.
//!
//! All ranks make the same collective calls on `MPI_COMM_WORLD` in the same order, so the n-th call of
//! each rank belongs to the n-th collective.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::clocks::Meeting;
use crate::event::{Event, Tid};

/// The most collectives that are open at a time. A rank cannot be ahead of another one by more than a
/// collective, unless events are missing.
const MOST_OPEN: usize = 1 << 12;

/// The most barriers on the world, of all recordings together. A rank has one for each function of MPI.
const MOST_WORLDS: usize = 1 << 16;

/// A collective that some rank has not left yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    left: usize,
    meeting: Meeting,
    /// Whether a departure was not seen.
    is_unseen: bool,
}

/// A collective that all ranks have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// All departures were seen.
    Seen(Meeting),
    /// Some departure was not seen.
    Unseen,
}

/// The collectives on the world of the ranks of one machine.
#[derive(Debug)]
pub struct Meetings {
    ranks: usize,
    /// The world's objects, by recording.
    worlds: FxHashSet<(usize, u64)>,
    /// How many collectives each recording has come to.
    come: FxHashMap<usize, u64>,
    /// The collective in which a thread is.
    inside: FxHashMap<(usize, Tid), u64>,
    /// The number of the first open collective.
    first: u64,
    open: VecDeque<Open>,
}

impl Meetings {
    /// The meetings of so many ranks, each with a recording of its own.
    pub fn of(ranks: usize) -> Self {
        Self {
            ranks,
            worlds: FxHashSet::default(),
            come: FxHashMap::default(),
            inside: FxHashMap::default(),
            first: 0,
            open: VecDeque::new(),
        }
    }

    /// Takes in an event of a recording. The events of all recordings come in the order of their times.
    pub fn take(&mut self, recording: usize, event: &Event) {
        match event {
            Event::Communicator { object, name, .. }
                if super::is_on_world(name) && self.worlds.len() < MOST_WORLDS =>
            {
                self.worlds.insert((recording, *object));
            }
            Event::Arrive {
                tid,
                clocks,
                object,
                ..
            } => {
                self.leave((recording, *tid), None);
                if self.worlds.contains(&(recording, *object)) {
                    self.arrive(recording, *tid, clocks.time_ns);
                }
            }
            Event::Depart { tid, clocks } => {
                self.leave((recording, *tid), Some(clocks.time_ns));
            }
            Event::Exit { tid, .. } => self.leave((recording, *tid), None),
            _ => {}
        }
    }

    /// The next collective that all ranks have left, if there is one.
    pub fn take_left(&mut self) -> Option<Left> {
        let is_left = |open: &&Open| self.ranks > 0 && open.left >= self.ranks;
        let first = *self.open.front().filter(is_left)?;
        self.open.pop_front();
        self.first += 1;
        Some(if first.is_unseen {
            Left::Unseen
        } else {
            Left::Seen(first.meeting)
        })
    }

    fn arrive(&mut self, recording: usize, tid: Tid, time_ns: u64) {
        let come = self.come.entry(recording).or_default();
        let number = *come;
        *come += 1;
        let Some(index) = number
            .checked_sub(self.first)
            .and_then(|index| usize::try_from(index).ok())
            .filter(|index| *index < MOST_OPEN)
        else {
            return;
        };
        while self.open.len() <= index {
            self.open.push_back(Open {
                left: 0,
                meeting: Meeting {
                    last_arrival_ns: 0,
                    first_departure_ns: u64::MAX,
                },
                is_unseen: false,
            });
        }
        let open = &mut self.open[index];
        open.meeting.last_arrival_ns = open.meeting.last_arrival_ns.max(time_ns);
        self.inside.insert((recording, tid), number);
    }

    fn leave(&mut self, thread: (usize, Tid), time_ns: Option<u64>) {
        let number = self.inside.remove(&thread);
        let index = number.and_then(|number| number.checked_sub(self.first));
        let index = index.and_then(|index| usize::try_from(index).ok());
        let Some(open) = index.and_then(|index| self.open.get_mut(index)) else {
            return;
        };
        open.left += 1;
        open.is_unseen |= time_ns.is_none();
        if let Some(time_ns) = time_ns {
            let first = &mut open.meeting.first_departure_ns;
            *first = (*first).min(time_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CallersId, Clocks, Kind};

    const WORLD: u64 = 0x1000;

    fn named() -> Event {
        Event::Communicator {
            tid: 1,
            object: WORLD,
            name: super::super::WORLD.into(),
        }
    }

    fn arrive(time_ns: u64, object: u64) -> Event {
        Event::Arrive {
            tid: 1,
            clocks: Clocks::at(time_ns),
            object,
            kind: Kind::Mpi,
            callers: CallersId(1),
        }
    }

    fn depart(time_ns: u64) -> Event {
        Event::Depart {
            tid: 1,
            clocks: Clocks::at(time_ns),
        }
    }

    #[test]
    fn the_last_arrival_and_the_first_departure_count() {
        let mut meetings = Meetings::of(2);
        meetings.take(0, &named());
        meetings.take(1, &named());
        meetings.take(0, &arrive(10, WORLD));
        meetings.take(1, &arrive(20, WORLD));
        meetings.take(1, &depart(25));
        // The next collective of one rank begins before the other one has left.
        meetings.take(1, &arrive(26, WORLD));
        assert_eq!(meetings.take_left(), None);
        meetings.take(0, &depart(30));
        let meeting = Meeting {
            last_arrival_ns: 20,
            first_departure_ns: 25,
        };
        assert_eq!(meetings.take_left(), Some(Left::Seen(meeting)));
        assert_eq!(meetings.take_left(), None);
        // A departure is missing; collectives on other communicators do not count.
        meetings.take(0, &arrive(40, WORLD));
        meetings.take(0, &depart(50));
        meetings.take(1, &arrive(60, 0x2000));
        meetings.take(1, &depart(61));
        assert_eq!(meetings.take_left(), Some(Left::Unseen));
        assert_eq!(meetings.take_left(), None);
    }
}
