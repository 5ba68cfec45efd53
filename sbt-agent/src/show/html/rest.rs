//! Locks, unfinished episodes, and notes on the figures.

use maud::{Markup, html};

use super::{
    MOST_ROWS, Times, count, further, marked, percent, scrolling, section, td_count, th, time,
};
use sbt_engine::report::{Report, UnfinishedReport, locks::LockReport};

/// The section about locks that threads waited for; empty if locks were not watched.
pub fn locks(report: &Report) -> Markup {
    let Some(all) = report.locks.as_ref().filter(|all| !all.is_empty()) else {
        return html! {};
    };
    let column = |title, of: fn(&LockReport) -> Option<u64>| Times::new(title, all, of);
    let columns = [
        column("time", |lock| Some(lock.total_ns)),
        column("mean", |lock| lock.mean_ns),
        column("longest", |lock| Some(lock.max_ns)),
    ];
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "waited for at" }
                    th scope="col" { "kind" }
                    @for (at, column) in columns.iter().enumerate() { (column.th(at == 0)) }
                    (th("waits")) (th("at a time"))
                }
            }
            tbody {
                @for lock in all.iter().take(MOST_ROWS) {
                    tr {
                        th scope="row" class="site" { (lock.site.as_ref().unwrap_or(&lock.address)) }
                        td { (lock.kind) }
                        @for column in &columns { (column.td(lock)) }
                        (td_count(lock.waits)) (td_count(lock.waiters_max))
                    }
                }
            }
        }
    };
    let body = html! {
        p class="hint" { "Waits while futexes were watched: a note below says if that was not all the time." }
        (scrolling("Locks", &table)) (further(all.len(), "locks"))
    };
    section("locks", "Locks", &body)
}

/// The section about episodes that had not ended.
pub fn unfinished(report: &Report) -> Markup {
    if report.unfinished.is_empty() {
        return html! {};
    }
    let labels = |ids: &[u32]| {
        let named: Vec<String> = ids.iter().take(32).map(|id| report.label(*id)).collect();
        match ids.len() {
            0 => "nobody known".to_owned(),
            1..=32 => named.join(", "),
            all => format!("{} and {} more", named.join(", "), all - 32),
        }
    };
    let body = html! {
        ul {
            @for it in report.unfinished.iter().take(MOST_ROWS) {
                li {
                    strong { (report.site(it.site).map_or_else(|| "?".into(), sbt_engine::report::SiteReport::called)) }
                    ": there " (labels(&it.arrived)) "; missing " (missing(report, it).unwrap_or_else(|| labels(&it.missing))) "; waiting for " (time(it.waiting_ns))
                }
            }
        }
    };
    section("unfinished", "Not ended", &body)
}

/// The threads missing at a barrier. Known only for the barrier of the hang, where threads were
/// inspected.
fn missing(report: &Report, it: &UnfinishedReport) -> Option<String> {
    let hang = &report.run.hang.as_ref()?.found;
    let is_it = hang.barrier.as_ref()?.id == Some(it.barrier);
    let names = hang
        .missing
        .iter()
        .take(32)
        .map(|thread| thread.who.name.as_str());
    let names: Vec<&str> = names.collect();
    let further = hang.missing.len() - names.len();
    let names = match further {
        0 => names.join(", "),
        _ => format!("{} and {further} more", names.join(", ")),
    };
    (is_it && !names.is_empty()).then_some(names)
}

/// The section about lost events, unknown values, and the cost of watching.
pub fn notes(report: &Report) -> Markup {
    let cost = &report.own_cost;
    let departures = match report.run.departures {
        Some(true) => "watched",
        Some(false) => "not watched: the release time is unknown, and is contained in the work",
        None => "watched in part",
    };
    let body = html! {
        dl class="facts" {
            div { dt { "events lost" } dd { (count(report.lost_events)) } }
            div { dt { "incomplete episodes" } dd { (count(report.incomplete_episodes)) } }
            div { dt { "arrivals" } dd { (count(report.arrivals)) } }
            div { dt { "cost of a probe" } dd { (time(cost.ns_per_event)) } }
            div { dt { "of thread time" } dd { (percent(cost.share_pct)) } }
            div { dt { "CPU time of sbt" } dd { (time(cost.cpu_ns)) } }
        }
        p { "Departures were " (departures) "." }
        @if let Some(because) = &cost.unknown_because { p { "The cost of the probes is unknown: " (because) "." } }
        @if !report.notes.is_empty() {
            ul class="notes" { @for note in report.notes.iter().take(MOST_ROWS) { li { (marked(note)) } } }
        }
        p class="hint" { "“?” means unknown or not measured." }
    };
    section("notes", "Losses, notes, own cost", &body)
}
