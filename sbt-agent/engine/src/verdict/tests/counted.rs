//! What counters say of the thread that arrives last.

use super::*;

/// A report on a thread that is always late, with its number of instructions and the others'.
fn counted(late: u64, others: u64) -> Report {
    let mut program = Program::new(4);
    program.rounds(40, |_| but(4, 2, runs(20), runs(10)));
    let mut report = program.report();
    report.counters.push(CounterReport {
        name: "instructions:u".into(),
        unit: CounterUnit::Count,
        total: None,
        work: None,
        unknown: 0,
        counted_pct: None,
    });
    for site in &mut report.sites {
        for thread in &mut site.threads {
            let each = if thread.thread == 2 { late } else { others };
            let count = Some(each * thread.episodes);
            thread.counters.insert("instructions:u".into(), count);
            let all = CountedReport {
                known: thread.episodes,
                intervals: thread.episodes,
            };
            thread.counted.insert("instructions:u".into(), all);
        }
    }
    report
}

#[test]
fn where_instructions_are_counted_more_of_them_and_slower_ones_are_told_apart() {
    let only = |report: &Report| {
        let mut verdicts = judge(report).unwrap();
        assert_eq!(verdicts.len(), 1, "{verdicts:#?}");
        verdicts.remove(0)
    };
    let more = only(&counted(2_000_000, 1_000_000));
    assert_eq!(
        (more.kind, more.thread),
        (VerdictKind::StragglerExecutesMore, Some(2))
    );
    says(
        &more,
        &["T2 w comes last", "2.0 times as many", "Give it less"],
    );
    let slower = only(&counted(1_000_000, 1_000_000));
    assert_eq!(slower.kind, VerdictKind::StragglerExecutesSlower);
    says(
        &slower,
        &["1.0 times as many", "2.0 times as long for each"],
    );
    // Without the counter it is only known which thread is late.
    let mut uncounted = counted(2_000_000, 1_000_000);
    uncounted.counters.clear();
    assert_eq!(only(&uncounted).kind, VerdictKind::PersistentStraggler);
}

/// The late thread executes twice as many instructions as the others, at their rate, and the
/// counter is not known of it in the first half of the run.
#[test]
fn a_mean_and_a_verdict_go_by_the_intervals_in_which_a_counter_is_known() {
    let name = "instructions:u";
    let mut program = Program::new(4);
    let counters = counters::commas(name).unwrap().0;
    let counters = counters.into_iter().map(|one| (one, Source::Event(0)));
    program.facts.counters = Plan(counters.collect());
    program.counted = Some(|tid, time_ns| (tid != 3 || time_ns > 400 * MS).then_some(time_ns));
    program.rounds(40, |_| but(4, 2, runs(20), runs(10)));
    let report = program.report();
    let site = report.sites.iter().find(|site| site.episodes == 40);
    let site = site.unwrap();
    let counted = |known, intervals| Some(CountedReport { known, intervals });
    let of = |thread: usize| site.threads[thread].counted.get(name).copied();
    assert_eq!((of(0), of(2)), (counted(40, 40), counted(20, 40)));
    assert_eq!(site.counted.get(name).copied(), counted(140, 160));
    let mean = site.counter_per_phase(name).unwrap();
    assert!((mean - (50 * MS) as f64).abs() < 1.0, "{mean}");
    let phase = report.phases.iter().find(|phase| phase.episodes == 39);
    let phase = phase.unwrap();
    assert_eq!(phase.counted.get(name).copied(), counted(137, 156));
    assert_eq!(
        report.verdicts.unwrap()[0].kind,
        VerdictKind::StragglerExecutesMore
    );
}
