//! Verdicts on times before the first barrier and after the last, in which most threads are absent.

use super::words::{count, who, whole};
use crate::{
    report::{
        BarrierKind, Figure, PhaseReport, Report, SiteReport, ThreadReport, VerdictKind,
        VerdictReport,
    },
    total::total,
    words::time,
};

/// Percentage of the wall time that sharing would save from which a serial start or end is reported.
/// Every program starts with one thread for a moment.
const SHARE: f64 = 5.0;

/// A thread that worked for this fraction of the first phase has worked throughout.
const ALL_THROUGH: f64 = 0.9;

/// A first phase shorter than this multiple of the mean phase is an ordinary phase, with ordinary
/// imbalance, unless the others hardly work in it.
const LONGER: f64 = 4.0;

/// Others that work for less than this fraction of the time hardly work.
const HARDLY: f64 = 0.2;

/// Less time than this after the last barrier, ns, is no verdict: every program needs a moment to end,
/// and longer without a CPU.
const SHORT_NS: u64 = 25_000_000;

/// A thread has worked if it was on a CPU for this part of the time.
const HAS_RUN: f64 = 0.5;

/// Percentage of the threads' time that they wait from which serial phases are usual in a program.
const MOST_IDLE: f64 = 40.0;

/// Verdict: threads idle, or do not exist yet, while the program begins.
pub fn serial_start(report: &Report) -> Option<VerdictReport> {
    in_first_phase(report).or_else(|| before_others_begin(report))
}

/// The first thread works long before others begin, and in their first phase these work as well.
fn before_others_begin(report: &Report) -> Option<VerdictReport> {
    /// Less is the start of any program, ns.
    const LONG_NS: u64 = 100_000_000;
    /// Percentage of the wall time that sharing would save.
    const MUCH: f64 = 8.0;
    let first = report.phases.iter().filter(|phase| phase.from.is_none());
    let (work, phase) = first
        .filter_map(|phase| Some((phase.work_ns.as_ref()?, phase)))
        .max_by_key(|(work, _)| work.max)?;
    let site = report.site(phase.to)?;
    let before = report.run.first_thread?.before?;
    let has_run = before.running_ns as f64 >= HAS_RUN * before.wall_ns as f64;
    if site.kind == BarrierKind::Mpi || !has_run || before.running_ns < LONG_NS {
        return None;
    }
    let threads = work.count / phase.episodes.max(1);
    let starts = main_starts(report, site, before.wall_ns, threads)?;
    let saves = before.running_ns as f64 * idle_of(threads);
    (saves * 100.0 >= MUCH * report.run.wall_ns as f64).then_some(starts)
}

fn in_first_phase(report: &Report) -> Option<VerdictReport> {
    let first = report.phases.iter().filter(|phase| phase.from.is_none());
    let idle = first.filter_map(|phase| Some((idle_ns(phase)?, phase)));
    let (idle_ns, phase) = idle.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let share_pct = idle_ns / report.run.wall_ns.max(1) as f64 * 100.0;
    let phase_ns = phase.phase_ns.as_ref()?.max;
    let work = phase.work_ns.as_ref()?;
    let threads = work.count / phase.episodes;
    let site = report.site(phase.to)?;
    // Those that wait there may execute tasks that the first thread makes.
    if site.kind == BarrierKind::Mpi || report.worked_in_barrier_ns(site) > 0 {
        return None;
    }
    let worker = (work.max as f64 >= ALL_THROUGH * phase_ns as f64)
        .then(|| worker(report, phase.to, work.max))
        .flatten();
    let others_ns = (work.sum - work.max) as f64 / (threads.max(2) - 1) as f64;
    // Where one thread works alone in later phases too, the first is one of them.
    let others_idle = others_ns <= HARDLY * work.max as f64;
    let is_alone =
        phase.episodes == 1 && others_idle && report.thread_time.idle_pct < Some(MOST_IDLE);
    let is_long = phase_ns as f64 >= LONGER * usual_ns(report);
    if share_pct < SHARE || !(is_long || is_alone && worker.is_some()) {
        return None;
    }
    let Some(worker) = worker else {
        return main_starts(report, site, phase_ns, threads);
    };
    // A thread that had no CPU did not work, and who does not work alone is not to blame.
    let ran_ns = report
        .thread(worker)
        .and_then(|thread| thread.begin_running_ns);
    let has_run = ran_ns.is_none_or(|ran_ns| ran_ns as f64 >= HAS_RUN * work.max as f64);
    if !has_run || !others_idle {
        return None;
    }
    let text = format!(
        "serial start: {} works alone for {} before {threads} threads first meet at {}, {:.0} % of \
         the wall time. Divide the initial work among the threads: that would save up to {}.",
        who(report, worker),
        time(phase_ns),
        site.called(),
        phase_ns as f64 / report.run.wall_ns.max(1) as f64 * 100.0,
        time(whole(idle_ns)),
    );
    Some(verdict(
        VerdictKind::SerialStart,
        Some(worker),
        text,
        (share_pct, "phase_ns", phase_ns, threads),
    ))
}

