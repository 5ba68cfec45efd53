use super::*;
use crate::report::waits::{HolderReport, WakerReport};

mod stops;

fn place(kind: WaitKind, looks: u64, of: u64) -> WaitPlaceReport {
    WaitPlaceReport {
        kind,
        call: Some("usleep".into()),
        what: None,
        place: "add count.c:31".into(),
        function: Some("add".into()),
        file: Some("count.c".into()),
        line: Some(31),
        callers: vec!["run count.c:50".into()],
        in_library: false,
        in_barrier: false,
        looks,
        share_pct: looks as f64 / of as f64 * 100.0,
        sleeps: None,
        slept_ns: None,
        threads: vec![WaitThreadReport {
            label: "T1".into(),
            tid: 1,
            looks,
            share_pct: 50.0,
            slept_ns: None,
        }],
        objects: 1,
        object: Some("0x10".into()),
        awaited: Vec::new(),
        holders: Vec::new(),
        wakers: Vec::new(),
    }
}

fn holder(label: &str, looks: u64, of: u64) -> HolderReport {
    HolderReport {
        label: label.into(),
        tid: 2,
        looks,
        share_pct: looks as f64 / of as f64 * 100.0,
        kept_ns: None,
        locks_at: Some("add count.c:31".into()),
        asleep_looks: 0,
        asleep_in: None,
    }
}

fn run(places: Vec<WaitPlaceReport>) -> Report {
    let mut report = crate::samples::empty().report;
    report.waits = Some(LooksReport {
        looks: 100,
        thread_looks: 200,
        places,
        ..LooksReport::default()
    });
    report
}

fn of_the_run(report: &Report) -> Vec<VerdictReport> {
    let mut found = Vec::new();
    add(report, &mut found);
    found
}

#[test]
fn a_sleep_for_an_unknown_reason_is_one_for_the_lock() {
    let sleeps = |why: &str| VerdictReport {
        kind: VerdictKind::StragglerBlocked,
        site: None,
        thread: None,
        text: format!("asleep before step a.c:40: … ({why}); …"),
        evidence: std::collections::BTreeMap::new(),
    };
    let unknown = "for input or output, a lock, a page fault or a pause";
    let kinds = |places, why| {
        let mut found = vec![sleeps(why)];
        add(&run(places), &mut found);
        found.iter().map(|verdict| verdict.kind).collect::<Vec<_>>()
    };
    let (lock, pause) = (WaitKind::Mutex, WaitKind::Sleep);
    let lock_only = [VerdictKind::LockContention];
    assert_eq!(kinds(vec![place(lock, 40, 200)], unknown), lock_only);
    assert_eq!(kinds(vec![place(lock, 40, 200)], "in read").len(), 2);
    let mut other = place(pause, 90, 200);
    other.place = "nap a.c:9".into();
    let both = vec![place(lock, 40, 200), other.clone()];
    assert!(kinds(both, unknown).contains(&VerdictKind::StragglerBlocked));
    // Holders of the lock that sleep come last in turns.
    other.share_pct = 21.0;
    let at = other.called();
    let both = vec![place(lock, 40, 200), other];
    assert!(!kinds(both.clone(), unknown).contains(&VerdictKind::StragglerBlocked));
    assert!(!kinds(both.clone(), &at).contains(&VerdictKind::StragglerBlocked));
    assert!(kinds(both, "in read").contains(&VerdictKind::StragglerBlocked));
}

#[test]
fn a_place_is_told_once() {
    let mut report = crate::samples::imbalanced().report;
    let straggler = |text: &str| VerdictReport {
        kind: VerdictKind::StragglerBlocked,
        site: Some(0),
        thread: None,
        text: text.into(),
        evidence: std::collections::BTreeMap::new(),
    };
    for (kind, text, expected) in [
        (
            WaitKind::Mutex,
            "late (for the mutex locked at add count.c:31, by 9 of 9 looks)",
            VerdictKind::LockContention,
        ),
        (
            WaitKind::Sleep,
            "late (in usleep called from add count.c:31, by 9 of 9 looks)",
            VerdictKind::StragglerBlocked,
        ),
    ] {
        report.waits = run(vec![place(kind, 44, 200)]).waits;
        let mut found = vec![straggler(text)];
        add(&report, &mut found);
        let kinds: Vec<_> = found.iter().map(|verdict| verdict.kind).collect();
        assert_eq!(kinds, [expected]);
        let mut other = vec![straggler("late (in read called from f a.c:1)")];
        add(&report, &mut other);
        assert_eq!(other.len(), 2);
    }
}

