//! Streams of threads at condition variables: they follow what barriers and other uses do, in any
//! order that the mutex allows.

mod code;
mod held;
mod none;
mod processes;

use proptest::prelude::*;
use rustc_hash::FxHashMap;

use super::{Code, Functions, MAX_HELD_NS, NoCode, Recogniser, Relation, Relations};
use crate::{
    event::{CallersId, Clocks, Event, Evidence, Kind, SPACE, Tid},
    model::Model,
};

const CV: u64 = 0x1000;
/// Callers of waits.
const WAITS: CallersId = CallersId(1);
const WAKES: CallersId = CallersId(2);

/// Code in which all calls have the same relation.
struct Always(Relation);

impl Code for Always {
    fn relation(&mut self, _wait: CallersId, _wake: CallersId) -> Relation {
        self.0
    }
}

/// The resulting events, and the model that has taken them.
struct Output {
    events: Vec<Event>,
    model: Model,
}

impl Output {
    fn arrivals(&self, key: u64) -> usize {
        let is_arrival =
            |event: &&Event| matches!(event, Event::Arrive { object, .. } if *object == key);
        self.events.iter().filter(is_arrival).count()
    }

    /// Asserts the numbers of arrivals, and of complete and incomplete episodes.
    #[track_caller]
    fn is(&self, arrivals: u64, episodes: u64, incomplete: u64) {
        let totals = self.model.totals();
        assert_eq!(
            [totals.arrivals, totals.episodes, totals.incomplete],
            [arrivals, episodes, incomplete]
        );
    }

    fn is_sorted(&self) -> bool {
        let times = self.events.iter().filter_map(|event| match event {
            Event::Arrive { clocks, .. } | Event::Depart { clocks, .. } => Some(clocks.time_ns),
            _ => None,
        });
        times.is_sorted()
    }
}

fn recognise(events: &[Event], code: &mut dyn Code) -> Output {
    let mut recogniser = Recogniser::default();
    let mut out = Vec::new();
    for event in events {
        recogniser.push(event, code, &mut |event| out.push(event.clone()));
    }
    recogniser.finish(&mut |event| out.push(event.clone()));
    let mut model = Model::new(0, true);
    for event in &out {
        model.push(event);
    }
    model.finish();
    Output { events: out, model }
}

/// The events so far, the time, and what each thread has used of the CPU.
#[derive(Default)]
struct World {
    events: Vec<Event>,
    now_ns: u64,
    run_ns: FxHashMap<Tid, u64>,
}

impl World {
    fn works(&mut self, tid: Tid, us: u64) {
        *self.run_ns.entry(tid).or_default() += us * 1000;
    }

    fn clocks(&mut self, tid: Tid) -> Clocks {
        self.now_ns += 1000;
        let run_ns = self.run_ns.entry(tid).or_default();
        *run_ns += 5_000;
        Clocks {
            time_ns: self.now_ns,
            run_ns: Some(*run_ns),
            delay_ns: Some(0),
        }
    }

    fn wait(&mut self, tid: Tid, key: u64) {
        let clocks = self.clocks(tid);
        self.events.push(Event::Wait {
            tid,
            clocks,
            key,
            of: Evidence::Condvar,
            callers: WAITS,
        });
    }

    fn wake(&mut self, tid: Tid, key: u64, most: Option<u32>) {
        let clocks = self.clocks(tid);
        self.events.push(Event::Wake {
            tid,
            clocks,
            key,
            of: Evidence::Condvar,
            most,
            callers: WAKES,
        });
    }

    /// A round of threads that arrive in this order.
    fn round(&mut self, order: &[Tid], key: u64) {
        let (last, others) = order.split_last().unwrap();
        for tid in others {
            self.wait(*tid, key);
        }
        self.wake(*last, key, None);
    }

    /// A round of threads that have all worked, the last one most.
    fn busy_round(&mut self, order: &[Tid], key: u64) {
        for (us, tid) in (100..).zip(order) {
            self.works(*tid, us);
        }
        self.round(order, key);
    }
}

fn rotated(members: u32, by: u32) -> Vec<Tid> {
    (0..members)
        .map(|index| 1 + (index + by) % members)
        .collect()
}

#[test]
fn a_barrier_with_a_lasting_straggler_is_known_by_its_code() {
    let mut world = World::default();
    for _ in 0..50 {
        world.round(&[1, 2, 3, 4], CV);
    }
    recognise(&world.events, &mut Always(Relation::Alternatives)).is(200, 50, 0);
    for relation in [Relation::Unknown, Relation::Apart, Relation::InTurn] {
        recognise(&world.events, &mut Always(relation)).is(0, 0, 0);
    }
}

