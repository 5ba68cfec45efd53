//! The number of threads that were busy at the same time, and what was on the critical path.

use maud::{Markup, html};

use super::{MOST_ROWS, Times, bars, further, percent, scrolling, section, td_percent, th, time};
use sbt_engine::report::{ParallelismReport, PhaseReport, Report, SiteReport};

/// Maximum number of functions in a table.
const MOST_FUNCTIONS: usize = 40;

/// The section about time by number of busy threads, and normalised processor time.
pub fn parallelism(report: &Report) -> Markup {
    let body = html! {
        p class="hint" {
            "A thread is busy between barriers. Normalised processor time (NPT): each moment \
             divided by the number of threads that are busy then; the NPT of all phases together \
             is the time in which at least one thread is busy."
        }
        @match &report.parallelism {
            Some(it) => (busy(it)),
            None => p { "The number of busy threads is unknown: in no episode did sbt see all \
                threads begin." },
        }
        div class="columns" {
            (phases(report))
            (sites(report))
            (threads(report))
        }
        (functions(report))
    };
    section("parallelism", "Parallelism", &body)
}

fn busy(it: &ParallelismReport) -> Markup {
    let wall = Times::new("wall time", &it.times, |at| Some(at.ns));
    let whole = it.times.iter().map(|time| time.ns).sum::<u64>().max(1) as f64;
    let most = it
        .times
        .iter()
        .map(|time| time.ns)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let table = html! {
        table class="busy" {
            thead { tr { (th("busy threads")) (wall.th(false)) (th("share")) th scope="col" { span class="quiet" { "of the longest" } } } }
            tbody {
                @for at in &it.times {
                    tr {
                        th scope="row" class="n" { (at.busy) }
                        (wall.td(at))
                        (td_percent(Some(at.ns as f64 / whole * 100.0)))
                        td class="wide" { (bars::single(&format!("{} busy", at.busy), at.ns as f64 / most)) }
                    }
                }
            }
        }
    };
    html! {
        p { "At least one thread was busy for " strong { (time(it.busy_ns)) } ", " strong { (format!("{:.1}", it.mean_busy)) } " on average." }
        (scrolling("Time by the number of busy threads", &table))
    }
}

/// Name, normalised processor time (ns), and mean number of busy threads.
type Row = (String, u64, Option<f64>);

fn npt(title: &str, what: &str, mut rows: Vec<Row>) -> Markup {
    rows.retain(|row| row.1 > 0);
    if rows.is_empty() {
        return html! {};
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    let all = rows.iter().map(|row| row.1).sum::<u64>().max(1) as f64;
    let time = Times::new("NPT", &rows, |row| Some(row.1));
    let has_busy = rows.iter().any(|row| row.2.is_some());
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { (what) }
                    (time.th(true))
                    (th("share"))
                    @if has_busy { (th("busy, mean")) }
                }
            }
            tbody {
                @for row in rows.iter().take(MOST_ROWS) {
                    @let (name, ns, mean) = row;
                    tr {
                        th scope="row" class="site" { (name) (bars::single("share", *ns as f64 / all)) }
                        (time.td(row))
                        (td_percent(Some(*ns as f64 / all * 100.0)))
                        @if has_busy {
                            (super::td(&mean.map_or("?".into(), |mean| format!("{mean:.1}")), *mean))
                        }
                    }
                }
            }
        }
    };
    html! {
        div {
            h3 { (title) }
            (scrolling(title, &table))
            (further(rows.len(), what))
        }
    }
}

fn mean(parallelism: Option<&ParallelismReport>) -> Option<f64> {
    parallelism.map(|parallelism| parallelism.mean_busy)
}

pub fn phase_name(report: &Report, phase: &PhaseReport) -> String {
    let site = |id| {
        report
            .site(id)
            .map_or_else(|| "?".into(), sbt_engine::report::SiteReport::called)
    };
    let from = phase.from.map_or_else(|| "start".into(), site);
    format!("{from} → {}", site(phase.to))
}

fn phases(report: &Report) -> Markup {
    let rows = report.phases.iter().filter_map(|phase| {
        let parallelism = phase.parallelism.as_ref()?;
        Some((
            phase_name(report, phase),
            parallelism.busy_ns,
            mean(Some(parallelism)),
        ))
    });
    npt("By phase", "phase", rows.collect())
}

fn sites(report: &Report) -> Markup {
    let rows = report.sites.iter().filter_map(|site| {
        let parallelism = site.parallelism.as_ref()?;
        Some((site.called(), parallelism.busy_ns, mean(Some(parallelism))))
    });
    npt("By site", "site", rows.collect())
}

fn threads(report: &Report) -> Markup {
    let rows = report.threads.iter().map(|thread| {
        let name = format!("{} {}", thread.label, thread.name);
        (name, thread.npt_ns, None)
    });
    npt("By thread", "thread", rows.collect())
}