#[test]
fn a_contended_lock_is_named_with_its_holder() {
    let mut lock = place(WaitKind::Mutex, 44, 200);
    lock.holders = vec![holder("T2", 25, 40), holder("T3", 15, 40)];
    let mut report = run(vec![lock.clone(), place(WaitKind::Condvar, 90, 200)]);
    let all = of_the_run(&report);
    assert_eq!(all.len(), 1);
    assert_eq!(
        all[0].text,
        "contended lock: T1 waits 50 % of its time for the mutex locked at add \
         count.c:31 (44 of 200 looks), held by several threads in turns. Hold it for a shorter \
         time, or give each thread data of its own."
    );
    lock.holders = vec![holder("T2", 36, 40), holder("T3", 4, 40)];
    lock.holders[0].locks_at = Some("save count.c:70".into());
    lock.holders[0].asleep_looks = 30;
    lock.holders[0].asleep_in = Some("fsync called from save count.c:74".into());
    report.waits.as_mut().unwrap().places[0] = lock;
    let text = &of_the_run(&report)[0].text;
    assert!(
        text.contains(
            ", held mostly by T2, which locks it at save count.c:70 (asleep meanwhile in \
             fsync called from save count.c:74). "
        ),
        "{text}"
    );
}

#[test]
fn locks_that_holders_wait_for_are_followed_to_the_last_holder() {
    let mut lock = place(WaitKind::Mutex, 44, 200);
    lock.holders = vec![holder("T2", 22, 40), holder("T3", 18, 40)];
    for holder in &mut lock.holders {
        holder.asleep_looks = holder.looks - 2;
        holder.asleep_in = Some("pthread_mutex_lock called from note log.c:12".into());
    }
    let mut last = place(WaitKind::Mutex, 20, 200);
    last.call = Some("pthread_mutex_lock".into());
    (last.place, last.object) = ("note log.c:12".into(), Some("0x77".into()));
    last.holders = vec![holder("T4", 20, 20)];
    last.holders[0].locks_at = None;
    last.holders[0].asleep_looks = 20;
    last.holders[0].asleep_in = Some("usleep called from flush log.c:24".into());
    let all = of_the_run(&run(vec![lock.clone(), last.clone()]));
    assert!(
        all[0].text.contains(
            ", held by several threads in turns, which wait meanwhile for the mutex locked at note \
             log.c:12, held mostly by T4 (asleep meanwhile in usleep called from flush log.c:24). Hold \
             the last of these locks"
        ),
        "{}",
        all[0].text
    );
    // Most of the time they do something else.
    lock.holders[0].asleep_looks = 1;
    let all = of_the_run(&run(vec![lock, last]));
    assert!(
        all[0].text.contains("Hold it for a shorter time"),
        "{}",
        all[0].text
    );
}

#[test]
fn sums_of_the_kernel_are_told_instead_of_looks() {
    let mut lock = place(WaitKind::Mutex, 2, 200);
    (lock.share_pct, lock.sleeps, lock.slept_ns) = (22.0, Some(1234), Some(626_000_000));
    lock.holders = vec![holder("T2", 0, 1), holder("T3", 0, 1)];
    (lock.holders[0].share_pct, lock.holders[0].kept_ns) = (80.0, Some(500_000_000));
    (lock.holders[1].share_pct, lock.holders[1].kept_ns) = (20.0, Some(126_000_000));
    lock.holders[0].locks_at = None;
    let all = of_the_run(&run(vec![lock.clone()]));
    assert_eq!(
        all[0].text,
        "contended lock: T1 waits 50 % of its time for the mutex locked at add \
         count.c:31 (626 ms in 1234 sleeps), held mostly by T2. Hold it for a shorter time, or \
         give each thread data of its own."
    );
    assert_eq!(all[0].evidence["slept_ns"], Figure::Whole(626_000_000));
    lock.slept_ns = Some(9_000_000);
    assert_eq!(of_the_run(&run(vec![lock])), [], "too short a time");
}

