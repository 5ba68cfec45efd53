//! The meaning of keys for the screen, and the bytes that keys send to a program.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A movement within a tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
    /// To the left: into the past, or to the previous columns.
    Left,
    /// To the right.
    Right,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Move within the tab.
    Go(Move),
    /// Open the details of the selected row.
    Open,
    /// Close what was opened last.
    Back,
    /// Sort by the next column.
    Sort,
    /// Reverse the order of rows.
    Reverse,
    /// Show shorter pieces of time.
    ZoomIn,
    /// Show longer pieces of time.
    ZoomOut,
    /// Show the tab with this index, from 0.
    Tab(usize),
    /// Show the tab about the hang, if there is one.
    Hang,
    /// Show the next tab.
    NextTab,
    /// Show the previous tab.
    PreviousTab,
    /// Show the list of keys.
    Help,
    /// Show only the rows that contain a text.
    Filter,
    /// Freeze or continue the display.
    Pause,
    /// Turn the probes off or on.
    Toggle,
    /// Name the selected site.
    Name,
    /// Reset all totals.
    Reset,
    /// Save a report.
    Save,
    /// End the watching.
    Leave,
    /// Do what Ctrl-C does.
    Interrupt,
    /// Do what Ctrl-Z does.
    Suspend,
    /// Give the keyboard to the program.
    Type,
    /// Open the list of counters.
    Counters,
}

/// The action of a key outside of dialogs; `None` if the key does nothing.
pub fn action(key: &KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Interrupt),
            KeyCode::Char('z') => Some(Action::Suspend),
            KeyCode::Char('b') => Some(Action::Go(Move::PageUp)),
            KeyCode::Char('f') => Some(Action::Go(Move::PageDown)),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Up | KeyCode::Char('k') => Action::Go(Move::Up),
        KeyCode::Down | KeyCode::Char('j') => Action::Go(Move::Down),
        KeyCode::PageUp => Action::Go(Move::PageUp),
        KeyCode::PageDown => Action::Go(Move::PageDown),
        KeyCode::Home | KeyCode::Char('g') => Action::Go(Move::Home),
        KeyCode::End | KeyCode::Char('G') => Action::Go(Move::End),
        KeyCode::Left => Action::Go(Move::Left),
        KeyCode::Right => Action::Go(Move::Right),
        KeyCode::Enter => Action::Open,
        KeyCode::Esc | KeyCode::Backspace => Action::Back,
        KeyCode::Tab => Action::NextTab,
        KeyCode::BackTab => Action::PreviousTab,
        KeyCode::Char(c @ '1'..='9') => Action::Tab(c as usize - '1' as usize),
        KeyCode::Char('0') => Action::Tab(9),
        KeyCode::Char('!') => Action::Hang,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Action::Help,
        KeyCode::Char('/') => Action::Filter,
        KeyCode::Char('s') => Action::Sort,
        KeyCode::Char('S') => Action::Reverse,
        KeyCode::Char('+' | '=') => Action::ZoomIn,
        KeyCode::Char('-') => Action::ZoomOut,
        KeyCode::Char('p') => Action::Pause,
        KeyCode::Char(' ') => Action::Toggle,
        KeyCode::Char('n') => Action::Name,
        KeyCode::Char('r') => Action::Reset,
        KeyCode::Char('w') => Action::Save,
        KeyCode::Char('q' | 'd') => Action::Leave,
        KeyCode::Char('i') => Action::Type,
        KeyCode::Char('e') => Action::Counters,
        _ => return None,
    })
}

/// Whether this key takes the keyboard back from the program: Ctrl-], for which terminals send the
/// same byte as for Ctrl-5.
pub fn takes_back(key: &KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL)
        && matches!(key.code, KeyCode::Char(']' | '5') | KeyCode::Esc)
}

/// The bytes that a terminal (xterm) sends for a key.
pub fn bytes(key: &KeyEvent) -> Vec<u8> {
    let mut out = Vec::new();
    if key.modifiers.contains(KeyModifiers::ALT) {
        out.push(0x1b);
    }
    match key.code {
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            out.extend(control(c));
        }
        KeyCode::Char(c) => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        KeyCode::Enter => out.push(b'\r'),
        KeyCode::Tab => out.push(b'\t'),
        KeyCode::Backspace => out.push(0x7f),
        KeyCode::Esc => out.push(0x1b),
        KeyCode::BackTab => out.extend(b"\x1b[Z"),
        KeyCode::Up => out.extend(b"\x1b[A"),
        KeyCode::Down => out.extend(b"\x1b[B"),
        KeyCode::Right => out.extend(b"\x1b[C"),
        KeyCode::Left => out.extend(b"\x1b[D"),
        KeyCode::Home => out.extend(b"\x1b[H"),
        KeyCode::End => out.extend(b"\x1b[F"),
        KeyCode::Insert => out.extend(b"\x1b[2~"),
        KeyCode::Delete => out.extend(b"\x1b[3~"),
        KeyCode::PageUp => out.extend(b"\x1b[5~"),
        KeyCode::PageDown => out.extend(b"\x1b[6~"),
        KeyCode::F(n @ 1..=4) => out.extend([0x1b, b'O', b'O' + n]),
        KeyCode::F(n @ 5..=12) => {
            const CODES: [u8; 8] = [15, 17, 18, 19, 20, 21, 23, 24];
            out.extend(format!("\x1b[{}~", CODES[usize::from(n - 5)]).bytes());
        }
        _ => out.clear(),
    }
    out
}

/// The control byte of a character pressed with Ctrl. Terminals send the same bytes for some
/// digits, and the key library reports these as digits.
fn control(c: char) -> Option<u8> {
    match c {
        ' ' | '@' | '2' => Some(0),
        'a'..='z' | 'A'..='Z' => u8::try_from(c).ok().map(|c| c & 0x1f),
        '3' | '[' => Some(0x1b),
        '4' | '\\' => Some(0x1c),
        '5' | ']' => Some(0x1d),
        '6' | '^' => Some(0x1e),
        '7' | '_' | '/' => Some(0x1f),
        '8' | '?' => Some(0x7f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
        KeyEvent::new(code, modifiers)
    }

    #[test]
    fn a_program_reads_what_a_terminal_would_send() {
        let plain = |code| bytes(&key(code, KeyModifiers::NONE));
        let with = |code, modifiers| bytes(&key(code, modifiers));
        assert_eq!(plain(KeyCode::Char('é')), "é".as_bytes());
        assert_eq!(plain(KeyCode::Enter), b"\r");
        assert_eq!(plain(KeyCode::Up), b"\x1b[A");
        assert_eq!(plain(KeyCode::F(1)), b"\x1bOP");
        assert_eq!(plain(KeyCode::F(12)), b"\x1b[24~");
        assert_eq!(with(KeyCode::Char('c'), KeyModifiers::CONTROL), [3]);
        assert_eq!(with(KeyCode::Char('d'), KeyModifiers::CONTROL), [4]);
        assert_eq!(with(KeyCode::Char('x'), KeyModifiers::ALT), b"\x1bx");
        assert_eq!(plain(KeyCode::CapsLock), b"");
    }
}
