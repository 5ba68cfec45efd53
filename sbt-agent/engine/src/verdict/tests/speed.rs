//! A thread on a slower CPU is not blamed for more work, unless it has more than that explains.

use super::*;

/// Two threads meet 40 times, and the work of the second or of the last takes `last_us`, that of the other
/// 1 ms.
fn judged(took_ns: fn(u32, usize) -> u64, last_us: u64, in_turns: bool) -> Vec<VerdictReport> {
    let mut program = Program::new(2);
    program.took_ns = Some(took_ns);
    program.rounds(40, |round| {
        let last = if in_turns { (round * 7 / 3) % 2 } else { 1 };
        but(2, last, [last_us * US, 0, 0], runs(1))
    });
    judge(&program.report()).unwrap_or_default()
}

fn kinds(took_ns: fn(u32, usize) -> u64, last_us: u64) -> Vec<VerdictKind> {
    let verdicts = judged(took_ns, last_us, false);
    verdicts.iter().map(|verdict| verdict.kind).collect()
}

/// The second thread's CPU is 1.7 times slower.
fn second_is_slower(tid: u32, _: usize) -> u64 {
    if tid == 2 { 1_700 } else { 1_000 }
}

#[test]
fn work_that_takes_longer_on_a_slower_cpu_is_nobodys() {
    assert_eq!(
        kinds(|_, _| 1_000, 1_500),
        [VerdictKind::PersistentStraggler]
    );
    let verdicts = judged(second_is_slower, 1_500, false);
    let [verdict] = &verdicts[..] else {
        panic!("{verdicts:#?}");
    };
    assert_eq!(verdict.kind, VerdictKind::SlowCpu);
    assert_eq!(verdict.thread, Some(1));
    let text = "has a slower CPU, on which a fixed piece of work takes 1.7 times as long";
    assert!(verdict.text.contains(text), "{}", verdict.text);
}

#[test]
fn a_slower_cpu_does_not_explain_all_work() {
    let verdicts = judged(second_is_slower, 3_000, false);
    let [verdict] = &verdicts[..] else {
        panic!("{verdicts:#?}");
    };
    assert_eq!(verdict.kind, VerdictKind::PersistentStraggler);
    let text = "(its CPU was 1.7 times slower, which explains a part of that)";
    assert!(verdict.text.contains(text), "{}", verdict.text);
}

/// The second thread's CPU is slower in every other episode.
fn second_is_slower_at_times(tid: u32, episode: usize) -> u64 {
    if tid == 2 && episode % 2 == 1 {
        2_000
    } else {
        1_000
    }
}

#[test]
fn a_cpu_that_is_slower_at_times_explains_only_work_that_is_longer_at_times() {
    assert_eq!(
        kinds(second_is_slower_at_times, 1_800),
        [VerdictKind::PersistentStraggler],
        "its shortest work is as long"
    );
    assert_eq!(
        kinds(second_is_slower_at_times, 1_500),
        [VerdictKind::SlowCpu],
        "the measurements may have met the quiet moments of its CPU"
    );
    let mut program = Program::new(2);
    program.took_ns = Some(second_is_slower_at_times);
    program.rounds(40, |round| {
        // The first episode ends the program's start.
        let ms = if round % 2 == 0 { 2 } else { 1 };
        but(2, 1, runs(ms), runs(1))
    });
    let verdicts = judge(&program.report()).unwrap_or_default();
    let kinds: Vec<_> = verdicts.iter().map(|verdict| verdict.kind).collect();
    assert_eq!(kinds, [VerdictKind::SlowCpu]);
}

#[test]
fn slower_cpus_of_the_others_excuse_nobody() {
    let others_are_slower = |tid, _| if tid == 2 { 1_000 } else { 1_700 };
    assert_eq!(
        kinds(others_are_slower, 1_500),
        [VerdictKind::PersistentStraggler]
    );
}

#[test]
fn now_one_cpu_is_slower_now_another() {
    // The first episode ends the program's start.
    let last_is_slower = |tid, episode: usize| {
        let last = ((episode.max(1) - 1) * 7 / 3) % 2;
        if tid as usize == last + 1 {
            1_700
        } else {
            1_000
        }
    };
    let verdicts = judged(|_, _| 1_000, 1_500, true);
    assert!(
        verdicts.iter().any(|verdict| verdict.kind.is_of_work()),
        "{verdicts:#?}"
    );
    let verdicts = judged(last_is_slower, 1_500, true);
    let [verdict] = &verdicts[..] else {
        panic!("{verdicts:#?}");
    };
    assert_eq!((verdict.kind, verdict.thread), (VerdictKind::SlowCpu, None));
}

#[test]
fn on_shared_cores_equal_measurements_excuse_a_little() {
    // The first episode is the only one in which the cores were not shared.
    let shared = |_, episode| if episode == 0 { 1_000 } else { 2_000 };
    assert!(kinds(shared, 1_400).is_empty());
    assert_eq!(kinds(shared, 2_000), [VerdictKind::PersistentStraggler]);
    assert_eq!(
        kinds(|_, _| 2_000, 1_400),
        [VerdictKind::PersistentStraggler]
    );
}

#[test]
fn few_measurements_tell_nothing() {
    let seldom = |tid, episode| match (tid, episode) {
        (2, 0..3) => 1_700,
        (1, 0..3) => 1_000,
        _ => 0,
    };
    assert_eq!(kinds(seldom, 1_500), [VerdictKind::PersistentStraggler]);
}
