//! What a session writes down as it goes, on a thread of its own: a disk may be slow.

use std::{
    fs::File,
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    thread::JoinHandle,
};

use super::{Departures, Session};
use crate::{
    clock,
    model::tape::Step,
    place::Place,
    record::{Begin, Recorder},
    report::Run,
};

/// What was taken in is in the file after so long, ns, but for the time that the disk
/// takes.
const FLUSH_EVERY_NS: u64 = 500_000_000;

/// What is known beside the model costs more to gather than to wait for: no more often
/// than that it takes one part in so many of the time.
const SPARED: u64 = 50;

/// Parts that wait for the disk, at most: beyond that it is too slow.
const QUEUE: usize = 1024;

/// Something to be written.
enum Part {
    /// What the model was told, and places that are new.
    Steps(Vec<Step>, Vec<Place>),
    /// What is known beside; all of it is to be on the disk.
    Facts(Box<Run>),
    /// The last.
    End(Box<Run>),
}

/// A file that is being written.
pub struct Recording {
    parts: SyncSender<Part>,
    writer: JoinHandle<anyhow::Result<()>>,
    /// Places that were handed over.
    places: usize,
    /// Something was, since it was last flushed.
    news: bool,
    due_ns: u64,
}

impl Recording {
    /// `begin`: how the model was begun; `facts`: what is known by then.
    fn begin(file: File, begin: Begin, facts: Run) -> anyhow::Result<Self> {
        let (parts, queue) = sync_channel(QUEUE);
        let write = move || {
            file.set_len(0)?;
            let mut recorder = Recorder::to(file, begin)?;
            // Who is killed at once has at least begun.
            recorder.flush(facts)?;
            for part in queue {
                match part {
                    Part::Steps(steps, places) => recorder.add(steps, places)?,
                    Part::Facts(facts) => recorder.flush(*facts)?,
                    Part::End(facts) => return recorder.end(*facts),
                }
            }
            Ok(())
        };
        let writer = std::thread::Builder::new().name("sbt-record".into());
        Ok(Self {
            parts,
            writer: writer.spawn(write)?,
            places: 0,
            news: false,
            due_ns: 0,
        })
    }

    /// Why nothing more can be written.
    fn failure(self) -> String {
        drop(self.parts);
        match self.writer.join() {
            Ok(Err(error)) => format!("{error:#}"),
            Ok(Ok(())) => "the disk is too slow for what happens".into(),
            Err(_panic) => "its thread failed".into(),
        }
    }
}

fn note(why: &str) -> String {
    format!("the recording ends before the watching did: {why}")
}

impl Session {
    /// Begins to write down what the model is told from now on, which is all.
    pub(super) fn record(&mut self, file: File) {
        let begin = Begin {
            start_ns: self.start_ns,
            departures: self.settings.departures != Departures::Off,
            switches: self.model.exact().is_some(),
            conceptual: self.settings.phases.len(),
        };
        match Recording::begin(file, begin, self.facts(self.start_ns)) {
            Ok(recording) => {
                self.model.keep_tape();
                self.recording = Some(recording);
            }
            Err(error) => self.notes.push(note(&format!("{error:#}"))),
        }
    }

    /// Whether it is being written down.
    pub(super) const fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Writes down what has come in. Where that cannot be, the watching goes on.
    pub(super) fn write_down(&mut self) {
        let Some(mut recording) = self.recording.take() else {
            return;
        };
        let steps = self.model.take_tape();
        let all = self.resolver.places();
        let new = all.get(recording.places..).unwrap_or_default();
        let places: Vec<Place> = new.iter().map(|place| (**place).clone()).collect();
        recording.places = all.len();
        let mut parts = Vec::new();
        if !steps.is_empty() || !places.is_empty() {
            recording.news = true;
            parts.push(Part::Steps(steps, places));
        }
        let now_ns = clock::now_ns();
        if recording.news && now_ns >= recording.due_ns {
            recording.news = false;
            parts.push(Part::Facts(Box::new(self.facts(now_ns))));
            let took_ns = clock::now_ns().saturating_sub(now_ns);
            recording.due_ns = now_ns + FLUSH_EVERY_NS.max(took_ns.saturating_mul(SPARED));
        }
        for part in parts {
            if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
                recording.parts.try_send(part)
            {
                self.model.drop_tape();
                self.notes.push(note(&recording.failure()));
                return;
            }
        }
        self.recording = Some(recording);
    }

    /// Ends the file with what a report takes from us.
    pub(super) fn end_recording(&mut self, facts: &mut Run) {
        self.write_down();
        if let Some(recording) = self.recording.take() {
            let sent = recording.parts.send(Part::End(Box::new(facts.clone())));
            let ended = recording.writer.join();
            let why = match (sent, ended) {
                (Ok(()), Ok(Ok(()))) => None,
                (_, Ok(Err(error))) => Some(format!("{error:#}")),
                _ => Some("its thread failed".into()),
            };
            facts.notes.extend(why.map(|why| note(&why)));
        }
        facts.notes.append(&mut self.notes);
    }
}
