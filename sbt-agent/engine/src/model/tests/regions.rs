//! Ends of parallel regions that the runtime does not number, watched from the middle of a run.

use super::{
    super::Model,
    bounds::{arrive, thread},
    model,
};
use crate::event::{Clocks, Event, Kind};

/// Address of the team.
const TEAM: u64 = 7;

/// Threads of the team.
const COUNT: u32 = 3;

/// A region of the first thread, which begins at `began_ns`, and the arrivals at its end, each by a
/// thread at a time.
fn region(began_ns: u64, arrivals: &[(u32, u64)]) -> Vec<Event> {
    let mut events = vec![Event::Region {
        tid: 1,
        clocks: Clocks::at(began_ns),
        depth: 100,
    }];
    for (tid, time_ns) in arrivals {
        events.push(Event::Memory {
            tid: *tid,
            time_ns: *time_ns - 1,
            object: TEAM,
            count: COUNT,
            round: None,
        });
        events.push(Event::RegionEnd { tid: *tid });
        let mut arrival = arrive(*tid, *time_ns, TEAM, 1);
        if let Event::Arrive { kind, .. } = &mut arrival {
            *kind = Kind::Kmp;
        }
        events.push(arrival);
    }
    events
}

/// Five regions of 1000 ns, in which thread 1 comes first and thread 3 last, from which the first
/// `unseen` events are missing.
fn watched(unseen: usize) -> Model {
    let mut events = Vec::new();
    for round in 1..=5 {
        let at = round * 1000;
        events.extend(region(at, &[(1, at + 300), (2, at + 600), (3, at + 900)]));
    }
    let threads = [thread(1, 0), thread(2, 0), thread(3, 0)];
    let seen: Vec<Event> = threads
        .into_iter()
        .chain(events.into_iter().skip(unseen))
        .collect();
    model(&seen, 0, false)
}

#[test]
fn rounds_are_not_joined_with_the_next_wherever_watching_begins() {
    assert_eq!(watched(0).totals().episodes, 5);
    // A region is its beginning and three records of three events each.
    for unseen in [1, 4, 7, 10] {
        let model = watched(unseen);
        let totals = model.totals();
        let complete = if unseen < 4 { 5 } else { 4 };
        assert_eq!(totals.episodes, complete, "{unseen}: {totals:?}");
        let last: Vec<u64> = model.threads().rows().iter().map(|row| row.last).collect();
        assert_eq!(last, [0, 0, complete], "{unseen}");
    }
}

#[test]
fn a_region_inside_of_a_task_at_the_end_does_not_end_the_wait() {
    let mut events = vec![thread(1, 0), thread(2, 0), thread(3, 0)];
    for round in 1..=5 {
        let at = round * 1000;
        events.extend(region(at, &[(1, at + 300)]));
        events.push(Event::Region {
            tid: 1,
            clocks: Clocks::at(at + 400),
            depth: 50,
        });
        let others = region(at, &[(2, at + 600), (3, at + 900)]);
        events.extend(others.into_iter().skip(1));
    }
    assert_eq!(model(&events, 0, false).totals().episodes, 5);
}
