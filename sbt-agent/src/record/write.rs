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
    report::{Report, Run},
};

/// Rows of a batch, at most: some megabytes before they are compressed.
pub const MOST_ROWS: usize = 1 << 16;

/// Where a recording goes.
#[derive(Debug)]
pub struct Sink {
    /// A file that is open for writing, whatever is in it.
    pub file: File,
    /// What bounds its size, if anything does.
    pub bound: Option<Bound>,
}

impl Sink {
    /// The file at `path`, which is open for writing: nobody else records into it from here
    /// on. `keep`: what, if not all.
    ///
    /// # Errors
    /// Somebody does, or what is to be kept cannot be.
    pub fn to(file: File, path: &Path, keep: Option<Keep>) -> anyhow::Result<Self> {
        anyhow::ensure!(
            // Some file systems know no locks.
            !matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            "cannot record into {}: another sbt records into it; name another file",
            printable(&path.to_string_lossy())
        );
        let bound = keep.map(|keep| Bound::new(path, keep)).transpose()?;
        Ok(Self { file, bound })
    }
}

/// Why a batch could not be written: what the file has to say is told once, and as it is.
fn plain(error: ArrowError) -> anyhow::Error {
    match error {
        ArrowError::IoError(_, error) => error.into(),
        other => other.into(),
    }
}

/// Rows that become batches of a file.
pub struct Stream {
    file: File,
    /// What it makes is sealed before it goes to the file.
    writer: StreamWriter<Vec<u8>>,
    sums: Sums,
    schema: Arc<Schema>,
    columns: Columns,
}

impl Stream {
    /// In a file that is open and empty.
    ///
    /// # Errors
    /// Those of the file.
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

    /// Writes what has been made to the file, each batch with its checksum.
    fn hand_over(&mut self) -> io::Result<()> {
        let made = mem::take(self.writer.get_mut());
        self.file.write_all(&self.sums.seal(&made))
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Those of the file.
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

    /// Makes sure that what was written is still there, and nothing else.
    fn check(&mut self) -> anyhow::Result<()> {
        let file = &mut self.file;
        let is = file.metadata()?;
        anyhow::ensure!(is.nlink() > 0, "its file was removed or replaced");
        anyhow::ensure!(
            is.len() == file.stream_position()?,
            "something else has cut its file off or written to it"
        );
        Ok(())
    }

    /// Writes out what there is, as a batch; how long the file is then, bytes.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&mut self) -> anyhow::Result<u64> {
        self.write()?;
        self.file.flush()?;
        Ok(self.file.stream_position()?)
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.write()?;
        self.writer.finish().map_err(plain)?;
        Ok(self.hand_over()?)
    }

    /// The file: whole batches may be added to it.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }
}

/// A file that grows as the run goes on. What was flushed can be read whatever becomes of
/// us.
pub struct Recorder {
    stream: Stream,
    /// Where not all is kept.
    generations: Option<Generations>,
}

impl Recorder {
    /// Begins one.
    ///
    /// # Errors
    /// Those of the file.
    pub fn to(sink: Sink, begin: Begin) -> anyhow::Result<Self> {
        sink.file.set_len(0)?;
        let mut this = Self {
            stream: Stream::to(sink.file)?,
            generations: sink.bound.map(|bound| Generations::new(bound, begin)),
        };
        this.stream.push(&Row::Begin(begin))?;
        Ok(this)
    }

    /// Takes in what the model was told, and the places that are new: steps refer to them.
    ///
    /// # Errors
    /// Those of the file.
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

    /// Writes out what there is, with what is known beside the model by now. `report`: the
    /// report so far, if not all is kept of which it could be made.
    ///
    /// # Errors
    /// Likewise.
    pub fn flush(&mut self, facts: Run, report: Option<Report>) -> anyhow::Result<()> {
        let Some(generations) = &mut self.generations else {
            self.stream.push(&Row::Facts(Box::new(facts)))?;
            self.stream.flush()?;
            return Ok(());
        };
        generations.flush(&mut self.stream, facts, report)
    }

    /// Ends the file in order.
    ///
    /// # Errors
    /// Likewise.
    pub fn end(mut self, facts: Run, report: Option<Report>) -> anyhow::Result<()> {
        if (self.generations.as_ref()).is_none_or(Generations::has_events) {
            self.stream.push(&Row::Facts(Box::new(facts)))?;
        }
        if let Some(report) = report {
            let report = Row::Report(Box::new(report));
            let alone = self.generations.as_ref();
            match alone.and_then(|it| it.last(&mut self.stream, &report)) {
                Some(alone) => self.stream = alone,
                None => self.stream.push(&report)?,
            }
        }
        self.stream.push(&Row::End)?;
        self.stream.finish()
    }
}
