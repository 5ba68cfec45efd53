//! Counters that the user of the live screen chooses while the program runs.

use super::{Notes, Watch};
use sbt_engine::{
    counters::{Counter, Plan, Source},
    words::since,
};
use sbt_program::clock;

impl Watch {
    /// Counts these counters from now on, and no others. Notes in the report say what that means
    /// for the figures of the whole run. Returns the answer for the user, if there is any.
    pub fn choose(&mut self, wanted: &[Counter], notes: &mut Notes) -> Option<String> {
        let source = self.source.as_mut()?;
        let Some(choosing) = source.choosing() else {
            return Some(format!(
                "--backend {} takes counters at the start only: -e",
                source.name()
            ));
        };
        let refused = match choosing.choose(wanted) {
            Ok(refused) => refused,
            Err(error) => return Some(format!("{error:#}")),
        };
        let before = std::mem::replace(&mut self.counters, source.counters().clone());
        self.note_counters(&before, notes);
        let chosen = self.counters.0.iter();
        let chosen = chosen.filter(|(_, source)| *source != Source::Nowhere);
        let names: Vec<&str> = chosen.map(|(counter, _)| counter.name.as_str()).collect();
        let told = if names.is_empty() {
            "nothing is counted".to_owned()
        } else {
            format!("counted from now on: {}", names.join(", "))
        };
        Some([&[told][..], &refused].concat().join("; "))
    }

    /// Notes which counters are counted since now, and which no longer. `before`: the counters until
    /// now.
    fn note_counters(&self, before: &Plan, notes: &mut Notes) {
        let at = since(clock::now_ns().saturating_sub(self.start_ns));
        let was = |at: usize| {
            before
                .0
                .get(at)
                .map_or(Source::Nowhere, |(_, source)| *source)
        };
        for (number, (counter, source)) in self.counters.0.iter().enumerate() {
            match (was(number), *source) {
                (Source::Nowhere, Source::Nowhere) => {}
                (Source::Nowhere, _) => notes.push(format!(
                    "{counter} was switched on while the program ran: it is counted only from \
                    {at} on"
                )),
                (_, Source::Nowhere) => notes.push(format!(
                    "{counter} was switched off while the program ran: it is counted only until \
                    {at}"
                )),
                _ => {}
            }
        }
    }
}