#[test]
fn who_spins_for_a_lock_has_no_more_work() {
    let mut spin = place(WaitKind::Spin, 0, 200);
    (spin.share_pct, spin.sleeps, spin.slept_ns) = (21.0, Some(53), Some(60_000_000));
    spin.callers.clear();
    spin.call = None;
    let shape = |share_pct| VerdictReport {
        kind: VerdictKind::RotatingStraggler,
        site: Some(0),
        thread: None,
        text: String::new(),
        evidence: [("share_pct", Figure::Real(share_pct))].into(),
    };
    let meets = |places| {
        let mut report = crate::samples::imbalanced().report;
        report.waits = run(places).waits;
        report
    };
    let kinds = |places: Vec<WaitPlaceReport>, share_pct| -> Vec<VerdictKind> {
        let mut found = vec![shape(share_pct)];
        add(&meets(places), &mut found);
        found.iter().map(|verdict| verdict.kind).collect()
    };
    let open = of_the_run(&run(vec![spin.clone()]));
    assert_eq!(open[0].kind, VerdictKind::Spinning, "perhaps a barrier");
    assert_eq!(
        open[0].text,
        "spinning: threads spend 21 % of their time in a loop of add count.c:31 that only waits for \
         memory to change (by 53 samples): a lock, a flag or a barrier. Spinning wastes CPU time: wait there for \
         a shorter time, or asleep; if it is a barrier, --barrier watches it."
    );
    assert_eq!(
        of_the_run(&meets(vec![spin.clone()]))[0].text,
        "spinning: threads spin 21 % of their time for a lock or a flag in add count.c:31 (by \
         53 samples). Spinning wastes CPU time: hold the lock for a shorter time, or give each thread \
         data of its own."
    );
    assert_eq!(
        kinds(vec![spin.clone()], 30.0),
        [VerdictKind::LockContention]
    );
    assert_eq!(kinds(vec![spin.clone()], 60.0).len(), 2);
    spin.share_pct = 3.0;
    assert_eq!(kinds(vec![spin], 30.0), [VerdictKind::RotatingStraggler]);
}

#[test]
fn functions_that_get_a_lock_are_told_without_barriers_too() {
    let mut spin = place(WaitKind::Spin, 0, 200);
    (spin.share_pct, spin.sleeps, spin.slept_ns) = (21.0, Some(53), Some(60_000_000));
    spin.callers.clear();
    let mut told = |call: &str| {
        spin.call = Some(call.into());
        of_the_run(&run(vec![spin.clone()]))[0].text.clone()
    };
    assert_eq!(
        told("GOMP_critical_name_start"),
        "costly lock: threads need 21 % of their time to get the omp critical section at add \
         count.c:31, without sleeping (by 53 samples). Do less in it, or use a reduction, `omp \
         atomic` or critical sections with different names."
    );
    let lock = told("pthread_spin_lock");
    assert!(
        lock.contains("the lock at add count.c:31 (pthread_spin_lock), without"),
        "{lock}"
    );
    let turn = told("__kmpc_ordered");
    assert!(
        turn.contains("the turn in the ordered part at add count.c:31, without"),
        "{turn}"
    );
}

