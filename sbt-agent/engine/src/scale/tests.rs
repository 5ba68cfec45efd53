//! Made-up series with a known scaling.

use super::{
    samples::{half_serial, half_serial_with_verdicts, of, run},
    *,
};
use crate::{
    report::{CounterUnit, counters::CounterReport, schema::is_that_of},
    samples,
};

const MS: u64 = 1_000_000;

#[test]
fn the_schema_in_the_documents_is_that_of_the_code() {
    is_that_of::<Scaling>("scale.schema.json");
}

fn close(value: Option<f64>, expected: f64) {
    assert!(
        value.is_some_and(|known| (known - expected).abs() < 0.01),
        "{value:?} and not {expected}"
    );
}

#[test]
fn speedups_are_against_the_least_number() {
    let all = of(&half_serial());
    let counts: Vec<_> = all.counts.iter().map(|at| (at.threads, at.runs)).collect();
    assert_eq!(counts, [(1, 2), (2, 1), (4, 1)]);
    close(all.counts[0].speedup, 1.0);
    close(all.counts[2].speedup, 1210.0 / 610.0);
    close(all.counts[2].scaling_efficiency, 1210.0 / 610.0 / 4.0);
    let phase = |line: &str| {
        let mut phases = all.phases.iter();
        phases
            .find(|phase| phase.to.as_deref().is_some_and(|to| to.ends_with(line)))
            .unwrap()
    };
    close(phase(":10").at[2].speedup, 4.0);
    assert_eq!(phase(":10").lost_ns, Some(0));
    close(phase(":20").at[2].speedup, 1.0);
    assert_eq!(phase(":20").lost_ns, Some(300 * MS));
    let outside = all.phases.iter().find(|phase| phase.to.is_none()).unwrap();
    assert_eq!(outside.at[1].sum_ns, Some(10 * MS));
    close(phase(":20").lost_pct, 300.0 / 307.5 * 100.0);
}

#[test]
fn the_serial_phase_is_named_and_why() {
    let runs = half_serial_with_verdicts();
    let all = of(&runs);
    let limit = all.limit.as_ref().unwrap();
    assert_eq!(limit.to.as_deref(), Some("solve lu.c:20"));
    assert_eq!((limit.scales_to, limit.lost_ns), (None, 300 * MS));
    let why: Vec<_> = limit
        .why
        .iter()
        .map(|verdict| verdict.text.as_str())
        .collect();
    assert_eq!(why, ["one thread works", "too many"]);
}

#[test]
fn what_stops_getting_faster_is_told_with_up_to_when() {
    let at = |n: u32| run(n, &[(10, 8 * MS / u64::from(n.min(2)))], 0);
    let all = of(&[1, 2, 4, 8].map(at));
    assert_eq!(all.limit.unwrap().scales_to, Some(2));
}

#[test]
fn what_scales_has_no_limit() {
    let all = of(&[1, 2, 4].map(|n| run(n, &[(10, 8 * MS / u64::from(n))], 0)));
    assert!(all.limit.is_none());
    // With a single number of threads, nothing can be said.
    let one = of(&[run(4, &[(10, MS)], 0)]);
    assert!(one.limit.is_none());
}

#[test]
fn the_median_of_two_values_is_their_mean() {
    assert_eq!(median([]), None);
    assert_eq!(median([7]), Some(7));
    assert_eq!(median([10, 4]), Some(7));
    assert_eq!(median([1, 100, 10]), Some(10));
    assert_eq!(median([1000, 1, 10, 20]), Some(15));
    let of = |values: &[f64]| median_of_real(values.iter().copied());
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[0.5]), Some(0.5));
    assert_eq!(of(&[1.0, 0.5]), Some(0.75));
    assert_eq!(of(&[9.0, 0.5, 1.0]), Some(1.0));
    assert_eq!(of(&[9.0, 0.5, 1.0, 2.0]), Some(1.5));
    // Of two runs the faster one is typical, of three the middle one.
    let of = |walls: &[u64]| {
        let of = |wall_ns: &u64| run(2, &[(10, 0)], *wall_ns).report;
        let runs: Vec<Report> = walls.iter().map(of).collect();
        typical(&runs.iter().collect::<Vec<_>>()).map(|run| run.run.wall_ns)
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[20, 10]), Some(10));
    assert_eq!(of(&[20, 10, 15]), Some(15));
    assert_eq!(of(&[20, 10, 15, 5]), Some(10));
}

