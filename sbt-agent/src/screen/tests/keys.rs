//! Tests of keys and clicks.

use std::sync::Arc;

use super::*;
use sbt_engine::live::Offer;

#[test]
fn counters_are_chosen_from_a_list() {
    let mut shown = Shown::new(samples::counted(), (80, 24), LOOK);
    assert_eq!(shown.keys("e"), [Request::Offer]);
    assert!(
        shown
            .text()
            .contains("looking for the counters of this machine")
    );
    let offer = |name: &str, missing: Option<&str>| Offer {
        name: name.into(),
        about: String::new(),
        missing: missing.map(str::to_owned),
    };
    shown.snapshot.offers = Some(Arc::new(vec![
        offer("page-faults", None),
        offer("LLC-loads", Some("no hardware counters")),
        offer("minor-faults", None),
    ]));
    shown.draw();
    for text in [
        "[x] page-faults",
        "[ ] minor-faults",
        "not available: no hardware counters",
    ] {
        assert!(shown.text().contains(text), "{text}: {}", shown.text());
    }
    // Unavailable counters cannot be chosen. Letters search names, even letters that are keys
    // elsewhere.
    shown.keys("llc ");
    shown.code(KeyCode::Esc);
    shown.keys("minor");
    assert!(!shown.text().contains("page-faults"), "{}", shown.text());
    shown.keys(" ");
    shown.code(KeyCode::Esc);
    shown.keys("page ");
    let chosen = ["cycles", "instructions", "minor-faults", "task-clock"];
    // Counters that were chosen before and are not in the list stay chosen.
    let mut chosen: Vec<String> = chosen.into_iter().map(String::from).collect();
    chosen.insert(0, "LLC-loads".into());
    assert_eq!(shown.code(KeyCode::Enter), [Request::Count(chosen)]);
    assert!(!shown.text().contains("[x]"), "{}", shown.text());
    shown.keys("e");
    assert_eq!(shown.code(KeyCode::Esc), []);
}

#[test]
fn keys_of_a_recording() {
    let mut shown = Shown::new(samples::replayed(0, Playing::Paused), (80, 24), LOOK);
    let play = |play| [Request::Play(play)];
    for (keys, asked) in [
        (" ", Play::Toggle),
        ("p", Play::Toggle),
        (".", Play::Step),
        ("+", Play::Faster),
        ("[", Play::Slower),
        ("G", Play::End),
        ("g", Play::Begin),
    ] {
        assert_eq!(shown.keys(keys), play(asked), "{keys}");
        assert!(!shown.text().contains("PAUSED"), "not that of the display");
    }
    assert_eq!(shown.code(KeyCode::End), play(Play::End));
    assert_eq!(shown.code(KeyCode::Home), play(Play::Begin));
    assert_eq!(shown.keys("q"), [Request::Leave]);
    assert_eq!(shown.control('c'), [Request::Leave]);
    assert_eq!(shown.control('z'), [Request::Suspend]);
    assert_eq!(shown.keys("w"), [Request::Save]);
    for (keys, said) in [
        ("d", "no program to detach from"),
        ("r", "totals of a recording cannot be reset"),
        ("n", "a recording has fixed names"),
        ("i", "no program that reads keys"),
    ] {
        assert!(shown.keys(keys).is_empty(), "{keys}");
        assert!(shown.text().contains(said), "{keys}:\n{}", shown.text());
    }
    // Keys that only concern the screen work as usual.
    shown.keys("3");
    assert_eq!(shown.keys("z"), [Request::Zoom { closer: true }]);
    assert_eq!(shown.keys("Z"), [Request::Zoom { closer: false }]);
    shown.code(KeyCode::Left);
    assert!(shown.text().contains("in the past; Esc: now"));
    shown.code(KeyCode::Esc);
    assert!(shown.text().contains("as it was"));
    shown.keys("1/fac");
    assert!(shown.keys(" g").is_empty(), "in a dialog it is text");
}

#[test]
fn keys_ask_the_session() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    assert_eq!(shown.keys("q"), [Request::Leave]);
    assert_eq!(shown.keys("d"), [Request::Leave]);
    assert_eq!(shown.keys(" "), [Request::Toggle]);
    assert_eq!(shown.keys("r"), [Request::Reset]);
    assert_eq!(shown.keys("w"), [Request::Save]);
    assert_eq!(shown.control('c'), [Request::Interrupt]);
    assert_eq!(shown.control('z'), [Request::Suspend]);
    let resized = shown.event(&Event::Resize(100, 30));
    assert_eq!(resized, [Request::Size(100, 25)]);
    assert_eq!(program_size(0, 0), (1, 1));
    assert!(shown.keys("x!§8").is_empty());
}

