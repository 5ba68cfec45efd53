//! Programs with exactly one fault and the expected verdict; and the same programs without the
//! fault.

mod behind;
mod completion;
mod counted;
mod cpus;
mod disturbed;
mod effect;
mod lack;
pub(super) mod pace;
mod related;
mod serial;
mod speed;
mod two;
mod unaccounted;
mod untold;
mod without_barriers;

use std::rc::Rc;

use super::*;
use crate::{
    counters::{self, Plan, Source},
    event::{CallersId, Clocks, Count, Event, Kind},
    model::{Model, ids::PlaceId, site::Roles},
    place::{Frame, LockKind, Place},
    report::{
        CounterUnit, Facts, Run, VerdictKind,
        counters::{CountedReport, CounterReport},
        locks::FoundLock,
    },
};

const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
const PLACES: u32 = 4;

/// What a thread does in a phase, ns: running, ready, blocked.
pub(crate) type Work = [u64; 3];

/// Work that needs nothing but a CPU, in ms.
pub(crate) fn runs(ms: u64) -> Work {
    [ms * MS, 0, 0]
}

/// A program whose reasons for lateness are known.
pub(crate) struct Program {
    model: Model,
    clocks: Vec<Clocks>,
    /// Time from the last arrival until a thread goes on, ns.
    release_ns: u64,
    /// By how much thread 0 goes on later than the others, ns.
    woken_late_ns: u64,
    /// Percentage of the wait for which threads spin in barriers; else they sleep.
    spins: u64,
    /// Whether barriers end parallel regions; if so, time for which the first thread works alone
    /// before each region, ns.
    pub(crate) alone_ns: Option<u64>,
    /// What the one counter says of a thread by its number at a time, ns; `None` if that is
    /// unknown.
    counted: Option<fn(u32, u64) -> Option<u64>>,
    /// How long a fixed piece of work takes on the CPU of a thread by its number, in an episode by its
    /// number, ns.
    took_ns: Option<fn(u32, usize) -> u64>,
    episode: usize,
    pub(crate) facts: Facts,
}

impl Program {
    pub(crate) fn new(threads: usize) -> Self {
        let mut model = Model::new(0, true);
        let clocks = Clocks {
            time_ns: 0,
            run_ns: Some(0),
            delay_ns: Some(0),
        };
        for tid in (1..).take(threads) {
            model.push(&Event::Thread {
                tid,
                shown: (tid, 1),
                name: "w".into(),
                since: clocks,
                code_start: None,
            });
        }
        for place in 0..PLACES {
            model.define_place(CallersId(place), PlaceId(place), Roles::default());
            model.push(&Event::Init {
                time_ns: 0,
                object: place.into(),
                kind: Kind::Pthread,
                tid: 1,
                count: u32::try_from(threads).unwrap(),
            });
        }
        Self {
            model,
            clocks: vec![clocks; threads],
            release_ns: 20 * US,
            woken_late_ns: 0,
            spins: 0,
            alone_ns: None,
            counted: None,
            took_ns: None,
            episode: 0,
            facts: Facts {
                run: Run {
                    cpus: Some(64),
                    departures: Some(true),
                    ..Run::default()
                },
                ..Facts::default()
            },
        }
    }

