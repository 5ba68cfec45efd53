//! Made-up runs whose differences are known.

use super::*;
use crate::{
    report::{BarrierKind, IncompleteKind, IncompleteReport, schema::is_that_of},
    samples,
};

#[test]
fn the_schema_in_the_documents_is_that_of_the_code() {
    is_that_of::<Comparison>("diff.schema.json");
}

fn run() -> Report {
    let mut report = samples::calm().report;
    report.run.ended = true;
    report.run.exit_status = Some(0);
    report
}

/// Moves a site to the place `function file:line`.
fn put(site: &mut SiteReport, function: &str, file: &str, line: u32) {
    site.function = Some(function.into());
    site.file = Some(file.into());
    site.line = Some(line);
    site.places = vec![format!("{function} {file}:{line}")];
}

/// A run with sites at these lines of one function only.
fn at_lines(lines: &[u32]) -> Report {
    let mut report = run();
    let first = report.sites[0].clone();
    report.phases.clear();
    report.sites = (0..)
        .zip(lines)
        .map(|(id, line)| {
            let mut site = first.clone();
            site.id = id;
            put(&mut site, "solve", "lu.c", *line);
            site
        })
        .collect();
    report
}

/// The lines of the matched pairs.
fn matched(before: &Report, after: &Report) -> Vec<(u32, u32)> {
    let pairs = matching::sites(before, after);
    pairs
        .iter()
        .map(|pair| (pair.before.line.unwrap(), pair.after.line.unwrap()))
        .collect()
}

#[test]
fn a_run_beside_itself_has_no_change() {
    let all = compare(&run(), &run());
    assert_eq!((all.sites.len(), all.phases.len()), (3, 3));
    assert!(all.only_before.is_empty() && all.only_after.is_empty());
    assert!(all.notes.is_empty(), "{:?}", all.notes);
    for site in &all.sites {
        assert_eq!(site.before, site.after);
        assert_eq!(site.phase_ns.change_pct, Some(0.0));
        let enough = site.episodes.before >= Some(noise::MIN_EPISODES);
        assert_eq!(site.phase_ns.beyond_noise, enough.then_some(false));
    }
    assert!(all.slower_by(0.0).is_empty());
    assert_eq!(all.wall_ns.beyond_noise, None, "one value has no noise");
}

#[test]
fn what_is_slower_comes_first_and_is_told_by_site_and_phase() {
    let before = run();
    let mut after = run();
    let slow = after
        .sites
        .iter()
        .position(|site| site.line == Some(690))
        .unwrap();
    let id = after.sites[slow].id;
    let longer = |stat: &mut Option<StatReport>| {
        let stat = stat.as_mut().unwrap();
        stat.mean = stat.mean * 3 / 2;
        stat.sum = stat.sum * 3 / 2;
    };
    longer(&mut after.sites[slow].phase_ns);
    for phase in after.phases.iter_mut().filter(|phase| phase.to == id) {
        longer(&mut phase.phase_ns);
    }
    let all = compare(&before, &after);
    assert_eq!(all.sites[0].after, id);
    assert_eq!(all.sites[0].phase_ns.beyond_noise, Some(true));
    assert_eq!(all.phases[0].after.to, id);
    let slower = all.slower_by(10.0);
    assert!(
        matches!(&slower[..], [Slower::Site(site, _), Slower::Phase(_, to, _)] if site == to),
        "{slower:?}"
    );
    assert!(all.slower_by(60.0).is_empty());
    // In the other direction, the run got faster.
    assert!(compare(&after, &before).slower_by(0.0).is_empty());
}

#[test]
fn the_whole_is_judged_by_the_tolerance_alone() {
    let before = run();
    let mut after = run();
    after.run.wall_ns = before.run.wall_ns / 100 * 120;
    let all = compare(&before, &after);
    assert!(matches!(all.slower_by(10.0)[..], [Slower::Whole(_)]));
    assert!(all.slower_by(25.0).is_empty());
}