#[test]
fn what_is_unknown_in_one_run_is_unknown() {
    let efficiency = crate::gate::samples::uneven().efficiency;
    let runs = |lost: [u64; 2]| {
        lost.map(|lost_events| {
            let mut one = run(2, &[(10, MS)], 0);
            one.report.efficiency = efficiency.filter(|_| lost_events == 0);
            one.report.lost_events = lost_events;
            one
        })
    };
    let whole = of(&runs([0, 0]));
    assert_eq!(whole.counts[0].parallel_efficiency, Some(0.66));
    assert_eq!(whole.phases[0].at[0].sum_ns, Some(100 * MS));
    let one = of(&runs([0, 7]));
    assert_eq!(one.counts[0].parallel_efficiency, None);
    assert_eq!(one.counts[0].load_balance, None);
    assert_eq!(one.phases[0].at[0].sum_ns, Some(100 * MS));
    assert!(
        one.notes
            .iter()
            .any(|note| note.contains("events were lost"))
    );
    let both = of(&runs([7, 7]));
    assert_eq!(both.phases[0].at[0].sum_ns, None);
    // The time outside of all phases is unknown too.
    assert!(both.phases.iter().all(|phase| phase.to.is_some()));
}

#[test]
fn medians_stand_for_the_runs() {
    let runs = [9, 1, 2].map(|ms| run(2, &[(10, ms * MS)], 0));
    let all = of(&runs);
    let at = &all.counts[0];
    assert_eq!(
        [at.wall_ns, at.min_wall_ns, at.max_wall_ns],
        [200, 100, 900].map(|ms| ms * MS)
    );
    assert_eq!(all.phases[0].at[0].mean_ns, Some(2 * MS));
    assert_eq!(median([1, 3]), Some(2));
    assert_eq!(median([]), None);
    close(median_of_real([0.5, 0.1, 0.9].into_iter()), 0.5);
    assert!(scaling(Vec::new(), &[], Vec::new()).is_none());
}

#[test]
fn a_program_without_barriers_with_one_thread_still_has_its_time() {
    let mut alone = run(1, &[(10, 8 * MS)], 0);
    alone.report.phases.clear();
    alone.report.sites.clear();
    alone.report.threads.clear();
    alone.report.efficiency = None;
    let all = of(&[
        alone,
        run(2, &[(10, 4 * MS)], 0),
        run(4, &[(10, 2 * MS)], 0),
    ]);
    close(all.counts[2].speedup, 4.0);
    assert_eq!(all.counts[0].parallel_efficiency, None);
    let phase = all.phases.iter().find(|phase| phase.to.is_some()).unwrap();
    assert_eq!(phase.base_threads, Some(2));
    assert_eq!((phase.at[0].episodes, phase.at[0].speedup), (None, None));
    close(phase.at[2].speedup, 2.0);
    let outside = all.phases.iter().find(|phase| phase.to.is_none()).unwrap();
    assert_eq!(
        outside.base_threads,
        Some(2),
        "with one thread all is outside"
    );
}

#[test]
fn counters_are_told_by_phase_and_number() {
    let mut runs = half_serial();
    for run in &mut runs {
        let total = 1_500_000 * u64::from(run.threads);
        run.report.counters = vec![CounterReport {
            name: "instructions".into(),
            unit: CounterUnit::Count,
            total: Some(total),
            work: Some(total),
            unknown: 0,
            counted_pct: None,
        }];
        run.report.phases[0].counters = [("instructions".into(), Some(total / 2))].into();
    }
    let all = of(&runs);
    assert_eq!(all.counts[1].counters["instructions"], Some(3_000_000));
}

