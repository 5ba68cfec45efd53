//! Part one: every episode of programs that stamp their own arrivals and departures.

use std::fmt::Write as _;

use anyhow::Result;

use super::Section;
use super::bars;
use super::cases::{self, Case};
use super::compare::{Comparison, Quantity, Sample};
use super::lab::{Lab, Program};
use super::log;
use crate::bench::figures::{median, percentile};

/// Runs of a case at most: another process may have had the CPU in the earlier ones.
const TRIES: usize = 3;

/// The result of one case.
struct Outcome {
    case: Case,
    /// The comparison of the last run; `None` if the two accounts could not be compared.
    comparison: Option<Comparison>,
    /// The bars that each run missed; only the last entry may be empty.
    missed: Vec<Vec<String>>,
}

impl Outcome {
    fn failed(&self) -> bool {
        self.missed.last().is_none_or(|missed| !missed.is_empty())
    }

    /// The bars that quantities without a bar would miss, in words.
    fn beyond(&self) -> Option<String> {
        let beyond = bars::beyond(self.comparison.as_ref()?);
        (!beyond.is_empty()).then(|| format!("{} ({})", self.case, beyond.join(", ")))
    }
}

/// Measures all cases.
pub fn measure(lab: &Lab) -> Result<Section> {
    let program = lab.build("bench/accuracy-barriers.c")?;
    let mut all = Comparison::default();
    let mut outcomes = Vec::new();
    for case in cases::all() {
        let mut outcome = Outcome {
            case,
            comparison: None,
            missed: Vec::new(),
        };
        while outcome.failed() && outcome.missed.len() < TRIES {
            eprintln!("measuring: {case}, try {}", outcome.missed.len() + 1);
            // Different episodes are a wrong result, but no reason to stop.
            match try_once(lab, &program, &case)? {
                Ok(comparison) => {
                    all.add(&comparison);
                    outcome.missed.push(bars::missed(&comparison));
                    outcome.comparison = Some(comparison);
                }
                Err(error) => {
                    outcome.missed.push(vec![format!("{error:#}")]);
                    outcome.comparison = None;
                }
            }
        }
        outcomes.push(outcome);
    }
    let mut section = Section::default();
    write(&mut section, &all, &outcomes)?;
    Ok(section)
}

/// Runs a case once. The outer error means that there is nothing to compare; the inner error means
/// that the two accounts do not have the same episodes.
fn try_once(lab: &Lab, program: &Program, case: &Case) -> Result<Result<Comparison>> {
    let (text, report) = lab.reported(&["--watch-all"], program, &case.arguments())?;
    let truth = log::parse(&text)?;
    Ok(report.seen().and_then(|seen| Comparison::of(&truth, &seen)))
}

const INTRODUCTION: &str = "\
## Barriers of known times

The threads of [accuracy-barriers.c](../bench/accuracy-barriers.c) read `CLOCK_MONOTONIC` just \
before and just after every `pthread_barrier_wait`. Before that, thread *i* sleeps or spins for \
300 µs + *i* × skew. With *rotating* these loads move on by one thread every round. Each episode \
of `sbt run --watch-all --json` is compared with the program's notes:

| | between |
|---|---|
| idle | a thread's arrival and the last arrival |
| gap | one arrival and the next |
| barrier | first and last arrival |
| phase | the last arrival of the episode before and the last arrival |
| release | the last arrival and a thread's departure |
| work | a thread's departure from the episode before and its arrival |

An error is the absolute difference of the two accounts. No episode is left out, however large its \
error. Three things are not counted: that the last thread has no idle time and the first no gap, \
since both accounts must agree on that; and the time before the first episode, since the program \
does not know when sbt began.

The bars for idle, gap, barrier and phase: the median within 5 µs or 1 %, p99 within 50 µs or 5 %, \
whichever is larger. Release and work have no bar. Release goes from before a call to after a \
call, and work the other way round. The distance between the program's clock reading and sbt's, a \
few µs with cold caches, adds up in them, while it cancels out in the others.

A case also needs the exact number of episodes, no unknown time, and each stamp of sbt between the \
program's two stamps around that call. The order must be right wherever two arrivals are more than \
10 µs apart by the program's clock and the barrier's own count agrees, since a thread can be held \
up between its clock reading and the barrier. A case that misses a bar is tried again, up to three \
times.
";

fn write(section: &mut Section, all: &Comparison, outcomes: &[Outcome]) -> Result<()> {
    let out = &mut section.text;
    write!(out, "\n{INTRODUCTION}")?;
    write_together(out, all)?;
    write_each(out, outcomes)?;
    write_missed(out, outcomes)?;
    for outcome in outcomes.iter().filter(|outcome| outcome.failed()) {
        let last = outcome.missed.last().map(|missed| missed.join(", "));
        let last = last.unwrap_or_default();
        section.missed.push(format!("{}: {last}", outcome.case));
    }
    Ok(())
}

