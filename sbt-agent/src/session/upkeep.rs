//! Decides periodically what is worth watching.

use anyhow::Context as _;

use super::{Session, budget::Step, futexes};
use sbt_engine::event::Event;
use sbt_program::{clock, process};

/// The note on a source that cannot watch the system calls of futexes.
const NO_FUTEXES: &str = "the system calls of futexes are seen with --backend ebpf alone: barriers \
    made of nothing else, and locks, are not seen";

impl Session {
    /// Releases events that the recogniser holds back for too long.
    pub(super) fn recognise(&mut self) {
        if let Some(source) = self.source.as_deref_mut()
            && let Err(error) = self
                .recognition
                .tick(clock::now_ns(), source, &mut self.model)
        {
            self.notes.push(format!("{error:#}"));
        }
    }

    /// Reads again how many CPUs the target may use: the program may bind its threads.
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

    /// Decides again whether departures are worth their cost.
    pub(super) fn govern(&mut self) {
        if self.budget.is_thinning() {
            // Rates are meaningless while the probes are on for part of the time only.
            return;
        }
        let totals = self.model.totals();
        let rows = self.model.threads().rows().iter();
        let threads = self.governor.active(rows.map(|row| row.arrivals));
        let change = self
            .governor
            .tick(clock::now_ns(), totals.arrivals, threads);
        if let (Some(on), Some(source)) = (change, &mut self.source)
            && let Some(departures) = source.departures()
        {
            match departures.set_departures(on) {
                Ok(()) => self.model.push(&Event::Departures { on }),
                Err(error) => self.notes.push(format!("{error:#}")),
            }
        }
    }

    /// What the probes have cost each thread so far, ns; empty until the cost of a probe is known.
    fn costs(&self) -> Vec<f64> {
        let rows = self.model.threads().rows().iter();
        self.cost.tariff().map_or_else(Vec::new, |tariff| {
            rows.map(|row| row.paid.ns(tariff)).collect()
        })
    }

    /// Decides again whether watching costs too much.
    pub(super) fn keep_to_budget(&mut self) {
        self.cost.look(&mut self.model);
        // The budget's time starts when the cost of a probe is known.
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

    /// Checks between two ticks whether watching costs far too much, while the run is young.
    pub(super) fn look_at_budget(&mut self) {
        self.cost.look(&mut self.model);
        if self.source.is_none() || self.is_off() || self.cost.tariff().is_none() {
            return;
        }
        let costs = self.costs().into_iter();
        let step = self.budget.look(clock::now_ns(), costs);
        self.thin(step);
    }

    /// Ends the current on or off span of a thinned run when its time has come.
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
                match source.departures() {
                    Some(departures) => departures.set_departures(false),
                    None => Ok(()),
                }
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
                // The probes were off long enough for all earlier events to come in.
                let time_ns = clock::now_ns();
                let gap = Event::Gap { time_ns };
                self.recognition
                    .push(&gap, &mut self.resolver, &mut self.model);
                // No event reported libraries that were mapped while the probes were off.
                self.resolver.turn_to(self.pid);
                self.resolver.refresh();
                let files = self.resolver.new_files();
                self.model.set_off(false);
                let done = source.attach(&files).and_then(|()| source.resume());
                // Attaching took a while, in which nothing was watched either.
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

    /// Handles an end of watching while the probes are off for the budget: threads that were in a
    /// barrier may have left it unseen.
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

    /// Decides again whether the system calls of futexes are worth watching.
    pub(super) fn govern_futexes(&mut self) {
        if self.budget.is_thinning() {
            // A thinned run cannot show that there are no barriers.
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
        // Without probes it is unknown whether barriers are hit.
        if self.source.is_some() && !self.is_off() {
            // The search for spinning covers the target alone, not its children.
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
                if let (Some(rules), Some(callers)) = (self.resolver.new_rules(), source.callers())
                {
                    callers.learn(&rules)?;
                }
            }
            let futexes = source.futexes().context(NO_FUTEXES)?;
            futexes.set_futexes(on)?;
            if on {
                self.locks.watch();
            } else {
                // Waits under way will end unseen, so their counts are reset.
                self.locks.read(source);
                if let Some(counts) = source.locks() {
                    counts.clear_locks(None).context("forgetting locks")?;
                }
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
