//! Memory stays bounded whatever a program does; and odd cases that random programs do not produce.

use super::model;
use crate::{
    event::{CallersId, Clocks, Event, Kind, Round},
    model::{
        Model,
        barrier::MAX_BARRIERS,
        ids::{MAX_ROWS, PlaceId, ThreadId},
        site::Roles,
        sites::{MAX_PHASES, MAX_SITES},
    },
};

pub fn thread(tid: u32, time_ns: u64) -> Event {
    Event::Thread {
        tid,
        shown: (tid, 1),
        name: format!("t{tid}"),
        since: Clocks::at(time_ns),
        code_start: None,
    }
}

pub fn arrive(tid: u32, time_ns: u64, object: u64, place: u32) -> Event {
    Event::Arrive {
        tid,
        clocks: Clocks::at(time_ns),
        object,
        kind: Kind::Pthread,
        callers: CallersId(place),
    }
}

pub fn depart(tid: u32, time_ns: u64) -> Event {
    Event::Depart {
        tid,
        clocks: Clocks::at(time_ns),
    }
}

pub fn init(tid: u32, time_ns: u64, object: u64, count: u32) -> Event {
    Event::Init {
        time_ns,
        object,
        kind: Kind::Pthread,
        tid,
        count,
    }
}

pub fn memory(tid: u32, time_ns: u64, object: u64, count: u32, number: u32, arrived: u32) -> Event {
    Event::Memory {
        tid,
        time_ns,
        object,
        count,
        round: Some(Round { number, arrived }),
    }
}

pub fn exit(tid: u32, time_ns: u64) -> Event {
    Event::Exit {
        tid,
        clocks: Clocks::at(time_ns),
    }
}

/// A team of two threads meets once at each object, from each place.
fn pairs(rounds: impl Iterator<Item = (u64, u32)>) -> Model {
    let mut model = Model::new(0, false);
    model.push(&thread(1, 0));
    model.push(&thread(2, 0));
    for (time, (object, place)) in (1..).zip(rounds) {
        model.push(&init(1, time * 10, object, 2));
        model.push(&arrive(1, time * 10 + 1, object, place));
        model.push(&arrive(2, time * 10 + 3, object, place));
    }
    model.finish();
    model
}

#[test]
fn barriers_without_end_share_their_entries() {
    let many = MAX_BARRIERS as u64 * 3;
    // One of the barriers is in use all the time and keeps its entry.
    let model = pairs((0..many).flat_map(|number| [(7, 0), (1000 + number, 0)]));
    assert_eq!(model.totals().episodes, many * 2);
    assert_eq!(model.totals().incomplete, 0);
    assert_eq!(model.barriers().all().len(), MAX_BARRIERS);
    assert_eq!(model.barriers().seen, many + 1);
    let used = model.barriers().find((1, 7)).unwrap();
    assert_eq!(model.barriers().all()[used.index()].episodes, many);
}

#[test]
fn a_barrier_at_which_threads_wait_keeps_its_entry() {
    let mut model = Model::new(0, true);
    model.push(&init(1, 1, 7, 2));
    model.push(&arrive(1, 2, 7, 0));
    for object in 0..MAX_BARRIERS as u64 * 2 {
        model.push(&init(2, 10 + object, 1000 + object, 1));
    }
    model.push(&arrive(3, 1_000_000, 7, 0));
    model.finish();
    assert_eq!(model.totals().episodes, 1);
    assert_eq!(model.sites().all()[0].idle.sum(), 999_998);
}

#[test]
fn sites_without_end_are_filed_under_the_last() {
    let many = u32::try_from(MAX_SITES).unwrap() + 100;
    let model = pairs((0..many).map(|place| (7, place)));
    assert_eq!(model.totals().episodes, u64::from(many));
    assert_eq!(model.sites().all().len(), MAX_SITES);
    assert_eq!(model.sites().all()[MAX_SITES - 1].episodes, 101);
}

#[test]
fn phases_without_end_are_left_out_and_counted() {
    let mut random = super::setup::Random(1);
    let many = MAX_PHASES as u64 * 2;
    let places = (0..many).map(|_| (7, u32::try_from(random.below(2000)).unwrap()));
    let model = pairs(places.collect::<Vec<_>>().into_iter());
    let phases = model.sites().phases.values();
    let kept: u64 = phases.map(|phase| phase.phase.count()).sum();
    assert_eq!(model.sites().phases.len(), MAX_PHASES);
    assert_eq!(kept + model.sites().unkept_phases, many);
}