    /// An episode at a place.
    pub(crate) fn meet(&mut self, place: u32, work: &[Work]) -> &mut Self {
        if let Some(alone_ns) = self.alone_ns {
            self.begin_region(alone_ns);
        }
        let kind = self.alone_ns.map_or(Kind::Pthread, |_| Kind::Gomp);
        let mut arrivals: Vec<(u32, Clocks)> = Vec::new();
        for ((tid, clocks), [running, ready, blocked]) in (1..).zip(&self.clocks).zip(work) {
            let later = |clock: Option<u64>, by| clock.map(|clock| clock + by);
            arrivals.push((
                tid,
                Clocks {
                    time_ns: clocks.time_ns + running + ready + blocked,
                    run_ns: later(clocks.run_ns, *running),
                    delay_ns: later(clocks.delay_ns, *ready),
                },
            ));
        }
        arrivals.sort_by_key(|(tid, clocks)| (clocks.time_ns, *tid));
        let last_ns = arrivals.last().unwrap().1.time_ns;
        for (tid, clocks) in &arrivals {
            if self.alone_ns.is_some() {
                self.model.push(&Event::RegionEnd { tid: *tid });
            }
            self.count(*tid, clocks.time_ns);
            if let Some(took_ns) = self.took_ns {
                self.model.push(&Event::Speed {
                    tid: *tid,
                    time_ns: clocks.time_ns,
                    took_ns: took_ns(*tid, self.episode),
                });
            }
            self.model.push(&Event::Arrive {
                tid: *tid,
                clocks: *clocks,
                object: place.into(),
                kind,
                callers: CallersId(place),
            });
        }
        for (tid, arrived) in arrivals {
            let woken_late_ns = u64::from(tid == 1) * self.woken_late_ns;
            let time_ns = last_ns + self.release_ns + woken_late_ns;
            let spun = (time_ns - arrived.time_ns) * self.spins / 100;
            let clocks = Clocks {
                time_ns,
                run_ns: arrived.run_ns.map(|run| run + spun),
                delay_ns: arrived.delay_ns,
            };
            self.count(tid, time_ns);
            self.model.push(&Event::Depart { tid, clocks });
            self.clocks[tid as usize - 1] = clocks;
        }
        self.episode += 1;
        self
    }

    fn count(&mut self, tid: u32, time_ns: u64) {
        if let Some(counted) = self.counted {
            let value = counted(tid, time_ns).map(|value| Count {
                value,
                ..Count::default()
            });
            self.model.push(&Event::Counters {
                tid,
                time_ns,
                reading: [value].into(),
            });
        }
    }

    fn begin_region(&mut self, alone_ns: u64) {
        for clocks in &mut self.clocks {
            clocks.time_ns += alone_ns;
        }
        let clocks = &mut self.clocks[0];
        clocks.run_ns = clocks.run_ns.map(|run| run + alone_ns);
        self.model.push(&Event::Region {
            tid: 1,
            clocks: *clocks,
            depth: 7,
        });
    }

    /// This number of episodes, after a first one that ends the program's start.
    pub(crate) fn rounds(&mut self, rounds: usize, work: impl Fn(usize) -> Vec<Work>) -> &mut Self {
        let even = vec![runs(1); self.clocks.len()];
        self.meet(1, &even);
        for round in 0..rounds {
            self.meet(0, &work(round));
        }
        self
    }

    pub(crate) fn report(&mut self) -> Report {
        self.model.finish();
        let place = |line| Place {
            of_runtime: false,
            binary: "prog".into(),
            offset: 0x10 * u64::from(line),
            into_function: None,
            works_before: false,
            outer: Vec::new(),
            frames: vec![Frame {
                function: Some("step".into()),
                file: Some("a.c".into()),
                line: Some(40 + line),
                inlined: false,
            }],
        };
        let places: Vec<Rc<Place>> = (0..PLACES).map(|line| Rc::new(place(line))).collect();
        let facts = Facts {
            run: Run {
                wall_ns: self.clocks[0].time_ns,
                ..self.facts.run.clone()
            },
            ..self.facts.clone()
        };
        with(Report::new(&self.model, &places, facts))
    }

    fn kinds(&mut self) -> Vec<VerdictKind> {
        let report = self.report();
        let verdicts = report.verdicts.unwrap_or_default();
        verdicts.iter().map(|verdict| verdict.kind).collect()
    }

    /// The reason why there is no verdict.
    #[track_caller]
    fn none(&mut self) -> String {
        let report = self.report();
        assert_eq!(report.verdicts, None, "{:#?}", report.verdicts);
        report.no_verdict_because.unwrap()
    }

    /// The only verdict, which must be of this kind.
    #[track_caller]
    fn only(&mut self, kind: VerdictKind) -> VerdictReport {
        let report = self.report();
        let mut verdicts = report.verdicts.unwrap_or_default();
        assert_eq!(verdicts.len(), 1, "{verdicts:#?}");
        assert_eq!(verdicts[0].kind, kind, "{verdicts:#?}");
        verdicts.remove(0)
    }
}

