//! The verdict on page faults: the kernel hands out memory for a large part of the CPU time.

use super::words::{who, whole};
use crate::{
    report::{Figure, Report, TaskReport, VerdictKind, VerdictReport},
    words::time,
};

/// Percentage of the CPU time that the kernel must take.
const KERNEL: f64 = 20.0;

/// What a page fault costs at least, ns, on any machine: the page is cleared.
const FAULT_NS: f64 = 500.0;

/// The part of the kernel's time that the faults must explain by that lowest cost.
const EXPLAINS: f64 = 0.15;

/// The part of the kernel's time that they must explain by their measured cost.
const EXPLAINS_MEASURED: f64 = 0.35;

/// Less CPU time than this shows nothing: the kernel counts in steps of 10 ms.
const LEAST_NS: u64 = 100_000_000;

/// The kernel's time must be this part of what a thread is on a CPU for longer than the others.
const MOST: f64 = 0.5;

/// A single thread is named if it has this part of the page faults.
const ALMOST_ALL: f64 = 0.8;

/// The threads that meet, as the scheduler's looks know them.
fn tasks(report: &Report) -> Vec<(u32, &TaskReport)> {
    let looked = report
        .run
        .scheduling
        .iter()
        .flat_map(|scheduling| &scheduling.tasks);
    let of = |task: &TaskReport| {
        let mut all = report.threads.iter();
        all.find(|thread| (thread.pid, thread.tid) == (task.pid, task.tid))
    };
    looked
        .filter_map(|task| Some((of(task)?.id, task)))
        .collect()
}

/// Whether this number of page faults explains that the kernel took `system_ns`, or that a thread is late
/// by so long.
pub fn explain(report: &Report, faults: f64, system_ns: f64) -> bool {
    let measured = report.run.used.and_then(|used| used.fault_ns);
    // Threads that touch memory at the same time hinder each other: more than what was measured.
    faults * FAULT_NS >= EXPLAINS * system_ns
        || measured.is_some_and(|ns| faults * ns as f64 >= EXPLAINS_MEASURED * system_ns)
}

