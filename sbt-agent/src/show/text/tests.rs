mod efficiency;

use std::rc::Rc;

use super::*;
use sbt_engine::{
    event::{CallersId, Clocks, Event, Kind},
    model::{
        Model,
        cost::{CLASSES, Tariff},
        ids::{MAX_ROWS, PlaceId},
        site::Roles,
    },
    place::{Frame, Place},
    report::{BarrierKind, Facts, Run, StragglerPattern},
};

const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

const MS: u64 = 1_000_000;

/// A simulated program with known behaviour.
struct Program {
    model: Model,
    time_ns: u64,
    departures: bool,
}

impl Program {
    fn new(departures: bool) -> Self {
        Self {
            model: Model::new(0, departures),
            time_ns: 0,
            departures,
        }
    }

    fn starts(&mut self, threads: std::ops::Range<u32>) {
        for tid in threads {
            self.model.push(&Event::Thread {
                tid,
                shown: (tid, 1),
                name: "w".into(),
                since: Clocks::at(self.time_ns),
                code_start: None,
            });
        }
    }

    fn arrives(&mut self, tid: u32, time_ns: u64, object: u64) {
        let callers = CallersId(0);
        self.model
            .define_place(callers, PlaceId(0), Roles::default());
        self.model.push(&Event::Arrive {
            tid,
            clocks: Clocks::at(time_ns),
            object,
            kind: Kind::Pthread,
            callers,
        });
    }

    /// Every thread works for a given number of ms; all leave 1 ms after the last arrival.
    fn meet(&mut self, object: u64, work: &[(u32, u64)]) {
        let count = u32::try_from(work.len()).unwrap();
        self.model.push(&Event::Init {
            time_ns: self.time_ns,
            object,
            kind: Kind::Pthread,
            tid: work[0].0,
            count,
        });
        let mut work = work.to_vec();
        work.sort_by_key(|(_, ms)| *ms);
        for (tid, ms) in &work {
            self.arrives(*tid, self.time_ns + ms * MS, object);
        }
        self.time_ns += work.last().unwrap().1 * MS;
        if self.departures {
            self.time_ns += MS;
            for (tid, _) in work {
                let clocks = Clocks::at(self.time_ns);
                self.model.push(&Event::Depart { tid, clocks });
            }
        }
    }

    fn report_of(mut self, run: Facts) -> Report {
        self.model.finish();
        let place = Place {
            of_runtime: false,
            binary: "prog".into(),
            offset: 0x10,
            into_function: None,
            works_before: false,
            outer: Vec::new(),
            frames: vec![Frame {
                function: Some("step".into()),
                file: Some("a.c".into()),
                line: Some(40),
                inlined: false,
            }],
        };
        Report::new(&self.model, &[Rc::new(place)], run)
    }

    fn report(self) -> Report {
        let run = Facts {
            run: Run {
                command: vec!["./prog".into(), "a b".into()],
                wall_ns: self.time_ns,
                departures: Some(self.departures),
                ..Run::default()
            },
            ..Facts::default()
        };
        self.report_of(run)
    }
}

fn text(report: &Report) -> String {
    let text = render(report, PLAIN);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
    }
    text
}

/// Asserts that the text has a line that begins like this.
#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.contains(&format!("\n{line}")), "{line:?} in:\n{text}");
}

#[test]
fn the_whole_thread_time_is_told() {
    let mut program = Program::new(true);
    program.starts(1..3);
    program.meet(1, &[(1, 10), (2, 30)]);
    program.meet(1, &[(1, 10), (2, 30)]);
    let report = program.report();
    let time = &report.thread_time;
    assert_eq!(
        (time.total_ns, time.work_ns, time.idle_ns, time.release_ns),
        (124 * MS, 80 * MS, 40 * MS, Some(4 * MS))
    );
    let text = text(&report);
    has(&text, "62.0 ms watched, 2 threads, 1 barrier, 2 episodes");
    has(
        &text,
        "of 124 ms thread time: 40.0 ms (32 %) waiting for the last thread,\n4000 µs (3 %) \
         resuming afterwards, 80.0 ms (65 %) work\n",
    );
    assert!(text.starts_with("sbt · ./prog 'a b' · "), "{text}");
}

