//! Writes the recording of a session while it runs.

use std::{
    mem::{self, size_of},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::writer::{Outcome, Writer};
use crate::{
    record::{Begin, Recorder, Sink},
    session::understanding::hang,
    settings::SiteName,
    signals::Signals,
};
use sbt_engine::{
    event::Event,
    model::{Totals, tape::Step},
    place::{Frame, Place},
    report::{Facts, Report},
    words::without_codes,
};
use sbt_program::clock;

/// The longest time from taking in an event to its flush into the file, ns, apart from the time
/// that the disk takes.
const FLUSH_EVERY_NS: u64 = 500_000_000;

/// The interval between two writes of the facts if nothing happens, ns.
const CALM_NS: u64 = 1_000_000_000;

/// A silence of this many seconds may lack one second in the file: writes become rarer as the
/// silence lasts, so that a program that hangs over night does not fill the disk.
const CALMER: u64 = 60;

/// Gathering facts takes at most one part in this many of the time: facts cost more to gather than
/// to write.
const SPARED: u64 = 50;

/// The longest time that the report waits for the end of the recording, whose failure would be a
/// note in the report.
const REPORT_WAITS: Duration = Duration::from_secs(2);

/// The longest wait for a disk that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// A part to write.
enum Part {
    /// Events that the model took, and new places.
    Steps(Vec<Step>, Vec<Place>),
    /// The facts outside of the model, and the report so far if the recording keeps it; everything
    /// is then flushed to the disk.
    Facts(Box<Facts>, Option<Box<Report>>),
    /// The facts and the report so far: what is kept goes to a file of its own, for this reason.
    Save(Box<Facts>, Box<Report>, String),
    /// The final facts and report; no part follows.
    End(Box<Facts>, Option<Box<Report>>),
}

/// The facts outside of the model whose change is news.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownFacts {
    /// The sums over the whole run.
    pub totals: Totals,
    /// The time of the last look at a hang, ns, and its outcome.
    pub hang: Option<(u64, hang::Outcome)>,
    /// The number of times that threads were seen to wait for locks.
    pub lock_waits: u64,
    /// The number of notes.
    pub notes: usize,
    /// The user's names for sites.
    pub names: Vec<SiteName>,
}

/// Decides when to write the facts.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names, reason = "the names end in the unit")]
struct Pace {
    /// The time of the last news, ns.
    news_ns: u64,
    /// The earliest next write if there is news, ns.
    due_ns: u64,
    /// The earliest next write without news, ns.
    calm_ns: u64,
}

impl Pace {
    /// A pace that starts at `now_ns`.
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

    /// Whether to write at a due time. `news`: there is news since the last write.
    const fn wants(self, now_ns: u64, news: bool) -> bool {
        news || now_ns >= self.calm_ns
    }

