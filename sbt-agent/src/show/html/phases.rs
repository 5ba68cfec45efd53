//! How long each phase takes: until the first thread arrives, and from then until the last.

use maud::{Markup, html};

use super::{
    MOST_ROWS, bars, further, scrolling, section, td_percent, td_time, th, usage::phase_name,
};
use sbt_engine::report::{PhaseReport, Report};

/// The section with a bar for each phase; nothing if no phase has ended.
pub fn phases(report: &Report) -> Markup {
    let mut all: Vec<&PhaseReport> = report.phases.iter().collect();
    all.retain(|phase| phase.sum_ns() > 0);
    all.sort_by_key(|phase| std::cmp::Reverse(phase.sum_ns()));
    let Some(longest) = all.first().map(|phase| phase.sum_ns() as f64) else {
        return html! {};
    };
    let whole: u64 = all.iter().map(|phase| phase.sum_ns()).sum();
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "phase" } (th("times")) (th("sum")) (th("share")) (th("barrier"))
                th scope="col" { span class="quiet" { "of the longest" } }
            } }
            tbody {
                @for phase in all.iter().take(MOST_ROWS) {
                    tr {
                        th scope="row" class="site" { (phase_name(report, phase)) }
                        td class="n" { (super::count(phase.episodes)) }
                        (td_time(phase.sum_ns()))
                        (td_percent(Some(phase.sum_ns() as f64 / whole.max(1) as f64 * 100.0)))
                        (td_percent(phase.barrier_pct()))
                        td class="wide" { (bar(phase, longest)) }
                    }
                }
            }
        }
    };
    let body = html! {
        p class="hint" {
            "From barrier to barrier, wall time summed over the run. The barrier's part of a phase is that \
             from its first arrival to its last: meanwhile some threads wait already."
        }
        (bars::legend(&[("work", "until the first thread arrives"), ("idle", "until the last arrives")]))
        (scrolling("phases", &table))
        (further(all.len(), "phases"))
    };
    section("phases", "Phases", &body)
}

fn bar(phase: &PhaseReport, longest: f64) -> Markup {
    let share = phase.sum_ns() as f64 / longest;
    let barrier = phase.barrier_pct().map_or(0.0, |pct| pct / 100.0);
    let label = format!("the barrier is {:.0} % of the phase", barrier * 100.0);
    let parts = [("work", share * (1.0 - barrier)), ("idle", share * barrier)];
    bars::stacked(&label, &parts)
}
