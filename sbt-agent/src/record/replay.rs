//! A recording → the model that it was made of, and what was known beside.

use std::{path::Path, rc::Rc};

use super::{ReadError, Reader, Row, bounds::Bounds, lately::Lately};
use sbt_engine::{
    model::{
        Model, Present,
        ids::ThreadId,
        tape::Step,
        told::{Telling, Told},
    },
    place::Place,
    report::{IncompleteReport, Report, Run, order::Order, sound},
    verdict,
    words::time,
};

/// What a recording has told so far.
#[allow(clippy::struct_excessive_bools, reason = "each is a matter of its own")]
pub struct Replay {
    reader: Reader,
    bounds: Bounds,
    /// As it was after the last row.
    pub model: Model,
    /// What was told since the facts were written down.
    lately: Lately,
    places: Vec<Rc<Place>>,
    /// What was known beside the model when it was last written down.
    pub facts: Run,
    /// The report, if the file has it because it has not all that happened.
    summary: Option<Box<Report>>,
    /// Events are told from the beginning of the run on.
    from_begin: bool,
    /// When what is told begins, ns.
    start_ns: u64,
    /// What comes next is told again, for those who have not heard it.
    repeats: bool,
    /// Something was told that is not known otherwise.
    has_told: bool,
    /// Read ahead.
    next: Option<Row>,
    /// The latest moment of which something was told, ns.
    at_ns: u64,
    ended: bool,
    /// Single episodes are wanted.
    tells: bool,
    /// What the threads did at the end.
    stood: Option<Vec<(ThreadId, Present)>>,
}

/// What a recording tells when it was read to its end.
pub struct Whole {
    /// The report.
    pub report: Report,
    /// By which numbers it calls threads.
    pub order: Order,
    /// Folded stacks of the samples, a line each; `None` if the end is missing or no
    /// samples were taken.
    pub folded: Option<Vec<String>>,
    /// Single episodes; `None` if what is in the file is statistics only.
    pub told: Option<Extent>,
}

/// Which of a run's single episodes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// From when on, `CLOCK_MONOTONIC` ns: later than the run, if only its end was kept.
    pub from_ns: u64,
    /// Arrivals in those that are complete.
    pub arrivals: u64,
}

/// What there is of a recording after some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The next row is of a later moment.
    Later,
    /// The next has not been looked at.
    More,
    /// Nothing.
    None,
}

