//! What is decided anew every now and then: what is worth watching.

use anyhow::Context as _;

use super::{Session, budget::Step, futexes};
use sbt_engine::event::Event;
use sbt_program::{clock, process};

impl Session {
    /// Lets go what the recogniser holds back for too long.
    pub(super) fn recognise(&mut self) {
        if let Some(source) = self.source.as_deref_mut()
            && let Err(error) = self
                .recognition
                .tick(clock::now_ns(), source, &mut self.model)
        {
            self.notes.push(format!("{error:#}"));
        }
    }

    /// Asks anew how many CPUs the target may use: it may bind its threads.
    pub(super) fn count_cpus(&mut self) {
        if self.source.is_some() {
            self.cpus.look(self.pid);
        }
    }

    /// Notices that a signal has stopped the target.
    pub(super) fn notice_stops(&mut self) {
        if self.source.is_some() && !self.is_off() {
            let (now_ns, arrivals) = (clock::now_ns(), self.model.totals().arrivals);
            let pid = self.pid;
            self.stopped
                .tick(now_ns, arrivals, || process::is_stopped(pid));
        }
    }

    /// Decides anew whether departures are worth their cost.
    pub(super) fn govern(&mut self) {
        if self.budget.is_thinning() {
            // Rates say nothing while not all is seen.
            return;
        }
        let totals = self.model.totals();
        let rows = self.model.threads().rows().iter();
        let threads = self.governor.active(rows.map(|row| row.arrivals));
        let change = self
            .governor
            .tick(clock::now_ns(), totals.arrivals, threads);
        if let (Some(on), Some(source)) = (change, &mut self.source) {
            match source.set_departures(on) {
                Ok(()) => self.model.push(&Event::Departures { on }),
                Err(error) => self.notes.push(format!("{error:#}")),
            }
        }
    }

    /// What the probes have cost each thread so far, ns.
    fn costs(&self) -> Vec<f64> {
        let rows = self.model.threads().rows().iter();
        self.cost.tariff().map_or_else(Vec::new, |tariff| {
            rows.map(|row| row.paid.ns(tariff)).collect()
        })
    }

    /// Decides anew whether watching costs too much.
    pub(super) fn keep_to_budget(&mut self) {
        self.cost.look(&mut self.model);
        // Before it is known what probes cost no time has passed for the budget.
        if self.source.is_none() || self.is_off() || self.cost.tariff().is_none() {
            return;
        }
        let costs = self.costs().into_iter();
        let may_drop = self.governor.may_drop();
        let step = self.budget.tick(clock::now_ns(), costs, may_drop);
        if self.budget.is_over() {
            self.model.expect_gaps();
        }
        self.thin(step);
    }

    /// The same between two such decisions, while the run is young.
    pub(super) fn look_at_budget(&mut self) {
        self.cost.look(&mut self.model);
        if self.source.is_none() || self.is_off() || self.cost.tariff().is_none() {
            return;
        }
        let costs = self.costs().into_iter();
        let step = self.budget.look(clock::now_ns(), costs);
        self.thin(step);
    }

    /// The next span begins, or the one after it.
    pub(super) fn thin_next(&mut self) {
        let costs = self.costs().into_iter();
        let step = self.budget.turn(clock::now_ns(), costs);
        self.thin(step);
    }

    fn thin(&mut self, step: Option<Step>) {
        let (Some(step), Some(source)) = (step, &mut self.source) else {
            return;
        };
        let done = match step {
            Step::DropDepartures => {
                self.governor.drop_them();
                self.model.push(&Event::Departures { on: false });
                source.set_departures(false)
            }
            Step::Thin => {
                self.model.expect_gaps();
                Ok(())
            }
            Step::Off => {
                self.spinning.give_up(clock::now_ns());
                self.hangs.lose_sight(clock::now_ns());
                source.pause();
                self.model.set_off(true);
                Ok(())
            }
            Step::On | Step::Whole => {
                // What was seen before has come in: there was time enough.
                let time_ns = clock::now_ns();
                let gap = Event::Gap { time_ns };
                self.recognition
                    .push(&gap, &mut self.resolver, &mut self.model);
                // Libraries that came meanwhile were not told of.
                self.resolver.turn_to(self.pid);
                self.resolver.refresh();
                let files = self.resolver.new_files();
                self.model.set_off(false);
                let done = source.attach(&files).and_then(|()| source.resume());
                // That took a while in which nobody looked yet, either.
                let time_ns = clock::now_ns();
                let gap = Event::Gap { time_ns };
                self.recognition
                    .push(&gap, &mut self.resolver, &mut self.model);
                self.budget.came_on(time_ns);
                let arrivals = self.model.totals().arrivals;
                self.hangs.regain_sight(time_ns, arrivals);
                done
            }
        };
        if let Err(error) = done {
            let note = format!("{error:#}");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Where the end came while the probes were off for the budget: who was in a barrier
    /// before has left it since, and nobody saw that.
    pub(super) fn forget_unwatched(&mut self) {
        if !self.model.is_off() {
            return;
        }
        let gap = Event::Gap {
            time_ns: self.end_ns,
        };
        self.recognition
            .push(&gap, &mut self.resolver, &mut self.model);
    }

    /// Decides anew whether the system calls of futexes are worth watching.
    pub(super) fn govern_futexes(&mut self) {
        if self.budget.is_thinning() {
            // Nor would they show that there are no barriers.
            return;
        }
        let (futexes, others) = self.recognition.arrivals();
        let seen = futexes::Seen {
            threads: self.processes.threads(),
            others,
            futexes,
        };
        if let Some(source) = self.source.as_deref() {
            self.locks.tick(clock::now_ns(), source);
        }
        if let Some(on) = self.futexes.tick(clock::now_ns(), seen) {
            self.set_futexes(on);
        }
        // Without probes nobody knows whether barriers are hit.
        if self.source.is_some() && !self.is_off() {
            // Its children are not looked at.
            let seen = futexes::Seen {
                threads: process::threads(self.pid),
                ..seen
            };
            self.spinning
                .tick(clock::now_ns(), seen, self.pid, &mut self.resolver);
        }
    }

    pub(super) fn set_futexes(&mut self, on: bool) {
        let Some(source) = self.source.as_deref_mut() else {
            return;
        };
        let mut switch = || {
            if on {
                self.resolver.follow_system_calls();
                if let Some(rules) = self.resolver.new_rules() {
                    source.learn(&rules)?;
                }
            }
            source.set_futexes(on)?;
            if on {
                self.locks.watch();
            } else {
                // Who waits now will not be seen to go on.
                self.locks.read(source);
                source.clear_locks(None).context("forgetting locks")?;
                self.locks.begin_anew();
            }
            anyhow::Ok(())
        };
        if let Err(error) = switch() {
            self.notes.push(format!("{error:#}"));
            self.futexes.give_up();
        }
    }
}
