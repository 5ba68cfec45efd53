//! Outcomes of rules in JUnit's format, which most CI services can read.

use std::{collections::HashMap, io};

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};

use super::safe;
use sbt_engine::{
    gate::{CheckReport, Outcome},
    words::command_line,
};

/// A test suite for the program, with a test case for each rule and site.
///
/// # Errors
/// Never fails, since the output goes to memory.
pub fn render(check: &CheckReport) -> io::Result<String> {
    let mut to = Writer::new_with_indent(Vec::new(), b' ', 2);
    to.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let tests = check.outcomes.len().to_string();
    let failures = check.failures.to_string();
    let time = format!("{:.3}", check.wall_ns as f64 / 1e9);
    let counts = [
        ("tests", tests.as_str()),
        ("failures", &failures),
        ("errors", "0"),
        ("skipped", "0"),
        ("time", &time),
    ];
    let program = safe(&command_line(&check.command));
    let suites = to.create_element("testsuites");
    suites
        .with_attribute(("name", "sbt check"))
        .with_attributes(counts)
        .write_inner_content(|to| {
            let suite = to.create_element("testsuite");
            suite
                .with_attribute(("name", program.as_str()))
                .with_attributes(counts)
                .write_inner_content(|to| {
                    properties(to, check)?;
                    cases(to, check)
                })?;
            Ok(())
        })?;
    let mut text = String::from_utf8_lossy(&to.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

type To = Writer<Vec<u8>>;

fn properties(to: &mut To, check: &CheckReport) -> io::Result<()> {
    let status = check.program_status.map(|status| status.to_string());
    let exit_status = check.exit_status.to_string();
    let all = [
        ("sbt.version", Some(check.version)),
        ("sbt.result", Some(check.result.name())),
        ("sbt.exit_status", Some(exit_status.as_str())),
        ("program.exit_status", status.as_deref()),
    ];
    let known = all
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    list(to, known)
}

fn list<'a>(to: &mut To, all: impl Iterator<Item = (&'a str, &'a str)>) -> io::Result<()> {
    to.create_element("properties").write_inner_content(|to| {
        for (name, value) in all {
            let one = to.create_element("property");
            one.with_attribute(("name", name))
                .with_attribute(("value", safe(value).as_str()))
                .write_empty()?;
        }
        Ok(())
    })?;
    Ok(())
}

fn cases(to: &mut To, check: &CheckReport) -> io::Result<()> {
    let mut names: HashMap<String, u32> = HashMap::new();
    for outcome in &check.outcomes {
        // CI services tell cases apart by their names.
        let name = safe(&outcome.case);
        let count = names.entry(name.clone()).or_insert(0);
        *count += 1;
        let name = match *count {
            1 => name,
            again => format!("{name} ({again})"),
        };
        case(to, outcome, &name)?;
    }
    Ok(())
}

fn case(to: &mut To, outcome: &Outcome, name: &str) -> io::Result<()> {
    let class = format!("sbt.{}", outcome.rule);
    let mut case = to
        .create_element("testcase")
        .with_attribute(("classname", class.as_str()))
        .with_attribute(("name", name))
        .with_attribute(("time", "0"));
    if let Some(file) = &outcome.file {
        case = case.with_attribute(("file", safe(file).as_str()));
        if let Some(line) = outcome.line {
            case = case.with_attribute(("line", line.to_string().as_str()));
        }
    }
    let measured = outcome.measured.map(|value| outcome.texts(value));
    case.write_inner_content(|to| {
        let known = measured
            .iter()
            .flat_map(|[is, limit]| [("measured", is.as_str()), ("limit", limit.as_str())]);
        if measured.is_some() {
            list(to, known)?;
        }
        if !outcome.holds {
            let text = safe(&outcome.sentence());
            let means = if outcome.is_measured {
                outcome.status.name()
            } else {
                "not-measured"
            };
            to.create_element("failure")
                .with_attribute(("message", text.as_str()))
                .with_attribute(("type", means))
                .write_text_content(BytesText::new(&text))?;
        }
        Ok(())
    })?;
    Ok(())
}
