use super::*;

/// 1 ms.
const MS: u64 = 1_000_000;

/// One thread, with the number 7, that has no run delay and is on a CPU from 0 on.
fn one() -> Ready {
    let mut ready = Ready::default();
    ready.exists(7, Some(0), 0);
    ready
}

/// The thread is without a CPU from `from` to `to`.
fn away(ready: &mut Ready, preempted: bool, from: u64, to: u64) {
    ready.loses_cpu(7, preempted, from);
    ready.gets_cpu(7, to);
}

/// A round reads the thread.
fn read(ready: &mut Ready, time: u64, delay: u64) {
    ready.read(7, time, delay);
    ready.has_read(time, time);
    assert_eq!(ready.settle(time + 1), time);
}

#[test]
fn a_preempted_thread_is_ready_until_it_has_a_cpu_again() {
    let mut ready = one();
    away(&mut ready, true, MS, 4 * MS);
    away(&mut ready, false, 5 * MS, 9 * MS);
    read(&mut ready, 10 * MS, 3 * MS);
    let at = [1, 4, 5, 9].map(|ms| ready.at(7, ms * MS));
    assert_eq!(at, [0, 3, 3, 3].map(|ms| Some(ms * MS)));
}

#[test]
fn a_thread_that_was_woken_is_ready_for_the_rest_of_its_run_delay() {
    let mut ready = one();
    away(&mut ready, false, MS, 8 * MS);
    away(&mut ready, true, 9 * MS, 10 * MS);
    read(&mut ready, 11 * MS, 6 * MS);
    assert_eq!(ready.at(7, 8 * MS - 1), Some(0));
    assert_eq!(ready.at(7, 9 * MS), Some(5 * MS));
    assert_eq!(ready.at(7, 10 * MS), Some(6 * MS));
    // The next window begins anew.
    away(&mut ready, false, 12 * MS, 14 * MS);
    read(&mut ready, 15 * MS, 7 * MS);
    assert_eq!(ready.at(7, 14 * MS), Some(7 * MS));
}

#[test]
fn between_several_sleeps_ready_time_is_unknown_unless_it_is_little() {
    let mut ready = one();
    for ms in [1, 3, 5] {
        away(&mut ready, false, ms * MS, (ms + 1) * MS);
    }
    read(&mut ready, 7 * MS, 1_500_000);
    let at = [1, 2, 4, 6].map(|ms| ready.at(7, ms * MS));
    assert_eq!(at, [Some(0), None, None, Some(1_500_000)]);
    for ms in [8, 10] {
        away(&mut ready, false, ms * MS, (ms + 1) * MS);
    }
    read(&mut ready, 12 * MS, 1_500_000 + DOUBT_NS);
    let at = [9, 11].map(|ms| ready.at(7, ms * MS));
    let all = 1_500_000 + DOUBT_NS;
    assert_eq!(at, [Some(all - DOUBT_NS / 2), Some(all)]);
}

#[test]
fn what_is_little_beside_the_time_in_which_it_lies_may_be_in_doubt() {
    for (ready_ns, is_known) in [(199_000, true), (201_000, false)] {
        let mut ready = one();
        away(&mut ready, false, 0, 15 * MS);
        away(&mut ready, false, 15 * MS + 1000, 20 * MS);
        read(&mut ready, 21 * MS, ready_ns);
        assert_eq!(ready.at(7, 15 * MS).is_some(), is_known);
        assert_eq!(ready.at(7, 20 * MS), Some(ready_ns));
    }
}

#[test]
fn sleeps_that_leave_no_doubt_are_settled() {
    let mut ready = one();
    away(&mut ready, false, MS, MS + 10_000);
    away(&mut ready, false, 2 * MS, 5 * MS);
    read(&mut ready, 6 * MS, 2 * MS);
    let early = ready.at(7, MS + 10_000).unwrap();
    assert!(early <= 10_000, "{early}");
    assert_eq!(ready.at(7, 5 * MS), Some(2 * MS));
}

