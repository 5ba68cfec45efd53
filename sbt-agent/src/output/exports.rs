//! `sbt report --html OUT` and the like: reads a recording as often as it takes, and replaces
//! the files when all of them are whole.

use std::{
    fs,
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use super::{guard::Named, progress::Progress, replace::Replacement};
use crate::{
    cli::Exports,
    export::{
        Episode, Numbers, csv,
        html::{self, Told},
        perfetto,
        timeline::Timeline,
    },
    place::printable,
    record::{self, Replay, Source, Whole},
    report::{Report, order::Order},
};

/// What each file is called in messages, and where it is to be.
pub fn written(exports: &Exports) -> [Named<'_>; 5] {
    [
        ("--html", exports.html.as_deref()),
        ("--perfetto", exports.perfetto.as_deref()),
        ("--csv", exports.csv.as_deref()),
        ("--csv-episodes", exports.csv_episodes.as_deref()),
        ("--folded", exports.folded.as_deref()),
    ]
}

/// The files that are being written.
struct Files {
    html: Option<Replacement>,
    perfetto: Option<Replacement>,
    csv: Option<Replacement>,
    csv_episodes: Option<Replacement>,
    folded: Option<Replacement>,
}

impl Files {
    fn begin(exports: &Exports) -> anyhow::Result<Self> {
        let begin = |path: &Option<PathBuf>| path.as_deref().map(Replacement::begin).transpose();
        Ok(Self {
            html: begin(&exports.html)?,
            perfetto: begin(&exports.perfetto)?,
            csv: begin(&exports.csv)?,
            csv_episodes: begin(&exports.csv_episodes)?,
            folded: begin(&exports.folded)?,
        })
    }

    /// Whether single episodes are needed.
    const fn need_episodes(&self) -> bool {
        self.html.is_some() || self.perfetto.is_some() || self.csv_episodes.is_some()
    }

    fn finish(self) -> anyhow::Result<()> {
        let all = [
            self.html,
            self.perfetto,
            self.csv,
            self.csv_episodes,
            self.folded,
        ];
        all.into_iter().flatten().try_for_each(Replacement::finish)
    }
}

/// Writes all that was asked for, and gives the report that it was made from. That none of
/// it is what is read is for [`super::guard::check`] to say, first.
///
/// # Errors
/// The file is no recording, and what was asked for needs one; or something cannot be
/// written. Then nothing is replaced.
pub fn write(file: &Path, exports: &Exports) -> anyhow::Result<Report> {
    let shown = printable(&file.to_string_lossy());
    let report = match record::open(file)? {
        Source::Recording(replay) => {
            let mut files = Files::begin(exports)?;
            let mut progress = Progress::of(format!("reading {shown}"));
            let whole = replay.whole(&mut |share| progress.at(share))?;
            drop(progress);
            let report = of_recording(file, whole, &mut files)?;
            files.finish()?;
            report
        }
        Source::Report(report) => {
            let needs = [
                ("--perfetto", exports.perfetto.is_some()),
                ("--csv-episodes", exports.csv_episodes.is_some()),
                ("--folded", exports.folded.is_some()),
            ];
            if let Some((option, _)) = needs.iter().find(|(_, asked)| *asked) {
                anyhow::bail!(
                    "{option} needs a recording, and {shown} is a report in JSON: `sbt run -o \
                     FILE` makes a recording"
                );
            }
            let mut files = Files::begin(exports)?;
            if let Some(out) = &mut files.html {
                html::write(&report, &Told::Nothing, out).context("cannot write the page")?;
            }
            tables(&report, &mut files)?;
            files.finish()?;
            *report
        }
    };
    written(exports)
        .into_iter()
        .filter_map(|(_, path)| path)
        .for_each(tell);
    Ok(report)
}

/// On a terminal one wants to know that something has happened.
fn tell(path: &Path) {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    if let Some(size) = size.filter(|_| io::stderr().is_terminal()) {
        let shown = printable(&path.to_string_lossy());
        let kilobytes = size.len().div_ceil(1000);
        let text = format!("sbt: wrote {shown}, {kilobytes} kB\n");
        let _gone = io::stderr().write_all(text.as_bytes());
    }
}

fn tables(report: &Report, files: &mut Files) -> anyhow::Result<()> {
    if let Some(out) = &mut files.csv {
        csv::sites(report, out).context("cannot write the table")?;
    }
    Ok(())
}

fn of_recording(file: &Path, whole: Whole, files: &mut Files) -> anyhow::Result<Report> {
    let Whole {
        report,
        order,
        folded,
    } = whole;
    if let Some(out) = &mut files.folded {
        stacks(&report, folded, out)?;
    }
    tables(&report, files)?;
    if files.need_episodes() {
        episodes(file, &report, order, files)?;
    }
    Ok(report)
}

fn stacks(
    report: &Report,
    folded: Option<Vec<String>>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        report.sampling.is_some(),
        "--folded needs samples, and none were recorded: `sbt run --sample 200 -o FILE` takes some"
    );
    let lines = folded.context(
        "--folded needs the end of the recording, and it is not there: whoever wrote it was \
         killed, or is of an older version",
    )?;
    for line in lines {
        writeln!(out, "{line}").context("cannot write the stacks")?;
    }
    Ok(())
}

/// Goes through the recording once more, for what is made of single episodes.
fn episodes(file: &Path, report: &Report, order: Order, files: &mut Files) -> anyhow::Result<()> {
    const TRACE: &str = "cannot write the trace";
    const TABLE: &str = "cannot write the table of episodes";
    let mut progress = Progress::of("writing".into());
    let numbers = Numbers::new(report, order);
    let mut timeline = files
        .html
        .is_some()
        .then(|| Timeline::new(report.wall_ns, report.threads.len()));
    let trace = files.perfetto.as_mut();
    let mut trace = trace
        .map(|out| perfetto::Trace::new(report, out).context(TRACE))
        .transpose()?;
    let table = files.csv_episodes.as_mut();
    let mut table = table
        .map(|out| csv::Episodes::new(report, out).context(TABLE))
        .transpose()?;
    let mut add = |episode: Episode| {
        if let Some(trace) = &mut trace {
            trace.add(&episode).context(TRACE)?;
        }
        if let Some(table) = &mut table {
            table.add(&episode).context(TABLE)?;
        }
        if let Some(timeline) = &mut timeline {
            timeline.add(episode);
        }
        anyhow::Ok(())
    };
    Replay::open_telling(file)?.episodes(&mut |share| progress.at(share), &mut |told| {
        numbers.episode(told).map_or(Ok(()), &mut add)
    })?;
    if let Some(trace) = trace {
        trace.finish().context(TRACE)?;
    }
    if let Some(table) = table {
        table.finish().context(TABLE)?;
    }
    if let (Some(out), Some(timeline)) = (&mut files.html, &timeline) {
        html::write(report, &Told::Timeline(timeline), out).context("cannot write the page")?;
    }
    Ok(())
}
