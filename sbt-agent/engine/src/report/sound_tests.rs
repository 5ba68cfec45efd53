//! Checks every identity from both sides of its bound, and that every unknown figure has a reason.

use super::*;
use crate::{
    report::{Policy, SchedulingReport, TaskReport, ThinnedReport, Withheld},
    verdict::tests::{MS, Program, runs},
};

/// A report on four threads, of which the last has more to do than the others.
fn uneven() -> Report {
    let mut program = Program::new(4);
    let works = vec![runs(4), runs(4), runs(4), runs(8)];
    program.facts.run.ended = true;
    program.rounds(20, |_| works.clone()).report()
}

#[track_caller]
fn withheld(report: Report, figure: Withheld) -> WithheldReport {
    let report = sound(report);
    let found = report.why_withheld(figure).cloned();
    let twice = serde_json::to_string(&sound(report.clone())).unwrap();
    assert_eq!(
        serde_json::to_string(&report).unwrap(),
        twice,
        "a second pass changes it"
    );
    if figure == Withheld::Shares {
        assert!(report.thread_time.idle_pct.is_none());
        assert!(report.sites.iter().all(|site| site.lost_wall_pct.is_none()));
    }
    if figure != Withheld::OwnCost {
        assert!(report.efficiency.is_none(), "{:?}", report.withheld);
    }
    found.expect("nothing is withheld")
}

/// Makes one of the efficiencies impossible.
type Change = fn(&mut EfficiencyReport);

#[test]
fn a_report_that_agrees_with_itself_stays_as_it_is() {
    let report = uneven();
    assert_eq!(report.withheld, []);
    let before = serde_json::to_string(&report).unwrap();
    assert!(report.efficiency.is_some());
    assert_eq!(serde_json::to_string(&sound(report)).unwrap(), before);
}

#[test]
fn an_efficiency_that_contradicts_itself_is_withheld_and_told() {
    let efficiency = |report: &mut Report, change: fn(&mut EfficiencyReport)| {
        change(report.efficiency.as_mut().unwrap());
    };
    let of =
        |change: fn(&mut EfficiencyReport)| move |report: &mut Report| efficiency(report, change);
    // A recording that breaks off reported these values: 16.91, and 67.6 of 4.
    let mut report = uneven();
    of(|known| (known.parallel, known.speedup) = (16.91, 67.6))(&mut report);
    let found = withheld(report, Withheld::Efficiency);
    assert_eq!(found.reason, WithheldReason::Contradiction);
    assert!(
        found
            .because
            .starts_with("the efficiency is 16.91, which is not from 0 to 1: "),
        "{}",
        found.because
    );
    let efficiencies: [(&str, Change); 10] = [
        ("the efficiency is -", |known| known.parallel = -0.1),
        ("the load balance", |known| known.load_balance = 1.001),
        ("the serialisation", |known| known.serialisation = f64::NAN),
        ("the transfer", |known| known.transfer = f64::INFINITY),
        ("the CPU availability", |known| {
            known.cpu_availability = Some(1.1);
        }),
        ("the speed-up is 4.1", |known| known.speedup = 4.1),
        ("the granularity", |known| known.granularity = Some(-1.0)),
        ("the product of its factors", |known| known.parallel *= 0.99),
        ("the speed-up is", |known| known.speedup *= 0.99),
        ("the longest path", |known| known.path_ns *= 3),
    ];
    for (words, change) in efficiencies {
        let mut report = uneven();
        of(change)(&mut report);
        let found = withheld(report, Withheld::Efficiency);
        assert!(found.because.contains(words), "{words}: {}", found.because);
        assert_eq!(found.reason, WithheldReason::Contradiction);
    }
}

#[test]
fn sums_and_shares_that_contradict_each_other_are_withheld_and_told() {
    type Spoil = fn(&mut Report);
    let shares: [(&str, Spoil); 17] = [
        ("the thread time and the sum of its parts", |report| {
            report.thread_time.total_ns += 1;
        }),
        ("the work of the run and of its threads", |report| {
            report.thread_time.work_ns += 1;
            report.thread_time.total_ns += 1;
        }),
        ("the waiting of the run and of its threads", |report| {
            report.thread_time.idle_ns += 1;
            report.thread_time.total_ns += 1;
        }),
        ("the waiting of the run and of its sites", |report| {
            report.sites[0].lost_ns += 1;
        }),
        ("the arrivals of the run", |report| report.arrivals += 1),
        ("the episodes of the run and of its sites", |report| {
            report.sites[0].episodes += 1;
        }),
        ("the times that a thread came last", |report| {
            report.threads[0].last += 1;
        }),
        ("the incomplete episodes", |report| {
            report.incomplete_episodes += 1;
        }),
        ("which counts", |report| {
            let lost_ns = report.sites[0].lost_ns;
            report.sites[0].threads[0].idle_ns += lost_ns;
        }),
        ("threads came last", |report| {
            report.sites[0].threads[0].last += 50;
        }),
        ("the mean time at", |report| {
            report.sites[0].phase_ns.as_mut().unwrap().mean *= 9;
        }),
        ("the share of waiting", |report| {
            report.thread_time.idle_pct = Some(100.1);
        }),
        ("the share of wall time", |report| {
            report.sites[0].lost_wall_pct = Some(130.0);
        }),
        ("the share of the path", |report| {
            report.sites[0].path_pct = Some(-1.0);
        }),
        ("the share of imbalance", |report| {
            report.sites[0].imbalance_pct = Some(101.0);
        }),
        ("worked and waited", |report| report.run.wall_ns /= 2),
        ("ran, was ready and slept", |report| {
            report.threads[0].blocked_ns = report.threads[0].work_ns;
        }),
    ];
    for (words, spoil) in shares {
        let mut report = uneven();
        spoil(&mut report);
        let found = withheld(report, Withheld::Shares);
        assert!(found.because.contains(words), "{words}: {}", found.because);
        assert_eq!(found.reason, WithheldReason::Contradiction);
    }
    let mut report = uneven();
    report.own_cost.share_pct = Some(100.1);
    let found = withheld(report, Withheld::OwnCost);
    assert!(found.because.contains("own cost"), "{}", found.because);
}

