//! Recordings that do not grow with the run: they hold the report so far, and what happened lately.
//!
//! Events are written in generations, each of which can be read without earlier ones. A file has at
//! most two. When the younger is old enough, a new file is begun with it alone, and replaces the
//! first file. At any moment there is one whole file.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Seek as _, SeekFrom, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{MetadataExt as _, fchown},
    },
    path::Path,
    time::Duration,
};

use anyhow::Context as _;

use super::{
    recap::Recap,
    rows::{Begin, Row},
    seal::first_batch,
    write::Stream,
};
use sbt_engine::{
    model::tape::Step,
    place::{Place, printable},
    report::{Facts, Report},
};
use sbt_program::access::typed;

/// How old a generation gets that holds reports only, ns.
const STATISTICS_NS: u64 = 10_000_000_000;

/// Pause after a report, ns for each of its bytes: the report of thousands of threads takes as much
/// room as the events of seconds.
const NS_PER_BYTE: u64 = 10_000;

/// The largest number of names for a new file that are tried.
const MOST_NAMES: u32 = 100;

/// The largest number in the name of a saved file.
const MOST_SAVED: u32 = 10_000;

/// The parts of a run that are kept besides statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The events of the last while, at least this long.
    Events(Duration),
    /// No events.
    Statistics,
}

/// How a recording is bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The file itself and its folder, even if its path comes to mean another file.
    place: typed::FolderEntry,
    keep: Keep,
}

impl Bound {
    /// For the file at `path`, which must exist.
    ///
    /// # Errors
    /// The folder does not allow another file to take its place.
    pub fn new(path: &Path, keep: Keep) -> anyhow::Result<Self> {
        let shown = printable(&path.to_string_lossy());
        let path = fs::canonicalize(path).with_context(|| format!("cannot find {shown}"))?;
        let made = typed::at(&path, |place| {
            // Tried with the rights that suffice for the file itself.
            place.existing()?.ok_or(io::ErrorKind::NotFound)?;
            let place = place.clone();
            let this = Self { place, keep };
            this.next()?.0.remove()?;
            Ok(this)
        });
        made.with_context(|| {
            format!(
                "cannot limit the size of the recording {shown}: sbt has to write a second file \
                 beside it, and its folder does not permit that; name a file elsewhere"
            )
        })
    }

    /// Whether events are in the file.
    pub fn has_events(&self) -> bool {
        self.keep != Keep::Statistics
    }

