//! Tests of frames, keys and screen sizes.

mod counters;
mod hangs;
mod keys;
mod usage;

use proptest::prelude::*;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{
        Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
    },
    style::{Color, Modifier},
};

use super::{LEAST, State, program_size};
use crate::screen::theme::Look;
use sbt_engine::live::{Doing, Play, Playing, Request, Snapshot, Watching};
use sbt_engine::report::waits::{LookedThreadReport, LooksReport};
use sbt_engine::samples;

const LOOK: Look = Look {
    unicode: true,
    color: true,
};
const SIZES: [(u16, u16); 4] = [(60, 15), (80, 24), (120, 40), (200, 60)];

struct Shown {
    state: State,
    terminal: Terminal<TestBackend>,
    snapshot: Snapshot,
}

impl Shown {
    fn new(snapshot: Snapshot, (columns, rows): (u16, u16), look: Look) -> Self {
        let mut shown = Self {
            state: State::new(look),
            terminal: Terminal::new(TestBackend::new(columns, rows)).unwrap(),
            snapshot,
        };
        shown.draw();
        shown
    }

    fn draw(&mut self) {
        let (state, snapshot) = (&mut self.state, &self.snapshot);
        self.terminal
            .draw(|frame| state.draw(frame, snapshot))
            .unwrap();
    }

    fn event(&mut self, event: &Event) -> Vec<Request> {
        let requests = self.state.event(event, &self.snapshot);
        self.draw();
        requests
    }

    fn code(&mut self, code: KeyCode) -> Vec<Request> {
        self.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn control(&mut self, c: char) -> Vec<Request> {
        let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        self.event(&Event::Key(key))
    }

    /// Presses a key for each character.
    fn keys(&mut self, keys: &str) -> Vec<Request> {
        keys.chars()
            .flat_map(|c| self.code(KeyCode::Char(c)))
            .collect()
    }

    fn click(&mut self, column: u16, row: u16) -> Vec<Request> {
        self.event(&Event::Mouse(MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column,
            row,
            modifiers: KeyModifiers::NONE,
        }))
    }

