//! The efficiency of the threads.

use super::{duration, line, wrapped};
use crate::show::table::Style;
use sbt_engine::report::{EfficiencyReport, ParallelismReport, Report, SiteReport, TrendReport};

/// Maximum number of busy-thread counts that are listed one by one.
const MOST_COUNTS: usize = 6;
/// Minimum share that is mentioned, percent.
const LEAST_PCT: f64 = 1.0;
/// Minimum difference from the plain path for mentioning the weighted path, percent.
const TELLING_PCT: f64 = 5.0;
/// A lack of CPUs is mentioned if the available share is below this.
const ENOUGH_CPUS: f64 = 0.98;
/// Minimum relative change in the number of busy threads that is mentioned.
const CHANGED: f64 = 0.25;
/// Number of bars in a line of bars.
const SPARKS: usize = 20;
/// Minimum share of the wall time that a saving must have to be mentioned.
const WORTH_SAVING: f64 = 0.001;

/// The efficiency of the run and its factors.
pub fn efficiency(out: &mut String, report: &Report, style: Style) {
    let it = match report.known_efficiency() {
        Ok(it) => it,
        Err(because) => {
            for part in wrapped(&format!("efficiency ?: {because}"), style.width) {
                line(out, &part);
            }
            return;
        }
    };
    let mut text = format!(
        "{}; speed-up {:.1} of {}",
        factors(it, style),
        it.speedup,
        it.threads
    );
    if let Some(cpus) = it.cpu_availability.filter(|cpus| *cpus < ENOUGH_CPUS) {
        text = format!(
            "{text}; without a CPU {:.0} % of the work",
            (1.0 - cpus) * 100.0
        );
    }
    if let Some(pct) = report.asleep_in_work_pct() {
        text = format!("{text}; asleep {pct:.0} % of the work");
    }
    for part in wrapped(&text, style.width) {
        line(out, &part);
    }
}

/// The parallel efficiency and its factors.
pub fn factors(it: &EfficiencyReport, style: Style) -> String {
    let times = if style.unicode { '×' } else { 'x' };
    format!(
        "efficiency {:.2} = balance {:.2} {times} serial {:.2} {times} transfer {:.2}",
        it.parallel, it.load_balance, it.serialisation, it.transfer,
    )
}

/// Facts about a site other than which thread is late, one sentence each.
pub fn usage(report: &Report, site: &SiteReport, style: Style) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(site.parallelism.as_ref().map(busy));
    facts.extend(path(site));
    facts.extend(what_if(report, site, style));
    facts
}

fn busy(it: &ParallelismReport) -> String {
    let whole: u64 = it.times.iter().map(|time| time.ns).sum();
    let share = |ns: u64| ns as f64 / whole.max(1) as f64 * 100.0;
    let mut times: Vec<_> = it.times.iter().collect();
    times.sort_by_key(|time| (std::cmp::Reverse(time.ns), time.busy));
    times.retain(|time| share(time.ns) >= LEAST_PCT);
    times.truncate(MOST_COUNTS);
    times.sort_by_key(|time| time.busy);
    let times: Vec<String> = times
        .iter()
        .map(|time| format!("{} for {:.0} %", time.busy, share(time.ns)))
        .collect();
    format!(
        "busy threads: {} of the time; {:.1} on average",
        times.join(", "),
        it.mean_busy
    )
}

/// The number of busy threads over the run as bars, if it changed.
pub fn busy_over_the_run(trend: &[TrendReport], style: Style) -> Option<String> {
    let groups = trend.chunks(trend.len().div_ceil(SPARKS).max(1));
    let mean = |group: &[TrendReport]| {
        let known: Vec<f64> = group.iter().filter_map(|part| part.mean_busy).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let means: Vec<f64> = groups.filter_map(mean).collect();
    let (first, last) = (*means.first()?, *means.last()?);
    let highest = means.iter().copied().fold(f64::MIN, f64::max);
    let lowest = means.iter().copied().fold(f64::MAX, f64::min);
    if means.len() < 4 || lowest > (1.0 - CHANGED) * highest {
        return None;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of threads are positive and small"
    )]
    let hundredths: Vec<u64> = means.iter().map(|mean| (mean * 100.0) as u64).collect();
    let top = hundredths.iter().copied().max()?;
    Some(format!(
        "busy threads over the run: {first:.1} to {last:.1}  {}",
        style.spark(&hundredths, top)
    ))
}

/// The share of the critical path at this site, if there are other sites on the path.
fn path(site: &SiteReport) -> Option<String> {
    let path = site
        .path_pct
        .filter(|pct| (LEAST_PCT..100.0 - LEAST_PCT).contains(pct))?;
    let weighted = site
        .weighted_path_pct
        .filter(|weighted| (weighted - path).abs() >= TELLING_PCT);
    let weighted = weighted.map_or_else(String::new, |weighted| {
        format!(", {weighted:.0} % if weighted by the threads that do not work")
    });
    Some(format!(
        "{path:.0} % of the critical path is here{weighted}"
    ))
}

fn what_if(report: &Report, site: &SiteReport, style: Style) -> Option<String> {
    let worth = |ns: u64| ns as f64 >= WORTH_SAVING * report.seen_ns() as f64;
    let it = &site.what_if;
    let faster_ns = it.straggler_25_pct_faster_ns;
    let mut parts = Vec::new();
    if worth(faster_ns) && report.of_known_work(site, faster_ns).is_some() {
        let saved = duration(Some(faster_ns), style);
        parts.push(format!("a straggler 25 % faster would save {saved}"));
    }
    if let Some(release_ns) = it.no_release_ns.filter(|ns| worth(*ns)) {
        let saved = duration(Some(release_ns), style);
        parts.push(format!("threads that resume at once {saved}"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
