//! Recordings of a made-up program: three threads, one barrier, two lines.

mod cut;
mod flips;
mod jobs;
mod older;
mod others;

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use tempfile::TempDir;

use super::{Begin, Bound, Keep, ReadError, Recorder, Replay, Rest, Row, Sink, report};
use sbt_engine::{
    event::{CallersId, Clocks, Event, Kind},
    model::{
        Model, Present,
        ids::{PlaceId, SiteId, ThreadId},
        site::Roles,
        tape::Step,
    },
    place::{Frame, Place},
    report::{Facts, Report, Run, order::Order, sound},
    verdict,
};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const START: u64 = 1_000 * S;
const BARRIER: u64 = 0x5555_0000_1000;
/// Time between two episodes, ns.
const ROUND: u64 = 20 * MS;
/// Time between two flushes, ns.
const FLUSH: u64 = 500 * MS;

fn place(line: u32) -> Place {
    Place {
        binary: "lu".into(),
        offset: u64::from(line),
        into_function: None,
        works_before: false,
        frames: vec![Frame {
            function: Some("factor".into()),
            file: Some("lu.c".into()),
            line: Some(line),
            inlined: false,
        }],
        outer: Vec::new(),
        of_runtime: false,
    }
}

/// A run that is recorded as a session does it.
pub struct Written {
    folder: TempDir,
    /// The session's report, and its report at the last flush.
    pub live: String,
    flushed: String,
}

/// How the recording ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Orderly,
    /// The writer is killed.
    Killed,
}

fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap()
}

fn at(time_ns: u64) -> Clocks {
    Clocks::at(time_ns)
}

impl Written {
    /// A run of this length, ns.
    pub fn run(length_ns: u64, keep: Option<Keep>, ending: Ending) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sbt");
        let file = File::create(&path).unwrap();
        let begin = Begin {
            start_ns: START,
            departures: true,
            switches: false,
            conceptual: 0,
        };
        let mut recorder = Recorder::to(Sink::to(file, &path, keep).unwrap(), begin).unwrap();
        let mut model = Model::new(START, true);
        model.keep_tape();
        let places = [place(10), place(20)];
        let shared: Vec<Rc<Place>> = places.iter().cloned().map(Rc::new).collect();
        let facts = |until_ns: u64, ended| Facts {
            run: Run {
                backend: "made up".into(),
                command: vec!["./lu".into()],
                pid: 4242,
                start_ns: START,
                start_unix_ns: 1_700_000_000 * S,
                wall_ns: until_ns - START,
                ended,
                exit_status: Some(0).filter(|_| ended),
                ..Run::default()
            },
            ..Facts::default()
        };
        let of = |model: &Model, facts: Facts| verdict::with(Report::new(model, &shared, facts));
        // The report that is written into the recording, if any.
        let kept = |report: Report| keep.map(|_| report);
        recorder
            .flush(facts(START, false), kept(of(&model, facts(START, false))))
            .unwrap();
        for (callers, line) in [(1, 0), (2, 1)] {
            model.define_place(CallersId(callers), PlaceId(line), Roles::default());
        }
        for tid in 1..=3 {
            model.push(&Event::Thread {
                tid,
                shown: (4241 + tid, 4242),
                name: "lu".into(),
                since: at(START),
                code_start: None,
            });
        }
        recorder.add(model.take_tape(), places.to_vec()).unwrap();
        let mut flush_ns = START + FLUSH;
        let mut flushed = String::new();
        for round in 0..length_ns / ROUND {
            let first_ns = START + (round + 1) * ROUND - 5 * MS;
            let callers = CallersId(1 + u32::try_from(round % 2).unwrap());
            for tid in 1..=3 {
                // Threads take turns in arriving last.
                let late = (u64::from(tid) + round) % 3;
                model.push(&Event::Arrive {
                    tid,
                    clocks: at(first_ns + late * MS),
                    object: BARRIER,
                    kind: Kind::Pthread,
                    callers,
                });
            }
            for tid in 1..=3 {
                let clocks = at(first_ns + 3 * MS + u64::from(tid) * 1_000);
                model.push(&Event::Depart { tid, clocks });
            }
            recorder.add(model.take_tape(), Vec::new()).unwrap();
            let now_ns = first_ns + 4 * MS;
            if now_ns >= flush_ns {
                flush_ns += FLUSH;
                let report = of(&model, facts(now_ns, false));
                flushed = json(&report);
                recorder.flush(facts(now_ns, false), kept(report)).unwrap();
            }
        }
        model.finish();
        let end_ns = START + length_ns + 3 * S;
        let report = of(&model, facts(end_ns, true));
        let live = json(&report);
        if ending == Ending::Orderly {
            recorder.end(facts(end_ns, true), kept(report)).unwrap();
        }
        Self {
            folder,
            live,
            flushed,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("run.sbt")
    }