fn write_together(out: &mut String, all: &Comparison) -> Result<()> {
    writeln!(
        out,
        "\n### All cases together\n\n\
         All tries of all cases, repeated ones included: {} episodes. Of {} pairs of arrivals with \
         a clear order, {} were swapped; of another {} pairs the program does not know the order. \
         Of {} stamps, {} were impossible. sbt stamps an arrival {:.2} µs after the program does \
         (median; p99 {:.2} µs), and a departure {:.2} µs before it (p99 {:.2} µs).\n\n\
         | | times | median, µs | p99, µs | worst, µs |\n|---|---|---|---|---|",
        all.episodes,
        all.pairs,
        all.swapped,
        all.doubtful,
        all.stamps,
        all.impossible,
        median(&all.late_ns) / 1e3,
        percentile(&all.late_ns, 99) / 1e3,
        median(&all.early_ns) / 1e3,
        percentile(&all.early_ns, 99) / 1e3,
    )?;
    for quantity in Quantity::ALL {
        let samples = all.samples(quantity);
        let [median, p99, worst] = errors(samples);
        writeln!(
            out,
            "| {} | {} | {median} | {p99} | {worst} |",
            quantity.name(),
            samples.len()
        )?;
    }
    Ok(())
}

fn write_each(out: &mut String, outcomes: &[Outcome]) -> Result<()> {
    writeln!(
        out,
        "\n### Each case\n\n\
         Each case has its number of threads, its load, its skew, and which thread comes last. \
         Errors are median / p99 / worst in µs, of the try that counts.\n\n\
         | case | episodes | idle | gap | barrier | phase | release | work | tries | |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    )?;
    for outcome in outcomes {
        write!(out, "| {} |", outcome.case)?;
        match &outcome.comparison {
            Some(comparison) => {
                write!(out, " {} |", comparison.episodes)?;
                for quantity in Quantity::ALL {
                    write!(
                        out,
                        " {} |",
                        errors(comparison.samples(quantity)).join(" / ")
                    )?;
                }
            }
            None => out.push_str(" | | | | | | |"),
        }
        let verdict = if outcome.failed() { "**FAIL**" } else { "PASS" };
        writeln!(out, " {} | {verdict} |", outcome.missed.len())?;
    }
    let beyond: Vec<String> = outcomes.iter().filter_map(Outcome::beyond).collect();
    if !beyond.is_empty() {
        writeln!(
            out,
            "\nWith the same bars, release and work would have missed: {}.",
            beyond.join("; ")
        )?;
    }
    Ok(())
}

fn write_missed(out: &mut String, outcomes: &[Outcome]) -> Result<()> {
    let repeated: Vec<_> = outcomes
        .iter()
        .filter(|outcome| !outcome.missed[0].is_empty())
        .collect();
    writeln!(
        out,
        "\n{} of {} cases met all bars at the first try.",
        outcomes.len() - repeated.len(),
        outcomes.len()
    )?;
    if !repeated.is_empty() {
        writeln!(out, "These bars were missed:\n")?;
    }
    for outcome in repeated {
        for (index, missed) in outcome.missed.iter().enumerate() {
            if !missed.is_empty() {
                let (case, missed) = (outcome.case, missed.join(", "));
                writeln!(out, "- {case}, try {}: {missed}", index + 1)?;
            }
        }
    }
    Ok(())
}

/// Median, p99 and worst error in µs.
fn errors(samples: &[Sample]) -> [String; 3] {
    let errors: Vec<f64> = samples.iter().map(|sample| sample.error_ns()).collect();
    [50, 99, 100].map(|percent| micros(percentile(&errors, percent)))
}

fn micros(ns: f64) -> String {
    let us = ns / 1e3;
    match us {
        0.0..10.0 => format!("{us:.2}"),
        10.0..100.0 => format!("{us:.1}"),
        _ => format!("{us:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_written_with_three_digits() {
        let samples: Vec<Sample> = [300, 12_340, 1_234_567]
            .map(|error_ns| Sample {
                truth_ns: error_ns,
                seen_ns: 0,
            })
            .into();
        assert_eq!(errors(&samples), ["12.3", "1235", "1235"]);
        assert_eq!(errors(&samples[..1]), ["0.30", "0.30", "0.30"]);
    }

    #[test]
    fn the_page_names_what_was_missed() {
        let outcome = |missed: &[&[&str]]| Outcome {
            case: cases::all()[0],
            comparison: Some(Comparison::default()),
            missed: missed
                .iter()
                .map(|list| list.iter().map(ToString::to_string).collect())
                .collect(),
        };
        let mut section = Section::default();
        let outcomes = [
            outcome(&[&[]]),
            outcome(&[&["a"], &[]]),
            outcome(&[&["b"], &["c"], &["d"]]),
        ];
        write(&mut section, &Comparison::default(), &outcomes).unwrap();
        assert!(section.text.contains("1 of 3 cases met all bars"));
        assert!(section.text.contains("try 1: a\n"));
        assert_eq!(section.text.matches("FAIL").count(), 1);
        assert_eq!(section.missed, ["2 sleep, no skew: d"]);
    }
}
