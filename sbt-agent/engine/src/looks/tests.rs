use super::*;

const MS: u64 = 1_000_000;

const fn who(thread: u32) -> ThreadId {
    ThreadId { process: 7, thread }
}

fn wait(kind: Kind, line: u32) -> Wait {
    Wait {
        process: 7,
        kind,
        call: None,
        what: None,
        object: Some(0x1000),
        awaits: None,
        stack: vec![CodePlace {
            function: Some("add".into()),
            file: Some("/src/count.c".into()),
            line: Some(line),
            ..CodePlace::default()
        }],
        in_library: false,
    }
}

fn glimpse(time_ns: u64, wait: Option<WaitNumber>) -> Glimpse {
    Glimpse {
        time_ns,
        ran_ns: Some(time_ns / 2),
        ready_ns: Some(0),
        asleep: wait.is_some(),
        wait,
    }
}

#[test]
fn looks_are_counted_by_thread_and_wait_and_holder() {
    let mut tally = Tally::default();
    let mutex = tally.number(wait(Kind::Mutex, 31)).unwrap();
    let sleep = tally.number(wait(Kind::Sleep, 40)).unwrap();
    assert_eq!(tally.number(wait(Kind::Mutex, 31)), Some(mutex));
    for look in 1..=10 {
        let now_ns = look * 10 * MS;
        tally.look(now_ns);
        tally.thread(who(1), Birth::default(), glimpse(now_ns, Some(mutex)));
        tally.holds(mutex, who(2), (look % 2 == 0).then_some(sleep));
        let other = (look % 2 == 0).then_some(sleep);
        tally.thread(who(2), Birth::default(), glimpse(now_ns, other));
    }
    tally.name(who(2), "worker");
    let found = tally.found(5, None);
    assert_eq!((found.looks, found.span_ns, found.cpu_ns), (10, 90 * MS, 5));
    let [one, two] = found.threads.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((one.looks, one.asleep, two.asleep), (10, 10, 5));
    assert_eq!((two.name.as_str(), two.ran_ns), ("worker", Some(50 * MS)));
    assert_eq!(two.lived_ns, 100 * MS);
    assert_eq!(found.waits[0].threads, [(who(1), 10)]);
    let holders = found.waits[0].holders.iter();
    let holders: Vec<_> = holders
        .map(|holder| (holder.who, holder.looks, holder.meanwhile.is_some()))
        .collect();
    assert_eq!(holders, [(who(2), 5, false), (who(2), 5, true)]);
    assert_eq!(found.waits[1].looks(), 5);
}

#[test]
fn counts_begin_anew_after_a_reset() {
    let mut tally = Tally::default();
    let mutex = tally.number(wait(Kind::Mutex, 31));
    tally.look(10 * MS);
    tally.thread(who(1), Birth::default(), glimpse(10 * MS, mutex));
    tally.reset(20 * MS);
    assert_eq!(tally.found(0, None), Found::default());
    tally.look(30 * MS);
    tally.thread(who(1), Birth::default(), glimpse(30 * MS, None));
    let found = tally.found(0, None);
    assert_eq!(found.threads[0].lived_ns, 10 * MS);
    assert_eq!(found.threads[0].ran_ns, Some(10 * MS));
    assert_eq!(found.waits, []);
}

#[test]
fn memory_is_bounded() {
    let mut tally = Tally::default();
    let mut unkept = 0;
    for line in 0..10_000 {
        unkept += u32::from(tally.number(wait(Kind::Sleep, line)).is_none());
        tally.thread(who(line), Birth::default(), glimpse(MS, None));
    }
    assert_eq!(unkept, 10_000 - 4096);
    assert_eq!(tally.found(0, None).threads.len(), 4096);
    assert_eq!(tally.found(0, None).dropped, 10_000 - 4096);
}