#[test]
fn a_barrier_of_working_threads_is_known_without_its_code() {
    let mut world = World::default();
    for round in 0..50 {
        world.busy_round(&rotated(4, round * round), CV);
    }
    recognise(&world.events, &mut NoCode).is(200, 50, 0);
    recognise(&world.events, &mut Always(Relation::Apart)).is(200, 50, 0);
    recognise(&world.events, &mut Always(Relation::InTurn)).is(0, 0, 0);
}

#[test]
fn two_threads_are_no_barrier_without_its_code() {
    let mut world = World::default();
    for round in 0..200 {
        // The waker is neither always the next in turn nor always the same, and threads work in
        // between.
        world.busy_round(&rotated(2, round * round / 3), CV);
    }
    recognise(&world.events, &mut Always(Relation::Alternatives)).is(400, 200, 0);
    for relation in [Relation::Unknown, Relation::Either, Relation::Apart] {
        recognise(&world.events, &mut Always(relation)).is(0, 0, 0);
    }
}

#[test]
fn a_test_that_may_ask_for_roles_is_no_evidence() {
    let (mut roles, mut turns) = (World::default(), World::default());
    for round in 0..50 {
        roles.round(&[1, 2, 3], CV);
        turns.busy_round(&rotated(3, round * round), CV);
    }
    let mut code = Always(Relation::Either);
    recognise(&roles.events, &mut code).is(0, 0, 0);
    recognise(&turns.events, &mut code).is(150, 50, 0);
}

#[test]
fn two_rounds_suffice_at_the_end_and_one_does_not() {
    for (rounds, episodes) in [(1, 0), (2, 2), (3, 3)] {
        let mut world = World::default();
        for _ in 0..rounds {
            world.round(&[1, 2, 3], CV);
        }
        recognise(&world.events, &mut Always(Relation::Alternatives)).is(3 * episodes, episodes, 0);
    }
}

#[test]
fn calls_that_have_proven_themselves_make_a_barrier_of_one_round() {
    let mut world = World::default();
    for _ in 0..3 {
        world.round(&[1, 2, 3], CV);
    }
    world.round(&[2, 1, 3], 2 * CV);
    recognise(&world.events, &mut Always(Relation::Alternatives)).is(12, 4, 0);
}

#[test]
fn threads_that_are_woken_for_nothing_come_once() {
    let mut world = World::default();
    for _ in 0..10 {
        world.wait(1, CV);
        world.wait(1, CV);
        world.wait(2, CV);
        world.wait(1, CV);
        world.wake(3, CV, None);
    }
    recognise(&world.events, &mut Always(Relation::Alternatives)).is(30, 10, 0);
}

/// A round in which three threads check again and again whether they may go on, until a fourth
/// arrives.
fn polled_round(world: &mut World, times: u32) {
    for _ in 0..times {
        for tid in 1..=3 {
            world.wait(tid, CV);
        }
    }
    world.wake(4, CV, None);
}

#[test]
fn threads_that_look_again_and_again_come_once() {
    let mut world = World::default();
    for _ in 0..6 {
        polled_round(&mut world, 40);
    }
    let output = recognise(&world.events, &mut Always(Relation::Alternatives));
    output.is(24, 6, 0);
}

#[test]
fn what_is_not_seen_of_a_thread_makes_no_sleep_of_it_for_the_others() {
    let mut world = World::default();
    for tid in (1..=3).cycle().take(180) {
        world.wait(tid, CV);
    }
    world.events.push(Event::Lost { tid: 1, count: 1 });
    for _ in 0..7 {
        polled_round(&mut world, 2);
    }
    let output = recognise(&world.events, &mut Always(Relation::Alternatives));
    assert_eq!(output.model.totals().episodes, 6);
}

/// Threads check for a while before they wait, and some are released without having waited.
#[test]
fn rounds_of_which_some_did_not_wait_are_incomplete() {
    let mut world = World::default();
    for by in 0..50 {
        let order = rotated(4, by);
        if by % 10 == 9 {
            world.round(&order[1..], CV);
        } else {
            world.round(&order, CV);
        }
    }
    let output = recognise(&world.events, &mut Always(Relation::Lacking));
    output.is(45 * 4 + 5 * 3, 45, 5);
}

#[test]
fn teams_may_change_and_threads_be_alone() {
    let mut world = World::default();
    for members in [4, 2, 6, 1, 3] {
        for by in 0..5 {
            world.round(&rotated(members, by), CV);
        }
    }
    recognise(&world.events, &mut Always(Relation::Alternatives)).is(5 * 16, 25, 0);
}

#[test]
fn two_threads_may_signal() {
    let mut world = World::default();
    for by in 0..20 {
        let order = rotated(2, by);
        world.wait(order[0], CV);
        world.wake(order[1], CV, Some(1));
    }
    recognise(&world.events, &mut Always(Relation::Alternatives)).is(40, 20, 0);
}