#[test]
fn run_delay_that_is_told_before_its_switch_waits_for_it() {
    let mut ready = one();
    ready.loses_cpu(7, false, MS);
    // The kernel has added the time already, and tells of the switch a moment later.
    read(&mut ready, 3 * MS, MS);
    ready.gets_cpu(7, 3 * MS + 500);
    read(&mut ready, 5 * MS, MS);
    assert_eq!(ready.at(7, 3 * MS), Some(0));
    assert_eq!(ready.at(7, 4 * MS), Some(MS));
}

#[test]
fn run_delay_without_a_switch_is_not_put_anywhere() {
    let mut ready = one();
    ready.gets_cpu(7, 0);
    read(&mut ready, MS, MS);
    read(&mut ready, 2 * MS, MS);
    away(&mut ready, false, 3 * MS, 5 * MS);
    read(&mut ready, 6 * MS, MS + 1000);
    assert_eq!(ready.at(7, 6 * MS), Some(1000));
}

#[test]
fn a_thread_that_cannot_be_read_is_known_as_far_as_it_did_not_sleep() {
    let mut ready = one();
    away(&mut ready, true, MS, 2 * MS);
    away(&mut ready, false, 3 * MS, 4 * MS);
    away(&mut ready, true, 5 * MS, 6 * MS);
    ready.has_read(7 * MS, 7 * MS);
    ready.settle(8 * MS);
    let at = [1, 2, 4, 6].map(|ms| ready.at(7, ms * MS));
    assert_eq!(at, [Some(0), Some(MS), None, None]);
    // Once it is read, all is known again.
    read(&mut ready, 9 * MS, 3 * MS);
    assert_eq!(ready.at(7, 9 * MS), Some(3 * MS));
    away(&mut ready, true, 10 * MS, 12 * MS);
    ready.settle_all();
    assert_eq!(ready.at(7, 12 * MS), Some(5 * MS));
}

#[test]
fn nothing_is_known_between_a_loss_and_the_next_reading() {
    let mut ready = one();
    away(&mut ready, true, MS, 2 * MS);
    ready.lose(3 * MS);
    assert_eq!(ready.at(7, 3 * MS), None);
    read(&mut ready, 4 * MS, 3 * MS);
    assert_eq!(ready.at(7, 4 * MS), Some(3 * MS));
    // What was not settled by the time of the loss stays unknown, too.
    away(&mut ready, true, 5 * MS, 6 * MS);
    ready.lose(8 * MS);
    let at = [5, 6, 7].map(|ms| ready.at(7, ms * MS));
    assert_eq!(at, [Some(3 * MS), None, None]);
}

#[test]
fn steps_are_not_kept_for_ever() {
    let mut ready = one();
    for ms in [1, 3] {
        away(&mut ready, true, ms * MS, (ms + 1) * MS);
    }
    read(&mut ready, 5 * MS, 2 * MS);
    ready.has_told(4 * MS);
    assert_eq!(ready.threads[&7].steps.len(), 1);
    assert_eq!(ready.at(7, 4 * MS), Some(2 * MS));
}

#[test]
fn only_rounds_of_which_all_switches_are_told_are_settled() {
    let mut ready = one();
    ready.has_read(5, 8);
    assert_eq!(ready.settle(8), 0);
    assert_eq!(ready.settle(9), 5);
    assert_eq!(ready.settle(10), 0);
    assert_eq!(ready.at(8, 20), None, "an unknown thread");
}

#[test]
fn threads_come_and_go() {
    let mut ready = one();
    ready.begins(8, MS);
    ready.gets_cpu(8, 3 * MS);
    ready.read(8, 4 * MS, 2 * MS);
    ready.has_read(4 * MS, 4 * MS);
    ready.settle(5 * MS);
    assert_eq!(ready.at(8, 2 * MS), Some(0));
    assert_eq!(ready.at(8, 3 * MS), Some(2 * MS));
    ready.forget_others(8);
    assert_eq!((ready.knows(7), ready.threads()), (false, vec![8]));
    ready.forget(8);
    assert!(!ready.knows(8));
}
