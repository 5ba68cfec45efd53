//! Recordings that are read at the same time, row by row, in the order of time.

use std::{cmp::Reverse, collections::BinaryHeap, path::Path};

use super::super::{Begin, ReadError, Reader, Row};
use sbt_engine::job::clocks::Shift;

/// A recording as it is read.
pub(super) struct Stream {
    pub(super) reader: Reader,
    pub(super) next: Option<Row>,
    /// The latest time so far, by the recording's clock, ns: also the time of rows that have none, which
    /// belong behind the row before.
    pub(super) at_ns: u64,
    pub(super) ended: bool,
    pub(super) stopped: Option<ReadError>,
}

impl Stream {
    pub(super) fn open(path: &Path) -> anyhow::Result<(Self, Begin)> {
        let (reader, begin) = Reader::open(path)?;
        let mut this = Self {
            reader,
            next: None,
            at_ns: begin.start_ns,
            ended: false,
            stopped: None,
        };
        this.advance();
        Ok((this, begin))
    }

    fn advance(&mut self) {
        self.next = match self.reader.next() {
            Some(Ok(row)) => Some(row),
            Some(Err(error)) => {
                self.stopped = Some(error);
                None
            }
            None => None,
        };
        self.ended |= matches!(self.next, Some(Row::End));
        // Facts are written when they are gathered, maybe before events of an earlier time.
        if let Some(Row::Step(step)) = &self.next {
            self.at_ns = self.at_ns.max(step.time_ns().unwrap_or(0));
        }
    }
}

/// Recordings merged by time.
pub(super) struct Merge {
    pub(super) streams: Vec<Stream>,
    pub(super) shifts: Vec<Shift>,
    /// The time of the next row of each recording that has one, by the job's clock.
    pub(super) due: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Merge {
    pub(super) fn of(streams: Vec<Stream>, shifts: Vec<Shift>) -> Self {
        let mut this = Self {
            streams,
            shifts,
            due: BinaryHeap::new(),
        };
        for index in 0..this.streams.len() {
            this.queue(index);
        }
        this
    }

    fn queue(&mut self, index: usize) {
        let stream = &self.streams[index];
        if stream.next.is_some() {
            let at_ns = self.shifts[index].apply(stream.at_ns);
            self.due.push(Reverse((at_ns, index)));
        }
    }

    /// Reads no more of a recording.
    pub(super) fn stop(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        stream.stopped = Some(stream.reader.damaged());
        stream.next = None;
    }
}

impl Iterator for Merge {
    type Item = (usize, Row);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Reverse((_, index)) = self.due.pop()?;
            let stream = &mut self.streams[index];
            if let Some(row) = stream.next.take() {
                stream.advance();
                self.queue(index);
                return Some((index, row));
            }
        }
    }
}
