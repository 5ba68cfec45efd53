//! Conceptual phases of whole programs: which threads they belong to, and that no span covers
//! events that were missed.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    bounds::{arrive, depart, exit, init, memory, thread},
    cases,
    losses::{long, run_with_losses},
    setup::{Setup, Watch},
    sim::run,
    truth::{Episode, Truth},
};
use crate::{
    event::{CallersId, Event},
    model::{Model, conceptual::Spans, ids::PlaceId, site::Roles, told::Telling},
};

/// Phase 0 begins at places 0 and 5 and ends at 1 and 6 (places count modulo 5); phase 1 begins and
/// ends at 0 and 5.
const fn roles(place: u32) -> Roles {
    let (begins, ends) = match place % 5 {
        0 => (0b11, 0b10),
        1 => (0, 0b01),
        _ => (0, 0),
    };
    Roles {
        watched: false,
        begins,
        ends,
    }
}

/// A model that has taken in these events and is not finished.
fn begun(events: &[Event], departures: bool) -> Model {
    let mut model = Model::new(0, departures);
    model.observe(2, Telling::default());
    for place in 0..200 {
        model.define_place(CallersId(place), PlaceId(place), roles(place));
    }
    for event in events {
        model.push(event);
    }
    model
}

fn span(model: &Model) -> &Spans {
    &model.conceptual().all()[0]
}

/// Both threads meet at a barrier, called from `place`.
fn meet(threads: [u32; 2], time_ns: u64, object: u64, place: u32) -> [Event; 2] {
    [0, 1].map(|at| arrive(threads[at], time_ns + at as u64, object, place))
}

const BARRIER: u64 = 7;

/// Two threads that began a span at 11.
fn pair() -> Vec<Event> {
    let mut events = vec![thread(1, 0), thread(2, 0), init(1, 0, BARRIER, 2)];
    events.extend(meet([1, 2], 10, BARRIER, 0));
    events
}

#[test]
fn spans_belong_to_teams() {
    let mut events = vec![init(1, 0, 7, 2), init(3, 0, 8, 2)];
    for round in 0..10 {
        let start = 10 + round * 20;
        events.extend(meet([1, 2], start, 7, 0));
        events.extend(meet([3, 4], start + 5, 8, 0));
        events.extend(meet([1, 2], start + 10, 7, 1));
        events.extend(meet([3, 4], start + 15, 8, 1));
    }
    let model = begun(&events, false);
    let time = &span(&model).done.time;
    assert_eq!(
        (time.count(), time.min(), time.max()),
        (20, Some(10), Some(10))
    );
}

/// Thread 3 lingers in the first barrier while the others pass the second.
#[test]
fn who_is_slow_to_leave_does_not_turn_the_order_round() {
    let mut events = vec![init(1, 0, 7, 3), init(1, 0, 8, 2)];
    events.extend([1, 2, 3].map(|tid| arrive(tid, 10, 7, 0)));
    events.extend([1, 2].map(|tid| depart(tid, 11)));
    events.extend([1, 2].map(|tid| arrive(tid, 20, 8, 1)));
    events.extend([1, 2].map(|tid| depart(tid, 21)));
    events.push(depart(3, 30));
    let model = begun(&events, true);
    assert_eq!(span(&model).log, [(10, 20)]);
}

#[test]
fn an_incomplete_episode_ends_what_its_threads_had_begun() {
    let mut events = pair();
    // Two more threads have a span of their own.
    events.push(init(3, 12, 8, 2));
    events.extend(meet([3, 4], 13, 8, 0));
    // Thread 2 was not seen to arrive at the end.
    events.push(arrive(1, 20, BARRIER, 1));
    events.push(memory(1, 30, BARRIER, 2, 4, 0));
    events.extend(meet([1, 2], 30, BARRIER, 0));
    events.extend(meet([1, 2], 40, BARRIER, 1));
    events.extend(meet([3, 4], 50, 8, 1));
    let model = begun(&events, false);
    assert_eq!(model.totals().incomplete, 1);
    assert_eq!(span(&model).log, [(31, 41), (14, 51)]);
    assert_eq!(span(&model).abandoned, 1);
}

#[test]
fn a_loss_ends_what_the_thread_had_begun() {
    let mut events = pair();
    // Neither thread was seen at the end, nor when it began another span.
    events.extend([1, 2].map(|tid| Event::Lost { tid, count: 2 }));
    events.extend(meet([1, 2], 1_000, 8, 1));
    let model = begun(&events, false);
    assert_eq!(span(&model).done.time.count(), 0);
    assert_eq!(span(&model).abandoned, 1);
}

