//! Counters that the user of the live screen chooses while the program runs.

use std::sync::Arc;

use super::Session;
use crate::kernel::counting::list;
use sbt_engine::{
    counters::{Counter, Source},
    live::Offer,
    words::since,
};
use sbt_program::clock;

impl Session {
    /// Tells the screen which counters this machine has.
    pub(super) fn offer(&mut self) {
        let offers = list::machine().into_iter().map(|entry| Offer {
            name: entry.name,
            about: entry.about,
            missing: entry.missing,
        });
        let offers = offers.collect();
        if let Some(view) = &mut self.view {
            view.observer.offers = Some(Arc::new(offers));
        }
    }

    /// Counts the named counters from now on, and no others. Notes in the report say what that
    /// means for the figures of the whole run.
    pub(super) fn count(&mut self, names: &[String]) {
        let wanted: Vec<Counter> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let Some(source) = &mut self.source else {
            return;
        };
        let notes = match source.choose(&wanted) {
            Ok(notes) => notes,
            Err(error) => return self.notice(format!("{error:#}")),
        };
        let before = std::mem::replace(&mut self.counters, source.counters().clone());
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
                (Source::Nowhere, _) => self.notes.push(format!(
                    "{counter} was switched on while the program ran: it is counted only from {at} \
                     on"
                )),
                (_, Source::Nowhere) => self.notes.push(format!(
                    "{counter} was switched off while the program ran: it is counted only until \
                     {at}"
                )),
                _ => {}
            }
        }
        let chosen = self.counters.0.iter();
        let chosen = chosen.filter(|(_, source)| *source != Source::Nowhere);
        let names: Vec<&str> = chosen.map(|(counter, _)| counter.name.as_str()).collect();
        let told = if names.is_empty() {
            "nothing is counted".to_owned()
        } else {
            format!("counted from now on: {}", names.join(", "))
        };
        self.notice([&[told][..], &notes].concat().join("; "));
    }
}
