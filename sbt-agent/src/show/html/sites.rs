//! Barriers by lost time, with the threads of the worst sites.

use maud::{Markup, html};

use super::{
    MOST_ROWS, Times, bars, counters, further, percent, scrolling, section, td_count, td_percent,
    td_time, th, time,
};
use crate::show::related::related;
use sbt_engine::report::{Report, SiteReport, StatReport, StragglerPattern, StragglerReport};

/// Number of sites whose threads are shown.
const DETAILED: usize = 8;
/// Maximum number of threads shown per site.
const MOST_THREADS: usize = 128;

fn mean(stat: Option<&StatReport>) -> Option<u64> {
    stat.map(|stat| stat.mean)
}

/// The section: the table of sites, and details of the worst.
pub fn barriers(report: &Report) -> Markup {
    if report.sites.is_empty() {
        let body = html! {
            p {
                @if report.is_complete() {
                    "No barrier was found in " (time(report.run.wall_ns)) "."
                } @else {
                    "No barrier was seen in the recorded " (time(report.run.wall_ns)) "."
                }
                @if let Some(because) = &report.run.none_found_because { " " (because) "." }
            }
        };
        return section("barriers", "Barriers", &body);
    }
    let sites = &report.sites;
    let most = sites.iter().map(|site| site.lost_ns).max().unwrap_or(0);
    let lost = Times::new("lost", sites, |site| Some(site.lost_ns));
    let phase = Times::new("phase", sites, |site| mean(site.phase_ns.as_ref()));
    let barrier = Times::new("barrier", sites, |site| mean(site.barrier_ns.as_ref()));
    let gain = Times::new("gain", sites, |site| {
        report.of_known_work(site, site.gain_ns)
    });
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "site" }
                    (lost.th(true)) (th("of wall")) (th("episodes"))
                    (phase.th(false)) (barrier.th(false)) (gain.th(false)) (th("imbalance"))
                    th scope="col" { "last to arrive" }
                    th scope="col" { "kind" }
                }
            }
            tbody {
                @for site in sites.iter().take(MOST_ROWS) {
                    tr id=(format!("site-{}", site.id)) {
                        th scope="row" class="site" {
                            (site.called())
                            @if site.name.is_some() { span class="places" { (site.places.join(" | ")) } }
                            (bars::single("share of the largest loss", site.lost_ns as f64 / most.max(1) as f64))
                        }
                        (lost.td(site)) (td_percent(site.lost_wall_pct)) (td_count(site.episodes))
                        (phase.td(site)) (barrier.td(site)) (gain.td(site)) (td_percent(site.imbalance_pct))
                        td { (last(report, site.straggler.as_ref())) }
                        td { (site.kind) }
                    }
                }
            }
        }
    };
    let body = html! {
        p class="hint" {
            "Lost: the waiting of all threads together, worst site first. Phase and barrier: mean \
            of an episode. Gain: wall time that perfect balance would save."
        }
        (scrolling("Barriers", &table))
        (further(sites.len(), "sites"))
        @for site in sites.iter().filter(|site| site.lost_ns > 0).take(DETAILED) {
            (details(report, site))
        }
    };
    section("barriers", "Barriers", &body)
}

fn last(report: &Report, it: Option<&StragglerReport>) -> Markup {
    html! {
        @match it {
            Some(it) => {
                (report.label(it.thread)) " " (percent(Some(it.share_pct)))
                @if it.pattern != StragglerPattern::None { span class="places" { (it.pattern) } }
            },
            None => "?",
        }
    }
}

fn details(report: &Report, site: &SiteReport) -> Markup {
    let threads = &site.threads;
    let work = Times::new("work, mean", threads, |thread| {
        mean(thread.each.work_ns.as_ref())
    });
    let idle = Times::new("idle, mean", threads, |thread| {
        mean(thread.each.idle_ns.as_ref())
    });
    let lost = Times::new("idle, sum", threads, |thread| Some(thread.idle_ns));
    let release = Times::new("release, mean", threads, |thread| {
        mean(thread.each.release_ns.as_ref())
    });
    let counts: Vec<_> = threads.iter().map(|thread| &thread.counters).collect();
    let counted = counters::columns(report, &counts, ", sum");
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "thread" }
                    th scope="col" { "work and idle" }
                    (work.th(false)) (idle.th(false)) (lost.th(false)) (release.th(false)) (th("last"))
                    @for column in &counted { (column.th()) }
                }
            }
            tbody {
                @for (at, it) in threads.iter().enumerate().take(MOST_THREADS) {
                    tr {
                        th scope="row" { (report.label(it.thread)) }
                        td class="wide" { (work_and_idle(site, it.work_ns, it.idle_ns)) }
                        (work.td(it)) (idle.td(it)) (lost.td(it)) (release.td(it)) (td_count(it.last))
                        @for column in &counted { (column.td(at)) }
                    }
                }
            }
        }
    };
    let stat = |name: &str, it: Option<&StatReport>| {
        html! {
            @if let Some(it) = it {
                tr {
                    th scope="row" { (name) }
                    (td_time(it.min)) (td_time(it.p50)) (td_time(it.mean)) (td_time(it.p95)) (td_time(it.p99)) (td_time(it.max))
                }
            }
        }
    };
    let stats = html! {
        table {
            thead { tr { th scope="col" { "time" } (th("least")) (th("median")) (th("mean")) (th("95 %")) (th("99 %")) (th("most")) } }
            tbody {
                (stat("phase", site.phase_ns.as_ref()))
                (stat("barrier", site.barrier_ns.as_ref()))
                (stat("idle, a thread", site.idle_ns.as_ref()))
                (stat("work, a thread", site.work_ns.as_ref()))
                (stat("release, a thread", site.release_ns.as_ref()))
            }
        }
    };
    html! {
        details {
            summary { (site.called()) ": its threads" }
            (scrolling("Times of this site", &stats))
            (scrolling("Threads of this site", &table))
            @if let Some(related) = related(site) { p { "Counters: " (related) "." } }
            @if site.threads.len() > MOST_THREADS {
                p class="hint" { (site.threads.len() - MOST_THREADS) " further threads are not shown." }
            }
        }
    }
}

/// A bar of a thread's work and idle time. The full width is the largest sum of any thread.
fn work_and_idle(site: &SiteReport, work_ns: Option<u64>, idle_ns: u64) -> Markup {
    let sums = site
        .threads
        .iter()
        .map(|thread| thread.work_ns.unwrap_or(0) + thread.idle_ns);
    let most = sums.max().unwrap_or(0).max(1) as f64;
    let label = format!("work {}, idle {}", time(work_ns), time(idle_ns));
    let parts = [
        ("work", work_ns.unwrap_or(0) as f64 / most),
        ("idle", idle_ns as f64 / most),
    ];
    bars::stacked(&label, &parts)
}