#[test]
fn threads_do_not_wait_for_longer_than_they_did_not_work() {
    let with = |more_ns: u64| {
        let mut report = uneven();
        report.sites[0].lost_ns += more_ns;
        report
    };
    let report = with(0);
    let it = report.efficiency.unwrap();
    let missing_ns =
        f64::from(it.threads) * report.run.wall_ns as f64 - it.useful_ns(report.run.wall_ns);
    let lost_ns: u64 = report.sites.iter().map(|site| site.lost_ns).sum();
    assert!(lost_ns as f64 <= missing_ns, "{lost_ns} {missing_ns}");
    // The tolerance: a tenth more, and for the end of watching 1 % of the time of all threads and
    // 10 ms.
    let all_ns = f64::from(it.threads) * report.run.wall_ns as f64;
    // In addition a phase and a wait of each thread, which may lie before a reset.
    let carried_ns = f64::from(it.threads) * identities::carried_ns(&report);
    let work_ns = report.sites[0].work_ns.as_ref().unwrap().max as f64;
    assert!(carried_ns >= f64::from(it.threads) * 2.0 * work_ns);
    let slack_ns = missing_ns * 1.1 + all_ns * 0.01 + 1e7 + carried_ns - lost_ns as f64;
    let texts = |more_ns: f64| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time above zero"
        )]
        let found = identities::broken(&with(more_ns as u64));
        found
            .iter()
            .any(|broken| broken.text.contains("without useful work"))
    };
    assert!(!texts(slack_ns - 2.0));
    assert!(texts(slack_ns + 2.0));
}

#[test]
fn the_bounds_themselves_are_possible() {
    let mut report = uneven();
    let it = report.efficiency.as_mut().unwrap();
    let ones = [
        &mut it.parallel,
        &mut it.load_balance,
        &mut it.serialisation,
        &mut it.transfer,
    ];
    for one in ones {
        *one = 1.0;
    }
    (it.speedup, it.cpu_availability, it.granularity) = (4.0, Some(1.0), None);
    it.path_ns = report.run.wall_ns;
    for thread in &mut report.threads {
        thread.idle_ns = 0;
    }
    for site in &mut report.sites {
        site.lost_ns = 0;
        for thread in &mut site.threads {
            thread.idle_ns = 0;
        }
    }
    report.thread_time.total_ns -= report.thread_time.idle_ns;
    report.thread_time.idle_ns = 0;
    report.own_cost.share_pct = Some(100.0);
    assert_eq!(sound(report).withheld, []);
}

#[test]
fn efficiency_is_withheld_if_waiting_for_a_cpu_may_be_in_the_work() {
    let with = |ready_ns, availability| {
        let mut report = uneven();
        let task = TaskReport {
            tid: 1,
            pid: 1,
            name: "w".into(),
            cpus: "0-1".into(),
            nice: 0,
            policy: Policy::Normal,
            looked_ns: 100,
            running_ns: Some(90),
            ready_ns: Some(ready_ns),
            system_ns: None,
            minor_faults: None,
        };
        report.run.scheduling = Some(SchedulingReport {
            tasks: vec![task],
            ..SchedulingReport::default()
        });
        report.efficiency.as_mut().unwrap().cpu_availability = availability;
        report
    };
    let found = withheld(with(10, None), Withheld::Efficiency);
    assert_eq!(found.reason, WithheldReason::WorkUnknown);
    assert!(
        found
            .because
            .contains("for 10 % of the time for which they lived"),
        "{found:?}"
    );
    assert!(sound(with(1, None)).efficiency.is_some());
    assert!(sound(with(10, Some(0.9))).efficiency.is_some());
}

