//! Recordings that do not grow with the run: the report so far instead of what it is made
//! of, and what happened lately.
//!
//! What happens is written in generations, each of which can be read without those before.
//! There are two at most in the file: when the younger is old enough, another file is begun
//! with it alone and takes the first one's place. At any moment there is one whole file.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Seek as _, SeekFrom},
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
    write::Stream,
};
use sbt_engine::{
    model::tape::Step,
    place::{Place, printable},
    report::{Report, Run},
};
use sbt_program::access::typed;

/// A generation that has reports only is as old as that, ns.
const STATISTICS_NS: u64 = 10_000_000_000;

/// For how long a report makes the next one wait, ns for each of its bytes: one of thousands
/// of threads takes as much room as what happens in seconds.
const NS_PER_BYTE: u64 = 10_000;

/// Names of files that are tried, at most.
const MOST_NAMES: u32 = 100;

/// What is kept beside statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// What happened in the last while, at least.
    Events(Duration),
    /// Nothing.
    Statistics,
}

/// What bounds a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The file itself, whatever it was called, in its folder, whatever is put in the place of that.
    place: typed::Place,
    keep: Keep,
}

impl Bound {
    /// Of the file at `path`, which is there.
    ///
    /// # Errors
    /// No other file can be put in its place.
    pub fn new(path: &Path, keep: Keep) -> anyhow::Result<Self> {
        let shown = printable(&path.to_string_lossy());
        let path = fs::canonicalize(path).with_context(|| format!("cannot find {shown}"))?;
        let made = typed::at(&path, |place| {
            // With rights that do for the file itself.
            place.existing()?.ok_or(io::ErrorKind::NotFound)?;
            let place = place.clone();
            let this = Self { place, keep };
            this.next()?.0.remove()?;
            Ok(this)
        });
        made.with_context(|| {
            format!(
                "cannot keep the recording {shown} small: another file has to be written beside \
                 it, and its folder does not let us; name a file elsewhere"
            )
        })
    }

    /// Whether what happens is in the file.
    pub fn has_events(&self) -> bool {
        self.keep != Keep::Statistics
    }

    /// A new file that will be in its place, with a name that nobody else uses.
    fn next(&self) -> io::Result<(typed::Place, File)> {
        let stem = self.place.name();
        for number in 0.. {
            let mut name = OsString::from(".");
            // Names have 255 bytes at most.
            name.push(
                Some(stem)
                    .filter(|it| it.len() < 200)
                    .unwrap_or("sbt".as_ref()),
            );
            name.push(format!(".{}-{number}.next", std::process::id()));
            let place = self.place.beside(name);
            match place.create_new() {
                // Of another machine, or of one with our number that was killed.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && number < MOST_NAMES => {}
                made => return Ok((place, made?)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Whether a file is what is there.
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
    /// Since when, ns.
    since_ns: u64,
    /// Where in the file, bytes.
    at: u64,
}

/// The generations of a file.
#[derive(Debug)]
pub struct Generations {
    bound: Bound,
    recap: Recap,
    younger: Generation,
    has_older: bool,
    /// The report is not written again before, ns.
    report_ns: u64,
}

impl Generations {
    /// The first, of a file that is begun.
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
        }
    }

    /// Whether what happens is in the file.
    pub fn has_events(&self) -> bool {
        self.bound.has_events()
    }

    /// Takes note of what the model is told; whether it is to be written down.
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

    /// Writes out what there is, and begins the next generation if it is time.
    ///
    /// # Errors
    /// Those of the files. What is at the path then is whole up to the last flush.
    pub fn flush(
        &mut self,
        stream: &mut Stream,
        facts: Run,
        report: Option<Report>,
    ) -> anyhow::Result<()> {
        let now_ns = facts.start_ns.saturating_add(facts.wall_ns);
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

    /// Begins a generation: what has to be known of those before.
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

    /// Where statistics are all that is kept, a file with the last report alone. `None` if
    /// there can be none: then the one that there is goes on.
    pub fn last(&self, stream: &mut Stream, report: &Row) -> Option<Stream> {
        if self.has_events() {
            return None;
        }
        let (alone, _) = self.without_older(stream, Some(report)).ok()?;
        Some(alone)
    }

    /// A file with the report so far and the younger generation, in the place of the one
    /// that is written now; and how long it is.
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
        next_place: &typed::Place,
        file: File,
    ) -> anyhow::Result<(Stream, u64)> {
        // Whoever finds it in its place is to know that it is written.
        let _knows_no_locks = file.try_lock();
        let before = stream.file();
        let is = before.metadata()?;
        let now = file.metadata()?;
        if (is.uid(), is.gid()) != (now.uid(), now.gid()) {
            fchown(&file, Some(is.uid()), Some(is.gid()))?;
        }
        file.set_permissions(is.permissions())?;
        let mut next = Stream::to(file)?;
        // With the first batch goes what all others refer to.
        next.push(&Row::Begin(self.younger.begin))?;
        if let Some(report) = report {
            next.push(report)?;
        }
        next.flush()?;
        if self.has_events() {
            // It was opened for writing alone.
            let mut old = File::open(format!("/proc/self/fd/{}", before.as_raw_fd()))?;
            old.seek(SeekFrom::Start(self.younger.at))?;
            io::copy(&mut old, next.file())?;
        }
        let length = next.file().stream_position()?;
        // What it replaces may be all that there is of a long run.
        next.file().sync_data()?;
        anyhow::ensure!(
            self.bound.is(stream.file())?,
            "its file was removed, moved or replaced"
        );
        next_place.replace(&self.bound.place)?;
        Ok((next, length))
    }
}
