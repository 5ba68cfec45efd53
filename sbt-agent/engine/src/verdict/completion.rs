//! The verdict on barriers in which threads sleep on after the last one has come: that one does
//! something before it lets them go, as the completion function of a `std::barrier`.

use super::words::whole;
use crate::{
    report::{BarrierKind, Figure, Report, SiteReport, VerdictKind, VerdictReport},
    words::time,
};

/// Percentage of thread time from which it is told.
const SHARE: f64 = 5.0;

/// Verdict: threads sleep in a barrier after the last one has come.
pub fn of_site(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let each_ns = report.each_sleeps_on_ns(site)?;
    let slept_ns = report.slept_after_the_last_ns(site) as f64;
    let share_pct = slept_ns * 100.0 / report.thread_time.total_ns.max(1) as f64;
    if share_pct < SHARE {
        return None;
    }
    let (does, remedy) = if site.kind == BarrierKind::Std {
        (
            "calls the barrier's completion function before, if it has one",
            "Do less in that function",
        )
    } else {
        ("does something before", "Let it do less there")
    };
    Some(VerdictReport {
        kind: VerdictKind::SerialInBarrier,
        site: Some(site.id),
        thread: None,
        text: format!(
            "serial part in the barrier at {}: after the last thread has come, the others sleep there for \
             at least {} more on average, {share_pct:.0} % of thread time, until it wakes them: it {does}. \
             {remedy}, or let the others go on meanwhile.",
            site.called(),
            time(whole(each_ns)),
        ),
        evidence: [
            ("share_pct", Figure::Real(share_pct)),
            ("after_the_last_ns", Figure::Whole(whole(each_ns))),
            ("episodes", Figure::Whole(site.episodes)),
        ]
        .into(),
    })
}