    fn size(&self) -> u64 {
        fs::metadata(self.path()).unwrap().len()
    }

    /// The number of other files that are in the folder of the recording.
    fn others(&self) -> usize {
        fs::read_dir(self.folder.path()).unwrap().count() - 1
    }
}

fn reported(path: &Path) -> String {
    json(&report(path).unwrap())
}

/// Replays a file. Returns the replay and how many steps the model was told.
fn told(path: &Path) -> (Replay, u64) {
    let mut replay = Replay::open(path).unwrap();
    let mut steps = 0;
    while let Some(row) = replay.step().unwrap() {
        steps += u64::from(matches!(row, Row::Step(Step::Event(_))));
    }
    (replay, steps)
}

const KEPT: Keep = Keep::Events(Duration::from_secs(4));

#[test]
fn every_form_gives_the_report_of_the_run() {
    for keep in [None, Some(KEPT), Some(Keep::Statistics)] {
        for seconds in [1, 3, 6, 9, 25] {
            let written = Written::run(seconds * S, keep, Ending::Orderly);
            let again = reported(&written.path());
            assert_eq!(again, written.live, "{keep:?} for {seconds} s");
            assert_eq!(written.others(), 0);
        }
    }
}

#[test]
fn a_bounded_file_does_not_grow_with_the_run() {
    for keep in [KEPT, Keep::Statistics] {
        let size = |seconds| Written::run(seconds * S, Some(keep), Ending::Orderly).size();
        let (short, long) = (size(30), size(600));
        assert!(long < short + short / 2, "{keep:?}: {short} and {long}");
    }
    let size = |keep| Written::run(30 * S, keep, Ending::Orderly).size();
    assert!(size(Some(Keep::Statistics)) < size(Some(KEPT)) / 4);
    let whole = |seconds| Written::run(seconds * S, None, Ending::Orderly).size();
    assert!(whole(600) > 8 * whole(30), "what is not bounded does grow");
}

#[test]
fn what_happened_lately_can_be_replayed() {
    for seconds in [30, 31, 33, 35] {
        let written = Written::run(seconds * S, Some(KEPT), Ending::Orderly);
        let (replay, _) = told(&written.path());
        let start_s = (replay.start_ns() - START) / S;
        // At most two generations, and one flush more.
        assert!(
            (seconds - 10..=seconds - 4).contains(&start_s),
            "{seconds} s: from {start_s} s on"
        );
        let totals = *replay.model.totals();
        let kept = (START + seconds * S - replay.start_ns()) / ROUND;
        assert!(totals.episodes + 2 >= kept, "{totals:?} of {kept}");
        assert!(totals.incomplete <= 1, "{totals:?}");
        let report = replay.told(replay.facts.clone());
        let names: Vec<_> = report.sites.iter().map(|site| site.line).collect();
        assert_eq!(names.len(), 2);
        assert!(names.contains(&Some(10)) && names.contains(&Some(20)));
        assert_eq!(report.threads.len(), 3, "no thread twice");
        let note = "does not contain the events";
        assert!(report.notes.iter().any(|text| text.contains(note)));
        assert!(report.run.wall_ns < 12 * S, "{}", report.run.wall_ns);
    }
}

#[test]
fn of_one_that_is_killed_the_last_flush_remains() {
    for keep in [KEPT, Keep::Statistics] {
        for seconds in [1, 7, 13, 26] {
            let written = Written::run(seconds * S, Some(keep), Ending::Killed);
            let mut again = report(&written.path()).unwrap();
            let note = again.notes.pop().unwrap();
            assert!(note.contains("the recording has no end"), "{note}");
            assert_eq!(again.incomplete[0].text, note);
            assert!(again.efficiency.is_none());
            // Equal but for what is withheld.
            let mut flushed: Report = serde_json::from_str(&written.flushed).unwrap();
            assert_eq!(flushed.verdicts.is_some(), again.verdicts.is_some());
            flushed.break_off(std::mem::take(&mut again.incomplete));
            again.incomplete.clone_from(&flushed.incomplete);
            let again = verdict::with(again);
            assert_eq!(
                json(&again),
                json(&verdict::with(sound(flushed))),
                "{keep:?} for {seconds} s"
            );
        }
    }
}

