//! What a session writes down as it goes, on a thread of its own: a disk may be slow.

use std::{
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    thread::JoinHandle,
};

use super::{Departures, Session};
use crate::{
    clock,
    model::{Totals, tape::Step},
    place::Place,
    record::{Begin, Bound, Recorder, Sink},
    report::{Report, Run},
    source::ebpf::Ebpf,
    verdict,
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
    /// What is known beside, and the report so far if that is to be kept; all of it is to
    /// be on the disk.
    Facts(Box<Run>, Option<Box<Report>>),
    /// The last.
    End(Box<Run>, Option<Box<Report>>),
}

/// A file that is being written.
pub struct Recording {
    parts: SyncSender<Part>,
    writer: JoinHandle<anyhow::Result<()>>,
    /// Places that were handed over.
    places: usize,
    /// Not all is kept: it needs the report.
    is_bounded: bool,
    /// What the model had seen when it was last looked.
    totals: Totals,
    /// Something has happened since it was last flushed.
    news: bool,
    due_ns: u64,
}

impl Recording {
    /// `begin`: how the model was begun; `facts`: what is known by then.
    fn begin(sink: Sink, begin: Begin, facts: Run, report: Option<Report>) -> anyhow::Result<Self> {
        let (parts, queue) = sync_channel(QUEUE);
        let is_bounded = sink.bound.is_some();
        let write = move || {
            let mut recorder = Recorder::to(sink, begin)?;
            // Who is killed at once has at least begun.
            recorder.flush(facts, report)?;
            for part in queue {
                match part {
                    Part::Steps(steps, places) => recorder.add(steps, places)?,
                    Part::Facts(facts, report) => {
                        recorder.flush(*facts, report.map(|report| *report))?;
                    }
                    Part::End(facts, report) => {
                        return recorder.end(*facts, report.map(|report| *report));
                    }
                }
            }
            Ok(())
        };
        let writer = std::thread::Builder::new().name("sbt-record".into());
        Ok(Self {
            parts,
            writer: writer.spawn(write)?,
            places: 0,
            is_bounded,
            totals: Totals::default(),
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
    pub(super) fn record(&mut self, sink: Sink) {
        let begin = Begin {
            start_ns: self.start_ns,
            departures: self.settings.departures != Departures::Off,
            switches: self.model.exact().is_some(),
            conceptual: self.settings.phases.len(),
        };
        let has_events = sink.bound.as_ref().is_none_or(Bound::has_events);
        let facts = self.facts(self.start_ns);
        let report = (sink.bound.is_some()).then(|| self.report_so_far(facts.clone()));
        match Recording::begin(sink, begin, facts, report) {
            Ok(recording) => {
                if has_events {
                    self.model.keep_tape();
                }
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
        let totals = *self.model.totals();
        recording.news |= totals != std::mem::replace(&mut recording.totals, totals);
        let now_ns = clock::now_ns();
        if recording.news && now_ns >= recording.due_ns {
            recording.news = false;
            let facts = self.facts(now_ns);
            let report = recording
                .is_bounded
                .then(|| Box::new(self.report_so_far(facts.clone())));
            parts.push(Part::Facts(Box::new(facts), report));
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

    /// The report, of what is known beside the model.
    pub(super) fn report_so_far(&self, facts: Run) -> Report {
        let run = Run {
            lost: self.source.as_ref().map_or(0, Ebpf::lost),
            ..facts
        };
        verdict::with(Report::new(&self.model, self.resolver.places(), run))
    }

    /// Ends the file with the report and what it takes from us; why that failed, if it did.
    pub(super) fn end_recording(&mut self, facts: Option<Run>, report: &Report) -> Option<String> {
        let (recording, facts) = (self.recording.take()?, facts?);
        let report = recording.is_bounded.then(|| Box::new(report.clone()));
        let sent = recording.parts.send(Part::End(Box::new(facts), report));
        let ended = recording.writer.join();
        let why = match (sent, ended) {
            (Ok(()), Ok(Ok(()))) => return None,
            (_, Ok(Err(error))) => format!("{error:#}"),
            _ => "its thread failed".into(),
        };
        Some(note(&why))
    }
}
