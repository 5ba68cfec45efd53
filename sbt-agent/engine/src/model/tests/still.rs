//! Barriers that stand still, and barriers that do not.

use super::bounds::{arrive, depart, exit, init, memory, thread};
use crate::{
    event::{Clocks, Event, Kind},
    model::{
        Model,
        ids::ThreadId,
        still::{Member, Since, StillBarrier},
    },
};

const S: u64 = 1_000_000_000;
const LIMIT_NS: u64 = 10 * S;

fn model(events: &[Event]) -> Model {
    let mut model = Model::new(0, false);
    for event in events {
        model.push(event);
    }
    model
}

/// A team of three threads that has met twice at object 7; then threads 1 and 3 arrive again, from
/// other places.
fn stuck() -> Vec<Event> {
    let mut events = vec![thread(1, 0), thread(2, 0), thread(3, 0), init(1, 1, 7, 3)];
    for round in 1..=2 {
        events.extend([1, 2, 3].map(|tid| arrive(tid, round * S + u64::from(tid), 7, tid)));
    }
    events.extend([arrive(1, 3 * S, 7, 11), arrive(3, 4 * S, 7, 13)]);
    events
}

/// The facts about the only barrier that stands still.
#[track_caller]
fn known(model: &Model, now_ns: u64) -> StillBarrier {
    let still = model.standing_still(now_ns, LIMIT_NS);
    assert_eq!(still.len(), 1, "{still:?}");
    assert_eq!(model.since(&still[0]), Since::Still);
    model.known(&still[0])
}

fn member(row: u32, arrived_ns: Option<u64>, place: u32) -> Member {
    Member {
        row: ThreadId(row),
        arrived_ns,
        place: Some(crate::model::ids::PlaceId(place)),
    }
}

#[test]
fn who_is_there_and_who_is_missing() {
    let mut events = stuck();
    events.push(exit(2, 5 * S));
    let model = model(&events);
    assert!(model.standing_still(14 * S - 1, LIMIT_NS).is_empty());
    let known = known(&model, 14 * S);
    assert_eq!(
        known,
        StillBarrier {
            key: (1, 7),
            kind: Kind::Pthread,
            count: Some(3),
            episodes: 2,
            members: vec![
                member(0, Some(3 * S), 11),
                member(1, None, 2),
                member(2, Some(4 * S), 13),
            ],
            unseen: 0,
            full: false,
            heard_ns: 4 * S,
            unsure: false,
        }
    );
    assert!(model.threads().rows()[1].ended);
}

#[test]
fn an_arrival_is_news_and_the_last_one_ends_it() {
    let mut model = model(&stuck());
    let still = model.standing_still(14 * S, LIMIT_NS);
    model.push(&thread(4, 14 * S));
    model.push(&arrive(2, 15 * S, 7, 2));
    assert_eq!(model.since(&still[0]), Since::Moved);
    assert!(model.standing_still(100 * S, LIMIT_NS).is_empty());
    // A thread arrives for the next round: this is another episode.
    model.push(&arrive(1, 16 * S, 7, 1));
    let next = model.standing_still(26 * S, LIMIT_NS);
    assert_eq!(next[0].since_ns, 16 * S);
    assert_eq!(model.since(&still[0]), Since::Moved);
}

#[test]
fn one_that_is_full_stands_still_until_somebody_leaves() {
    let mut events = stuck();
    events.push(arrive(2, 5 * S, 7, 2));
    let mut model = Model::new(0, true);
    for event in &events {
        model.push(event);
    }
    assert!(model.standing_still(15 * S - 1, LIMIT_NS).is_empty());
    let still = model.standing_still(15 * S, LIMIT_NS);
    let known = known(&model, 15 * S);
    assert!(known.full && known.heard_ns == 5 * S, "{known:?}");
    // It is known that the members arrived, but not whether they are still there.
    assert!(
        known
            .members
            .iter()
            .all(|member| member.arrived_ns.is_none())
    );
    assert_eq!(known.members.len(), 3);
    model.push(&depart(3, 20 * S));
    assert_eq!(model.since(&still[0]), Since::Moved);
    assert!(model.standing_still(100 * S, LIMIT_NS).is_empty());
}