#[test]
fn what_is_slower_by_just_as_much_as_is_tolerated_is_tolerated() {
    for pct in [0.0, 1.0, 7.0, 10.0, 15.0, 25.0, 33.0] {
        for before in [100, 1_000, 1_000_000] {
            let most = tolerated(before, pct);
            for (after, expected) in [(most - 1, false), (most, false), (most + 1, true)] {
                let change = Change {
                    beyond_noise: Some(true),
                    ..Change::plain(Some(before), Some(after))
                };
                assert_eq!(change.exceeds(pct), expected, "{before} {after} {pct}");
                assert_eq!(change.is_slower_by(pct), expected, "{before} {after} {pct}");
            }
        }
    }
    assert_eq!(tolerated(100, 10.0), 110);
    assert!(!Change::plain(Some(0), Some(9)).exceeds(10.0));
    assert!(!Change::plain(None, Some(9)).exceeds(10.0));
}

#[test]
fn sums_of_a_run_that_lost_events_do_not_compare() {
    let mut after = run();
    after.lost_events = 1;
    for (before, after) in [(run(), after.clone()), (after, run())] {
        let all = compare(&before, &after);
        assert!(all.notes[0].contains("lost 1 events"), "{:?}", all.notes);
        for site in &all.sites {
            assert_eq!(site.episodes.change_pct, None);
            assert_eq!((site.lost_ns.change_pct, site.cost_ns), (None, None));
            assert_eq!(site.phase_ns.change_pct, Some(0.0));
        }
        assert!(all.phases.iter().all(|phase| phase.cost_ns.is_none()));
    }
}

#[test]
fn sites_are_the_same_where_lines_moved() {
    let before = at_lines(&[10, 20, 30]);
    // All lines move by the distance of two barriers.
    let after = at_lines(&[20, 30, 40]);
    assert_eq!(matched(&before, &after), [(10, 20), (20, 30), (30, 40)]);
    // Lines move unevenly.
    assert_eq!(
        matched(&before, &at_lines(&[10, 25, 36])),
        [(10, 10), (20, 25), (30, 36)]
    );
}

#[test]
fn a_new_barrier_is_alone_and_the_others_are_not_shifted_onto_it() {
    let before = at_lines(&[10, 20, 30]);
    let after = at_lines(&[15, 20, 25, 35]);
    assert_eq!(matched(&before, &after), [(10, 15), (20, 25), (30, 35)]);
    let all = compare(&before, &after);
    assert!(all.only_before.is_empty());
    let names: Vec<_> = all
        .only_after
        .iter()
        .map(|entry| (entry.what, entry.name.as_str()))
        .collect();
    assert_eq!(names, [(UnmatchedKind::Site, "solve lu.c:20")]);
    // The same in the other direction, with one site fewer.
    assert_eq!(matched(&after, &before), [(15, 10), (25, 20), (35, 30)]);
}

/// Gives the sites these mean phase times and numbers of episodes.
fn with(mut report: Report, of: &[(u64, u64)]) -> Report {
    for (site, (mean_ns, episodes)) in report.sites.iter_mut().zip(of) {
        site.phase_ns.as_mut().unwrap().mean = *mean_ns;
        site.episodes = *episodes;
    }
    report
}

#[test]
fn where_lines_are_evenly_apart_times_and_episodes_tell_which_barrier_is_new() {
    let before = with(
        at_lines(&[7, 9, 11]),
        &[(560_000, 60), (1_560_000, 60), (3_060_000, 60)],
    );
    // A new site at the top moves the others onto each other's lines.
    let times = [
        (160_000, 60),
        (570_000, 60),
        (1_550_000, 60),
        (3_070_000, 60),
    ];
    let after = with(at_lines(&[7, 9, 11, 13]), &times);
    assert_eq!(matched(&before, &after), [(7, 9), (9, 11), (11, 13)]);
    assert_eq!(matched(&after, &before), [(9, 7), (11, 9), (13, 11)]);
    let all = compare(&before, &after);
    assert_eq!(all.only_after[0].name, "solve lu.c:7");
    assert!(all.sites.iter().all(|site| site.certain), "{:?}", all.sites);
    assert!(all.notes.is_empty(), "{:?}", all.notes);
    // A new site at the end leaves the others where they are.
    let times = [
        (570_000, 60),
        (1_550_000, 60),
        (3_070_000, 60),
        (160_000, 60),
    ];
    let after = with(at_lines(&[7, 9, 11, 13]), &times);
    assert_eq!(matched(&before, &after), [(7, 7), (9, 9), (11, 11)]);
    // A site that became slower is still matched.
    let times = [
        (570_000, 60),
        (4_500_000, 60),
        (3_070_000, 60),
        (160_000, 60),
    ];
    let after = with(at_lines(&[7, 9, 11, 13]), &times);
    assert_eq!(matched(&before, &after), [(7, 7), (9, 9), (11, 11)]);
    // If phase times are the same, the number of episodes decides.
    let before = with(at_lines(&[10, 20]), &[(1_000, 9), (1_000, 900)]);
    let after = with(
        at_lines(&[10, 20, 30]),
        &[(1_000, 400), (1_000, 9), (1_000, 900)],
    );
    assert_eq!(matched(&before, &after), [(10, 20), (20, 30)]);
}

