//! Recordings that break off anywhere. Reading gives one line of error, or a report whose figures
//! agree and that says what is missing.

use super::*;
use crate::record::{Reader, write::Stream};
use sbt_engine::report::{EfficiencyReport, ThreadReport, Withheld};

/// Recordings of real programs, one for each kind of content.
pub const KINDS: [&str; 11] = [
    "pthread.sbt",
    "openmp.sbt",
    "processes.sbt",
    "mpi.sbt",
    "keep.sbt",
    "statistics.sbt",
    "counters.sbt",
    "departures-off.sbt",
    "attach.sbt",
    "ptrace.sbt",
    "killed.sbt",
];

/// A file written by version 0.1.0.
pub fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/0.1.0");
    folder.join(name)
}

/// Writes the same rows in today's format, in batches of `rows` rows. So facts are older than most
/// events that follow them.
pub fn rewritten(from: &Path, to: &Path, rows: usize) {
    let (reader, begin) = Reader::open(from).unwrap();
    let mut stream = Stream::to(File::create(to).unwrap()).unwrap();
    stream.push(&Row::Begin(begin)).unwrap();
    for (number, row) in reader.enumerate() {
        stream.push(&row.unwrap()).unwrap();
        if number % rows == rows - 1 {
            stream.flush().unwrap();
        }
    }
    stream.finish().unwrap();
}

/// Pseudo-random numbers, the same in each run.
pub fn numbers(seed: u64) -> impl Iterator<Item = usize> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005) + 1_442_695_041);
    std::iter::successors(next(&seed), next).map(|state| usize::try_from(state >> 24).unwrap())
}

/// Where batches end, and where the file ends.
pub fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    while at + 8 <= bytes.len() {
        let size = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap());
        let description = at + 8..at + 8 + usize::try_from(size).unwrap();
        if description.is_empty() {
            break;
        }
        let message = arrow_ipc::root_as_message(&bytes[description.clone()]).unwrap();
        at = description.end + usize::try_from(message.bodyLength()).unwrap();
        ends.push(at);
    }
    ends
}

/// Contradictions between figures of a report.
pub fn faults(report: &Report) -> Vec<String> {
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            faults.push(what);
        }
    };
    let wall = report.run.wall_ns;
    let threads: u64 = report.threads.iter().map(|row| row.threads).sum();
    let efficiencies = report
        .efficiency
        .iter()
        .chain((report.conceptual_phases.iter()).filter_map(|phase| phase.efficiency.as_ref()));
    for it in efficiencies {
        let EfficiencyReport {
            parallel,
            load_balance,
            serialisation,
            transfer,
            ..
        } = it;
        for share in [parallel, load_balance, serialisation, transfer] {
            must(
                (0.0..=1.000_001).contains(share),
                format!("efficiency {it:?}"),
            );
        }
        must(
            it.speedup <= f64::from(it.threads) + 1e-6,
            format!("speed-up {it:?}"),
        );
    }
    let time = &report.thread_time;
    must(
        time.total_ns <= wall * threads,
        format!("{time:?} in {wall} ns of {threads}"),
    );
    let parts = time.release_ns.unwrap_or(0) + time.between_ns.unwrap_or(0);
    must(
        time.work_ns + time.idle_ns + parts == time.total_ns,
        format!("{time:?}"),
    );
    let of = |thread: &ThreadReport| {
        let known = [thread.work_ns, thread.release_ns, thread.between_ns];
        thread.idle_ns + known.into_iter().flatten().sum::<u64>()
    };
    for thread in &report.threads {
        must(
            of(thread) <= wall * thread.threads,
            format!("{thread:?} in {wall} ns"),
        );
        must(
            thread.worked_until_ns <= Some(wall),
            format!("{thread:?} in {wall} ns"),
        );
        must(thread.last <= thread.episodes, format!("{thread:?}"));
    }
    let arrivals: u64 = report.threads.iter().map(|row| row.arrivals).sum();
    must(
        arrivals == report.arrivals,
        format!("{arrivals} of {}", report.arrivals),
    );
    must(
        arrivals == 0 || wall > 0,
        format!("{arrivals} arrivals in no time"),
    );
    let episodes: u64 = report.sites.iter().map(|site| site.episodes).sum();
    must(
        episodes == report.episodes,
        format!("{episodes} of {}", report.episodes),
    );
    for site in &report.sites {
        must(
            site.lost_ns <= wall * threads,
            format!("{} lost", site.called()),
        );
        for stat in [&site.phase_ns, &site.barrier_ns].into_iter().flatten() {
            must(
                stat.max <= wall,
                format!("{}: {stat:?} in {wall} ns", site.called()),
            );
        }
    }
    for open in &report.unfinished {
        must(open.waiting_ns <= wall, format!("{open:?} in {wall} ns"));
    }
    if let Some(it) = &report.parallelism {
        must(it.mean_busy <= threads as f64 + 1e-6, format!("{it:?}"));
    }
    faults
}