#[test]
fn ranks_that_spin_for_others_are_told_by_the_function() {
    let mut spin = place(WaitKind::Spin, 0, 200);
    // Threads of the library that sleep make the share of all small.
    (spin.share_pct, spin.sleeps, spin.slept_ns) = (4.0, Some(53), Some(60_000_000));
    spin.callers.clear();
    spin.call = Some("MPI_Bcast".into());
    let row = spin.threads[0].clone();
    let shares = |shares: &[f64]| {
        let rows = (0..).zip(shares);
        let rows = rows.map(|(number, share)| WaitThreadReport {
            label: format!("{number}.0"),
            share_pct: *share,
            ..row.clone()
        });
        rows.collect::<Vec<_>>()
    };
    let mut told = |by: &[f64]| {
        spin.threads = shares(by);
        of_the_run(&run(vec![spin.clone()]))
    };
    let [verdict] = &told(&[4.0, 58.0])[..] else {
        panic!();
    };
    assert_eq!(verdict.kind, VerdictKind::WaitsForRanks);
    assert_eq!(
        verdict.text,
        "waits for ranks: in MPI_Bcast at add count.c:31 threads wait for other ranks or exchange data \
         with them: 1.0 58 %, 0.0 4 % of their time (by 53 samples). Give less work before that to the \
         rank for which they wait, or let them go on meanwhile (calls that do not wait, as MPI_Irecv or \
         MPI_Ibcast)."
    );
    let many = told(&[20.0, 30.0, 40.0, 50.0])[0].text.clone();
    assert!(
        many.contains("3.0 50 %, 2.0 40 %, 1.0 30 % and others"),
        "{many}"
    );
    assert_eq!(told(&[8.0, 9.0]), [], "to exchange data takes time, too");
}

#[test]
fn the_lines_at_which_one_lock_is_taken_count_together() {
    let one = place(WaitKind::Mutex, 6, 200);
    let mut other = place(WaitKind::Mutex, 5, 200);
    other.place = "take count.c:44".into();
    let report = run(vec![one.clone(), other.clone()]);
    let all = of_the_run(&report);
    assert!(
        all[0]
            .text
            .contains("count.c:31 and at take count.c:44 (11 of 200")
    );
    other.object = Some("0x20".into());
    assert_eq!(of_the_run(&run(vec![one, other])), [], "each has few looks");
}

#[test]
fn few_looks_and_small_shares_say_nothing() {
    for (looks, of) in [(7, 20), (30, 2000)] {
        let report = run(vec![place(WaitKind::Mutex, looks, of)]);
        assert_eq!(of_the_run(&report), []);
    }
    let mut inside = place(WaitKind::Mutex, 44, 200);
    inside.in_barrier = true;
    assert_eq!(of_the_run(&run(vec![inside])), []);
    assert_eq!(of_the_run(&run(Vec::new())), []);
}

#[test]
fn sleep_is_a_fault_only_where_threads_meet() {
    let report = run(vec![place(WaitKind::Sleep, 44, 200)]);
    assert_eq!(of_the_run(&report), [], "a server may sleep");
    let mut meets = crate::samples::imbalanced().report;
    meets.waits = report.waits;
    let all = of_the_run(&meets);
    assert_eq!(
        all[0].text,
        "asleep in the work: 22 % of thread time (44 of 200 looks) goes by in usleep called \
         from add count.c:31 (T1). Remove that sleep unless it keeps a rate, or wait for the event itself."
    );
    // Nobody can mend a call of a library.
    meets.waits.as_mut().unwrap().places[0].in_library = true;
    assert_eq!(of_the_run(&meets), []);
}