#[track_caller]
fn says(verdict: &VerdictReport, words: &[&str]) {
    for word in words {
        assert!(verdict.text.contains(word), "{word:?} in {}", verdict.text);
    }
}

/// The same work for all threads but one, which does something else.
fn but(threads: usize, other: usize, work: Work, all: Work) -> Vec<Work> {
    let mut each = vec![all; threads];
    each[other] = work;
    each
}

#[test]
fn an_even_program_has_no_problem() {
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![runs(10); 4]);
    let verdict = program.only(VerdictKind::NoProblem);
    says(
        &verdict,
        &["no problem found: in 21 episodes the threads waited 0.2 %"],
    );
    assert_eq!((verdict.site, verdict.thread), (None, None));
}

#[test]
fn the_same_thread_late_again_and_again_is_a_static_imbalance() {
    let mut program = Program::new(4);
    program.rounds(20, |_| vec![runs(2), runs(3), runs(4), runs(8)]);
    let verdict = program.only(VerdictKind::PersistentStraggler);
    assert_eq!(verdict.thread, Some(3));
    says(
        &verdict,
        &[
            "static imbalance at step a.c:40: T3 w comes last in 100 % of 20 episodes, and is on a \
             CPU for 8.00 ms in each phase, the others 3.00 ms on average; the threads wait 46 % of \
             their time here. Give it less of the work: that would save up to 75.0 ms of ",
        ],
    );
    assert_eq!(verdict.evidence["gain_ns"], Figure::Whole(75 * MS));
    // A hundredth of the time is not worth mentioning.
    let mut program = Program::new(4);
    program.rounds(20, |_| but(4, 3, [10_150 * US, 0, 0], runs(10)));
    assert_eq!(program.kinds(), [VerdictKind::NoProblem]);
    // A fifth may be a slower CPU.
    for (late_us, is_told) in [(12_600, false), (13_000, true)] {
        let mut program = Program::new(2);
        program.rounds(20, |_| but(2, 1, [late_us * US, 0, 0], runs(10)));
        let told = program.kinds().contains(&VerdictKind::PersistentStraggler);
        assert_eq!(told, is_told, "{late_us}");
    }
}

#[test]
fn any_thread_late_is_a_dynamic_imbalance() {
    let late = |round: usize| (round * 7 + round / 3) % 4;
    let mut program = Program::new(4);
    program.rounds(60, |round| but(4, late(round), runs(7), runs(4)));
    let verdict = program.only(VerdictKind::RotatingStraggler);
    assert_eq!(verdict.thread, None);
    says(
        &verdict,
        &["dynamic imbalance at step a.c:40", "in smaller pieces"],
    );
    // A fifth is nothing that equal work does not do by itself.
    let mut program = Program::new(2);
    program.rounds(60, |round| {
        but(2, late(round) % 2, [245 * US, 0, 0], [193 * US, 0, 0])
    });
    let kinds = program.kinds();
    assert!(
        !kinds.contains(&VerdictKind::RotatingStraggler),
        "{kinds:?}"
    );
    // Two of many threads take turns.
    let mut program = Program::new(8);
    program.rounds(60, |round| but(8, round % 2 * 5, runs(7), runs(4)));
    let verdict = program.only(VerdictKind::AlternatingStragglers);
    says(
        &verdict,
        &["(T0 50 %, T5 50 %), and the last is on a CPU for 7.00 ms, the others for 4.00 ms on"],
    );
}

#[test]
fn short_phases_at_many_places_are_one_fault() {
    let mut program = Program::new(2);
    program.release_ns = 8 * US;
    program.rounds(1000, |_| vec![[2 * US, 0, 0]; 2]);
    let mut report = program.report();
    // One site as four, none of which takes much.
    report.thread_time.total_ns *= 200;
    let sites = report.sites.iter();
    let site = sites.max_by_key(|site| site.episodes).unwrap().clone();
    report.sites.extend((11..14).map(|id| {
        let mut other = site.clone();
        other.id = id;
        other
    }));
    let because = judge(&report).unwrap_err();
    assert!(because.contains("waiting at barriers"), "{because}");
    report.thread_time.total_ns /= 5;
    let verdicts = judge(&report).unwrap();
    let short = |verdict: &&VerdictReport| verdict.kind == VerdictKind::PhaseTooShort;
    let [verdict] = verdicts.iter().filter(short).collect::<Vec<_>>()[..] else {
        panic!("{verdicts:#?}");
    };
    says(
        verdict,
        &[
            "phases too short for their barriers at 4 places: barriers take about 7 % of thread time",
            "(2 % at ",
            "At the first, threads work 2.",
        ],
    );
}

