//! The verdict on barriers in which threads sleep on after the last one has come: that one does
//! something before it lets them go, as the completion function of a `std::barrier`.

use super::{
    lack::stood,
    words::{Others, whole},
};
use crate::{
    report::{BarrierKind, Figure, Report, SiteReport, VerdictKind, VerdictReport, WaitKind},
    words::time,
};

/// Percentage of thread time from which it is told.
const SHARE: f64 = 5.0;

/// How long threads sleep after the last one has come: in the mean of a wait, and all together, ns. Where
/// threads poll, the most that they oversleep by that is subtracted: in libc++ each sleeps again and again for
/// half of the time that it has waited (`__libcpp_timed_backoff_policy`).
fn beyond_polling(report: &Report, site: &SiteReport) -> Option<(f64, f64)> {
    const OF_WAIT: f64 = 1.0 / 3.0;
    let each_ns = report.each_sleeps_on_ns(site)?;
    let slept_ns = report.slept_after_the_last_ns(site) as f64;
    let mut places = report.waits.iter().flat_map(|looks| &looks.places);
    let polls = places.any(|place| {
        let is_here = place.in_barrier && site.places.contains(&place.place);
        is_here && place.kind == WaitKind::Sleep
    });
    if !polls {
        return Some((each_ns, slept_ns));
    }
    let waits = slept_ns / each_ns;
    let wait_ns = site.lost_ns as f64 / waits + each_ns;
    let most_ns = OF_WAIT * wait_ns;
    let beyond_ns = each_ns - most_ns;
    (beyond_ns > 0.0).then_some((beyond_ns, beyond_ns * waits))
}

/// Verdict: threads sleep in a barrier after the last one has come.
pub fn of_site(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (each_ns, slept_ns) = beyond_polling(report, site)?;
    // While the program is stopped or frozen, its threads stand in the barrier too.
    let stood_ns = stood::at_most_ns(report) as f64 * site.threads.len() as f64;
    let left_ns = (slept_ns - stood_ns).max(0.0);
    let each_ns = each_ns * left_ns / slept_ns;
    let share_pct = left_ns * 100.0 / report.thread_time.total_ns.max(1) as f64;
    if share_pct < SHARE {
        return None;
    }
    let them = Others::of(site);
    let others = them.the();
    let (does, remedy) = if site.kind == BarrierKind::Std {
        (
            "may execute the barrier's completion function before",
            "Do less in that function",
        )
    } else {
        ("may do something before", "Let it do less there")
    };
    Some(VerdictReport {
        kind: VerdictKind::SerialInBarrier,
        site: Some(site.id),
        thread: None,
        text: format!(
            "serial part in the barrier at {}: after the last thread has come, {} there for at \
             least {} more on average, {share_pct:.0} % of thread time. The last thread {does} it releases \
             {others}. {remedy}, or let {others} go on meanwhile.",
            site.called(),
            them.choose("the other sleeps", "the others sleep"),
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