#[test]
fn zoom_asks_for_other_pieces_of_time() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("3");
    assert_eq!(shown.keys("+"), [Request::Zoom { closer: true }]);
    assert_eq!(shown.keys("-"), [Request::Zoom { closer: false }]);
    shown.keys("p");
    assert!(shown.keys("-").is_empty(), "the past was kept as it is");
}

#[test]
fn the_timeline_scrolls_into_the_past_and_back() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("3");
    let now = shown.row("T1");
    shown.code(KeyCode::Left);
    let past = shown.row("T1");
    assert_ne!(now, past);
    assert!(shown.text().contains("in the past"));
    // The visible window stays at its time while time goes on.
    let piece = shown.snapshot.lanes.piece_ns;
    shown.snapshot.lanes.end_ns += 4 * piece;
    for lane in &mut shown.snapshot.lanes.lanes {
        lane.pieces.extend([sbt_engine::live::Piece::default(); 4]);
    }
    shown.draw();
    assert_eq!(shown.row("T1"), past);
    for _ in 0..100 {
        shown.code(KeyCode::Left);
    }
    let oldest = shown.row("T1");
    assert!(oldest.contains('█'), "never beyond the oldest: {oldest}");
    shown.code(KeyCode::End);
    assert!(shown.text().contains("as it happens"));
}

#[test]
fn the_display_stands_still_while_paused() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("p");
    let before = shown.row("T1");
    shown.snapshot = samples::hanging();
    shown.draw();
    assert_eq!(shown.row("T1"), before);
    assert!(shown.text().contains("PAUSED"));
    assert!(
        shown.text().contains("no episode for 40."),
        "the header goes on"
    );
    shown.keys("p");
    assert_ne!(shown.row("T1"), before);
}

#[test]
fn the_selection_stays_on_its_site() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    assert!(shown.row("▸").contains("update_rows"));
    shown.keys("j");
    assert!(shown.row("▸").contains("diagonal"));
    for site in &mut shown.snapshot.report.sites {
        if site.name.is_some() {
            site.lost_ns *= 1000;
        }
    }
    shown.draw();
    assert!(shown.row("▸").contains("diagonal"));
    shown.keys("s");
    assert!(shown.row("▸").contains("diagonal"));
    shown.keys("G");
    shown.keys("g");
    shown.code(KeyCode::Enter);
    assert!(shown.text().contains("who comes last"));
    shown.code(KeyCode::Esc);
    assert!(shown.text().contains("lost"));
}

#[test]
fn every_column_sorts_both_ways() {
    let mut shown = Shown::new(samples::many_sites(), (200, 60), LOOK);
    let mut orders = Vec::new();
    for _ in 0..9 {
        shown.keys("s");
        let descending = shown.text();
        shown.keys("S");
        assert_ne!(shown.text(), descending);
        orders.push(descending);
    }
    orders.dedup();
    assert_eq!(orders.len(), 9);
}

#[test]
fn a_filter_shows_what_contains_it() {
    let mut shown = Shown::new(samples::many_sites(), (200, 24), LOOK);
    shown.keys("/stage<42>q");
    assert!(
        shown.text().contains("contains: stage<42>q"),
        "q is a letter here"
    );
    assert!(shown.text().contains("no site contains"));
    shown.code(KeyCode::Backspace);
    assert!(shown.row("▸").contains("lu.c:142"));
    shown.code(KeyCode::Enter);
    assert!(shown.text().contains("with \"stage<42>\""));
    shown.code(KeyCode::Esc);
    assert!(shown.text().contains("of 100"));
    shown.keys("5/");
    assert!(shown.text().contains("nothing to filter"));
}

#[test]
fn a_site_gets_a_name() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("n");
    assert!(shown.keys("row q").is_empty());
    assert!(shown.text().contains("name of update_rows lu.c:715: row q"));
    let name = Request::Name {
        site: 1,
        name: "row q".into(),
    };
    assert_eq!(shown.code(KeyCode::Enter), [name]);
    shown.keys("nx");
    assert!(shown.code(KeyCode::Esc).is_empty());
    shown.keys("n ");
    assert!(shown.code(KeyCode::Enter).is_empty(), "a name is not empty");
    shown.keys("2n");
    assert!(shown.text().contains("select a site"));
}

