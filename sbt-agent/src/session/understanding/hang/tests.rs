//! Looks under way.

use std::{sync::mpsc, thread, time::Instant};

use super::*;

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
