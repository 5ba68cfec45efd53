//! The JSON reports of several runs of a program, and medians over them.

use anyhow::{Context, Result};
use serde::Deserialize;

/// The runs of both programs of a study.
#[derive(Clone)]
pub struct Pair {
    /// Threads of either program.
    pub threads: usize,
    /// The program with the fault.
    pub fault: Series,
    /// The mended program.
    pub fix: Series,
}

/// The reports of several runs of one program.
#[derive(Clone)]
pub struct Series(Vec<Report>);

/// The part of a JSON report that is used here; docs/json.md describes the fields.
#[derive(Clone, Deserialize)]
pub struct Report {
    wall_ns: u64,
    lost_events: u64,
    incomplete_episodes: u64,
    threads: Vec<Times>,
    sites: Vec<Site>,
}

#[derive(Clone, Deserialize)]
struct Site {
    function: Option<String>,
    episodes: u64,
    lost_ns: u64,
    gain_ns: u64,
    imbalance_pct: Option<f64>,
    phase_ns: Option<Sum>,
    straggler: Option<Straggler>,
    threads: Vec<Times>,
}

#[derive(Clone, Deserialize)]
struct Sum {
    sum: u64,
}

#[derive(Clone, Deserialize)]
struct Straggler {
    mean_lead_ns: u64,
}

/// Times of a thread, over the whole report or at a site, in the order of the threads' numbers.
#[derive(Clone, Deserialize)]
struct Times {
    work_ns: Option<u64>,
    idle_ns: u64,
    running_ns: Option<u64>,
    last: u64,
}

impl Pair {
    /// Median over the runs of the mended program's wall time divided by the faulty program's.
    pub fn wall_ratio(&self) -> f64 {
        let runs = self.fault.0.iter().zip(&self.fix.0);
        median(runs.map(|(fault, fix)| fix.wall_ns as f64 / fault.wall_ns as f64))
    }
}

impl Report {
    /// Whether all events were seen.
    pub fn is_complete(&self) -> bool {
        self.lost_events == 0 && self.incomplete_episodes == 0
    }
}

impl Series {
    /// The reports must not be empty.
    pub fn new(reports: Vec<Report>) -> Self {
        Self(reports)
    }

    /// Time for which the program was watched, s.
    pub fn wall_s(&self) -> f64 {
        median(self.0.iter().map(|report| report.wall_ns as f64 / 1e9))
    }

    /// Thread time lost at all barriers, ms.
    pub fn lost_ms(&self) -> f64 {
        median(self.0.iter().map(|report| {
            let lost = report.sites.iter().map(|site| site.lost_ns);
            lost.sum::<u64>() as f64 / 1e6
        }))
    }

    /// Fraction of the threads' time that was lost, per cent.
    pub fn lost_pct(&self) -> f64 {
        median(self.0.iter().map(|report| {
            let idle: u64 = report.threads.iter().map(|thread| thread.idle_ns).sum();
            let work: u64 = report
                .threads
                .iter()
                .filter_map(|thread| thread.work_ns)
                .sum();
            100.0 * idle as f64 / (idle + work) as f64
        }))
    }

    /// Fraction of the time of all phases that belongs to these sites, per cent.
    pub fn phase_pct(&self, functions: &[&str]) -> f64 {
        median(self.0.iter().map(|report| {
            let all: u64 = report.sites.iter().map(Site::phase).sum();
            let wanted = report.sites.iter().filter(|site| site.is_one_of(functions));
            100.0 * wanted.map(Site::phase).sum::<u64>() as f64 / all as f64
        }))
    }

    /// The median of a figure at one site.
    fn at(&self, function: &str, f: impl Fn(&Site) -> Option<f64>) -> Result<f64> {
        let values: Option<Vec<f64>> = self
            .0
            .iter()
            .map(|report| {
                f(report
                    .sites
                    .iter()
                    .find(|site| site.is_one_of(&[function]))?)
            })
            .collect();
        let values = values.with_context(|| format!("a report says too little of {function}"))?;
        Ok(median(values.into_iter()))
    }