#[test]
fn a_semaphore_is_contended_if_its_waiters_post_it() {
    let waker = |tid| WakerReport {
        label: format!("T{tid}"),
        tid,
        woken_ns: 900_000_000,
    };
    let told_in = |function: &str,
                   objects,
                   waiters: std::ops::RangeInclusive<u32>,
                   posted_by: &[u32],
                   share_pct| {
        let mut pool = place(WaitKind::Semaphore, 90, 200);
        pool.objects = objects;
        pool.function = Some(function.into());
        pool.share_pct = share_pct;
        pool.wakers = posted_by.iter().map(|tid| waker(*tid)).collect();
        let row = pool.threads[0].clone();
        pool.threads = waiters
            .map(|tid| WaitThreadReport { tid, ..row.clone() })
            .collect();
        of_the_run(&run(vec![pool]))
    };
    let told_of = |objects, waiters, posted_by: &[u32], share_pct| {
        told_in("add", objects, waiters, posted_by, share_pct)
    };
    let told = |posted_by: &[u32], share_pct| told_of(1, 2..=4, posted_by, share_pct);
    assert_eq!(
        told_of(4, 1..=4, &[2, 3, 4], 45.0),
        [],
        "they may hand work on"
    );
    // Locks of an interpreter are many semaphores at one place.
    let many =
        |posted_by: &[u32]| told_in("PyThread_acquire_lock_timed", 4, 1..=4, posted_by, 45.0);
    let found = many(&[2, 3, 4]);
    assert!(
        found[0]
            .text
            .starts_with("contended lock: threads wait 45 % of their time for 4 semaphores"),
        "{found:?}"
    );
    assert_eq!(many(&[2, 3]), [], "they may work in turns");
    let found = told(&[2, 3, 4], 45.0);
    assert_eq!(found[0].kind, VerdictKind::LockContention);
    assert_eq!(
        found[0].text,
        "waits at a semaphore: threads wait 45 % of their time for a semaphore at add count.c:31 (90 of 200 \
         looks), until one of themselves posts it. If it lets a few in at a time, let more in, if what it \
         guards allows that, or do less while in. If all meet there, as at a barrier, divide the work before \
         it more evenly."
    );
    let contended = "contended semaphore: threads wait 45 % of their time for a semaphore at add count.c:31 (90 \
                     of 200 looks), until one of themselves posts it: as many are in as it lets in. Let more in, \
                     if what it guards allows that, or do less while in.";
    // Two threads keep each other out.
    assert_eq!(told_of(1, 2..=3, &[2, 3], 45.0)[0].text, contended);
    // At a barrier only the last to come may post.
    let found = told_of(1, 1..=4, &[2, 3], 45.0);
    assert!(found[0].text.starts_with("waits at a semaphore: "));
    assert_eq!(told(&[1, 2], 45.0), [], "it brings work");
    assert_eq!(told(&[], 45.0), [], "who posts it is not known");
    assert_eq!(told(&[2, 3], 4.0), [], "it costs little");
}

#[test]
fn holders_that_take_turns_sleep_at_one_place() {
    let mut lock = place(WaitKind::Mutex, 44, 200);
    lock.holders = vec![holder("T2", 20, 40), holder("T3", 20, 40)];
    for holder in &mut lock.holders {
        holder.asleep_looks = 15;
        holder.asleep_in = Some("fdatasync called from append log.c:12".into());
    }
    let text = &of_the_run(&run(vec![lock.clone()]))[0].text;
    let held = "held by several threads in turns (asleep meanwhile in fdatasync called from append \
                log.c:12). ";
    assert!(text.contains(held), "{text}");
    lock.holders[1].asleep_in = Some("read called from load log.c:20".into());
    let text = &of_the_run(&run(vec![lock]))[0].text;
    assert!(!text.contains("asleep"), "{text}");
}

#[test]
fn a_writer_that_readers_keep_waiting_is_told_with_its_own_place() {
    let part = |tid: u32, share_pct| WaitThreadReport {
        label: format!("T{tid}"),
        tid,
        looks: 20,
        share_pct,
        slept_ns: Some(20_000_000),
    };
    let mut write = place(WaitKind::RwLock, 60, 200);
    write.call = Some("pthread_rwlock_wrlock".into());
    write.threads = vec![part(1, 49.0)];
    write.holders = vec![holder("T2", 25, 40)];
    let mut read = place(WaitKind::RwLock, 6, 200);
    read.call = Some("pthread_rwlock_rdlock".into());
    read.place = "query count.c:8".into();
    read.threads = vec![part(2, 3.0), part(3, 4.0)];
    let told = |places: &[&WaitPlaceReport]| {
        let places = places.iter().map(|place| (*place).clone());
        of_the_run(&run(places.collect()))[0].text.clone()
    };
    assert_eq!(
        told(&[&write, &read]),
        "contended lock: T1 waits 49 % of the time to write, for the read-write lock at add count.c:31 \
         (60 of 200 looks), while others hold it to read and hardly wait. Hold it for a shorter time to \
         read, or take a lock that lets writers in first (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)."
    );
    // All wait alike.
    read.threads = vec![part(2, 40.0), part(3, 40.0)];
    assert!(told(&[&write, &read]).contains("threads wait 33 % of their time"));
    // One thread waits, and not where others do.
    let mut lock = place(WaitKind::Mutex, 60, 200);
    lock.threads = vec![WaitThreadReport {
        slept_ns: Some(550_000_000),
        ..part(1, 49.0)
    }];
    let mut other = lock.clone();
    other.place = "other count.c:9".into();
    other.threads = vec![WaitThreadReport {
        slept_ns: Some(2_000_000),
        ..part(2, 3.0)
    }];
    let text = told(&[&lock, &other]);
    assert!(
        text.contains("T1 waits 49 %") && !text.contains("other"),
        "{text}"
    );
}

