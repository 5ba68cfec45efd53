//! The screen of a replay: what keys mean there, and the position in the recording.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    keys::{self, Action},
    tabs::Hint,
    words::clock,
};
use crate::screen::theme::Look;
use sbt_engine::live::{Play, Playing, Replaying, Request};

const SECOND: u64 = 1_000_000_000;
/// Recordings at least this long are shown in minutes, ns.
const MINUTES: u64 = 600 * SECOND;

/// The meaning of a key in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A request to the reader of the recording.
    Ask(Request),
    /// The same action as for a running program.
    Act(Action),
    /// The key makes no sense here; the text says why.
    Say(&'static str),
}

/// The meaning of a key outside of dialogs; `None` if the key does nothing. The reader of the
/// recording decides whether the request is possible now: the screen may lag behind.
pub fn meaning(key: &KeyEvent) -> Option<Meaning> {
    let play = |play| Some(Meaning::Ask(Request::Play(play)));
    let is_plain = !key.modifiers.contains(KeyModifiers::CONTROL);
    if is_plain {
        match key.code {
            KeyCode::Char('.') => return play(Play::Step),
            KeyCode::Char('+' | '=' | ']') => return play(Play::Faster),
            KeyCode::Char('-' | '[') => return play(Play::Slower),
            KeyCode::Char('G') | KeyCode::End => return play(Play::End),
            KeyCode::Char('g') | KeyCode::Home => return play(Play::Begin),
            KeyCode::Char('z') => return Some(Meaning::Act(Action::ZoomIn)),
            KeyCode::Char('Z') => return Some(Meaning::Act(Action::ZoomOut)),
            KeyCode::Char('d') => {
                return Some(Meaning::Say(
                    "a recording has no program to detach from; q leaves",
                ));
            }
            KeyCode::Char('e') => {
                return Some(Meaning::Say(
                    "a recording has fixed counters; `sbt run -e NAMES` records others",
                ));
            }
            _ => {}
        }
    }
    let off = match keys::action(key)? {
        Action::Toggle | Action::Pause => return play(Play::Toggle),
        Action::Interrupt => return Some(Meaning::Ask(Request::Leave)),
        Action::Reset => "totals of a recording cannot be reset; Home starts again",
        Action::Name => "a recording has fixed names; `sbt run --name SITE=NAME` records others",
        Action::Type => "a recording has no program that reads keys",
        action => return Some(Meaning::Act(action)),
    };
    Some(Meaning::Say(off))
}

/// Key hints for the last line: those of a replay, and those of the tab.
pub fn hints(tab: Vec<Hint>, replay: &Replaying) -> Vec<Hint> {
    let mut hints = match replay.motion {
        Playing::On => vec![("Space", "pause")],
        Playing::Paused => vec![("Space", "go on"), (".", "next episode")],
        Playing::AtEnd => vec![("Home", "again")],
    };
    if replay.motion != Playing::AtEnd {
        hints.extend([("+ -", "speed"), ("G", "end")]);
    }
    let tab = tab
        .into_iter()
        .filter(|(key, _)| !["p", "n", "i"].contains(key));
    hints.extend(tab.map(|(key, what)| match key {
        "+ -" => ("z Z", what),
        _ => (key, what),
    }));
    hints.push(("w", "save"));
    hints
}

/// The position in the recording, and the speed.
pub fn position(replay: &Replaying, look: Look) -> String {
    let dot = look.dot();
    let longest_ns = replay.of_ns.unwrap_or(replay.at_ns);
    let at = moment(replay.at_ns, longest_ns);
    let of = replay
        .of_ns
        .map(|ns| format!(" of {}", moment(ns, longest_ns)))
        .unwrap_or_default();
    let speed = format!("{}{}", look.pick("×", "x"), replay.speed);
    let motion = match replay.motion {
        Playing::On => String::new(),
        Playing::Paused => format!("{dot}paused"),
        Playing::AtEnd => return format!("replay{dot}{at}{of}{dot}at the end"),
    };
    format!("replay{dot}{at}{of}{dot}{speed}{motion}")
}

