//! The last lines of what a program writes, as its terminal would show them:
//! the colours gone, what was overwritten overwritten.

use std::collections::VecDeque;

use unicode_width::UnicodeWidthChar as _;

/// The most lines that are kept.
pub const MAX_LINES: usize = 2_000;
/// The most bytes of text that are kept.
pub const MAX_BYTES: usize = 256 * 1024;
/// A longer line is broken, bytes; one that was overwritten can be twice as long.
const MAX_LINE: usize = 4_096;
const TAB: usize = 8;

/// Lines from bytes, cut anywhere.
#[derive(Debug, Default)]
pub struct Lines {
    ended: VecDeque<String>,
    /// Bytes in `ended`.
    size: usize,
    line: Line,
    state: State,
    character: Utf8,
}

/// Where in an escape sequence we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// In none.
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and bytes that say what is meant: one more.
    EscapeMore,
    /// After ESC [, with its only number so far; `None`: there were others.
    Control(Option<u16>),
    /// In a text for the terminal, up to BEL or ESC \.
    TextForTerminal,
}

impl Lines {
    /// Takes what was written next.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(&byte) = bytes.first() {
            let plain = if self.state == State::Text && self.character.is_complete() {
                let end = bytes.iter().position(|byte| !(b' '..=b'~').contains(byte));
                end.unwrap_or(bytes.len())
            } else {
                0
            };
            if plain > 0 {
                let (text, rest) = bytes.split_at(plain);
                self.plain(text);
                bytes = rest;
            } else {
                bytes = &bytes[1..];
                self.byte(byte);
            }
        }
    }

    /// The lines, oldest first, the one that is not ended last.
    pub fn all(&self) -> Vec<String> {
        let last = Some(&self.line.text).filter(|text| !text.is_empty());
        self.ended.iter().chain(last).cloned().collect()
    }

    /// Printable ASCII.
    fn plain(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            if self.line.at == self.line.text.len() {
                let room = MAX_LINE.saturating_sub(self.line.at).max(1);
                let (now, later) = text.split_at(room.min(text.len()));
                self.line.append(now);
                text = later;
            } else {
                self.line.put(char::from(text[0]));
                text = &text[1..];
            }
            self.break_if_long();
        }
    }

    fn byte(&mut self, byte: u8) {
        match byte {
            // Ends whatever was begun and never ended.
            b'\n' => {
                self.state = State::Text;
                self.flush();
                self.end_line();
            }
            0x1b => {
                self.flush();
                self.state = State::Escape;
            }
            // CAN and SUB
            0x18 | 0x1a => {
                self.flush();
                self.state = State::Text;
            }
            _ => match self.state {
                State::Text => self.text(byte),
                State::Escape | State::EscapeMore => self.escape(byte),
                State::Control(number) => self.control(byte, number),
                State::TextForTerminal => {
                    if byte == 7 {
                        self.state = State::Text;
                    }
                }
            },
        }
    }

    fn text(&mut self, byte: u8) {
        if byte >= 0x80 {
            let Self {
                character, line, ..
            } = self;
            character.push(byte, &mut |c| line.show(c));
            self.break_if_long();
            return;
        }
        self.flush();
        match byte {
            b'\r' => self.line.home(),
            b'\t' => self.line.tab(),
            8 => self.line.back(),
            b' '..=b'~' => {
                self.line.put(char::from(byte));
            }
            _ => {}
        }
        self.break_if_long();
    }

    /// What began as a character and is not one becomes visible as that.
    fn flush(&mut self) {
        if self.character.abandon() {
            self.line.show(char::REPLACEMENT_CHARACTER);
        }
    }

    fn escape(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (_, b' '..=b'/') => State::EscapeMore,
            (State::Escape, b'[') => State::Control(Some(0)),
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::TextForTerminal,
            _ => State::Text,
        };
    }

    fn control(&mut self, byte: u8, number: Option<u16>) {
        self.state = match (byte, number) {
            (b'0'..=b'9', Some(number)) => {
                let number = number.saturating_mul(10);
                State::Control(Some(number.saturating_add(u16::from(byte - b'0'))))
            }
            // Signals of the terminal's own do not end a sequence.
            (b' '..=b'?', _) => State::Control(None),
            (..b' ', _) => self.state,
            (b'K', Some(0)) => {
                self.line.erase_rest();
                State::Text
            }
            (b'K', Some(2)) => {
                self.line.erase();
                State::Text
            }
            _ => State::Text,
        };
    }

    fn break_if_long(&mut self) {
        // Marks that combine with what is there can make it long anywhere.
        if self.line.at >= MAX_LINE || self.line.text.len() >= 2 * MAX_LINE {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        // The oldest's memory serves the newest.
        let mut next = String::new();
        self.size += self.line.text.len();
        while self.ended.len() + 2 > MAX_LINES || self.size + 2 * MAX_LINE > MAX_BYTES {
            let Some(oldest) = self.ended.pop_front() else {
                break;
            };
            self.size -= oldest.len();
            next = oldest;
        }
        next.clear();
        let ended = std::mem::replace(&mut self.line.text, next);
        self.ended.push_back(ended);
        self.line.home();
    }
}