#[test]
fn threads_without_end_share_the_last_row() {
    let many = u32::try_from(MAX_ROWS).unwrap() + 500;
    let mut model = Model::new(0, false);
    model.push(&thread(u32::MAX, 0));
    model.push(&init(u32::MAX, 0, 7, 2));
    for tid in 0..many {
        let time = 10 + u64::from(tid) * 10;
        model.push(&thread(tid, time));
        model.push(&arrive(tid, time + 1, 7, 0));
        model.push(&exit(tid, time + 11));
    }
    model.finish();
    let rows = model.threads().rows();
    assert_eq!(rows.len(), MAX_ROWS);
    assert_eq!(rows[MAX_ROWS - 1].threads, 502);
    assert_eq!(model.totals().episodes, u64::from(many) / 2);
    // No thread comes last twice in one episode.
    let last: u64 = rows.iter().map(|row| row.last).sum();
    assert_eq!(last, model.totals().episodes);
}

#[test]
fn what_is_put_by_for_later_does_not_grow() {
    let mut model = Model::new(0, true);
    for time in 0..10_000 {
        model.push(&init(1, time, 7, 2));
        model.push(&Event::Exec {
            time_ns: time,
            process: 0,
            space: 0,
            replaced: false,
        });
    }
    assert!(model.spare.len() <= 64);
    assert!(model.barriers().all().len() <= MAX_BARRIERS);
}

#[test]
fn a_thousand_threads_and_more_at_one_barrier() {
    let mut events = vec![init(0, 0, 7, 5000)];
    for round in 0..3u64 {
        for tid in 0..5000 {
            events.push(arrive(
                tid,
                10 + round * 100_000 + u64::from(tid),
                7,
                tid % 3,
            ));
        }
        for tid in 0..5000 {
            events.push(depart(tid, 50_000 + round * 100_000 + u64::from(tid)));
        }
    }
    let model = model(&events, 0, true);
    assert_eq!(model.totals().episodes, 3);
    let site = &model.sites().all()[0];
    assert_eq!(site.places.len(), 3);
    assert_eq!(site.idle.sum(), 3 * (4999 * 5000 / 2));
    assert_eq!(site.release.count(), 15_000);
}

/// Number of complete and of incomplete episodes at a barrier for `participants` threads. Each
/// arrival: the thread, its time, and the barrier's counters as read then.
fn counted(participants: u32, arrivals: &[(u32, u64, u32, u32)]) -> (u64, u64) {
    let mut model = Model::new(0, false);
    for &(tid, time, number, arrived) in arrivals {
        model.push(&memory(tid, time, 7, participants, number, arrived));
        model.push(&arrive(tid, time, 7, 0));
    }
    model.finish();
    (model.totals().episodes, model.totals().incomplete)
}

#[test]
fn glibcs_counters_start_again() {
    // Three threads; whole rounds end at 2³¹ - 2.
    let limit = u32::MAX / 2 - 1;
    let counted = counted(
        3,
        &[
            (1, 10, limit - 3, 0),
            (2, 11, limit - 3, 1),
            (3, 12, limit - 3, 2),
            // The first thread to arrive finds the old counters; then all have left, and the others find
            // the new counters.
            (1, 20, limit, 0),
            (2, 21, 0, 0),
            (3, 22, 0, 2),
            (1, 30, 3, 0),
            (2, 31, 3, 1),
            (3, 32, 3, 2),
        ],
    );
    assert_eq!(counted, (3, 0));
}

#[test]
fn a_full_round_that_is_not_turned_over_yet_is_the_next() {
    let counted = counted(
        2,
        &[(1, 10, 4, 0), (2, 11, 4, 1), (3, 12, 4, 2), (4, 13, 4, 3)],
    );
    assert_eq!(counted, (2, 0));
}

#[test]
fn who_looks_before_the_last_one_is_counted_is_not_believed() {
    let counted = counted(
        2,
        &[
            (1, 10, 4, 0),
            (2, 11, 4, 1),
            // A third thread; the second was stamped, but is not counted yet.
            (3, 12, 4, 1),
            (4, 20, 6, 1),
        ],
    );
    assert_eq!(counted, (2, 0));
}

#[test]
fn a_count_of_one_makes_every_arrival_an_episode() {
    let mut events = vec![init(1, 0, 7, 1)];
    for time in 1..=10 {
        events.push(arrive(1, time * 10, 7, 0));
        events.push(depart(1, time * 10 + 1));
    }
    let model = model(&events, 0, true);
    assert_eq!(model.totals().episodes, 10);
    assert_eq!(model.sites().all()[0].idle.sum(), 0);
    assert_eq!(model.sites().all()[0].imbalance_pct(), None);
}

