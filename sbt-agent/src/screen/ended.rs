//! The screen after the program has ended: the screen stays, navigation keys keep working, and
//! every other key leaves.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    keys::{self, Action},
    tabs::Hint,
};
use sbt_engine::live::{Snapshot, Watching};

/// Whether the program has ended and the screen stays until the user leaves. Always `false` in a
/// replay, which handles the end of its recording itself.
pub fn is_over(snapshot: &Snapshot) -> bool {
    snapshot.replay.is_none() && matches!(snapshot.watching, Watching::Ended { .. })
}

/// The action of a key outside of dialogs; `None` if the key does nothing. `open` means that the
/// tab shows details or hides rows by a filter; the keys for going back undo this first.
pub fn action(key: &KeyEvent, open: bool) -> Option<Action> {
    let is_plain = !key.modifiers.contains(KeyModifiers::CONTROL);
    // `e` opens the counters while the program runs; now it does nothing instead of leaving.
    if is_plain && key.code == KeyCode::Char('e') {
        return None;
    }
    Some(match keys::action(key) {
        Some(Action::Open | Action::Back) if open => Action::Back,
        Some(
            action @ (Action::Go(_)
            | Action::Sort
            | Action::Reverse
            | Action::ZoomIn
            | Action::ZoomOut
            | Action::Tab(_)
            | Action::Hang
            | Action::NextTab
            | Action::PreviousTab
            | Action::Help
            | Action::Filter
            | Action::Suspend),
        ) => action,
        _ => Action::Leave,
    })
}

/// Key hints for the last line: leaving first, then the hints of the tab that still apply.
pub fn hints(tab: Vec<Hint>) -> Vec<Hint> {
    let mut hints = vec![("q", "or any other key: leave"), ("1-0 Tab arrows", "look")];
    let here = tab
        .into_iter()
        .filter(|(key, _)| ["Esc", "s", "/", "+ -"].contains(key));
    hints.extend(here);
    hints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::keys::Move;

    fn means(code: KeyCode, modifiers: KeyModifiers, open: bool) -> Option<Action> {
        action(&KeyEvent::new(code, modifiers), open)
    }

    #[test]
    fn keys_that_look_around_go_on_working() {
        let plain = |code| means(code, KeyModifiers::NONE, false);
        for (code, action) in [
            (KeyCode::Char('3'), Action::Tab(2)),
            (KeyCode::Tab, Action::NextTab),
            (KeyCode::BackTab, Action::PreviousTab),
            (KeyCode::Char('!'), Action::Hang),
            (KeyCode::Up, Action::Go(Move::Up)),
            (KeyCode::Left, Action::Go(Move::Left)),
            (KeyCode::PageDown, Action::Go(Move::PageDown)),
            (KeyCode::Char('+'), Action::ZoomIn),
            (KeyCode::Char('-'), Action::ZoomOut),
            (KeyCode::Char('s'), Action::Sort),
            (KeyCode::Char('/'), Action::Filter),
            (KeyCode::Char('?'), Action::Help),
        ] {
            assert_eq!(plain(code), Some(action), "{code:?}");
        }
        assert_eq!(plain(KeyCode::Char('e')), None);
        let control = means(KeyCode::Char('z'), KeyModifiers::CONTROL, false);
        assert_eq!(control, Some(Action::Suspend));
    }

    #[test]
    fn every_other_key_leaves() {
        let leave = Some(Action::Leave);
        for code in [
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::F(5),
        ] {
            assert_eq!(means(code, KeyModifiers::NONE, false), leave, "{code:?}");
        }
        for c in "qdxpirnw ".chars() {
            assert_eq!(
                means(KeyCode::Char(c), KeyModifiers::NONE, false),
                leave,
                "{c}"
            );
        }
        for c in ['c', 'd', 'e'] {
            assert_eq!(
                means(KeyCode::Char(c), KeyModifiers::CONTROL, false),
                leave,
                "{c}"
            );
        }
    }

    #[test]
    fn what_is_open_is_closed_first() {
        for code in [KeyCode::Esc, KeyCode::Enter] {
            assert_eq!(means(code, KeyModifiers::NONE, true), Some(Action::Back));
        }
        assert_eq!(
            means(KeyCode::Char('q'), KeyModifiers::NONE, true),
            Some(Action::Leave)
        );
    }
}
