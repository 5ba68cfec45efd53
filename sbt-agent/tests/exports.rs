//! Recordings that nobody has run, with names that nobody would choose, as files for other
//! programs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
};

use sbt::{
    output::{Exports, exports},
    record::{Begin, Recorder, Sink},
};
use sbt_engine::{
    event::{CallersId, Clocks, Event, Kind},
    model::{ids::PlaceId, site::Roles, tape::Step},
    place::{Frame, Place},
    report::{Facts, Run, SamplingReport},
};

const START: u64 = 5_000_000_000;
const US: u64 = 1_000;
const EVIL: &str = "=</script><b>\"',\n\x1b[2J";

fn place() -> Place {
    Place {
        binary: "prog".into(),
        offset: 0x10,
        into_function: None,
        works_before: false,
        frames: vec![Frame {
            function: Some(EVIL.into()),
            file: Some("a.c".into()),
            line: Some(7),
            inlined: false,
        }],
        outer: Vec::new(),
        of_runtime: false,
    }
}

fn facts(episodes: u64) -> Facts {
    Facts {
        run: Run {
            backend: "ebpf".into(),
            method: "none".into(),
            command: vec!["./prog".into(), EVIL.into()],
            pid: 100,
            start_ns: START,
            wall_ns: episodes * 100 * US + 50 * US,
            ended: true,
            departures: Some(true),
            ..Run::default()
        },
        ..Facts::default()
    }
}

fn clocks(time_ns: u64, thread: u64) -> Clocks {
    Clocks {
        time_ns,
        run_ns: Some((time_ns - START) / (thread + 1)),
        delay_ns: Some(0),
    }
}

/// Threads that work 30 µs and more, and go on 5 µs after the last has come.
fn round(index: u64, threads: u32, steps: &mut Vec<Step>) {
    let begin_ns = START + index * 100 * US;
    for thread in 0..threads {
        let arrived_ns = begin_ns + (30 + 10 * u64::from(thread)) * US;
        steps.push(Step::Event(Event::Arrive {
            tid: 100 + thread,
            clocks: clocks(arrived_ns, thread.into()),
            object: 0x1000,
            kind: Kind::Pthread,
            callers: CallersId(0),
        }));
    }
    let gone_ns = begin_ns + (30 + 10 * u64::from(threads - 1) + 5) * US;
    for thread in 0..threads {
        steps.push(Step::Event(Event::Depart {
            tid: 100 + thread,
            clocks: clocks(gone_ns + u64::from(thread), thread.into()),
        }));
    }
}

/// Records so many episodes. `ends`: in order.
fn recorded(file: &Path, threads: u32, episodes: u64, ends: bool) {
    let begin = Begin {
        start_ns: START,
        departures: true,
        switches: false,
        conceptual: 0,
    };
    let sink = Sink {
        file: File::create(file).unwrap(),
        bound: None,
        save_when: Vec::new(),
    };
    let mut recorder = Recorder::to(sink, begin).unwrap();
    let mut steps: Vec<Step> = (0..threads)
        .map(|thread| {
            Step::Event(Event::Thread {
                tid: 100 + thread,
                shown: (100 + thread, 100),
                name: EVIL.into(),
                since: clocks(START, thread.into()),
                code_start: None,
            })
        })
        .collect();
    steps.push(Step::Place {
        callers: CallersId(0),
        place: PlaceId(0),
        roles: Roles::default(),
    });
    steps.push(Step::Event(Event::Init {
        time_ns: START,
        object: 0x1000,
        kind: Kind::Pthread,
        tid: 100,
        count: threads,
    }));
    recorder.add(Vec::new(), vec![place()]).unwrap();
    for index in 0..episodes {
        round(index, threads, &mut steps);
        if steps.len() > 10_000 {
            recorder
                .add(std::mem::take(&mut steps), Vec::new())
                .unwrap();
        }
    }
    recorder.add(steps, Vec::new()).unwrap();
    let facts = Facts {
        sampled: Some((SamplingReport::default(), Vec::new())),
        folded: Some(vec!["main;f 12".into(), "main;g 3".into()]),
        ..facts(episodes)
    };
    if ends {
        recorder.end(facts, None).unwrap();
    } else {
        let folded = None;
        recorder.flush(Facts { folded, ..facts }, None).unwrap();
    }
}

fn all(folder: &Path) -> Exports {
    let path = |name: &str| Some(folder.join(name));
    Exports {
        html: path("out.html"),
        perfetto: path("out.pftrace"),
        csv: path("out.csv"),
        csv_episodes: path("episodes.csv"),
        folded: path("out.folded"),
    }
}

fn names(folder: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<OsString> = entries.map(|it| it.unwrap().file_name()).collect();
    names.sort();
    names
}

/// The cells of a table without line ends in them: there are none in ours.
fn rows(path: PathBuf) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with("\r\n"));
    text.split_terminator("\r\n").map(str::to_owned).collect()
}

