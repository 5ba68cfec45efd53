//! The efficiency of the threads: parallelism, critical path, efficiency.

use super::*;

#[test]
fn parallelism_is_told_by_phase_site_thread_and_function() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("8");
    assert!(shown.row("1 busy").contains("2470"), "{}", shown.text());
    let top = |shown: &Shown| shown.row("▸");
    assert!(top(&shown).contains("swap lu.c:731 → update_rows lu.c:715"));
    shown.code(KeyCode::Enter);
    assert!(shown.text().contains("by thread, over all phases"));
    shown.code(KeyCode::Esc);
    shown.code(KeyCode::Right);
    assert!(top(&shown).contains("update_rows lu.c:715"));
    shown.code(KeyCode::Right);
    assert!(top(&shown).contains("T3 worker"), "{}", shown.text());
    shown.code(KeyCode::Enter);
    assert!(shown.text().contains("by site"));
    shown.code(KeyCode::Esc);
    shown.code(KeyCode::Right);
    assert!(top(&shown).contains("SlaveStart"));
    shown.keys("/print");
    shown.code(KeyCode::Enter);
    assert!(top(&shown).contains("print_row"));
    shown.code(KeyCode::Enter);
    assert!(shown.text().contains("by caller"), "{}", shown.text());
    shown.code(KeyCode::Esc);
    shown.code(KeyCode::Left);
    assert!(top(&shown).contains("T3 worker"), "each has its own filter");
    // Sampling has a cost, so it is off by default.
    shown.snapshot.report.functions = None;
    shown.code(KeyCode::Right);
    shown.code(KeyCode::Esc);
    assert!(shown.text().contains("--sample 200"));
}

#[test]
fn the_path_is_told_by_site_thread_and_function() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("9");
    assert!(shown.row("▸").contains("update_rows lu.c:715"));
    assert!(shown.text().contains("if work were balanced"));
    shown.code(KeyCode::Enter);
    assert!(shown.row("50 % faster").contains("s "), "{}", shown.text());
    shown.code(KeyCode::Esc);
    shown.code(KeyCode::Right);
    assert!(shown.row("▸").contains("T3 worker"));
    shown.code(KeyCode::Left);
    shown.code(KeyCode::Left);
    assert!(shown.row("▸").contains("SlaveStart"));
    shown.snapshot.report.functions = None;
    shown.draw();
    assert!(shown.text().contains("--sample 200"));
}

#[test]
fn the_efficiency_stands_in_the_header_as_long_as_there_is_room() {
    let all = "efficiency 0.71 = balance 0.78 × serial 0.93 × transfer 0.98";
    for (columns, text) in [(60, &all[11..]), (80, all), (200, all)] {
        let shown = Shown::new(samples::imbalanced(), (columns, 24), LOOK).text();
        let line = shown.lines().nth(1).unwrap();
        assert!(line.starts_with(&format!(" {text} ")), "{line}");
        assert!(line.ends_with('█'), "the pace is there, too: {line}");
        assert_eq!(
            line.contains("39 % of thread time"),
            columns == 200,
            "{line}"
        );
    }
    let calm = Shown::new(samples::calm(), (80, 24), LOOK).text();
    assert!(calm.lines().nth(1).unwrap().contains("waiting; most:"));
}

#[test]
fn an_efficiency_that_a_loss_has_spoilt_is_a_question_mark_and_the_log_says_why() {
    let mut shown = Shown::new(samples::lossy(), (100, 24), LOOK);
    let line = shown.text().lines().nth(1).unwrap().to_owned();
    assert!(line.contains("efficiency ?"), "{line}");
    shown.keys("6");
    let text = shown.text();
    assert!(
        text.contains("efficiency ?: 12345 of 99999 events were lost"),
        "{text}"
    );
}
