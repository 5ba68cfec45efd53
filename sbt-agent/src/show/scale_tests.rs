//! Tests of the text and the page about a series of runs.

use super::{
    scale_html,
    table::Style,
    text::{self, short_count},
};
use sbt_engine::{
    report::{CounterUnit, counters::CounterReport},
    scale::{
        samples::{half_serial, half_serial_with_verdicts, of, run},
        scaling,
    },
};

const MS: u64 = 1_000_000;

const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

#[test]
fn lines_fit_and_plain_terminals_get_ascii() {
    let of_many = |n: u32| run(n, &[(10, 80 * MS / u64::from(n)), (20, 4 * MS)], MS);
    let all = of(&[1, 2, 4, 8, 16, 32].map(of_many));
    for line in text::scale(&all, PLAIN).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let ascii = Style {
        unicode: false,
        ..PLAIN
    };
    let text = text::scale(&all, ascii);
    assert!(text.is_ascii(), "{text}");
    assert!(text.contains("####"), "{text}");
}

#[test]
fn names_drive_neither_a_terminal_nor_a_page() {
    let mut runs = half_serial();
    for run in &mut runs {
        run.report.sites[0].name = Some("</td><script>alert(1)</script>\u{1b}[2J".into());
        run.report.sites[1].name = Some("\"><img src=x onerror=y>'&".into());
    }
    let hostile = vec!["./lu".into(), "<b>{n}</b>\u{7}".into()];
    let all = scaling(hostile, &runs, vec!["</p><script>".into()]).unwrap();
    let page = scale_html::page(&all);
    for bad in ["<script", "<img", "<b>{n}", "\u{1b}", "\u{7}"] {
        assert!(!page.contains(bad), "{bad:?} in {page}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(
        !page.contains("http:") && !page.contains("https:"),
        "{page}"
    );
    let text = text::scale(&all, PLAIN);
    assert!(
        !text.replace('\n', "").contains(char::is_control),
        "{text:?}"
    );
}

#[test]
fn a_page_has_both_plots_and_all_phases() {
    let page = scale_html::page(&of(&half_serial()));
    assert_eq!(page.matches("role=\"img\"").count(), 2, "{page}");
    assert!(
        page.contains("class=\"ideal\"") && page.contains("prefers-color-scheme"),
        "{page}"
    );
    assert!(
        page.contains("solve lu.c:20") && page.contains("outside of all phases"),
        "{page}"
    );
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}

#[test]
fn counters_are_told_by_phase_and_number() {
    let mut runs = half_serial();
    for run in &mut runs {
        let total = 1_500_000 * u64::from(run.threads);
        run.report.counters = vec![CounterReport {
            name: "instructions".into(),
            unit: CounterUnit::Count,
            total: Some(total),
            work: Some(total),
            unknown: 0,
            counted_pct: None,
        }];
        run.report.phases[0].counters = [("instructions".into(), Some(total / 2))].into();
    }
    let all = of(&runs);
    let text = text::scale(&all, PLAIN);
    assert!(text.contains("COUNTER instructions"), "{text}");
    assert!(text.contains("3.00 M"), "{text}");
    let page = scale_html::page(&all);
    assert!(
        page.contains("Counter instructions") && page.contains("3.00 M"),
        "{page}"
    );
    assert_eq!(short_count(9_999), "9999");
    assert_eq!(short_count(12_345), "12.3 k");
    assert_eq!(short_count(1_234_567_890), "1.23 G");
}

#[test]
fn the_serial_phase_is_told_and_why() {
    let runs = half_serial_with_verdicts();
    let all = of(&runs);
    let text = text::scale(&all, PLAIN);
    assert!(
        text.contains("▶ solve lu.c:20 gets no faster with more threads"),
        "{text}"
    );
    assert!(text.contains("one thread works"), "{text}");
}

#[test]
fn what_scales_is_told_and_one_number_tells_nothing() {
    let all = of(&[1, 2, 4].map(|n| run(n, &[(10, 8 * MS / u64::from(n))], 0)));
    let text = text::scale(&all, PLAIN);
    assert!(
        text.contains("the program scales: with 4 threads the speed-up is 100 % of the ideal"),
        "{text}"
    );
    // A single number of threads allows no conclusions.
    let one = of(&[run(4, &[(10, MS)], 0)]);
    let text = text::scale(&one, PLAIN);
    assert!(
        !text.contains("scales:") && !text.contains("SPEED-UP"),
        "{text}"
    );
}

#[test]
fn what_is_unknown_with_one_thread_is_a_question_mark() {
    let mut alone = run(1, &[(10, 8 * MS)], 0);
    alone.report.phases.clear();
    alone.report.sites.clear();
    alone.report.threads.clear();
    alone.report.efficiency = None;
    let text = text::scale(&of(&[alone, run(2, &[(10, 4 * MS)], 0)]), PLAIN);
    assert!(text.contains('?'), "{text}");
}