/// No thread that meets others works throughout the first phase: the main thread does.
fn main_starts(
    report: &Report,
    site: &SiteReport,
    phase_ns: u64,
    threads: u64,
) -> Option<VerdictReport> {
    let before = report.run.first_thread?.before?;
    let wall_ns = report.run.wall_ns.max(1) as f64;
    let share_pct = before.running_ns as f64 / wall_ns * 100.0 * idle_of(threads);
    if share_pct < SHARE {
        return None;
    }
    let text = format!(
        "serial start: {} works alone for {} before the {threads} threads begin that meet at {}, \
         {:.0} % of the wall time. Divide the initial work among the threads.",
        main_thread(report).1,
        time(before.running_ns),
        site.called(),
        before.running_ns as f64 / wall_ns * 100.0,
    );
    Some(verdict(
        VerdictKind::SerialStart,
        main_thread(report).0,
        text,
        (share_pct, "phase_ns", phase_ns, threads),
    ))
}

/// The main thread: its id if it meets others, and what it is called.
fn main_thread(report: &Report) -> (Option<u32>, String) {
    let is_main = |thread: &&ThreadReport| thread.tid == thread.pid && thread.pid == report.run.pid;
    report.threads.iter().find(is_main).map_or_else(
        || (None, "the main thread".into()),
        |thread| (Some(thread.id), who(report, thread.id)),
    )
}

/// The part of the threads that idles while one works, 0 to 1.
fn idle_of(threads: u64) -> f64 {
    1.0 - 1.0 / threads.max(1) as f64
}

