//! Verdicts by looks at sleeping threads: the lock for which threads wait, and where they sleep in
//! their work. They need no straggler: all threads may be equally slow.

use super::{
    explained, late,
    words::{Cost, who},
};
use crate::{
    looks::FEW,
    report::{
        Figure, Report, SiteReport, StragglerPattern, VerdictKind, VerdictReport, WORTH, WaitKind,
        waits::{HolderReport, LookedThreadReport, LooksReport, WaitPlaceReport, WaitThreadReport},
    },
    words::time,
};

/// A holder is worth naming from this percentage of the looks on, and so is what it did meanwhile.
const MOSTLY: f64 = 50.0;

/// Adds the verdicts by looks, one for each lock and each place of sleep that costs enough. A place is
/// told once: a straggler that waits for a lock is told with the lock, and one that sleeps is not
/// told again. `found`: the verdicts so far.
pub fn add(report: &Report, found: &mut Vec<VerdictReport>) {
    let Some(looks) = &report.waits else {
        return;
    };
    let says = |verdict: &VerdictReport, place: &WaitPlaceReport| {
        verdict.kind == VerdictKind::StragglerBlocked && verdict.text.contains(&place.called())
    };
    let asleep = looks.in_the_work().filter(|place| !place.spins());
    let asleep_pct: f64 = asleep.map(|place| place.share_pct).sum();
    let mut by_looks = Vec::new();
    for (verdict, places) in locks(looks) {
        // A sleep of which only that is known is one for the lock, if most sleep in the work is.
        let is_most = share(&places) >= MOSTLY / 100.0 * asleep_pct;
        let is_told = |other: &VerdictReport| {
            places.iter().any(|place| says(other, place)) || is_most && late::may_be_lock(other)
        };
        found.retain(|other| !is_told(other));
        by_looks.push(verdict);
    }
    // Without barriers a loop that only waits may be one.
    let spins = if report.sites.is_empty() {
        Vec::new()
    } else {
        spins(looks)
    };
    for (verdict, share_pct) in spins {
        // Who spins for a lock is late for the lock, and has no more work than others.
        found.retain(|other| !(is_of_work(other.kind) && explained(other) <= 2.0 * share_pct));
        by_looks.push(verdict);
    }
    // Without barriers it is not known what a thread waits for by sleeping, or who waits for it.
    if !report.sites.is_empty() {
        let is_said = |place: &WaitPlaceReport| {
            found.iter().any(|verdict| says(verdict, place)) || is_of_holder(looks, place)
        };
        by_looks.extend(sleeps(looks, is_said));
    }
    found.extend(by_looks);
}

/// Percentage of the threads' time from which spinning is told.
const SPINS: f64 = 5.0;

/// Verdicts on loops in which threads spin for a lock or a flag, with their shares of the time.
fn spins(looks: &LooksReport) -> Vec<(VerdictReport, f64)> {
    let spun = looks.in_the_work().filter(|place| {
        let samples = place.sleeps.unwrap_or(0);
        place.kind == WaitKind::Spin && samples >= FEW && place.share_pct >= SPINS
    });
    spun.map(|place| {
        let share_pct = place.share_pct;
        let samples = place.sleeps.unwrap_or(0);
        let text = format!(
            "spinning: threads spin {share_pct:.0} % of their time for {} (by {samples} samples). \
             That is no work: hold the lock for a shorter time, or give each thread data of its own.",
            place.called()
        );
        let verdict = VerdictReport {
            kind: VerdictKind::LockContention,
            site: None,
            thread: None,
            text,
            evidence: [
                ("share_pct", Figure::Real(share_pct)),
                ("samples", Figure::Whole(samples)),
                ("spun_ns", Figure::Whole(place.slept_ns.unwrap_or(0))),
            ]
            .into(),
        };
        (verdict, share_pct)
    })
    .collect()
}

/// Whether a verdict says that a thread has more work than others.
const fn is_of_work(kind: VerdictKind) -> bool {
    matches!(
        kind,
        VerdictKind::SerialPhase
            | VerdictKind::GrowingImbalance
            | VerdictKind::PersistentStraggler
            | VerdictKind::AlternatingStragglers
            | VerdictKind::RotatingStraggler
            | VerdictKind::StragglerAtManySites
            | VerdictKind::StragglerExecutesMore
    )
}

