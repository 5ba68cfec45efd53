//! Exports such as `sbt report --html OUT`: reads a recording as often as necessary, and replaces
//! the files once all of them are complete.

use std::{
    fs,
    io::{self, IsTerminal as _, Write},
    path::Path,
};

use anyhow::Context as _;

use super::{guard::LabelledFile, progress::Progress, replace::Replacement};
use crate::{
    output::Exports,
    record::{self, Replay, Source, Whole},
    show::{
        Episode, KnownPart, Numbers, csv,
        html::{self, TimelineSource},
        perfetto,
        timeline::Timeline,
    },
};
use sbt_engine::{
    place::printable,
    report::{Report, order::Order},
};

/// A form of exported file.
#[derive(Clone, Copy)]
enum Form {
    Html,
    Perfetto,
    Csv,
    CsvEpisodes,
    Folded,
}

/// The forms that a report cannot give.
const OF_RECORDINGS: [Form; 3] = [Form::Perfetto, Form::CsvEpisodes, Form::Folded];

/// The forms that statistics cannot give.
const OF_EPISODES: [Form; 2] = [Form::Perfetto, Form::CsvEpisodes];

/// The forms that cannot say what is missing.
const SILENT: [Form; 4] = [Form::Perfetto, Form::Csv, Form::CsvEpisodes, Form::Folded];

/// The option of the first of these forms that the user asks for.
fn first<'a>(exports: &'a Exports, forms: &[Form]) -> Option<&'a str> {
    let written = written(exports);
    let mut files = forms.iter().map(|form| written[*form as usize]);
    files.find_map(|(option, path)| path.map(|_| option))
}

/// The option and the path of each exported file, in the order of [`Form`].
pub fn written(exports: &Exports) -> [LabelledFile<'_>; 5] {
    [
        ("--html", exports.html.as_deref()),
        ("--perfetto", exports.perfetto.as_deref()),
        ("--csv", exports.csv.as_deref()),
        ("--csv-episodes", exports.csv_episodes.as_deref()),
        ("--folded", exports.folded.as_deref()),
    ]
}

/// The files that are being written, in the order of [`Form`].
struct Files([Option<Replacement>; 5]);

impl Files {
    fn begin(exports: &Exports) -> anyhow::Result<Self> {
        let mut files = Self([const { None }; 5]);
        for (file, (_, path)) in files.0.iter_mut().zip(written(exports)) {
            *file = path.map(Replacement::begin).transpose()?;
        }
        Ok(files)
    }

    fn get(&mut self, form: Form) -> Option<&mut Replacement> {
        self.0[form as usize].as_mut()
    }

    /// Replaces all files, or none on an error.
    fn finish(self) -> anyhow::Result<()> {
        Replacement::finish_all(self.0.into_iter().flatten())
    }
}

/// Writes the requested files, and returns the report that they are made from.
/// [`super::guard::check`] has to be called first: it checks that no file is also the input. If the
/// recording is cut or damaged, its readable part is used.
///
/// # Errors
/// The input is no recording although a requested file needs one, or a file cannot be written. In
/// both cases no file is replaced.
pub fn write(file: &Path, exports: &Exports) -> anyhow::Result<Report> {
    write_if(file, exports, true)
}

/// Like [`write()`]. Without `allow_incomplete`, only complete recordings are accepted.
///
/// # Errors
/// As for [`write()`], or the recording is incomplete.
pub fn write_if(file: &Path, exports: &Exports, allow_incomplete: bool) -> anyhow::Result<Report> {
    let shown = printable(&file.to_string_lossy());
    let report = match record::open(file)? {
        Source::Recording(replay) => {
            let mut files = Files::begin(exports)?;
            let mut progress = Progress::of(format!("reading {shown}"));
            let whole = replay.whole(&mut |share| progress.at(share))?;
            drop(progress);
            is_to_be_written(&whole.report, exports, allow_incomplete, &shown)?;
            let report = of_recording(file, whole, exports, &mut files)?;
            files.finish()?;
            report
        }
        Source::Report(report) => {
            if let Some(option) = first(exports, &OF_RECORDINGS) {
                anyhow::bail!(
                    "{option} needs a recording, and {shown} is a report in JSON: `sbt run -o \
                     FILE` makes a recording"
                );
            }
            write_report(&report, &shown, exports, allow_incomplete)?;
            return Ok(*report);
        }
    };
    tell_all(exports);
    Ok(report)
}

