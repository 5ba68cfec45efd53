//! The ends of threads, programs and processes.

use super::{
    Model,
    begun::Regions,
    efficiency::{Chain, Usage},
    episode::Left,
    parts::{Before, Since, Split},
};
use crate::event::{Clocks, Tid};

impl Model {
    pub(super) fn exit(&mut self, tid: Tid, clocks: Clocks) {
        let seat = self.threads.live(tid).and_then(|live| live.seat);
        let departs = seat.is_none_or(|seat| self.departs(seat.barrier));
        // While the probes are off, barriers that were not seen lie between the last one and the end.
        let is_seen = !self.turns.is_off();
        let Some((live, row)) = self.threads.both(tid) else {
            return;
        };
        let (has_arrived, born_ns) = (row.arrivals > 0, live.born_ns);
        // A thread that was not seen to leave may have died where it waited. A thread that is kept
        // for the next region may not have been seen to leave the last one.
        let working = live.seat.is_none() || !departs || live.regions.is_kept;
        if let Some(since) = live
            .since
            .filter(|since| working && is_seen && since.before != Before::Start)
        {
            let work = clocks.time_ns.saturating_sub(since.clocks.time_ns);
            if live.regions.is_kept {
                row.between_ns = row.between_ns.saturating_add(work);
            } else {
                let split = Split::between(since.clocks, clocks);
                row.work.add(Some(work));
                // A thread that mostly sleeps after its last barrier waits for others to end; when
                // it last worked is not known.
                let is_asleep = split.running_ns.is_some_and(|running| running < work / 2);
                if !is_asleep {
                    row.worked_until_ns = clocks.time_ns;
                }
                row.split.add(split);
                row.end.add(split);
                if let Some(tracks) = &mut self.away {
                    let away = tracks.end(tid, Some(since.clocks.time_ns), clocks.time_ns);
                    row.away.add(away.as_deref());
                }
                let work = Some((work, split));
                self.usage.work(live.chain, work, clocks.time_ns);
            }
            let counts = live.counts.end(Some(since.clocks.time_ns), clocks.time_ns);
            if let Some(counts) = counts.filter(|_| !live.regions.is_kept) {
                row.counts.add(&counts);
            }
        }
        if let Some(seat) = live.seat.take() {
            let barrier = self.barriers.get(seat.barrier);
            let open = barrier.open.serial == seat.episode;
            if open && barrier.count.is_none() && !departs {
                // The thread may have left, or have died while it waited; others may have left as
                // well.
                self.close_open(seat.barrier);
            }
            // The thread stays in the open episode: the barrier has counted it, and it matters for
            // the diagnosis of a hang.
            self.mark_left(seat, Left::Unseen);
        }
        self.turns.leave(tid, has_arrived, born_ns);
        self.bury(tid, clocks.time_ns);
    }

    pub(super) fn bury(&mut self, tid: Tid, time_ns: u64) {
        if let Some(live) = self.threads.live(tid) {
            self.compensated.end(live.row, time_ns, live.paid);
            self.conceptual.leave(live.row);
            self.usage.leave(live.chain, time_ns);
        }
        self.threads.bury(tid);
        if let Some(tracks) = &mut self.away {
            tracks.forget(tid);
        }
    }

    /// A process executes another program: nothing that was open in it will ever end.
    pub(super) fn exec(&mut self, time_ns: u64, process: u32) {
        let is_alone = self
            .threads
            .all_living()
            .all(|live| live.process == process);
        // Open spans count as unended rather than missed, so this comes before episodes are closed.
        if is_alone {
            self.conceptual.leave_all();
        }
        for id in self.barriers.ids() {
            if is_alone || self.barriers.get(id).key.0 == process {
                self.settle_leaving(id);
                self.close_open(id);
            }
        }
        for (tid, live) in self.threads.living() {
            if live.process != process {
                continue;
            }
            if let Some(tracks) = &mut self.away {
                tracks.forget(tid);
            }
            live.since = Some(Since {
                clocks: Clocks::at(time_ns),
                before: Before::Start,
            });
            live.hint = None;
            live.seat = None;
            live.mark = None;
            live.regions = Regions::default();
            if is_alone {
                live.chain = Chain::default();
            }
            live.counts.forget();
        }
        self.turns.forget();
        self.compensated.gap();
        self.barriers.forget(process);
        if is_alone {
            self.start_ns = time_ns;
            self.usage = Usage::new(time_ns);
            self.first_end_ns = None;
        }
    }

    /// A process has ended: its addresses no longer mean the same barriers.
    pub(super) fn end_process(&mut self, process: u32) {
        self.turns.end_process(process);
        for id in self.barriers.ids() {
            if self.barriers.get(id).key.0 == process {
                self.settle_leaving(id);
                self.close_open(id);
            }
        }
        self.barriers.forget(process);
    }
}
