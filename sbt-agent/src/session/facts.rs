//! Gathers from the owners what a report and a recording need.

use super::{
    Session,
    reporting::{
        self,
        recording::{KnownFacts, Recording},
        saver::Saver,
    },
};
use crate::{
    looks::Looking,
    record::{self, Begin, Bound, Sink},
    settings::{Conceptual, Mark},
    source::Totals,
};
use sbt_engine::{
    choices::Departures,
    report::{Facts, Report},
};
use sbt_program::clock;

impl Session {
    /// The last report. `ended`: the target has ended.
    pub(super) fn report(&mut self, totals: Totals, ended: bool) -> Report {
        let (start_ns, end_ns) = (self.watch.start_ns(), self.watch.end_ns());
        let line = self
            .understanding
            .finish(start_ns, end_ns, self.program.was_killed());
        self.tell_hangs(line);
        self.narrate();
        self.reporting.notes().extend_new(totals.notes);
        self.watch.set_lost(totals.lost);
        // A failure to write becomes a note.
        self.write_down();
        let passed = self.reporting.saver().and_then(|saver| saver.note());
        self.reporting.notes().extend(passed);
        let unmet = self.reporting.saver().map(|saver| saver.unmet());
        let unmet = unmet.unwrap_or_default().into_iter().map(|rule| {
            format!("--save-when '{rule}': no barrier was called from there, so nothing was saved for it")
        });
        self.reporting.notes().extend(unmet);
        let none_found = self.understanding.arrivals() == 0;
        let mut none_found_because = None;
        if none_found {
            let again = self.program.again(&self.settings);
            let hints = self.understanding.hints(&again);
            self.reporting.notes().extend(hints);
            none_found_because = self.understanding.why_nothing_is_found();
        }
        let mut facts = self.facts(end_ns);
        self.reporting.fill_watched(&mut facts);
        facts.run.ended |= ended || self.watch.is_over();
        facts.run.none_found_because = none_found_because;
        let is_recording = self.reporting.is_recording();
        if is_recording {
            facts.folded = self.understanding.folded();
        }
        facts
            .notes
            .extend(self.understanding.last_notes(&self.settings));
        let recorded = is_recording.then(|| facts.clone());
        let report = self.understanding.report(facts);
        self.reporting.end_recording(recorded, &report);
        report
    }

    /// The facts of the run that are not in the model, up to `until_ns`.
    pub(super) fn facts(&self, until_ns: u64) -> Facts {
        let mut facts = Facts {
            conceptual: self.settings.phases.iter().map(written_phase).collect(),
            marks: self.settings.marks.iter().map(written_mark).collect(),
            notes: self.all_notes(until_ns),
            own_cpu_ns: clock::process_cpu_ns(),
            origin: record::origin(),
            ..Facts::default()
        };
        let again = self.program.again(&self.settings);
        self.program.fill(&mut facts);
        self.watch.fill(&mut facts, until_ns);
        let window = self.understanding.model().window();
        facts.run.moments.clone_from(&self.moments);
        facts.run.window = self.settings.window_report(window, self.watch.begun_ns());
        self.understanding
            .fill(&mut facts, until_ns, &self.settings, &again);
        self.reporting.fill(&mut facts, self.watch.start_ns());
        facts.waits = self.looking.as_ref().and_then(Looking::found);
        facts
    }

    /// The notes for the user, as known until `until_ns`.
    fn all_notes(&self, until_ns: u64) -> Vec<String> {
        let all_arrivals = self.understanding.knows_all_arrivals();
        let mut notes = self.reporting.all_notes().to_vec();
        notes.extend(self.watch.notes_of_processes());
        notes.extend(
            self.understanding
                .notes(&self.program.again(&self.settings)),
        );
        notes.extend(self.watch.notes(until_ns, all_arrivals));
        notes.extend(self.understanding.note_of_sampling());
        notes
    }

    /// The report so far, as of `until_ns`.
    pub(super) fn report_so_far(&self, until_ns: u64) -> Report {
        self.understanding.report(self.facts(until_ns))
    }