#[test]
fn where_threads_execute_tasks_in_barriers_they_do_not_only_wait() {
    let mut program = Program::new(true);
    program.starts(1..3);
    program.meet(1, &[(1, 10), (2, 30)]);
    program.meet(1, &[(1, 10), (2, 30)]);
    let mut report = program.report();
    report.run.openmp_tasks = Some(true);
    let site = &mut report.sites[0];
    site.kind = BarrierKind::Gomp;
    site.waits.spinning_ns = Some(40 * MS);
    has(
        &text(&report),
        "of 124 ms thread time: 40.0 ms (32 %) waiting in barriers or at tasks there,\n4000 µs (3 %) \
         resuming or at tasks, 80.0 ms (65 %) work\n",
    );
}

#[test]
fn an_unknown_release_is_not_zero() {
    let mut program = Program::new(false);
    program.starts(1..3);
    program.meet(1, &[(1, 10), (2, 30)]);
    let report = program.report();
    assert_eq!(report.thread_time.release_ns, None);
    assert_eq!(report.thread_time.release_pct, None);
    has(
        &text(&report),
        "of 60.0 ms thread time: 20.0 ms (33 %) waiting for the last thread,\n? resuming \
         afterwards, 40.0 ms (67 %) work\n",
    );
}

#[test]
fn spinning_is_told_where_it_is_more_than_going_to_sleep() {
    let mut program = Program::new(true);
    program.starts(1..3);
    program.meet(1, &[(1, 10), (2, 30)]);
    let mut report = program.report();
    assert_eq!(report.sites[0].waits.spinning_ns, None);
    let spins = "its threads spin: 97 % of the waiting here uses a CPU\n";
    for (pct, told) in [(None, false), (Some(9.0), false), (Some(97.4), true)] {
        report.sites[0].waits.spinning_pct = pct;
        assert_eq!(text(&report).contains(spins), told, "{pct:?}");
    }
}

#[test]
fn waiting_longer_than_ever_is_told_and_other_waiting_in_one_line() {
    let run = |waits_ms: u64| {
        let mut program = Program::new(true);
        program.starts(1..4);
        program.meet(1, &[(1, 10), (2, 30), (3, 20)]);
        let start_ns = program.time_ns;
        program.arrives(1, start_ns + MS, 1);
        program.time_ns += MS + waits_ms * MS;
        // An arrival after the end of watching, which does not count.
        program.arrives(3, program.time_ns + 1, 1);
        program.time_ns -= 0;
        let run = Facts {
            run: Run {
                wall_ns: start_ns + MS + waits_ms * MS,
                departures: Some(true),
                ..Run::default()
            },
            ..Facts::default()
        };
        program.report_of(run)
    };
    let long = run(1000);
    assert_eq!(long.unfinished[0].waiting_ns, 1000 * MS);
    assert_eq!(long.unfinished[0].arrived, [0]);
    assert_eq!(long.unfinished[0].missing, [1, 2]);
    assert_eq!(long.thread_time.unfinished_ns, 1000 * MS);
    let long = text(&long);
    has(&long, "step a.c:40: 1 of 3 there for 1000 ms: T0 w\n");
    has(&long, "  missing: T1 w, T2 w\n");
    assert!(
        long.contains("; 1000 ms in barriers not\ncompleted\n"),
        "{long}"
    );
    let short = text(&run(15));
    assert!(!short.contains("STILL WAITING"), "{short}");
    assert!(!short.contains("not completed"), "{short}");
    has(
        &short,
        "when watching ended threads waited at step a.c:40, no longer than usual\n",
    );
}

