//! Processes that execute other programs.

use super::*;

/// A process executes another program.
const fn exec(time_ns: u64, space: u16) -> Event {
    Event::Exec {
        time_ns,
        process: 1000 + space as u32,
        space,
        replaced: false,
    }
}

#[test]
fn what_one_process_executes_ends_nothing_of_the_others() {
    let other = CV | 1 << SPACE;
    let mut world = World::default();
    for round in 0..50 {
        world.busy_round(&rotated(4, round * round), CV);
        if round == 5 {
            // Another object with a barrier of its own, which ends together with the program.
            for by in 0..20 {
                let order = rotated(3, by);
                let order: Vec<Tid> = order.iter().map(|tid| tid + 10).collect();
                world.busy_round(&order, other);
            }
            let now_ns = world.now_ns;
            world.events.push(exec(now_ns, 1));
            world.busy_round(&[11, 12], other);
        }
    }
    let out = recognise(&world.events, &mut NoCode);
    out.is(200 + 60, 70, 0);
    assert!(out.is_sorted());
    assert_eq!(out.arrivals(other), 60);
    // The exec comes behind the events from before it.
    let is_exec = |event: &Event| matches!(event, Event::Exec { .. });
    let at = out.events.iter().position(is_exec).unwrap();
    let is_other = |event: &Event| matches!(event, Event::Arrive { object, .. } if *object != CV);
    assert!(!out.events[at..].iter().any(is_other));
    assert!(out.events[..at].iter().any(is_other));
}

#[test]
fn another_program_leaves_the_barriers_of_other_processes() {
    let elsewhere = CV | 1 << SPACE;
    let mut world = World::default();
    for by in 0..5 {
        world.round(&rotated(3, by), CV);
        world.round(&[7, 8, 9], elsewhere);
    }
    let mut recogniser = Recogniser::default();
    let code = &mut Always(Relation::Alternatives);
    let mut arrivals = 0;
    for event in &world.events {
        recogniser.push(event, code, &mut |_| {});
    }
    assert_eq!(recogniser.counts().barriers, 2);
    for (space, left) in [(1, 1), (0, 0)] {
        let exec = Event::Exec {
            time_ns: world.now_ns,
            process: 10,
            space,
            replaced: false,
        };
        recogniser.push(&exec, code, &mut |_| {});
        assert_eq!(recogniser.counts().barriers, left);
        // The other object is still a barrier: its arrivals come out at once.
        world.events.clear();
        world.wait(1, CV);
        recogniser.push(&world.events[0], code, &mut |event| {
            arrivals += u32::from(matches!(event, Event::Arrive { .. }));
        });
    }
    assert_eq!(arrivals, 1);
}
