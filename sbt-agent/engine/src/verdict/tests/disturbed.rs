//! Nobody is blamed for what sbt's own stops do to a program.

use super::*;

fn kinds(backend: &str, departures: Option<bool>, rounds: usize, last: Work) -> Vec<VerdictKind> {
    let mut program = Program::new(4);
    program.facts.run.backend = backend.into();
    program.facts.run.departures = departures;
    let others = [last[0] / 2, 0, 0];
    program.rounds(rounds, |_| but(4, 3, last, others)).kinds()
}

#[test]
fn short_phases_tell_nothing_where_not_every_departure_was_watched() {
    let (short, long) = ([800 * US, 0, 0], [8 * MS, 0, 0]);
    let blamed = [VerdictKind::PersistentStraggler];
    let nobody: [VerdictKind; 0] = [];
    assert_eq!(kinds("ptrace", None, 100, short), nobody);
    assert_eq!(kinds("ptrace", Some(true), 100, short), blamed);
    assert_eq!(kinds("ptrace", None, 100, long), blamed);
    assert_eq!(kinds("ebpf", None, 100, short), blamed);
}

#[test]
fn stops_are_no_sleep_of_a_thread_that_is_late_in_few_episodes() {
    let asleep = [2 * MS, 0, 8 * MS];
    let blamed = [VerdictKind::StragglerAtManySites];
    assert_eq!(kinds("ebpf", Some(true), 2, asleep), blamed);
    let nobody: [VerdictKind; 0] = [];
    assert_eq!(kinds("ptrace", Some(true), 2, asleep), nobody);
    assert_eq!(kinds("ptrace", Some(true), 2, [10 * MS, 0, 0]), blamed);
}
