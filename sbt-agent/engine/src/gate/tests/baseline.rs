//! A run against an earlier one.

use super::*;

/// The outcomes of the comparison, by site.
fn compared(before: &Report, after: &Report, tolerance: Option<f64>) -> Vec<Outcome> {
    let asked = CheckRules {
        tolerance,
        ..asked(Measure::Episodes, "1")
    };
    let check = judge(after, &asked, Some(before));
    let mine = check.outcomes.into_iter();
    mine.filter(|outcome| outcome.rule == "baseline").collect()
}

/// Gives the first site this many episodes, alternately longer and shorter than the mean.
fn course(report: &mut Report, count: u64, mean: u64, off: u64) {
    let site = &mut report.sites[0];
    let stat = site.phase_ns.as_mut().unwrap();
    (stat.mean, stat.stddev, stat.count) = (mean, off, count);
    let bucket = |at: u64| TrendReport {
        episodes: 1,
        until_ns: at,
        phase_ns: Some(if at.is_multiple_of(2) {
            mean - off
        } else {
            mean + off
        }),
        barrier_ns: 0,
        idle_ns: 0,
        mean_busy: None,
    };
    site.trend = (0..count).map(bucket).collect();
}

#[test]
fn what_takes_longer_than_before_is_told_beyond_tolerance_and_noise() {
    let before = uneven();
    let all = compared(&before, &before.clone(), None);
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(
        all.iter()
            .all(|outcome| outcome.holds && outcome.is_measured)
    );

    let mut after = before.clone();
    let mut before = before;
    course(&mut before, 100, 20 * MS, MS);
    course(&mut after, 100, 24 * MS, MS);
    let site = |before: &Report, after: &Report, tolerance| {
        let all = compared(before, after, tolerance);
        all.into_iter()
            .find(|outcome| outcome.site.is_some())
            .unwrap()
    };
    let slower = site(&before, &after, None);
    assert!(!slower.holds && slower.is_measured, "{slower:#?}");
    assert_eq!(slower.limit, Figure::Whole(22 * MS));
    assert!(site(&before, &after, Some(20.0)).holds);
    // The change is as large as the differences between episodes: the site may have become slower,
    // or not.
    for count in [8, 100] {
        course(&mut before, count, 20 * MS, 20 * MS);
        course(&mut after, count, 24 * MS, 20 * MS);
        let noisy = site(&before, &after, None);
        assert!(!noisy.holds && !noisy.is_measured, "{noisy:#?}");
        let text = noisy.text.unwrap();
        assert!(
            text.contains("may be chance") && text.contains("more episodes"),
            "{text}"
        );
        assert!(site(&before, &after, Some(20.0)).holds);
    }
    // A few episodes tell nothing.
    course(&mut after, 3, 24 * MS, MS);
    let few = site(&before, &after, None);
    assert!(!few.holds && !few.is_measured, "{few:#?}");
    assert!(few.text.unwrap().contains("too few"));

    after.run.wall_ns = before.run.wall_ns * 2;
    let whole = compared(&before, &after, None).remove(0);
    assert!(!whole.holds && whole.site.is_none(), "{whole:#?}");
    after.run.ended = false;
    let whole = compared(&before, &after, None).remove(0);
    assert!(whole.text.unwrap().contains("not watched to its end"));
}

#[test]
fn sites_that_only_one_run_has_are_named_and_none_in_common_is_no_comparison() {
    let before = report(vec![site(0, "factor", 690), site(1, "old", 700)]);
    let after = report(vec![site(0, "factor", 690), site(1, "new", 900)]);
    let all = compared(&before, &after, None);
    let whole = all.iter().find(|outcome| outcome.site.is_none()).unwrap();
    let text = whole.text.as_ref().unwrap();
    assert!(
        text.contains("sites only in the baseline: old lu.c:700"),
        "{text}"
    );
    assert!(text.contains("not in the baseline: new lu.c:900"), "{text}");
    let mut other = after.clone();
    other.sites.clear();
    let all = compared(&before, &other, None);
    let none = all.iter().find(|outcome| !outcome.holds).unwrap();
    assert!(
        none.text.as_ref().unwrap().contains("no site in common"),
        "{none:#?}"
    );
}
