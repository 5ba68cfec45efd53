//! Which counter goes best with who is late. A correlation is told as one: it is no cause by itself.

use super::{cost::Cost, kernel, words::Others};
use crate::{
    counters::{Says, says},
    report::{Figure, LateReport, RelatedReport, Report, SiteReport, VerdictKind, VerdictReport},
};

/// A correlation below this explains less than half of the differences (its square).
const STRONG: f64 = 0.7;

/// Fewer episodes show nothing that chance does not, with this many counters and sites.
pub const ENOUGH: u64 = 20;

/// A correlation that comes from fewer episodes is that of a few odd ones.
const CARRIED: f64 = 5.0;

/// By how much more often the last thread's events must happen, as a fraction of the others'.
const DIFFERS: f64 = 0.1;

/// The part of the lateness that the events must account for at the least that one costs.
const EXPLAINS: f64 = 0.15;

/// Of amounts of work: the part of the logarithm of the ratio of times.
const HALF: f64 = 0.5;

/// The figure of the evidence.
const CORRELATION: &str = "correlation";

/// Other counters that are named with their correlation.
const MOST_OTHERS: usize = 3;

/// Adds to verdicts that a thread is late which counter goes best with lateness there, if one does. If
/// none tells of a counter, a verdict on page faults may.
pub fn add(report: &Report, found: &mut [VerdictReport]) {
    for verdict in found.iter_mut() {
        add_to(report, verdict);
    }
    let tells = |verdict: &VerdictReport| verdict.evidence.contains_key(CORRELATION);
    let is_told = found.iter().any(tells);
    let mut all = found.iter_mut();
    let faults = all.find(|verdict| verdict.kind == VerdictKind::PageFaults);
    if let Some(verdict) = faults.filter(|_| !is_told)
        && let Some((site, best, size)) = of_faults(report)
    {
        tell(
            verdict,
            site,
            (best, size),
            &format!(" at {}", site.called()),
        );
    }
}

fn add_to(report: &Report, verdict: &mut VerdictReport) {
    let is_late = verdict.kind.is_of_work()
        || matches!(
            verdict.kind,
            VerdictKind::StragglerExecutesSlower | VerdictKind::StragglerBlocked
        );
    let site = verdict.site.and_then(|site| report.site(site));
    if let Some(site) = site.filter(|_| is_late)
        && let Some(best) = best(report, site)
    {
        tell(verdict, site, best, "");
    }
}

/// Adds the sentence. `place`: where, if the verdict does not say that.
fn tell(
    verdict: &mut VerdictReport,
    site: &SiteReport,
    (best, correlation): (&RelatedReport, f64),
    place: &str,
) {
    let (last, others) = (best.last.unwrap_or(0.0), best.others.unwrap_or(0.0));
    let text = format!(
        " Who is late{place} has more {}, {} before each barrier to {} {}: correlation \
         {correlation:.2} over {} episodes{}.",
        best.counter,
        number(last),
        Others::of(site).whose(),
        number(others),
        best.episodes,
        of_others(site, best),
    );
    verdict.text.push_str(&text);
    verdict.evidence.extend([
        (CORRELATION, Figure::Real(correlation)),
        ("correlation_episodes", Figure::Whole(best.episodes)),
    ]);
}

/// The site with most waiting at which page faults go best with lateness: the site, the counter and its
/// correlation.
fn of_faults(report: &Report) -> Option<(&SiteReport, &RelatedReport, f64)> {
    let sites = report.sites.iter();
    let mut waiting = sites.filter(|site| Cost::of(report, site).is_some());
    waiting.find_map(|site| {
        let (best, size) = best(report, site)?;
        let is_of_faults = says(&best.counter) == Says::Faults;
        is_of_faults.then_some((site, best, size))
    })
}

/// The counter that goes best with lateness at a site, if it may explain it, and its correlation.
fn best<'a>(report: &Report, site: &'a SiteReport) -> Option<(&'a RelatedReport, f64)> {
    let late = site.straggler.as_ref()?.late.as_ref()?;
    let strong = site.related.iter().filter_map(|counter| {
        let is_carried = counter
            .effective_episodes
            .is_some_and(|some| some >= CARRIED);
        let is_enough = counter.episodes >= ENOUGH && is_carried;
        let correlation = counter.correlation.filter(|size| *size >= STRONG)?;
        (is_enough && matters(report, late, counter)).then_some((counter, correlation))
    });
    let mut first: Option<(&RelatedReport, f64)> = None;
    for (counter, correlation) in strong {
        // The order of the report decides between equals.
        if first.is_none_or(|(_, most)| correlation > most) {
            first = Some((counter, correlation));
        }
    }
    first
}

/// Whether the difference between the last thread's count and the others' is large enough to be why
/// it is late.
fn matters(report: &Report, late: &LateReport, counter: &RelatedReport) -> bool {
    let (Some(last), Some(others), Some(late_ns)) = (counter.last, counter.others, counter.late_ns)
    else {
        return false;
    };
    let (more, late_ns) = (last - others, late_ns as f64);
    // What the processor and the kernel do for a thread is no reason for its lack of a CPU.
    let on_cpu_ns = on_a_cpu_ns(late).unwrap_or(late_ns);
    if counter.made_by_lateness || more <= 0.0 || more < DIFFERS * others {
        return false;
    }
    match says(&counter.counter) {
        Says::Nothing => false,
        Says::Faults => on_cpu_ns > 0.0 && kernel::explain(report, more, on_cpu_ns),
        Says::Misses(ns) => on_cpu_ns > 0.0 && more * ns >= EXPLAINS * on_cpu_ns,
        Says::Waits(ns) => more * ns >= EXPLAINS * late_ns,
        Says::Amount => {
            let times = (late.last.running_ns, late.others.running_ns);
            let (own, rest) = match times {
                (Some(own), Some(rest)) => (own, rest),
                _ => (late.last.work_ns, late.others.work_ns),
            };
            let longer = (own as f64 / rest.max(1) as f64).ln();
            longer > 0.0 && (others <= 0.0 || (last / others).ln() >= HALF * longer)
        }
    }
}

/// By how much longer the last thread is on a CPU than the others on average, ns; `None` if unknown.
fn on_a_cpu_ns(late: &LateReport) -> Option<f64> {
    let longer = late.last.running_ns? as f64 - late.others.running_ns? as f64;
    (late.split_episodes > 0).then(|| longer / late.split_episodes as f64)
}

/// The correlations of other counters, in brackets; empty if there are none.
fn of_others(site: &SiteReport, best: &RelatedReport) -> String {
    // All page faults and those without a disk are one thing if they are as many.
    let is_same = |counter: &RelatedReport| {
        counter.counter == best.counter
            || [counter, best].map(|counter| says(&counter.counter)) == [Says::Faults; 2]
                && (counter.last, counter.others) == (best.last, best.others)
    };
    let others = site
        .related
        .iter()
        .filter(|counter| !counter.made_by_lateness);
    let others = others.filter(|counter| !is_same(counter));
    let named: Vec<String> = others
        .filter_map(|counter| Some(format!("{} {:.2}", counter.counter, counter.correlation?)))
        .take(MOST_OTHERS)
        .collect();
    if named.is_empty() {
        String::new()
    } else {
        format!(" ({})", named.join(", "))
    }
}

/// A mean count.
fn number(count: f64) -> String {
    if count < 99.95 {
        format!("{count:.1}")
    } else {
        super::words::whole(count).to_string()
    }
}