/// Nothing was missed: the process executed another program.
#[test]
fn another_program_leaves_spans_unfinished() {
    let mut events = pair();
    events.push(arrive(1, 20, BARRIER, 1));
    events.push(Event::Exec {
        time_ns: 30,
        process: 1,
        space: 0,
        replaced: false,
    });
    let model = begun(&events, false);
    assert!(span(&model).is_unfinished());
    assert_eq!(span(&model).abandoned, 0);
}

#[test]
fn a_gap_in_the_watching_ends_them_all() {
    let mut events = pair();
    events.push(Event::Gap { time_ns: 20 });
    events.extend(meet([1, 2], 30, BARRIER, 1));
    let model = begun(&events, false);
    assert_eq!(span(&model).log, []);
    assert_eq!(span(&model).abandoned, 1);
    assert!(!span(&model).is_unfinished());
}

#[test]
fn what_is_open_at_the_end_is_unfinished() {
    let mut events = pair();
    events.push(arrive(1, 20, BARRIER, 1));
    let mut model = begun(&events, false);
    model.finish();
    assert!(span(&model).is_unfinished());
    assert_eq!(span(&model).abandoned, 0);
    let mut events = pair();
    events.extend([exit(1, 20), exit(2, 21)]);
    assert!(span(&begun(&events, false)).is_unfinished());
}

fn plays(episode: &Episode, phase: usize, role: fn(Roles) -> u64) -> bool {
    let mut places = episode.parts.iter().map(|part| role(roles(part.place)));
    places.any(|bits| bits & 1 << phase != 0)
}

fn begins(episode: &Episode, phase: usize) -> bool {
    plays(episode, phase, |roles| roles.begins)
}

fn ends(episode: &Episode, phase: usize) -> bool {
    plays(episode, phase, |roles| roles.ends)
}

fn threads(episode: &Episode) -> BTreeSet<usize> {
    episode.parts.iter().map(|part| part.thread).collect()
}

/// Begin and end of all spans of a phase.
fn expected(truth: &Truth, phase: usize) -> Vec<(u64, u64)> {
    let mut episodes: Vec<&Episode> = truth.episodes.iter().collect();
    episodes.sort_by_key(|episode| episode.last_ns());
    let (mut open, mut done) = (Vec::<(u64, BTreeSet<usize>)>::new(), Vec::new());
    for episode in episodes {
        let (here, last_ns) = (threads(episode), episode.last_ns());
        if ends(episode, phase) {
            let over = |span: &mut (u64, BTreeSet<usize>)| !span.1.is_disjoint(&here);
            done.extend(open.extract_if(.., over).map(|(begun, _)| (begun, last_ns)));
        }
        let busy = |thread: &usize| open.iter().any(|span| span.1.contains(thread));
        let free: BTreeSet<usize> = here.iter().copied().filter(|index| !busy(index)).collect();
        if begins(episode, phase) && !free.is_empty() {
            open.push((last_ns, free));
        }
    }
    done.sort_unstable();
    done
}

/// Whether a thread came from `from` to `to` without ending the phase on the way.
fn is_true(truth: &Truth, phase: usize, (from, to): (u64, u64)) -> bool {
    let at = |time_ns: u64| {
        let all = truth.episodes.iter();
        all.filter(move |episode| episode.last_ns() == time_ns)
    };
    let first = || at(from).filter(|episode| begins(episode, phase));
    let second = || at(to).filter(|episode| ends(episode, phase));
    let direct = |thread: &usize| {
        !truth.episodes.iter().any(|episode| {
            (from + 1..to).contains(&episode.last_ns())
                && ends(episode, phase)
                && threads(episode).contains(thread)
        })
    };
    first().any(|first| {
        second().any(|second| threads(first).intersection(&threads(second)).any(direct))
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn where_nothing_is_missed_all_are_found(setup in Setup::any()) {
        let setup = Setup { pool: false, ..setup };
        let run = run(&setup, &Watch::default());
        let model = begun(&run.events, setup.departures);
        for (phase, spans) in model.conceptual().all().iter().enumerate() {
            let mut found = spans.log.clone();
            found.sort_unstable();
            prop_assert_eq!(found, expected(&run.truth, phase));
            prop_assert_eq!(spans.abandoned, 0);
        }
    }
}

proptest! {
    // Always the same cases, as in the tests of losses: in very few such runs an episode is
    // mistaken.
    #![proptest_config(proptest::test_runner::Config {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..cases()
    })]

    #[test]
    fn no_span_contains_a_loss(
        setup in long(),
        windows in prop::collection::vec((0u64..1000, 1u64..100, 1u64..=100), 1..4),
    ) {
        let setup = Setup { slow: 0, ..setup };
        let (run, _) = run_with_losses(setup.clone(), &windows);
        let model = begun(&run.events, setup.departures);
        for (phase, spans) in model.conceptual().all().iter().enumerate() {
            for span in &spans.log {
                prop_assert!(is_true(&run.truth, phase, *span), "{} {:?}", phase, span);
            }
        }
    }
}