/// Whether a verdict tells where threads sleep in their work, by looks.
pub fn tells_of_sleep(verdict: &VerdictReport) -> bool {
    let kinds = [VerdictKind::LockContention, VerdictKind::AsleepInTheWork];
    kinds.contains(&verdict.kind) && verdict.evidence.contains_key("looks")
}

fn is_worth(places: &[&WaitPlaceReport]) -> bool {
    let looks: u64 = places.iter().map(|place| place.looks).sum();
    let is_known = slept_ns(places) >= LEAST_NS || looks >= FEW;
    is_known && share(places) >= WORTH
}

/// Less sleep than this, ns, is no verdict: a short run has some at its start.
const LEAST_NS: u64 = 20_000_000;

/// How long threads slept at places, by the kernel's sums, ns.
fn slept_ns(places: &[&WaitPlaceReport]) -> u64 {
    places.iter().filter_map(|place| place.slept_ns).sum()
}

fn share(places: &[&WaitPlaceReport]) -> f64 {
    places.iter().map(|place| place.share_pct).sum()
}

/// `(1.2 s in 3400 sleeps)`, or `(41 of 186 looks)`.
fn counted(looks: &LooksReport, share_pct: f64, places: &[&WaitPlaceReport]) -> String {
    let sleeps: u64 = places.iter().filter_map(|place| place.sleeps).sum();
    if sleeps > 0 {
        let plural = if sleeps == 1 { "" } else { "s" };
        return format!("({} in {sleeps} sleep{plural})", time(slept_ns(places)));
    }
    let of = looks.thread_looks;
    let share = super::words::whole(share_pct / 100.0 * of as f64);
    format!("({share} of {of} looks)")
}

/// Whether one thread keeps others out there.
const fn is_lock(kind: WaitKind) -> bool {
    matches!(
        kind,
        WaitKind::Mutex
            | WaitKind::RwLock
            | WaitKind::Critical
            | WaitKind::OmpLock
            | WaitKind::Allocator
            | WaitKind::Interpreter
    )
}

/// A verdict on each contended lock, with the places where threads wait for the lock.
fn locks(looks: &LooksReport) -> Vec<(VerdictReport, Vec<&WaitPlaceReport>)> {
    let mut left: Vec<&WaitPlaceReport> = looks
        .in_the_work()
        .filter(|place| is_lock(place.kind))
        .collect();
    let mut found = Vec::new();
    while !left.is_empty() {
        let first = left.remove(0);
        let is_same = |place: &WaitPlaceReport| {
            place.kind == first.kind
                && (is_of_library(first.kind)
                    || first.object.is_some() && place.object == first.object)
        };
        let (mut same, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|place| is_same(place));
        left = others;
        same.insert(0, first);
        if is_worth(&same) && share(&same) >= least_of_lock(looks) {
            found.push((lock(looks, &same), same));
        }
    }
    found
}

/// The share from which a lock is contended. Where threads often have no CPU, the holder may lack
/// one: then others wait for locks that are held briefly.
fn least_of_lock(looks: &LooksReport) -> f64 {
    let sum = |f: fn(&LookedThreadReport) -> u64| looks.threads.iter().map(f).sum::<u64>() as f64;
    let ready = sum(|thread| thread.ready_ns.unwrap_or(0));
    let ran = sum(|thread| thread.running_ns.unwrap_or(0));
    if ready > ran { 2.0 * WORTH } else { WORTH }
}

/// Whether a lock belongs to a library, so that the place of the wait does not tell the lock.
const fn is_of_library(kind: WaitKind) -> bool {
    matches!(kind, WaitKind::Allocator | WaitKind::Interpreter)
}

/// A verdict on a lock. `places`: where threads wait for it, most looks first; at least one.
fn lock(looks: &LooksReport, places: &[&WaitPlaceReport]) -> VerdictReport {
    let first = places[0];
    let share_pct = share(places);
    let more = match places.len() {
        1 => String::new(),
        2 => " and one other place".into(),
        several => format!(" and {} other places", several - 1),
    };
    let which = format!("{}{more}", first.called());
    let held = held(first);
    let text = format!(
        "contended lock: threads wait {share_pct:.0} % of their time for {which} {}{held}. {}.",
        counted(looks, share_pct, places),
        advice(first.kind)
    );
    VerdictReport {
        kind: VerdictKind::LockContention,
        site: None,
        thread: None,
        text,
        evidence: evidence(looks, share_pct, places),
    }
}