#[test]
fn who_came_after_the_end_was_not_there() {
    let mut program = Program::new(true);
    program.starts(1..3);
    program.meet(1, &[(1, 10), (2, 30)]);
    let end_ns = program.time_ns;
    program.arrives(1, end_ns + 5, 1);
    let run = Facts {
        run: Run {
            wall_ns: end_ns,
            ..Run::default()
        },
        ..Facts::default()
    };
    assert!(program.report_of(run).unfinished.is_empty());
}

#[test]
fn of_many_threads_those_that_matter_are_shown() {
    let mut program = Program::new(true);
    program.starts(1..65);
    for _ in 0..5 {
        // Thread 61 is the straggler, and thread 64 waits longest.
        let work: Vec<_> = (1..65)
            .map(|tid| match tid {
                61 => (tid, 200),
                64 => (tid, 1),
                _ => (tid, u64::from(tid) + 20),
            })
            .collect();
        program.meet(1, &work);
    }
    let text = text(&program.report());
    let shown: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  T")?.split(' ').next())
        .collect();
    assert_eq!(shown.len(), MOST_ROWS + 1, "{text}");
    assert_eq!(shown[0], "60", "the sentence names the straggler: {text}");
    let rows: Vec<u32> = shown[1..].iter().map(|id| id.parse().unwrap()).collect();
    assert!(
        rows.is_sorted() && rows.contains(&60) && rows.contains(&63),
        "{text}"
    );
    let line = "and 40 threads more: work 140 to 335 ms, idle 665 to 860 ms\n";
    assert_eq!(text.matches(line).count(), 2, "{text}");
}

#[test]
fn a_row_of_many_threads_is_nobody() {
    let rows = u32::try_from(MAX_ROWS).unwrap();
    let mut program = Program::new(false);
    for tid in (2..rows + 2000).step_by(2) {
        program.starts(tid..tid + 2);
        // In each later pair the second thread arrives last; they all share a row.
        program.meet(1, &[(tid, 1), (tid + 1, if tid < rows { 0 } else { 3 })]);
    }
    let report = program.report();
    assert_eq!(report.threads.len(), MAX_ROWS);
    let shared = report.threads.last().unwrap();
    assert!(shared.threads > 1900);
    for site in &report.sites {
        let straggler = site.straggler.as_ref().unwrap();
        assert_ne!(straggler.thread, shared.id);
        assert_eq!(straggler.pattern, "none");
        assert!(straggler.unknown_pct > 30.0, "{straggler:?}");
        assert_eq!(straggler.longest_run, 1);
    }
    let text = text(&report);
    let name = format!("{} further threads", shared.threads);
    has(&text, "5047 ms watched, 6094 threads");
    assert!(!text.contains("T4095"), "{text}");
    assert!(
        text.contains(&format!(
            "the last thread is one of {name}; which one is unknown"
        )),
        "{text}"
    );
    assert!(text.lines().any(|line| line.starts_with(&name)), "{text}");
}

#[test]
fn barriers_used_from_one_line_have_stragglers_of_their_own() {
    let mut program = Program::new(true);
    program.starts(1..5);
    for _ in 0..20 {
        // Two teams of two threads at one line, each team with its own barrier and straggler.
        program.meet(0x10, &[(1, 10), (2, 30)]);
        program.meet(0x20, &[(3, 80), (4, 50)]);
    }
    let report = program.report();
    let site = &report.sites[0];
    assert_eq!(site.straggler.as_ref().unwrap().pattern, "persistent");
    let at: Vec<_> = site
        .straggler_by_barrier
        .iter()
        .map(|at| (at.barrier, at.episodes, at.thread, at.pattern))
        .collect();
    assert_eq!(
        at,
        [
            (Some(1), 20, Some(2), StragglerPattern::Persistent),
            (Some(0), 20, Some(1), StragglerPattern::Persistent)
        ]
    );
    let text = text(&report);
    assert!(!text.contains("comes last in"), "{text}");
    has(
        &text,
        "  2 barriers are used from here; their stragglers differ, one to each:\n",
    );
    has(&text, "  0x20           20      600  T2 w 100 %\n");
    has(&text, "  0x10           20      400  T1 w 100 %\n");
    assert!(!text.contains("in a row"), "{text}");
}

