//! Draws where threads slept, of what the looks have found.

use std::collections::{BTreeMap, HashMap};

use crate::{
    looks::{At, Found, FoundHolder, FoundThread, FoundWait, Kind, Wait, Who, sums::Summed},
    place::{printable, short, shortened},
    report::{
        BarrierKind, Report, WaitKind,
        waits::{
            HolderReport, LookedThreadReport, LooksReport, SumsReport, WaitPlaceReport,
            WaitThreadReport,
        },
    },
};

/// A thread that spends more than this fraction of its looks waiting for the end of others does not
/// work.
const PARKED: f64 = 0.9;

/// The most callers that are told of a place.
const MOST_CALLERS: usize = 3;

/// A place in the notation of reports.
fn written(at: &At) -> String {
    let function = at
        .function
        .as_deref()
        .map(|name| printable(&shortened(name)));
    let line = match (&at.file, at.line) {
        (Some(file), Some(line)) => Some(format!("{}:{line}", printable(short(file)))),
        _ => None,
    };
    match (function, line) {
        (Some(function), Some(line)) => format!("{function} {line}"),
        (Some(function), None) => function,
        (None, Some(line)) => line,
        (None, None) => format!("{}+{:#x}", printable(short(&at.binary)), at.offset),
    }
}

/// A wait in a few words: `usleep called from read_probe probe.c:20`.
fn in_words(wait: &Wait) -> Option<String> {
    let place = wait.stack.first().map(written);
    let what = wait.what.as_deref().map(printable);
    let what = what.map_or_else(String::new, |what| format!(" ({what})"));
    let call = wait.call.as_deref();
    let call = call.map(|call| format!("{}{what}", printable(call)));
    match (call, place) {
        (Some(call), Some(place)) => Some(format!("{call} called from {place}")),
        (call, place) => call.or(place),
    }
}

/// Names of threads as the text report has them.
struct Labels(HashMap<Who, (Option<u32>, String)>);

impl Labels {
    fn new(found: &Found, report: &Report) -> Self {
        let known: HashMap<Who, _> = report
            .threads
            .iter()
            .filter(|thread| thread.threads == 1)
            .map(|thread| {
                let who = Who {
                    process: thread.pid,
                    thread: thread.tid,
                };
                (who, (Some(thread.id), thread.label.clone()))
            })
            .collect();
        let mut processes: Vec<u32> = found.threads.iter().map(|seen| seen.who.process).collect();
        processes.dedup();
        let mut labels = HashMap::new();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for seen in &found.threads {
            let who = seen.who;
            let number = numbers.entry(who.process).or_default();
            let label = match known.get(&who) {
                Some(known) => known.clone(),
                None if !known.is_empty() && who.thread == who.process => {
                    (None, "the main thread".into())
                }
                None if !known.is_empty() => (None, format!("thread {}", who.thread)),
                None => {
                    let at = processes.iter().position(|process| *process == who.process);
                    let label = match at {
                        Some(at) if processes.len() > 1 => format!("{at}.{number}"),
                        _ => format!("T{number}"),
                    };
                    (None, label)
                }
            };
            *number += 1;
            labels.insert(who, label);
        }
        Self(labels)
    }

    fn of(&self, who: Who) -> String {
        let found = self.0.get(&who).map(|known| known.1.clone());
        found.unwrap_or_else(|| format!("thread {}", who.thread))
    }

    fn id(&self, who: Who) -> Option<u32> {
        self.0.get(&who).and_then(|known| known.0)
    }
}

/// Waits that are one place to the user.
#[derive(Default)]
struct Group<'a> {
    waits: Vec<&'a FoundWait>,
}

