//! Rebuilds the model of which a recording was made, and the facts beside it.

use std::{path::Path, rc::Rc};

use super::{ReadError, Reader, Row, bounds::Bounds, lately::Lately};
use sbt_engine::{
    model::{
        Model, Present,
        ids::ThreadId,
        tape::Step,
        told::{Telling, ToldEpisode},
    },
    place::Place,
    report::{Facts, IncompleteKind, IncompleteReport, Report, order::Order, sound},
    verdict,
    words::time,
};

/// A recording that has been read up to some row.
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Replay {
    reader: Reader,
    bounds: Bounds,
    /// The model after the last row read.
    pub model: Model,
    /// Changes since the facts were last written.
    lately: Lately,
    places: Vec<Rc<Place>>,
    /// Facts of the run, as last written.
    pub facts: Facts,
    /// The report, if the file holds one because it does not have all events.
    summary: Option<Box<Report>>,
    /// Whether the events begin with the run.
    from_begin: bool,
    /// The time at which the events begin, ns.
    start_ns: u64,
    /// Whether the next rows repeat what this replay has been told already.
    repeats: bool,
    /// Whether any step or place has been told.
    has_told: bool,
    /// A row that was read ahead.
    next: Option<Row>,
    /// The latest time of any row so far, ns.
    at_ns: u64,
    ended: bool,
    /// Whether single episodes are wanted.
    tells: bool,
    /// The state of each thread at the end.
    stood: Option<Vec<(ThreadId, Present)>>,
}

/// A recording that was read to its end.
pub struct Whole {
    /// The report.
    pub report: Report,
    /// How the report numbers threads.
    pub order: Order,
    /// Folded stacks of the samples, one a line. `None` if the end is missing, or nothing was
    /// sampled.
    pub folded: Option<Vec<String>>,
    /// The range of single episodes in the file; `None` if the file has statistics only.
    pub told: Option<Extent>,
}

/// The range of a run's single episodes that a recording has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Since when, `CLOCK_MONOTONIC` ns. After the start of the run if only its end was kept.
    pub from_ns: u64,
    /// Arrivals in complete episodes.
    pub arrivals: u64,
}

/// The contents of the file behind the rows that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A row of a later time.
    Later,
    /// Rows that have not been looked at.
    More,
    /// Nothing.
    None,
}

