//! Recordings: what a model was told, written down so that another model can be told the same, on
//! any machine and without any privilege.
//!
//! A file is a stream of Arrow record batches (IPC streaming format), so that pandas, polars and
//! other tools can read it. Each batch is whole by itself: if the writer was killed, all batches
//! but a torn last one can be read. docs/recording.md has the columns.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use anyhow::{Context as _, anyhow};

use serde::Deserialize;

use sbt_engine::{
    place::printable,
    report::{Report, SCHEMA, sound},
    verdict,
};
use sbt_program::access::typed;

mod batches;
mod bounded;
mod bounds;
mod clean;
mod columns;
mod frames;
pub mod job;
mod lately;
mod origin;
mod read;
mod recap;
mod replay;
mod rows;
pub mod seal;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub use bounded::{Bound, Keep};
pub use origin::origin;
pub use read::{ReadError, Reader};
pub use replay::{Extent, Replay, Rest, Whole};
pub use rows::{Begin, Row};
pub use write::{Recorder, Sink};

/// The version of the format, stored in the metadata of the schema. It changes when a reader of the
/// older one would misread the file.
pub const FORMAT: u32 = 1;

/// Keys of the format's version and of sbt's version in that metadata.
const FORMAT_KEY: &str = "sbt.format";
const VERSION_KEY: &str = "sbt.version";

/// The content of a file.
pub enum Source {
    /// A recording, of which no row is read yet.
    Recording(Box<Replay>),
    /// A report as JSON.
    Report(Box<Report>),
}

/// The report of a recording, of a report as JSON, or of a folder with the recordings of a job.
///
/// # Errors
/// The file is neither; see [`ReadError`]. The folder has none, or they cannot be merged.
pub fn report(path: &Path) -> anyhow::Result<Report> {
    if path.is_dir() {
        return match job::recordings(&[path.to_owned()])?.as_slice() {
            [one] => report(one),
            all => job::report(all),
        };
    }
    Ok(match open(path)? {
        Source::Recording(replay) => replay.report()?,
        Source::Report(report) => *report,
    })
}

/// Opens a file of any kind. A pipe is opened without waiting for its writer.
fn open_file(path: &Path) -> io::Result<File> {
    typed::read(path)
}

/// Opens a recording, or reads a report as JSON.
///
/// # Errors
/// The file is neither; see [`ReadError`].
pub fn open(path: &Path) -> anyhow::Result<Source> {
    let shown = printable(&path.to_string_lossy());
    let mut begin = [0];
    let file = open_file(path).with_context(|| format!("cannot read {shown}"))?;
    anyhow::ensure!(
        file.metadata().is_ok_and(|metadata| metadata.is_file()),
        "{shown} is not a regular file; a recording or a report must be a regular file"
    );
    let is_json = (&file)
        .read_exact(&mut begin)
        .is_ok_and(|()| begin == *b"{");
    if !is_json {
        return Ok(Source::Recording(Box::new(Replay::open(path)?)));
    }
    let mut text = String::from("{");
    (&file)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    let newer = newer_schema(&text);
    anyhow::ensure!(
        newer.is_none(),
        "{shown} was made by a newer sbt (its schema is {}, and this sbt knows schemas up to \
         {SCHEMA}); use a newer sbt",
        newer.unwrap_or_default()
    );
    let report: Report = clean::read(&text)
        .map_err(|error| anyhow!("{shown} is not a report of this version of sbt: {error}"))?;
    // An older sbt may have reported figures or verdicts that this one would withhold.
    Ok(Source::Report(Box::new(verdict::again(sound(report)))))
}

/// The version of a report's fields, if this sbt does not know it yet.
fn newer_schema(text: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Version {
        schema: u64,
    }
    let version: Version = serde_json::from_str(text).ok()?;
    (version.schema > u64::from(SCHEMA)).then_some(version.schema)
}

#[cfg(test)]
mod schema_tests {
    use super::*;

    #[test]
    fn only_a_newer_schema_is_refused() {
        let of = |schema: u64| newer_schema(&format!("{{\"schema\": {schema}, \"new\": []}}"));
        assert_eq!(of(SCHEMA.into()), None);
        assert_eq!(of(99), Some(99));
        assert_eq!(of(u64::MAX), Some(u64::MAX));
        assert_eq!(newer_schema("{}"), None);
        assert_eq!(newer_schema("{\"schema\": 99"), None);
    }
}