    /// Thread time lost at a site, ms.
    pub fn lost_at_ms(&self, function: &str) -> Result<f64> {
        self.at(function, |site| Some(site.lost_ns as f64 / 1e6))
    }

    /// Wall time that perfect balance would save at a site, ms.
    pub fn gain_at_ms(&self, function: &str) -> Result<f64> {
        self.at(function, |site| Some(site.gain_ns as f64 / 1e6))
    }

    /// The imbalance at a site, per cent.
    pub fn imbalance(&self, function: &str) -> Result<f64> {
        self.at(function, |site| site.imbalance_pct)
    }

    /// Mean lead of the last thread over the second last at a site, ms.
    pub fn lead_ms(&self, function: &str) -> Result<f64> {
        self.at(function, |site| {
            Some(site.straggler.as_ref()?.mean_lead_ns as f64 / 1e6)
        })
    }

    /// Fraction of a site's episodes in which a thread comes last, per cent.
    pub fn last_pct(&self, function: &str, thread: usize) -> Result<f64> {
        self.at(function, |site| {
            Some(100.0 * site.threads.get(thread)?.last as f64 / site.episodes as f64)
        })
    }

    /// Work of a thread in the phases before a site, ms.
    pub fn work_ms(&self, function: &str, thread: usize) -> Result<f64> {
        self.at(function, |site| {
            Some(site.threads.get(thread)?.work_ns? as f64 / 1e6)
        })
    }

    /// Waiting time of a thread at a site, ms.
    pub fn idle_ms(&self, function: &str, thread: usize) -> Result<f64> {
        self.at(function, |site| {
            Some(site.threads.get(thread)?.idle_ns as f64 / 1e6)
        })
    }

    /// CPU time of a thread in the phase before a site, ms.
    pub fn running_ms(&self, function: &str, thread: usize) -> Result<f64> {
        self.at(function, |site| {
            Some(site.threads.get(thread)?.running_ns? as f64 / 1e6)
        })
    }
}

impl Site {
    fn is_one_of(&self, functions: &[&str]) -> bool {
        let name = self.function.as_deref().unwrap_or_default();
        let name = name.rsplit("::").next().unwrap_or_default();
        functions.contains(&name)
    }

    fn phase(&self) -> u64 {
        self.phase_ns.as_ref().map_or(0, |phase| phase.sum)
    }
}

/// The middle value; the upper of the two middle values if their number is even.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(lasts: &[[u64; 2]]) -> Series {
        let report = |last: &[u64; 2]| {
            let threads = last.map(|last| {
                serde_json::json!({ "work_ns": 3_000_000, "idle_ns": 1_000_000,
                    "running_ns": null, "last": last })
            });
            serde_json::json!({
                "wall_ns": 2_000_000_000_u64, "lost_events": 0, "incomplete_episodes": 0,
                "threads": threads, "sites": [{
                    "function": "sbt::demo::sweep", "episodes": last[0] + last[1],
                    "lost_ns": 5_000_000, "gain_ns": 0, "imbalance_pct": null,
                    "phase_ns": { "sum": 7 }, "straggler": { "mean_lead_ns": 1 },
                    "threads": threads }]
            })
        };
        let reports = lasts.iter().map(report);
        Series(
            reports
                .map(|report| serde_json::from_value(report).unwrap())
                .collect(),
        )
    }

    #[test]
    fn figures_are_medians_over_the_runs() {
        let series = series(&[[1, 3], [3, 1], [4, 0]]);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(series.last_pct("sweep", 0).unwrap(), 75.0);
        close(series.lost_ms(), 5.0);
        close(series.lost_pct(), 25.0);
        close(series.phase_pct(&["sweep"]), 100.0);
        close(series.wall_s(), 2.0);
    }

    #[test]
    fn what_a_report_lacks_is_an_error_and_not_0() {
        let series = series(&[[1, 1]]);
        assert!(series.imbalance("sweep").is_err());
        assert!(series.running_ms("sweep", 0).is_err());
        assert!(series.lost_at_ms("weep").is_err());
        assert!(series.last_pct("sweep", 2).is_err());
    }
}
