//! Where each thread's time went.

use maud::{Markup, html};

use super::{MOST_ROWS, bars, further, scrolling, section, td_count, td_time, th, time};
use crate::report::{Report, ThreadReport};

/// The table of threads.
pub fn threads(report: &Report) -> Markup {
    if report.threads.is_empty() {
        return html! {};
    }
    let most = report.threads.iter().map(whole).max().unwrap_or(0).max(1) as f64;
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "thread" }
                    th scope="col" { "name" }
                    (th("tid")) (th("work")) (th("idle")) (th("release"))
                    (th("ready")) (th("blocked")) (th("last"))
                    th scope="col" { "its time" }
                }
            }
            tbody {
                @for thread in report.threads.iter().take(MOST_ROWS) { (row(thread, most)) }
            }
        }
    };
    let body = html! {
        (bars::legend(&[
            ("work", "work on a CPU"),
            ("ready", "work, ready without a CPU"),
            ("blocked", "work, blocked"),
            ("release", "release: getting going again"),
            ("idle", "idle: waiting for the last"),
        ]))
        (scrolling("Threads", &table))
        (further(report.threads.len(), "threads"))
    };
    section("threads", "Idle by thread", &body)
}

fn whole(thread: &ThreadReport) -> u64 {
    thread.work_ns.unwrap_or(0) + thread.idle_ns + thread.release_ns.unwrap_or(0)
}

fn row(thread: &ThreadReport, most: f64) -> Markup {
    let share = |ns: Option<u64>| ns.unwrap_or(0) as f64 / most;
    let away = share(thread.ready_ns) + share(thread.blocked_ns);
    let parts = [
        ("work", (share(thread.work_ns) - away).max(0.0)),
        ("ready", share(thread.ready_ns)),
        ("blocked", share(thread.blocked_ns)),
        ("release", share(thread.release_ns)),
        ("idle", share(Some(thread.idle_ns))),
    ];
    let label = format!(
        "work {}, of it ready {}, blocked {}; release {}, idle {}",
        time(thread.work_ns),
        time(thread.ready_ns),
        time(thread.blocked_ns),
        time(thread.release_ns),
        time(thread.idle_ns),
    );
    html! {
        tr {
            th scope="row" { (thread.label) }
            td class="name" {
                (thread.name)
                @if thread.threads > 1 { " (" (thread.threads) " threads)" }
            }
            td class="n" data-v=(thread.tid) { (thread.tid) }
            (td_time(thread.work_ns))
            (td_time(thread.idle_ns))
            (td_time(thread.release_ns))
            (td_time(thread.ready_ns))
            (td_time(thread.blocked_ns))
            (td_count(thread.last))
            td class="wide" { (bars::stacked(&label, &parts)) }
        }
    }
}
