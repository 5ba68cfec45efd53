//! What a session writes down as it goes.

use std::{mem::size_of, time::Duration};

use super::{
    Session,
    writer::{Outcome, Writer},
};
use crate::{
    record::{Begin, Bound, Recorder, Sink},
    settings::Named,
};
use sbt_engine::choices::Departures;
use sbt_engine::{
    event::Event,
    model::{Totals, tape::Step},
    place::{Frame, Place},
    report::{Report, Run},
    verdict,
    words::without_codes,
};
use sbt_program::clock;

/// What was taken in is in the file after so long, ns, but for the time that the disk
/// takes.
const FLUSH_EVERY_NS: u64 = 500_000_000;

/// Where nothing happens, that is written down after so long, ns,
const CALM_NS: u64 = 1_000_000_000;

/// but then no more often than that one part in so many of the silence is missing: a
/// program that hangs over night does not fill the disk.
const CALMER: u64 = 60;

/// What is known beside the model costs more to gather than to wait for: no more often
/// than that it takes one part in so many of the time.
const SPARED: u64 = 50;

/// The report waits for the end of the recording, which may be a reason for a note, but no
/// longer than this.
const REPORT_WAITS: Duration = Duration::from_secs(2);

/// A disk that has taken nothing for so long is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// What is known beside what the model was told, as far as a change of it is news.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    totals: Totals,
    /// When the hang was looked at last, ns, and what has become of it.
    hang: Option<(u64, super::hang::Outcome)>,
    lock_waits: u64,
    notes: usize,
    names: Vec<Named>,
}

/// When it is time to write down what is known.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names, reason = "it is their unit")]
struct Pace {
    /// When there was news last, ns.
    news_ns: u64,
    /// With news not before, and without them then, ns.
    due_ns: u64,
    calm_ns: u64,
}

impl Pace {
    /// Begins at `now_ns`.
    const fn from(now_ns: u64) -> Self {
        Self {
            news_ns: now_ns,
            due_ns: now_ns,
            calm_ns: now_ns,
        }
    }

    const fn is_due(self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// Whether it is to be written, if that is due; `news`: whether there are any.
    const fn wants(self, now_ns: u64, news: bool) -> bool {
        news || now_ns >= self.calm_ns
    }

    /// It was; to gather it took so long, ns.
    fn written(&mut self, now_ns: u64, news: bool, took_ns: u64) {
        if news {
            self.news_ns = now_ns;
        }
        let spared_ns = took_ns.saturating_mul(SPARED);
        self.due_ns = now_ns + FLUSH_EVERY_NS.max(spared_ns);
        let silence_ns = now_ns.saturating_sub(self.news_ns);
        self.calm_ns = now_ns + CALM_NS.max(silence_ns / CALMER).max(spared_ns);
    }
}

/// A file that is being written.
pub struct Recording {
    writer: Writer<Part>,
    /// Places that were handed over.
    places: usize,
    /// Not all is kept: it needs the report.
    is_bounded: bool,
    known: Known,
    /// Something was handed over since it was last flushed.
    news: bool,
    pace: Pace,
    /// With the last flush so many parts were handed over.
    flushed: u64,
}

impl Recording {
    /// `begin`: how the model was begun; `facts`: what is known by then.
    fn begin(sink: Sink, begin: Begin, facts: Run, report: Option<Report>) -> anyhow::Result<Self> {
        let is_bounded = sink.bound.is_some();
        let writer = Writer::spawn(move |queue| {
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
        })?;
        Ok(Self {
            writer,
            places: 0,
            is_bounded,
            known: Known::default(),
            news: false,
            pace: Pace::from(begin.start_ns),
            flushed: 0,
        })
    }

