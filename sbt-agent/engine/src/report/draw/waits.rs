//! Draws where threads slept, of what the looks have found.

use std::collections::BTreeMap;

use crate::{
    looks::{Found, FoundThread, Kind, MOST_TOLD, ThreadId, Wait, sums::Summed},
    place::{printable, short},
    report::{
        BarrierKind, Report,
        waits::{LookedThreadReport, LooksReport, SumsReport, WaitPlaceReport},
    },
    total::total,
};
use labels::Labels;
use pairs::Pairs;
use places::{Group, Times, written};

mod labels;
mod pairs;
mod places;

#[cfg(test)]
mod tests;

/// A thread that spends more than this fraction of its looks waiting for the end of others does not
/// work.
const PARKED: f64 = 0.9;

/// The findings of the looks at waits, completed with threads from the looks at the scheduling. The
/// latter go on where looks at waits have become rare, and see the processes that the program
/// starts.
fn with_scheduled(found: &Found, report: &Report) -> Found {
    let mut found = found.clone();
    let tasks = report.run.scheduling.iter().flat_map(|known| &known.tasks);
    for task in tasks {
        let who = ThreadId {
            process: task.pid,
            thread: task.tid,
        };
        let at = found.threads.binary_search_by_key(&who, |seen| seen.who);
        let at = at.unwrap_or_else(|at| {
            let seen = FoundThread {
                who,
                name: task.name.clone(),
                looks: 0,
                asleep: 0,
                alone: 0,
                lived_ns: 0,
                ran_ns: None,
                ready_ns: None,
            };
            found.threads.insert(at, seen);
            at
        });
        let seen = &mut found.threads[at];
        if task.looked_ns > seen.lived_ns {
            seen.lived_ns = task.looked_ns;
            (seen.ran_ns, seen.ready_ns) = (task.running_ns, task.ready_ns);
        }
    }
    let slept = slept(&found);
    for seen in &mut found.threads {
        // A thread may have slept before the first look and after the last.
        let slept_ns = slept.get(&seen.who).copied();
        let parts_ns = [seen.ran_ns, seen.ready_ns, slept_ns];
        seen.lived_ns = seen.lived_ns.max(total(parts_ns.into_iter().flatten()));
    }
    found
}

/// For how long each thread slept, as far as the kernel has summed that up, ns.
fn slept(found: &Found) -> BTreeMap<ThreadId, u64> {
    let mut slept: BTreeMap<ThreadId, u64> = BTreeMap::new();
    let asleep = found.waits.iter().filter(|of| of.wait.kind != Kind::Spin);
    for part in asleep.flat_map(|of| &of.sleeps) {
        let sum = slept.entry(part.who).or_default();
        *sum = sum.saturating_add(part.total_ns);
    }
    slept
}

/// Draws what the looks have found. `report` has the threads and sites.
pub(in crate::report) fn report(found: &Found, report: &Report) -> LooksReport {
    let found = &with_scheduled(found, report);
    let labels = Labels::new(found, report);
    let parked = parked(found);
    let works = |who: ThreadId| {
        if report.threads.is_empty() {
            !parked.contains(&who)
        } else {
            labels.id(who).is_some()
        }
    };
    let times = Times::of(found);
    let working = || found.threads.iter().filter(|seen| works(seen.who));
    let thread_looks = total(working().map(|seen| seen.looks));
    let thread_ns = total(working().map(|seen| times.watched_ns(seen.who)));
    let mut groups: BTreeMap<_, Group<'_>> = BTreeMap::new();
    for wait in &found.waits {
        let in_barrier = in_barrier(&wait.wait, report);
        let key = (
            wait.wait.kind,
            in_barrier,
            wait.wait.call.as_deref(),
            wait.wait.stack.first().map(written),
        );
        groups.entry(key).or_default().waits.push(wait);
    }
    let mut pairs = Pairs::default();
    let of_group = |((kind, in_barrier, call, _), group): (_, Group<'_>)| {
        let kind: Kind = kind;
        let call: Option<&str> = call;
        let drawn = group.draw(&labels, &times, found, works);
        let whole = if drawn.slept_ns.is_some() {
            thread_ns
        } else {
            thread_looks
        };
        let place = WaitPlaceReport {
            kind: kind.into(),
            call: call.map(printable),
            in_barrier,
            share_pct: (drawn.share_pct / whole.max(1) as f64 * 100.0).min(100.0),
            ..drawn
        };
        if !in_barrier {
            pairs.add(&group, &place);
        }
        place
    };
    let mut places: Vec<WaitPlaceReport> = groups.into_iter().map(of_group).collect();
    places.sort_by(|a, b| b.looks.cmp(&a.looks).then(a.place.cmp(&b.place)));
    if found.sums.is_some() {
        places.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
    }
    let slept = slept(found);
    let unplaced_ns = found.sums.filter(|_| knows_all_sleep(found));
    let most_asleep = |who: ThreadId| {
        let here_ns = slept.get(&who).copied().unwrap_or(0);
        Some(here_ns.saturating_add(unplaced_ns?.unplaced_ns))
    };
    LooksReport {
        looks: found.looks,
        span_ns: found.span_ns,
        cpu_ns: found.cpu_ns,
        thread_looks,
        threads: found
            .threads
            .iter()
            .map(|seen| thread(seen, &labels, most_asleep(seen.who)))
            .collect(),
        pairs: pairs.drawn(&labels, &times),
        places,
        sums: found.sums.map(sums),
    }
}