#[test]
fn a_phase_as_short_as_the_barrier_is_too_short() {
    let work = |round: usize| but(2, round % 2, [3 * US, 0, 0], [2 * US, 0, 0]);
    let mut program = Program::new(2);
    program.release_ns = 8 * US;
    program.rounds(1000, work);
    let verdict = program.only(VerdictKind::PhaseTooShort);
    says(
        &verdict,
        &[
            "threads work 2.",
            "need 8.00 µs in the barrier to go on",
            "merged loops",
        ],
    );
    // Departures were never watched: what is known otherwise must do.
    program.facts.run.departures = Some(false);
    program.only(VerdictKind::PhaseTooShort);
    // Threads go on late for lack of a CPU.
    program.facts.run.departures = Some(true);
    program.rounds(1000, |_| vec![[2 * US, 18 * US, 0]; 2]);
    program.facts.run.cpus = Some(1);
    assert_eq!(program.kinds(), [VerdictKind::MoreThreadsThanCpus]);
    // The barrier is fast enough for the short phase.
    let mut program = Program::new(2);
    program.release_ns = 100;
    program.rounds(1000, |_| vec![[10 * US, 0, 0]; 2]);
    assert_eq!(program.kinds(), [VerdictKind::NoProblem]);
    // The other thread has work, and this one waits for it.
    let mut program = Program::new(3);
    program.rounds(1000, |_| but(3, 0, [900 * US, 0, 0], [2 * US, 0, 0]));
    assert_eq!(program.kinds(), [VerdictKind::SerialPhase]);
}

#[test]
fn what_was_hardly_measured_is_not_judged() {
    let mut program = Program::new(4);
    program.rounds(2, |_| but(4, 3, runs(9), runs(1)));
    // One long episode counts like many short ones, by its time: who is late is known.
    let verdict = program.only(VerdictKind::StragglerAtManySites);
    assert_eq!(verdict.thread, Some(3));
    says(
        &verdict,
        &["late at step a.c:40: in 2 episodes the others wait for T3 w, 63 % of thread time"],
    );
    // Whether a thread is late is unknown.
    let mut program = Program::new(4);
    program.rounds(2, |_| vec![runs(9); 4]);
    assert_eq!(program.none(), "3 complete episodes: too few to tell");
    let mut report = Program::new(4).rounds(20, |_| vec![runs(1); 4]).report();
    report.incomplete_episodes = 22;
    let because = judge(&report).unwrap_err();
    assert_eq!(because, "22 of 43 episodes were not seen as a whole");
    // Sites that were used once each, all with the same straggler, tell together.
    let mut program = Program::new(4);
    for place in 0..PLACES {
        program.meet(place, &but(4, 3, runs(9), runs(1)));
    }
    let verdict = program.only(VerdictKind::StragglerAtManySites);
    assert_eq!((verdict.site, verdict.thread), (None, Some(3)));
    says(
        &verdict,
        &["late at 4 places", "wait for T3 w", "25 % at step a.c:4"],
    );
    // Where it comes last without working longer, it is not late because of its work.
    let mut program = Program::new(4);
    for _ in 0..40 {
        program.meet(0, &but(4, 3, runs(9), runs(5)));
        program.meet(1, &but(4, 3, [5 * MS, 2 * MS, 0], runs(5)));
        program.meet(2, &but(4, 3, runs(9), runs(5)));
    }
    let verdicts = judge(&program.report()).unwrap();
    assert_eq!(verdicts[0].kind, VerdictKind::StragglerAtManySites);
    says(&verdicts[0], &["late at 2 places"]);
    // Two places are told, even where one of them has most of the loss.
    let mut program = Program::new(2);
    for _ in 0..20 {
        program.meet(0, &but(2, 1, runs(20), runs(6)));
        program.meet(1, &but(2, 1, runs(9), runs(3)));
    }
    let verdict = program.only(VerdictKind::StragglerAtManySites);
    says(&verdict, &["late at 2 places", "70 % at step a.c:40"]);
    // In some phases the other works as long: the difference is the noise of the machine.
    let noisy = |often_us: u64| {
        let mut program = Program::new(2);
        for round in 0..80 {
            let seldom = if round % 7 == 0 { 7_500 } else { 5_000 };
            let own = if round % 20 == 0 { 5_200 } else { often_us };
            program.meet(round % 2, &[[seldom * US, 0, 0], [own * US, 0, 0]]);
        }
        program.kinds().contains(&VerdictKind::StragglerAtManySites)
    };
    assert!(!noisy(6_500));
    assert!(noisy(9_000));
    // At a place where the threads are late in turn, the straggler of another place is late by chance.
    let mut program = Program::new(4);
    for round in 0..40 {
        program.meet(0, &but(4, 3, runs(9), runs(5)));
        program.meet(1, &but(4, round % 4, runs(5), runs(3)));
    }
    assert_eq!(
        program.kinds(),
        [
            VerdictKind::PersistentStraggler,
            VerdictKind::RotatingStraggler
        ]
    );
    // Another straggler at each: nothing can be said, and there is no verdict that all is well.
    let mut program = Program::new(4);
    for place in 0..PLACES {
        program.meet(place, &but(4, place as usize, runs(9), runs(1)));
    }
    let because = program.none();
    assert!(because.contains("waiting at barriers"), "{because}");
}

