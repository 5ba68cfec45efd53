//! The output of sbt: lines while the program runs, the recording, and the files at the end.

use std::{fs::File, io::Write as _};

use super::notes::Notes;
use crate::{ci, settings::Settings};
use sbt_engine::{
    counters::Plan,
    model::{
        Model,
        told::{Telling, ToldEpisode},
    },
    place::Place,
    report::{Facts, Report},
    saving::SaveRule,
};
use std::rc::Rc;

pub mod delivery;
pub mod narrator;
pub mod recording;
pub mod saver;
mod writer;

use narrator::{Narration, Narrator};
use recording::Recording;
use saver::Saver;

/// Everything that leaves sbt, apart from the live screen.
pub struct Reporting {
    narrator: Narrator,
    recording: Option<Recording>,
    /// The file for the folded stacks of the samples.
    folded: Option<File>,
    notes: Notes,
}

/// Prints some lines on standard error.
pub fn print(text: &str) {
    let text = ci::tame(text);
    // Ignore errors: a closed standard error has no reader.
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

impl Reporting {
    /// Nothing has left sbt yet. `start_ns`: when watching began.
    pub fn new(
        settings: &Settings,
        narration: Narration,
        folded: Option<File>,
        start_ns: u64,
    ) -> Self {
        Self {
            narrator: Narrator::new(settings, narration, start_ns),
            recording: None,
            folded,
            notes: Notes::default(),
        }
    }

    /// The remarks for the user.
    pub const fn notes(&mut self) -> &mut Notes {
        &mut self.notes
    }

    /// All remarks for the user so far.
    pub fn all_notes(&self) -> &[String] {
        self.notes.all()
    }

    /// The episodes that the narrator asks for.
    pub fn telling(&self) -> Telling {
        self.narrator.telling()
    }

    /// Moves the beginning of the run to a later time.
    pub const fn begin_at(&mut self, start_ns: u64) {
        self.narrator.begin_at(start_ns);
    }

    /// Forgets what was told and kept before the part that counts, which begins at `start_ns`.
    pub fn count_from(&mut self, start_ns: u64) {
        self.narrator.begin_at(start_ns);
        self.narrator.forget();
    }

    /// Takes episodes that are ready to be told, and returns what to print: see
    /// [`Narrator::tell`].
    pub fn narrate(
        &mut self,
        told: Vec<ToldEpisode>,
        model: &Model,
        places: &[Rc<Place>],
        settings: &Settings,
        counters: &Plan,
    ) -> Vec<(u64, String)> {
        self.narrator.tell(told, model, places, settings, counters)
    }

    /// A line about a hang as it is printed; `None` if such lines are not printed.
    pub fn of_hang(&self, line: &str) -> Option<String> {
        let of = self.narrator.before_hangs()?;
        Some(format!("sbt: {of}{line}\n"))
    }

    /// Adds what the narrator knows to the facts for a report of a run that began at `start_ns`.
    pub fn fill(&self, facts: &mut Facts, start_ns: u64) {
        facts.run.start_unix_ns = start_ns + self.narrator.unix_offset_ns;
        facts.warnings = self.narrator.warnings();
    }

    /// Adds the watched episodes to the facts for the last report.
    pub fn fill_watched(&mut self, facts: &mut Facts) {
        (facts.watched, facts.watched_omitted) = self.narrator.take_kept();
    }

    /// Sets when to save what the recording holds. Returns whether all episodes must be told for
    /// that.
    pub fn save_when(&mut self, rules: Vec<SaveRule>) -> bool {
        self.narrator.saver = Saver::new(rules);
        let saver = self.narrator.saver.as_ref();
        saver.is_some_and(Saver::asks_for_episodes)
    }

    /// Decides when to save what the recording holds.
    pub const fn saver(&mut self) -> Option<&mut Saver> {
        self.narrator.saver.as_mut()
    }

    /// The file for the folded stacks, if the user asked for one.
    pub const fn folded(&self) -> Option<&File> {
        self.folded.as_ref()
    }

    /// The recording, while one is being written.
    pub const fn recording(&mut self) -> Option<&mut Recording> {
        self.recording.as_mut()
    }

    /// Whether a recording is being written.
    pub const fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Takes a recording that has begun; an error becomes a note.
    pub fn record(&mut self, recording: anyhow::Result<Recording>) {
        match recording {
            Ok(recording) => self.recording = Some(recording),
            Err(error) => self.notes.push(recording::note(&format!("{error:#}"))),
        }
    }

    /// Gives up a recording that cannot go on; the reason becomes a note.
    pub fn give_up_recording(&mut self) {
        if let Some(recording) = self.recording.take() {
            self.notes.push(recording.failure());
        }
    }

    /// Ends the recording with the final facts, and with the report if the recording keeps it.
    pub fn end_recording(&mut self, facts: Option<Facts>, report: &Report) {
        if let (Some(recording), Some(facts)) = (&mut self.recording, facts) {
            recording.end(facts, report);
        }
    }

    /// Waits a little for the end of the recording, and returns notes on what was saved last, and if
    /// it failed or is not complete.
    pub async fn recording_notes(&mut self) -> Vec<String> {
        let Some(recording) = &mut self.recording else {
            return Vec::new();
        };
        let (is_over, note) = recording.result().await;
        let mut notes = recording.take_saved();
        notes.extend(note);
        if is_over {
            self.recording = None;
        }
        notes
    }

    /// Hands over the recording whose end has not come yet.
    pub const fn take_recording(&mut self) -> Option<Recording> {
        self.recording.take()
    }
}
