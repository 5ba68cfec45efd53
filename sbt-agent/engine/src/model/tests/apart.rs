//! Barriers at which arriving and waiting are two calls.

use super::{
    super::Model,
    bounds::{arrive, thread},
    model,
};
use crate::{
    event::{Clocks, Event, Kind},
    model::ids::ThreadId,
};

/// Address of the barrier.
const BARRIER: u64 = 7;

fn arrives(tid: u32, time_ns: u64) -> [Event; 2] {
    let mut arrival = arrive(tid, time_ns, BARRIER, 1);
    if let Event::Arrive { kind, .. } = &mut arrival {
        *kind = Kind::Std;
    }
    let memory = Event::Memory {
        tid,
        time_ns: time_ns - 1,
        object: BARRIER,
        count: 2,
        round: None,
    };
    [memory, arrival]
}

fn awaits(tid: u32, time_ns: u64, run_ns: u64) -> Event {
    Event::Awaits {
        tid,
        clocks: Clocks {
            time_ns,
            run_ns: Some(run_ns),
            delay_ns: Some(0),
        },
    }
}

/// Idle time and work of the two threads, ns.
fn sums(model: &Model) -> [(u64, u64); 2] {
    let rows = model.threads().rows();
    [0, 1].map(|row| (rows[row].idle_ns, rows[row].work.get().unwrap()))
}

fn begin() -> Vec<Event> {
    vec![thread(1, 0), thread(2, 0)]
}

#[test]
fn what_is_done_between_the_two_calls_is_work() {
    let mut events = begin();
    for round in 0..3 {
        let at = round * 1000;
        events.extend(arrives(1, at + 200));
        events.push(awaits(1, at + 700, at + 700));
        events.extend(arrives(2, at + 900));
        events.push(awaits(2, at + 950, at + 950));
    }
    let model = model(&events, 0, false);
    assert_eq!(model.totals().episodes, 3);
    assert_eq!(sums(&model), [(600, 2300), (0, 2900)]);
    let first = &model.log[0].members[0];
    assert_eq!((first.row, first.arrived.run_ns), (ThreadId(0), Some(700)));
}

#[test]
fn a_thread_that_waits_too_late_to_wait_is_not_idle() {
    let mut events = begin();
    for round in 0..3 {
        let at = round * 1000;
        events.extend(arrives(1, at + 200));
        events.extend(arrives(2, at + 900));
        events.push(awaits(1, at + 930, at + 930));
        events.push(awaits(2, at + 950, at + 950));
    }
    let model = model(&events, 0, false);
    // Of the first round nothing was known yet when all had arrived.
    assert_eq!(sums(&model), [(700, 2200), (0, 2900)]);
    let second = &model.log[1].members[0];
    assert_eq!(second.arrived, Clocks::at(1900), "how it worked is unknown");
}

#[test]
fn threads_that_do_not_tell_wait_from_their_arrival_on() {
    let mut events = begin();
    for round in 0..4 {
        let at = round * 1000;
        events.extend(arrives(1, at + 200));
        if round == 0 {
            events.push(awaits(1, at + 300, at + 300));
        }
        events.extend(arrives(2, at + 900));
    }
    let model = model(&events, 0, false);
    // The first arrives in the third round, and has not told that it waited in the second.
    let idle: Vec<u64> = model
        .log
        .iter()
        .map(|episode| 900 - (episode.members[0].arrived.time_ns % 1000))
        .collect();
    assert_eq!(idle[0], 600);
    assert_eq!(idle[2..], [700, 700]);
}
