use super::*;
use crate::event::Taker;

fn away(from_ns: u64, until_ns: u64, ready_ns: u64, why: LeftCpu) -> Away {
    Away {
        from_ns: Some(from_ns),
        until_ns,
        ready_ns,
        why,
        seamless: true,
    }
}

fn slept(from_ns: u64, until_ns: u64, ready_ns: u64, reason: Reason) -> Away {
    away(from_ns, until_ns, ready_ns, LeftCpu::Asleep(reason))
}

fn taken(name: &str, process: u32, ns: u64) -> Taken {
    Taken {
        by: Taker::Other,
        process,
        name: name.into(),
        ns,
    }
}

fn asleep(work: &Work) -> Vec<(Reason, u64)> {
    let all = Reason::ALL.into_iter().zip(work.asleep);
    all.filter(|(_, ns)| *ns > 0).collect()
}

#[test]
fn what_lies_in_the_work_is_summed_by_reason() {
    let mut tracks = Tracks::default();
    for away in [
        // Half of the time is before the work begins: asleep until 90, ready until 120.
        slept(50, 120, 30, Reason::Futex),
        slept(200, 300, 10, Reason::File),
        slept(300, 310, 0, Reason::File),
        away(400, 430, 30, LeftCpu::Ready),
    ] {
        tracks.back(7, &away, &[]);
    }
    let work = tracks.end(7, Some(80), 500).unwrap();
    assert_eq!(
        asleep(&work),
        [(Reason::Futex, 10), (Reason::File, 90 + 10)]
    );
    assert_eq!(work.ready_ns, 30 + 10 + 30);
    let off = [(80, 120), (200, 300), (300, 310), (400, 430)];
    assert_eq!(work.off((80, 430)).collect::<Vec<_>>(), off);
    // Nothing of it counts for the next work.
    let work = tracks.end(7, Some(500), 600).unwrap();
    assert_eq!(
        (asleep(&work), work.spans.as_deref()),
        (vec![], Some(&[][..]))
    );
}

#[test]
fn what_was_before_the_departure_does_not_count() {
    let mut tracks = Tracks::default();
    let other = [taken("cc1", 5, 10)];
    tracks.back(7, &slept(50, 120, 30, Reason::Futex), &other);
    tracks.forget(7);
    tracks.back(7, &slept(130, 140, 0, Reason::Sleep), &[]);
    let work = tracks.end(7, Some(121), 200).unwrap();
    assert_eq!(asleep(&work), [(Reason::Sleep, 10)]);
    assert_eq!(work.takers, Takers::default());
    // Where departures are not watched, the takers count by the latest absence.
    tracks.back(7, &slept(210, 220, 5, Reason::Futex), &other);
    let work = tracks.end(7, Some(220), 300).unwrap();
    assert_eq!(work.takers, Takers::default());
}

#[test]
fn a_lost_return_makes_one_work_unknown() {
    let mut tracks = Tracks::default();
    let lost = Away {
        seamless: false,
        ..slept(20, 30, 0, Reason::Sleep)
    };
    tracks.back(7, &lost, &[]);
    assert_eq!(tracks.end(7, Some(10), 100), None);
    assert!(tracks.end(7, Some(110), 200).is_some());
    assert_eq!(tracks.end(7, None, 300), None);
}

#[test]
fn a_thread_that_begins_inherits_nothing() {
    let mut tracks = Tracks::default();
    tracks.back(7, &slept(20, 30, 0, Reason::Sleep), &[]);
    let born = Away {
        from_ns: None,
        ..slept(0, 60, 5, Reason::Other)
    };
    tracks.back(7, &born, &[]);
    let work = tracks.end(7, Some(50), 100).unwrap();
    assert_eq!(
        (asleep(&work), work.ready_ns),
        (vec![(Reason::Other, 5)], 5)
    );
}

#[test]
fn memory_is_bounded_and_sums_stay() {
    let mut tracks = Tracks::default();
    let many = 10 * MAX_SPANS as u64;
    for at in 0..many {
        let away = slept(10 * at, 10 * at + 3, 1, Reason::Stream);
        tracks.back(7, &away, &[]);
    }
    assert_eq!(tracks.kept, MAX_SPANS);
    let work = tracks.end(7, Some(0), 10 * many).unwrap();
    assert_eq!(asleep(&work), [(Reason::Stream, 2 * many)]);
    assert_eq!((work.ready_ns, &work.spans), (many, &None));
    assert_eq!(tracks.kept, 0);
}

#[test]
fn takers_of_one_name_are_one_and_few_are_kept() {
    let mut takers = Takers::default();
    for process in 0..100 {
        takers.add(&taken("cc1", process, 10));
    }
    takers.add(&taken("make", 3, 7));
    for number in 0..40 {
        takers.add(&taken(&format!("t{number}"), number, 1));
    }
    takers.add(&taken("late", 9, 500));
    let (most, rest_ns) = takers.most();
    let most: Vec<_> = most
        .iter()
        .map(|taken| (&*taken.name, taken.process, taken.ns))
        .collect();
    assert_eq!(
        most[..3],
        [("cc1", 0, 1000), ("late", 9, 500), ("make", 3, 7)]
    );
    assert_eq!(most.len(), MAX_TAKERS);
    let kept: u64 = most.iter().map(|(_, _, ns)| ns).sum();
    assert_eq!(kept + rest_ns, 1000 + 7 + 40 + 500);
}

#[test]
fn the_last_is_compared_with_the_mean_of_the_others() {
    let of = |ns: u64| {
        let mut work = Work::default();
        work.asleep[Reason::File as usize] = ns;
        work
    };
    let all = [of(10), of(30), of(100)];
    let mut late = Late::default();
    for _ in 0..2 {
        late.add(&all[2], all.iter());
    }
    let file = Reason::File as usize;
    assert_eq!((late.episodes, late.last[file]), (2, 200));
    assert!((late.others[file] - 40.0).abs() < 1e-9);
}

/// A thread that is kept waiting before a parallel region sleeps there through no fault of its own.
#[test]
fn what_lies_before_a_moment_is_left_out() {
    let mut tracks = Tracks::default();
    for away in [
        slept(100, 200, 10, Reason::Futex),
        slept(300, 400, 0, Reason::File),
    ] {
        tracks.back(7, &away, &[]);
    }
    let work = tracks.end(7, Some(50), 500).unwrap();
    let later = work.since(150).unwrap();
    assert_eq!(asleep(&later), [(Reason::Futex, 40), (Reason::File, 100)]);
    assert_eq!(later.ready_ns, 10);
    assert_eq!(
        work.off((150, 350)).collect::<Vec<_>>(),
        [(150, 200), (300, 350)]
    );
    let unknown = Work::default();
    assert_eq!(unknown.since(0), None);
}
