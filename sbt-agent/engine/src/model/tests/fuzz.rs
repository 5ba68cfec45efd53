//! Sequences of events that no program makes: the model must not panic.

use proptest::prelude::*;

use super::{cases, model};
use crate::event::{CallersId, Clocks, Event, Kind, Round};

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0u32..5, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn long() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0u64..50, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn clocks() -> impl Strategy<Value = Clocks> {
    (long(), prop::option::of(long()), prop::option::of(long())).prop_map(
        |(time_ns, run_ns, delay_ns)| Clocks {
            time_ns,
            run_ns,
            delay_ns,
        },
    )
}

fn round() -> impl Strategy<Value = Option<Round>> {
    prop::option::of((number(), number()).prop_map(|(number, arrived)| Round { number, arrived }))
}

fn event() -> impl Strategy<Value = Event> {
    let kind = Kind::Pthread;
    prop_oneof![
        2 => (number(), number(), clocks()).prop_map(|(tid, process, since)| Event::Thread {
            tid,
            shown: (tid, process),
            name: "x".into(),
            since,
            code_start: None,
        }),
        12 => (number(), clocks(), 0u64..3, number()).prop_map(move |(tid, clocks, object, callers)| {
            Event::Arrive { tid, clocks, object, kind, callers: CallersId(callers) }
        }),
        8 => (number(), clocks()).prop_map(|(tid, clocks)| Event::Depart { tid, clocks }),
        6 => (number(), long(), 0u64..3, number(), round()).prop_map(
            |(tid, time_ns, object, count, round)| Event::Memory { tid, time_ns, object, count, round }
        ),
        2 => (number(), long(), 0u64..3, number()).prop_map(move |(tid, time_ns, object, count)| {
            Event::Init { time_ns, object, kind, tid, count }
        }),
        2 => (number(), clocks()).prop_map(|(tid, clocks)| Event::Exit { tid, clocks }),
        1 => (long(), number()).prop_map(|(time_ns, process)| Event::Exec {
            time_ns,
            process,
            space: 0,
            replaced: false,
        }),
        1 => long().prop_map(|time_ns| Event::Mapped { time_ns, process: 1 }),
        2 => (number(), number()).prop_map(|(tid, count)| Event::Lost { tid, count }),
        1 => any::<bool>().prop_map(|on| Event::Departures { on }),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_events_in_any_order_are_survived(
        events in prop::collection::vec(event(), 0..200),
        start_ns in long(),
        departures: bool,
    ) {
        let model = model(&events, start_ns, departures);
        let arrivals = events.iter().filter(|event| matches!(event, Event::Arrive { .. })).count();
        prop_assert_eq!(model.totals().arrivals, arrivals as u64);
        let complete: u64 = model.log.iter().map(|episode| episode.members.len() as u64).sum();
        prop_assert!(complete + model.totals().incomplete <= arrivals as u64);
    }
}
