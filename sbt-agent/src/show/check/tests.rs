//! Tests of outcomes as text, JUnit and annotations, also for programs with hostile names.

use std::time::Duration;

use super::{annotate, junit, text};
use crate::{
    ci::{self, Service},
    show::table::Style,
};
use sbt_engine::{
    gate::{
        CheckReport, CheckRules, Measure, Rule, judge,
        samples::{report, site},
    },
    report::Report,
};

const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

fn asked(rules: &[(Measure, &str)]) -> CheckRules {
    let rules = rules.iter();
    CheckRules {
        rules: rules
            .map(|(measure, text)| Rule::parse(*measure, text).unwrap())
            .collect(),
        ..CheckRules::default()
    }
}

fn two_sites() -> Report {
    let mut report = report(vec![site(0, "factor", 690), site(1, "solve", 700)]);
    for site in &mut report.sites {
        let stat = site.phase_ns.as_mut().unwrap();
        (stat.mean, stat.p95) = (2_000_000, 3_000_000);
    }
    report.sites[1].imbalance_pct = Some(51.25);
    report.sites[0].imbalance_pct = Some(3.0);
    (report.episodes, report.run.wall_ns) = (1024, 12_440_000_000);
    report
}

fn checked() -> CheckReport {
    let mut asked = asked(&[
        (Measure::Phase, "factor=5ms"),
        (Measure::Imbalance, "25%"),
        (Measure::Idle, "lu.c:1:10%"),
    ]);
    asked.no_hang = Some(Duration::from_secs(30));
    judge(&two_sites(), &asked, None)
}

#[test]
fn each_rule_has_a_line_the_worst_first_and_all_have_one() {
    let expected = "\
FAIL  max-imbalance  51.3 %  ≤ 25 %  solve lu.c:700
FAIL  max-idle            ?  ≤ 10 %  lu.c:1
      cannot be measured: no site matches lu.c:1; the sites are: factor
      lu.c:690, solve lu.c:700
PASS  program             0  = 0     the whole run
PASS  no-hang          none  ≤ 30 s  the whole run
PASS  max-lost          0 %  ≤ 1 %   the whole run
PASS  min-episodes     1024  ≥ 1     the whole run
PASS  max-phase        3 ms  ≤ 5 ms  factor lu.c:690 (mean 2 ms)
PASS  max-imbalance     3 %  ≤ 25 %  factor lu.c:690
check: 2 of 8 rules do not hold: rules are broken (exit status 1)
";
    assert_eq!(text::render(&checked(), PLAIN), expected);
    let ascii = Style {
        unicode: false,
        ..PLAIN
    };
    let text = text::render(&checked(), ascii);
    assert!(text.is_ascii() && text.contains(">= 1"), "{text}");
    let good = judge(&two_sites(), &asked(&[(Measure::Imbalance, "60%")]), None);
    let text = text::render(&good, PLAIN);
    assert!(text.ends_with("check: all 5 rules hold\n"), "{text}");
}

#[test]
fn a_long_name_gets_lines_of_its_own() {
    let mut report = two_sites();
    report.sites[0].places = vec![format!("{} lu.c:690", "a_long_name".repeat(7))];
    let check = judge(&report, &asked(&[(Measure::Imbalance, "25%")]), None);
    let text = text::render(&check, PLAIN);
    assert!(text.contains("\n      a_long_name"), "{text}");
}

/// A report whose names contain markup, commands and control characters.
fn hostile() -> CheckReport {
    let bad = "<\u{1b}[2J]]>&\"'\u{0}\n::error::x\r###vso[task.x]|'|]%0A\u{fffe}\u{202e}\u{2028}::warning::y\u{85}";
    let mut report = two_sites();
    report.run.command = vec![bad.into(), "<a>&".into()];
    for site in &mut report.sites {
        site.name = Some(bad.into());
        site.file = Some(format!("{bad},:;.c"));
        site.imbalance_pct = Some(99.0);
    }
    report.run.none_found_because = Some(bad.into());
    let rules = [
        (Measure::Imbalance, "25%"),
        (Measure::Idle, "<&\u{7}\u{ffff}:10%"),
        (Measure::Episodes, "100000"),
    ];
    judge(&report, &asked(&rules), None)
}

