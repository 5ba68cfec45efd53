//! Annotations of source lines, in the formats that CI services recognise in a step's output.

use super::safe;
use crate::ci::{Service, hashes_apart};
use sbt_engine::gate::{CheckReport, Outcome};

/// One line for each rule that does not hold.
pub fn render(check: &CheckReport, service: Service) -> String {
    let broken = check.outcomes.iter().filter(|outcome| !outcome.holds);
    let lines = broken.map(|outcome| line(outcome, service) + "\n");
    lines.collect()
}

fn line(outcome: &Outcome, service: Service) -> String {
    // Prevents a text from starting a command in the middle of a line.
    let safe = |text: &str| hashes_apart(&safe(text));
    let text = safe(&outcome.sentence());
    let file = outcome.file.as_deref().map(safe);
    let line = outcome.line.filter(|_| file.is_some());
    match service {
        Service::GitHub => {
            let title = github_property(&title(outcome));
            let file = file.map(|file| format!(",file={}", github_property(&file)));
            let line = line.map(|line| format!(",line={line}"));
            let at = [file, line].into_iter().flatten().collect::<String>();
            format!("::error title={title}{at}::{}", github(&text))
        }
        Service::Azure => {
            let file = file.map(|file| format!(";sourcepath={}", azure_property(&file)));
            let line = line.map(|line| format!(";linenumber={line}"));
            let at = [file, line].into_iter().flatten().collect::<String>();
            format!("##vso[task.logissue type=error{at}]{}", azure(&text))
        }
        Service::TeamCity => {
            let place = match (file, line) {
                (Some(file), Some(line)) => format!("{file}:{line}: "),
                _ => String::new(),
            };
            let text = format!("{place}sbt check: {text}");
            format!(
                "##teamcity[buildProblem description='{}']",
                team_city(&text)
            )
        }
    }
}

fn title(outcome: &Outcome) -> String {
    format!("sbt check: {}", outcome.rule)
}

/// Replaces characters of a text, in a single pass.
fn replaced(text: &str, by: impl Fn(char) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match by(letter) {
            Some(other) => out.push_str(other),
            None => out.push(letter),
        }
    }
    out
}

fn github(text: &str) -> String {
    replaced(text, |letter| match letter {
        '%' => Some("%25"),
        '\r' => Some("%0D"),
        '\n' => Some("%0A"),
        _ => None,
    })
}

fn github_property(text: &str) -> String {
    replaced(&github(text), |letter| match letter {
        ':' => Some("%3A"),
        ',' => Some("%2C"),
        _ => None,
    })
}

fn azure(text: &str) -> String {
    replaced(text, |letter| match letter {
        '%' => Some("%AZP25"),
        '\r' => Some("%0D"),
        '\n' => Some("%0A"),
        _ => None,
    })
}

fn azure_property(text: &str) -> String {
    replaced(&azure(text), |letter| match letter {
        ';' => Some("%3B"),
        ']' => Some("%5D"),
        _ => None,
    })
}

fn team_city(text: &str) -> String {
    replaced(text, |letter| match letter {
        '|' => Some("||"),
        '\'' => Some("|'"),
        '[' => Some("|["),
        ']' => Some("|]"),
        '\n' => Some("|n"),
        '\r' => Some("|r"),
        _ => None,
    })
}