#[test]
fn a_recording_becomes_a_page_a_trace_tables_and_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.sbt");
    recorded(&file, 4, 500, true);
    let exports = all(folder.path());
    let report = exports::write(&file, &exports).unwrap();
    assert_eq!(report.episodes, 500, "{:?}", report.notes);

    let table = rows(exports.csv.unwrap());
    assert_eq!(table.len(), 1 + 4);
    let episodes = rows(exports.csv_episodes.unwrap());
    assert_eq!(episodes.len(), 1 + 4 * 500);
    for line in &episodes {
        assert!(!line.contains(['\n', '\x1b']), "{line:?}");
        assert!(!line.contains(",=") && !line.contains(",\"="), "{line}");
    }
    let titles: Vec<&str> = episodes[0].split(',').collect();
    // Names have commas: from behind there are none.
    let at = |line: &str, title: &str| -> String {
        let back = titles.len() - titles.iter().position(|it| *it == title).unwrap();
        line.rsplit(',').nth(back - 1).unwrap().to_owned()
    };
    // T0 of the second episode works from its departure on, and waits for 30 µs.
    let line = episodes
        .iter()
        .find(|line| at(line, "arrived_ns") == "130000")
        .unwrap();
    assert_eq!(at(line, "idle_ns"), "30000");
    assert_eq!(at(line, "release_ns"), "5000");
    assert_eq!(at(line, "work_ns"), "65000");
    assert_eq!(at(line, "running_ns"), "65000");
    assert_eq!(at(line, "order"), "1");

    let page = fs::read_to_string(exports.html.unwrap()).unwrap();
    assert!(page.contains("id=\"tl-data\""));
    assert!(!page.contains("</script><b>"));
    assert!(!page.contains('\x1b'));
    assert!(fs::metadata(exports.perfetto.unwrap()).unwrap().len() > 50_000);
    let stacks = fs::read_to_string(exports.folded.unwrap()).unwrap();
    assert_eq!(stacks, "main;f 12\nmain;g 3\n");
    let expected = [
        "episodes.csv",
        "out.csv",
        "out.folded",
        "out.html",
        "out.pftrace",
        "run.sbt",
    ];
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn what_cannot_be_made_leaves_all_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.sbt");
    recorded(&file, 2, 20, false);
    fs::write(folder.path().join("out.html"), "old").unwrap();
    let fails = |file: &Path, exports: &Exports, words: &str| {
        let before = names(folder.path());
        let error = format!("{:#}", exports::write(file, exports).unwrap_err());
        assert!(error.contains(words), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert_eq!(names(folder.path()), before);
        let page = fs::read_to_string(folder.path().join("out.html")).unwrap();
        assert_eq!(page, "old");
    };
    // The stacks are at the end of a recording, and this has none.
    fails(&file, &all(folder.path()), "needs the end of the recording");
    let nowhere = Exports {
        perfetto: Some(folder.path().join("none/x")),
        ..all(folder.path())
    };
    fails(&file, &nowhere, "cannot write ");
}

#[test]
fn a_report_gives_what_needs_no_single_episodes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.sbt");
    recorded(&file, 2, 20, true);
    let json = folder.path().join("run.json");
    let report = sbt::record::report(&file).unwrap();
    fs::write(&json, serde_json::to_string(&report).unwrap()).unwrap();
    let exports = all(folder.path());
    let error = exports::write(&json, &exports).unwrap_err().to_string();
    assert!(error.contains("--perfetto needs a recording"), "{error}");
    let tables = Exports {
        html: exports.html.clone(),
        csv: exports.csv,
        ..Exports::default()
    };
    exports::write(&json, &tables).unwrap();
    let page = fs::read_to_string(exports.html.unwrap()).unwrap();
    assert!(page.contains("There is no timeline, since this page was made from a report"));
    assert_eq!(rows(tables.csv.unwrap()).len(), 3);
}

#[test]
fn a_recording_that_breaks_off_gives_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.sbt");
    recorded(&file, 3, 100, false);
    let exports = Exports {
        folded: None,
        ..all(folder.path())
    };
    let report = exports::write(&file, &exports).unwrap();
    assert_eq!(report.episodes, 100);
    assert!(report.notes.iter().any(|note| note.contains("no end")));
    assert_eq!(rows(exports.csv_episodes.unwrap()).len(), 1 + 300);
}

#[test]
fn many_episodes_make_no_large_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.sbt");
    recorded(&file, 2, 50_000, true);
    let exports = all(folder.path());
    let report = exports::write(&file, &exports).unwrap();
    assert_eq!(report.episodes, 50_000);
    let size = |path: Option<PathBuf>| fs::metadata(path.unwrap()).unwrap().len();
    assert!(size(exports.html) < 3_000_000);
    assert!(size(exports.perfetto) < 60_000_000);
}
