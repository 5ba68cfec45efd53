//! Reads a recording, as far as it is readable.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Seek as _, SeekFrom, Take},
    path::Path,
};

use thiserror::Error;

use super::{
    FORMAT, FORMAT_KEY, VERSION_KEY,
    batches::Batches,
    columns,
    frames::{self, Whole},
    open_file,
    rows::{Begin, Cells, Row},
};
use sbt_engine::place::printable;

/// Why a file cannot be read as a recording.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {why}")]
    File {
        /// Path of the file.
        path: String,
        /// The error. Not called `source`, because then it would be printed twice.
        why: io::Error,
    },
    /// The path is a pipe, a folder or the like.
    #[error("{path} is not a regular file; a recording must be a regular file")]
    Pipe {
        /// The path.
        path: String,
    },
    /// The file is something else.
    #[error(
        "{path} is not a recording of sbt, or its beginning is damaged; `sbt run -o FILE` makes a \
         recording"
    )]
    Foreign {
        /// Path of the file.
        path: String,
    },
    /// A later sbt wrote the file.
    #[error("{path} was written by sbt {version} in a newer format: read it with that version")]
    Newer {
        /// Path of the file.
        path: String,
        /// Version of that sbt.
        version: String,
    },
    /// The file ends before anything was recorded.
    #[error("{path} ends before its first event")]
    Empty {
        /// Path of the file.
        path: String,
    },
    /// A batch cannot be understood.
    #[error(
        "{path}, written by sbt {version}, cannot be read from batch {batch} on: it is damaged, or \
         only that version can read it"
    )]
    Damaged {
        /// Path of the file.
        path: String,
        /// Version of the sbt that wrote it.
        version: String,
        /// Number of the batch, from 1.
        batch: usize,
    },
    /// A batch does not match its checksum.
    #[error(
        "{path} is damaged: the checksum of batch {batch} of {of} does not match the batch; copy \
         the file again, or record the run again"
    )]
    Altered {
        /// Path of the file.
        path: String,
        /// Number of the batch, from 1.
        batch: usize,
        /// The number of batches.
        of: usize,
    },
}

/// Iterates over the rows of a file.
pub struct Reader {
    path: String,
    whole: Whole,
    /// Version of the sbt that wrote the file.
    version: String,
    batches: Batches<BufReader<Take<File>>>,
    /// Size of the part that is whole messages, bytes.
    bytes: u64,
    read: usize,
    rows: std::vec::IntoIter<Cells>,
}

impl Reader {
    /// Opens a recording. Returns also how its model was begun.
    ///
    /// # Errors
    /// Any [`ReadError`].
    pub fn open(path: &Path) -> Result<(Self, Begin), ReadError> {
        let shown = printable(&path.to_string_lossy());
        let failed = |why| ReadError::File {
            path: shown.clone(),
            why,
        };
        let mut file = open_file(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(ReadError::Pipe { path: shown });
        }
        let whole = frames::whole(&mut BufReader::new(&file)).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let input = BufReader::new(file.take(whole.bytes));
        let Some(batches) = Batches::open(input) else {
            return Err(ReadError::Foreign { path: shown });
        };
        let schema = batches.schema();
        let metadata = |key| schema.metadata().get(key).map(String::as_str);
        let version = printable(metadata(VERSION_KEY).unwrap_or("?"));
        match metadata(FORMAT_KEY).and_then(|format| format.parse::<u32>().ok()) {
            None => return Err(ReadError::Foreign { path: shown }),
            Some(format) if format > FORMAT => {
                return Err(ReadError::Newer {
                    path: shown,
                    version,
                });
            }
            Some(_) => {}
        }
        let mut this = Self {
            path: shown,
            whole,
            version,
            batches,
            bytes: whole.bytes,
            read: 0,
            rows: Vec::new().into_iter(),
        };
        match this.next().transpose()? {
            Some(Row::Begin(begin)) => Ok((this, begin)),
            Some(_) => Err(this.damaged()),
            None => Err(this.empty()),
        }
    }

    /// The share of the file that has been read, from 0 to 1.
    pub fn share(&self) -> f64 {
        let left = self.batches.input().get_ref().limit();
        1.0 - left as f64 / self.bytes.max(1) as f64
    }

    /// Bytes after the last whole batch of a file that breaks off.
    pub const fn rest(&self) -> u64 {
        self.whole.rest
    }

    /// Bytes after the end of the recording, which are no part of it.
    pub const fn behind(&self) -> u64 {
        self.whole.behind
    }

    /// The time up to which the recording goes, ns: that of the last facts, or else of the last row
    /// with a time. `None` if the last batch has no time. `path`: that of this file, of which only
    /// the last batch is read.
    pub fn last_ns(&self, path: &Path) -> Option<u64> {
        let Whole {
            bytes, head, last, ..
        } = self.whole;
        let head = open_file(path).ok()?.take(head);
        let mut batch = open_file(path).ok()?;
        batch.seek(SeekFrom::Start(last)).ok()?;
        let batch = batch.take(bytes.saturating_sub(last));
        let batches = Batches::open(BufReader::new(head.chain(batch)))?;
        let rows = batches.flatten().filter_map(|batch| columns::cells(&batch));
        let (mut facts, mut latest) = (None, None);
        for row in rows.flatten().filter_map(|cells| Row::of(&cells)) {
            let time_ns = row.time_ns();
            // Rows that come in after the end of watching do not belong to it.
            if let (Row::Facts(_), Some(_)) = (&row, time_ns) {
                facts = time_ns;
            }
            latest = latest.max(time_ns);
        }
        facts.or(latest)
    }

    /// The error for a file in which nothing was recorded.
    pub fn empty(&self) -> ReadError {
        let path = self.path.clone();
        ReadError::Empty { path }
    }

    /// The error for the batch read last.
    pub fn damaged(&self) -> ReadError {
        if self.batches.is_damaged() {
            return ReadError::Altered {
                path: self.path.clone(),
                batch: self.read,
                of: self.whole.batches,
            };
        }
        ReadError::Damaged {
            path: self.path.clone(),
            version: self.version.clone(),
            batch: self.read,
        }
    }

    /// Reads the next batch; false if there is none.
    fn more(&mut self) -> Result<bool, ReadError> {
        let Some(batch) = self.batches.next() else {
            return Ok(false);
        };
        self.read += 1;
        let cells = batch.and_then(|batch| columns::cells(&batch));
        self.rows = cells.ok_or_else(|| self.damaged())?.into_iter();
        Ok(true)
    }
}

impl Iterator for Reader {
    type Item = Result<Row, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(cells) = self.rows.next() {
                return Some(Row::of(&cells).ok_or_else(|| self.damaged()));
            }
            match self.more() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
