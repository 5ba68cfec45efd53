//! Hangs: their tab, and what alarms.

use super::*;

/// The style at the first occurrence of a text.
fn style_of(shown: &Shown, text: &str) -> ratatui::style::Style {
    let buffer = shown.terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width);
    let found = rows.into_iter().find_map(|row| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        let at = line[..line.find(text)?].chars().count();
        Some(row[at].style())
    });
    found.unwrap_or_else(|| panic!("no {text} in\n{}", shown.text()))
}

#[test]
fn a_hang_has_a_tab_of_its_own() {
    for (name, sample) in [
        ("hang", samples::hung as fn() -> _),
        ("slow", samples::slow),
    ] {
        for size in SIZES {
            let mut shown = Shown::new(sample(), size, LOOK);
            shown.keys("!");
            check(&format!("tab-{name}-{}x{}", size.0, size.1), &shown);
        }
    }
    let mut shown = Shown::new(samples::hung(), (80, 24), LOOK);
    let alarm = LOOK.alarm().fg;
    assert_eq!(style_of(&shown, "!Hang").fg, alarm, "in red");
    assert_eq!(style_of(&shown, "! HANG for 40.0 s").fg, alarm);
    assert!(
        shown.text().contains("! who is missing"),
        "{}",
        shown.text()
    );
    shown.keys("!");
    assert!(
        shown
            .text()
            .contains("mutex 0x55d0c0de40 held by T1 worker")
    );
    assert!(!shown.text().contains("! who is missing"), "it is in sight");
    // With Tab it follows the help and precedes the first tab.
    shown.code(KeyCode::Tab);
    assert!(
        shown.text().contains("thread time is lost"),
        "{}",
        shown.text()
    );
    shown.code(KeyCode::BackTab);
    assert!(shown.text().contains("who is missing"));
    shown.code(KeyCode::BackTab);
    assert!(shown.text().contains("1-0, Tab, Shift-Tab"));
    // A click works as for the other tabs.
    shown.click(2, 2);
    assert!(shown.text().contains("who waits for whom"));
}

#[test]
fn without_a_hang_there_is_no_such_tab() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    assert!(!shown.text().contains("Hang"));
    shown.keys("!");
    assert!(shown.text().contains("no hang was found"));
    shown.keys("0");
    shown.code(KeyCode::Tab);
    assert!(
        shown.text().contains("thread time is lost"),
        "{}",
        shown.text()
    );
    // The tab disappears while it is shown.
    shown.snapshot = samples::hung();
    shown.keys("!");
    shown.snapshot = samples::imbalanced();
    shown.draw();
    assert!(
        shown.text().contains("thread time is lost"),
        "{}",
        shown.text()
    );
}

#[test]
fn what_is_slow_or_over_does_not_alarm() {
    let alarm = LOOK.alarm().fg;
    for (sample, heading) in [
        (samples::slow as fn() -> _, "SLOW for 40.0 s"),
        (samples::over, "A HANG, over after 40.0 s"),
    ] {
        let mut shown = Shown::new(sample(), (80, 24), LOOK);
        assert_ne!(style_of(&shown, "!Hang").fg, alarm);
        assert!(!shown.text().contains("! who is missing"));
        assert!(!shown.text().contains("HANG for"));
        shown.keys("!");
        assert!(shown.text().contains(heading), "{}", shown.text());
        assert_ne!(style_of(&shown, heading).fg, alarm);
    }
    assert!(
        Shown::new(samples::slow(), (80, 24), LOOK)
            .text()
            .contains("slow for 40.0 s")
    );
}
