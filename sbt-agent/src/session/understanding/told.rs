//! The parts of a report that the understanding of the target adds.

use super::{Sampling, Understanding};
use crate::{naming::Naming, settings::Settings};
use sbt_engine::{
    place::Place,
    report::{Facts, Report},
    verdict,
};

impl Understanding {
    /// Adds what is understood to the facts for a report, as of `until_ns`. `again`: what to type
    /// before and after an option to watch the target in the same way.
    pub fn fill(&self, facts: &mut Facts, until_ns: u64, settings: &Settings, again: &[String; 2]) {
        let places = self.resolver.places();
        let naming = Naming(settings);
        let names = self.model.sites().all().iter().map(|site| {
            let mut mine = site.places.iter();
            mine.find_map(|id| naming.name(places.get(id.0 as usize)?))
                .map(str::to_owned)
        });
        facts.names = names.collect();
        facts.run.hang = self.hang_report(until_ns);
        facts.run.hang_time_ns = self.hangs.limit_ns();
        facts.run.hang_unwatched_ns = self.hangs.unwatched_ns(until_ns);
        facts.spins = self.spinning.report(again);
        facts.sampled = self
            .sampling
            .as_ref()
            .and_then(|sampling| sampling.report(&self.model));
        facts.tariff = self.cost.tariff().copied();
        facts.cost_unknown_because = self.cost.unknown_because();
    }

    /// The report with the given facts.
    pub fn report(&self, facts: Facts) -> Report {
        verdict::with(Report::new(&self.model, self.resolver.places(), facts))
    }

    /// The notes of the recogniser. `again`: as for [`Self::fill`].
    pub fn notes(&self, again: &[String; 2]) -> Vec<String> {
        let mut notes = self.recognition.notes();
        notes.extend(self.spinning.notes(again));
        notes
    }

    /// The note on what could not be sampled.
    pub fn note_of_sampling(&self) -> Option<String> {
        self.sampling.as_ref().and_then(Sampling::note)
    }

    /// The notes that need all places. Finding these takes time: for the end only.
    pub fn last_notes(&self, settings: &Settings) -> Vec<String> {
        let mut notes = self.resolver.notes();
        let places: Vec<&Place> = self.places().iter().map(AsRef::as_ref).collect();
        notes.extend(Naming(settings).unmatched(&places));
        notes
    }

    /// Hints for a run in which no barrier was found. `again`: as for [`Self::fill`].
    pub fn hints(&mut self, again: &[String; 2]) -> Vec<String> {
        self.spinning.look_at_code(&mut self.resolver);
        self.recognition.hints(&mut self.resolver, again)
    }

    /// Why no barrier was found, if a reason is known.
    pub fn why_nothing_is_found(&self) -> Option<String> {
        self.resolver.why_nothing_is_found()
    }

    /// Whether all arrivals are known, those included that were not watched.
    pub fn knows_all_arrivals(&self) -> bool {
        self.model.knows_all_arrivals()
    }
}