impl Replay {
    /// Opens a recording; nothing is told yet.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        // Single episodes that were asked for are among the facts.
        Self::begin(path, false)
    }

    /// The same, for [`Self::episodes`].
    ///
    /// # Errors
    /// See [`ReadError`].
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
            facts: Run::default(),
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

    /// The next row, which is no longer ahead.
    fn row(&mut self) -> Result<Option<Row>, ReadError> {
        match self.next.take() {
            Some(row) => Ok(Some(row)),
            None => self.reader.next().transpose(),
        }
    }

    /// When a row was so, if that makes a difference: the first facts say what it is all
    /// about, whenever they were written down.
    const fn time_ns(&self, row: &Row) -> Option<u64> {
        match row {
            Row::Facts(_) if self.facts.pid == 0 => None,
            _ => row.time_ns(),
        }
    }

    /// Takes one row in, and gives it; `None` at the end.
    ///
    /// # Errors
    /// See [`ReadError`].
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
                    // They are among the facts.
                    drop(self.model.take_told());
                }
            }
            Row::Place(place) => {
                self.has_told = true;
                self.places.push(Rc::new((**place).clone()));
            }
            Row::Facts(facts) => {
                self.from_begin = self.start_ns <= facts.start_ns;
                self.facts = self.facts_of(facts);
                self.lately.written(self.at_ns);
            }
            Row::Recap(begins) => self.repeats = *begins && self.has_told,
            Row::Report(report) => {
                // An older sbt may have told what this one would not.
                let report = verdict::again(sound((**report).clone()));
                self.summary = Some(Box::new(report));
            }
            Row::End => self.ended = true,
            Row::Begin(_) => {}
        }
        Ok(Some(row))
    }

    /// Takes in what happened until `time_ns`, but no more than so many rows. Says what
    /// comes then.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn advance(&mut self, time_ns: u64, rows: usize) -> Result<Rest, ReadError> {
        for _ in 0..rows {
            let Some(row) = self.row()? else {
                return Ok(Rest::None);
            };
            let is_later = self.time_ns(&row).is_some_and(|it| it > time_ns);
            self.next = Some(row);
            if is_later {
                return Ok(Rest::Later);
            }
            self.step()?;
        }
        Ok(Rest::More)
    }

    /// Of facts, those of the time that is told: what came before may be missing.
    fn facts_of(&self, facts: &Run) -> Run {
        let before_ns = self.start_ns.saturating_sub(facts.start_ns);
        let mut facts = facts.clone();
        facts.start_ns += before_ns;
        facts.start_unix_ns = facts.start_unix_ns.saturating_add(before_ns);
        facts.wall_ns = facts.wall_ns.saturating_sub(before_ns);
        if before_ns > 0 {
            facts.notes.push(format!(
                "what happened in the first {:.1} s is not in the recording: this is of the rest; \
                 `sbt report` has the whole run",
                before_ns as f64 / 1e9
            ));
        }
        facts
    }

    /// All counts from `time_ns` on, as the next facts will say.
    const fn count_from(&mut self, time_ns: u64) {
        let facts = &mut self.facts;
        let passed_ns = time_ns.saturating_sub(facts.start_ns);
        facts.start_ns += passed_ns;
        facts.start_unix_ns = facts.start_unix_ns.saturating_add(passed_ns);
        facts.wall_ns = facts.wall_ns.saturating_sub(passed_ns);
    }

    /// The places so far.
    pub fn places(&self) -> &[Rc<Place>] {
        &self.places
    }

    /// How much of the file has been read, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.reader.share()
    }

    /// When what is told begins, `CLOCK_MONOTONIC` ns.
    pub const fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The latest moment of which something was told.
    pub const fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// The last moment of which anything is told; `None` if that is not known before it
    /// has been read. `path`: that of the file.
    pub fn last_ns(&self, path: &Path) -> Option<u64> {
        self.reader.last_ns(path)
    }

    /// The report, if the file has it because it has not all that happened.
    pub fn summary(&self) -> Option<&Report> {
        self.summary.as_deref()
    }

    /// Nothing more is read: settles what is open. `stopped`: why not to the end, if so.
    ///
    /// # Errors
    /// `stopped`, if nothing was read of which anything could be said.
    pub fn finish(&mut self, stopped: Option<ReadError>) -> Result<(), ReadError> {
        // Without those nobody knows when it was.
        if self.facts.pid == 0 && self.summary.is_none() {
            return Err(stopped.unwrap_or_else(|| self.reader.empty()));
        }
        if stopped.is_some() || !self.ended {
            self.break_off(stopped.as_ref());
        } else if self.reader.behind() > 0 {
            let note = format!(
                "{} bytes follow the end of the recording and were not read: something else was \
                 written into the same file, or several recordings were put into one",
                self.reader.behind()
            );
            if let Some(summary) = &mut self.summary {
                summary.notes.push(note.clone());
            }
            self.facts.notes.push(note);
        }
        // Whoever still waits does so for whoever looks on, and is no longer in an episode.
        self.stood = Some(self.model.present().collect());
        self.model.finish();
        Ok(())
    }

    /// The rest is missing: what was known beside the model goes on to the last event that was
    /// read. `stopped`: why not all of the file was read, if so.
    fn break_off(&mut self, stopped: Option<&ReadError>) {
        if self.facts.pid > 0 {
            self.lately.settle(&mut self.facts, self.at_ns);
            if self.from_begin {
                // The model knows more than the last report that was written down.
                self.summary = None;
            }
            let missing = self.missing(stopped, self.facts.wall_ns);
            self.facts.notes.push(missing.text.clone());
            self.facts.incomplete = vec![missing];
        }
        if let Some(mut summary) = self.summary.take() {
            let missing = self.missing(stopped, summary.wall_ns);
            summary.notes.push(missing.text.clone());
            summary.break_off(vec![missing]);
            self.summary = Some(Box::new(verdict::with(sound(*summary))));
        }
    }

    /// What is missing, where the report is about the first `wall_ns`.
    fn missing(&self, stopped: Option<&ReadError>, wall_ns: u64) -> IncompleteReport {
        let about = format!("this report is about the first {}", time(wall_ns));
        let (kind, text) = match stopped {
            Some(ReadError::Altered { batch, of, .. }) => (
                "damaged",
                format!(
                    "the recording is damaged: the checksum of batch {batch} of {of} does not match, \
                     so that batch and all behind it were left out; {about}; copy the file anew, \
                     or record the run again"
                ),
            ),
            Some(error) => (
                "damaged",
                format!("{error}; that batch and all behind it were left out; {about}"),
            ),
            None => {
                let rest = match self.reader.rest() {
                    0 => String::new(),
                    rest => format!(" (the last {rest} bytes are no whole batch)"),
                };
                (
                    "no-end",
                    format!(
                        "the recording has no end{rest}: sbt still writes it, was killed or had no \
                         room for it, or the file was cut or damaged later; {about}"
                    ),
                )
            }
        };
        IncompleteReport { kind, text }
    }

    /// What the threads do; at the end what they did before all that was open was settled.
    pub fn present(&self) -> Vec<(ThreadId, Present)> {
        match &self.stood {
            Some(stood) => stood.clone(),
            None => self.model.present().collect(),
        }
    }

    /// What there is to report of what was told.
    pub fn told(&self, facts: Run) -> Report {
        verdict::with(Report::new(&self.model, &self.places, facts))
    }

    /// Reads on to the end, and reports.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn report(self) -> Result<Report, ReadError> {
        Ok(self.whole(&mut |_| {})?.report)
    }

    /// Reads on to the end, and hands on every episode that is complete, in the order of
    /// their completion. If what was recorded breaks off, so do they: the report says so.
    /// `seen` is called with the share of the file that has been read.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn episodes<E>(
        mut self,
        seen: &mut dyn FnMut(f64),
        each: &mut dyn FnMut(&Told) -> Result<(), E>,
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

    /// Reads on to the end; `seen` is called with the share of the file that has been
    /// read.
    ///
    /// # Errors
    /// See [`ReadError`].
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

    /// Which episodes were told.
    fn extent(&self) -> Option<Extent> {
        // Where not even the facts are apart, reports are all that was written down.
        let has_events = self.summary.is_none() || self.facts.pid > 0;
        let rows = self.model.threads().rows();
        has_events.then(|| Extent {
            from_ns: self.start_ns,
            arrivals: rows.iter().map(|row| row.episodes).sum(),
        })
    }
}
