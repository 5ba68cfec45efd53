//! Forgets communicators and the calls that make them: those that no process can use any more, and all
//! if there are too many to keep.

use super::{CommunicatorId, Families, Key, Known, OneProcess, Process, Turn};

/// The most communicators, and the most calls that make them, that are kept. No library has so many at
/// a time.
pub(super) const MOST: usize = 1 << 16;

/// The most communicators, groups and calls that are kept for a process. sbt no longer follows the
/// calls of a process with more.
pub(super) const MOST_OF_ONE: usize = 1 << 13;

impl OneProcess {
    /// Whether the process has more communicators, groups and calls than are kept.
    fn has_too_much(&self) -> bool {
        let kept = [
            self.named.len(),
            self.groups.len(),
            self.calls_by_group.len(),
            self.inside.len(),
        ];
        kept.iter().sum::<usize>() > MOST_OF_ONE
    }
}

impl Families {
    /// Keeps the numbers of communicators and calls within their limits. `process`: the process that has
    /// made the last call.
    pub(super) fn limit(&mut self, process: Process) {
        let one = self.processes.get(&process);
        if one.is_some_and(OneProcess::has_too_much) {
            self.doubt(process);
        }
        let kept = |all: &Self| all.known.len().max(all.coming.len());
        if kept(self) <= MOST {
            return;
        }
        self.sweep();
        // Unless half is free again, the next sweep would follow soon.
        if kept(self) > MOST / 2 {
            // From here on sbt knows nothing of any process: that is little, but not wrong.
            self.overflowed = true;
            self.processes.clear();
            self.known.clear();
            self.ids.clear();
            self.coming.clear();
        }
    }

    /// Forgets the calls to which no process can come any more, with the communicators that they have
    /// made and that no process has.
    pub(super) fn sweep(&mut self) {
        let is_unheld = |id| {
            self.known
                .get(id)
                .is_some_and(|known: &Known| known.holders == 0)
        };
        let calls = self.coming.iter().filter(|(_, coming)| {
            coming.is_left() && (coming.made.is_empty() || coming.made.iter().any(is_unheld))
        });
        let turns: Vec<Turn> = calls.map(|(turn, _)| turn.clone()).collect();
        for turn in turns {
            self.drop_over(&turn);
        }
    }

    /// A process has one name less for a communicator.
    pub(super) fn release(&mut self, id: CommunicatorId) {
        if let Some(known) = self.known.get_mut(&id) {
            known.holders = known.holders.saturating_sub(1);
        }
        self.drop_unheld(id);
    }

    /// Forgets a communicator if no process has it, or will get it.
    fn drop_unheld(&mut self, id: CommunicatorId) {
        let Some(known) = self.known.get(&id).filter(|known| known.holders == 0) else {
            return;
        };
        if let Key::Part(turn, _) = &known.key {
            if !self.is_over(turn) {
                return;
            }
            let turn = turn.clone();
            if let Some(coming) = self.coming.get_mut(&turn) {
                coming.made.retain(|made| *made != id);
                if coming.made.is_empty() {
                    self.coming.remove(&turn);
                }
            }
        }
        if let Some(known) = self.known.remove(&id) {
            self.ids.remove(&known.key);
        }
    }

    /// Whether a call is over: all ranks that have come have left, and no other rank will come.
    fn is_over(&self, turn: &Turn) -> bool {
        let Some(coming) = self.coming.get(turn) else {
            return true;
        };
        if !coming.is_left() {
            return false;
        }
        let size = self.known.get(&turn.of).and_then(|of| of.size);
        let all = match &turn.by {
            Some((group, _)) => group.size(size),
            None => size,
        };
        all.is_some_and(|all| coming.left >= all as usize) || !self.is_awaited(turn)
    }

    /// Whether a process may still come to a call. A process that is not watched, or not from its start
    /// on, counts as one that does not come.
    fn is_awaited(&self, turn: &Turn) -> bool {
        // A process that is about to get the communicator of the call may come, too.
        let maker = match self.known.get(&turn.of).map(|known| &known.key) {
            Some(Key::Part(maker, _)) => Some(maker),
            _ => None,
        };
        let is_member = |process: Process| {
            let Some((group, _)) = &turn.by else {
                return true;
            };
            let number = self.number(process, group.of);
            number.is_none_or(|number| group.place(number).is_some())
        };
        let key = turn.by.clone();
        let key = key.map(|(group, tag)| (turn.of, group, tag));
        self.processes.iter().any(|(process, one)| {
            let calls = match &key {
                Some(key) => one.calls_by_group.get(key),
                None => one.calls.get(&turn.of),
            };
            one.rank.is_complete
                && calls.is_none_or(|calls| *calls <= turn.number)
                && (one.has(turn.of) || maker.is_some_and(|maker| one.is_in(maker)))
                && is_member(*process)
        })
    }

    /// A process has left a call.
    pub(super) fn left(&mut self, turn: &Turn) {
        let Some(coming) = self.coming.get_mut(turn) else {
            return;
        };
        coming.left += 1;
        // Communicators that were freed before the last process left the call could not be forgotten
        // then.
        self.drop_over(turn);
    }

    /// Forgets a call if it is over, and the communicators that it has made and that no process has.
    fn drop_over(&mut self, turn: &Turn) {
        let Some(coming) = self.coming.get(turn) else {
            return;
        };
        let made = coming.made.clone();
        if made.is_empty() && self.is_over(turn) {
            self.coming.remove(turn);
        }
        for id in made {
            self.drop_unheld(id);
        }
    }
}