/// A time in a recording, in a unit that suits the recording's length.
fn moment(ns: u64, longest_ns: u64) -> String {
    match longest_ns {
        0..SECOND => format!("{} ms", ns / 1_000_000),
        // Truncated, not rounded: the end is shown only once it is reached.
        SECOND..MINUTES => format!("{}.{} s", ns / SECOND, ns / (SECOND / 10) % 10),
        _ => clock(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAYING: Replaying = Replaying {
        at_ns: 3_200_000_000,
        of_ns: Some(12_400_000_000),
        speed: sbt_engine::live::Speed::Power(2),
        motion: Playing::On,
    };

    fn means(code: KeyCode, modifiers: KeyModifiers) -> Option<Meaning> {
        meaning(&KeyEvent::new(code, modifiers))
    }

    #[test]
    fn keys_of_a_replay() {
        let of = |c| means(KeyCode::Char(c), KeyModifiers::NONE);
        let asks = |play| Some(Meaning::Ask(Request::Play(play)));
        for (c, play) in [
            (' ', Play::Toggle),
            ('p', Play::Toggle),
            ('.', Play::Step),
            ('+', Play::Faster),
            ('=', Play::Faster),
            (']', Play::Faster),
            ('-', Play::Slower),
            ('[', Play::Slower),
            ('G', Play::End),
            ('g', Play::Begin),
        ] {
            assert_eq!(of(c), asks(play), "{c}");
        }
        let plain = |code| means(code, KeyModifiers::NONE);
        assert_eq!(plain(KeyCode::End), asks(Play::End));
        assert_eq!(plain(KeyCode::Home), asks(Play::Begin));
        let leave = Some(Meaning::Ask(Request::Leave));
        let control = |c| means(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!(control('c'), leave);
        assert_eq!(control('z'), Some(Meaning::Act(Action::Suspend)));
        assert_eq!(of('q'), Some(Meaning::Act(Action::Leave)));
        assert_eq!(of('s'), Some(Meaning::Act(Action::Sort)));
        assert_eq!(of('z'), Some(Meaning::Act(Action::ZoomIn)));
        assert_eq!(of('x'), None);
    }

    #[test]
    fn keys_that_make_no_sense_say_so() {
        for (c, text) in [
            ('d', "q leaves"),
            ('r', "Home starts again"),
            ('n', "--name"),
            ('i', "no program that reads keys"),
            ('e', "fixed counters"),
        ] {
            match means(KeyCode::Char(c), KeyModifiers::NONE) {
                Some(Meaning::Say(said)) => assert!(said.contains(text), "{c}: {said}"),
                other => panic!("{c}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_offered() {
        let tab = vec![
            ("i", "type"),
            ("n", "name"),
            ("s", "sort"),
            ("+ -", "pieces"),
        ];
        let all = hints(tab, &PLAYING);
        let keys: Vec<&str> = all.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["Space", "+ -", "G", "s", "z Z", "w"]);
    }

    #[test]
    fn the_position_in_words() {
        let look = Look {
            unicode: true,
            color: false,
        };
        let at = |motion, of_ns| {
            position(
                &Replaying {
                    of_ns,
                    motion,
                    ..PLAYING
                },
                look,
            )
        };
        let all = PLAYING.of_ns;
        assert_eq!(at(Playing::On, all), "replay · 3.2 s of 12.4 s · ×4");
        assert_eq!(at(Playing::On, None), "replay · 3.2 s · ×4");
        assert_eq!(
            at(Playing::Paused, all),
            "replay · 3.2 s of 12.4 s · ×4 · paused"
        );
        assert_eq!(
            at(Playing::AtEnd, all),
            "replay · 3.2 s of 12.4 s · at the end"
        );
        let short = at(Playing::On, Some(4 * SECOND / 5));
        assert_eq!(short, "replay · 3200 ms of 800 ms · ×4");
        let long = at(Playing::On, Some(3_700 * SECOND));
        assert_eq!(long, "replay · 00:03.2 of 1:01:40 · ×4");
    }
}