/// The holder of a lock, in words.
fn held(place: &WaitPlaceReport) -> String {
    let Some(first) = place.holders.first().filter(|_| place.knows_holders()) else {
        return String::new();
    };
    if first.share_pct < MOSTLY || place.holders.len() > 1 && in_turns(place) {
        return ", held by several threads in turns".into();
    }
    format!(", held mostly by {}{}", first.label, does(first, place))
}

/// Whether the waiting threads are also the holders, none much more often than the others.
fn in_turns(place: &WaitPlaceReport) -> bool {
    let fair = 100.0 / place.holders.len() as f64;
    place.holders[0].share_pct < 1.5 * fair
}

/// Whether holders of a contended lock sleep at a place: that is told with the lock.
fn is_of_holder(looks: &LooksReport, place: &WaitPlaceReport) -> bool {
    let called = place.called();
    let contended = looks
        .in_the_work()
        .filter(|lock| is_lock(lock.kind) && is_worth(&[lock]));
    let mut holders = contended.flat_map(|lock| &lock.holders);
    holders.any(|holder| {
        let asleep = holder.asleep_in.as_ref();
        asleep.is_some_and(|asleep| called.starts_with(asleep.as_str()))
    })
}

/// Where a holder locks, and what it does meanwhile.
fn does(holder: &HolderReport, place: &WaitPlaceReport) -> String {
    let locks_at = holder.locks_at.as_ref().filter(|at| **at != place.place);
    let locks_at = locks_at.map_or_else(String::new, |at| format!(", which locks it at {at}"));
    let asleep_pct = holder.asleep_looks as f64 / holder.looks.max(1) as f64 * 100.0;
    match &holder.asleep_in {
        Some(asleep) if asleep_pct >= MOSTLY && holder.asleep_looks >= FEW => {
            format!("{locks_at} (asleep meanwhile in {asleep})")
        }
        _ => locks_at,
    }
}

fn sleeps(looks: &LooksReport, is_said: impl Fn(&WaitPlaceReport) -> bool) -> Vec<VerdictReport> {
    let places = looks.in_the_work().filter(|place| explains(place));
    places
        .filter(|place| is_worth(&[place]) && !is_said(place))
        .filter(|place| !is_lock(place.kind) && (is_sleep(place.kind) || is_much(place)))
        .map(|place| sleep(looks, place))
        .collect()
}

/// Whether threads sleep there for something outside of the program's threads.
const fn is_sleep(kind: WaitKind) -> bool {
    matches!(
        kind,
        WaitKind::Sleep | WaitKind::Io | WaitKind::Fault | WaitKind::Child | WaitKind::Poll
    )
}

/// Percentage of thread time from which waits of the program's threads for each other are told: a
/// queue is empty now and then.
const MUCH: f64 = 10.0;

fn is_much(place: &WaitPlaceReport) -> bool {
    place.share_pct >= MUCH
}

/// Whether a place tells for what threads sleep there.
fn explains(place: &WaitPlaceReport) -> bool {
    let call = place.call.as_deref().unwrap_or_default();
    // While a library of messages begins or waits for one, nobody knows for what.
    let of_messages = call.starts_with("MPI_") || call.starts_with("PMPI_");
    let of_each_other = matches!(place.kind, WaitKind::Condvar | WaitKind::Semaphore);
    let of_turns = place.kind == WaitKind::Other && is_ordered(place);
    is_sleep(place.kind) || is_lock(place.kind) || (of_each_other && !of_messages) || of_turns
}

/// Whether threads wait there for their turn in an `omp ordered` part.
fn is_ordered(place: &WaitPlaceReport) -> bool {
    let call = place.call.as_deref().unwrap_or_default();
    call.contains("_ordered")
}

