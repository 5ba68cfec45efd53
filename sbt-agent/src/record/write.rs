//! Writes a recording.

use std::{
    fs::{File, TryLockError},
    io::{self, Seek as _, Write as _},
    mem,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::Arc,
};

use arrow_ipc::{
    CompressionType,
    writer::{IpcWriteOptions, StreamWriter},
};
use arrow_schema::{ArrowError, Schema};

use super::{
    bounded::{Bound, Generations, Keep},
    columns::{self, Columns},
    rows::{Begin, Row},
    seal::Sums,
};
use sbt_engine::{
    model::tape::Step,
    place::{Place, printable},
    report::{Facts, Report},
    saving::SaveRule,
};

/// How many rows a batch has at most: some megabytes before compression.
pub const MOST_ROWS: usize = 1 << 16;

/// Where a recording is written.
#[derive(Debug)]
pub struct Sink {
    /// A file that is open for writing; its content is overwritten.
    pub file: File,
    /// How its size is bounded; `None` if not.
    pub bound: Option<Bound>,
    /// When to save what a bounded recording holds.
    pub save_when: Vec<SaveRule>,
}

impl Sink {
    /// The file at `path`, open for writing, which is locked from now on. `keep`: what to keep, if
    /// not everything.
    ///
    /// # Errors
    /// Another sbt records into the file, or `keep` is not possible there.
    pub fn to(file: File, path: &Path, keep: Option<Keep>) -> anyhow::Result<Self> {
        anyhow::ensure!(
            // Some file systems have no locks.
            !matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            "cannot record into {}: another sbt records into it; name another file",
            printable(&path.to_string_lossy())
        );
        let bound = keep.map(|keep| Bound::new(path, keep)).transpose()?;
        Ok(Self {
            file,
            bound,
            save_when: Vec::new(),
        })
    }
}

/// Why a batch could not be written. An error of the file stands for itself, so that it is printed
/// once.
fn plain(error: ArrowError) -> anyhow::Error {
    match error {
        ArrowError::IoError(_, error) => error.into(),
        other => other.into(),
    }
}

/// Collects rows, and writes them as batches into a file.
pub struct Stream {
    file: File,
    /// Its output gets checksums before it goes to the file.
    writer: StreamWriter<Vec<u8>>,
    sums: Sums,
    schema: Arc<Schema>,
    columns: Columns,
}

impl Stream {
    /// Begins a stream in an open, empty file.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn to(file: File) -> anyhow::Result<Self> {
        let schema = Arc::new(columns::schema());
        let options =
            IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
        let writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options);
        let mut this = Self {
            file,
            writer: writer.map_err(plain)?,
            sums: Sums::default(),
            schema,
            columns: Columns::new(),
        };
        this.hand_over()?;
        Ok(this)
    }

    /// Writes the output so far to the file, each batch with its checksum.
    fn hand_over(&mut self) -> io::Result<()> {
        let made = mem::take(self.writer.get_mut());
        self.file.write_all(&self.sums.seal(&made))
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn push(&mut self, row: &Row) -> anyhow::Result<()> {
        self.columns.push(&row.cells()?);
        if self.columns.rows() >= MOST_ROWS {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        self.check()?;
        if self.columns.rows() > 0 {
            let batch = self.columns.finish(&self.schema)?;
            self.writer.write(&batch).map_err(plain)?;
            self.hand_over()?;
        }
        Ok(())
    }

    /// Fails if the file was removed, or something else was written to it.
    fn check(&mut self) -> anyhow::Result<()> {
        let file = &mut self.file;
        let is = file.metadata()?;
        anyhow::ensure!(is.nlink() > 0, "its file was removed or replaced");
        anyhow::ensure!(
            is.len() == file.stream_position()?,
            "something else truncated its file or wrote to it"
        );
        Ok(())
    }

    /// Writes out the pending rows as a batch. Returns the length of the file, bytes.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn flush(&mut self) -> anyhow::Result<u64> {
        self.write()?;
        self.file.flush()?;
        Ok(self.file.stream_position()?)
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.write()?;
        self.writer.finish().map_err(plain)?;
        Ok(self.hand_over()?)
    }

    /// The file, to which whole batches may be added.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }
}

/// Writes a recording while the run goes on. What was flushed can be read even if sbt is killed.
pub struct Recorder {
    stream: Stream,
    /// The generations, if not everything is kept.
    generations: Option<Generations>,
}

impl Recorder {
    /// Begins a recording.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn to(sink: Sink, begin: Begin) -> anyhow::Result<Self> {
        sink.file.set_len(0)?;
        let mut this = Self {
            stream: Stream::to(sink.file)?,
            generations: sink.bound.map(|bound| Generations::new(bound, begin)),
        };
        this.stream.push(&Row::Begin(begin))?;
        Ok(this)
    }

    /// Adds new places, and steps of the model, which may refer to them.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn add(&mut self, steps: Vec<Step>, places: Vec<Place>) -> anyhow::Result<()> {
        if let Some(generations) = &mut self.generations
            && !generations.take(&steps, &places)
        {
            return Ok(());
        }
        for place in places {
            self.stream.push(&Row::Place(Box::new(place)))?;
        }
        for step in steps {
            self.stream.push(&Row::Step(step))?;
        }
        Ok(())
    }

    /// Writes out what is pending, and the facts of the run so far. `report`: the report so far, if
    /// the events kept are too few to make it.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn flush(&mut self, facts: Facts, report: Option<Report>) -> anyhow::Result<()> {
        let Some(generations) = &mut self.generations else {
            self.stream.push(&Row::Facts(Box::new(facts)))?;
            self.stream.flush()?;
            return Ok(());
        };
        generations.flush(&mut self.stream, facts, report)
    }

    /// Saves what the recording holds, which must be flushed, to a file of its own, beside its file.
    /// Returns the name of the new file. The recording itself stays as it is, also in case of an error.
    ///
    /// # Errors
    /// Errors of the files, or the recording is not bounded.
    pub fn save(&mut self, facts: Facts, report: Report) -> anyhow::Result<String> {
        let Some(generations) = &mut self.generations else {
            anyhow::bail!("only a recording with --keep can be saved");
        };
        generations.save(&mut self.stream, facts, report)
    }

    /// Ends the recording in order.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn end(mut self, facts: Facts, report: Option<Report>) -> anyhow::Result<()> {
        if (self.generations.as_ref()).is_none_or(Generations::has_events) {
            self.stream.push(&Row::Facts(Box::new(facts)))?;
        }
        if let Some(report) = report {
            let report = Row::Report(Box::new(report));
            let alone = self.generations.as_ref();
            match alone.and_then(|generations| generations.last(&mut self.stream, &report)) {
                Some(alone) => self.stream = alone,
                None => self.stream.push(&report)?,
            }
        }
        self.stream.push(&Row::End)?;
        self.stream.finish()
    }
}
