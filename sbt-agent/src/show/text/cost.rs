//! The cost of watching, in words.

use super::{line, paragraph};
use crate::show::table::{Style, Table, count, duration};
use sbt_engine::report::{CompensatedReport, Report, Withheld};

/// The cost to the program, for the last lines of the report.
pub(super) fn own_cost(report: &Report, style: Style) -> String {
    let cost = &report.own_cost;
    match (cost.share_pct, cost.ns_per_event) {
        (Some(share), Some(each)) => format!(
            "own cost {} %, {} per hit",
            share_text(share),
            duration(Some(each), style)
        ),
        (Some(share), None) => format!("own cost {} %", share_text(share)),
        _ => "own cost unknown".into(),
    }
}

/// A share that may be tiny, percent.
fn share_text(pct: f64) -> String {
    if pct > 0.0 && pct < 0.01 {
        "< 0.01".into()
    } else {
        format!("{pct:.2}")
    }
}

/// The estimated times without the cost of watching, beside the measured times.
pub fn compensated(out: &mut String, report: &Report, style: Style) {
    line(out, "");
    let Some(all) = &report.compensated else {
        let withheld = report.why_withheld(Withheld::Compensated);
        let because = withheld.map(|withheld| withheld.because.as_str());
        let because = because.or(report.own_cost.unknown_because.as_deref());
        let because = because.unwrap_or("too much happened before the costs were known");
        paragraph(out, &format!("no compensated figures: {because}"), style);
        return;
    };
    line(
        out,
        &style.bold("Without the cost of watching (virtual time)"),
    );
    let wall = duration(all.wall_ns, style);
    let was = duration(Some(report.run.wall_ns), style);
    line(out, &format!("wall time {wall} (watched: {was})"));
    let sites = report.sites.iter();
    let rows: Vec<(String, &CompensatedReport)> = sites
        .filter_map(|site| Some((site.called(), site.compensated.as_ref()?)))
        .take(super::MOST_ROWS)
        .collect();
    let column = |f: &dyn Fn(&CompensatedReport) -> Option<u64>| -> Vec<Option<u64>> {
        rows.iter().map(|(_, sums)| f(sums)).collect()
    };
    let episodes = rows.iter().map(|(_, sums)| count(sums.episodes));
    let mut table = Table::default();
    table
        .column(
            "barrier",
            rows.iter().map(|(name, _)| name.clone()).collect(),
        )
        .column("episodes", episodes.collect())
        .durations("phase", &column(&|sums| sums.phase_mean_ns), style)
        .durations("idle", &column(&|sums| Some(sums.idle_ns)), style)
        .durations("work", &column(&|sums| Some(sums.work_ns)), style);
    if !rows.is_empty() {
        table.write(out, style, style.width.saturating_sub(44).max(20));
    }
}
