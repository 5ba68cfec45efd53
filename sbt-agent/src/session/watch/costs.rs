//! Decides again and again which probes are worth their cost, and switches them.

use anyhow::Context as _;

use super::{super::understanding::Understanding, Notes, Watch, budget::Step};
use crate::source::Source;
use sbt_program::clock;

use super::super::understanding::seen::Seen;

/// The error of a source that cannot watch the system calls of futexes.
const NO_FUTEXES: &str = "only --backend ebpf sees the system calls of futexes: barriers \
    made from futexes are not seen, and locks only where a look meets a thread that waits";

/// Starts or stops reporting departures, if the source can.
fn set_departures(source: &mut dyn Source, on: bool) -> anyhow::Result<()> {
    match source.departures() {
        Some(departures) => departures.set_departures(on),
        None => Ok(()),
    }
}

impl Watch {
    /// Decides again whether departures are worth their cost.
    pub fn govern_departures(&mut self, understanding: &mut Understanding, notes: &mut Notes) {
        if self.budget.is_thinning() {
            // Rates are meaningless while the probes are on for part of the time only.
            return;
        }
        let threads = self.departures.active(understanding.arrivals_by_thread());
        let arrivals = understanding.arrivals();
        let change = self.departures.tick(clock::now_ns(), arrivals, threads);
        if let (Some(on), Some(source)) = (change, self.source.as_deref_mut()) {
            match set_departures(source, on) {
                Ok(()) => understanding.set_departures(on),
                Err(error) => notes.push(format!("{error:#}")),
            }
        }
    }

    /// Decides again whether the probes of condition variables are worth their cost. `uses`: how
    /// often condition variables were used so far.
    pub fn govern_condvars(
        &mut self,
        (now_ns, uses, has_barriers): (u64, u64, bool),
        understanding: &mut Understanding,
        notes: &mut Notes,
    ) {
        if let Some(on) = self.condvars.tick(now_ns, uses, has_barriers) {
            understanding.blind();
            if let Some(condvars) = self.source.as_deref_mut().and_then(Source::condvars) {
                notes.keep(condvars.set_condvars(on));
            }
        }
    }

    /// Whether the costs of watching can be compared with the budget: the budget's time starts when
    /// the cost of a probe is known. While a mark is awaited that begins or ends what counts, the
    /// probes stay on whatever they cost.
    fn knows_costs(&self, understanding: &Understanding) -> bool {
        let awaits_mark = understanding.model().window().awaits_mark();
        self.source.is_some() && !self.is_off && !awaits_mark && understanding.knows_costs()
    }

    /// Decides again whether watching costs too much.
    pub fn keep_to_budget(&mut self, understanding: &mut Understanding, notes: &mut Notes) {
        understanding.take_costs();
        if !self.knows_costs(understanding) {
            return;
        }
        let costs = understanding.costs().into_iter();
        let may_drop = self.departures.may_drop();
        let step = self.budget.tick(clock::now_ns(), costs, may_drop);
        if self.budget.is_over() {
            understanding.expect_gaps();
        }
        self.thin(step, understanding, notes);
    }

    /// Whether the run is so young that [`Self::look_at_budget`] should be called between ticks.
    pub fn is_young(&self) -> bool {
        self.budget.is_young(clock::now_ns())
    }

    /// Checks between two ticks whether watching costs far too much, while the run is young.
    pub fn look_at_budget(&mut self, understanding: &mut Understanding, notes: &mut Notes) {
        understanding.take_costs();
        if !self.knows_costs(understanding) {
            return;
        }
        let costs = understanding.costs().into_iter();
        let step = self.budget.look(clock::now_ns(), costs);
        self.thin(step, understanding, notes);
    }

    /// The time at which the current on or off span of a thinned run ends, ns; `None` if there is
    /// none.
    pub fn thin_due_ns(&self) -> Option<u64> {
        let is_watched = self.source.is_some() && !self.is_off;
        self.budget.due_ns().filter(|_| is_watched)
    }