#[test]
fn where_either_may_be_meant_it_is_said() {
    let before = at_lines(&[10, 20]);
    let all = compare(&before, &at_lines(&[10, 20, 30]));
    assert!(
        all.sites.iter().any(|site| !site.certain),
        "{:?}",
        all.sites
    );
    let note = all.notes.iter().find(|note| note.contains("--name"));
    assert!(note.unwrap().contains("solve lu.c:10"), "{:?}", all.notes);
    let alike = compare(&before, &at_lines(&[10, 20]));
    assert!(alike.sites.iter().all(|site| site.certain));
    assert!(alike.notes.is_empty(), "{:?}", alike.notes);
}

#[test]
fn in_one_program_no_line_has_moved() {
    // With one thread some barriers are not reached, and all times differ.
    let before = with(at_lines(&[20, 30]), &[(8_000, 9), (1_000, 9)]);
    let after = with(
        at_lines(&[10, 20, 30]),
        &[(8_000, 9), (1_000, 9), (1_000, 9)],
    );
    let pairs = matching::sites_of_one_program(&before, &after);
    let lines: Vec<_> = pairs
        .iter()
        .map(|pair| {
            (
                pair.before.line.unwrap(),
                pair.after.line.unwrap(),
                pair.certain,
            )
        })
        .collect();
    assert_eq!(lines, [(20, 20, true), (30, 30, true)]);
}

#[test]
fn sites_without_names_are_matched_in_order_of_their_addresses() {
    let stripped = |offsets: &[&str]| {
        let mut report = at_lines(&[1, 2]);
        for (site, offset) in report.sites.iter_mut().zip(offsets) {
            (site.function, site.file) = (None, None);
            site.places = vec![format!("lu+{offset}")];
        }
        report
    };
    let after = stripped(&["0x1200", "0x1100"]);
    assert_eq!(
        matched(&stripped(&["0x10", "0x20"]), &after),
        [(2, 1), (1, 2)]
    );
}

#[test]
fn functions_and_callers_tell_sites_apart() {
    let mut before = at_lines(&[10, 10]);
    before.sites[1].callers = vec!["other lu.c:99".into()];
    let mut after = at_lines(&[12, 12]);
    after.sites[0].callers = vec!["other lu.c:101".into()];
    let pairs = matching::sites(&before, &after);
    let ids: Vec<_> = pairs
        .iter()
        .map(|pair| (pair.before.id, pair.after.id))
        .collect();
    assert_eq!(ids, [(1, 0), (0, 1)]);

    let mut renamed = at_lines(&[10]);
    put(&mut renamed.sites[0], "factor", "lu.c", 10);
    assert_eq!(
        matched(&at_lines(&[10]), &renamed),
        [(10, 10)],
        "the same line"
    );
    put(&mut renamed.sites[0], "factor", "lu.c", 11);
    assert!(
        matched(&at_lines(&[10]), &renamed).is_empty(),
        "nothing in common"
    );
    let mut kind = at_lines(&[10]);
    kind.sites[0].kind = BarrierKind::Gomp;
    assert!(matched(&at_lines(&[10]), &kind).is_empty());
}