/// As where a matrix is factored: each step leaves less of it.
#[test]
fn work_that_shrinks_from_step_to_step_is_no_noise() {
    let kinds = |left: fn(u64) -> u64| -> Vec<VerdictKind> {
        let mut program = Program::new(4);
        for round in 0..80 {
            let work = |us: u64| [left(round) * us * US, 0, 0];
            program.meet(0, &but(4, 3, work(140), work(100)));
        }
        let verdicts = program.report().verdicts.unwrap_or_default();
        verdicts.iter().map(|verdict| verdict.kind).collect()
    };
    let persistent = [VerdictKind::PersistentStraggler];
    assert_eq!(kinds(|round| 81 - round), persistent);
    assert_eq!(kinds(|round| 1 + round), persistent);
    // Here the machine may have been at work.
    assert!(kinds(|round| 1 + round * 37 % 80).is_empty());
}

#[test]
fn what_costs_most_comes_first_and_only_the_worst_are_told() {
    let mut program = Program::new(4);
    program.meet(1, &[runs(1); 4]);
    for _ in 0..20 {
        program.meet(0, &but(4, 1, runs(6), runs(4)));
        program.meet(1, &but(4, 2, runs(9), runs(4)));
        program.meet(2, &but(4, 3, runs(7), runs(4)));
    }
    let report = program.report();
    let verdicts = report.verdicts.as_ref().unwrap();
    let threads: Vec<_> = verdicts.iter().map(|verdict| verdict.thread).collect();
    assert_eq!(threads, [Some(2), Some(3), Some(1)], "{verdicts:#?}");
    assert_eq!(report.no_verdict_because, None);
}

#[test]
fn one_site_used_with_several_barriers_blames_no_single_thread() {
    let mut model = Program::new(2);
    // The same place with two objects, each with its own straggler.
    model.meet(1, &[runs(1); 2]);
    for round in 0..40_u32 {
        let object = 2 + round % 2;
        model
            .model
            .define_place(CallersId(object), PlaceId(0), Roles::default());
        model.meet(object, &but(2, object as usize - 2, runs(9), runs(4)));
    }
    let verdict = model.only(VerdictKind::PersistentStraggler);
    assert_eq!(verdict.thread, None);
    says(
        &verdict,
        &["at each of its barriers the same thread comes last"],
    );
}