    /// The characters on the screen, without blanks at the ends of lines.
    fn text(&self) -> String {
        let buffer = self.terminal.backend().buffer();
        let mut out = String::new();
        for row in buffer.content.chunks(usize::from(buffer.area.width)) {
            // Skip the cells behind a wide character, which occupies them.
            let mut skip = 0;
            let mut line = String::new();
            for cell in row {
                if skip == 0 {
                    line.push_str(cell.symbol());
                    skip = super::words::width(cell.symbol()).max(1);
                }
                skip -= 1;
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    fn row(&self, starts_with: &str) -> String {
        let text = self.text();
        let found = text
            .lines()
            .find(|line| line.trim_start().starts_with(starts_with));
        found
            .unwrap_or_else(|| panic!("no {starts_with} in\n{text}"))
            .to_owned()
    }
}

/// Compares the screen with a stored frame; `SBT_WRITE_FRAMES=1` stores it instead.
fn check(name: &str, shown: &Shown) {
    let path = format!(
        "{}/src/screen/frames/{name}.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = shown.text();
    if std::env::var_os("SBT_WRITE_FRAMES").is_some() {
        std::fs::write(&path, &text).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, stored, "{path} shows another frame");
}

type Sample = (&'static str, fn() -> Snapshot);

const SAMPLES: [Sample; 13] = [
    ("empty", samples::empty),
    ("calm", samples::calm),
    ("imbalanced", samples::imbalanced),
    ("threads64", samples::many_threads),
    ("sites100", samples::many_sites),
    ("lossy", samples::lossy),
    ("hanging", samples::hanging),
    ("ended", samples::ended),
    ("hostile", samples::hostile),
    ("hung", samples::hung),
    ("slow", samples::slow),
    ("hostile-hang", samples::hostile_hang),
    ("counted", samples::counted),
];

#[test]
fn barriers_of_every_program_at_every_size() {
    for (name, sample) in SAMPLES {
        for size in SIZES {
            let shown = Shown::new(sample(), size, LOOK);
            check(&format!("{name}-{}x{}", size.0, size.1), &shown);
        }
    }
}

#[test]
fn every_tab_at_several_sizes() {
    let tabs = [
        "site",
        "threads",
        "timeline",
        "phases",
        "output",
        "log",
        "waits",
        "parallelism",
        "path",
        "help",
    ];
    for (index, tab) in (1..).zip(tabs) {
        for size in SIZES {
            let mut shown = Shown::new(samples::imbalanced(), size, LOOK);
            match index {
                1 => shown.code(KeyCode::Enter),
                _ => shown.keys(&(index % 10).to_string()),
            };
            check(&format!("tab-{tab}-{}x{}", size.0, size.1), &shown);
        }
    }
    for (name, sample) in [
        ("threads64", samples::many_threads as fn() -> _),
        ("lossy", samples::lossy),
    ] {
        for (key, tab) in [
            ("2", "threads"),
            ("3", "timeline"),
            ("\n", "site"),
            ("6", "log"),
        ] {
            let mut shown = Shown::new(sample(), (100, 30), LOOK);
            match key {
                "\n" => shown.code(KeyCode::Enter),
                _ => shown.keys(key),
            };
            check(&format!("{name}-{tab}-100x30"), &shown);
        }
    }
}

#[test]
fn a_recording_at_every_size() {
    let states = [
        ("on", Playing::On),
        ("paused", Playing::Paused),
        ("end", Playing::AtEnd),
    ];
    for size in SIZES {
        for (name, motion) in states {
            let shown = Shown::new(samples::replayed(3_200_000_000, motion), size, LOOK);
            check(&format!("replay-{name}-{}x{}", size.0, size.1), &shown);
        }
    }
    for (key, tab) in [
        ("3", "timeline"),
        ("5", "output"),
        ("6", "log"),
        ("0", "help"),
    ] {
        let snapshot = samples::replayed(3_200_000_000, Playing::Paused);
        let mut shown = Shown::new(snapshot, (100, 30), LOOK);
        shown.keys(key);
        check(&format!("replay-{tab}-100x30"), &shown);
    }
}

#[test]
fn the_help_goes_back_to_where_it_was_asked_for() {
    let mut shown = Shown::new(samples::imbalanced(), (100, 30), LOOK);
    shown.keys("3");
    let timeline = shown.text();
    shown.keys("?");
    assert!(shown.text().contains("show this help"));
    shown.code(KeyCode::Esc);
    assert_eq!(shown.text(), timeline);
    shown.keys("??");
    assert_eq!(shown.text(), timeline);
}

#[test]
fn of_a_thread_that_hangs_it_is_not_said_that_it_works() {
    let now = |sample: fn() -> Snapshot| {
        let mut shown = Shown::new(sample(), (200, 60), LOOK);
        shown.keys("2");
        let text = shown.text();
        let row = text.lines().find(|line| line.contains("T3 worker"));
        row.unwrap_or_default().to_owned()
    };
    assert!(now(samples::hanging).contains("in no barrier for 40"));
    let hung = now(samples::hung);
    assert!(hung.contains("waits for the mutex 0x55d0c0de40"), "{hung}");
}

#[test]
fn of_a_thread_that_sleeps_elsewhere_it_is_not_said_that_it_works() {
    let mut sample = samples::hanging();
    let since_ns = sample.now_ns - 39_000_000_000;
    sample.doing[3] = Doing::Asleep { since_ns };
    let mut shown = Shown::new(sample, (120, 40), LOOK);
    let text = shown.text();
    assert!(text.contains("T3 sleeps elsewhere for 39.0 s"), "{text}");
    assert!(!text.contains("nobody works"), "{text}");
    shown.keys("2");
    let text = shown.text();
    assert!(text.contains("sleeps 39.0 s, in no barrier"), "{text}");
}

#[test]
fn without_barriers_the_threads_are_those_that_were_looked_at() {
    let thread = |number: u32, running_ms: u64| LookedThreadReport {
        thread: None,
        label: format!("T{number}"),
        tid: 100 + number,
        pid: 100,
        name: "worker".into(),
        looks: 10,
        asleep_looks: 0,
        alone_looks: 0,
        watched_ns: 1_000_000_000,
        running_ns: Some(running_ms * 1_000_000),
        ready_ns: Some(0),
        blocked_ns: None,
    };
    let mut sample = samples::empty();
    sample.report.waits = Some(LooksReport {
        threads: vec![thread(0, 10), thread(1, 700)],
        ..LooksReport::default()
    });
    let mut shown = Shown::new(sample, (120, 40), LOOK);
    let text = shown.text();
    assert!(text.contains("· 2 threads seen ·"), "{text}");
    assert!(text.contains("The tab Threads (2)"), "{text}");
    shown.keys("2");
    let text = shown.text();
    let row = text
        .lines()
        .find(|line| line.contains("T1 worker"))
        .unwrap();
    assert!(row.contains("101") && row.contains("70 %"), "{text}");
    // How many there are is not known.
    let text = Shown::new(samples::empty(), (120, 40), LOOK).text();
    assert!(!text.contains("0 threads"), "{text}");
    assert!(!text.contains("The tab Threads (2)"), "{text}");
}

#[test]
fn where_watching_costs_much_that_is_said_in_small_windows_too() {
    let first = |backend: &str, size| {
        let mut sample = samples::imbalanced();
        sample.report.run.backend = backend.into();
        let text = Shown::new(sample, size, LOOK).text();
        text.lines().next().unwrap_or_default().to_owned()
    };
    for backend in ["ptrace", "perf"] {
        let line = first(backend, (80, 24));
        assert!(line.contains("own cost"), "{line}");
        let line = first(backend, (100, 30));
        assert!(
            line.contains("own cost") && line.contains(backend),
            "{line}"
        );
    }
    assert!(!first("ebpf", (80, 24)).contains("own cost"));
}

#[test]
fn the_first_line_says_how_the_program_ended_and_how_long_it_ran() {
    let first = |status, ran_ns| {
        let mut sample = samples::ended();
        sample.watching = Watching::Ended { status, ran_ns };
        let text = Shown::new(sample, (100, 30), LOOK).text();
        text.lines().next().unwrap_or_default().to_owned()
    };
    for (status, said) in [
        (Some(0), " ◼ program ended, status 0, 12.4 s  ./lu "),
        (Some(3), " ◼ program ended, status 3, 12.4 s  ./lu "),
        (
            Some(137),
            " ◼ program ended by signal 9 (SIGKILL), 12.4 s  ./lu ",
        ),
        (
            Some(128 + 40),
            " ◼ program ended by signal 40, 12.4 s  ./lu ",
        ),
        (None, " ◼ program ended, watched for 12.4 s  ./lu "),
    ] {
        let line = first(status, 12_360_000_000);
        assert!(line.starts_with(said), "{line}");
        assert!(
            line.contains(" episodes") && !line.contains("00:12"),
            "{line}"
        );
    }
}

#[test]
fn of_a_program_that_has_ended_nothing_is_still_to_come() {
    let mut sample = samples::empty();
    sample.watching = Watching::Ended {
        status: Some(0),
        ran_ns: 2_000_000,
    };
    let text = Shown::new(sample, (80, 24), LOOK).text();
    assert!(text.contains("program ended, status 0, 0.0 s"), "{text}");
    assert!(text.contains("No barrier was seen."), "{text}");
    assert!(!text.contains(" yet"), "{text}");
}

#[test]
fn the_holder_of_a_lock_is_called_as_everywhere() {
    let mut snapshot = samples::imbalanced();
    snapshot.report.threads[1].label = "1.3".into();
    let mut shown = Shown::new(snapshot, (120, 40), LOOK);
    shown.keys("7");
    let row = shown.row("push lu.c:88");
    assert!(row.ends_with(" 1.3"), "{row}");
}

#[test]
fn a_terminal_without_unicode_gets_ascii_only() {
    let look = Look {
        unicode: false,
        color: false,
    };
    for (name, sample) in SAMPLES {
        let mut shown = Shown::new(sample(), (80, 24), look);
        for tab in "0123456789!".chars() {
            shown.keys(&tab.to_string());
            assert!(shown.text().is_ascii(), "{name} {tab}\n{}", shown.text());
        }
    }
    check(
        "ascii-80x24",
        &Shown::new(samples::imbalanced(), (80, 24), look),
    );
    let mut shown = Shown::new(samples::imbalanced(), (80, 24), look);
    shown.keys("3");
    check("ascii-timeline-80x24", &shown);
}

#[test]
fn without_colours_there_are_none() {
    let look = Look {
        unicode: true,
        color: false,
    };
    for (_, sample) in SAMPLES {
        let mut shown = Shown::new(sample(), (120, 40), look);
        for tab in "0123456789!".chars() {
            shown.keys(&tab.to_string());
            let cells = &shown.terminal.backend().buffer().content;
            let plain = cells
                .iter()
                .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset);
            assert!(plain, "tab {tab}");
        }
    }
    // The text is the same as with colours.
    for (_, sample) in SAMPLES {
        let with = Shown::new(sample(), (80, 24), LOOK);
        let without = Shown::new(sample(), (80, 24), look);
        assert_eq!(with.text(), without.text());
    }
}

#[test]
fn the_chosen_row_and_tab_are_reversed() {
    let shown = Shown::new(samples::calm(), (80, 24), LOOK);
    let buffer = shown.terminal.backend().buffer();
    let reversed = |x: u16, y: u16| buffer[(x, y)].modifier.contains(Modifier::REVERSED);
    assert!(reversed(3, 2) && !reversed(20, 2));
    let row = shown
        .text()
        .lines()
        .position(|line| line.starts_with('▸'))
        .unwrap();
    assert!(reversed(79, u16::try_from(row).unwrap()));
}

#[test]
fn probes_that_are_off_are_told_of() {
    let mut snapshot = samples::calm();
    snapshot.watching = Watching::Off {
        since_ns: snapshot.now_ns - 3_200_000_000,
    };
    let shown = Shown::new(snapshot, (80, 24), LOOK);
    assert!(shown.text().contains("not watching for 3.2 s"));
    assert!(shown.text().contains("Space watch again"));
    assert!(shown.row("T0").contains("////"), "the gap shows");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_size_and_any_keys_are_drawn(
        columns in 1_u16..300,
        rows in 1_u16..100,
        sample in 0..SAMPLES.len(),
        unicode: bool,
        keys in proptest::collection::vec((0..30_usize, 0..300_u16, 0..100_u16), 0..40),
    ) {
        let look = Look { unicode, color: true };
        let mut shown = Shown::new(SAMPLES[sample].1(), (columns, rows), look);
        for (key, x, y) in keys {
            let code = match key {
                0 => KeyCode::Enter,
                1 => KeyCode::Esc,
                2 => KeyCode::Tab,
                3 => KeyCode::Left,
                4 => KeyCode::Right,
                5 => KeyCode::PageDown,
                6 => KeyCode::PageUp,
                7 => { shown.click(x, y); continue; }
                8 => {
                    shown.terminal.backend_mut().resize(x.max(1), y.max(1));
                    shown.event(&Event::Resize(x, y));
                    continue;
                }
                _ => KeyCode::Char("1234567890jkgGsS/npi+!".chars().nth(key - 9).unwrap_or('x')),
            };
            shown.code(code);
        }
        let small = shown.terminal.backend().buffer().area;
        if (small.width < LEAST.0 || small.height < LEAST.1) && small.width > 24 && small.height > 3 {
            prop_assert!(shown.text().replace('\n', " ").contains("make the"));
        }
    }
}

#[test]
fn every_size_is_drawn() {
    for columns in (1..=300).step_by(37).chain([59, 60, 61, 79, 109, 110]) {
        for rows in (1..=100).step_by(19).chain([14, 15, 16]) {
            for (_, sample) in [SAMPLES[2], SAMPLES[8]] {
                let mut shown = Shown::new(sample(), (columns, rows), LOOK);
                shown.code(KeyCode::Enter);
                shown.keys("234567890");
            }
        }
    }
}

#[test]
fn what_may_be_a_barrier_that_spins_is_said_where_there_are_none() {
    let mut snapshot = samples::empty();
    let text = "4 threads spent 71 % of their CPU time in a loop of meet (spin.c:31) that only \
        waits for memory to change: this looks like a barrier that spins. Watch it: sbt run \
        --barrier meet -- ./p";
    snapshot.report.notes.push(text.into());
    for size in SIZES {
        let shown = Shown::new(snapshot.clone(), size, LOOK).text();
        assert!(shown.contains("No barrier has been seen yet."), "{shown}");
        assert!(shown.contains("--barrier"), "{shown}");
    }
}