#[test]
fn who_waits_where_all_cpus_are_wanted_loses_nothing() {
    let told = |running_ms: u64| {
        let mut meets = crate::samples::imbalanced().report;
        meets.run.cpus = Some(2);
        meets.waits = run(vec![place(WaitKind::Condvar, 90, 200)]).waits;
        let waits = meets.waits.as_mut().unwrap();
        waits.span_ns = 1_000_000_000;
        waits.threads =
            vec![crate::verdict::tests::pace::thread(1, "w", running_ms, running_ms); 2];
        of_the_run(&meets).len()
    };
    assert_eq!((told(400), told(500)), (1, 0));
}

#[test]
fn who_wakes_those_that_wait_for_news_is_told() {
    let mut news = place(WaitKind::Condvar, 90, 200);
    let waker = |label: &str, woken_ns| WakerReport {
        label: label.into(),
        tid: 3,
        woken_ns,
    };
    let told = |place: &WaitPlaceReport| {
        let mut meets = crate::samples::imbalanced().report;
        meets.waits = run(vec![place.clone()]).waits;
        of_the_run(&meets)[0].text.clone()
    };
    news.wakers = vec![waker("T3", 800), waker("T2", 90)];
    assert!(told(&news).contains("count.c:31 (T1), woken mostly by T3. Let"));
    news.wakers[1].woken_ns = 801;
    assert!(told(&news).contains("count.c:31 (T1). Let"));
}

#[test]
fn who_never_comes_to_the_site_does_not_hide_where_its_threads_sleep() {
    let mut meets = crate::samples::imbalanced().report;
    let tid_of_t1 = meets.thread(1).unwrap().tid;
    let mut pause = place(WaitKind::Sleep, 40, 200);
    pause.threads[0].tid = tid_of_t1;
    let mut join = place(WaitKind::Join, 100, 200);
    join.threads[0].tid = u32::MAX;
    meets.waits = run(vec![join, pause]).waits;
    let told = |thread| of_the_last(&meets, &meets.sites[0], thread, 0.0);
    let (text, _) = told(None).unwrap();
    assert_eq!(
        text,
        "in usleep called from add count.c:31, by 40 of 40 looks"
    );
    assert!(told(Some(1)).is_some());
    assert_eq!(told(Some(0)), None, "another thread");
    let long = of_the_last(&meets, &meets.sites[0], None, 1e12);
    assert_eq!(long, None, "they slept much longer than that");
    // Of threads any of which may be last, the one that sleeps there is named.
    let mut exact = meets.clone();
    for place in &mut exact.waits.as_mut().unwrap().places {
        place.slept_ns = Some(400_000_000);
        place.threads[0].slept_ns = Some(400_000_000);
    }
    let told = |thread| of_the_last(&exact, &exact.sites[0], thread, 0.0).unwrap().0;
    assert!(told(None).contains("add count.c:31 (T1"), "{}", told(None));
    assert!(!told(Some(1)).contains("(T1"), "{}", told(Some(1)));
}

#[test]
fn beside_a_hang_no_lock_is_held_for_too_long() {
    let mut report = run(vec![place(WaitKind::Mutex, 44, 200)]);
    assert_eq!(of_the_run(&report).len(), 1);
    report.run.hang = crate::samples::hung().report.run.hang;
    assert_eq!(of_the_run(&report), []);
}
