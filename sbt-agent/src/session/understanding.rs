//! The meaning of the events: the engine's model with the recogniser, the places in the target's
//! code, and the looks at things that no event shows (hangs, spinning, samples).

use std::{rc::Rc, sync::Arc};

use sbt_common::{Code, Rule};

use crate::{settings::Settings, source::Measurement};
use sbt_engine::{
    choices::{Departures, States},
    model::{
        Model, Totals,
        tape::Step,
        told::{Telling, ToldEpisode},
    },
    place::Place,
};
use sbt_program::{files::ProbedFile, process, sites::Resolver, stopped::Tracer};

mod cost;
mod events;
pub mod hang;
pub mod sampling;
pub mod seen;
mod spinning;
mod told;
mod trials;
mod wiring;

use cost::Cost;
use hang::Hangs;
use sampling::Sampling;
use seen::Seen;
use spinning::Spinning;
pub use trials::TrialStep;
use wiring::Recognition;

/// The facts with which the understanding of a target begins.
#[derive(Clone)]
pub struct Beginning {
    /// The process id of the target.
    pub pid: u32,
    /// The target ran its own program before watching began.
    pub runs_already: bool,
    /// Whether processes that the target starts are watched too.
    pub children: bool,
    /// The time at which watching began, ns.
    pub start_ns: u64,
    /// How closely the source looks at what threads do between barriers.
    pub states: States,
    /// The number of CPUs that the target may use; `None` if that is unknown.
    pub cpus: Option<u32>,
    /// Who traces the target's threads for sbt, if anybody does.
    pub tracer: Option<Arc<dyn Tracer>>,
}

/// The knowledge of the target from its events and its code.
pub struct Understanding {
    pid: u32,
    /// sbt joined a process that ran already.
    is_joined: bool,
    model: Model,
    resolver: Resolver,
    recognition: Recognition,
    cost: Cost,
    hangs: Hangs,
    spinning: Spinning,
    sampling: Option<Sampling>,
}

impl Understanding {
    /// Begins with an empty model. `telling`: the episodes to keep for the narrator.
    ///
    /// # Errors
    /// The kernel takes no samples of the target.
    pub fn begin(
        resolver: Resolver,
        beginning: Beginning,
        telling: Telling,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let Beginning {
            pid,
            runs_already,
            children,
            start_ns,
            states,
            cpus,
            tracer,
        } = beginning;
        let mut model = Model::new(start_ns, settings.departures != Departures::Off);
        model.observe(settings.phases.len(), telling);
        model.set_window(settings.window());
        if states == States::Full {
            model.watch_switches();
        }
        let sampling = Sampling::begin(settings, pid, children)?;
        if let Some(sampling) = &sampling {
            model.keep_samples(sampling.period_ns(), cpus);
        }
        Ok(Self {
            pid,
            is_joined: runs_already,
            model,
            resolver,
            recognition: Recognition::new(runs_already),
            cost: Cost::default(),
            hangs: Hangs::new(settings.hang_time, settings.end_hangs.is_some(), tracer),
            spinning: Spinning::new(start_ns, settings.spin),
            sampling,
        })
    }

    /// The model of the events taken in so far.
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// All places so far, by [`sbt_engine::model::ids::PlaceId`].
    pub fn places(&self) -> &[Rc<Place>] {
        self.resolver.places()
    }

    /// Threads may stand still unseen from now on: gives up the looks under way.
    pub fn lose_sight(&mut self, now_ns: u64) {
        self.spinning.give_up(now_ns);
        self.hangs.lose_sight(now_ns);
    }

    /// The probes are on again.
    pub fn regain_sight(&mut self, now_ns: u64) {
        let arrivals = self.model.totals().arrivals;
        self.hangs.regain_sight(now_ns, arrivals);
    }

    /// All arrivals so far.
    pub fn arrivals(&self) -> u64 {
        self.model.totals().arrivals
    }

    /// The arrivals so far of each thread.
    pub fn arrivals_by_thread(&self) -> impl Iterator<Item = u64> {
        self.model.threads().rows().iter().map(|row| row.arrivals)
    }

    /// Arrivals so far at barriers made of futexes, and at all others.
    pub const fn arrivals_by_kind(&self) -> (u64, u64) {
        self.recognition.arrivals()
    }

    /// The sums over the whole run.
    pub fn totals(&self) -> &Totals {
        self.model.totals()
    }

    /// The cost of a probe is being measured.
    pub fn expect_costs(&mut self, measurement: Measurement) {
        self.cost = Cost::new(measurement);
    }

    /// Takes the costs of the probes once they have been measured.
    pub fn take_costs(&mut self) {
        self.cost.look(&mut self.model);
    }

    /// Whether the cost of a probe is known.
    pub fn knows_costs(&self) -> bool {
        self.cost.tariff().is_some()
    }

    /// The cost of the probes for each thread so far, ns; empty until the cost of a probe is known.
    pub fn costs(&self) -> Vec<f64> {
        let rows = self.model.threads().rows().iter();
        self.cost.tariff().map_or_else(Vec::new, |tariff| {
            rows.map(|row| row.paid.ns(tariff)).collect()
        })
    }

