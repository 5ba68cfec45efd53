//! The choice of events that are held back, and for how long.

use super::*;

#[test]
fn others_are_not_held_back_for_long() {
    let mut recogniser = Recogniser::default();
    let mut world = World::default();
    world.wait(1, CV);
    let arrive = |time_ns| Event::Arrive {
        tid: 9,
        clocks: Clocks::at(time_ns),
        object: 7,
        kind: Kind::Pthread,
        callers: CallersId(0),
    };
    let mut out = Vec::new();
    recogniser.push(&world.events[0], &mut NoCode, &mut |_| {});
    assert!(!recogniser.holds_back(), "a wait tells of no barrier");
    recogniser.push(&arrive(2000), &mut NoCode, &mut |event| {
        out.push(event.clone());
    });
    recogniser.tick(MAX_HELD_NS, &mut |event| out.push(event.clone()));
    assert_eq!(out, []);
    assert!(recogniser.holds_back());
    recogniser.tick(MAX_HELD_NS + 2000, &mut |event| out.push(event.clone()));
    assert_eq!(out.len(), 1);
    assert!(!recogniser.holds_back());
    // A second time, the candidate does not hold events back.
    world.wait(2, CV);
    recogniser.push(&world.events[1], &mut NoCode, &mut |_| {});
    recogniser.push(&arrive(3 * MAX_HELD_NS), &mut NoCode, &mut |event| {
        out.push(event.clone());
    });
    assert_eq!(out.len(), 2);
}

#[test]
fn what_was_recognised_too_late_begins_with_incomplete_episodes() {
    let mut world = World::default();
    world.round(&[1, 2, 3], CV);
    world.events.push(Event::Mark {
        tid: 9,
        clocks: Clocks::at(world.now_ns),
        mark: crate::event::MarkId(0),
    });
    world.now_ns += 2 * MAX_HELD_NS;
    for _ in 0..9 {
        world.round(&[1, 2, 3], CV);
    }
    recognise(&world.events, &mut Always(Relation::Alternatives)).is(30, 7, 3);
}

#[test]
fn once_recognised_who_waits_is_told_at_once() {
    let mut recogniser = Recogniser::default();
    let mut world = World::default();
    for _ in 0..3 {
        world.round(&[1, 2, 3], CV);
    }
    world.wait(2, CV);
    let mut out = Vec::new();
    for event in &world.events {
        recogniser.push(event, &mut Always(Relation::Alternatives), &mut |event| {
            out.push(event.clone());
        });
    }
    let last = out.last().unwrap();
    assert!(matches!(last, Event::Arrive { tid: 2, .. }), "{last:?}");
}
