//! A run whose end is missing.

use super::*;

/// A run whose end is missing.
fn cut() -> Report {
    let mut report = uneven();
    (report.run.exit_status, report.run.ended) = (None, false);
    report.break_off(vec![IncompleteReport {
        kind: IncompleteKind::NoEnd,
        text: "the recording has no end".into(),
    }]);
    crate::report::sound(report)
}

#[test]
fn a_part_of_a_run_is_judged_only_if_asked() {
    let with = |allow_incomplete| CheckRules {
        allow_incomplete,
        ..asked(Measure::Episodes, "1")
    };
    let check = judge(&cut(), &with(false), None);
    assert_eq!(
        (check.exit_status, check.result),
        (5, Status::Lost),
        "{check:#?}"
    );
    let text = check.outcomes[0].text.as_deref().unwrap();
    assert!(
        text.contains("the recording has no end; --allow-incomplete"),
        "{text}"
    );
    // How the program ended is unknown and not judged; what cannot be measured is still lost.
    let check = judge(&cut(), &with(true), None);
    assert_eq!(check.exit_status, 0, "{check:#?}");
    assert!(
        check
            .outcomes
            .iter()
            .any(|outcome| outcome.rule == "complete" && outcome.holds)
    );
    let efficiency = CheckRules {
        allow_incomplete: true,
        ..asked(Measure::Efficiency, "0.1")
    };
    let check = judge(&cut(), &efficiency, None);
    assert_eq!(check.exit_status, 5, "{check:#?}");
    let text = check.outcomes[0].text.as_deref();
    assert_eq!(
        text,
        Some("cannot be measured: the recording is not complete")
    );
    // The rule is not shown for a complete run.
    let check = judge(&uneven(), &with(false), None);
    assert!(
        check
            .outcomes
            .iter()
            .all(|outcome| outcome.rule != "complete")
    );
}

#[test]
fn a_part_of_a_run_is_compared_with_only_if_asked() {
    for (before, after) in [(cut(), uneven()), (uneven(), cut())] {
        let with = |allow_incomplete| CheckRules {
            allow_incomplete,
            ..asked(Measure::Episodes, "1")
        };
        let check = judge(&after, &with(false), Some(&before));
        assert_eq!(check.exit_status, 5, "{check:#?}");
        let check = judge(&after, &with(true), Some(&before));
        assert_eq!(check.exit_status, 0, "{check:#?}");
        // Its sites are compared, and its wall time is not.
        let mut baselines = check
            .outcomes
            .iter()
            .filter(|outcome| outcome.rule == "baseline");
        assert!(
            baselines.all(|outcome| outcome.site.is_some()),
            "{check:#?}"
        );
    }
}
