use super::*;
use crate::show::{Episode, Participant};
use sbt_engine::{live::Snapshot, model::parts::Split, report::HangOutcome, samples};

fn written(report: &Report, told: &TimelineSource<'_>) -> String {
    let mut out = Vec::new();
    write(report, told, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn from_report(snapshot: &Snapshot) -> String {
    written(&snapshot.report, &TimelineSource::Nothing)
}

/// A timeline of two threads with this many episodes.
fn timeline(report: &mut Report, episodes: u64) -> Timeline {
    report.run.wall_ns = episodes * 10_000;
    let mut timeline = Timeline::of(report, 0);
    let counters = report.counters.len();
    for index in 0..episodes {
        let last_ns = index * 10_000 + 9_000;
        let seen = |thread: u32| Participant {
            thread,
            is_shared: false,
            arrived_ns: last_ns - u64::from(thread) * 1_000,
            idle_ns: u64::from(thread) * 1_000,
            release_ns: Some(500),
            work_ns: Some(6_000),
            split: Split::default(),
            counts: vec![Some(u64::from(thread)); counters],
        };
        timeline.add(Episode {
            site: 0,
            index,
            first_ns: last_ns - 3_000,
            last_ns,
            phase: None,
            straggler: None,
            alone: None,
            seen: (0..4).rev().map(seen).collect(),
        });
    }
    timeline
}

#[test]
fn an_efficiency_that_is_unknown_has_its_reason_on_the_page() {
    let page = from_report(&samples::lossy());
    let words = "Efficiency and speed-up: ? (12345 of 99999 events were lost (12 %)).";
    assert!(page.contains(words), "{page}");
    assert!(!from_report(&samples::empty()).contains("Efficiency and speed-up"));
}

#[test]
fn a_phase_has_a_bar_until_the_first_arrives_and_until_the_last() {
    let mut snapshot = samples::imbalanced();
    let phase = &mut snapshot.report.phases[0];
    phase.barrier_sum_ns = Some(phase.sum_ns() / 4);
    let page = from_report(&snapshot);
    assert!(page.contains("the barrier is 25 % of the phase"), "{page}");
    snapshot.report.phases.clear();
    assert!(!from_report(&snapshot).contains("id=\"phases\""));
}

#[test]
fn it_has_all_its_sections_and_loads_nothing() {
    let mut snapshot = samples::imbalanced();
    let timeline = timeline(&mut snapshot.report, 100);
    let page = written(&snapshot.report, &TimelineSource::Timeline(&timeline));
    for id in [
        "verdicts",
        "barriers",
        "timeline",
        "threads",
        "parallelism",
        "path",
        "waits",
        "locks",
        "notes",
    ] {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    for outside in ["http:", "https:", "src=", "url(//", "@import", "href=\"/"] {
        assert!(!page.contains(outside), "{outside}");
    }
    // The policy forbids styles and handlers on elements.
    for inline in [" style=", " onclick=", " onload=", "javascript:"] {
        assert!(!page.contains(inline), "{inline}");
    }
    assert!(page.contains("static imbalance at update_rows lu.c:715"));
    assert!(page.contains("load balance"));
}

#[test]
fn waits_say_for_what_by_whom_and_who_held_it() {
    let page = from_report(&samples::imbalanced());
    let begin = page.find("<section id=\"waits\"").unwrap();
    let section = &page[begin..begin + page[begin..].find("</section>").unwrap()];
    for cell in [
        "the mutex locked at push queue.c:88",
        "T1\u{a0}9\u{a0}%, T2\u{a0}8\u{a0}%",
        ">T3\u{a0}91\u{a0}%<",
        "read (/data/matrix.bin) called from load_block io.c:41",
        "By 2210 sleeps and 300 looks at each thread.",
        "Who waits for whom",
        ">T1</th><td>T3</td>",
    ] {
        assert!(section.contains(cell), "{cell}: {section}");
    }
    // Nobody holds what a file waits for.
    assert!(section.contains("<td></td>"), "{section}");
    assert!(!from_report(&samples::empty()).contains("<section id=\"waits\""));
}

#[test]
fn each_reference_has_its_target() {
    let page = from_report(&samples::imbalanced());
    for part in page.split("href=\"#").skip(1) {
        let id = part.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    for part in page.split("aria-labelledby=\"").skip(1) {
        let id = part.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn the_policy_is_that_of_the_styles_and_the_script_on_the_page() {
    let page = from_report(&samples::calm());
    let between = |from: &str, to: &str| {
        let rest = page.split_once(from).unwrap().1;
        rest.split_once(to).unwrap().0.to_owned()
    };
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    let policy = between("Content-Security-Policy\" content=\"", "\">").replace("&#39;", "'");
    let style = hash(&between("<style>", "</style>"));
    let script = hash(&between("<script>", "</script>"));
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(policy.contains(&format!("style-src 'sha256-{style}'")));
    assert!(policy.contains(&format!("script-src 'sha256-{script}'")));
}

#[test]
fn names_are_text_and_no_markup() {
    const EVIL: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";
    let mut snapshot = samples::imbalanced();
    let report = &mut snapshot.report;
    report.run.command = vec![EVIL.into()];
    report.notes = vec![EVIL.into()];
    report.threads[0].name = EVIL.into();
    report.threads[1].label = EVIL.into();
    report.sites[0].name = Some(EVIL.into());
    report.sites[1].places = vec![EVIL.into()];
    report.sites[2].function = Some(EVIL.into());
    for verdict in report.verdicts.iter_mut().flatten() {
        verdict.text = EVIL.into();
    }
    for function in report.functions.iter_mut().flatten() {
        function.function = EVIL.into();
    }
    for lock in report.locks.iter_mut().flatten() {
        lock.site = Some(EVIL.into());
    }
    let timeline = timeline(report, 10);
    let page = written(report, &TimelineSource::Timeline(&timeline));
    assert!(!page.contains("<script>alert"), "it would run");
    assert!(!page.contains("<img"));
    // The page's own scripts: the data and the program.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("&lt;/script&gt;"));
}

#[test]
fn what_drives_terminals_or_turns_text_around_is_taken_out() {
    for snapshot in [samples::hostile(), samples::hostile_hang()] {
        let page = from_report(&snapshot);
        let bad = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
        let at = page.find(bad);
        assert_eq!(
            at.map(|at| page[at..].chars().take(20).collect::<String>()),
            None
        );
    }
}

#[test]
fn what_is_unknown_is_said_to_be() {
    let page = from_report(&samples::lossy());
    assert!(page.contains("<td class=\"n\">?</td>"));
    assert!(page.contains("12\u{a0}345"), "events lost");
    assert!(page.contains("watched in part"));
    let empty = from_report(&samples::empty());
    assert!(empty.contains("No barrier was found in"));
}

#[test]
fn a_report_alone_has_no_timeline_and_says_so() {
    let page = from_report(&samples::imbalanced());
    assert!(page.contains("There is no timeline, since this page was made from a report"));
    assert!(!page.contains("id=\"tl-data\""));
}

#[test]
fn counters_have_tables_by_site_phase_and_thread() {
    let page = from_report(&samples::counted()).replace('\u{a0}', " ");
    assert!(
        page.contains("how late it comes, over 512 episodes: page-faults 0.93, instructions -0.71"),
        "{page}"
    );
    let (_, section) = page.split_once("<section id=\"counters\"").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    for title in ["By site", "By phase", "By thread"] {
        assert!(section.contains(&format!("<h3>{title}</h3>")), "{title}");
    }
    for column in [
        ">page-faults, sum<",
        ">page-faults, a phase<",
        ">cycles (47 %), sum<",
        ">IPC<",
    ] {
        assert!(section.contains(column), "{column}");
    }
    // Only the fourth thread has page faults.
    let row = |label: &str| {
        let (_, threads) = section.split_once("<h3>By thread</h3>").unwrap();
        let (_, row) = threads.split_once(&format!("\">{label} ")).unwrap();
        row.split_once("</tr>").unwrap().0.to_owned()
    };
    assert!(row("T0").contains("data-v=\"0\">0<"), "{}", row("T0"));
    let faults = samples::counted().report.threads[3].counters["page-faults"].unwrap();
    assert!(faults > 0 && row("T3").contains(&format!("data-v=\"{faults}\"")));
    // Counters that this machine lacks are unknown, and sorted last.
    assert!(row("T3").contains("<td class=\"n\">?</td>"));
    // The table of a site's threads has the counters too.
    let (_, details) = page.split_once("<details>").unwrap();
    let (details, _) = details.split_once("</details>").unwrap();
    assert!(details.contains(">page-faults, sum<") && details.contains(">IPC<"));
}

#[test]
fn a_mean_is_that_of_the_known_intervals_and_says_of_how_many() {
    let mut snapshot = samples::counted();
    snapshot.report.counters.truncate(1);
    let section = |snapshot: &Snapshot| {
        let page = from_report(snapshot).replace('\u{a0}', " ");
        let (_, section) = page.split_once("<h3>By site</h3>").unwrap();
        section.split_once("</section>").unwrap().0.to_owned()
    };
    let mean = |report: &Report| {
        let site = &report.sites[0];
        (
            site.counter_per_phase("page-faults").unwrap(),
            site.episodes,
        )
    };
    let whole = section(&snapshot);
    assert!(!whole.contains(")</td>"), "{whole}");
    let (before, episodes) = mean(&snapshot.report);
    // A quarter of the intervals of the thread with page faults is unknown.
    let unknown = episodes / 4;
    let site = &mut snapshot.report.sites[0];
    let phase = snapshot.report.phases.iter_mut();
    let phase = phase.filter(|phase| phase.to == site.id).last().unwrap();
    let thread = &mut site.threads[3];
    for counted in [&mut site.counted, &mut thread.counted, &mut phase.counted] {
        counted.get_mut("page-faults").unwrap().known -= unknown;
    }
    for counts in [
        &mut site.counters,
        &mut thread.counters,
        &mut phase.counters,
    ] {
        let sum = counts.get_mut("page-faults").unwrap().as_mut().unwrap();
        *sum -= *sum * unknown / episodes;
    }
    snapshot.report.counters[0].unknown = unknown;
    let (after, _) = mean(&snapshot.report);
    assert!(before > 0.0 && (after - before).abs() < 1e-3 * before);
    let partial = section(&snapshot);
    let all = 4 * episodes;
    let told = format!(" ({} of {})</td>", count(all - unknown), count(all));
    // Said once for the site and once for its phase.
    assert_eq!(partial.matches(&told).count(), 2, "{told}: {partial}");
    assert_eq!(partial.matches(")</td>").count(), 2, "{partial}");
    assert!(partial.contains("a counter could not be read at both ends"));
    // A thread without known counts is not assumed to count as much as the others.
    let site = &mut snapshot.report.sites[0];
    site.threads[3]
        .counted
        .get_mut("page-faults")
        .unwrap()
        .known = 0;
    site.threads[3].counters.insert("page-faults".into(), None);
    assert_eq!(site.counter_per_phase("page-faults"), None);
    assert!(section(&snapshot).contains("<td class=\"n\">?</td>"));
}

#[test]
fn without_counters_nothing_is_said_of_them() {
    let mut snapshot = samples::imbalanced();
    let timeline = timeline(&mut snapshot.report, 10);
    let page = written(&snapshot.report, &TimelineSource::Timeline(&timeline));
    assert!(!page.contains("<section id=\"counters\""));
    assert!(!page.contains("<select"));
    assert!(page.contains("\"counters\":[]"));
    assert!(!page.contains("page-faults"));
}

#[test]
fn a_counter_is_chosen_beside_the_timeline() {
    let mut snapshot = samples::counted();
    let timeline = timeline(&mut snapshot.report, 10);
    let page = written(&snapshot.report, &TimelineSource::Timeline(&timeline));
    assert!(page.contains("<select id=\"tl-counter\"><option value=\"0\">page-faults</option>"));
    assert!(page.contains("<label for=\"tl-counter\">"));
    let data = page.split("id=\"tl-data\">").nth(1).unwrap();
    let data = data.split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let counters = data["counters"].as_array().unwrap();
    assert_eq!(counters.len(), 5);
    assert_eq!(counters[3]["name"], "cycles (47 %)");
    for (strip, lanes) in [("all", 1), ("each", 4)] {
        let cells = counters[0][strip]["cells"].as_array().unwrap();
        let whole = |text: &serde_json::Value| text.as_str().is_some_and(|text| text.len() > 3000);
        assert!(cells.len() == lanes && cells.iter().all(whole), "{strip}");
    }
    // A page made from a report has no counters to choose.
    assert!(!from_report(&samples::counted()).contains("<select"));
}

#[test]
fn a_hang_stands_on_top() {
    let page = from_report(&samples::hung());
    let hang = page.find("<section id=\"hang\"").unwrap();
    assert!(hang < page.find("<section id=\"verdicts\"").unwrap());
    assert!(page.contains("■ Hang"));
    assert!(from_report(&samples::slow()).contains("■ Slow"));
    assert!(from_report(&samples::over()).contains("A hang that ended"));
}

#[test]
fn it_is_said_whether_a_hang_was_over() {
    let page = |outcome| {
        let mut snapshot = samples::hung();
        snapshot.report.run.hang.as_mut().unwrap().outcome = outcome;
        from_report(&snapshot).replace('\u{a0}', " ")
    };
    let lasts = page(HangOutcome::Lasts);
    assert!(lasts.contains("It had lasted 40.0 s when watching ended, and still lasted."));
    assert!(!lasts.contains("then ended"));
    assert!(page(HangOutcome::Over).contains("It lasted 40.0 s and then ended."));
    assert!(page(HangOutcome::Unknown).contains("whether it ended is unknown"));
}

#[test]
fn who_is_missing_at_a_hang_is_missing_where_it_has_not_ended() {
    let mut snapshot = samples::hung();
    for it in &mut snapshot.report.unfinished {
        it.missing.clear();
    }
    let page = from_report(&snapshot);
    let (_, unfinished) = page.split_once("<section id=\"unfinished\"").unwrap();
    assert!(unfinished.contains("missing T3 worker;"), "{unfinished}");
    // A barrier whose threads were not inspected.
    let hang = snapshot.report.run.hang.as_mut().unwrap();
    hang.found.barrier.as_mut().unwrap().id = Some(9);
    assert!(from_report(&snapshot).contains("missing nobody known;"));
}

#[test]
fn what_is_to_be_typed_is_set_apart_and_is_no_markup() {
    let shown = |text: &str| marked(text).into_string();
    assert_eq!(shown("a `b <i>` c"), "a <code>b &lt;i&gt;</code> c");
    assert_eq!(shown("it`s <i>"), "it`s &lt;i&gt;");
}

#[test]
fn a_long_command_is_whole_on_the_page_but_not_in_the_title() {
    let mut snapshot = samples::calm();
    let long = "é".repeat(3000);
    snapshot.report.run.command = vec![long.clone()];
    let page = from_report(&snapshot);
    let (_, title) = page.split_once("<title>").unwrap();
    assert!(title.split_once("</title>").unwrap().0.chars().count() < 150);
    assert!(page.contains(&format!("<h1 title=\"{long}\">{long}</h1>")));
}

#[test]
fn a_million_episodes_make_no_larger_page_than_three_megabytes() {
    let mut snapshot = samples::imbalanced();
    let timeline = timeline(&mut snapshot.report, 1_000_000);
    let page = written(&snapshot.report, &TimelineSource::Timeline(&timeline));
    assert!(page.len() < 3_000_000, "{}", page.len());
    let data = page.split("id=\"tl-data\">").nth(1).unwrap();
    let data = data.split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["threads"].as_array().unwrap().len(), 4);
    let last = data["episodes"].as_array().unwrap().last().unwrap();
    assert_eq!(last[1], 999_999);
}

#[test]
fn many_threads_sites_and_counters_do_neither() {
    let mut many_counters = samples::counted();
    let counters = &mut many_counters.report.counters;
    *counters = counters.iter().cycle().take(16).cloned().collect();
    for mut snapshot in [
        samples::many_threads(),
        samples::many_sites(),
        many_counters,
    ] {
        let timeline = timeline(&mut snapshot.report, 50_000);
        let page = written(&snapshot.report, &TimelineSource::Timeline(&timeline));
        assert!(page.len() < 3_000_000, "{}", page.len());
    }
}