#[test]
fn those_that_stand_still_for_longest_come_first() {
    let mut events = stuck();
    events.extend([thread(5, 0), init(5, 2, 8, 2), arrive(5, 3 * S, 8, 5)]);
    events.sort_by_key(|event| match event {
        Event::Thread { .. } | Event::Init { .. } => 0,
        Event::Arrive { clocks, .. } => clocks.time_ns,
        _ => u64::MAX,
    });
    let model = model(&events);
    let still = model.standing_still(20 * S, LIMIT_NS);
    let since: Vec<u64> = still.iter().map(|still| still.since_ns).collect();
    assert_eq!(since, [3 * S, 4 * S]);
}

#[test]
fn a_member_that_skipped_the_last_round_is_still_known() {
    // Three threads share a barrier for two, and the third has arrived only once.
    let mut events = vec![thread(1, 0), thread(2, 0), thread(3, 0), init(1, 1, 7, 2)];
    let rounds = [(3, 1), (1, 2), (1, 2)];
    for (round, (one, other)) in (1..).zip(rounds) {
        events.push(arrive(one, round * S, 7, one));
        events.push(arrive(other, round * S + 1, 7, other));
    }
    events.push(arrive(1, 4 * S, 7, 1));
    let known = known(&model(&events), 14 * S);
    let places: Vec<_> = known
        .members
        .iter()
        .map(|member| member.place.is_some())
        .collect();
    // The place of its last arrival is no longer known.
    assert_eq!(places, [true, true, false]);
}

#[test]
fn with_an_unknown_count_it_is_told_as_unknown() {
    let model = model(&[thread(1, 0), arrive(1, S, 7, 1)]);
    let known = known(&model, 11 * S);
    assert_eq!((known.count, known.episodes), (None, 0));
}

#[test]
fn who_came_before_us_is_counted() {
    let events = [
        thread(1, 0),
        memory(1, S - 1, 7, 4, 40, 2),
        arrive(1, S, 7, 1),
    ];
    let known = known(&model(&events), 11 * S);
    assert_eq!((known.count, known.unseen), (Some(4), 2));
}

#[test]
fn after_a_loss_nothing_is_certain() {
    let mut model = model(&stuck());
    assert!(!known(&model, 20 * S).unsure);
    model.push(&Event::Lost { tid: 2, count: 3 });
    assert!(known(&model, 20 * S).unsure);
}

#[test]
fn while_nobody_looks_nothing_stands_still() {
    let mut model = model(&stuck());
    model.expect_gaps();
    model.set_off(true);
    assert!(model.standing_still(20 * S, LIMIT_NS).is_empty());
    model.set_off(false);
    assert_eq!(model.standing_still(20 * S, LIMIT_NS).len(), 1);
    // It is not known what happened in the gap.
    let still = model.standing_still(20 * S, LIMIT_NS)[0];
    model.push(&Event::Gap { time_ns: 21 * S });
    assert_eq!(model.since(&still), Since::Lost);
    assert!(model.standing_still(90 * S, LIMIT_NS).is_empty());
}

#[test]
fn an_initialised_barrier_forgets_who_was_there() {
    let mut events = stuck();
    events.extend([init(1, 5 * S, 7, 2), arrive(1, 6 * S, 7, 1)]);
    let known = known(&model(&events), 20 * S);
    assert_eq!(known.members.len(), 1, "{known:?}");
}

#[test]
fn a_team_that_is_kept_for_the_next_region_is_in_no_barrier() {
    let team = |tid, time_ns, ends| {
        let arrive = Event::Arrive {
            tid,
            clocks: Clocks::at(time_ns),
            object: 7,
            kind: Kind::Gomp,
            callers: crate::event::CallersId(1),
        };
        let memory = Event::Memory {
            tid,
            time_ns: time_ns - 1,
            object: 7,
            count: 2,
            round: None,
        };
        let mut events = vec![memory];
        if ends {
            events.push(Event::RegionEnd { tid });
        }
        events.push(arrive);
        events
    };
    let mut events = vec![thread(1, 0), thread(2, 0)];
    events.push(Event::Region {
        tid: 1,
        clocks: Clocks::at(S),
        depth: 100,
    });
    events.extend(team(1, 2 * S, true));
    events.extend(team(2, 3 * S, true));
    // The first thread works alone from here on.
    assert!(model(&events).standing_still(1000 * S, LIMIT_NS).is_empty());
    // In a region, however, the other thread waits for it.
    events.push(Event::Region {
        tid: 1,
        clocks: Clocks::at(4 * S),
        depth: 100,
    });
    events.extend(team(2, 5 * S, false));
    let known = known(&model(&events), 15 * S);
    assert_eq!(known.members[0].arrived_ns, None);
}