#[test]
fn as_many_signals_as_waiters_are_a_broadcast() {
    let mut world = World::default();
    for by in 0..20 {
        let order = rotated(4, by);
        for tid in &order[..3] {
            world.wait(*tid, CV);
        }
        for _ in 0..3 {
            world.wake(order[3], CV, Some(1));
        }
    }
    recognise(&world.events, &mut Always(Relation::Alternatives)).is(80, 20, 0);
}

#[test]
fn barriers_in_turn_are_kept_apart() {
    let mut world = World::default();
    for by in 0..20 {
        world.round(&rotated(3, by), CV);
        world.round(&rotated(3, by + 1), 2 * CV);
    }
    let output = recognise(&world.events, &mut Always(Relation::Alternatives));
    output.is(120, 40, 0);
    assert_eq!(output.model.barriers().all().len(), 2);
    assert!(output.is_sorted());
}

#[test]
fn what_a_round_lacks_makes_it_incomplete() {
    let mut world = World::default();
    for by in 0..10 {
        world.round(&rotated(3, by), CV);
    }
    world.wait(1, CV);
    world.events.push(Event::Lost { tid: 2, count: 1 });
    world.wake(3, CV, None);
    for by in 0..10 {
        world.round(&rotated(3, by), CV);
    }
    let output = recognise(&world.events, &mut Always(Relation::Alternatives));
    output.is(62, 20, 1);
}

#[test]
fn who_comes_in_the_middle_counts_no_part_of_a_round() {
    let mut world = World::default();
    for by in 0..10 {
        world.round(&rotated(4, by), CV);
    }
    let mut recogniser = Recogniser::new(true);
    let mut model = Model::new(0, true);
    let code = &mut Always(Relation::Alternatives);
    for event in &world.events[2..] {
        recogniser.push(event, code, &mut |event| model.push(event));
    }
    recogniser.finish(&mut |event| model.push(event));
    model.finish();
    assert_eq!(model.totals().episodes, 9);
    assert_eq!(model.totals().incomplete, 1);
}

/// Rounds of threads at a barrier, each in its own order of arrival.
fn rounds() -> impl Strategy<Value = Vec<Vec<Tid>>> {
    (2u32..7).prop_flat_map(|members| {
        let order = Just((1..=members).collect::<Vec<Tid>>()).prop_shuffle();
        prop::collection::vec(order, 3..40)
    })
}

proptest! {
    #[test]
    fn any_order_of_coming_gives_the_same_rounds(rounds in rounds(), again in any::<u64>()) {
        let mut world = World::default();
        for (round, order) in rounds.iter().enumerate() {
            let (last, others) = order.split_last().unwrap();
            for tid in others {
                world.wait(*tid, CV);
                if again >> (round % 64) & 1 == 1 {
                    world.wait(others[0], CV);
                }
            }
            world.wake(*last, CV, None);
        }
        let output = recognise(&world.events, &mut Always(Relation::Alternatives));
        let members = rounds[0].len() as u64;
        output.is(members * rounds.len() as u64, rounds.len() as u64, 0);
        prop_assert!(output.is_sorted());
    }

    #[test]
    fn nonsense_does_no_harm(
        steps in prop::collection::vec((0u32..6, 0u64..4, 0u8..5, 0u64..3_000_000_000), 0..300)
    ) {
        let mut world = World::default();
        for (tid, key, what, ns) in steps {
            match what {
                0 | 1 => world.wait(tid, key),
                2 => world.wake(tid, key, None),
                3 => world.wake(tid, key, Some(1)),
                _ => {
                    world.now_ns += ns;
                    world.events.push(Event::Lost { tid, count: 1 });
                }
            }
        }
        for relation in [Relation::Alternatives, Relation::Unknown] {
            recognise(&world.events, &mut Always(relation));
        }
    }
}

/// A thread that checks a futex just after the last arrival does not wait.
#[test]
fn who_did_not_wait_on_a_futex_makes_the_round_incomplete() {
    let mut world = World::default();
    for by in 0..20 {
        let round = rotated(4, by);
        // In some rounds, the second-to-last arrival is not seen.
        let lacks = by % 5 == 4;
        let seen: Vec<Tid> = round
            .iter()
            .enumerate()
            .filter(|(index, _)| !(lacks && *index == 2))
            .map(|(_, tid)| *tid)
            .collect();
        world.round(&seen, CV);
    }
    let of_futexes: Vec<Event> = world
        .events
        .into_iter()
        .map(|mut event| {
            if let Event::Wait { of, .. } | Event::Wake { of, .. } = &mut event {
                *of = Evidence::Futex;
            }
            event
        })
        .collect();
    let output = recognise(&of_futexes, &mut Always(Relation::Alternatives));
    output.is(4 * 16 + 3 * 4, 16, 4);
}