#[test]
fn who_takes_turns_is_named() {
    let mut program = Program::new(true);
    program.starts(1..7);
    for round in 0..40 {
        let late = if round % 2 == 0 { 2 } else { 5 };
        let work: Vec<_> = (1..7)
            .map(|tid| (tid, if tid == late { 9 } else { 4 }))
            .collect();
        program.meet(1, &work);
    }
    let text = text(&program.report());
    let words: Vec<&str> = text.split_whitespace().collect();
    let expected = "episodes: two threads take turns, T1 50 %, T4 50 % the last";
    assert!(words.join(" ").contains(expected), "{text}");
}

#[test]
fn what_balance_saves_is_told_against_the_wall_time() {
    let mut program = Program::new(true);
    program.starts(1..3);
    for _ in 0..10 {
        program.meet(1, &[(1, 10), (2, 30)]);
    }
    let mut report = program.report();
    has(
        &text(&report),
        "  imbalance 67 %: perfect balance would save 100 ms of 310 ms wall time (32 %)\n",
    );
    for thread in report.sites.iter_mut().flat_map(|site| &mut site.threads) {
        thread.ready_ns = thread.work_ns.map(|work| work / 4);
    }
    let expected = "  imbalance 67 %: perfect balance would save at most 100 ms of 310 ms wall time (32 %); less where \
                    threads lack CPUs: they were ready without one for 25 % of the time between barriers here\n";
    let text_of = text(&report)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(text_of.contains(expected.trim()), "{text_of}");
    // Each thread waits 1 ms of 10 000 ms at most: too little to mention balance.
    let mut program = Program::new(true);
    program.starts(1..3);
    program.meet(1, &[(1, 9_999), (2, 10_000)]);
    let text = text(&program.report());
    assert!(!text.contains("perfect balance"), "{text}");
}

#[test]
fn one_long_phase_does_not_hide_the_others() {
    let mut program = Program::new(true);
    program.starts(1..3);
    for round in 0..12 {
        let start = if round == 0 { 5_000 } else { 0 };
        program.meet(
            1,
            &[(1, start + 10 + round % 3), (2, start + 20 + round % 3)],
        );
    }
    let text = text(&program.report());
    let row = text
        .lines()
        .find(|line| line.starts_with("step a.c:40  "))
        .unwrap();
    // 20 to 22 ms of work, and 1 ms until all threads had left the barrier before.
    let phase: f64 = row.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!((20.0..24.0).contains(&phase), "{text}");
    let trend = text
        .lines()
        .find(|line| line.contains("over the run"))
        .unwrap();
    assert!(
        trend.contains("  ↑") && trend.ends_with("(↑: to 5020 ms)"),
        "{trend}"
    );
    let sparks = trend.chars().filter(|c| ('▆'..='█').contains(c)).count();
    assert_eq!(sparks, 11, "{trend}");
}

#[test]
fn without_barriers_what_is_known_is_said() {
    let run = |had_children, because: Option<&str>| {
        let run = Facts {
            run: Run {
                had_children,
                none_found_because: because.map(str::to_owned),
                ..Run::default()
            },
            ..Facts::default()
        };
        text(&Program::new(true).report_of(run))
    };
    let plain = run(Some(false), None);
    has(&plain, "No barrier was seen in 0 ns.\n");
    assert!(!plain.contains("put sbt in front"), "{plain}");
    let children = run(Some(true), None);
    has(
        &children,
        "No barrier was seen in 0 ns. The program started other processes,",
    );
    let followed = Facts {
        run: Run {
            had_children: Some(true),
            children: true,
            ..Run::default()
        },
        ..Facts::default()
    };
    let followed = text(&Program::new(true).report_of(followed));
    assert!(!followed.contains("put sbt in front"), "{followed}");
    let words: Vec<_> = followed.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains("and in the processes that it started."),
        "{words}"
    );
    // A barrier kind that is watched for is not listed as unrecognised.
    let (_, not) = words.split_once("processes that it started. ").unwrap();
    assert!(
        not.starts_with("It did not look for barriers that only spin: "),
        "{words}"
    );
    let hidden = run(None, Some("prog is stripped"));
    has(&hidden, "No barrier was found in 0 ns: prog is stripped.\n");
    assert!(!hidden.contains("note:"), "{hidden}");
    // The lost events may include barriers.
    let lost = Facts {
        lost: 3,
        ..Facts::default()
    };
    let lost = text(&Program::new(true).report_of(lost));
    has(
        &lost,
        "No barrier was seen in 0 ns, but 3 events were lost.",
    );
    assert!(!lost.contains("was used"), "{lost}");
}