    /// What is known is handed over only when that before it is on the disk: it is large.
    fn is_up_to_date(&self) -> bool {
        self.writer.written() >= self.flushed
    }
}

/// Memory that steps and places take until they are written, bytes.
fn memory(steps: &[Step], places: &[Place]) -> usize {
    let beside = |step: &Step| match step {
        Step::Event(Event::Thread { name, .. }) => name.len(),
        Step::Event(Event::Callers { addresses, .. }) => size_of_val(&**addresses),
        Step::Event(Event::Away { takers, .. }) => size_of_val(&**takers),
        _ => 0,
    };
    let steps: usize = steps.iter().map(|it| size_of::<Step>() + beside(it)).sum();
    let frame = |frame: &Frame| {
        let names = [&frame.function, &frame.file];
        let names = names.into_iter().flatten().map(String::len);
        size_of::<Frame>() + names.sum::<usize>()
    };
    let place = |it: &Place| size_of::<Place>() + it.frames.iter().map(frame).sum::<usize>();
    steps + places.iter().map(place).sum::<usize>()
}

fn note(why: &str) -> String {
    let why = without_codes(why);
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

    /// What is known by now, as far as a change of it is news.
    fn known(&self, now_ns: u64) -> Known {
        Known {
            totals: *self.model.totals(),
            hang: self.hangs.state(now_ns),
            lock_waits: self.locks.waits(),
            notes: self.all_notes(now_ns).len(),
            names: self.settings.names.clone(),
        }
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
        let mut goes_on = true;
        if !steps.is_empty() || !places.is_empty() {
            recording.news = true;
            let bytes = memory(&steps, &places);
            goes_on = recording.writer.push(Part::Steps(steps, places), bytes);
        }
        let now_ns = clock::now_ns();
        if goes_on && recording.pace.is_due(now_ns) && recording.is_up_to_date() {
            let known = self.known(now_ns);
            let news = recording.news || known != recording.known;
            if recording.pace.wants(now_ns, news) {
                (recording.news, recording.known) = (false, known);
                // Nobody watches any more after the end.
                let until_ns = match self.source {
                    Some(_) => now_ns,
                    None => self.end_ns,
                };
                let facts = self.facts(until_ns);
                let report = recording
                    .is_bounded
                    .then(|| Box::new(self.report_so_far(facts.clone())));
                let took_ns = clock::now_ns().saturating_sub(now_ns);
                recording.pace.written(now_ns, news, took_ns);
                let part = Part::Facts(Box::new(facts), report);
                // There is one at a time.
                goes_on = recording.writer.push_last(part, 0);
                recording.flushed = recording.writer.handed();
            }
        }
        if goes_on {
            self.recording = Some(recording);
        } else {
            self.model.drop_tape();
            self.notes.push(note(&recording.writer.failure()));
        }
    }

    /// The report, of what is known beside the model.
    pub(super) fn report_so_far(&self, facts: Run) -> Report {
        verdict::with(Report::new(&self.model, self.resolver.places(), facts))
    }

    /// Ends the file with the report and what it takes from us.
    pub(super) fn end_recording(&mut self, facts: Option<Run>, report: &Report) {
        if let (Some(recording), Some(facts)) = (&mut self.recording, facts) {
            let report = recording.is_bounded.then(|| Box::new(report.clone()));
            // If it is not taken, waiting for the end tells why.
            recording
                .writer
                .push_last(Part::End(Box::new(facts), report), 0);
        }
    }

    /// Waits a little for the end of the file; what the report has to say of it.
    pub(super) async fn recording_note(&mut self) -> Option<String> {
        let recording = self.recording.as_mut()?;
        let outcome = recording.writer.over(REPORT_WAITS).await;
        if outcome == Outcome::Pending {
            return Some(
                "the recording was not yet whole when this report was written: the disk is slow"
                    .into(),
            );
        }
        self.recording = None;
        match outcome {
            Outcome::Failed(why) => Some(note(&why)),
            _ => None,
        }
    }

    /// Waits for the end of the file as long as the disk takes it, and nobody wants us to
    /// end.
    pub(super) async fn leave_recording(&mut self) {
        let Some(mut recording) = self.recording.take() else {
            return;
        };
        let why = loop {
            let before = recording.writer.written();
            let outcome = tokio::select! {
                outcome = recording.writer.over(PATIENCE) => outcome,
                heard = self.signals.next() => match heard {
                    Ok(heard) if !heard.ends() => continue,
                    _ => break "it was not waited for".to_owned(),
                },
            };
            match outcome {
                Outcome::Written => return,
                Outcome::Failed(why) => break why,
                Outcome::Pending if recording.writer.written() > before => {}
                Outcome::Pending => {
                    break format!("the disk has taken nothing for {} s", PATIENCE.as_secs());
                }
            }
        };
        self.tell(&format!("sbt: {}\n", note(&why)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    /// How often it is looked.
    const TICK: u64 = S / 4;

    /// How often it is written until then, and what is missing in the file at most, ns.
    fn writes(until_ns: u64, has_news: impl Fn(u64) -> bool, took_ns: u64) -> (u64, u64) {
        // The machine runs for a year.
        let begin_ns = 365 * 24 * 3_600 * S;
        let mut pace = Pace::from(begin_ns);
        let (mut count, mut last_ns, mut missing_ns) = (0, begin_ns, 0);
        let times = (TICK..=until_ns).step_by(usize::try_from(TICK).unwrap());
        for now_ns in times.map(|it| begin_ns + it) {
            let news = has_news(now_ns - begin_ns);
            missing_ns = missing_ns.max(now_ns - last_ns);
            if pace.is_due(now_ns) && pace.wants(now_ns, news) {
                pace.written(now_ns, news, took_ns);
                (count, last_ns) = (count + 1, now_ns);
            }
        }
        (count, missing_ns)
    }

    #[test]
    fn news_are_written_at_once_and_silence_now_and_then() {
        assert_eq!(writes(60 * S, |_| true, 0), (120, FLUSH_EVERY_NS));
        // To gather them takes long.
        assert_eq!(writes(60 * S, |_| true, S / 50), (60, S));
        let silent = |from_ns| move |now_ns| now_ns <= from_ns;
        let (count, missing_ns) = writes(30 * S, |_| false, 0);
        assert_eq!((count, missing_ns), (30, CALM_NS));
        let (count, missing_ns) = writes(30 * S, silent(S), 0);
        assert!((29..=33).contains(&count), "{count}");
        assert_eq!(missing_ns, CALM_NS);
        // A night is some hundred times a second, and no more is missing than of a minute.
        let (count, missing_ns) = writes(10 * 3_600 * S, silent(S), 0);
        assert!((300..600).contains(&count), "{count}");
        assert!(missing_ns <= 10 * 3_600 * S / CALMER + TICK, "{missing_ns}");
    }

    #[test]
    fn what_waits_for_the_disk_is_counted_with_all_that_belongs_to_it() {
        let named = |name: &str| {
            Step::Event(Event::Thread {
                tid: 1,
                shown: (1, 1),
                name: name.into(),
                since: sbt_engine::event::Clocks::at(0),
                code_start: None,
            })
        };
        let one = memory(&[named("")], &[]);
        assert_eq!(memory(&[named(""), named("")], &[]), 2 * one);
        assert_eq!(memory(&[named("1234567")], &[]), one + 7);
    }
}
