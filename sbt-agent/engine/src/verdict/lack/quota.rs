//! A CPU quota of a control group.

use super::{super::WORTH, Case, others};
use crate::{
    report::{Figure, QuotaReport, Report, VerdictKind, VerdictReport},
    words::time,
};

/// Verdict: a CPU quota of a control group stops the threads.
pub fn too_small(case: &Case<'_>) -> Option<VerdictReport> {
    let quota = case
        .scheduling
        .quotas
        .iter()
        .max_by_key(|quota| quota.throttled_ns)?;
    let wall_ns = case.report.run.wall_ns.max(1);
    let throttled_pct = quota.throttled_ns as f64 / wall_ns as f64 * 100.0;
    if throttled_pct < WORTH || quota.throttled_periods == 0 {
        return None;
    }
    let QuotaReport {
        group,
        periods,
        throttled_periods,
        ..
    } = quota;
    let threads = if case.report.sites.is_empty() {
        "its busy threads"
    } else {
        "the threads here"
    };
    let text = format!(
        "CPU quota too small: the quota of control group {group} ({} CPUs) stopped (throttled) its \
         threads in {throttled_periods} of {periods} periods of {}, for {} in the sum over CPUs, \
         and {threads} were ready without a CPU for {:.0} % of their time{}. Raise the quota \
         (cpu.max, cpu.cfs_quota_us; `--cpus` of containers), or start fewer threads.",
        number(quota.cpus),
        time(quota.period_ns),
        time(quota.throttled_ns),
        case.lack.ready_pct,
        others::too(case.report),
    );
    Some(case.lack.verdict(
        VerdictKind::CpuQuota,
        None,
        text,
        &[
            ("quota_cpus", Figure::Real(quota.cpus)),
            ("throttled_ns", Figure::Whole(quota.throttled_ns)),
            ("throttled_periods", Figure::Whole(*throttled_periods)),
            ("periods", Figure::Whole(*periods)),
        ],
    ))
}

/// The most time for which a CPU quota stopped a thread of the program, ns. The kernel sums that up over CPUs.
pub fn at_most_ns(report: &Report) -> u64 {
    let scheduling = report.run.scheduling.iter();
    let quotas = scheduling.flat_map(|scheduling| &scheduling.quotas);
    let most_ns = quotas.map(|quota| quota.throttled_ns).max();
    most_ns.unwrap_or(0).min(report.run.wall_ns)
}

/// A number of CPUs with as many digits as it needs, at most two.
fn number(cpus: f64) -> String {
    let text = format!("{cpus:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
#[test]
fn quotas_are_written_shortly() {
    let written = [0.5, 2.0, 0.125, 10.0].map(number);
    assert_eq!(written, ["0.5", "2", "0.12", "10"]);
}