fn verdict(
    kind: VerdictKind,
    thread: Option<u32>,
    text: String,
    (share_pct, named, ns, threads): (f64, &'static str, u64, u64),
) -> VerdictReport {
    VerdictReport {
        kind,
        site: None,
        thread,
        text,
        evidence: [
            ("share_pct", Figure::Real(share_pct)),
            (named, Figure::Whole(ns)),
            ("threads", Figure::Whole(threads)),
        ]
        .into(),
    }
}

/// Verdict: threads idle, or are gone, after the last barrier while the program goes on.
pub fn serial_end(report: &Report) -> Option<VerdictReport> {
    // If only watching has ended, the program was in the middle of something. And with threads in a
    // barrier, the last barrier is still to come.
    if !report.run.ended || !report.unfinished.is_empty() {
        return None;
    }
    let last_episode =
        |site: &SiteReport| site.trend.last().map(|bucket| (bucket.until_ns, site.id));
    let (last_ns, site) = report.sites.iter().filter_map(last_episode).max()?;
    let end_ns = report.run.wall_ns.checked_sub(last_ns)?;
    let threads = report.efficiency.as_ref()?.threads;
    let after = |thread: &ThreadReport| {
        let until_ns = thread.worked_until_ns?.min(report.run.wall_ns);
        Some((until_ns.saturating_sub(last_ns), thread.id))
    };
    let after: Vec<(u64, u32)> = report.threads.iter().filter_map(after).collect();
    let busy_ns = total(after.iter().map(|(ns, _)| *ns));
    let all_ns = end_ns as f64 * f64::from(threads);
    let idle = 1.0 - busy_ns as f64 / all_ns.max(1.0);
    let share_pct = idle * end_ns as f64 / report.run.wall_ns.max(1) as f64 * 100.0;
    let (most_ns, thread) = after.into_iter().max()?;
    let site = report.site(site)?;
    if threads < 2 || share_pct < SHARE || end_ns < SHORT_NS {
        return None;
    }
    // If none of these threads works throughout, a thread that meets no barrier may work there.
    if (most_ns as f64) < ALL_THROUGH * end_ns as f64 {
        return main_ends(report, site, threads);
    }
    let others_ns = (busy_ns - most_ns) as f64 / f64::from(threads - 1);
    let is_alone = others_ns <= HARDLY * most_ns as f64;
    if !is_alone {
        return None;
    }
    let text = format!(
        "serial end: {} works on for {} after the last barrier, {}, while {}, \
         {:.0} % of the wall time. Divide the final work among the threads.",
        who(report, thread),
        time(end_ns),
        site.called(),
        if threads == 2 {
            "the other waits or has ended".into()
        } else {
            format!("{} idle or have ended", others(threads - 1))
        },
        end_ns as f64 / report.run.wall_ns.max(1) as f64 * 100.0,
    );
    Some(verdict(
        VerdictKind::SerialEnd,
        Some(thread),
        text,
        (share_pct, "end_ns", end_ns, threads.into()),
    ))
}

/// The main thread, which does not meet the others, goes on after they have ended.
fn main_ends(report: &Report, site: &SiteReport, threads: u32) -> Option<VerdictReport> {
    let after = report.run.first_thread?.after?;
    let wall_ns = report.run.wall_ns.max(1) as f64;
    let share_pct = after.running_ns as f64 / wall_ns * 100.0 * idle_of(threads.into());
    if share_pct < SHARE {
        return None;
    }
    let text = format!(
        "serial end: {} works alone for {} after the other threads have ended that met at {}, \
         {:.0} % of the wall time. Divide the final work among the threads.",
        main_thread(report).1,
        time(after.running_ns),
        site.called(),
        after.running_ns as f64 / wall_ns * 100.0,
    );
    Some(verdict(
        VerdictKind::SerialEnd,
        main_thread(report).0,
        text,
        (share_pct, "end_ns", after.running_ns, threads.into()),
    ))
}

/// Verdict: the main thread, which does not meet the others, works alone between teams of threads
/// that begin and end.
pub fn between_teams(report: &Report) -> Option<VerdictReport> {
    let between = report.run.first_thread?.between?;
    let threads = report.efficiency.as_ref()?.threads;
    let wall_ns = report.run.wall_ns.max(1) as f64;
    let share_pct = between.running_ns as f64 / wall_ns * 100.0 * idle_of(threads.into());
    if share_pct < super::WORTH || threads < 2 {
        return None;
    }
    let text = format!(
        "serial part: the main thread works alone for {} in all between teams of {threads} threads \
         that begin and end, {:.0} % of the wall time. Divide that work too.",
        time(between.running_ns),
        between.running_ns as f64 / wall_ns * 100.0,
    );
    Some(verdict(
        VerdictKind::SerialPart,
        None,
        text,
        (share_pct, "alone_ns", between.running_ns, threads.into()),
    ))
}

fn others(number: u32) -> String {
    if number == 1 {
        "the other".into()
    } else {
        count(number as usize, "other")
    }
}

/// Mean length of the phases that follow another phase, ns; 0 if there are none.
fn usual_ns(report: &Report) -> f64 {
    let later = report.phases.iter().filter(|phase| phase.from.is_some());
    let later = later.filter_map(|phase| phase.phase_ns.as_ref());
    let (sum, count) = later.fold((0.0, 0), |(sum, count), phase| {
        (sum + phase.sum as f64, count + phase.count)
    });
    sum / count.max(1) as f64
}

/// How long a thread did not work in a first phase, ns, averaged over all threads.
fn idle_ns(phase: &PhaseReport) -> Option<f64> {
    let wall = phase.phase_ns.as_ref()?;
    let work = phase.work_ns.as_ref()?;
    let threads = work.count as f64 / wall.count as f64;
    // A single thread has nobody to share with. If several teams pass the phase, this is their
    // mean.
    (threads >= 2.0).then(|| (wall.sum as f64 - work.sum as f64 / threads) / wall.count as f64)
}

/// The thread whose longest work at a site was `work_ns`.
fn worker(report: &Report, site: u32, work_ns: u64) -> Option<u32> {
    let mut threads = report.site(site)?.threads.iter();
    let found = threads.find(|thread| {
        let longest = thread.each.work_ns.as_ref().map(|work| work.max);
        longest == Some(work_ns)
    });
    found.map(|thread| thread.thread)
}