    /// Starts to record everything that the model is told.
    pub(super) fn record(&mut self, sink: Sink) {
        let start_ns = self.watch.start_ns();
        let begin = Begin {
            start_ns,
            departures: self.settings.departures != Departures::Off,
            switches: self.understanding.model().exact().is_some(),
            conceptual: self.settings.phases.len(),
        };
        if self.reporting.save_when(sink.save_when.clone()) {
            self.understanding.tell_all();
        }
        let has_events = sink.bound.as_ref().is_none_or(Bound::has_events);
        let facts = self.facts(start_ns);
        let report = (sink.bound.is_some()).then(|| self.understanding.report(facts.clone()));
        let recording = Recording::begin(sink, begin, facts, report);
        if has_events && recording.is_ok() {
            self.understanding.keep_tape();
        }
        self.reporting.record(recording);
    }

    /// The current facts whose change is news.
    fn known(&self, now_ns: u64) -> KnownFacts {
        KnownFacts {
            totals: *self.understanding.totals(),
            hang: self.understanding.hang_state(now_ns),
            lock_waits: self.watch.lock_waits(),
            notes: self.all_notes(now_ns).len(),
            names: self.settings.names.clone(),
        }
    }

    /// Hands the new events to the recording. If recording fails, watching goes on.
    pub(super) fn write_down(&mut self) {
        if !self.hand_over() {
            self.understanding.drop_tape();
            self.reporting.give_up_recording();
        }
        self.save_if_due();
    }

    /// Saves what the recording holds, if a rule asks for that, and tells what was saved.
    pub(super) fn save_if_due(&mut self) {
        let why = self.reporting.saver().and_then(Saver::take_due);
        if let Some(why) = why {
            let facts = self.facts(self.watch.until_ns(clock::now_ns()));
            let report = self.understanding.report(facts.clone());
            let recording = self.reporting.recording();
            if recording.is_some_and(|recording| !recording.save(facts, report, why)) {
                self.reporting.give_up_recording();
            }
        }
        self.tell_saved();
    }

    /// Tells what was saved.
    pub(super) fn tell_saved(&mut self) {
        let saved = self
            .reporting
            .recording()
            .map(|recording| recording.take_saved());
        for line in saved.unwrap_or_default() {
            if let Some(told) = self.reporting.of_hang(&line) {
                self.tell(&told);
            }
            self.reporting.notes().push(line);
        }
    }

    /// Hands the new events to the recording, and facts when they are due. Returns false if
    /// recording has failed.
    fn hand_over(&mut self) -> bool {
        let Some(recording) = self.reporting.recording() else {
            return true;
        };
        let steps = self.understanding.take_tape();
        if !recording.add(steps, self.understanding.places()) {
            return false;
        }
        let now_ns = clock::now_ns();
        if !recording.is_due(now_ns) {
            return true;
        }
        let known = self.known(now_ns);
        let Some(recording) = self.reporting.recording() else {
            return true;
        };
        let Some(news) = recording.wants(now_ns, known) else {
            return true;
        };
        let is_bounded = recording.is_bounded();
        // Nothing is watched after the end.
        let facts = self.facts(self.watch.until_ns(now_ns));
        let report = is_bounded.then(|| self.understanding.report(facts.clone()));
        self.reporting
            .recording()
            .is_none_or(|recording| recording.put(facts, report, now_ns, news))
    }

    /// Prints the episodes that the model has ready to print.
    pub(super) fn narrate(&mut self) {
        let told = self.understanding.take_told();
        if self.is_before_window() {
            return;
        }
        let texts = self.reporting.narrate(
            told,
            self.understanding.model(),
            self.understanding.places(),
            &self.settings,
            self.watch.counters(),
        );
        if !texts.is_empty() && !self.view.tell(&texts) {
            let all: String = texts.into_iter().map(|(_, text)| text).collect();
            reporting::print(&all);
        }
    }

    /// Prints lines about hangs, unless the user asked for none.
    pub(super) fn tell_hangs(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            if let Some(line) = self.reporting.of_hang(&line) {
                self.tell(&line);
            }
        }
    }
}

fn written_phase(phase: &Conceptual) -> [String; 3] {
    let Conceptual { name, from, to } = phase;
    [name.clone(), from.to_string(), to.to_string()]
}

fn written_mark(mark: &Mark) -> [String; 2] {
    let at = mark.at.to_string();
    [mark.name.clone().unwrap_or_else(|| at.clone()), at]
}
