//! The counters of two runs: rates and sums.

use super::{super::wrapped, arrow, change_of, line, rest, sentence, title};
use crate::show::{
    table::{Style, UNKNOWN, count, duration},
    text::MOST_ROWS,
};
use sbt_engine::{
    compare::{Comparison, CounterChange, RateChange, RatePer},
    counters::is_time,
};

/// The section; empty if neither run counted anything.
pub(super) fn counters(out: &mut String, all: &Comparison, style: Style) {
    if all.counters.is_empty() {
        return;
    }
    let head = "COUNTERS in the work of all threads (one sum per run, so the noise is unknown)";
    title(out, head, style);
    for counter in &all.counters {
        put(out, &told(&counter.name, counter, style), 0, style);
        // One site is the whole.
        let sites = all.sites.iter().filter(|_| all.sites.len() > 1);
        for site in sites.take(MOST_ROWS) {
            let mut here = site.counters.iter();
            let here = here.find(|other| other.name == counter.name && is_known(other));
            if let Some(here) = here {
                put(out, &told(&site.name, here, style), 2, style);
            }
        }
    }
    if all.sites.len() > 1 {
        rest(out, all.sites.len(), "site", style);
    }
}

const fn is_known(counter: &CounterChange) -> bool {
    counter.sum.before.is_some() || counter.sum.after.is_some()
}

fn put(out: &mut String, text: &str, indent: usize, style: Style) {
    let width = style.width.saturating_sub(indent + 2);
    for (at, part) in wrapped(&sentence(text, style), width).iter().enumerate() {
        let indent = " ".repeat(if at == 0 { indent } else { indent + 2 });
        line(out, &format!("{indent}{part}"));
    }
}

/// A counter before and after: `page-faults: 3.1 → 9.4 per 1 000 instructions (+203 %); in all 310 →
/// 940 (+203 %)`.
fn told(name: &str, counter: &CounterChange, style: Style) -> String {
    let sum = &counter.sum;
    let value = |value: Option<u64>| match value {
        Some(_) if is_time(&counter.name) => duration(value, style),
        Some(value) => count(value),
        None => UNKNOWN.into(),
    };
    let sums = format!(
        "in all {} {} {}{}",
        value(sum.before),
        arrow(style),
        value(sum.after),
        in_brackets(sum.change_pct)
    );
    match rate(&counter.rate, style) {
        Some(rate) => format!("{name}: {rate}; {sums}"),
        None => format!("{name}: {sums}"),
    }
}

fn rate(rate: &RateChange, style: Style) -> Option<String> {
    let per = match rate.per? {
        RatePer::Instructions => "per 1 000 instructions",
        RatePer::Cycle => "per cycle",
        RatePer::CpuSecond => "per second of CPU time",
    };
    Some(format!(
        "{} {} {} {per}{}",
        figure(rate.before),
        arrow(style),
        figure(rate.after),
        in_brackets(rate.change_pct)
    ))
}

/// A change in brackets; empty if it is unknown.
fn in_brackets(change_pct: Option<f64>) -> String {
    change_pct.map_or_else(String::new, |pct| format!(" ({})", change_of(pct)))
}

/// A rate with three digits at least, `?` if it is unknown.
fn figure(rate: Option<f64>) -> String {
    match rate {
        None => UNKNOWN.into(),
        Some(0.0) => "0".into(),
        Some(rate) if rate >= 1000.0 => count(whole(rate)),
        Some(rate) if rate >= 99.95 => format!("{rate:.0}"),
        Some(rate) if rate >= 0.995 => format!("{rate:.1}"),
        Some(rate) if rate >= 0.000_95 => format!("{rate:.3}"),
        Some(rate) => format!("{rate:.1e}"),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are positive"
)]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::{compare::compare, report::Report, samples};

    const PLAIN: Style = Style {
        width: 100,
        color: false,
        unicode: true,
    };

    fn text(before: &Report, after: &Report) -> String {
        let mut out = String::new();
        counters(&mut out, &compare(before, after), PLAIN);
        out
    }

    /// The run with so many times the page faults.
    fn faulting(times: u64) -> Report {
        let mut report = samples::counted().report;
        let more = |sum: Option<u64>| sum.map(|sum| sum * times);
        for site in &mut report.sites {
            let sum = site.counters.get_mut("page-faults").unwrap();
            *sum = more(*sum);
        }
        for counter in &mut report.counters {
            if counter.name == "page-faults" {
                counter.work = more(counter.work);
            }
        }
        report
    }

    #[test]
    fn rates_stand_beside_sums_for_the_run_and_for_each_site() {
        let text = text(&faulting(1), &faulting(3));
        assert!(text.contains("\npage-faults: 0.00"), "{text}");
        assert!(
            text.contains(" per 1 000 instructions (+200 %); in all "),
            "{text}"
        );
        assert!(text.contains("\n  update_rows lu.c:715: 0.00"), "{text}");
        assert!(text.contains("\ninstructions: 0."), "{text}");
        assert!(text.contains(" per cycle (+0.0 %); in all "), "{text}");
        assert!(text.contains("LLC-loads: in all ? → ?"), "{text}");
    }

    #[test]
    fn nothing_is_said_where_nothing_was_counted() {
        let run = samples::calm().report;
        assert_eq!(text(&run, &run), "");
        // Counted in one run only: the other is unknown, not 0.
        let text = text(&run, &faulting(1));
        assert!(text.contains("page-faults: ? → 0.00"), "{text}");
    }

    #[test]
    fn rates_of_any_size_can_be_read() {
        for (rate, text) in [
            (None, "?"),
            (Some(0.0), "0"),
            (Some(0.000_012), "1.2e-5"),
            (Some(0.012_34), "0.012"),
            (Some(3.12), "3.1"),
            (Some(123.4), "123"),
        ] {
            assert_eq!(figure(rate), text);
        }
    }
}
