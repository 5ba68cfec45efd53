//! Uses of condition variables that are no barriers.

use super::*;

/// Asserts that a use is not taken for a barrier.
#[track_caller]
fn stays_silent(world: &World) {
    for relation in [Relation::Unknown, Relation::Apart] {
        let output = recognise(&world.events, &mut Always(relation));
        assert_eq!(output.arrivals(CV), 0, "{relation:?}");
    }
}

#[test]
fn a_pool_that_is_started_by_a_broadcast() {
    let mut world = World::default();
    for round in 0..200 {
        for tid in 2..6 {
            world.works(tid, 100);
            world.wait(tid, CV);
        }
        world.works(1, 500);
        world.wake(1, CV, None);
        // The other threads say when they are done.
        world.wait(1, 2 * CV);
        world.wake(2 + round % 4, 2 * CV, Some(1));
    }
    stays_silent(&world);
}

#[test]
fn threads_that_take_turns() {
    for members in 2..6 {
        let mut world = World::default();
        for tid in 2..=members {
            world.wait(tid, CV);
        }
        for round in 0..300 {
            let mine = 1 + round % members;
            world.works(mine, 500);
            world.wake(mine, CV, None);
            // All threads but the next one wait again.
            for tid in 1..=members {
                if tid != 1 + (round + 1) % members {
                    world.wait(tid, CV);
                }
            }
        }
        stays_silent(&world);
    }
}

#[test]
fn a_lock_that_is_always_wanted() {
    for (members, barging) in [(2, 2), (2, 3), (4, 3), (4, 7)] {
        let mut world = World::default();
        let mut holder = 1;
        for tid in 2..=members {
            world.wait(tid, CV);
        }
        for round in 0..300 {
            world.works(holder, 500);
            world.wake(holder, CV, None);
            let next = 1 + (holder + round % barging) % members;
            for tid in 1..=members {
                if tid != next {
                    world.wait(tid, CV);
                }
            }
            holder = next;
        }
        stays_silent(&world);
    }
}

#[test]
fn a_queue_and_those_who_wait_for_it() {
    let mut world = World::default();
    for round in 0..300 {
        world.works(2, 100);
        world.wait(2, CV);
        world.works(1, 200);
        world.wake(1, CV, Some(1));
        if round % 7 == 3 {
            world.wake(1, CV, Some(1));
        }
    }
    stays_silent(&world);
}

#[test]
fn what_is_no_barrier_is_silenced_and_looked_at_again() {
    let mut recogniser = Recogniser::default();
    let mut world = World::default();
    for _ in 0..10 {
        world.wake(1, CV, None);
    }
    for event in &world.events[..8] {
        recogniser.push(event, &mut NoCode, &mut |_| {});
    }
    let silenced = recogniser.take_silenced();
    assert_eq!(silenced, [], "it may never be used again");
    for event in &world.events[8..] {
        recogniser.push(event, &mut NoCode, &mut |_| {});
    }
    let silenced = recogniser.take_silenced();
    let &[(CV, until_ns)] = &silenced[..] else {
        panic!("{silenced:?}");
    };
    // The object is ignored until then; later it may be a barrier.
    let mut world = World {
        now_ns: until_ns,
        ..World::default()
    };
    for by in 0..50 {
        world.round(&rotated(3, by), CV);
    }
    let mut out = Vec::new();
    for event in &world.events {
        recogniser.push(event, &mut Always(Relation::Alternatives), &mut |event| {
            out.push(event.clone());
        });
    }
    assert!(out.len() > 100);
}