/// Fails unless the report says what is missing, and its figures agree.
fn check_cut(report: &Report, what: &str) {
    assert_eq!(faults(report), Vec::<String>::new(), "{what}");
    let [missing] = &report.incomplete[..] else {
        panic!("{what}: {:?}", report.incomplete);
    };
    assert_eq!(missing.kind, "no-end", "{what}");
    assert!(report.notes.contains(&missing.text), "{what}");
    assert!(report.efficiency.is_none(), "{what}");
    assert!(
        report.why_withheld(Withheld::Efficiency).is_some(),
        "{what}"
    );
    let verdicts = report.verdicts.iter().flatten();
    assert!(
        verdicts.clone().all(|verdict| verdict.kind != "no-problem"),
        "{what}"
    );
    assert_eq!(
        report.verdicts.is_none(),
        report.no_verdict_because.is_some()
    );
    // The report is the same after a way through JSON.
    let again: Report = serde_json::from_str(&json(report)).unwrap();
    assert_eq!(json(&again), json(report), "{what}");
}

/// Reads a file that was cut in every way: as a report, as tables, and for the screen.
fn read_cut(path: &Path, what: &str) -> Option<Report> {
    let mut replay = match Replay::open(path) {
        Ok(replay) => replay,
        Err(error) => {
            let error = error.to_string();
            assert!(
                !error.contains('\n') && error.contains("cut.sbt"),
                "{error}"
            );
            return None;
        }
    };
    while matches!(replay.advance(u64::MAX, 1000), Ok(Rest::More)) {}
    if replay.finish(None).is_ok() {
        let told = replay.told(replay.facts.clone());
        assert_eq!(faults(&told), Vec::<String>::new(), "{what}, on the screen");
    }
    Replay::open_telling(path)
        .unwrap()
        .episodes(&mut |_| {}, &mut |_| Ok::<(), ()>(()))
        .unwrap();
    match report(path) {
        Ok(report) => {
            check_cut(&report, what);
            Some(report)
        }
        Err(error) => {
            let error = format!("{error:#}");
            assert!(
                !error.contains('\n') && error.contains("cut.sbt"),
                "{error}"
            );
            None
        }
    }
}

#[test]
fn whole_ones_are_told_as_before() {
    let folder = tempfile::tempdir().unwrap();
    for name in KINDS {
        let from = fixture(name);
        let mut before = report(&from).unwrap();
        assert_eq!(faults(&before), Vec::<String>::new(), "{name}");
        let path = folder.path().join(name);
        rewritten(&from, &path, 16);
        let again = report(&path).unwrap();
        if name == "killed.sbt" {
            // In the rewritten file it ends in order.
            check_cut(&before, name);
            continue;
        }
        assert!(before.is_complete(), "{name}");
        before.incomplete.clear();
        assert_eq!(json(&again), json(&before), "{name}");
    }
}