    /// The files found since the last call: they may hold barriers.
    pub fn new_files(&mut self) -> Vec<Arc<ProbedFile>> {
        self.resolver.new_files()
    }

    /// As [`Resolver::catch_up`](sbt_program::sites::Resolver::catch_up).
    pub fn catch_up(&mut self) -> bool {
        self.resolver.catch_up()
    }

    /// As [`Self::new_files`], after another look at what the target has mapped.
    pub fn files_of_target(&mut self) -> Vec<Arc<ProbedFile>> {
        self.resolver.turn_to(self.pid);
        self.resolver.refresh();
        self.resolver.new_files()
    }

    /// The changes since the last call of the rules that find callers.
    pub fn new_rules(&mut self) -> Option<Vec<(Code, Option<Rule>)>> {
        self.resolver.new_rules()
    }

    /// From now on finds the callers of the C library's system calls. Returns the new rules for
    /// that.
    pub fn follow_system_calls(&mut self) -> Option<Vec<(Code, Option<Rule>)>> {
        self.resolver.follow_system_calls();
        self.resolver.new_rules()
    }

    /// Begins or ends a look for loops that only wait. The search covers the target alone, not its
    /// children.
    pub fn look_for_spins(&mut self, now_ns: u64, seen: Seen) {
        let seen = Seen {
            threads: process::threads(self.pid),
            ..seen
        };
        self.spinning
            .tick(now_ns, seen, self.pid, &mut self.resolver);
    }

    /// Whether the function that is tried has shown enough not to be a barrier.
    pub fn is_trial_over(&self, now_ns: u64) -> bool {
        self.spinning.trials.is_over(now_ns)
    }

    /// The next change of probes that tries a function in which threads spin.
    pub fn next_trial(&mut self, now_ns: u64) -> Option<TrialStep> {
        self.spinning.trials.step(now_ns, &mut self.resolver)
    }

    /// The probes of the trial that has begun could not be put on.
    pub fn fail_trial(&mut self) {
        self.spinning.trials.fail();
    }

    /// Gives up the look for spinning under way. `now_ns`: the time until which hits at barriers
    /// were not seen.
    pub fn give_up_spins(&mut self, now_ns: u64) {
        self.spinning.give_up(now_ns);
    }

    /// Watching ends: takes the result of the look for spinning under way, and the last samples.
    pub fn end_looks(&mut self) {
        self.spinning.end(self.pid, &mut self.resolver);
        self.sample();
        if let Some(sampling) = &mut self.sampling {
            sampling.end();
        }
    }

    /// All events are known: ends recognition and settles the model. Returns the line for the user
    /// if that ends a hang. `killed`: a signal has ended the program.
    pub fn finish(&mut self, start_ns: u64, end_ns: u64, killed: bool) -> Option<String> {
        self.cost.wait_for(self.model.totals().arrivals);
        self.cost.look(&mut self.model);
        self.forget_unwatched(end_ns);
        self.recognition.finish(&mut self.model);
        let over = self.settle_hangs(start_ns, end_ns, killed);
        self.model.finish();
        over
    }

    /// Counts everything from `start_ns` on.
    pub fn reset(&mut self, start_ns: u64) {
        self.model.reset(start_ns);
        self.reset_samples();
    }

    /// Counts from `start_ns` on, once the events before it have come: see [`Model::restart_at`].
    pub const fn restart_at(&mut self, start_ns: u64, asked: bool) {
        self.model.restart_at(start_ns, asked);
    }

    /// Begins to count if that was due before `before_ns`: no event of that time is on its way any more.
    pub fn restart_if_due(&mut self, before_ns: u64) {
        let due_ns = self.model.window().due_ns();
        if due_ns.is_some_and(|due_ns| due_ns <= before_ns) {
            self.model.restart_now();
        }
    }

    /// Samples count from now on.
    pub fn reset_samples(&mut self) {
        if let Some(sampling) = &mut self.sampling {
            sampling.reset();
        }
    }

    /// Keeps what the lanes of the live screen show.
    pub fn keep_lanes(&mut self) {
        self.model.keep_lanes();
    }

    /// Tells all episodes, not only those that are watched.
    pub const fn tell_all(&mut self) {
        self.model.tell_all();
    }

    /// Keeps everything that the model is told, for a recording.
    pub fn keep_tape(&mut self) {
        self.model.keep_tape();
    }

    /// Keeps no more tape.
    pub fn drop_tape(&mut self) {
        self.model.drop_tape();
    }

    /// The input of the model since the last call, if a recording keeps that.
    pub fn take_tape(&mut self) -> Vec<Step> {
        self.model.take_tape()
    }

    /// The episodes that are ready to be told, priced as soon as the costs are known: the queue of
    /// episodes that wait for the costs is bounded.
    pub fn take_told(&mut self) -> Vec<ToldEpisode> {
        self.take_costs();
        self.model.take_told()
    }

    /// How the user writes a site; `None` if there is no such site.
    pub fn written(&self, site: u32) -> Option<String> {
        let site = self.model.sites().all().get(site as usize)?;
        let all: Vec<&Place> = self.places().iter().map(AsRef::as_ref).collect();
        let first = site.places.first().and_then(|id| all.get(id.0 as usize))?;
        Some(first.written(&all))
    }
}