fn functions(report: &Report) -> Markup {
    let Some(all) = report.functions.as_ref().filter(|all| !all.is_empty()) else {
        return html! {};
    };
    let npt = Times::new("NPT", all, |function| Some(function.npt_ns));
    let own = Times::new("itself", all, |function| Some(function.self_npt_ns));
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "function" }
                    th scope="col" { "in" }
                    (npt.th(true)) (th("share")) (own.th(false)) (th("CPU")) (th("of the path"))
                }
            }
            tbody {
                @for it in all.iter().take(MOST_FUNCTIONS) {
                    tr {
                        th scope="row" class="site" { span class="function" title=(it.function) { (it.function) } }
                        td class="name" { (it.binary) }
                        (npt.td(it)) (td_percent(Some(it.npt_pct))) (own.td(it))
                        (td_percent(Some(it.cpu_pct))) (td_percent(it.path_pct))
                    }
                }
            }
        }
    };
    html! {
        h3 { "By function" }
        @if let Some(it) = &report.sampling {
            p class="hint" { (it.samples) " samples, " (it.hz) " per second of run time; " (it.working) " \
                of them during work." }
        }
        (scrolling("Functions", &table))
        @if all.len() > MOST_FUNCTIONS {
            p class="hint" { (all.len() - MOST_FUNCTIONS) " further functions are not shown: they are in the JSON report." }
        }
    }
}

/// The section about shares of the critical path.
pub fn path(report: &Report) -> Markup {
    let sites = report.sites.iter().map(|site| {
        let shares = (site.path_pct, site.weighted_path_pct);
        (site.called(), site.path_ns, shares)
    });
    let threads = report.threads.iter().map(|thread| {
        let name = format!("{} {}", thread.label, thread.name);
        (
            name,
            thread.path_ns,
            (thread.path_pct, thread.weighted_path_pct),
        )
    });
    let (sites, threads): (Vec<_>, Vec<_>) = (sites.collect(), threads.collect());
    let body = html! {
        p class="hint" {
            "In each episode the path runs through the work of the last thread to arrive. \
             Weighted: each moment counts once, and once more for each thread that does not work \
             then; so work that one thread does alone weighs most."
        }
        div class="columns" {
            (shares("By site", "site", sites))
            (shares("By thread", "thread", threads))
        }
        (what_if(report))
    };
    section("path", "Critical path", &body)
}

type Shares = (Option<f64>, Option<f64>);

fn shares(title: &str, what: &str, mut rows: Vec<(String, u64, Shares)>) -> Markup {
    rows.retain(|row| row.1 > 0);
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    let time = Times::new("on the path", &rows, |row| Some(row.1));
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { (what) }
                    (time.th(true))
                    (th("share")) (th("weighted"))
                }
            }
            tbody {
                @for row in rows.iter().take(MOST_ROWS) {
                    @let (name, _, (share, weighted)) = row;
                    tr {
                        th scope="row" class="site" { (name) (bars::single(&percent(*share), share.unwrap_or(0.0) / 100.0)) }
                        (time.td(row)) (td_percent(*share)) (td_percent(*weighted))
                    }
                }
            }
        }
    };
    html! {
        div {
            h3 { (title) }
            @if rows.is_empty() { p { "No data." } } @else { (scrolling(title, &table)) }
            (further(rows.len(), what))
        }
    }
}

fn what_if(report: &Report) -> Markup {
    let worth = |ns: u64| ns as f64 >= 0.001 * report.seen_ns() as f64;
    let known = |site: &SiteReport, ns| report.of_known_work(site, ns);
    let rows: Vec<&SiteReport> = report
        .sites
        .iter()
        .filter(|site| worth(site.what_if.straggler_25_pct_faster_ns) || worth(site.gain_ns))
        .take(MOST_ROWS)
        .collect();
    if rows.is_empty() {
        return html! {};
    }
    let columns = [
        Times::new("last 10 % faster", &rows, |site| {
            known(site, site.what_if.straggler_10_pct_faster_ns)
        }),
        Times::new("25 %", &rows, |site| {
            known(site, site.what_if.straggler_25_pct_faster_ns)
        }),
        Times::new("50 %", &rows, |site| {
            known(site, site.what_if.straggler_50_pct_faster_ns)
        }),
        Times::new("perfect balance", &rows, |site| known(site, site.gain_ns)),
        Times::new("no release time", &rows, |site: &&SiteReport| {
            site.what_if.no_release_ns
        }),
    ];
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "site" }
                    @for column in &columns { (column.th(false)) }
                }
            }
            tbody {
                @for site in &rows {
                    tr {
                        th scope="row" class="site" { (site.called()) }
                        @for column in &columns { (column.td(site)) }
                    }
                }
            }
        }
    };
    html! {
        h3 { "Wall time that would be saved" }
        (scrolling("Possible savings", &table))
    }
}