fn sleep(looks: &LooksReport, place: &WaitPlaceReport) -> VerdictReport {
    let share_pct = place.share_pct;
    let who = match place.threads.as_slice() {
        [one] => one.label.clone(),
        [first, ..] if is_mostly(first, place) => format!("mostly {}", first.label),
        several => format!("{} threads", several.len()),
    };
    let text = format!(
        "asleep in the work: {share_pct:.0} % of thread time {} goes by in {} ({who}). {}.",
        counted(looks, share_pct, &[place]),
        place.called(),
        advice_at(place)
    );
    let mut evidence = evidence(looks, share_pct, &[place]);
    evidence.insert("known_pct", Figure::Real(share_pct));
    VerdictReport {
        kind: VerdictKind::AsleepInTheWork,
        site: None,
        thread: None,
        text,
        evidence,
    }
}

/// Whether a thread is the one that sleeps at a place, apart from exceptions.
fn is_mostly(thread: &WaitThreadReport, place: &WaitPlaceReport) -> bool {
    const MOST: f64 = 0.9;
    match (thread.slept_ns, place.slept_ns) {
        (Some(own), Some(all)) => own as f64 >= MOST * all as f64,
        _ => thread.looks as f64 >= MOST * place.looks as f64,
    }
}

/// What to do about a place.
fn advice_at(place: &WaitPlaceReport) -> &'static str {
    if is_ordered(place) {
        return "Only one thread at a time passes the ordered part: do less in it";
    }
    advice(place.kind)
}

const fn advice(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Sleep => "Do without that sleep, or wait for what it waits for",
        WaitKind::Io => "Read ahead, write behind, or do it in a thread of its own",
        WaitKind::Fault => {
            "Touch that memory or file before (MAP_POPULATE, madvise), or let it fit into memory"
        }
        WaitKind::Child => "Start that process earlier, or wait for it in a thread of its own",
        WaitKind::Poll => "Wait for that in a thread of its own, beside the work",
        WaitKind::Condvar | WaitKind::Semaphore => {
            "Let the thread that wakes them do so earlier, or divide its work among more threads"
        }
        WaitKind::Critical => {
            "Do less in it, or use a reduction, `omp atomic` or critical sections with different \
             names"
        }
        WaitKind::Allocator => {
            "Allocate before the parallel part, use memory again, or link an allocator made for \
             threads (jemalloc, tcmalloc, mimalloc)"
        }
        WaitKind::Interpreter => {
            "Use processes instead of threads, or libraries that release the lock while they \
             compute"
        }
        _ => "Hold it for a shorter time, or give each thread data of its own",
    }
}

fn evidence(
    looks: &LooksReport,
    share_pct: f64,
    places: &[&WaitPlaceReport],
) -> std::collections::BTreeMap<&'static str, Figure> {
    let seen: u64 = places.iter().map(|place| place.looks).sum();
    let mut figures: std::collections::BTreeMap<_, _> = [
        ("share_pct", Figure::Real(share_pct)),
        ("looks", Figure::Whole(seen)),
        ("thread_looks", Figure::Whole(looks.thread_looks)),
    ]
    .into();
    let sleeps: u64 = places.iter().filter_map(|place| place.sleeps).sum();
    if sleeps > 0 {
        figures.insert("sleeps", Figure::Whole(sleeps));
        figures.insert("slept_ns", Figure::Whole(slept_ns(places)));
    }
    figures
}