#[test]
fn wherever_a_bounded_file_is_cut_what_is_before_is_read() {
    let written = Written::run(26 * S, Some(KEPT), Ending::Orderly);
    let whole = fs::read(written.path()).unwrap();
    let path = written.folder.path().join("cut.sbt");
    let mut read = 0;
    for length in (0..whole.len()).step_by(whole.len() / 150 + 1) {
        fs::write(&path, &whole[..length]).unwrap();
        match report(&path) {
            Ok(report) => {
                read += 1;
                assert!(report.episodes > 100, "{length}: {}", report.episodes);
                let note = report.notes.last().unwrap();
                assert!(note.contains("no end"), "{length}: {note}");
            }
            Err(error) => assert!(
                error
                    .downcast_ref::<ReadError>()
                    .is_some_and(|cause| matches!(
                        cause,
                        ReadError::Foreign { .. } | ReadError::Empty { .. }
                    )),
                "{length}: {error:#}"
            ),
        }
        if let Ok(mut replay) = Replay::open(&path) {
            while matches!(replay.advance(u64::MAX, 1000), Ok(Rest::More)) {}
        }
    }
    // Readable but for the very beginning.
    assert!(read > 130, "{read}");
}

/// A recorder of an open file, with the first facts written.
fn begun(path: &Path, keep: Option<Keep>) -> Recorder {
    let file = File::create(path).unwrap();
    let sink = Sink::to(file, path, keep).unwrap();
    let mut recorder = Recorder::to(sink, BEGIN).unwrap();
    recorder.flush(facts_at(0), keep.map(|_| empty(0))).unwrap();
    recorder
}

const BEGIN: Begin = Begin {
    start_ns: START,
    departures: true,
    switches: false,
    conceptual: 0,
};

fn facts_at(wall_ns: u64) -> Facts {
    Facts {
        run: Run {
            pid: 4242,
            start_ns: START,
            wall_ns,
            ..Run::default()
        },
        ..Facts::default()
    }
}

fn empty(wall_ns: u64) -> Report {
    Report::new(&Model::new(START, true), &[], facts_at(wall_ns))
}

#[test]
fn what_follows_the_end_is_told() {
    let written = Written::run(S, None, Ending::Orderly);
    let whole = fs::read(written.path()).unwrap();
    for more in [&b"x"[..], &whole] {
        fs::write(written.path(), [&whole, more].concat()).unwrap();
        let mut again = report(&written.path()).unwrap();
        let note = again.notes.pop().unwrap();
        let expected = format!("{} bytes after the end", more.len());
        assert!(note.contains(&expected), "{note}");
        assert_eq!(json(&again), written.live);
    }
}

#[test]
fn what_was_lost_is_told_also_if_it_breaks_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sbt");
    let mut recorder = begun(&path, None);
    let lost = |tid, count| Step::Event(Event::Lost { tid, count });
    recorder
        .add(vec![lost(1, 339_276), lost(2, 4)], Vec::new())
        .unwrap();
    recorder.flush(facts_at(S), None).unwrap();
    assert_eq!(report(&path).unwrap().lost_events, 339_280);
    // More events are lost than threads can report.
    let facts = Facts {
        lost: 400_000,
        ..facts_at(2 * S)
    };
    recorder.flush(facts, None).unwrap();
    assert_eq!(report(&path).unwrap().lost_events, 400_000);
}

#[test]
fn a_large_report_is_written_less_often() {
    let size = |threads: usize| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sbt");
        let keep = Some(KEPT);
        let mut recorder = begun(&path, keep);
        let names =
            (0..threads).map(|number| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let names: Vec<String> = names.collect();
        let report = |at| Report {
            notes: names.clone(),
            ..empty(at)
        };
        for number in 1..=6 {
            let at = number * FLUSH;
            recorder.flush(facts_at(at), Some(report(at))).unwrap();
        }
        fs::metadata(&path).unwrap().len()
    };
    let (small, large) = (size(10), size(100_000));
    // One report is in the file, not six.
    let one = 100_000 * 8;
    assert!(
        large > small + one && large < small + 3 * one,
        "{small} and {large}"
    );
}

#[test]
fn what_cannot_be_read_is_told_once_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = report(&path).err().unwrap().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let error = Replay::open(&path).err().unwrap();
    assert!(matches!(error, ReadError::Pipe { .. }), "{error}");
    let error = Replay::open(&folder.path().join("none")).err().unwrap();
    let text = format!("{:#}", anyhow::Error::from(error));
    assert_eq!(text.matches("No such file").count(), 1, "{text}");
}

#[test]
fn a_file_that_tells_of_too_many_threads_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sbt");
    let mut recorder = begun(&path, None);
    let arrive = |tid| {
        Step::Event(Event::Arrive {
            tid,
            clocks: at(START + u64::from(tid)),
            object: BARRIER,
            kind: Kind::Pthread,
            callers: CallersId(1),
        })
    };
    for part in 0..20 {
        let steps = (1..=20_000).map(|tid| arrive(part * 20_000 + tid));
        recorder.add(steps.collect(), Vec::new()).unwrap();
    }
    recorder.end(facts_at(S), None).unwrap();
    let report = report(&path).unwrap();
    let note = report.notes.last().unwrap();
    assert!(note.contains("cannot be read from batch"), "{note}");
    assert!(
        (131_072..200_000).contains(&report.arrivals),
        "{}",
        report.arrivals
    );
}

