//! Counters on every tab that has them.

use super::*;

#[test]
fn counters_on_every_tab_that_has_them() {
    for size in SIZES {
        for (keys, tab) in [("\n", "site"), ("2", "threads"), ("4", "phases")] {
            let mut shown = Shown::new(samples::counted(), size, LOOK);
            match keys {
                "\n" => shown.code(KeyCode::Enter),
                _ => shown.keys(keys),
            };
            check(&format!("counted-{tab}-{}x{}", size.0, size.1), &shown);
        }
    }
}

#[test]
fn columns_of_counters_scroll() {
    for keys in ["", "2", "4"] {
        let mut shown = Shown::new(samples::counted(), (80, 24), LOOK);
        shown.keys(keys);
        assert!(shown.text().contains("page-faults"), "{}", shown.text());
        assert!(!shown.text().contains("IPC"), "{}", shown.text());
        for _ in 0..40 {
            shown.code(KeyCode::Right);
        }
        // Counters that take turns on the hardware, and counters that do not exist here.
        assert!(shown.text().contains("IPC"), "{}", shown.text());
        assert!(!shown.text().contains("page-faults  "), "{}", shown.text());
        // Further right there is nothing; the first key to the left goes back.
        let end = shown.text();
        shown.code(KeyCode::Left);
        assert_ne!(shown.text(), end);
        for _ in 0..40 {
            shown.code(KeyCode::Left);
        }
        assert!(shown.text().contains("page-faults"), "{}", shown.text());
    }
}

#[test]
fn a_counter_in_turns_tells_its_share_and_an_unknown_one_is_a_question() {
    let mut shown = Shown::new(samples::counted(), (200, 60), LOOK);
    shown.keys("2");
    let text = shown.text();
    assert!(text.contains("cycles (47 %)"), "{text}");
    let row = text
        .lines()
        .find(|line| line.contains("T3 worker"))
        .unwrap();
    assert!(row.contains(" ? "), "{row}");
}

#[test]
fn a_site_says_in_how_much_of_the_work_a_counter_is_known() {
    let mut snapshot = samples::counted();
    for site in &mut snapshot.report.sites {
        site.counted.get_mut("page-faults").unwrap().known = 5;
    }
    let mut shown = Shown::new(snapshot, (200, 60), LOOK);
    shown.code(KeyCode::Enter);
    let text = shown.text();
    assert!(text.contains("page-faults: known for 5 of "), "{text}");
    assert!(!text.contains("instructions: known for"), "{text}");
}