#[test]
fn junit_is_valid_xml_with_a_case_for_each_rule_and_site() {
    let xml = junit::render(&checked()).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let root = document.root_element();
    assert!(root.has_tag_name("testsuites"));
    let suite = root.first_element_child().unwrap();
    assert!(suite.has_tag_name("testsuite"));
    assert_eq!(suite.attribute("name"), Some("./lu -n 2048 -t 4"));
    for (name, value) in [
        ("tests", "8"),
        ("failures", "2"),
        ("errors", "0"),
        ("skipped", "0"),
        ("time", "12.440"),
    ] {
        assert_eq!(suite.attribute(name), Some(value), "{name}");
        assert_eq!(root.attribute(name), Some(value), "{name}");
    }
    let properties: Vec<_> = suite
        .descendants()
        .filter(|node| {
            node.has_tag_name("property")
                && node.parent_element().unwrap().parent_element() == Some(suite)
        })
        .map(|node| {
            (
                node.attribute("name").unwrap(),
                node.attribute("value").unwrap(),
            )
        })
        .collect();
    assert!(
        properties.contains(&("sbt.result", "broken")),
        "{properties:?}"
    );
    assert!(
        properties.contains(&("program.exit_status", "0")),
        "{properties:?}"
    );
    let cases: Vec<_> = suite
        .children()
        .filter(|node| node.has_tag_name("testcase"))
        .collect();
    assert_eq!(cases.len(), 8);
    let first = cases[0];
    assert_eq!(
        first.attribute("name"),
        Some("max-imbalance 25 % at solve lu.c:700")
    );
    assert_eq!(first.attribute("classname"), Some("sbt.max-imbalance"));
    assert_eq!(first.attribute("file"), Some("lu.c"));
    assert_eq!(first.attribute("line"), Some("700"));
    let failures: Vec<_> = cases
        .iter()
        .filter_map(|case| case.children().find(|node| node.has_tag_name("failure")))
        .collect();
    let types: Vec<_> = failures
        .iter()
        .filter_map(|node| node.attribute("type"))
        .collect();
    assert_eq!(types, ["broken", "not-measured"]);
    let message = failures[0].attribute("message").unwrap();
    assert_eq!(
        message,
        "solve lu.c:700: max-imbalance is 51.3 %, at most 25 % is allowed"
    );
    assert_eq!(failures[0].text(), Some(message));
}

#[test]
fn no_name_makes_the_xml_something_else() {
    let xml = junit::render(&hostile()).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let all = |tag: &'static str| {
        document
            .descendants()
            .filter(move |node| node.has_tag_name(tag))
    };
    assert_eq!(all("testcase").count(), hostile().outcomes.len());
    assert_eq!(all("failure").count(), hostile().failures);
    let allowed = |c: char| matches!(c, '\t' | '\n' | ' '..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(allowed), "{xml:?}");
    // Two sites have the same name.
    let mut names: Vec<_> = all("testcase")
        .filter_map(|node| node.attribute("name"))
        .collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "{names:#?}");
}

#[test]
fn remarks_are_at_the_lines_that_break_a_rule() {
    let lines = |service| annotate::render(&checked(), service);
    assert_eq!(
        lines(Service::GitHub),
        "::error title=sbt check%3A max-imbalance,file=lu.c,line=700::solve lu.c:700: \
         max-imbalance is 51.3 %25, at most 25 %25 is allowed\n\
         ::error title=sbt check%3A max-idle::lu.c:1: max-idle cannot be measured: no site \
         matches lu.c:1; the sites are: factor lu.c:690, solve lu.c:700\n"
    );
    let azure = lines(Service::Azure);
    assert!(
        azure.starts_with(
            "##vso[task.logissue type=error;sourcepath=lu.c;linenumber=700]solve lu.c:700: \
             max-imbalance is 51.3 %AZP25,"
        ),
        "{azure}"
    );
    let team_city = lines(Service::TeamCity);
    assert!(
        team_city.starts_with("##teamcity[buildProblem description='lu.c:700: sbt check: solve"),
        "{team_city}"
    );
}

#[test]
fn no_name_makes_a_command() {
    let check = hostile();
    for service in [Service::GitHub, Service::Azure, Service::TeamCity] {
        let text = annotate::render(&check, service);
        assert_eq!(text.lines().count(), check.failures, "{text}");
        for line in text.lines() {
            assert!(!line.contains(char::is_control), "{line:?}");
            assert!(
                !line.contains(['\u{2028}', '\u{2029}', '\u{85}']),
                "{line:?}"
            );
            assert!(!line[1..].contains("##"), "{line:?}");
            match service {
                Service::GitHub => {
                    let rest = line.strip_prefix("::error ").unwrap();
                    let (properties, _) = rest.split_once("::").unwrap();
                    for property in properties.split(',') {
                        let (name, value) = property.split_once('=').unwrap();
                        assert!(["title", "file", "line"].contains(&name), "{line}");
                        assert!(!value.contains(':'), "{line}");
                    }
                    assert!(!line.contains("%0A"), "{line}");
                }
                Service::Azure => {
                    let rest = line.strip_prefix("##vso[task.logissue ").unwrap();
                    let (properties, _) = rest.split_once(']').unwrap();
                    for property in properties.split(';') {
                        let (name, _) = property.split_once('=').unwrap();
                        let known = ["type", "sourcepath", "linenumber"];
                        assert!(known.contains(&name), "{line}");
                    }
                }
                Service::TeamCity => {
                    let rest = line
                        .strip_prefix("##teamcity[buildProblem description='")
                        .and_then(|rest| rest.strip_suffix("']"))
                        .unwrap();
                    let mut letters = rest.chars();
                    while let Some(letter) = letters.next() {
                        match letter {
                            '|' => assert!("|'[]".contains(letters.next().unwrap())),
                            other => assert!(!"'[]".contains(other), "{line}"),
                        }
                    }
                }
            }
        }
    }
    let text = ci::harmless(&text::render(&check, PLAIN));
    assert!(!text.contains("##"), "{text}");
}

#[test]
fn text_has_no_codes_for_terminals() {
    let text = text::render(&hostile(), PLAIN);
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
}
