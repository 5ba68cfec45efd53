//! How each thread spent its time.

use maud::{Markup, html};

use super::{MOST_ROWS, Times, bars, further, scrolling, section, td_count, th, time};
use sbt_engine::report::{Report, ThreadReport};

/// The section with the table of threads.
pub fn threads(report: &Report) -> Markup {
    if report.threads.is_empty() {
        return html! {};
    }
    let most = report.threads.iter().map(whole).max().unwrap_or(0).max(1) as f64;
    let all = &report.threads;
    let idle = Times::new("idle", all, |thread| Some(thread.idle_ns));
    let work = Times::new("work", all, |thread| thread.work_ns);
    let release = Times::new("release", all, |thread| thread.release_ns);
    let ready = Times::new("ready", all, |thread| thread.ready_ns);
    let blocked = Times::new("blocked", all, |thread| thread.blocked_ns);
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "thread" }
                    th scope="col" { "its time" }
                    (idle.th(false)) (work.th(false)) (release.th(false)) (ready.th(false)) (blocked.th(false))
                    (th("last")) (th("tid"))
                }
            }
            tbody {
                @for thread in all.iter().take(MOST_ROWS) {
                    tr {
                        th scope="row" {
                            (thread.label) " "
                            span class="places" {
                                (thread.name)
                                @if thread.threads > 1 { " (" (thread.threads) " threads)" }
                            }
                        }
                        td class="wide" { (bar(thread, most)) }
                        (idle.td(thread)) (work.td(thread)) (release.td(thread)) (ready.td(thread)) (blocked.td(thread))
                        (td_count(thread.last))
                        td class="n" data-v=(thread.tid) { (thread.tid) }
                    }
                }
            }
        }
    };
    let body = html! {
        (bars::legend(&[
            ("work", "work on a CPU"),
            ("ready", "of the work: ready without a CPU"),
            ("blocked", "of the work: blocked"),
            ("release", "release: resuming afterwards"),
            ("idle", "idle: waiting for the last thread"),
        ]))
        (scrolling("Threads", &table))
        (further(report.threads.len(), "threads"))
    };
    section("threads", "Idle by thread", &body)
}

fn whole(thread: &ThreadReport) -> u64 {
    thread.work_ns.unwrap_or(0) + thread.idle_ns + thread.release_ns.unwrap_or(0)
}

fn bar(thread: &ThreadReport, most: f64) -> Markup {
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
        "work {} (ready {}, blocked {}), release {}, idle {}",
        time(thread.work_ns),
        time(thread.ready_ns),
        time(thread.blocked_ns),
        time(thread.release_ns),
        time(thread.idle_ns),
    );
    bars::stacked(&label, &parts)
}
