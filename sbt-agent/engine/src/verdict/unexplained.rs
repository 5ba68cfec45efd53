//! What is said of a program without barriers for which no verdict has a cause.

use super::{HUNG, lack, waiting};
use crate::{
    report::{
        Report, StandstillReport, WORTH, WaitKind,
        waits::{LookedThreadReport, LooksReport, PairReport},
    },
    total::total,
};

/// Why there is no verdict on a program without barriers at whose threads sbt has looked.
const NOTHING_STOOD_OUT: &str = "no barrier was seen, and by looks at the threads nothing stood out; \
     see below what each of them waits for";

/// The part of the time in which threads want a CPU from which it is told that they had none.
const THIRD: f64 = 1.0 / 3.0;

/// Why there is no verdict on a program without barriers at whose threads sbt has looked: what is known to be
/// amiss, or that nothing is.
pub fn of(report: &Report) -> String {
    let why = || {
        let wait = longest_wait(report)?;
        Some(format!(
            "no barrier was seen, and why threads wait is not known; {wait}"
        ))
    };
    hung_or_without_cpus(report)
        .or_else(why)
        .or_else(|| small_losses(report))
        .unwrap_or_else(|| NOTHING_STOOD_OUT.into())
}

/// That the program hung, or that its threads lacked CPUs for a good part of the time.
fn hung_or_without_cpus(report: &Report) -> Option<String> {
    let hung = report.run.hang.as_ref();
    if hung.is_some_and(StandstillReport::is_hang) {
        return Some(HUNG.into());
    }
    let looks = report.waits.as_ref()?;
    let Times {
        lived,
        ready,
        wanted,
    } = Times::of(&busy(looks));
    if ready < THIRD * wanted || ready * 100.0 < lack::LEAST_WITHOUT_BARRIERS * lived {
        return None;
    }
    if wanted <= 0.0 {
        return None;
    }
    let pct = ready / wanted * 100.0;
    let begins = format!(
        "no barrier was seen, but the busy threads were ready without a CPU for {pct:.0} % of the time \
         in which they wanted one"
    );
    // Threads that wait for each other in turns, or live one after the other, want fewer CPUs than they
    // are.
    let at_once = looks.wanted_at_once();
    if let Some(cpus) = report.run.cpus.filter(|cpus| at_once > f64::from(*cpus)) {
        let cpus = format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" });
        let others = lack::too(report);
        return Some(format!(
            "{begins}: they want {at_once:.1} CPUs at a time, and share {cpus}{others}. More threads would \
             not help: there is no CPU for them"
        ));
    }
    let (known, remedy) = lack::unknown(report);
    Some(format!("{begins}{known}. {remedy}"))
}

/// For which other thread a thread that works too waits longest, in a program without barriers for which no
/// verdict has a cause.
pub fn longest_wait(report: &Report) -> Option<String> {
    const MUCH: f64 = 25.0;
    let looks = report.waits.as_ref()?;
    let busy = |tid| {
        let mut threads = looks.threads.iter();
        threads.find(|thread| thread.tid == tid && is_busy(thread))
    };
    let told = |pair: &&PairReport| pair.share_pct >= MUCH && pair.kind != WaitKind::Join;
    let pairs = looks.pairs.iter().filter(told);
    let among_busy =
        pairs.filter_map(|pair| Some((pair, busy(pair.waiter_tid)?, busy(pair.waker_tid)?)));
    let longest = among_busy.max_by(|a, b| a.0.share_pct.total_cmp(&b.0.share_pct));
    let (pair, waiter, waker) = longest?;
    Some(format!(
        "of the threads that also work, {} {} waits longest: {:.0} % of its time until {} {} wakes it, in {}",
        waiter.label, waiter.name, pair.share_pct, waker.label, waker.name, pair.at
    ))
}

/// Whether a thread is on a CPU for a tenth of its time. A thread that is only ready yields its CPU, or
/// is woken for nothing.
fn is_busy(thread: &LookedThreadReport) -> bool {
    let lived_ns = thread.watched_ns;
    lived_ns > 0 && thread.running_ns.is_some_and(|ran| ran >= lived_ns / 10)
}

