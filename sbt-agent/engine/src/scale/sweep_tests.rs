//! Made-up sweeps with known speed-ups.

use super::{
    counts::Counts,
    samples::run,
    vary::{Plan, parameter, setting},
    *,
};
use crate::report::{CounterUnit, EfficiencyReport, counters::CounterReport, schema::is_that_of};

const MS: u64 = 1_000_000;

#[test]
fn the_schema_in_the_documents_is_that_of_the_code() {
    is_that_of::<Sweep>("sweep.schema.json");
}

fn plan(counts: Option<&[u32]>, serial: Option<&str>) -> Plan {
    Plan {
        parameters: ["v=./s,./p", "size=1,2"]
            .map(|text| parameter(text).unwrap())
            .into(),
        counts: counts.map(|counts| Counts(counts.to_vec())),
        serial: serial.map(|text| setting(text).unwrap()),
    }
}

/// Runs of all jobs: `./s` takes 4 s for each unit of size, `./p` takes 6 s, divided by its threads.
fn runs(plan: &Plan) -> Vec<Done> {
    let one = |(at, job): (usize, &vary::Job)| {
        let size: u64 = job.combination[1].value.parse().unwrap();
        let each = if job.combination[0].value == "./s" {
            40
        } else {
            60
        };
        let threads = job.threads.unwrap_or(1);
        let report = run(threads, &[(10, each * size * MS / u64::from(threads))], 0).report;
        Done { job: at, report }
    };
    plan.jobs().iter().enumerate().map(one).collect()
}

fn told(plan: &Plan, runs: Vec<Done>) -> Sweep {
    let command = ["{v}", "{size}", "{n}"].map(str::to_owned);
    sweep(plan, &command, runs, Vec::new()).unwrap()
}

/// `v size threads: speed-up, of ideal`.
fn figures(all: &Sweep) -> Vec<String> {
    let text = |value: Option<f64>| value.map_or("?".into(), |value| format!("{value:.2}"));
    let one = |row: &Row| {
        format!(
            "{} {} {}: {}, {}",
            row.parameters["v"],
            row.parameters["size"],
            row.threads
                .map_or("?".into(), |threads| threads.to_string()),
            text(row.speedup),
            text(row.scaling_efficiency)
        )
    };
    all.rows.iter().map(one).collect()
}

#[test]
fn speedups_count_against_the_fewest_threads_of_the_same_combination() {
    let plan = plan(Some(&[2, 4]), None);
    let all = told(&plan, runs(&plan));
    let found = figures(&all);
    assert_eq!(found.len(), 8);
    assert_eq!(found[0], "./s 1 2: 1.00, 1.00");
    assert_eq!(found[5], "./p 1 4: 2.00, 1.00");
    assert_eq!(found[7], "./p 2 4: 2.00, 1.00");
    let last = all.combinations.last().unwrap();
    let scaling = last.scaling.as_ref().unwrap();
    assert_eq!(scaling.command, ["./p", "2", "{n}"]);
    assert_eq!((scaling.counts.len(), scaling.phases.len()), (2, 2));
}

#[test]
fn with_a_serial_version_they_count_against_its_time_for_the_same_size() {
    let plan = plan(Some(&[2, 4]), Some("v=./s"));
    let all = told(&plan, runs(&plan));
    assert_eq!(
        figures(&all),
        [
            "./s 1 1: 1.00, 1.00",
            "./s 2 1: 1.00, 1.00",
            "./p 1 2: 1.33, 0.67",
            "./p 1 4: 2.67, 0.67",
            "./p 2 2: 1.33, 0.67",
            "./p 2 4: 2.67, 0.67",
        ]
    );
}

#[test]
fn without_numbers_of_threads_there_is_no_efficiency() {
    let without = plan(None, None);
    let all = told(&without, runs(&without));
    assert_eq!(figures(&all)[3], "./p 2 ?: ?, ?");
    assert!(all.combinations.iter().all(|one| one.scaling.is_none()));
    let with = plan(None, Some("v=./s"));
    let all = told(&with, runs(&with));
    assert_eq!(figures(&all)[3], "./p 2 ?: 0.67, ?");
}

#[test]
fn without_its_baseline_a_speedup_is_unknown() {
    let plan = plan(Some(&[2, 4]), None);
    let mut some = runs(&plan);
    // The run of ./s with size 1 and 2 threads did not go to its end.
    some.remove(0);
    assert_eq!(figures(&told(&plan, some))[0], "./s 1 4: ?, ?");
    assert!(sweep(&plan, &[], Vec::new(), Vec::new()).is_none());
}

fn counted(name: &str, work: Option<u64>, unknown: u64) -> CounterReport {
    CounterReport {
        name: name.into(),
        unit: CounterUnit::Count,
        total: work,
        work,
        unknown,
        counted_pct: None,
    }
}

#[test]
fn rates_are_by_instructions_where_they_are_counted_and_else_by_time() {
    let plan = plan(Some(&[1]), None);
    let mut all = runs(&plan);
    for run in &mut all {
        run.report.counters = vec![
            counted("cache-misses", Some(31), 0),
            counted("instructions", Some(10_000), 0),
        ];
        run.report.threads[0].running_ns = Some(500_000_000);
    }
    // In one run instructions are known for a part of the work only.
    all[1].report.counters[1].unknown = 1;
    let table = told(&plan, all.clone());
    let per: Vec<Option<Per>> = table.counters.iter().map(|it| it.per).collect();
    assert_eq!(per, [Some(Per::ThousandInstructions), Some(Per::CpuSecond)]);
    assert_eq!(table.rows[0].rates["cache-misses"], Some(3.1));
    assert_eq!(table.rows[0].rates["instructions"], Some(20_000.0));
    assert_eq!(table.rows[1].rates["cache-misses"], None);
    for run in &mut all {
        run.report.counters[1] = counted("instructions", None, 4);
    }
    let table = told(&plan, all);
    assert_eq!(table.rows[0].rates["cache-misses"], Some(62.0));
    assert_eq!(table.rows[0].rates["instructions"], None);
}

#[test]
fn idle_is_a_share_of_the_time_of_all_threads() {
    let plan = plan(Some(&[2]), None);
    let mut all = runs(&plan);
    for run in &mut all {
        let wall_ns = run.report.run.wall_ns;
        run.report.efficiency = Some(EfficiencyReport {
            parallel: 0.7,
            load_balance: 0.8,
            serialisation: 1.0,
            transfer: 1.0,
            cpu_availability: None,
            speedup: 1.4,
            granularity: None,
            threads: 2,
            path_ns: wall_ns,
        });
        for (thread, idle_ns) in run.report.threads.iter_mut().zip([0, wall_ns / 2]) {
            thread.idle_ns = idle_ns;
        }
    }
    all[1].report.lost_events = 1;
    let table = told(&plan, all);
    assert_eq!(table.rows[0].idle_pct, Some(25.0));
    assert_eq!(table.rows[1].idle_pct, None);
    let noted = table
        .notes
        .iter()
        .any(|note| note.starts_with("v=./s size=2: with 2 threads, events"));
    assert!(noted, "{:?}", table.notes);
}
