//! How it is written.

use super::*;
use crate::views::{table::Style, text};

const PLAIN: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

#[test]
fn sixty_four_threads_that_wait_are_one_entry() {
    let mut seen = Seen::new();
    let workers: Vec<u32> = (1..=64).filter(|number| *number != 2).collect();
    seen.barrier(64, 40, &workers)
        .worker(2, mutex(0x5581, 1), "update hangs.c:52");
    let text = text::look(&report(&seen.0, PROCESS), PLAIN);
    assert!(text.lines().count() < 30, "{text}");
    assert!(text.contains("there: 63 threads"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(text.contains("\nwho waits for whom\n  worker-2 → mutex 0x5581 held by worker-1"));
    assert!(
        text.contains("in update hangs.c:52 ← worker hangs.c:30"),
        "{text}"
    );
    let ascii = text::look(
        &report(&seen.0, PROCESS),
        Style {
            unicode: false,
            ..PLAIN
        },
    );
    assert!(ascii.is_ascii(), "{ascii}");
}

#[test]
fn what_the_target_is_called_does_not_drive_the_terminal() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2]);
    seen.thread(
        3,
        "evil\u{1b}[2J",
        call("read", "\u{1b}]0;x\u{7}"),
        "f\u{1b}x a\u{1b}.c:1",
    );
    seen.0.notes.push("a\u{1b}note".into());
    let text = text::look(&report(&seen.0, PROCESS), PLAIN);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    assert!(text.contains("note: a?note"), "{text}");
}

#[test]
fn threads_of_one_name_are_told_apart() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, mutex(0x5581, 1), "update hangs.c:52");
    for number in 1..=3 {
        seen.of(number).name = "lu".into();
    }
    let hang = seen.hang();
    assert!(
        hang.text.starts_with("lu 103 is missing at"),
        "{}",
        hang.text
    );
    assert!(hang.text.contains("that lu 101 holds"), "{}", hang.text);
}

#[test]
fn a_report_s_own_names_are_used() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, mutex(0x5581, 1), "update hangs.c:52");
    let mut names = Names::default();
    for number in 0..=3 {
        names
            .threads
            .insert(id(number), (number, format!("T{number}")));
    }
    names.barriers.insert((PROCESS, 0x7000), 5);
    let hang = judge_as(&seen.0, &names).unwrap();
    assert!(
        hang.text.starts_with("T3 worker-3 is missing"),
        "{}",
        hang.text
    );
    assert_eq!(hang.missing[0].who.thread, Some(3));
    assert_eq!(hang.barrier.unwrap().id, Some(5));
}
