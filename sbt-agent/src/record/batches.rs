//! The batches of a stream that may be hostile.
//!
//! The library that decodes them checks much, but panics in other cases. A panic is treated as
//! damage to the recording.

use std::io::Read;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;

use super::seal::Sound;
use crate::panics::caught;

/// The batches of a stream, in order.
pub struct Batches<R: Read> {
    stream: StreamReader<Sound<R>>,
    /// Whether decoding has panicked: nothing is decoded after that.
    broken: bool,
}

impl<R: Read> Batches<R> {
    /// Reads the schema; `None` if there is none.
    pub fn open(input: R) -> Option<Self> {
        let stream = caught(|| StreamReader::try_new(Sound::new(input), None).ok())??;
        Some(Self {
            stream,
            broken: false,
        })
    }

    /// The schema of the columns.
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// The input, to see how far it has been read.
    pub fn input(&self) -> &R {
        self.stream.get_ref().input()
    }

    /// Whether a checksum did not match.
    pub fn is_damaged(&self) -> bool {
        self.stream.get_ref().is_damaged()
    }
}

impl<R: Read> Iterator for Batches<R> {
    /// `None` for a batch that cannot be decoded.
    type Item = Option<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let Some(next) = caught(|| self.stream.next()) else {
            self.broken = true;
            return Some(None);
        };
        next.map(Result::ok)
    }
}
