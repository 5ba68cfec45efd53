//! Part three: the influence of sbt on the program that it watches.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::Section;
use super::lab::{Lab, Program};
use super::log;
use crate::bench::figures::{median, percent, percentile, percents};

/// Lengths of phases, µs, and the number of phases in a run of about half a second.
const PHASES: [(u32, u32); 3] = [(100, 6_000), (1_000, 600), (10_000, 60)];

/// Lengths of the phases in one run.
#[derive(Clone, Copy)]
struct Length {
    /// Median, ns.
    median_ns: f64,
    /// Sum, ns.
    total_ns: f64,
}

/// A figure of a run that is compared.
type Figure = fn(Length) -> f64;

const FIGURES: [(&str, Figure); 2] = [
    ("median phase", |length| length.median_ns),
    ("all phases", |length| length.total_ns),
];

/// Measures pairs of runs with and without sbt.
pub fn measure(lab: &Lab, pairs: usize) -> Result<Section> {
    let program = lab.build("bench/accuracy-phases.c")?;
    let steps_per_us = calibrate(lab, &program)?;
    let mut section = Section::default();
    writeln!(
        section.text,
        "\n## Influence on the program\n\n\
         The two threads of [accuracy-phases.c](../bench/accuracy-phases.c) do a fixed amount of \
         arithmetic in each phase, which is measured from one last arrival to the next by the \
         program's own clock. There are {pairs} pairs of runs, in turns. *With sbt* compares a run \
         under `sbt run` with default options with a run of the program alone. *Alone* compares \
         another run of the program alone with the same run: this is the noise of the machine. \
         *Median phase* is the median of a run's phases, *all phases* their sum. There is no bar \
         here: see [what sbt costs](../bench/RESULTS.md).\n\n\
         | phase | | with sbt | alone | pairs with sbt | pairs alone |\n|---|---|---|---|---|---|"
    )?;
    for (phase_us, rounds) in PHASES {
        let arguments = [
            format!("work={:.0}", steps_per_us * f64::from(phase_us)),
            format!("rounds={rounds}"),
        ];
        let alone = || length(&lab.alone(&program, &arguments)?);
        let watched = || length(&lab.under_sbt(&program, &arguments)?);
        let mut runs = Vec::new();
        for pair in 0..pairs {
            eprintln!("measuring: phases of {phase_us} µs, pair {}", pair + 1);
            // The second run of a pair may find the machine warmer or busier.
            runs.push(if pair % 2 == 0 {
                let (base, with) = (alone()?, watched()?);
                (base, with, alone()?)
            } else {
                let (other, with) = (alone()?, watched()?);
                (alone()?, with, other)
            });
        }
        let base_us: Vec<f64> = runs.iter().map(|run| run.0.median_ns / 1e3).collect();
        for (name, of) in FIGURES {
            let with: Vec<f64> = runs.iter().map(|run| of(run.1) / of(run.0)).collect();
            let without: Vec<f64> = runs.iter().map(|run| of(run.2) / of(run.0)).collect();
            writeln!(
                section.text,
                "| {:.0} µs | {name} | **{}** | {} | {} | {} |",
                median(&base_us),
                percent(median(&with)),
                percent(median(&without)),
                percents(&with),
                percents(&without)
            )?;
        }
    }
    Ok(section)
}

/// Steps of arithmetic per microsecond on this machine, from the shortest phases: in these, the
/// thread kept its CPU.
fn calibrate(lab: &Lab, program: &Program) -> Result<f64> {
    const STEPS: u32 = 600_000;
    let arguments = [format!("work={STEPS}"), "rounds=200".to_owned()];
    let phases = phases(&lab.alone(program, &arguments)?)?;
    Ok(f64::from(STEPS) / (percentile(&phases, 5) / 1e3))
}

fn length(log: &str) -> Result<Length> {
    let phases = phases(log)?;
    Ok(Length {
        median_ns: median(&phases),
        total_ns: phases.iter().sum(),
    })
}

/// Times from one last arrival to the next, ns.
fn phases(log: &str) -> Result<Vec<f64>> {
    let episodes = log::parse(log)?;
    let phases: Vec<f64> = episodes
        .windows(2)
        .map(|pair| (pair[1].last_ns - pair[0].last_ns) as f64)
        .collect();
    ensure!(!phases.is_empty(), "the program had no phases");
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_go_from_last_arrival_to_last_arrival() {
        let log = "0 7 0 10 21\n0 7 1 50 61\n0 7 2 70 81\n1 8 0 20 21\n1 8 1 40 61\n1 8 2 80 81\n";
        let length = length(log).unwrap();
        assert!((length.median_ns - 30.0).abs() < 1e-9);
        assert!((length.total_ns - 60.0).abs() < 1e-9);
        assert!(super::length("0 7 0 10 20\n").is_err());
    }
}