/// Writes the requested files from a report without single episodes. `shown`: what the report is of, or
/// its printable name.
///
/// # Errors
/// As for [`write_if`].
pub fn write_report(
    report: &Report,
    shown: &str,
    exports: &Exports,
    allow_incomplete: bool,
) -> anyhow::Result<()> {
    if let Some(option) = first(exports, &OF_RECORDINGS) {
        anyhow::bail!(
            "{option} needs one recording, and cannot show {shown} yet: name the recording of one rank"
        );
    }
    is_to_be_written(report, exports, allow_incomplete, shown)?;
    let mut files = Files::begin(exports)?;
    if let Some(out) = files.get(Form::Html) {
        html::write(report, &TimelineSource::Nothing, out)?;
    }
    tables(report, &mut files)?;
    files.finish()?;
    tell_all(exports);
    Ok(())
}

fn tell_all(exports: &Exports) {
    written(exports)
        .into_iter()
        .filter_map(|(_, path)| path)
        .for_each(tell);
}

/// Refuses incomplete recordings, so that nobody takes a part of a run for the whole. A page is
/// allowed, since it can say what is missing; the other formats cannot. `shown` is the printable
/// name of the recording.
fn is_to_be_written(
    report: &Report,
    exports: &Exports,
    allow_incomplete: bool,
    shown: &str,
) -> anyhow::Result<()> {
    let silent = first(exports, &SILENT);
    if let (Some(missing), Some(option), false) =
        (report.incomplete.first(), silent, allow_incomplete)
    {
        anyhow::bail!(
            "{shown} is not complete, and the file of {option} cannot say so: {}; \
             --allow-incomplete writes the part that is there",
            missing.text
        );
    }
    Ok(())
}

/// Reports a written file on a terminal, where the user expects feedback.
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
    if let Some(out) = files.get(Form::Csv) {
        csv::sites(report, out)?;
    }
    Ok(())
}

