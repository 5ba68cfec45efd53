//! The last lines of what a program writes, as its terminal would show them: without colours, and
//! with overwritten text gone.

use std::collections::VecDeque;

use unicode_width::UnicodeWidthChar as _;

/// How many lines are kept at most.
pub const MAX_LINES: usize = 2_000;
/// How many bytes of text are kept at most.
pub const MAX_BYTES: usize = 256 * 1024;
/// Where a longer line is broken, bytes. A line that was overwritten can be twice as long.
const MAX_LINE: usize = 4_096;
const TAB: usize = 8;

/// Makes lines of bytes, which may come cut anywhere.
#[derive(Debug, Default)]
pub struct Lines {
    ended: VecDeque<String>,
    /// Bytes of text in `ended`.
    size: usize,
    line: Line,
    state: State,
    character: Utf8,
}

/// The position within an escape sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// In no sequence.
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and intermediate bytes: one byte more follows.
    EscapeMore,
    /// After ESC [, with the number so far; `None` if there are other parameters.
    Control(Option<u16>),
    /// In a string for the terminal, which ends with BEL or ESC \.
    TextForTerminal,
}

impl Lines {
    /// Takes in the next bytes.
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

    /// The lines, oldest first; the unfinished line is the last.
    pub fn all(&self) -> Vec<String> {
        let last = Some(&self.line.text).filter(|text| !text.is_empty());
        self.ended.iter().chain(last).cloned().collect()
    }

    /// Adds printable ASCII.
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
            // A newline also ends any unfinished sequence.
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

    /// Shows an incomplete character as a replacement character.
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
            // Control characters do not end a sequence.
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
        // Combining marks can make a line long wherever the cursor is.
        if self.line.at >= MAX_LINE || self.line.text.len() >= 2 * MAX_LINE {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        // The memory of the oldest line is reused for the newest.
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

/// The line that is being written.
#[derive(Debug, Default)]
struct Line {
    text: String,
    /// The cursor: in bytes, and in columns.
    at: usize,
    column: usize,
}

impl Line {
    /// Adds printable ASCII at the end, where the cursor is.
    fn append(&mut self, ascii: &[u8]) {
        self.text.extend(ascii.iter().copied().map(char::from));
        self.at = self.text.len();
        self.column += ascii.len();
    }

    /// Shows a character, unless it could garble the terminal.
    fn show(&mut self, c: char) {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if !c.is_control() && !turns {
            self.put(c);
        }
    }

    /// Writes a character over what is at the cursor.
    fn put(&mut self, c: char) {
        let width = c.width().unwrap_or(0);
        let mut end = self.at;
        let mut covered = 0;
        if width > 0 {
            for old in self.text[self.at..].chars() {
                // Combining marks go with their character.
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
            // Half of a wide character remains: it becomes a space.
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
        // The cursor stays where it is.
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

    /// Drops the bytes so far. Returns whether there were any.
    fn abandon(&mut self) -> bool {
        std::mem::take(&mut self.length) > 0
    }

    /// Takes in a byte that is not ASCII.
    fn push(&mut self, byte: u8, show: &mut dyn FnMut(char)) {
        self.bytes[self.length] = byte;
        self.length += 1;
        match std::str::from_utf8(&self.bytes[..self.length]) {
            Ok(text) => {
                text.chars().for_each(show);
                self.length = 0;
            }
            // More bytes may complete the character.
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                let had = self.length - 1;
                self.length = 0;
                show(char::REPLACEMENT_CHARACTER);
                if had > 0 {
                    // The byte may begin the next character.
                    self.push(byte, show);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