#[test]
fn the_order_in_which_threads_came_to_a_site_does_not_matter() {
    let of = |places: [&str; 2]| {
        let mut report = at_lines(&[10]);
        report.sites[0].places = places.map(String::from).into();
        report
    };
    let before = of(["main lu.c:10", "worker lu.c:40"]);
    let after = of(["worker lu.c:45", "main lu.c:15"]);
    assert_eq!(matching::sites(&before, &after).len(), 1);
}

#[test]
fn with_one_thread_a_site_has_fewer_places() {
    let of = |places: &[&str]| {
        let mut report = at_lines(&[10]);
        report.sites[0].places = places.iter().map(|&place| place.to_owned()).collect();
        report
    };
    let all = of(&["lead lu.c:10", "worker lu.c:40"]);
    assert_eq!(matching::sites(&of(&["lead lu.c:10"]), &all).len(), 1);
    assert_eq!(matching::sites(&all, &of(&["worker lu.c:40"])).len(), 1);
    assert!(matching::sites(&of(&["other lu.c:10"]), &all).is_empty());
    // Either site could be meant.
    let mut two = of(&["lead lu.c:10"]);
    two.sites.push(two.sites[0].clone());
    two.sites[1].id = 1;
    two.sites[1].places = vec!["worker lu.c:40".into()];
    assert!(matching::sites(&two, &all).is_empty());
}

#[test]
fn a_build_of_another_name_is_the_same_program() {
    let before = at_lines(&[10]);
    let mut after = at_lines(&[12]);
    after.run.command = vec!["/tmp/lu.new".into()];
    after.sites[0].binary = "lu.new".into();
    assert_eq!(matched(&before, &after), [(10, 12)]);
    let all = compare(&before, &after);
    assert_eq!(all.notes.len(), 1, "{:?}", all.notes);
    after.sites[0].binary = "libsolver.so".into();
    assert!(matched(&before, &after).is_empty());
}

#[test]
fn a_name_given_by_the_user_is_stronger_than_places() {
    let mut before = at_lines(&[10, 20]);
    let mut after = at_lines(&[10, 20]);
    before.sites[0].name = Some("solve".into());
    after.sites[1].name = Some("solve".into());
    assert_eq!(matched(&before, &after), [(20, 10), (10, 20)]);
}

#[test]
fn what_is_unknown_stays_unknown() {
    let mut before = run();
    let mut after = run();
    before.sites[0].phase_ns = None;
    after.sites[1].imbalance_pct = None;
    after.efficiency = None;
    let all = compare(&before, &after);
    let first = all
        .sites
        .iter()
        .find(|site| site.after == after.sites[0].id)
        .unwrap();
    assert_eq!(
        (first.phase_ns.before, first.phase_ns.beyond_noise),
        (None, None)
    );
    assert_eq!((first.phase_ns.change_pct, first.cost_ns), (None, None));
    let json = serde_json::to_value(&all).unwrap();
    assert!(json["efficiency"]["parallel"]["after"].is_null());
    assert!(json["wall_ns"]["beyond_noise"].is_null());
}

#[test]
fn runs_that_do_not_compare_are_noted() {
    let before = run();
    let mut after = run();
    after.run.command.push("-v".into());
    after.threads.pop();
    after.run.backend = "ptrace".into();
    after.estimated = true;
    after.lost_events = 3;
    after.schema = 2;
    after.run.ended = true;
    after.run.exit_status = Some(1);
    let notes = compare(&before, &after).notes;
    for word in [
        "commands",
        "threads",
        "backends",
        "part of the time",
        "lost 3",
        "schemas",
        "status 1",
    ] {
        assert!(
            notes.iter().any(|note| note.contains(word)),
            "{word}: {notes:?}"
        );
    }
}

#[test]
fn the_wall_time_of_a_part_of_a_run_is_not_known() {
    let mut cut = run();
    cut.break_off(vec![IncompleteReport {
        kind: IncompleteKind::Damaged,
        text: "batch 3 is damaged".into(),
    }]);
    let all = compare(&cut, &run());
    assert_eq!((all.wall_ns.before, all.wall_ns.change_pct), (None, None));
    assert_eq!(all.efficiency.parallel.before, None);
    let told = |note: &String| note.contains("before is not complete") && note.contains("batch 3");
    assert!(all.notes.iter().any(told), "{:?}", all.notes);
    assert_eq!(all.slower_by(0.0), []);
}