#[test]
fn who_joins_without_seeing_rounds_names_no_straggler() {
    let with = |backend: &str, departures, started| {
        let mut report = uneven();
        report.run.backend = backend.into();
        (report.run.departures, report.run.started) = (departures, started);
        report
    };
    let report = sound(with("perf", Some(false), Some(false)));
    assert!(report.why_withheld(Withheld::Shares).is_some());
    assert!(report.sites.iter().all(|site| site.straggler.is_none()));
    for (backend, departures, started) in [
        ("perf", Some(false), Some(true)),
        ("ptrace", Some(true), Some(false)),
        ("inject", Some(false), Some(false)),
    ] {
        let report = sound(with(backend, departures, started));
        assert_eq!(report.why_withheld(Withheld::Shares), None, "{backend}");
        assert!(report.sites[0].straggler.is_some(), "{backend}");
    }
}

#[test]
fn efficiency_is_withheld_if_one_event_was_lost_and_shares_if_many_were() {
    let with = |lost| {
        let mut report = uneven();
        report.own_cost.events = 980;
        report.lost_events = lost;
        report
    };
    for lost in [1, 20] {
        let report = sound(with(lost));
        assert!(report.efficiency.is_none());
        assert!(report.thread_time.idle_pct.is_some(), "{lost}");
        let found = report.why_withheld(Withheld::Efficiency).unwrap();
        assert_eq!(found.reason, WithheldReason::EventsLost);
        assert_eq!(report.why_withheld(Withheld::Shares), None);
        assert_eq!(report.compensated, None);
        assert!(report.why_withheld(Withheld::Compensated).is_some());
    }
    let found = withheld(with(21), Withheld::Shares);
    assert_eq!(found.because, "21 of 1001 events were lost (2 %)");
    let mut report = with(21);
    report.own_cost.share_pct = Some(1.0);
    assert_eq!(sound(report).own_cost.share_pct, None);
}

#[test]
fn what_was_hardly_seen_has_no_efficiency() {
    let mut report = uneven();
    report.estimated = true;
    report.own_cost.thinned = Some(ThinnedReport {
        since_ns: 0,
        off_ns: 90 * MS,
        observed_pct: 3.0,
        arrivals_seen: 10,
        arrivals_exact: true,
    });
    let found = withheld(report, Withheld::Efficiency);
    assert_eq!(found.reason, WithheldReason::Unseen);
    assert!(
        found.because.contains("3 % of the run"),
        "{}",
        found.because
    );
}

#[test]
fn whoever_reads_a_recording_may_withhold_efficiency() {
    let mut program = Program::new(4);
    let cut = WithheldReport::new(
        Withheld::Efficiency,
        WithheldReason::Cut,
        "it was cut".into(),
    );
    program.facts.withheld = vec![cut.clone()];
    let report = program.rounds(20, |_| vec![runs(4); 4]).report();
    assert_eq!(withheld(report, Withheld::Efficiency), cut);
}

#[test]
fn too_little_has_a_reason() {
    let without = |episodes, incomplete| {
        let mut report = uneven();
        report.efficiency = None;
        (report.episodes, report.incomplete_episodes) = (episodes, incomplete);
        too_little(&report).0
    };
    assert_eq!(without(0, 3), WithheldReason::NoEpisode);
    assert_eq!(without(20, 3), WithheldReason::Incomplete);
    assert_eq!(without(20, 2), WithheldReason::WorkUnknown);
    let mut report = uneven();
    report.efficiency = None;
    let report = sound(report);
    assert!(
        report
            .known_efficiency()
            .unwrap_err()
            .contains("interrupted")
    );
}

#[test]
fn small_shares_have_figures() {
    let texts = [0.001, 0.5, 33.3].map(few_pct);
    assert_eq!(texts, ["less than 0.01 %", "0.50 %", "33 %"]);
}

#[test]
fn who_spins_outside_of_barriers_does_no_work() {
    let spins = |share_pct| {
        let mut report = uneven();
        let mut looks = crate::samples::imbalanced().report.waits.unwrap();
        let place = &mut looks.places[0];
        place.kind = crate::report::WaitKind::Spin;
        (place.share_pct, place.sleeps) = (share_pct, Some(FEW));
        report.waits = Some(looks);
        report
    };
    let found = withheld(spins(44.0), Withheld::Efficiency);
    assert_eq!(found.reason, WithheldReason::WorkUnknown);
    assert!(
        found.because.starts_with("for about 44 % of thread time"),
        "{}",
        found.because
    );
    assert!(sound(spins(9.0)).efficiency.is_some());
    let mut few = spins(44.0);
    few.waits.as_mut().unwrap().places[0].sleeps = Some(FEW - 1);
    assert!(sound(few).efficiency.is_some());
}

#[test]
fn no_more_work_is_told_than_the_cpus_can_do() {
    let with = |cpus| {
        let mut report = uneven();
        report.run.cpus = cpus;
        report.run.backend = "ptrace".into();
        report
    };
    let speedup = with(None).efficiency.unwrap().speedup;
    assert!(speedup > 2.2, "{speedup}");
    let found = withheld(with(Some(2)), Withheld::Efficiency);
    assert_eq!(found.reason, WithheldReason::WorkUnknown);
    for cpus in [None, Some(4)] {
        assert!(sound(with(cpus)).efficiency.is_some());
    }
}