impl Replay {
    /// Opens a recording; no row is read yet.
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        // Single episodes that were asked for are among the facts.
        Self::begin(path, false)
    }

    /// Opens a recording to read [`Self::episodes`].
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn open_telling(path: &Path) -> Result<Self, ReadError> {
        Self::begin(path, true)
    }

    fn begin(path: &Path, tells: bool) -> Result<Self, ReadError> {
        let (reader, begin) = Reader::open(path)?;
        let mut model = Model::new(begin.start_ns, begin.departures);
        let telling = Telling {
            all: tells,
            above_ns: None,
        };
        model.observe(begin.conceptual, telling);
        if begin.switches {
            model.watch_switches();
        }
        Ok(Self {
            reader,
            bounds: Bounds::default(),
            model,
            lately: Lately::default(),
            places: Vec::new(),
            facts: Facts::default(),
            summary: None,
            from_begin: false,
            start_ns: begin.start_ns,
            repeats: false,
            has_told: false,
            next: None,
            at_ns: begin.start_ns,
            ended: false,
            tells,
            stood: None,
        })
    }

    /// The next row: the one read ahead, if any.
    fn row(&mut self) -> Result<Option<Row>, ReadError> {
        match self.next.take() {
            Some(row) => Ok(Some(row)),
            None => self.reader.next().transpose(),
        }
    }

    /// Time of a row, if it matters for the order. The first facts say what run this is: they have
    /// no time, whenever they were written.
    const fn time_ns(&self, row: &Row) -> Option<u64> {
        match row {
            Row::Facts(_) if self.facts.run.pid == 0 => None,
            _ => row.time_ns(),
        }
    }

    /// Reads a row, and tells the model. Returns the row; `None` at the end.
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn step(&mut self) -> Result<Option<Row>, ReadError> {
        let Some(row) = self.row()? else {
            return Ok(None);
        };
        if !self.bounds.allow(&row, &self.model) {
            return Err(self.reader.damaged());
        }
        self.at_ns = self.at_ns.max(self.time_ns(&row).unwrap_or(0));
        match &row {
            Row::Step(_) | Row::Place(_) if self.repeats => {}
            Row::Step(step) => {
                self.has_told = true;
                self.model.take(step);
                self.lately.step(step, self.at_ns);
                if let Step::Reset { time_ns } = step {
                    self.count_from(*time_ns);
                }
                if !self.tells {
                    // Single episodes are among the facts already.
                    drop(self.model.take_told());
                }
            }
            Row::Place(place) => {
                self.has_told = true;
                self.places.push(Rc::new((**place).clone()));
            }
            Row::Facts(facts) => {
                self.from_begin = self.start_ns <= facts.run.start_ns;
                self.facts = self.facts_of(facts);
                self.lately.written(self.at_ns);
            }
            Row::Recap(begins) => self.repeats = *begins && self.has_told,
            Row::Report(report) => {
                // An older sbt may have reported figures or verdicts that this one would withhold.
                let report = verdict::again(sound((**report).clone()));
                self.summary = Some(Box::new(report));
            }
            Row::End => self.ended = true,
            Row::Begin(_) => {}
        }
        Ok(Some(row))
    }

    /// Reads rows up to `time_ns`, but at most so many. Returns what follows.
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn advance(&mut self, time_ns: u64, rows: usize) -> Result<Rest, ReadError> {
        for _ in 0..rows {
            let Some(row) = self.row()? else {
                return Ok(Rest::None);
            };
            let is_later = self.time_ns(&row).is_some_and(|row_ns| row_ns > time_ns);
            self.next = Some(row);
            if is_later {
                return Ok(Rest::Later);
            }
            self.step()?;
        }
        Ok(Rest::More)
    }

    /// Limits facts to the time that the recording has events of: the beginning of the run may be
    /// missing.
    fn facts_of(&self, facts: &Facts) -> Facts {
        let before_ns = self.start_ns.saturating_sub(facts.run.start_ns);
        let mut facts = facts.clone();
        facts.run.start_ns += before_ns;
        facts.run.start_unix_ns = facts.run.start_unix_ns.saturating_add(before_ns);
        facts.run.wall_ns = facts.run.wall_ns.saturating_sub(before_ns);
        if before_ns > 0 {
            facts.notes.push(format!(
                "the recording does not contain the events of the first {:.1} s: these figures \
                 cover the rest; `sbt report` covers the whole run",
                before_ns as f64 / 1e9
            ));
        }
        facts
    }

    /// Counts everything from `time_ns` on, as the next facts will.
    const fn count_from(&mut self, time_ns: u64) {
        let facts = &mut self.facts;
        let passed_ns = time_ns.saturating_sub(facts.run.start_ns);
        facts.run.start_ns += passed_ns;
        facts.run.start_unix_ns = facts.run.start_unix_ns.saturating_add(passed_ns);
        facts.run.wall_ns = facts.run.wall_ns.saturating_sub(passed_ns);
    }

    /// The places so far.
    pub fn places(&self) -> &[Rc<Place>] {
        &self.places
    }

    /// The share of the file that has been read, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.reader.share()
    }

    /// The time at which the events begin, `CLOCK_MONOTONIC` ns.
    pub const fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The latest time of any row so far, ns.
    pub const fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// The time of the last row, ns. `None` if that is not known before the file has been read.
    /// `path`: that of the file.
    pub fn last_ns(&self, path: &Path) -> Option<u64> {
        self.reader.last_ns(path)
    }

    /// The report, if the file holds one because it does not have all events.
    pub fn summary(&self) -> Option<&Report> {
        self.summary.as_deref()
    }

    /// Ends the reading, and settles what is open. `stopped`: why the file was not read to its end,
    /// if so.
    ///
    /// # Errors
    /// `stopped`, if nothing was read that could be reported.
    pub fn finish(&mut self, stopped: Option<ReadError>) -> Result<(), ReadError> {
        // Without facts the time of the run is not known.
        if self.facts.run.pid == 0 && self.summary.is_none() {
            return Err(stopped.unwrap_or_else(|| self.reader.empty()));
        }
        if stopped.is_some() || !self.ended {
            self.break_off(stopped.as_ref());
        } else if self.reader.behind() > 0 {
            let note = format!(
                "{} bytes after the end of the recording were not read: something else was written \
                 into the same file, or several recordings were joined into one file",
                self.reader.behind()
            );
            if let Some(summary) = &mut self.summary {
                summary.notes.push(note.clone());
            }
            self.facts.notes.push(note);
        }
        // Kept before the model is settled: after that no thread waits in an episode.
        self.stood = Some(self.model.present().collect());
        self.model.finish();
        Ok(())
    }

    /// The rest is missing: brings the facts up to the last event read. `stopped`: why not all of
    /// the file was read, if so.
    fn break_off(&mut self, stopped: Option<&ReadError>) {
        if self.facts.run.pid > 0 {
            self.lately.settle(&mut self.facts, self.at_ns);
            if self.from_begin {
                // The model knows more than the last report in the file.
                self.summary = None;
            }
            let missing = self.missing(stopped, self.facts.run.wall_ns);
            self.facts.notes.push(missing.text.clone());
            self.facts.incomplete = vec![missing];
        }
        if let Some(mut summary) = self.summary.take() {
            let missing = self.missing(stopped, summary.run.wall_ns);
            summary.notes.push(missing.text.clone());
            summary.break_off(vec![missing]);
            self.summary = Some(Box::new(verdict::with(sound(*summary))));
        }
    }

    /// Describes what is missing. The report is about the first `wall_ns`.
    fn missing(&self, stopped: Option<&ReadError>, wall_ns: u64) -> IncompleteReport {
        let about = format!("this report is about the first {}", time(wall_ns));
        let (kind, text) = match stopped {
            Some(ReadError::Altered { batch, of, .. }) => (
                IncompleteKind::Damaged,
                format!(
                    "the recording is damaged: the checksum of batch {batch} of {of} does not \
                     match, so this batch and all later batches were left out; {about}; copy the \
                     file again, or record the run again"
                ),
            ),
            Some(error) => (
                IncompleteKind::Damaged,
                format!("{error}; this batch and all later batches were left out; {about}"),
            ),
            None => {
                let rest = match self.reader.rest() {
                    0 => String::new(),
                    rest => format!(" (the last {rest} bytes are an incomplete batch)"),
                };
                (
                    IncompleteKind::NoEnd,
                    format!(
                        "the recording has no end{rest}: sbt is still writing it, was killed or \
                         ran out of disk space, or the file was cut or damaged later; {about}"
                    ),
                )
            }
        };
        IncompleteReport { kind, text }
    }

    /// The present state of each thread; after the end its state before open waits were settled.
    pub fn present(&self) -> Vec<(ThreadId, Present)> {
        match &self.stood {
            Some(stood) => stood.clone(),
            None => self.model.present().collect(),
        }
    }

    /// The report of what was read so far.
    pub fn told(&self, facts: Facts) -> Report {
        verdict::with(Report::new(&self.model, &self.places, facts))
    }

    /// Reads to the end, and reports.
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn report(self) -> Result<Report, ReadError> {
        Ok(self.whole(&mut |_| {})?.report)
    }

    /// Reads to the end, and passes each complete episode to `each`, in the order of completion.
    /// Episodes end where the recording breaks off; the report notes that. `seen` is called with
    /// the share of the file that has been read.
    ///
    /// # Errors
    /// Errors of `each`.
    pub fn episodes<E>(
        mut self,
        seen: &mut dyn FnMut(f64),
        each: &mut dyn FnMut(&ToldEpisode) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Ok(Some(row)) = self.step() {
            drop(row);
            let told = self.model.take_told();
            if !told.is_empty() {
                seen(self.share());
                told.iter().try_for_each(&mut *each)?;
            }
        }
        self.model.finish();
        self.model.take_told().iter().try_for_each(each)
    }

    /// Reads to the end. `seen` is called with the share of the file that has been read.
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn whole(mut self, seen: &mut dyn FnMut(f64)) -> Result<Whole, ReadError> {
        let stopped = loop {
            match self.step() {
                Ok(Some(_)) => seen(self.share()),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        self.finish(stopped)?;
        let extent = self.extent();
        let mut facts = self.facts.clone();
        let folded = facts.folded.take();
        let order = Order::new(&self.model);
        let (report, order) = match self.summary.take() {
            Some(summary) => {
                let kept = self.told(facts);
                let order = order.as_in(&summary, &kept, &self.model);
                (*summary, order)
            }
            None => (self.told(facts), order),
        };
        Ok(Whole {
            report,
            order,
            folded,
            told: extent,
        })
    }

    /// The range of single episodes that the recording had.
    fn extent(&self) -> Option<Extent> {
        // Without facts of their own, the file has reports only.
        let has_events = self.summary.is_none() || self.facts.run.pid > 0;
        let rows = self.model.threads().rows();
        has_events.then(|| Extent {
            from_ns: self.start_ns,
            arrivals: rows.iter().map(|row| row.episodes).sum(),
        })
    }
}
