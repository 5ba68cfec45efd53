//! Looks under way.

use std::{
    collections::HashSet,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{state::ENDING_NS, *};

#[test]
fn whoever_is_to_stop_waits_for_the_look() {
    const TAKES: Duration = Duration::from_millis(60);
    let events = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut hangs = Hangs::new(None, false, None);
    events.block_on(hangs.let_look_end());
    let begun = Instant::now();
    let look = || {
        thread::sleep(TAKES);
        Scene::default()
    };
    let still = Still {
        since_ns: 0,
        barrier: UNSEEN,
        episode: 0,
    };
    hangs.looking = Some(Looking::begin(vec![still], look).unwrap());
    // The result is useless, but the look still holds threads.
    hangs.lose_sight(0);
    events.block_on(hangs.let_look_end());
    assert!(begun.elapsed() >= TAKES);
    let (still, _) = hangs.looking.take().unwrap().end().unwrap();
    assert!(still.is_empty());
    // A look that never ends is not waited for.
    let (say, told) = mpsc::channel::<()>();
    let look = move || {
        let _over = told.recv();
        Scene::default()
    };
    hangs.looking = Some(Looking::begin(Vec::new(), look).unwrap());
    events.block_on(hangs.let_look_end());
    assert!(!hangs.looking.as_ref().unwrap().is_over());
    drop(say);
}

#[test]
fn what_a_program_does_that_was_told_to_end_is_not_looked_at() {
    let mut hangs = Hangs::new(Some(Duration::from_secs(1)), true, None);
    let still = Still {
        since_ns: 0,
        barrier: SPINS,
        episode: 0,
    };
    hangs.looking = Some(Looking::begin(vec![still], Scene::default).unwrap());
    assert!(!hangs.is_ending(5));
    hangs.expect_end(5);
    assert!(hangs.is_ending(5));
    let (still, _) = hangs.looking.take().unwrap().end().unwrap();
    assert!(still.is_empty(), "the look under way is useless");
    // The program handles the signal, and goes on.
    assert!(!hangs.is_ending(5 + ENDING_NS));
}

#[test]
fn who_ran_between_two_looks_is_known() {
    const MS: u64 = 1_000_000;
    let mut hangs = Hangs::new(Some(Duration::from_secs(2)), true, None);
    let used = |fed_ns| Used {
        processes: vec![7],
        threads: vec![(7, 50 * MS), (8, fed_ns)],
        arrivals: 0,
    };
    for (at_ms, fed_ns) in [(0, 1), (1_000, 1), (1_500, 2)] {
        hangs.asleep.see(at_ms * MS, used(fed_ns));
    }
    hangs.note_restless(2_000 * MS);
    assert_eq!(hangs.restless, HashSet::from([8]));
    // The look makes a thread run. The thread may have begun late, and then it waits.
    hangs.note_look(2_300 * MS);
    hangs.asleep.see(2_500 * MS, used(3));
    hangs.note_restless(9_000 * MS);
    assert_eq!(hangs.restless, HashSet::new());
    // A thread that runs after one look, and long before the next, is woken now and then.
    hangs.note_look(9_300 * MS);
    hangs.asleep.see(9_500 * MS, used(3));
    hangs.asleep.see(10_000 * MS, used(4));
    hangs.note_restless(16_000 * MS);
    assert_eq!(hangs.restless, HashSet::from([8]));
}

#[test]
fn what_is_left_out_is_said() {
    let own = std::process::id();
    let how = Looks {
        times: 1,
        ..Looks::default()
    };
    let says_so = |scene: &Scene| scene.notes.iter().any(|note| note.contains("3 more"));
    let scene = look(&[own], 0, &how);
    assert!(!scene.partial && !says_so(&scene), "{:?}", scene.notes);
    let scene = look(&[own], 3, &how);
    assert!(scene.partial && says_so(&scene), "{:?}", scene.notes);
}

#[test]
fn who_sleeps_since_a_look_has_not_moved_although_the_wait_is_no_longer_unseen() {
    let at = |barrier, since_ns| Still {
        since_ns,
        barrier,
        episode: 0,
    };
    let model = Model::new(0, true);
    let since = |sleep_ns: Option<u64>, has_ended| {
        let waits = Waits {
            sleep: sleep_ns.map(|since_ns| at(ASLEEP, since_ns)),
            looked_ns: Some(20),
            ..Waits::default()
        };
        since_then(&model, waits, has_ended, &at(UNSEEN, 10))
    };
    assert_eq!(since(Some(5), false), Since::Still);
    assert_eq!(since(Some(5), true), Since::Lost);
    assert_eq!(since(Some(25), false), Since::Lost, "they did something");
    assert_eq!(since(None, false), Since::Lost);
}