/// The findings of the looks at waits, completed with threads from the looks at the scheduling. The
/// latter go on where looks at waits have become rare, and see the processes that the program
/// starts.
fn with_scheduled(found: &Found, report: &Report) -> Found {
    let mut found = found.clone();
    let tasks = report.run.scheduling.iter().flat_map(|known| &known.tasks);
    for task in tasks {
        let who = Who {
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
    for seen in &mut found.threads {
        // The beginning of a thread between two looks is a guess.
        let used_ns = seen.ran_ns.unwrap_or(0) + seen.ready_ns.unwrap_or(0);
        seen.lived_ns = seen.lived_ns.max(used_ns);
    }
    found
}

/// Draws what the looks have found. `report` has the threads and sites.
pub(in crate::report) fn report(found: &Found, report: &Report) -> LooksReport {
    let found = &with_scheduled(found, report);
    let labels = Labels::new(found, report);
    let parked = parked(found);
    let works = |who: Who| {
        if report.threads.is_empty() {
            !parked.contains(&who)
        } else {
            labels.id(who).is_some()
        }
    };
    let times = Times::of(found);
    let working = || found.threads.iter().filter(|seen| works(seen.who));
    let thread_looks: u64 = working().map(|seen| seen.looks).sum();
    let thread_ns: u64 = working().map(|seen| times.watched_ns(seen.who)).sum();
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
    let of_group = |((kind, in_barrier, call, _), group): (_, Group<'_>)| {
        let kind: Kind = kind;
        let call: Option<&str> = call;
        let drawn = group.draw(&labels, &times, found, works);
        let whole = if drawn.slept_ns.is_some() {
            thread_ns
        } else {
            thread_looks
        };
        WaitPlaceReport {
            kind: kind.into(),
            call: call.map(printable),
            in_barrier,
            share_pct: (drawn.share_pct / whole.max(1) as f64 * 100.0).min(100.0),
            ..drawn
        }
    };
    let mut places: Vec<WaitPlaceReport> = groups.into_iter().map(of_group).collect();
    places.sort_by(|a, b| b.looks.cmp(&a.looks).then(a.place.cmp(&b.place)));
    if found.sums.is_some() {
        places.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
    }
    LooksReport {
        looks: found.looks,
        span_ns: found.span_ns,
        cpu_ns: found.cpu_ns,
        thread_looks,
        threads: found
            .threads
            .iter()
            .map(|seen| thread(seen, &labels))
            .collect(),
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

/// For how long, and how often, each thread was looked at.
struct Times {
    threads: HashMap<Who, (u64, u64)>,
    /// The part of the time in which sleeps were summed up.
    part: f64,
}

impl Times {
    fn of(found: &Found) -> Self {
        let part = found.sums.map_or(1.0, |sums| {
            sums.watched_ns as f64 / sums.span_ns.max(1) as f64
        });
        let threads = found.threads.iter();
        Self {
            threads: threads
                .map(|seen| (seen.who, (seen.looks, seen.lived_ns)))
                .collect(),
            part,
        }
    }

    fn looks(&self, who: Who) -> u64 {
        self.threads.get(&who).map_or(0, |known| known.0)
    }

    /// For how long the sleeps of a thread were summed up, ns.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a time"
    )]
    fn watched_ns(&self, who: Who) -> u64 {
        let lived_ns = self.threads.get(&who).map_or(0, |known| known.1);
        (lived_ns as f64 * self.part) as u64
    }
}

fn thread(seen: &FoundThread, labels: &Labels) -> LookedThreadReport {
    let on_or_ready = seen.ran_ns.zip(seen.ready_ns);
    LookedThreadReport {
        thread: labels.id(seen.who),
        label: labels.of(seen.who),
        tid: seen.who.thread,
        pid: seen.who.process,
        name: printable(&seen.name),
        looks: seen.looks,
        asleep_looks: seen.asleep,
        watched_ns: seen.lived_ns,
        running_ns: seen.ran_ns,
        ready_ns: seen.ready_ns,
        blocked_ns: on_or_ready
            .map(|(ran, ready)| seen.lived_ns.saturating_sub(ran).saturating_sub(ready)),
    }
}

/// The threads that only wait for the end of others.
fn parked(found: &Found) -> Vec<Who> {
    let awaits = |who: Who| -> u64 {
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
    match of {
        // The place of an OpenMP site may be the line of the whole region.
        BarrierKind::Gomp | BarrierKind::Kmp => false,
        // A function of a library, in which only that library waits.
        BarrierKind::Pthread => is_innermost && is_of_futex && calls_barrier(),
        BarrierKind::Std | BarrierKind::Rust => is_innermost && is_of_futex,
        BarrierKind::Mpi => is_innermost,
        // Code of the program, which may call other functions to wait.
        BarrierKind::Condvar | BarrierKind::Futex => is_of_futex,
        BarrierKind::User | BarrierKind::Spin | BarrierKind::Other => true,
    }
}

impl Group<'_> {
    /// The place, without kind and call. `share_pct` is the number of looks at threads that work.
    fn draw(
        &self,
        labels: &Labels,
        times: &Times,
        found: &Found,
        works: impl Fn(Who) -> bool,
    ) -> WaitPlaceReport {
        let mut threads: BTreeMap<Who, u64> = BTreeMap::new();
        let mut callers: HashMap<String, u64> = HashMap::new();
        let mut objects: Vec<(u32, u64)> = Vec::new();
        let mut awaited: Vec<String> = Vec::new();
        for wait in &self.waits {
            for (who, looks) in &wait.threads {
                *threads.entry(*who).or_default() += looks;
            }
            if let Some(caller) = wait.wait.stack.get(1) {
                *callers.entry(written(caller)).or_default() += wait.looks();
            }
            let of = wait.wait.process;
            objects.extend(wait.wait.object.map(|object| (of, object)));
            awaited.extend(wait.wait.awaits.map(|who| labels.of(who)));
        }
        objects.sort_unstable();
        objects.dedup();
        awaited.sort();
        awaited.dedup();
        let mut callers: Vec<(String, u64)> = callers.into_iter().collect();
        callers.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        callers.truncate(MOST_CALLERS);
        let mut whats = self.waits.iter().map(|wait| wait.wait.what.as_deref());
        let first = whats.next().flatten();
        let what = first.filter(|first| whats.all(|what| what == Some(*first)));
        let at = self.waits.first().and_then(|wait| wait.wait.stack.first());
        let looks: u64 = threads.values().sum();
        let slept = self.slept();
        for who in slept.iter().flat_map(BTreeMap::keys) {
            threads.entry(*who).or_default();
        }
        let weight = |who: &Who, looks: &u64| match &slept {
            Some(slept) => slept.get(who).copied().unwrap_or(0),
            None => *looks,
        };
        let working = threads.iter().filter(|(who, _)| works(**who));
        let working: u64 = working.map(|(who, looks)| weight(who, looks)).sum();
        let mut told: Vec<WaitThreadReport> = threads
            .iter()
            .map(|(who, looks)| WaitThreadReport {
                label: labels.of(*who),
                tid: who.thread,
                looks: *looks,
                share_pct: match &slept {
                    Some(_) => pct(weight(who, looks), times.watched_ns(*who)).min(100.0),
                    None => pct(*looks, times.looks(*who)),
                },
                slept_ns: slept.as_ref().map(|_| weight(who, looks)),
            })
            .collect();
        told.sort_by(|a, b| {
            let order = |it: &WaitThreadReport| std::cmp::Reverse((it.slept_ns, it.looks));
            order(a).cmp(&order(b)).then(a.tid.cmp(&b.tid))
        });
        let sleeps = self.waits.iter().flat_map(|wait| &wait.sleeps);
        let sleeps: u64 = sleeps.map(|slept| slept.times).sum();
        WaitPlaceReport {
            sleeps: slept.as_ref().map(|_| sleeps),
            slept_ns: slept.as_ref().map(|slept| slept.values().sum()),
            kind: WaitKind::Other,
            call: None,
            what: what.map(printable),
            place: at.map_or_else(|| "?".into(), written),
            function: at.and_then(|at| at.function.as_deref()).map(printable),
            file: at.and_then(|at| at.file.as_deref()).map(printable),
            line: at.and_then(|at| at.line),
            callers: callers.into_iter().map(|(caller, _)| caller).collect(),
            in_barrier: false,
            looks,
            share_pct: working as f64,
            threads: told,
            objects: objects.len() as u64,
            object: match objects.as_slice() {
                [(_, one)] => Some(format!("{one:#x}")),
                _ => None,
            },
            awaited,
            holders: self.holders(labels, found),
        }
    }

    /// How long each thread slept there, ns; `None` if the kernel has not summed that up.
    fn slept(&self) -> Option<BTreeMap<Who, u64>> {
        let mut slept = BTreeMap::new();
        for part in self.waits.iter().flat_map(|wait| &wait.sleeps) {
            *slept.entry(part.who).or_default() += part.total_ns;
        }
        (!slept.is_empty()).then_some(slept)
    }

    /// For how long each thread kept others asleep, ns: whoever wakes a thread that sleeps for a lock
    /// has held that. `None` if that is not known of half of the time.
    fn kept(&self) -> Option<BTreeMap<Who, u64>> {
        if !self.waits.iter().all(|wait| wait.wait.kind.is_lock()) {
            return None;
        }
        let mut kept: BTreeMap<Who, u64> = BTreeMap::new();
        for (who, ns) in self.waits.iter().flat_map(|wait| &wait.wakers) {
            *kept.entry(*who).or_default() += ns;
        }
        let slept: u64 = self.waits.iter().map(|wait| wait.slept_ns()).sum();
        let known: u64 = kept.values().sum();
        (known > 0 && known >= slept / 2).then_some(kept)
    }

    fn holders(&self, labels: &Labels, found: &Found) -> Vec<HolderReport> {
        let mut by: BTreeMap<Who, Vec<&FoundHolder>> = BTreeMap::new();
        for holder in self.waits.iter().flat_map(|wait| &wait.holders) {
            by.entry(holder.who).or_default().push(holder);
        }
        let kept = self.kept();
        for who in kept.iter().flat_map(BTreeMap::keys) {
            by.entry(*who).or_default();
        }
        let kept_all: u64 = kept.iter().flat_map(BTreeMap::values).sum();
        let all: u64 = by.values().flatten().map(|holder| holder.looks).sum();
        let objects: Vec<_> = self
            .waits
            .iter()
            .map(|wait| (wait.wait.process, wait.wait.object))
            .collect();
        let mut told: Vec<HolderReport> = by
            .iter()
            .map(|(who, parts)| {
                let looks = parts.iter().map(|holder| holder.looks).sum();
                let kept_ns = kept
                    .as_ref()
                    .map(|kept| kept.get(who).copied().unwrap_or(0));
                let asleep = parts.iter().filter(|holder| holder.meanwhile.is_some());
                let mut places: Vec<String> = found
                    .waits
                    .iter()
                    .filter(|wait| {
                        let waits = || wait.threads.iter().map(|(of, _)| of);
                        let slept = || wait.sleeps.iter().map(|slept| &slept.who);
                        wait.wait.object.is_some()
                            && objects.contains(&(wait.wait.process, wait.wait.object))
                            && waits().chain(slept()).any(|of| of == who)
                    })
                    .filter_map(|wait| wait.wait.stack.first().map(written))
                    .collect();
                places.sort();
                places.dedup();
                HolderReport {
                    label: labels.of(*who),
                    tid: who.thread,
                    looks,
                    share_pct: kept_ns.map_or_else(|| pct(looks, all), |ns| pct(ns, kept_all)),
                    kept_ns,
                    locks_at: match places.as_slice() {
                        [one] => Some(one.clone()),
                        _ => None,
                    },
                    asleep_looks: asleep.clone().map(|holder| holder.looks).sum(),
                    asleep_in: asleep
                        .max_by_key(|holder| holder.looks)
                        .and_then(|holder| in_words(holder.meanwhile.as_ref()?)),
                }
            })
            .collect();
        told.sort_by(|a, b| {
            let order = |it: &HolderReport| std::cmp::Reverse((it.kept_ns, it.looks));
            order(a).cmp(&order(b)).then(a.tid.cmp(&b.tid))
        });
        told
    }
}

fn pct(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        looks::{Birth, Glimpse, Tally},
        samples,
    };

    fn who(thread: u32) -> Who {
        Who { process: 7, thread }
    }

    fn at(function: &str, line: u32) -> At {
        At {
            function: Some(function.into()),
            file: Some("/src/queue.c".into()),
            line: Some(line),
            binary: "queue".into(),
            offset: 0,
        }
    }

    fn wait(kind: Kind, object: u64, stack: &[At]) -> Wait {
        Wait {
            process: 7,
            kind,
            call: Some("call".into()),
            what: None,
            object: Some(object),
            awaits: None,
            stack: stack.to_vec(),
        }
    }

    /// Looks at which each of these threads was in its wait, as often as the list is long.
    fn looked(all: &[(u32, Option<Wait>)], times: u64) -> Tally {
        let mut tally = Tally::default();
        for look in 1..=times {
            tally.look(look * 1000);
            for (thread, wait) in all {
                let wait = wait.clone().and_then(|wait| tally.number(wait));
                let seen = Glimpse {
                    time_ns: look * 1000,
                    ran_ns: Some(0),
                    ready_ns: Some(0),
                    asleep: wait.is_some(),
                    wait,
                };
                tally.thread(who(*thread), Birth::default(), seen);
            }
        }
        tally
    }

    #[test]
    fn places_are_lines_and_threads_that_only_wait_for_ends_do_not_count() {
        let end = Wait {
            awaits: Some(who(8)),
            ..wait(Kind::Join, 0, &[at("main", 9)])
        };
        let one = wait(Kind::Mutex, 16, &[at("get", 20), at("stage", 30)]);
        let two = wait(Kind::Mutex, 32, &[at("get", 20), at("other", 31)]);
        let mut tally = looked(
            &[
                (7, Some(end)),
                (8, Some(one.clone())),
                (9, Some(two)),
                (10, None),
            ],
            10,
        );
        let number = tally.number(one).unwrap();
        tally.holds(number, who(10), None);
        let report = report(&tally.found(1, None), &samples::empty().report);
        assert_eq!((report.looks, report.thread_looks), (10, 30));
        let labels: Vec<&str> = report
            .threads
            .iter()
            .map(|thread| thread.label.as_str())
            .collect();
        assert_eq!(labels, ["T0", "T1", "T2", "T3"]);
        let [get, main] = report.places.as_slice() else {
            panic!("{report:?}");
        };
        assert_eq!(
            (get.looks, get.objects, get.place.as_str()),
            (20, 2, "get queue.c:20")
        );
        assert!((get.share_pct - 66.7).abs() < 0.1, "{get:?}");
        assert_eq!(get.callers, ["other queue.c:31", "stage queue.c:30"]);
        assert_eq!(get.holders[0].label, "T3");
        assert_eq!(
            get.called(),
            "2 mutexes locked at get queue.c:20 from other queue.c:31"
        );
        assert_eq!(main.called(), "the end of T1 at main queue.c:9");
        assert!(main.share_pct.abs() < f64::EPSILON, "{main:?}");
    }

    #[test]
    fn waits_inside_of_a_barrier_are_no_part_of_the_work() {
        let sample = samples::imbalanced().report;
        let place = &sample.sites[0].places[0];
        let line = place
            .split(' ')
            .find_map(|word| word.split_once(':'))
            .unwrap();
        let inside = At {
            file: Some(format!("/src/{}", line.0)),
            line: line.1.parse().ok(),
            ..At::default()
        };
        let within = wait(Kind::Mutex, 16, &[at("enter", 5), inside.clone()]);
        let outside = wait(Kind::Mutex, 16, &[at("enter", 5)]);
        let tally = looked(&[(8, Some(within)), (9, Some(outside))], 3);
        let mut of_own_code = sample.clone();
        of_own_code.sites[0].kind = BarrierKind::Condvar;
        let drawn = report(&tally.found(1, None), &of_own_code);
        let is_inside: Vec<bool> = drawn.places.iter().map(|place| place.in_barrier).collect();
        assert_eq!(is_inside, [false, true]);
        assert_eq!(drawn.in_the_work().count(), 1);
        // The line of a library's barrier may call other functions too, which may sleep.
        let drawn = report(&tally.found(1, None), &sample);
        let looks = drawn.in_the_work().map(|place| place.looks);
        assert_eq!(looks.sum::<u64>(), 6);
        let mut sleeps = wait(Kind::Sleep, 0, std::slice::from_ref(&inside));
        sleeps.call = Some("usleep".into());
        let mut waits = wait(Kind::Futex, 0, &[inside]);
        waits.call = Some("pthread_barrier_wait".into());
        let tally = looked(&[(8, Some(sleeps)), (9, Some(waits))], 3);
        let drawn = report(&tally.found(1, None), &sample);
        let work: Vec<WaitKind> = drawn.in_the_work().map(|place| place.kind).collect();
        assert_eq!(work, [WaitKind::Sleep]);
    }
}