/// The kernel's time for which a thread is on a CPU for longer than others.
pub struct KernelTime {
    /// What takes that time.
    pub why: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// Why a thread is on a CPU for longer than the others that meet it, if most of the difference is the
/// kernel's time.
pub fn of_thread(report: &Report, thread: u32) -> Option<KernelTime> {
    let tasks = tasks(report);
    let (_, own) = tasks.iter().find(|(id, _)| *id == thread)?;
    let others: Vec<_> = tasks.iter().filter(|(id, _)| *id != thread).collect();
    if others.is_empty() || own.looked_ns == 0 {
        return None;
    }
    // The looks at a thread may be spread over a shorter time than those at another.
    let excess = |f: fn(&TaskReport) -> Option<u64>| -> Option<f64> {
        let rate = |task: &TaskReport| Some(f(task)? as f64 / task.looked_ns.max(1) as f64);
        let mut sum = 0.0;
        for (_, other) in &others {
            sum += rate(other)?;
        }
        let mean = sum / others.len() as f64;
        Some((rate(own)? - mean) * own.looked_ns as f64)
    };
    let system_ns = excess(|task| task.system_ns)?;
    // Threads that spin in barriers run there as well: what counts is how much longer the thread works.
    let worked = |id: u32| Some(report.thread(id)?.running_ns? as f64);
    let works: Option<Vec<f64>> = others.iter().map(|(id, _)| worked(*id)).collect();
    let in_work_ns = worked(thread).zip(works).map_or(0.0, |(own, works)| {
        own - works.iter().sum::<f64>() / works.len() as f64
    });
    let running_ns = excess(|task| task.running_ns)?.max(in_work_ns);
    let faults = excess(|task| task.minor_faults)?;
    if system_ns < LEAST_NS as f64 || system_ns < MOST * running_ns {
        return None;
    }
    let of_ns = time(whole(system_ns));
    if explain(report, faults, system_ns) {
        return Some(KernelTime {
            why: format!(
                "most of its additional time is kernel time: {of_ns} for {} more page faults than the other \
                 {}",
                whole(faults),
                if others.len() == 1 {
                    "thread"
                } else {
                    "threads"
                }
            ),
            remedy: "Let it allocate and touch its memory once instead of anew, or use larger pages",
        });
    }
    Some(KernelTime {
        why: format!("most of its additional time is kernel time: {of_ns}"),
        remedy: "Look at its system calls (strace -c -f, perf trace -s)",
    })
}

/// The thread that has almost all page faults of those that meet.
fn who_faults(report: &Report) -> Option<(u32, f64)> {
    let tasks = tasks(report);
    let faults = |task: &TaskReport| task.minor_faults.map(|faults| faults as f64);
    let all: Option<f64> = tasks.iter().map(|(_, task)| faults(task)).sum();
    let (id, most) = tasks.iter().max_by_key(|(_, task)| task.minor_faults)?;
    let part = faults(most)? / all?.max(1.0);
    (tasks.len() > 1 && part >= ALMOST_ALL).then_some((*id, part * 100.0))
}

/// Verdict: page faults take much of the CPU time of a program without barriers. A part of it may be the
/// start of its runtime, so it must be more than beside barriers.
pub fn page_faults_without_barriers(report: &Report) -> Option<VerdictReport> {
    const LONG_NS: u64 = 500_000_000;
    const PCT: f64 = 35.0;
    let used = report.run.used?;
    let all_ns = used.user_ns + used.system_ns;
    let system_pct = used.system_ns as f64 / all_ns.max(1) as f64 * 100.0;
    let is_much = all_ns >= LONG_NS && system_pct >= PCT;
    let mut verdict = page_faults(report).filter(|_| is_much)?;
    // The time of the threads is not known; their CPU time is.
    let share = ("share_pct", Figure::Real(system_pct));
    verdict.evidence.extend([share]);
    Some(verdict)
}

/// Verdict: page faults take much of the CPU time, of whichever thread.
pub fn page_faults(report: &Report) -> Option<VerdictReport> {
    let used = report.run.used?;
    let cost = &report.own_cost;
    // What watching costs is the kernel's time too.
    let own_ns = cost.ns_per_event.unwrap_or(0).saturating_mul(cost.events);
    let system_ns = used.system_ns.saturating_sub(own_ns);
    let all_ns = used.user_ns + system_ns;
    let of_cpu_pct = system_ns as f64 / all_ns.max(1) as f64 * 100.0;
    let share_pct = system_ns as f64 / report.thread_time.total_ns.max(1) as f64 * 100.0;
    let faults_explain = explain(report, used.minor_faults as f64, system_ns as f64);
    if all_ns < LEAST_NS || of_cpu_pct < KERNEL || !faults_explain {
        return None;
    }
    let whose = who_faults(report);
    let most = whose.map_or_else(String::new, |(thread, pct)| {
        format!(
            " ({} has {pct:.0} % of those of the threads that meet)",
            who(report, thread)
        )
    });
    let text = format!(
        "page faults: the kernel takes {} of {} CPU time, {of_cpu_pct:.0} %, and the program has {} \
         page faults meanwhile{most}, most when memory is first touched. Allocate and touch memory once, \
         let each thread touch its own part, or use larger pages.",
        time(system_ns),
        time(all_ns),
        used.minor_faults,
    );
    Some(VerdictReport {
        kind: VerdictKind::PageFaults,
        site: None,
        thread: whose.map(|(thread, _)| thread),
        text,
        evidence: [
            ("share_pct", Figure::Real(share_pct.min(100.0))),
            ("kernel_pct", Figure::Real(of_cpu_pct)),
            ("system_ns", Figure::Whole(system_ns)),
            ("faults", Figure::Whole(used.minor_faults)),
        ]
        .into(),
    })
}