#[test]
fn more_participants_than_threads_never_complete() {
    let mut events = vec![init(1, 0, 7, 3)];
    for tid in 1..=3 {
        events.push(arrive(tid, u64::from(tid), 7, 0));
    }
    events.extend([arrive(1, 10, 7, 0), arrive(3, 11, 7, 0)]);
    let mut running = Model::new(0, false);
    for event in &events {
        running.push(event);
    }
    let model = model(&events, 0, false);
    assert_eq!(running.under_way(), model.unfinished(), "while it is so");
    assert_eq!(model.under_way(), [], "and no longer when it was settled");
    let [open] = model.unfinished() else {
        panic!("{:?}", model.unfinished());
    };
    assert_eq!(open.arrived, [(ThreadId(0), 10), (ThreadId(2), 11)]);
    assert_eq!(open.missing, [ThreadId(1)]);
    assert_eq!((model.totals().episodes, model.totals().incomplete), (1, 1));
}

#[test]
fn threads_that_are_killed_where_they_wait_are_still_reported() {
    for count in [Some(3), None] {
        let mut events: Vec<_> = count
            .map(|count| init(1, 0, 7, count))
            .into_iter()
            .collect();
        events.extend([arrive(1, 10, 7, 0), arrive(2, 11, 7, 0)]);
        events.extend([exit(1, 20), exit(2, 21)]);
        let model = model(&events, 0, true);
        assert_eq!(model.unfinished().len(), 1);
        assert_eq!(model.unfinished()[0].arrived.len(), 2);
        assert_eq!(model.totals().episodes, 0);
    }
}

#[test]
fn a_thread_may_bear_the_number_of_one_that_died_waiting() {
    let events = [
        init(1, 0, 7, 3),
        thread(5, 1),
        arrive(5, 10, 7, 0),
        exit(5, 11),
        thread(5, 12),
        arrive(5, 13, 7, 0),
        arrive(6, 14, 7, 0),
        depart(5, 15),
        depart(6, 16),
    ];
    let model = model(&events, 0, true);
    // The barrier has counted all three threads.
    assert_eq!(model.totals().episodes, 1);
    assert_eq!(model.sites().all()[0].release.count(), 2);
    let name = |row: usize| model.threads().rows()[row].shown.0;
    assert_eq!((name(1), name(2)), (5, 5));
}

#[test]
fn a_number_used_again_is_another_thread_also_if_the_end_was_lost() {
    let mut events = vec![thread(1, 0), init(1, 0, 7, 1), arrive(1, 10, 7, 0)];
    events.extend([thread(1, 500), arrive(1, 510, 7, 0)]);
    let model = model(&events, 0, false);
    assert_eq!(model.threads().rows().len(), 2);
    // The time from 10 to 510 counts as work of no thread.
    assert_eq!(model.sites().all()[0].work.sum(), 10);
}

#[test]
fn another_program_begins_anew() {
    let events = [
        thread(1, 0),
        init(1, 0, 7, 2),
        arrive(1, 10, 7, 0),
        arrive(2, 20, 7, 0),
        arrive(1, 30, 7, 0),
        Event::Exec {
            time_ns: 1000,
            process: 1,
            space: 0,
            replaced: false,
        },
        init(1, 1001, 7, 2),
        arrive(1, 1010, 7, 50),
        thread(3, 1005),
        arrive(3, 1030, 7, 50),
    ];
    let model = model(&events, 0, false);
    assert_eq!((model.totals().episodes, model.totals().incomplete), (2, 1));
    let site = &model.sites().all()[1];
    // The first phase began with the program, and so did the work of its main thread.
    assert_eq!(site.phase.sum(), 30);
    assert_eq!(site.work.sum(), 10 + 25);
    assert_eq!(model.barriers().seen, 2);
}

#[test]
fn what_another_process_executes_changes_no_place() {
    let mut model = Model::new(0, false);
    model.define_place(CallersId(5), PlaceId(3), Roles::default());
    for (tid, time_ns) in [(1, 0), (2, 100)] {
        for event in [
            thread(tid, time_ns),
            init(tid, time_ns + 1, 7, 1),
            arrive(tid, time_ns + 10, 7, 5),
            exit(tid, time_ns + 20),
            // No thread that has been seen is alive.
            Event::Exec {
                time_ns: time_ns + 30,
                process: 9,
                space: 1,
                replaced: false,
            },
        ] {
            model.push(&event);
        }
    }
    let sites = model.sites().all();
    assert_eq!(sites.len(), 1);
    assert_eq!(*sites[0].places, [PlaceId(3)]);
}