    /// Makes a new file that will take the recording's place, with an unused name.
    fn next(&self) -> io::Result<(typed::FolderEntry, File)> {
        let stem = self.place.name();
        for number in 0.. {
            let mut name = OsString::from(".");
            // A name has at most 255 bytes.
            name.push(
                Some(stem)
                    .filter(|stem| stem.len() < 200)
                    .unwrap_or("sbt".as_ref()),
            );
            name.push(format!(".{}-{number}.next", std::process::id()));
            let place = self.place.beside(name);
            match place.create_new() {
                // Used on another machine, or by an earlier process with this pid that was killed.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_NAMES => {}
                made => return Ok((place, made?)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Makes a new file for what the recording holds now, with a number in its name.
    fn numbered(&self, from: u32) -> io::Result<(u32, typed::FolderEntry, File)> {
        let name = Path::new(self.place.name());
        let (stem, kind) = (name.file_stem(), name.extension());
        for number in from.. {
            let mut name = stem.unwrap_or("sbt".as_ref()).to_owned();
            name.push(format!("-{number}"));
            if let Some(kind) = kind {
                name.push(".");
                name.push(kind);
            }
            let place = self.place.beside(name);
            match place.create_new() {
                // Of an earlier run.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_SAVED => {}
                made => return Ok((number, place, made?)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Whether `file` is the one at the recording's place.
    fn is(&self, file: &File) -> io::Result<bool> {
        let mine = file.metadata()?;
        let there = self.place.stat();
        Ok(there.is_ok_and(|found| (found.st_dev, found.st_ino) == (mine.dev(), mine.ino())))
    }

    /// How old a generation gets, ns.
    fn age_ns(&self) -> u64 {
        match self.keep {
            Keep::Events(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Keep::Statistics => STATISTICS_NS,
        }
    }
}

/// The younger generation of a file.
#[derive(Clone, Copy, Debug)]
struct Generation {
    begin: Begin,
    /// The time at which it began, ns.
    since_ns: u64,
    /// Its offset in the file, bytes.
    at: u64,
}

/// The generations of a file.
#[derive(Debug)]
pub struct Generations {
    bound: Bound,
    recap: Recap,
    younger: Generation,
    has_older: bool,
    /// The next report is written after this time, ns.
    report_ns: u64,
    /// The number in the name of the last saved file.
    saved: u32,
}

impl Generations {
    /// The first generation, of a new file.
    pub const fn new(bound: Bound, begin: Begin) -> Self {
        Self {
            bound,
            recap: Recap::new(begin),
            younger: Generation {
                begin,
                since_ns: begin.start_ns,
                at: 0,
            },
            has_older: false,
            report_ns: 0,
            saved: 0,
        }
    }

    /// Whether events are in the file.
    pub fn has_events(&self) -> bool {
        self.bound.has_events()
    }

    /// Keeps what later generations must know. Returns whether these rows belong into the file.
    pub fn take(&mut self, steps: &[Step], places: &[Place]) -> bool {
        if self.has_events() {
            for place in places {
                self.recap.place(place);
            }
            for step in steps {
                self.recap.take(step);
            }
        }
        self.has_events()
    }

    /// Writes out what is pending, and begins the next generation if it is time.
    ///
    /// # Errors
    /// Errors of the files. The file at the path is then whole up to the last flush.
    pub fn flush(
        &mut self,
        stream: &mut Stream,
        facts: Facts,
        report: Option<Report>,
    ) -> anyhow::Result<()> {
        let now_ns = facts.run.start_ns.saturating_add(facts.run.wall_ns);
        let facts = Row::Facts(Box::new(facts));
        let report = report.map(|report| Row::Report(Box::new(report)));
        if self.has_events() {
            stream.push(&facts)?;
        }
        let mut at = stream.flush()?;
        if let Some(report) = report.as_ref().filter(|_| now_ns >= self.report_ns) {
            let before = at;
            stream.push(report)?;
            at = stream.flush()?;
            let bytes = at.saturating_sub(before);
            self.report_ns = now_ns.saturating_add(bytes.saturating_mul(NS_PER_BYTE));
        }
        if now_ns.saturating_sub(self.younger.since_ns) < self.bound.age_ns() {
            return Ok(());
        }
        if self.has_older {
            let begun = self.without_older(stream, report.as_ref());
            (*stream, at) = begun.context("beginning the next file")?;
        }
        self.has_older = true;
        self.younger = Generation {
            begin: self.recap.begin(),
            since_ns: now_ns,
            at,
        };
        self.begin(stream, &facts)
    }

    /// Begins a generation with what must be known from before.
    fn begin(&self, stream: &mut Stream, facts: &Row) -> anyhow::Result<()> {
        if !self.has_events() {
            return Ok(());
        }
        stream.push(&Row::Begin(self.younger.begin))?;
        stream.push(facts)?;
        stream.push(&Row::Recap(true))?;
        for row in self.recap.rows() {
            stream.push(&row)?;
        }
        stream.push(&Row::Recap(false))?;
        stream.flush()?;
        Ok(())
    }

    /// If only statistics are kept: a new file with just the last report. `None` if it cannot be
    /// made; then the present file goes on.
    pub fn last(&self, stream: &mut Stream, report: &Row) -> Option<Stream> {
        if self.has_events() {
            return None;
        }
        let (alone, _) = self.without_older(stream, Some(report)).ok()?;
        Some(alone)
    }

    /// Writes what the file holds, which must be flushed, to a new file with an end. Returns the
    /// name of that file.
    pub fn save(
        &mut self,
        stream: &mut Stream,
        facts: Facts,
        report: Report,
    ) -> anyhow::Result<String> {
        let bound = self.bound.clone();
        bound.place.act(|_| {
            let (number, place, file) = bound.numbered(self.saved + 1)?;
            self.saved = number;
            let written = like(stream.file(), &file)
                .map_err(Into::into)
                .and_then(|()| copy(stream, file, facts, report));
            if written.is_err() {
                let _is_not_there = place.remove();
            }
            written?;
            Ok(printable(&place.name().to_string_lossy()))
        })
    }

    /// Makes a file with the report so far and the younger generation, in place of the present one.
    /// Returns also its length, bytes.
    fn without_older(
        &self,
        stream: &mut Stream,
        report: Option<&Row>,
    ) -> anyhow::Result<(Stream, u64)> {
        self.bound.place.act(|_| {
            let (next, file) = self.bound.next()?;
            let made = self.make(stream, report, &next, file);
            if made.is_err() {
                let _is_not_there = next.remove();
            }
            made
        })
    }

    fn make(
        &self,
        stream: &mut Stream,
        report: Option<&Row>,
        next_place: &typed::FolderEntry,
        file: File,
    ) -> anyhow::Result<(Stream, u64)> {
        // Locked before it is in place, as a sign that it is being written.
        let _knows_no_locks = file.try_lock();
        let before = stream.file();
        like(before, &file)?;
        let mut next = Stream::to(file)?;
        // The first batch holds the row to which all others refer.
        next.push(&Row::Begin(self.younger.begin))?;
        if let Some(report) = report {
            next.push(report)?;
        }
        next.flush()?;
        if self.has_events() {
            let mut old = File::open(reopened(before))?;
            old.seek(SeekFrom::Start(self.younger.at))?;
            io::copy(&mut old, next.file())?;
        }
        let length = next.file().stream_position()?;
        // Synced first: the file that it replaces may be all that exists of a long run.
        next.file().sync_data()?;
        anyhow::ensure!(
            self.bound.is(stream.file())?,
            "its file was removed, moved or replaced"
        );
        next_place.replace(&self.bound.place)?;
        Ok((next, length))
    }
}

/// Gives a new file the owner and the permissions of another.
fn like(before: &File, file: &File) -> io::Result<()> {
    let is = before.metadata()?;
    let now = file.metadata()?;
    if (is.uid(), is.gid()) != (now.uid(), now.gid()) {
        fchown(file, Some(is.uid()), Some(is.gid()))?;
    }
    file.set_permissions(is.permissions())
}

/// Copies a stream to a file, and ends it there.
fn copy(stream: &mut Stream, mut file: File, facts: Facts, report: Report) -> anyhow::Result<()> {
    // A stream of its own first, of which only the batches are used.
    let mut end = Stream::to(file.try_clone()?)?;
    end.push(&Row::Facts(Box::new(facts)))?;
    end.push(&Row::Report(Box::new(report)))?;
    end.push(&Row::End)?;
    end.finish()?;
    let end = fs::read(reopened(&file))?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    io::copy(&mut File::open(reopened(stream.file()))?, &mut file)?;
    file.write_all(&end[first_batch(&end)..])?;
    Ok(())
}

/// A name under which a file that is open for writing only can be read.
fn reopened(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