fn of_recording(
    file: &Path,
    whole: Whole,
    exports: &Exports,
    files: &mut Files,
) -> anyhow::Result<Report> {
    let Whole {
        report,
        order,
        folded,
        told,
    } = whole;
    if let Some(out) = files.get(Form::Folded) {
        stacks(&report, folded, out)?;
    }
    tables(&report, files)?;
    match told {
        Some(extent) if exports.html.is_some() || first(exports, &OF_EPISODES).is_some() => {
            let known = KnownPart {
                from_ns: extent.from_ns.saturating_sub(report.run.start_ns),
                arrivals: extent.arrivals,
            };
            episodes(file, &report, known, order, files)?;
        }
        Some(_) => {}
        None => {
            let shown = printable(&file.to_string_lossy());
            if let Some(option) = first(exports, &OF_EPISODES) {
                anyhow::bail!(
                    "{option} needs single episodes, and {shown} has statistics only: record \
                     without `--stats-only`, or with `--keep SECONDS`"
                );
            }
            if let Some(out) = files.get(Form::Html) {
                html::write(&report, &TimelineSource::Statistics, out)?;
            }
        }
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
        "--folded needs the end of the recording, which is missing: the sbt that wrote it was \
         killed, or is an older version",
    )?;
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Reads the recording once more for the files made from single episodes. `known` is the part of
/// the run with known episodes.
fn episodes(
    file: &Path,
    report: &Report,
    known: KnownPart,
    order: Order,
    files: &mut Files,
) -> anyhow::Result<()> {
    let mut progress = Progress::of("writing".into());
    let numbers = Numbers::new(report, order);
    let [html, trace, _, table, _] = files.0.each_mut().map(Option::as_mut);
    let mut timeline = html.is_some().then(|| Timeline::of(report, known.from_ns));
    let mut trace = trace
        .map(|out| perfetto::Trace::new(report, known, out))
        .transpose()?;
    let mut table = table
        .map(|out| csv::Episodes::new(report, out))
        .transpose()?;
    let mut add = |episode: Episode| {
        if let Some(trace) = &mut trace {
            trace.add(&episode)?;
        }
        if let Some(table) = &mut table {
            table.add(&episode)?;
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
        trace.finish()?;
    }
    if let Some(table) = table {
        table.finish()?;
    }
    if let (Some(out), Some(timeline)) = (html, &timeline) {
        html::write(report, &TimelineSource::Timeline(timeline), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::record::{
        Keep,
        tests::{Ending, Written},
    };

    const S: u64 = 1_000_000_000;

    /// All exports that any recording with episodes supports.
    fn exports(folder: &TempDir) -> Exports {
        let at = |name: &str| Some(folder.path().join(name));
        Exports {
            html: at("a.html"),
            perfetto: at("a.pftrace"),
            csv: at("a.csv"),
            csv_episodes: at("b.csv"),
            folded: None,
        }
    }

    /// The data embedded for the page's script.
    fn data(folder: &TempDir) -> serde_json::Value {
        let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
        let (_, rest) = page.split_once("id=\"tl-data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    /// Site and index of each row in the table of episodes.
    fn rows(folder: &TempDir) -> Vec<(u32, u64)> {
        let table = fs::read_to_string(folder.path().join("b.csv")).unwrap();
        let mut lines = table.lines();
        assert!(lines.next().unwrap().starts_with("site,name,index,"));
        let cells = |line: &str| {
            let mut cells = line.split(',');
            let site = cells.next().unwrap().parse().unwrap();
            (site, cells.nth(1).unwrap().parse().unwrap())
        };
        lines.map(cells).collect()
    }

    /// Asserts that the table ends with the last episode that the report counts, for each site.
    fn check_last(rows: &[(u32, u64)], report: &Report) {
        for site in &report.sites {
            let last = rows.iter().rfind(|row| row.0 == site.id).unwrap();
            assert_eq!(last.1 + 1, site.episodes, "{}", site.called());
        }
    }

    #[test]
    fn of_a_whole_recording_all_is_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let written = Written::run(2 * S, None, Ending::Orderly);
        let report = write(&written.path(), &exports(&folder)).unwrap();
        let rows = rows(&folder);
        assert_eq!(rows.len() as u64, report.episodes * 3);
        assert_eq!(rows[0].1, 0);
        check_last(&rows, &report);
        assert_eq!(data(&folder)["from"], 0);
        let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
        assert!(!page.contains("The recording keeps only the end of the run"));
    }

    #[test]
    fn of_one_whose_end_was_kept_the_drawing_begins_there() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep::Events(Duration::from_secs(4));
        let written = Written::run(30 * S, Some(keep), Ending::Orderly);
        let report = write(&written.path(), &exports(&folder)).unwrap();
        let rows = rows(&folder);
        let kept = rows.len() as u64;
        assert!((400..report.episodes * 3).contains(&kept), "{kept}");
        assert!(rows[0].1 > 100, "not from 0 on: {}", rows[0].1);
        check_last(&rows, &report);
        let from_ns = data(&folder)["from"].as_u64().unwrap();
        assert!((20 * S..27 * S).contains(&from_ns), "{from_ns}");
        let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
        assert!(page.contains("The recording keeps only the end of the run"));
        let trace = fs::read(folder.path().join("a.pftrace")).unwrap();
        let has = |text: &[u8]| trace.windows(text.len()).any(|part| part == text);
        assert!(has(b"not recorded"));
    }

    #[test]
    fn of_statistics_nothing_is_drawn_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let written = Written::run(2 * S, Some(Keep::Statistics), Ending::Orderly);
        let all = exports(&folder);
        let error = write(&written.path(), &all).err().unwrap().to_string();
        assert!(
            error.starts_with("--perfetto needs single episodes"),
            "{error}"
        );
        assert!(error.contains("`--stats-only`"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let table = Exports {
            perfetto: None,
            ..all.clone()
        };
        let error = write(&written.path(), &table).err().unwrap().to_string();
        assert!(error.starts_with("--csv-episodes needs"), "{error}");
        let rest = Exports {
            csv_episodes: None,
            ..table
        };
        write(&written.path(), &rest).unwrap();
        let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
        assert!(page.contains("There is no timeline, since the recording has statistics only"));
        assert!(!page.contains("id=\"tl-data\""));
    }

    #[test]
    fn of_a_part_of_a_run_tables_are_written_only_if_asked() {
        let folder = tempfile::tempdir().unwrap();
        let written = Written::run(2 * S, None, Ending::Killed);
        let all = exports(&folder);
        let error = write_if(&written.path(), &all, false).err().unwrap();
        let error = error.to_string();
        assert!(
            error.contains("the file of --perfetto cannot say so"),
            "{error}"
        );
        assert!(error.contains("the recording has no end"), "{error}");
        assert!(error.contains("--allow-incomplete"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let report = write_if(&written.path(), &all, true).unwrap();
        assert_eq!(rows(&folder).len() as u64, report.episodes * 3);
        // A page itself says what is missing.
        let page = Exports {
            html: all.html.clone(),
            ..Exports::default()
        };
        write_if(&written.path(), &page, false).unwrap();
        let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
        assert!(page.contains("Not complete: the recording has no end"));
    }

    #[test]
    fn what_is_left_of_a_bounded_recording_can_be_drawn() {
        let written = Written::run(
            26 * S,
            Some(Keep::Events(Duration::from_secs(4))),
            Ending::Orderly,
        );
        let whole = fs::read(written.path()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let cut = folder.path().join("cut.sbt");
        for part in 1..40 {
            fs::write(&cut, &whole[..whole.len() * part / 40]).unwrap();
            if let Ok(report) = write(&cut, &exports(&folder)) {
                assert!(!report.is_complete());
            }
        }
    }
}