#[test]
fn a_process_that_has_ended_leaves_its_barriers_to_nobody() {
    let events = [
        thread(1, 0),
        init(1, 0, 7, 2),
        arrive(1, 10, 7, 0),
        exit(1, 11),
        Event::Ended {
            time_ns: 12,
            process: 1,
            space: Some(1),
        },
        // Another thread with the same id.
        thread(2, 20),
        init(2, 21, 7, 1),
        arrive(2, 30, 7, 0),
    ];
    let model = model(&events, 0, false);
    assert_eq!((model.totals().episodes, model.totals().incomplete), (1, 1));
    assert_eq!(model.barriers().seen, 2);
}

#[test]
fn threads_whose_introduction_was_lost_use_the_same_barrier() {
    let events = [
        thread(1, 0),
        init(1, 0, 7, 2),
        arrive(1, 10, 7, 0),
        arrive(2, 20, 7, 0),
        thread(2, 5),
    ];
    let model = model(&events, 0, false);
    assert_eq!(model.totals().episodes, 1);
    assert_eq!(model.barriers().all().len(), 1);
    let row = &model.threads().rows()[1];
    assert_eq!(
        (row.shown, row.name.as_str(), row.since_ns),
        ((2, 1), "t2", 5)
    );
}

#[test]
fn an_initialisation_that_must_fail_changes_nothing() {
    let events = [
        init(1, 0, 7, 2),
        arrive(1, 10, 7, 0),
        init(3, 11, 7, 0),
        memory(2, 12, 7, 0, 0, 0),
        arrive(2, 20, 7, 0),
    ];
    let model = model(&events, 0, false);
    assert_eq!(model.totals().episodes, 1);
}

#[test]
fn two_threads_in_one_order_here_and_another_at_the_barrier() {
    // Three threads at a barrier for two: 1 and 3 meet, since 2 is stamped before 3 but counted
    // after it; then 2 and 1 meet.
    let events = [
        init(1, 0, 7, 2),
        arrive(1, 10, 7, 0),
        arrive(2, 20, 7, 0),
        arrive(3, 21, 7, 0),
        depart(3, 30),
        depart(1, 31),
        arrive(1, 50, 7, 0),
        depart(2, 60),
        depart(1, 61),
    ];
    let model = model(&events, 0, true);
    assert_eq!((model.totals().episodes, model.totals().incomplete), (2, 0));
    assert_eq!(model.sites().all()[0].idle.sum(), 11 + 30);
    assert_eq!(model.sites().all()[0].release.sum(), 9 + 10 + 10 + 11);
}

#[test]
fn a_late_team_does_not_count_the_time_before_it_lived() {
    let mut events = vec![thread(1, 0)];
    for team in 0..3u32 {
        let born = u64::from(team) * 10_000;
        events.push(init(1, born, 7, 2));
        for tid in [10 + team * 2, 11 + team * 2] {
            events.push(thread(tid, born + 1));
        }
        for tid in [10 + team * 2, 11 + team * 2] {
            events.push(arrive(tid, born + 100, 7, 0));
            events.push(exit(tid, born + 200));
        }
    }
    events.sort_by_key(|event| match event {
        Event::Exit { clocks, .. } | Event::Arrive { clocks, .. } => clocks.time_ns,
        Event::Init { time_ns, .. } => *time_ns,
        Event::Thread { since, .. } => since.time_ns,
        _ => 0,
    });
    let model = model(&events, 0, false);
    assert_eq!(model.totals().episodes, 3);
    let site = &model.sites().all()[0];
    // The first team's phase includes what the program did before.
    assert_eq!(site.phase.sum(), 100 + 99 + 99);
}

/// The size of the MPI communicator could not be read: the other ranks are unknown.
#[test]
fn a_rank_of_unknown_many_completes_nothing() {
    let arrives = |kind| Event::Arrive {
        tid: 1,
        clocks: Clocks::at(100),
        object: 7,
        kind,
        callers: CallersId(0),
    };
    let counted = |kind| {
        let events = [thread(1, 0), arrives(kind), depart(1, 200), exit(1, 300)];
        let model = model(&events, 0, true);
        let totals = model.totals();
        (totals.episodes, totals.incomplete)
    };
    assert_eq!(counted(Kind::Mpi), (0, 1));
    assert_eq!(counted(Kind::User), (1, 0));
}
