//! A job of several nodes: its size, its hosts and their clocks.

use crate::show::table::{Style, duration, plural};
use sbt_engine::{
    report::{JobReport, Report},
    words::ranges,
};

/// How many ranks a job has, and on how many hosts.
pub(super) fn size(job: &JobReport) -> String {
    let hosts = plural(job.hosts.len() as u64, "host");
    match job.ranks {
        Some(ranks) if !job.missing_ranks.is_empty() => {
            let seen = u64::from(ranks).saturating_sub(job.missing_ranks.len() as u64);
            format!("{seen} of {}, on {hosts}", plural(ranks.into(), "rank"))
        }
        Some(ranks) => format!("{} on {hosts}", plural(ranks.into(), "rank")),
        None => format!("{} of {hosts}", plural(job.recordings.into(), "recording")),
    }
}

/// Which ranks ran where, which were not recorded, and how well the clocks of the machines agree.
pub(super) fn texts(report: &Report, job: &JobReport, style: Style) -> Vec<String> {
    let mut texts = Vec::new();
    if job.hosts.len() > 1 {
        let hosts = (0..).zip(&job.hosts).map(|(number, host)| {
            let there = report
                .processes
                .iter()
                .filter(|process| process.host == Some(number));
            let ranks: Vec<u32> = there.filter_map(|process| process.rank).collect();
            format!("{} ({})", host.name, ranges(&ranks))
        });
        texts.push(format!(
            "ranks by host: {}",
            hosts.collect::<Vec<_>>().join(", ")
        ));
    }
    if let Some(clocks) = job.clocks {
        let sign = if style.unicode { "±" } else { "+-" };
        let error = duration(Some(clocks.uncertainty_ns), style);
        texts.push(format!(
            "clocks of {} aligned by {}, {sign} {error}: between hosts, shorter waits do not tell which \
             rank came first",
            plural(job.hosts.len() as u64, "host"),
            plural(clocks.collectives, "collective"),
        ));
    }
    texts
}
