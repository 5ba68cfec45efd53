//! A recording → the model that it was made of, and what was known beside.

use std::{path::Path, rc::Rc};

use super::{ReadError, Reader, Row};
use crate::{
    model::{Model, told::Telling},
    place::Place,
    report::{Report, Run},
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
}

impl Replay {
    /// Opens a recording; nothing is told yet.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let (reader, begin) = Reader::open(path)?;
        let mut model = Model::new(begin.start_ns, begin.departures);
        // Single episodes that were asked for are among the facts.
        model.observe(begin.conceptual, Telling::default());
        if begin.switches {
            model.watch_switches();
        }
        Ok(Self {
            reader,
            model,
            places: Vec::new(),
            facts: Run::default(),
            ended: false,
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
                // They are among the facts.
                drop(self.model.take_told());
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

    /// Reads on to the end, and reports.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn report(mut self) -> Result<Report, ReadError> {
        let stopped = loop {
            match self.step() {
                Ok(Some(_)) => {}
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
        Ok(verdict::with(Report::new(&self.model, &self.places, facts)))
    }
}