/// Verdict: the thread that is mostly last sleeps in its work, where only looks tell that: its times
/// on a CPU and asleep are not known.
pub fn straggler(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late) = Cost::of(report, site)?;
    if late.last.blocked_ns.is_some() {
        return None;
    }
    let last = site.straggler.as_ref();
    let last = last.filter(|last| last.pattern == StragglerPattern::Persistent)?;
    let looks = report.waits.as_ref()?;
    let tid = report.thread(last.thread)?.tid;
    let all = looks.threads.iter().find(|thread| thread.tid == tid)?.looks;
    let at = |place: &WaitPlaceReport| {
        let mut threads = place.threads.iter();
        threads
            .find(|thread| thread.tid == tid)
            .map_or(0, |thread| thread.looks)
    };
    let inside = looks.places.iter().filter(|place| place.in_barrier);
    let work = all.saturating_sub(inside.map(at).sum());
    let asleep: u64 = looks.in_the_work().map(at).sum();
    let pct = asleep as f64 / work.max(1) as f64 * 100.0;
    let (place, advice) = of_the_last(report, Some(last.thread)).filter(|_| pct >= MOSTLY)?;
    Some(VerdictReport {
        kind: VerdictKind::StragglerBlocked,
        site: Some(site.id),
        thread: Some(last.thread),
        text: format!(
            "the last is asleep at {}: {} comes last in {:.0} % of {} episodes, and sleeps for \
             {pct:.0} % of its work ({place}); the wait is {:.0} % of thread time. {advice}.",
            site.called(),
            who(report, last.thread),
            last.share_pct,
            site.episodes,
            cost.share_pct,
        ),
        evidence: [
            ("share_pct", Figure::Real(cost.share_pct)),
            ("blocked_pct", Figure::Real(pct)),
            ("looks", Figure::Whole(work)),
        ]
        .into(),
    })
}

/// Where the last thread at a site sleeps: in words, with what to do about it. `thread`: the thread,
/// or `None` if any may be last. `None` if too few looks found it.
pub fn of_the_last(report: &Report, thread: Option<u32>) -> Option<(String, &'static str)> {
    let looks = report.waits.as_ref()?;
    let tid = thread.and_then(|id| report.thread(id)).map(|row| row.tid);
    if thread.is_some() && tid.is_none() {
        return None;
    }
    let threads = |place: &WaitPlaceReport| -> Vec<WaitThreadReport> {
        let all = place.threads.iter();
        all.filter(|thread| tid.is_none_or(|tid| thread.tid == tid))
            .cloned()
            .collect()
    };
    let of = |place: &WaitPlaceReport| -> u64 {
        let threads = threads(place);
        threads.iter().map(|thread| looks.slept_ns(thread)).sum()
    };
    let seen_at =
        |place: &WaitPlaceReport| -> u64 { threads(place).iter().map(|thread| thread.looks).sum() };
    let places = || looks.in_the_work().filter(|place| !place.spins());
    let all: u64 = places().map(of).sum();
    let most = places().max_by_key(|place| of(place))?;
    let (slept, seen) = (of(most), seen_at(most));
    let is_exact = most.slept_ns.is_some();
    let is_known = if is_exact {
        slept >= LEAST_NS
    } else {
        seen >= FEW
    };
    if !is_known || !explains(most) || (slept as f64) < MOSTLY / 100.0 * all as f64 {
        return None;
    }
    let by = if is_exact {
        format!("{} of {} asleep", time(slept), time(all))
    } else {
        let all: u64 = places().map(seen_at).sum();
        format!("by {seen} of {all} looks")
    };
    let is_call = is_sleep(most.kind) || most.kind == WaitKind::Other;
    let how = if is_call { "in" } else { "for" };
    Some((
        format!("{how} {}{}, {by}", most.called(), held(most)),
        advice_at(most),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let both = vec![place(lock, 40, 200), other];
        assert!(kinds(both, unknown).contains(&VerdictKind::StragglerBlocked));
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
            "contended lock: threads wait 22 % of their time for the mutex locked at add \
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
            "contended lock: threads wait 22 % of their time for the mutex locked at add \
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
        assert_eq!(
            of_the_run(&run(vec![spin.clone()])),
            [],
            "perhaps a barrier"
        );
        assert_eq!(
            of_the_run(&meets(vec![spin.clone()]))[0].text,
            "spinning: threads spin 21 % of their time for a lock or a flag in add count.c:31 (by \
             53 samples). That is no work: hold the lock for a shorter time, or give each thread \
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
    fn the_lines_at_which_one_lock_is_taken_count_together() {
        let one = place(WaitKind::Mutex, 6, 200);
        let mut other = place(WaitKind::Mutex, 5, 200);
        other.place = "take count.c:44".into();
        let report = run(vec![one.clone(), other.clone()]);
        let all = of_the_run(&report);
        assert!(
            all[0]
                .text
                .contains("count.c:31 and one other place (11 of 200")
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
             from add count.c:31 (T1). Do without that sleep, or wait for what it waits for."
        );
    }
}