    /// Ends the current on or off span of a thinned run when its time has come.
    pub fn thin_next(&mut self, understanding: &mut Understanding, notes: &mut Notes) {
        let costs = understanding.costs().into_iter();
        let step = self.budget.turn(clock::now_ns(), costs);
        self.thin(step, understanding, notes);
    }

    fn thin(&mut self, step: Option<Step>, understanding: &mut Understanding, notes: &mut Notes) {
        let (Some(step), Some(source)) = (step, self.source.as_deref_mut()) else {
            return;
        };
        let done = match step {
            Step::DropDepartures => {
                self.departures.drop_them();
                understanding.set_departures(false);
                set_departures(source, false)
            }
            Step::Thin => {
                understanding.expect_gaps();
                Ok(())
            }
            Step::Off => {
                understanding.lose_sight(clock::now_ns());
                source.pause();
                understanding.set_off(true);
                Ok(())
            }
            Step::On | Step::Whole => {
                // The probes were off long enough for all earlier events to come in.
                understanding.gap(clock::now_ns());
                // No event reported libraries that were mapped while the probes were off.
                let files = understanding.files_of_target();
                understanding.set_off(false);
                let done = source.attach(&files).and_then(|()| source.resume());
                // Attaching took a while, in which nothing was watched either.
                let time_ns = clock::now_ns();
                understanding.gap(time_ns);
                self.budget.came_on(time_ns);
                understanding.regain_sight(time_ns);
                done
            }
        };
        if let Err(error) = done {
            notes.push_once(format!("{error:#}"));
        }
    }

    /// Decides again whether the system calls of futexes are worth watching. Returns what has been
    /// seen of the target; `None` for a thinned run, which cannot show that there are no barriers.
    pub fn govern_futexes(
        &mut self,
        understanding: &mut Understanding,
        notes: &mut Notes,
    ) -> Option<Seen> {
        if self.budget.is_thinning() {
            return None;
        }
        let (futexes, others) = understanding.arrivals_by_kind();
        let seen = Seen {
            threads: self.processes.threads(),
            others,
            futexes,
        };
        if let Some(counts) = self.source.as_deref().and_then(Source::locks) {
            self.locks.tick(clock::now_ns(), counts);
        }
        if let Some(on) = self.futexes.tick(clock::now_ns(), seen) {
            self.set_futexes(on, understanding, notes);
        }
        Some(seen)
    }

    /// Begins to watch the system calls of futexes if the user asks for that.
    pub fn begin_futexes(&mut self, understanding: &mut Understanding, notes: &mut Notes) {
        if self.futexes.is_on() {
            self.set_futexes(true, understanding, notes);
        }
    }

    fn set_futexes(&mut self, on: bool, understanding: &mut Understanding, notes: &mut Notes) {
        if let Err(error) = self.switch_futexes(on, understanding) {
            notes.push(format!("{error:#}"));
            self.futexes.give_up();
        }
    }

    fn switch_futexes(
        &mut self,
        on: bool,
        understanding: &mut Understanding,
    ) -> anyhow::Result<()> {
        let Some(source) = self.source.as_deref_mut() else {
            return Ok(());
        };
        if on
            && let Some(rules) = understanding.follow_system_calls()
            && let Some(callers) = source.callers()
        {
            callers.learn(&rules)?;
        }
        let futexes = source.futexes().context(NO_FUTEXES)?;
        futexes.set_futexes(on)?;
        if on {
            self.locks.watch();
        } else if let Some(counts) = source.locks() {
            // Waits under way will end unseen, so their counts are reset.
            self.locks.read(counts);
            counts.clear_locks(None).context("forgetting locks")?;
            self.locks.begin_anew();
        }
        Ok(())
    }

    /// Reads the counts of waits by futex, before watching ends.
    pub fn read_locks(&mut self) {
        if let Some(counts) = self.source.as_deref().and_then(Source::locks) {
            self.locks.read(counts);
        }
    }
}