/// The threads that work.
fn busy(looks: &LooksReport) -> Vec<&LookedThreadReport> {
    let all = looks.threads.iter();
    all.filter(|thread| is_busy(thread)).collect()
}

/// Times of several threads together, ns.
struct Times {
    /// For how long they were watched.
    lived: f64,
    /// Ready without a CPU.
    ready: f64,
    /// On a CPU, or ready for one.
    wanted: f64,
}

impl Times {
    fn of(threads: &[&LookedThreadReport]) -> Self {
        let sum = |of: fn(&LookedThreadReport) -> u64| {
            total(threads.iter().map(|thread| of(thread))) as f64
        };
        let ready = sum(|thread| thread.ready_ns.unwrap_or(0));
        Self {
            lived: sum(|thread| thread.watched_ns),
            ready,
            wanted: ready + sum(|thread| thread.running_ns.unwrap_or(0)),
        }
    }
}

/// What busy threads lost in several ways, of which none is much: without a CPU, for locks, and for each other;
/// `None` if that is little in the sum.
fn small_losses(report: &Report) -> Option<String> {
    let looks = report.waits.as_ref()?;
    let busy = busy(looks);
    let Times {
        lived,
        ready,
        wanted,
    } = Times::of(&busy);
    if lived <= 0.0 {
        return None;
    }
    let places = |is_told: fn(WaitKind) -> bool| -> f64 {
        let told = looks.in_the_work().filter(|place| is_told(place.kind));
        let rows = told.flat_map(|place| &place.threads);
        let times = rows.filter_map(|row| {
            let of_busy = busy.iter().find(|thread| thread.tid == row.tid)?;
            Some(row.share_pct * of_busy.watched_ns as f64)
        });
        times.sum::<f64>() / lived
    };
    let ready_pct = ready / lived * 100.0;
    let locks_pct = places(waiting::is_lock);
    let spins_pct = places(|kind| kind == WaitKind::Spin);
    let pairs_pct = for_each_other(looks, &busy) / lived * 100.0;
    let lost_pct = ready_pct + locks_pct + spins_pct + pairs_pct;
    if lost_pct <= WORTH {
        return None;
    }
    let (known, remedy) = lack::unknown(report);
    let known = known.trim_start_matches("; ");
    let parts = [
        (
            ready_pct,
            format!(
                "were ready without a CPU for {:.0} % of the time in which they wanted one ({known})",
                ready / wanted.max(1.0) * 100.0
            ),
        ),
        (
            locks_pct,
            format!("waited {locks_pct:.0} % of their time for locks"),
        ),
        (
            spins_pct,
            format!("spun for {spins_pct:.0} % of their time"),
        ),
        (
            pairs_pct,
            format!("waited {pairs_pct:.0} % of their time for each other"),
        ),
    ];
    let largest = parts.iter().map(|(pct, _)| *pct).fold(0.0, f64::max);
    let told = parts
        .iter()
        .filter(|(pct, _)| *pct >= 1.0 || *pct >= largest);
    let told: Vec<&str> = told.map(|(_, text)| text.as_str()).collect();
    let told = match told.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{}, and {last}", all.join(", ")),
        one => one.concat(),
    };
    let then = if ready_pct >= largest {
        format!(". {remedy}")
    } else {
        "; see below what each of them waits for".into()
    };
    Some(format!(
        "no barrier was seen, and no cause was found, but the busy threads {told}{then}"
    ))
}

/// How long busy threads waited for other busy threads, ns. Waits for the end of a thread, or for a runtime's next
/// work, are no loss, and waits for locks are told as such.
fn for_each_other(looks: &LooksReport, busy: &[&LookedThreadReport]) -> f64 {
    let find = |tid| busy.iter().find(|thread| thread.tid == tid);
    let is_loss = |pair: &&PairReport| {
        let is_other = matches!(pair.kind, WaitKind::Join | WaitKind::Barrier);
        !is_other && !waiting::is_lock(pair.kind)
    };
    let pairs = looks.pairs.iter().filter(is_loss);
    let among_busy = pairs.filter_map(|pair| {
        let waiter = find(pair.waiter_tid)?;
        find(pair.waker_tid)?;
        Some(pair.share_pct / 100.0 * waiter.watched_ns as f64)
    });
    among_busy.sum()
}
