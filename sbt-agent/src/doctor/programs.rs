//! `sbt doctor --programs`: the kernel's answer to each of sbt's BPF programs.

use std::fmt::Write as _;

use crate::{
    kernel::privilege,
    source::ebpf::{
        loader::NEEDED,
        trial::{self, Trial},
    },
};
use sbt_engine::place::printable;

/// Prints a line for each program. Returns whether the kernel accepts all programs that sbt
/// requires.
///
/// # Errors
///
/// A prerequisite of all programs is missing, or writing failed.
pub fn examine() -> anyhow::Result<bool> {
    let trials = trial::all().map_err(privilege::explain)?;
    crate::output::print(&table(&trials))?;
    Ok(trials
        .iter()
        .all(|trial| trial.verified.is_ok() || !NEEDED.contains(&trial.name.as_str())))
}

fn table(trials: &[Trial]) -> String {
    let mut text = format!(
        "{:<14}{:>13}{:>10}\n",
        "program", "instructions", "verified"
    );
    for trial in trials {
        let verified = match &trial.verified {
            Ok(Some(count)) => format!("{count:>10}"),
            Ok(None) => format!("{:>10}", "-"),
            Err(error) => format!("   refused: {}", printable(&error.to_string())),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<14}{:>13}{verified}",
            trial.name, trial.instructions
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::LoadError;

    #[test]
    fn every_program_has_a_line_whatever_the_kernel_says() {
        let trial = |name: &str, verified| Trial {
            name: name.into(),
            instructions: 812,
            verified,
        };
        let text = table(&[
            trial("arrive", Ok(Some(1234))),
            trial("away", Ok(None)),
            trial("kmp", Err(LoadError::Object("it is\nbroken".into()))),
        ]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[1], "arrive                  812      1234");
        assert_eq!(lines[2], "away                    812         -");
        assert!(lines[3].contains("812   refused: the embedded"), "{text}");
    }
}
