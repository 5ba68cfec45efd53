//! The verdict on page faults: the kernel hands out memory for a large part of the CPU time.

use crate::{
    report::{Figure, Report, VerdictKind, VerdictReport},
    words::time,
};

/// Percentage of the CPU time that the kernel must take.
const KERNEL: f64 = 20.0;

/// What a page fault costs at least, ns: the page is cleared. In virtual machines it is more.
const FAULT_NS: f64 = 500.0;

/// The faults must explain this part of the kernel's time at least, by that lowest cost.
const EXPLAINS: f64 = 0.25;

/// Less CPU time than this shows nothing: the kernel counts in steps of 10 ms.
const LEAST_NS: u64 = 100_000_000;

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
    let faults_ns = used.minor_faults as f64 * FAULT_NS;
    if all_ns < LEAST_NS || of_cpu_pct < KERNEL || faults_ns < EXPLAINS * system_ns as f64 {
        return None;
    }
    let text = format!(
        "page faults: the kernel takes {} of {} CPU time, {of_cpu_pct:.0} %, and the program has {} \
         page faults meanwhile, most when memory is first touched. Allocate and touch memory once, \
         let each thread touch its own part, or use larger pages.",
        time(system_ns),
        time(all_ns),
        used.minor_faults,
    );
    Some(VerdictReport {
        kind: VerdictKind::PageFaults,
        site: None,
        thread: None,
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
