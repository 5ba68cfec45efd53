//! Reads a recording, as far as it goes.

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
    /// It cannot be opened or read.
    #[error("cannot read {path}: {why}")]
    File {
        /// Which.
        path: String,
        /// Why. Not called `source`: it would be told once more.
        why: io::Error,
    },
    /// It is a pipe, a folder or the like.
    #[error("{path} is no regular file; a recording is read from one")]
    Pipe {
        /// Which.
        path: String,
    },
    /// It is something else.
    #[error(
        "{path} is no recording of sbt, or its beginning is damaged; `sbt run -o FILE` makes one"
    )]
    Foreign {
        /// Which.
        path: String,
    },
    /// A later sbt wrote it.
    #[error("{path} was written by sbt {version} in a newer form: read it with that version")]
    Newer {
        /// Which.
        path: String,
        /// By which.
        version: String,
    },
    /// It ends before anything was recorded.
    #[error("{path} ends before anything was recorded in it")]
    Empty {
        /// Which.
        path: String,
    },
    /// A batch of it is not as it ought to be.
    #[error(
        "{path}, written by sbt {version}, cannot be understood from batch {batch} on: it is \
             damaged, or only that version can read it"
    )]
    Damaged {
        /// Which.
        path: String,
        /// By which.
        version: String,
        /// Counted from 1.
        batch: usize,
    },
    /// A batch is not as it was written.
    #[error(
        "{path} is damaged: the checksum of batch {batch} of {of} does not match the batch; copy \
             the file anew, or record the run again"
    )]
    Altered {
        /// Which.
        path: String,
        /// Counted from 1.
        batch: usize,
        /// How many batches there are.
        of: usize,
    },
}

/// The rows of a file.
pub struct Reader {
    path: String,
    whole: Whole,
    /// That of the sbt that wrote it.
    version: String,
    batches: Batches<BufReader<Take<File>>>,
    /// Those that are whole messages.
    bytes: u64,
    read: usize,
    rows: std::vec::IntoIter<Cells>,
}

impl Reader {
    /// Opens a recording, and says how its model was begun.
    ///
    /// # Errors
    /// See [`ReadError`].
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

    /// How much of it has been read, from 0 to 1.
    pub fn share(&self) -> f64 {
        let left = self.batches.input().get_ref().limit();
        1.0 - left as f64 / self.bytes.max(1) as f64
    }

    /// Something behind the last whole batch is missing: whoever wrote it was killed, or
    /// it was not copied as a whole.
    pub const fn is_torn(&self) -> bool {
        self.whole.torn
    }

    /// Bytes behind the last whole batch of a file that breaks off.
    pub const fn rest(&self) -> u64 {
        self.whole.rest
    }

    /// Something follows its end that is no part of it, bytes.
    pub const fn behind(&self) -> u64 {
        self.whole.behind
    }

    /// The moment up to which it goes, ns: that of the last facts, or else of the last row
    /// that tells one; `None` if the last batch tells none.
    /// `path`: that of the same file, which is not read through for it.
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
            // What comes in after the end of the watching is not of it.
            if let (Row::Facts(_), Some(_)) = (&row, time_ns) {
                facts = time_ns;
            }
            latest = latest.max(time_ns);
        }
        facts.or(latest)
    }

    /// Nothing was recorded in it.
    pub fn empty(&self) -> ReadError {
        let path = self.path.clone();
        ReadError::Empty { path }
    }

    /// What has been read last cannot be.
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

    /// Takes in the next batch; false if there is none.
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
