//! A recording → the model that it was made of, and what was known beside.

use std::{path::Path, rc::Rc};

use super::{ReadError, Reader, Row};
use crate::{
    model::{
        Model,
        told::{Telling, Told},
    },
    place::Place,
    report::{Report, Run, order::Order},
    verdict,
};

/// What a recording has told so far.
pub struct Replay {
    reader: Reader,
    /// As it was after the last row.
    pub model: Model,
    places: Vec<Rc<Place>>,
    /// What was known beside the model when it was last written down.
    pub facts: Run,
    ended: bool,
    /// Single episodes are wanted.
    tells: bool,
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
            model,
            places: Vec::new(),
            facts: Run::default(),
            ended: false,
            tells,
        })
    }

    /// Takes one row in, and gives it; `None` at the end.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn step(&mut self) -> Result<Option<Row>, ReadError> {
        let Some(row) = self.reader.next().transpose()? else {
            return Ok(None);
        };
        match &row {
            Row::Step(step) => {
                self.model.take(step);
                if !self.tells {
                    // They are among the facts.
                    drop(self.model.take_told());
                }
            }
            Row::Place(place) => self.places.push(Rc::new((**place).clone())),
            Row::Facts(facts) => self.facts = (**facts).clone(),
            Row::End => self.ended = true,
            Row::Begin(_) => {}
        }
        Ok(Some(row))
    }

    /// The places so far.
    pub fn places(&self) -> &[Rc<Place>] {
        &self.places
    }

    /// How much of the file has been read, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.reader.share()
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
                // Without those nobody knows when it was.
                Err(error) if self.facts.pid == 0 => return Err(error),
                Err(error) => break Some(error),
            }
        };
        self.model.finish();
        let mut facts = self.facts;
        match stopped {
            Some(error) => facts
                .notes
                .push(format!("{error}; what comes before was read")),
            None if !self.ended => facts.notes.push(
                "the recording has no end: whoever wrote it was killed, or it was not copied as \
                 a whole; all that is there was read"
                    .into(),
            ),
            None => {}
        }
        let folded = facts.folded.take();
        Ok(Whole {
            report: verdict::with(Report::new(&self.model, &self.places, facts)),
            order: Order::new(&self.model),
            folded,
        })
    }
}
