//! The top of the page: which run this was, how well its threads were used, and why they waited.

use maud::{Markup, html};

use super::{count, marked, percent, section, time, unbroken};
use sbt_engine::{
    report::{
        EfficiencyReport, HangOutcome, HangThreadReport, Report, StandstillReport, VerdictKind,
    },
    words::command_line,
};

/// Factors below this limit, which is POP's, are highlighted.
const GOOD: f64 = 0.8;

/// The header.
pub fn head(report: &Report) -> Markup {
    let command = command_line(&report.run.command);
    let status = match report.run.exit_status {
        Some(status @ 129..=192) => format!("ended by signal {}", status - 128),
        Some(status) => format!("exit status {status}"),
        None if report.run.ended => "has ended".into(),
        None if !report.is_complete() => "end not recorded".into(),
        None => "was still running".into(),
    };
    let threads = report.threads.iter().map(|thread| thread.threads).sum();
    let parts = &report.thread_time;
    html! {
        header {
            p class="kind" { "sbt · where threads waited for each other" }
            h1 title=(command) { (command) }
            dl class="facts" {
                (fact("watched", &time(report.run.wall_ns)))
                (fact("threads", &count(threads)))
                @if report.processes.len() > 1 {
                    (fact("processes", &count(report.processes.len() as u64)))
                }
                (fact("episodes", &count(report.episodes)))
                (fact("waiting", &percent(parts.idle_pct)))
                (fact("work", &percent(parts.work_pct)))
                (fact("pid", &report.run.pid.to_string()))
                (fact("status", &unbroken(&status)))
                (fact("own cost", &percent(report.own_cost.share_pct)))
            }
            @if let Some(it) = &report.efficiency { (efficiency(report, it)) }
            @if let Some(part) = report.counted_part(time).or(report.why_nothing_counts()) {
                p class="note" { (marked(&part)) "." }
            }
            @for missing in &report.incomplete {
                p class="note" { "Not complete: " (missing.text) "." }
            }
            @if let Err(because) = report.known_efficiency() && !report.sites.is_empty() {
                p class="note" { "Efficiency and speed-up: ? (" (marked(because)) ")." }
            }
            @if report.estimated {
                p class="note" { "Estimated: the probes were switched off for part of the run, so \
                    that watching stays cheap. Times and shares cover the rest." }
            }
        }
    }
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn efficiency(report: &Report, it: &EfficiencyReport) -> Markup {
    let factors = [
        (
            "=",
            "load balance",
            it.load_balance,
            "small if one thread has more work than the others over the whole run",
        ),
        (
            "×",
            "serialisation",
            it.serialisation,
            "small if the thread with most work changes from phase to phase, and in serial parts",
        ),
        (
            "×",
            "transfer",
            it.transfer,
            "small if threads resume slowly after barriers, or lack CPUs",
        ),
    ];
    html! {
        div class="factors" role="group" aria-label="efficiency and its factors" {
            (factor("", "efficiency", it.parallel, "useful work of all threads, of threads × wall time"))
            @for (sign, name, value, meaning) in factors {
                (factor(sign, name, value, meaning))
            }
            p class="hint" {
                "Speed-up " (format!("{:.1}", it.speedup)) " of " (it.threads) " threads. A factor \
                    of 0.80 or more is good."
                @if let Some(cpus) = it.cpu_availability.filter(|cpus| *cpus < 0.98) {
                    " Of the work, " (percent(Some((1.0 - cpus) * 100.0))) " waited for a CPU."
                }
                @if let Some(pct) = report.asleep_in_work_pct() {
                    " For " (percent(Some(pct))) " of the work the threads slept, as for a lock or a disk."
                }
            }
        }
    }
}

fn factor(sign: &str, name: &str, value: f64, meaning: &str) -> Markup {
    let (class, mark) = if value >= GOOD {
        ("factor", "")
    } else {
        ("factor low", "▼ ")
    };
    html! {
        @if !sign.is_empty() { span class="sign" aria-hidden="true" { (sign) } }
        div class=(class) title=(meaning) {
            span class="value" { (mark) (format!("{value:.2}")) }
            span class="name" { (name) }
        }
    }
}

/// The section about a standstill, present or past.
pub fn hang(report: &Report) -> Markup {
    let Some(it) = &report.run.hang else {
        return html! {};
    };
    let hang = &it.found;
    let title = match (it.is_hang(), it.outcome) {
        (true, HangOutcome::Over) => "■ A hang that ended",
        (true, _) => "■ Hang",
        (false, _) => "■ Slow",
    };
    let body = html! {
        p class="lead" { (hang.text) }
        p { (lasted(it)) }
        @if let Some(site) = &hang.site {
            p {
                "Barrier at " strong { (site) }
                @if let Some(all) = hang.participants {
                    ": " (hang.arrived.len()) " of " (all) " are there."
                }
            }
        }
        @for (title, threads) in [("Missing", &hang.missing), ("Arrived", &hang.arrived)] {
            @if !threads.is_empty() {
                h3 { (title) }
                ul { @for thread in threads.iter().take(super::MOST_ROWS) { (hung(thread)) } }
            }
        }
        @if !hang.chain.is_empty() {
            pre { @for line in &hang.chain { (line) "\n" } }
        }
        @for note in &hang.notes { p class="hint" { (marked(note)) } }
    };
    html! { div class="hang" { (section("hang", title, &body)) } }
}

/// How long a standstill lasted, and whether it was over.
fn lasted(it: &StandstillReport) -> String {
    let time = time(it.lasted_ns);
    match it.outcome {
        HangOutcome::Lasts => {
            format!("It had lasted {time} when watching ended, and still lasted.")
        }
        HangOutcome::Over => format!("It lasted {time} and then ended."),
        _ => {
            format!("It had lasted {time} when it was last seen; whether it ended is unknown.")
        }
    }
}

fn hung(thread: &HangThreadReport) -> Markup {
    html! {
        li {
            strong { (thread.who.name) } " "
            (thread.does)
            @if let Some(at) = &thread.at { " at " span class="mono" { (at) } }
        }
    }
}

/// The section about why threads waited.
pub fn verdicts(report: &Report) -> Markup {
    let all = report.verdicts.iter().flatten();
    let body = html! {
        @if let Some(because) = &report.no_verdict_because {
            p { "No verdict: " (marked(because)) "." }
        }
        ol class="verdicts" {
            @for verdict in all {
                @let text = verdict.text.as_str();
                @let (what, rest) = text.split_once(": ").unwrap_or((text, ""));
                li class=(if verdict.kind == VerdictKind::NoProblem { "good" } else { "bad" }) {
                    p {
                        strong { (marked(what)) }
                        @if !rest.is_empty() { ": " (marked(rest)) }
                    }
                    @if let Some(site) = verdict.site.and_then(|id| report.site(id)) {
                        p class="hint" { a href=(format!("#site-{}", site.id)) { "its row in the table" } " · " (verdict.kind) }
                    }
                }
            }
        }
    };
    section("verdicts", "Why threads waited", &body)
}