#[test]
fn what_may_be_a_barrier_that_spins_is_said_once_with_a_command_to_copy() {
    use sbt_engine::{place::SpinPlace, report::spin::FoundLoop};
    let command = "sbt run --barrier meet -- ./a-program --with 'an argument' --and another --more";
    let found = FoundLoop {
        place: SpinPlace {
            function: Some("meet".into()),
            file: Some("/src/spin.c".into()),
            line: Some(31),
            binary: "p".into(),
            offset: 0x1234,
            is_barrier: true,
            is_nested: false,
            may_work: false,
            barrier: Ok("meet".into()),
        },
        threads: 4,
        samples: 71,
        of: 100,
        command: Some(command.into()),
    };
    let run = Facts {
        spins: Some(vec![found]),
        ..Facts::default()
    };
    let text = render(&Program::new(true).report_of(run), PLAIN);
    has(
        &text,
        "4 threads spent 71 % of their CPU time in a loop of meet",
    );
    has(&text, &format!("  {command}\n"));
    assert_eq!(text.matches("4 threads spent").count(), 1, "{text}");
}

#[test]
fn verdicts_stand_on_top_and_fit() {
    let mut program = Program::new(true);
    program.starts(1..3);
    for _ in 0..8 {
        program.meet(1, &[(1, 10), (2, 30)]);
    }
    let mut report = program.report();
    assert!(!text(&report).contains('▶'));
    report.verdicts = sbt_engine::verdict::judge(&report).ok();
    assert_eq!(report.verdicts.iter().flatten().count(), 1);
    let shown = text(&report);
    let at = |what: &str| {
        shown
            .find(what)
            .unwrap_or_else(|| panic!("{what}: {shown}"))
    };
    let verdict = at("\n▶ static imbalance at step a.c:40: T1 w comes last in 100 % of 8 episodes");
    assert!(
        at(" thread time: ") < verdict && verdict < at("\nBARRIERS"),
        "{shown}"
    );
    let ascii = render(
        &report,
        Style {
            unicode: false,
            ..PLAIN
        },
    );
    has(&ascii, "> static imbalance");
    report.verdicts = None;
    report.no_verdict_because = Some("2 complete episodes: too few to tell".into());
    has(
        &text(&report),
        "no verdict: 2 complete episodes: too few to tell\n",
    );
}

#[test]
fn a_cost_of_more_than_the_whole_time_is_unknown() {
    for (each, is_known) in [(MS as f64, true), (1000.0 * MS as f64, false)] {
        let mut program = Program::new(false);
        program.starts(1..3);
        program.meet(1, &[(1, 10), (2, 30)]);
        let tariff = Tariff {
            each: [each; CLASSES],
            ..Tariff::default()
        };
        let report = program.report_of(Facts {
            tariff: Some(tariff),
            ..Facts::default()
        });
        let cost = &report.own_cost;
        assert_eq!(cost.share_pct.is_some(), is_known, "{cost:?}");
        assert_eq!(cost.unknown_because.is_none(), is_known, "{cost:?}");
        let text = text(&report).replace('\n', " ");
        assert_eq!(text.contains("own cost unknown"), !is_known, "{text}");
    }
}