/// A line that is being written.
#[derive(Debug, Default)]
struct Line {
    text: String,
    /// Where the cursor is: in bytes, and in columns.
    at: usize,
    column: usize,
}

impl Line {
    /// Printable ASCII at the end, where the cursor is.
    fn append(&mut self, ascii: &[u8]) {
        self.text.extend(ascii.iter().copied().map(char::from));
        self.at = self.text.len();
        self.column += ascii.len();
    }

    /// A character, if it is one that is safe to show.
    fn show(&mut self, c: char) {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if !c.is_control() && !turns {
            self.put(c);
        }
    }

    /// Writes a character over what is there.
    fn put(&mut self, c: char) {
        let width = c.width().unwrap_or(0);
        let mut end = self.at;
        let mut covered = 0;
        if width > 0 {
            for old in self.text[self.at..].chars() {
                // What combines with a character goes with it.
                let old_width = old.width().unwrap_or(0);
                if covered >= width && old_width > 0 {
                    break;
                }
                covered += old_width;
                end += old.len_utf8();
            }
        }
        if end == self.at {
            self.text.insert(self.at, c);
        } else {
            self.text
                .replace_range(self.at..end, c.encode_utf8(&mut [0; 4]));
        }
        self.at += c.len_utf8();
        self.column += width;
        if covered > width {
            // The other half of a wide one.
            self.text.insert(self.at, ' ');
        }
    }

    fn home(&mut self) {
        self.at = 0;
        self.column = 0;
    }

    fn back(&mut self) {
        while let Some(c) = self.text[..self.at].chars().next_back() {
            self.at -= c.len_utf8();
            let width = c.width().unwrap_or(0);
            self.column -= width;
            if width > 0 {
                break;
            }
        }
    }

    fn tab(&mut self) {
        let stop = (self.column / TAB + 1) * TAB;
        while self.column < stop {
            match self.text[self.at..].chars().next() {
                Some(c) => {
                    self.at += c.len_utf8();
                    self.column += c.width().unwrap_or(0);
                }
                None => self.append(b" "),
            }
        }
    }

    fn erase_rest(&mut self) {
        self.text.truncate(self.at);
    }

    fn erase(&mut self) {
        let column = self.column;
        self.text.clear();
        self.home();
        // The cursor stays where it was.
        self.text.extend(std::iter::repeat_n(' ', column));
        self.at = column;
        self.column = column;
    }
}

/// A character of several bytes that is not complete yet.
#[derive(Debug, Default)]
struct Utf8 {
    bytes: [u8; 4],
    length: usize,
}

impl Utf8 {
    fn is_complete(&self) -> bool {
        self.length == 0
    }

    /// Forgets what there is: whether there was anything.
    fn abandon(&mut self) -> bool {
        std::mem::take(&mut self.length) > 0
    }

    /// Takes a byte that is no ASCII.
    fn push(&mut self, byte: u8, show: &mut dyn FnMut(char)) {
        self.bytes[self.length] = byte;
        self.length += 1;
        match std::str::from_utf8(&self.bytes[..self.length]) {
            Ok(text) => {
                text.chars().for_each(show);
                self.length = 0;
            }
            // More bytes can make it one.
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                let had = self.length - 1;
                self.length = 0;
                show(char::REPLACEMENT_CHARACTER);
                if had > 0 {
                    // The byte may begin another.
                    self.push(byte, show);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