#[test]
fn what_makes_figures_doubtful_is_noted() {
    let mut runs = half_serial();
    runs[0].report.run.cpus = Some(2);
    runs[0].report.lost_events = 1;
    runs[0].report.estimated = true;
    runs[2].report.threads.truncate(1);
    let notes = of(&runs).notes;
    for words in [
        "4 threads share 2 CPUs",
        "with 4 threads, events were lost",
        "with 4 threads, the probes were switched off",
        "told to use 2 threads, the program had 1 at",
    ] {
        assert!(
            notes.iter().any(|note| note.contains(words)),
            "{words}: {notes:?}"
        );
    }
}

fn notes(runs: &[Run], words: &str) -> Vec<String> {
    let notes = of(runs).notes.into_iter();
    notes.filter(|note| note.contains(words)).collect()
}

#[test]
fn short_runs_are_noted_and_long_ones_are_not() {
    let long = [1, 2].map(|n: u32| run(n, &[(10, 40 * MS / u64::from(n))], 0));
    assert!(notes(&long, "short").is_empty());
    let short = [1, 2].map(|n: u32| run(n, &[(10, 15 * MS / u64::from(n))], 0));
    let told = notes(&short, "short");
    assert!(
        told.len() == 1 && told[0].contains("0.7 s with 2 threads"),
        "{told:?}"
    );
}

#[test]
fn what_is_faster_than_threads_can_make_it_is_noted() {
    let at = |n: u32, ms: u64| run(n, &[(10, ms * MS), (20, MS)], 0);
    // A speed-up a little above the ideal, or within the differences between runs, may be chance.
    assert!(notes(&[at(1, 100), at(2, 49)], "faster").is_empty());
    let differ = [at(1, 40), at(1, 22), at(2, 11), at(2, 12), at(1, 41)];
    assert!(notes(&differ, "faster").is_empty());
    let told = notes(&[at(2, 40), at(4, 10)], "faster");
    assert_eq!(told.len(), 1, "{told:?}");
    let words = "faster with 4 threads than more threads can explain: the whole run (3.73 of 2.00), \
                 solve lu.c:10 (4.00 of 2.00); each thread may have had more cache";
    assert!(told[0].starts_with(words), "{told:?}");
}

#[test]
fn a_run_that_hung_and_went_on_is_noted() {
    let mut runs = half_serial();
    runs[2].report.run.hang = samples::over().report.run.hang;
    let told = notes(&runs, "a run hung for");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("with 2 threads"), "{told:?}");
}

#[test]
fn one_is_no_several() {
    let mut one = run(1, &[(10, MS)], 0);
    one.report = run(2, &[(10, MS)], 0).report;
    one.report.run.cpus = Some(1);
    let mut more = run(2, &[(10, MS)], 0);
    more.report.run.cpus = Some(1);
    let notes = of(&[one, more]).notes;
    for words in [
        "told to use 1 thread, the program had 2 at its barriers",
        "2 threads share 1 CPU:",
    ] {
        assert!(
            notes.iter().any(|note| note.contains(words)),
            "{words}: {notes:?}"
        );
    }
}

#[test]
fn what_does_not_exist_with_one_thread_is_compared_with_nothing() {
    // OpenMP has no barriers for one thread.
    let mut one = run(1, &[(10, 8 * MS)], 0);
    one.report.phases.clear();
    one.report.sites.clear();
    let two = run(2, &[(10, 4 * MS)], 0);
    let phase = |all: &Scaling| {
        let mut phases = all.phases.iter();
        phases.find(|phase| phase.to.is_some()).unwrap().clone()
    };
    let all = of(&[one.clone(), two.clone()]);
    let speedups: Vec<_> = phase(&all).at.iter().map(|at| at.speedup).collect();
    assert_eq!(speedups, [None, None]);
    assert_eq!(phase(&all).lost_ns, None);
    // With more threads, it is compared with the least number with which it exists.
    let all = of(&[one, two, run(4, &[(10, 2 * MS)], 0)]);
    close(phase(&all).at[2].speedup, 2.0);
}
