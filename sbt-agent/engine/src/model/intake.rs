//! Takes events in: what each event changes.

use super::{
    Model,
    barrier::possible_count,
    cost::Class,
    key,
    speed::Measured,
    tape::{Step, Tape},
    thread::Hint,
};
use crate::event::{Clocks, Event, MarkId, Reading, Tid};

impl Model {
    /// Takes one event in. Events must come in the order of their times.
    pub fn push(&mut self, event: &Event) {
        self.heed_restart(event);
        if self.is_behind(event) {
            return;
        }
        self.tape.keep(|| Step::Event(event.clone()));
        self.take_event(event);
    }

    fn take_event(&mut self, event: &Event) {
        match event {
            Event::Thread {
                tid,
                shown,
                name,
                since,
                ..
            } => {
                if self.threads.is_another(*tid, *since) {
                    self.bury(*tid, since.time_ns);
                    // The new thread's earlier activity is missing, or was counted for the old
                    // thread.
                    self.threads.meet(*tid, since.time_ns);
                }
                self.threads.introduce(*tid, *shown, name, *since);
            }
            Event::Arrive {
                tid,
                clocks,
                object,
                kind,
                callers,
            } => self.arrive(*tid, *clocks, *object, *kind, *callers),
            Event::Awaits { tid, clocks } => self.awaits(*tid, *clocks),
            Event::Recognised { tid, object, by } => {
                if let Some(live) = self.threads.live(*tid)
                    && let Some(id) = self.barriers.find(key(live.process, *object))
                {
                    self.barriers.get(id).recognised = Some(*by);
                }
            }
            Event::Depart { tid, clocks } => self.depart(*tid, *clocks),
            Event::Region { tid, clocks, depth } => self.region(*tid, *clocks, *depth),
            Event::RegionEnd { tid } => self.region_ends(*tid),
            Event::Memory {
                tid,
                time_ns,
                object,
                count,
                round,
            } => {
                self.threads.meet(*tid, *time_ns);
                if let (Some(live), Some(count)) = (self.threads.live(*tid), possible_count(*count))
                {
                    live.hint = Some(Hint {
                        object: *object,
                        count,
                        round: *round,
                    });
                }
            }
            Event::Init {
                time_ns,
                object,
                kind,
                tid,
                count,
            } => {
                // Initialisation fails with an impossible count, and leaves the object as it was.
                if let Some(count) = possible_count(*count) {
                    self.init(*tid, *time_ns, *object, *kind, count);
                }
            }
            Event::Exit { tid, clocks } => self.exit(*tid, *clocks),
            Event::Exec {
                time_ns, process, ..
            } => self.exec(*time_ns, *process),
            Event::Forked { child, time_ns, .. } => self.turns.fork(*child, *time_ns),
            Event::Ended { process, .. } => self.end_process(*process),
            Event::Lost { tid, count } => self.lost(*tid, *count),
            Event::Mark { tid, clocks, mark } => self.mark(*tid, *clocks, *mark),
            Event::Counters {
                tid,
                time_ns,
                reading,
            } => self.counters(*tid, *time_ns, reading),
            Event::Away { tid, away, takers } => {
                if let Some(tracks) = &mut self.away {
                    tracks.back(*tid, away, takers);
                }
            }
            Event::Speed { .. } => self.speed(event),
            Event::Departures { on } => self.departures = *on,
            Event::Toll {
                tid,
                condvar,
                stepped,
                walked,
            } => self.toll(*tid, *condvar, *stepped, *walked),
            Event::Turn {
                tid,
                time_ns,
                object,
                round,
            } => self.turn((*tid, *time_ns), *object, *round),
            Event::Gap { time_ns } => self.gap(*time_ns),
            // Only the recogniser uses these events, and reports of several recordings the names of
            // communicators.
            Event::Callers { .. }
            | Event::Communicator { .. }
            | Event::Mapped { .. }
            | Event::Wait { .. }
            | Event::Wake { .. }
            | Event::Lock { .. } => {}
        }
    }

    fn mark(&mut self, tid: Tid, clocks: Clocks, mark: MarkId) {
        self.threads.meet(tid, clocks.time_ns);
        self.pay(tid, Class::Mark);
        if let Some(live) = self.threads.live(tid) {
            let before = live.mark.replace((mark, clocks));
            let counts = live.counts.mark(clocks.time_ns);
            self.marks
                .pass(live.row, before, (mark, clocks), counts.as_deref());
        }
    }

    fn counters(&mut self, tid: Tid, time_ns: u64, reading: &Reading) {
        self.threads.meet(tid, time_ns);
        if let Some((live, row)) = self.threads.both(tid)
            && let Some(more) = live.counts.read(time_ns, reading)
        {
            row.counted.add(&more);
        }
    }

    fn speed(&mut self, event: &Event) {
        let Event::Speed {
            tid,
            time_ns,
            took_ns,
        } = event
        else {
            return;
        };
        let Some(took_ns) = self.shortest.check(*took_ns) else {
            return;
        };
        if let Some((live, row)) = self.threads.both(*tid) {
            let time_ns = *time_ns;
            live.speed = Some(Measured { time_ns, took_ns });
            row.speeds.add(took_ns);
        }
    }

    /// Adds costs that other events do not show: see [`Event::Toll`].
    fn toll(&mut self, tid: Tid, condvar: bool, stepped: bool, walked: u32) {
        if condvar {
            self.pay(tid, Class::Condvar);
        }
        if let Some((live, row)) = self.threads.both(tid) {
            live.paid.stepped = live.paid.stepped.saturating_add(u32::from(stepped));
            live.paid.walked = live.paid.walked.saturating_add(walked);
            row.paid.stepped += u64::from(stepped);
            row.paid.walked += u64::from(walked);
        }
    }

    /// Takes in a round number found in a barrier's memory: see [`Event::Turn`].
    fn turn(&mut self, (tid, time_ns): (Tid, Option<u64>), object: u64, round: u32) {
        if let Some((live, row)) = self.threads.both(tid) {
            let key = key(live.process, object);
            let unseen = self.turns.find(key, tid, round, time_ns);
            row.unseen += unseen;
            self.totals.unseen += unseen;
        }
    }

    /// Adds the cost of a probe hit to a thread.
    pub(super) fn pay(&mut self, tid: Tid, class: Class) {
        if let Some((live, row)) = self.threads.both(tid) {
            live.paid.add(class);
            row.paid.add(class);
        }
    }

    /// Starts to record inputs for [`Self::take_tape`].
    pub fn keep_tape(&mut self) {
        self.tape.0.get_or_insert_default();
    }

    /// Stops recording and drops the recorded inputs.
    pub fn drop_tape(&mut self) {
        self.tape = Tape::default();
    }

    /// Returns the inputs since the last call, in order; empty unless recording is on.
    pub fn take_tape(&mut self) -> Vec<Step> {
        self.tape.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Replays an input of another model.
    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Event(event) => self.push(event),
            Step::Place {
                callers,
                place,
                roles,
            } => self.define_place(*callers, *place, *roles),
            Step::Rank { process, rank } => self.set_rank(*process, *rank),
            Step::Tariff(tariff) => self.set_tariff(*tariff),
            Step::ExpectGaps => self.expect_gaps(),
            Step::Off(off) => self.set_off(*off),
            Step::Reset { time_ns } => self.reset(*time_ns),
        }
    }
}