#[test]
fn who_waits_at_the_end_is_seen_to_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.sbt");
    let mut recorder = begun(&path, None);
    let memory = |tid| Event::Memory {
        tid,
        time_ns: START + 1,
        object: BARRIER,
        count: 3,
        round: None,
    };
    let arrive = |tid| Event::Arrive {
        tid,
        clocks: at(START + u64::from(tid)),
        object: BARRIER,
        kind: Kind::Pthread,
        callers: CallersId(1),
    };
    let steps = [1, 2].map(|tid| [memory(tid), arrive(tid)].map(Step::Event));
    recorder.add(steps.concat(), Vec::new()).unwrap();
    recorder.flush(facts_at(S), None).unwrap();
    let mut replay = Replay::open(&path).unwrap();
    assert_eq!(replay.advance(u64::MAX, 100).unwrap(), Rest::None);
    let before = replay.present();
    let waits = |(_, present): &(ThreadId, Present)| matches!(present, Present::Waiting { .. });
    assert_eq!(before.iter().filter(|thread| waits(thread)).count(), 2);
    replay.finish(None).unwrap();
    assert_eq!(replay.present(), before);
}

/// A model of episodes, each with its threads and its line.
fn model_of(episodes: &[(&[u32], u32)]) -> (Model, Report) {
    let mut model = Model::new(START, true);
    let places: Vec<Rc<Place>> = [10, 20, 30].map(|line| Rc::new(place(line))).into();
    for (number, (tids, line)) in (0..).zip(episodes) {
        let callers = CallersId(line + 1);
        model.define_place(callers, PlaceId(*line), Roles::default());
        let first_ns = START + (number + 1) * ROUND;
        for tid in *tids {
            model.push(&Event::Thread {
                tid: *tid,
                shown: (4241 + tid, 4242),
                name: "lu".into(),
                since: at(START + u64::from(*tid)),
                code_start: None,
            });
        }
        for tid in *tids {
            model.push(&Event::Arrive {
                tid: *tid,
                clocks: at(first_ns + u64::from(*tid)),
                object: BARRIER + u64::from(*line) * 64,
                kind: Kind::Pthread,
                callers,
            });
        }
        for tid in *tids {
            let clocks = at(first_ns + 1000 + u64::from(*tid));
            model.push(&Event::Depart { tid: *tid, clocks });
        }
    }
    let report = Report::new(&model, &places, facts_at(S));
    (model, report)
}

#[test]
fn what_was_kept_is_called_as_in_the_report_of_the_whole_run() {
    // Two threads met elsewhere before, and the lines came in another order.
    let early: (&[u32], u32) = (&[1, 2], 2);
    let (_, whole) = model_of(&[early, (&[3, 4, 5], 0), (&[3, 4, 5], 1)]);
    let (model, part) = model_of(&[(&[3, 4, 5], 1), (&[3, 4, 5], 0)]);
    let order = Order::new(&model).as_in(&whole, &part, &model);
    let rows = (0..).map(ThreadId).zip(model.threads().rows());
    let tids: Vec<(u32, u32)> = rows
        .map(|(id, row)| (order.number(id), row.shown.0))
        .collect();
    let expected: Vec<(u32, u32)> = (whole.threads.iter().skip(2))
        .map(|row| (row.id, row.tid))
        .collect();
    assert_eq!(tids, expected);
    for site in &part.sites {
        let number = order.site(SiteId(site.id));
        let found = whole.sites.iter().find(|site| site.id == number).unwrap();
        assert_eq!(found.line, site.line);
    }
    assert_eq!(
        (0..2).map(|id| order.site(SiteId(id))).collect::<Vec<_>>(),
        [2, 1]
    );
}

#[test]
fn a_replay_tells_what_happened_until_a_moment() {
    let written = Written::run(2 * S, None, Ending::Orderly);
    let mut replay = Replay::open(&written.path()).unwrap();
    assert_eq!(replay.last_ns(&written.path()), Some(START + 5 * S));
    for (until, episodes) in [(0, 0), (ROUND, 1), (10 * ROUND, 10), (2 * S + S / 2, 100)] {
        assert_eq!(replay.advance(START + until, 10_000).unwrap(), Rest::Later);
        assert_eq!(replay.model.totals().episodes, episodes, "{until}");
        assert!(replay.at_ns() <= START + until);
    }
    // Small steps give the same as large ones.
    let mut small = Replay::open(&written.path()).unwrap();
    while small.advance(START + 10 * ROUND, 1).unwrap() == Rest::More {}
    assert_eq!(small.model.totals().episodes, 10);
    assert_eq!(replay.advance(u64::MAX, 10_000).unwrap(), Rest::None);
    replay.finish(None).unwrap();
    assert_eq!(json(&replay.told(replay.facts.clone())), written.live);
}