const fn sums(summed: Summed) -> SumsReport {
    SumsReport {
        watched_ns: summed.watched_ns,
        span_ns: summed.span_ns,
        sleeps: summed.times,
        unplaced_ns: summed.unplaced_ns,
        missed: summed.missed,
    }
}

/// Whether the kernel has summed up all sleep of all threads.
fn knows_all_sleep(found: &Found) -> bool {
    const NEARLY: f64 = 0.99;
    found.waits.len() < MOST_TOLD
        && found.sums.is_some_and(|sums| {
            let is_whole = sums.watched_ns as f64 >= NEARLY * sums.span_ns as f64;
            sums.missed == 0 && is_whole
        })
}

/// `most_asleep_ns`: the kernel counts the time on a CPU with the next tick of its clock, so that some of
/// it would seem to be sleep.
fn thread(seen: &FoundThread, labels: &Labels, most_asleep_ns: Option<u64>) -> LookedThreadReport {
    let on_or_ready = seen.ran_ns.zip(seen.ready_ns);
    LookedThreadReport {
        thread: labels.id(seen.who),
        label: labels.of(seen.who),
        tid: seen.who.thread,
        pid: seen.who.process,
        name: printable(&seen.name),
        looks: seen.looks,
        asleep_looks: seen.asleep,
        alone_looks: seen.alone,
        watched_ns: seen.lived_ns,
        running_ns: seen.ran_ns,
        ready_ns: seen.ready_ns,
        blocked_ns: on_or_ready
            .map(|(ran, ready)| seen.lived_ns.saturating_sub(ran).saturating_sub(ready))
            .map(|blocked_ns| match most_asleep_ns {
                Some(most_ns) if !began_unseen(seen, most_ns) => blocked_ns.min(most_ns),
                _ => blocked_ns,
            }),
    }
}

/// Whether the kernel's sums lack a sleep that began before sbt came: the looks saw the thread asleep
/// for much longer.
fn began_unseen(seen: &FoundThread, summed_ns: u64) -> bool {
    /// The part of the sleep that looks saw which sums have at least, unless they lack a sleep.
    const PART: f64 = 0.5;
    let asleep = seen.asleep as f64 / seen.looks.max(1) as f64;
    (summed_ns as f64) < PART * asleep * seen.lived_ns as f64
}

/// The threads that only wait for the end of others.
fn parked(found: &Found) -> Vec<ThreadId> {
    let awaits = |who: ThreadId| -> u64 {
        let waits = found.waits.iter();
        let of_end = waits.filter(|wait| matches!(wait.wait.kind, Kind::Child | Kind::Join));
        of_end
            .flat_map(|wait| &wait.threads)
            .filter(|(of, _)| *of == who)
            .map(|(_, looks)| looks)
            .sum()
    };
    let threads = found.threads.iter();
    threads
        .filter(|seen| awaits(seen.who) as f64 > PARKED * seen.looks as f64)
        .map(|seen| seen.who)
        .collect()
}

/// Whether a wait is inside of a call that the report knows as a barrier.
fn in_barrier(wait: &Wait, report: &Report) -> bool {
    if wait.kind == Kind::Barrier {
        return true;
    }
    let is_object = |address: u64| {
        let address = format!("{address:#x}");
        let mut barriers = report.barriers.iter();
        barriers.any(|barrier| barrier.recognised.is_some() && barrier.address == address)
    };
    if wait.object.is_some_and(is_object) {
        return true;
    }
    wait.stack.iter().enumerate().any(|(index, at)| {
        let (Some(file), Some(line)) = (&at.file, at.line) else {
            return false;
        };
        let place = format!("{}:{line}", printable(short(file)));
        let sites = report.sites.iter();
        let sites = sites.filter(|site| may_be_inside(wait, site.kind, index == 0));
        let mut places = sites.flat_map(|site| &site.places);
        places.any(|site| {
            let own = site.split(" from ").next().unwrap_or(site);
            own.split(' ').any(|word| word == place)
        })
    })
}

/// Whether a wait that goes through the line of a barrier's call may be inside of that barrier: the
/// line may call other functions too. `is_innermost`: whether no other function of the program's
/// own code was called there.
fn may_be_inside(wait: &Wait, of: BarrierKind, is_innermost: bool) -> bool {
    let is_of_futex = matches!(
        wait.kind,
        Kind::Mutex | Kind::Condvar | Kind::Semaphore | Kind::Spin | Kind::Futex | Kind::Other
    );
    let calls_barrier = || {
        let call = wait.call.as_deref();
        call.is_none_or(|call| call.contains("barrier"))
    };
    let sleeps_in_barrier = || {
        let call = wait.call.as_deref();
        wait.kind == Kind::Sleep && call.is_some_and(|call| call.contains("barrier"))
    };
    match of {
        // The place of an OpenMP site may be the line of the whole region.
        BarrierKind::Gomp | BarrierKind::Kmp => false,
        // A function of a library, in which only that library waits.
        BarrierKind::Pthread => is_innermost && is_of_futex && calls_barrier(),
        // That of libc++ sleeps for longer and longer times until all have come
        // (`__libcpp_thread_poll_with_backoff`), in functions that are inlined into the program.
        BarrierKind::Std => is_innermost && (is_of_futex || sleeps_in_barrier()),
        BarrierKind::Rust => is_innermost && is_of_futex,
        BarrierKind::Mpi => is_innermost,
        // Code of the program, which may call other functions to wait.
        BarrierKind::Condvar | BarrierKind::Futex => is_of_futex,
        BarrierKind::User | BarrierKind::Spin | BarrierKind::Other => true,
    }
}