#[test]
fn a_program_that_a_signal_stops_is_told_from_a_sleeper() {
    let mut tally = Tally::default();
    for (at_ms, is_stopped) in [
        (0, false),
        (10, true),
        (20, true),
        (30, true),
        (40, false),
        (50, true),
        // The program may have gone on between looks that are far apart.
        (550, true),
    ] {
        tally.stands(at_ms * MS, is_stopped);
    }
    let stopped = tally.found(1, None).stopped;
    assert_eq!((stopped.times, stopped.total_ns), (2, 20 * MS));
    assert_eq!(stopped.at_most_ns, 550 * MS);
}

#[test]
fn sums_are_divided_by_samples_then_by_those_of_others_then_by_looks() {
    use sums::{Key, Sum, Sums};
    let mut tally = Tally::default();
    let at = |tally: &mut Tally, line| tally.number(wait(Kind::Mutex, line)).unwrap();
    let (here, there) = (at(&mut tally, 31), at(&mut tally, 40));
    let key = |thread, object| Key {
        who: who(thread),
        object,
        call: 202,
    };
    let sum = |total_ns| Sum {
        times: 40,
        total_ns,
        max_ns: 9,
        wakers: vec![(who(2), total_ns)],
    };
    tally.sampled(key(1, 0x1000), here, 3 * MS);
    tally.sampled(key(1, 0x1000), there, MS);
    tally.look(MS);
    tally.thread(who(3), Birth::default(), glimpse(MS, Some(there)));
    let sums = Sums {
        all: vec![
            (key(1, 0x1000), sum(400 * MS)),
            (key(2, 0x1000), sum(40 * MS)),
            (key(3, 0x2000), sum(7 * MS)),
            (key(3, 0), sum(5 * MS)),
        ],
        watched_ns: MS,
        span_ns: MS,
        missed: 0,
    };
    let found = tally.found(0, Some(&sums));
    let summed = found.sums.unwrap();
    assert_eq!((summed.times, summed.unplaced_ns), (160, 12 * MS));
    let [first, second] = found.waits.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((first.slept_ns(), second.slept_ns()), (330 * MS, 110 * MS));
    let times: Vec<u64> = first.sleeps.iter().map(|slept| slept.times).collect();
    assert_eq!(times, [30, 30]);
    assert_eq!(first.wakers, [(who(2), 330 * MS)]);
    let of_each: Vec<_> = first
        .sleeps
        .iter()
        .map(|slept| slept.wakers.as_slice())
        .collect();
    assert_eq!(of_each, [[(who(2), 300 * MS)], [(who(2), 30 * MS)]]);
    // Without samples a look tells where the thread sleeps.
    let of_looked = Sums {
        all: vec![(key(3, 0x1000), sum(8 * MS))],
        ..sums
    };
    let mut tally = Tally::default();
    let there = at(&mut tally, 40);
    tally.look(MS);
    tally.saw_asleep(key(3, 0x1000), there);
    tally.thread(who(3), Birth::default(), glimpse(MS, Some(there)));
    assert_eq!(tally.found(0, Some(&of_looked)).waits[0].slept_ns(), 8 * MS);
}

#[test]
fn looks_at_a_thread_that_is_alone_are_counted_until_counts_begin_anew() {
    let mut tally = Tally::default();
    tally.thread(who(1), Birth::default(), glimpse(MS, None));
    let join = tally.number(wait(Kind::Join, 9)).unwrap();
    let queue = tally.number(wait(Kind::Condvar, 7)).unwrap();
    let awake = (who(1), Birth::default(), glimpse(MS, None));
    let asleep = |wait| (who(2), Birth::default(), glimpse(MS, Some(wait)));
    for seen in [
        &[awake, asleep(join)][..],
        // Not alone: the other waits for work, or works too; or nobody works.
        &[awake, asleep(queue)],
        &[awake, (who(2), Birth::default(), glimpse(MS, None))],
        &[asleep(join)],
    ] {
        tally.alone(seen);
    }
    let alone = |tally: &Tally| tally.found(0, None).threads[0].alone;
    assert_eq!(alone(&tally), 1);
    tally.reset(MS);
    tally.thread(who(1), Birth::default(), glimpse(2 * MS, None));
    assert_eq!(alone(&tally), 0);
}