#[test]
fn the_program_gets_the_keyboard_and_gives_it_back() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("i");
    assert!(shown.text().contains("THE PROGRAM HAS THE KEYBOARD"));
    assert!(shown.text().contains("step 59"), "its output is in sight");
    assert_eq!(shown.keys("q"), [Request::Keys(b"q".to_vec())]);
    assert_eq!(shown.control('c'), [Request::Keys(vec![3])]);
    assert_eq!(
        shown.event(&Event::Paste("a b".into())),
        [Request::Keys(b"a b".to_vec())]
    );
    assert!(shown.code(KeyCode::Esc).is_empty());
    assert_eq!(shown.keys("x"), [Request::Keys(b"\x1bx".to_vec())]);
    shown.code(KeyCode::Esc);
    assert!(shown.code(KeyCode::Esc).is_empty());
    assert_eq!(shown.keys("q"), [Request::Leave]);
    shown.keys("i");
    assert!(
        shown.control('5').is_empty(),
        "what terminals send for Ctrl-]"
    );
    assert_eq!(shown.keys("q"), [Request::Leave]);
    shown.snapshot.output = None;
    shown.keys("i");
    assert!(shown.text().contains("keeps its own terminal"));
}

#[test]
fn the_mouse_selects_scrolls_and_sorts() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    let rows = shown.text();
    let find = |what: &str| {
        u16::try_from(rows.lines().position(|line| line.contains(what)).unwrap()).unwrap()
    };
    let title = find("episodes  ");
    shown.click(5, title + 2);
    assert!(shown.row("▸").contains("diagonal"));
    shown.click(5, title + 2);
    assert!(shown.text().contains("who comes last"));
    shown.code(KeyCode::Esc);
    shown.click(4, title);
    assert!(shown.row("site").contains("site▼"));
    shown.click(4, title);
    assert!(shown.row("site").contains("site▲"));
    let tabs = shown.text().lines().nth(2).unwrap().find("3Time").unwrap();
    shown.click(u16::try_from(tabs).unwrap(), 2);
    assert!(shown.text().contains("as it happens"));
    shown.keys("5");
    let wheel = Event::Mouse(MouseEvent {
        kind: MouseEventKind::ScrollUp,
        column: 1,
        row: 5,
        modifiers: KeyModifiers::NONE,
    });
    shown.event(&wheel);
    assert!(!shown.text().contains("step 59"));
    shown.code(KeyCode::End);
    assert!(shown.text().contains("step 59"));
}

#[test]
fn an_answer_is_shown_until_a_key_is_pressed_or_time_passes() {
    let mut shown = Shown::new(samples::calm(), (80, 24), LOOK);
    shown.snapshot.notice = Some((1, "saved to sbt-report.txt".into()));
    shown.draw();
    assert!(shown.text().contains("saved to"));
    shown.keys("j");
    assert!(!shown.text().contains("saved to"));
    shown.snapshot.notice = Some((2, "saved to b.txt".into()));
    shown.draw();
    assert!(shown.text().contains("b.txt"));
    shown.snapshot.now_ns += 11_000_000_000;
    shown.draw();
    assert!(!shown.text().contains("b.txt"));
}

#[test]
fn when_the_program_has_ended_keys_look_around_or_leave() {
    for size in SIZES {
        let shown = Shown::new(samples::ended(), size, LOOK);
        assert!(
            shown.text().contains("q or any other key: leave"),
            "{}",
            shown.text()
        );
    }
    let mut shown = Shown::new(samples::ended(), (80, 24), LOOK);
    shown.keys("2");
    assert!(shown.text().contains("threads: who works, and who waits"));
    assert_eq!(shown.keys("3+"), [Request::Zoom { closer: true }]);
    assert_eq!(shown.control('z'), [Request::Suspend]);
    shown.keys("1s/x q");
    assert!(
        shown.text().contains("contains: x q"),
        "here it is a letter:\n{}",
        shown.text()
    );
    shown.code(KeyCode::Enter);
    assert!(
        shown.code(KeyCode::Esc).is_empty(),
        "all rows are shown again first"
    );
    let row = shown.text().lines().position(|line| line.contains("▸ "));
    shown.click(5, u16::try_from(row.unwrap()).unwrap());
    assert!(shown.text().contains("who comes last"));
    assert!(shown.text().contains("Esc back"));
    assert!(shown.code(KeyCode::Esc).is_empty());
    for code in [
        KeyCode::Esc,
        KeyCode::Enter,
        KeyCode::Char(' '),
        KeyCode::Char('w'),
    ] {
        assert_eq!(shown.code(code), [Request::Leave], "{code:?}");
    }
    assert_eq!(shown.control('c'), [Request::Leave]);
    assert!(shown.event(&Event::Paste("text".into())).is_empty());
}

#[test]
fn the_end_takes_the_keyboard_back_and_ends_a_pause() {
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("p");
    shown.keys("i");
    shown.keys("1");
    shown.snapshot = samples::ended();
    shown.draw();
    assert!(!shown.text().contains("THE PROGRAM HAS THE KEYBOARD"));
    assert_eq!(shown.keys("x"), [Request::Leave]);
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), LOOK);
    shown.keys("p");
    shown.snapshot = samples::ended();
    shown.draw();
    assert!(!shown.text().contains("PAUSED"), "{}", shown.text());
}