#[test]
fn wherever_a_recording_is_cut_its_figures_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.sbt");
    for name in KINDS {
        let (mut cuts, mut told) = (0, 0);
        let whole = folder.path().join(name);
        // As it was written, and with old facts and new events.
        rewritten(&fixture(name), &whole, 24);
        for file in [fixture(name), whole] {
            let whole = fs::read(file).unwrap();
            let ends = boundaries(&whole);
            let random = numbers(whole.len() as u64).map(|number| number % whole.len());
            let (mut last_ns, mut last) = (0, 0);
            let mut all: Vec<usize> = ends.iter().copied().chain(random.take(200)).collect();
            all.sort_unstable();
            for length in all {
                // The recording may be complete, and only the mark at the stream's end missing.
                if length >= ends[ends.len() - 1] && name != "killed.sbt" {
                    continue;
                }
                // At the end of a batch the report has no fewer arrivals than at earlier cuts.
                let is_new = ends.contains(&length);
                fs::write(&path, &whole[..length]).unwrap();
                cuts += 1;
                let report = read_cut(&path, &format!("{name}, {length} of {}", whole.len()));
                if let Some(report) = report {
                    told += 1;
                    assert!(report.run.wall_ns >= last_ns, "{name}, {length}");
                    assert!(report.arrivals >= last || !is_new, "{name}, {length}");
                    (last_ns, last) = (report.run.wall_ns, report.arrivals);
                }
            }
        }
        // With statistics only, there is nothing but the report, in one batch.
        let least = if name == "statistics.sbt" {
            0
        } else {
            cuts / 2
        };
        assert!(told > least, "{name}: {told} of {cuts}");
    }
}

/// A recording of many events at once, written after the last facts.
fn burst(folder: &Path, keep: Option<Keep>) -> PathBuf {
    let path = folder.join("cut.sbt");
    let mut recorder = begun(&path, keep);
    let thread = |tid: u32| Event::Thread {
        tid,
        shown: (4241 + tid, 4242),
        name: "lu".into(),
        since: at(START),
        code_start: None,
    };
    let mut steps: Vec<Step> = [1, 2].map(|tid| Step::Event(thread(tid))).into();
    for round in 0..20_000 {
        let first_ns = START + (round + 1) * 100_000;
        for tid in [1, 2] {
            steps.push(Step::Event(Event::Arrive {
                tid,
                clocks: at(first_ns + u64::from(tid)),
                object: BARRIER,
                kind: Kind::Pthread,
                callers: CallersId(1),
            }));
        }
        for tid in [1, 2] {
            let clocks = at(first_ns + 10 + u64::from(tid));
            steps.push(Step::Event(Event::Depart { tid, clocks }));
        }
    }
    let places = vec![place(10)];
    let means = Step::Place {
        callers: CallersId(1),
        place: PlaceId(0),
        roles: Roles::default(),
    };
    recorder.add(vec![means], places).unwrap();
    recorder.add(steps, Vec::new()).unwrap();
    drop(recorder);
    path
}

#[test]
fn events_that_the_facts_do_not_know_of_have_their_time() {
    for keep in [None, Some(KEPT)] {
        let folder = tempfile::tempdir().unwrap();
        let path = burst(folder.path(), keep);
        let report = report(&path).unwrap();
        check_cut(&report, &format!("{keep:?}"));
        assert!(report.episodes > 16_000, "{keep:?}: {}", report.episodes);
        // Each episode takes 100 µs.
        let expected = (report.episodes + 1) * 100_000;
        assert!(
            report.run.wall_ns.abs_diff(expected) < 200_000,
            "{}",
            report.run.wall_ns
        );
        let text = crate::show::text::render(&report, crate::output::PLAIN);
        assert!(
            text.contains("NOT COMPLETE: the recording has no end"),
            "{text}"
        );
        assert!(text.contains("efficiency ?: "), "{text}");
        assert!(text.contains("end not recorded"), "{text}");
        assert!(!text.contains("still running"), "{text}");
    }
}

#[test]
fn where_nothing_was_told_nobody_says_that_nothing_was_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.sbt");
    drop(begun(&path, Some(KEPT)));
    let report = report(&path).unwrap();
    check_cut(&report, "empty");
    let text = crate::show::text::render(&report, crate::output::PLAIN);
    assert!(!text.contains("No barrier was found"), "{text}");
    assert!(text.contains("No barrier was seen"), "{text}");
}

#[test]
fn statistics_whose_report_is_not_there_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.sbt");
    let mut stream = Stream::to(File::create(&path).unwrap()).unwrap();
    stream.push(&Row::Begin(BEGIN)).unwrap();
    stream.flush().unwrap();
    let error = report(&path).err().unwrap().to_string();
    assert!(error.contains("ends before its first event"), "{error}");
}