    /// Takes note of a write. `took_ns`: the time it took to gather the facts.
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

/// A recording that is being written.
pub struct Recording {
    writer: Writer<Part>,
    /// The number of places handed over.
    places: usize,
    /// The recording keeps only part of the events, and so needs the report.
    is_bounded: bool,
    known: KnownFacts,
    /// Events or places were handed over since the last flush.
    news: bool,
    pace: Pace,
    /// The number of parts handed over at the last flush.
    flushed: u64,
    /// Lines on what was saved, for the user.
    saved: Arc<Mutex<Vec<String>>>,
}

impl Recording {
    /// Starts a recording. `begin`: how the model was started; `facts`: the facts known at the
    /// start.
    ///
    /// # Errors
    /// The thread that writes cannot be started.
    pub fn begin(
        sink: Sink,
        begin: Begin,
        facts: Facts,
        report: Option<Report>,
    ) -> anyhow::Result<Self> {
        let is_bounded = sink.bound.is_some();
        let saved = Arc::<Mutex<Vec<String>>>::default();
        let told = Arc::clone(&saved);
        let writer = Writer::spawn(move |queue| {
            let mut recorder = Recorder::to(sink, begin)?;
            // Even if sbt is killed at once, the file has a beginning.
            recorder.flush(facts, report)?;
            for part in queue {
                match part {
                    Part::Steps(steps, places) => recorder.add(steps, places)?,
                    Part::Facts(facts, report) => {
                        recorder.flush(*facts, report.map(|report| *report))?;
                    }
                    Part::Save(facts, report, why) => {
                        recorder.flush((*facts).clone(), None)?;
                        // What is kept goes on, whatever becomes of the copy.
                        let line = match recorder.save(*facts, *report) {
                            Ok(name) => format!("{why}: saved in {name}"),
                            Err(error) => {
                                let error = without_codes(&format!("{error:#}"));
                                format!("{why}: not saved: {error}")
                            }
                        };
                        told.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(line);
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
            known: KnownFacts::default(),
            news: false,
            pace: Pace::from(begin.start_ns),
            flushed: 0,
            saved,
        })
    }

    /// Whether the last facts handed over are on the disk: facts are large, so only one set waits
    /// at a time.
    fn is_up_to_date(&self) -> bool {
        self.writer.written() >= self.flushed
    }
}

/// The memory that steps and places take until they are written, bytes.
fn memory(steps: &[Step], places: &[Place]) -> usize {
    let beside = |step: &Step| match step {
        Step::Event(Event::Thread { name, .. } | Event::Communicator { name, .. }) => name.len(),
        Step::Event(Event::Callers { addresses, .. }) => size_of_val(&**addresses),
        Step::Event(Event::Away { takers, .. }) => size_of_val(&**takers),
        _ => 0,
    };
    let steps: usize = steps
        .iter()
        .map(|step| size_of::<Step>() + beside(step))
        .sum();
    let frame = |frame: &Frame| {
        let names = [&frame.function, &frame.file];
        let names = names.into_iter().flatten().map(String::len);
        size_of::<Frame>() + names.sum::<usize>()
    };
    let place = |place: &Place| size_of::<Place>() + place.frames.iter().map(frame).sum::<usize>();
    steps + places.iter().map(place).sum::<usize>()
}

/// The note on a recording that ends too early.
pub fn note(why: &str) -> String {
    let why = without_codes(why);
    format!("the recording is incomplete: {why}")
}

impl Recording {
    /// Hands over what the model was told, and the places that are new among all places. Returns
    /// false if recording has failed.
    pub fn add(&mut self, steps: Vec<Step>, all_places: &[Rc<Place>]) -> bool {
        let new = all_places.get(self.places..).unwrap_or_default();
        let places: Vec<Place> = new.iter().map(|place| (**place).clone()).collect();
        self.places = all_places.len();
        if steps.is_empty() && places.is_empty() {
            return true;
        }
        self.news = true;
        let bytes = memory(&steps, &places);
        self.writer.push(Part::Steps(steps, places), bytes)
    }

    /// Whether to ask [`Self::wants`] now.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.pace.is_due(now_ns) && self.is_up_to_date()
    }

    /// Whether the recording wants facts at a due time: `Some` if so, with whether there is news.
    /// `known`: the facts whose change is news.
    pub fn wants(&mut self, now_ns: u64, known: KnownFacts) -> Option<bool> {
        let news = self.news || known != self.known;
        if !self.pace.wants(now_ns, news) {
            return None;
        }
        (self.news, self.known) = (false, known);
        Some(news)
    }

    /// Whether the recording keeps only part of the events, and so needs the report.
    pub const fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    /// Hands over facts that [`Self::wants`] asked for at `now_ns`, and the report so far if the
    /// recording keeps it. Returns false if recording has failed.
    pub fn put(&mut self, facts: Facts, report: Option<Report>, now_ns: u64, news: bool) -> bool {
        let took_ns = clock::now_ns().saturating_sub(now_ns);
        self.pace.written(now_ns, news, took_ns);
        let part = Part::Facts(Box::new(facts), report.map(Box::new));
        // At most one part of facts waits at a time, so it needs no limit.
        let goes_on = self.writer.push_last(part, 0);
        self.flushed = self.writer.handed();
        goes_on
    }

    /// Saves what is kept to a file of its own. Returns false if recording has failed.
    pub fn save(&mut self, facts: Facts, report: Report, why: String) -> bool {
        let part = Part::Save(Box::new(facts), Box::new(report), why);
        self.writer.push_last(part, 0)
    }

    /// The lines on what was saved since the last call.
    pub fn take_saved(&self) -> Vec<String> {
        mem::take(&mut *self.saved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The note on a recording that cannot go on.
    pub fn failure(self) -> String {
        note(&self.writer.failure())
    }

    /// Ends the recording with the final facts, and with the report if the recording keeps it.
    pub fn end(&mut self, facts: Facts, report: &Report) {
        let report = self.is_bounded.then(|| Box::new(report.clone()));
        // If this fails, waiting for the end returns the reason.
        self.writer.push_last(Part::End(Box::new(facts), report), 0);
    }

    /// Waits up to [`REPORT_WAITS`] for the end of the recording. Returns whether it has come, and a
    /// note if the recording failed or is not complete.
    pub async fn result(&mut self) -> (bool, Option<String>) {
        match self.writer.over(REPORT_WAITS).await {
            Outcome::Pending => (
                false,
                Some(
                    "the recording was not completely written when this report was made: the disk \
                    is slow"
                        .into(),
                ),
            ),
            Outcome::Failed(why) => (true, Some(note(&why))),
            Outcome::Written => (true, None),
        }
    }

    /// Waits for the end of the recording as long as the disk makes progress and no signal tells
    /// sbt to end. Returns a line for the user if the recording is not complete.
    pub async fn leave(mut self, signals: &mut Signals) -> Option<String> {
        let why = loop {
            let before = self.writer.written();
            let outcome = tokio::select! {
                outcome = self.writer.over(PATIENCE) => outcome,
                heard = signals.next() => match heard {
                    Ok(heard) if !heard.ends() => continue,
                    _ => break "sbt did not wait until all was written".to_owned(),
                },
            };
            match outcome {
                Outcome::Written => return None,
                Outcome::Failed(why) => break why,
                Outcome::Pending if self.writer.written() > before => {}
                Outcome::Pending => {
                    break format!("the disk has accepted no data for {} s", PATIENCE.as_secs());
                }
            }
        };
        Some(format!("sbt: {}\n", note(&why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    /// The interval between two checks.
    const TICK: u64 = S / 4;

    /// The number of writes until `until_ns`, and the longest time of which the file lacks the
    /// events, ns.
    fn writes(until_ns: u64, has_news: impl Fn(u64) -> bool, took_ns: u64) -> (u64, u64) {
        // The machine has been up for a year.
        let begin_ns = 365 * 24 * 3_600 * S;
        let mut pace = Pace::from(begin_ns);
        let (mut count, mut last_ns, mut missing_ns) = (0, begin_ns, 0);
        let times = (TICK..=until_ns).step_by(usize::try_from(TICK).unwrap());
        for now_ns in times.map(|passed_ns| begin_ns + passed_ns) {
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
        // Gathering the facts takes long.
        assert_eq!(writes(60 * S, |_| true, S / 50), (60, S));
        let silent = |from_ns| move |now_ns| now_ns <= from_ns;
        let (count, missing_ns) = writes(30 * S, |_| false, 0);
        assert_eq!((count, missing_ns), (30, CALM_NS));
        let (count, missing_ns) = writes(30 * S, silent(S), 0);
        assert!((29..=33).contains(&count), "{count}");
        assert_eq!(missing_ns, CALM_NS);
        // A night has a few hundred writes, and the file lacks at most a minute per hour.
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
