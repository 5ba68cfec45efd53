//! Writes a recording.

use std::{fs::File, io::Write as _, sync::Arc};

use arrow_ipc::{
    CompressionType,
    writer::{IpcWriteOptions, StreamWriter},
};
use arrow_schema::Schema;

use super::{
    columns::{self, Columns},
    rows::{Begin, Row},
};
use crate::{model::tape::Step, place::Place, report::Run};

/// Rows of a batch, at most: some megabytes before they are compressed.
pub const MOST_ROWS: usize = 1 << 16;

/// A file that grows as the run goes on. What was flushed can be read whatever becomes of
/// us.
pub struct Recorder {
    writer: StreamWriter<File>,
    schema: Arc<Schema>,
    columns: Columns,
}

impl Recorder {
    /// Begins one in a file that is open and empty.
    ///
    /// # Errors
    /// Those of the file.
    pub fn to(file: File, begin: Begin) -> anyhow::Result<Self> {
        let schema = Arc::new(columns::schema());
        let options =
            IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
        let writer = StreamWriter::try_new_with_options(file, &schema, options)?;
        let mut this = Self {
            writer,
            schema,
            columns: Columns::new(),
        };
        this.push(&Row::Begin(begin))?;
        Ok(this)
    }

    /// Takes in what the model was told, and the places that are new: steps refer to them.
    ///
    /// # Errors
    /// Those of the file.
    pub fn add(&mut self, steps: Vec<Step>, places: Vec<Place>) -> anyhow::Result<()> {
        for place in places {
            self.push(&Row::Place(Box::new(place)))?;
        }
        for step in steps {
            self.push(&Row::Step(step))?;
        }
        Ok(())
    }

    /// Writes out what there is, with what is known beside the model by now.
    ///
    /// # Errors
    /// Likewise.
    pub fn flush(&mut self, facts: Run) -> anyhow::Result<()> {
        self.push(&Row::Facts(Box::new(facts)))?;
        self.write()?;
        self.writer.get_mut().flush()?;
        Ok(())
    }

    /// Ends the file in order.
    ///
    /// # Errors
    /// Likewise.
    pub fn end(mut self, facts: Run) -> anyhow::Result<()> {
        self.push(&Row::Facts(Box::new(facts)))?;
        self.push(&Row::End)?;
        self.write()?;
        self.writer.finish()?;
        Ok(())
    }

    fn push(&mut self, row: &Row) -> anyhow::Result<()> {
        self.columns.push(&row.cells()?);
        if self.columns.rows() >= MOST_ROWS {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        if self.columns.rows() > 0 {
            let batch = self.columns.finish(&self.schema)?;
            self.writer.write(&batch)?;
        }
        Ok(())
    }
}
