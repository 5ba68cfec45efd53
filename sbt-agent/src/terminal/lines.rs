//! The last lines of what a program writes, as its terminal would show them: without colours, and
//! with overwritten text gone.

use std::{collections::VecDeque, fmt};

use sbt_engine::live::TimedLine;
use unicode_width::UnicodeWidthChar as _;

/// The largest number of lines that are kept.
pub const MAX_LINES: usize = 2_000;
/// The largest number of bytes of text that are kept.
pub const MAX_BYTES: usize = 256 * 1024;
/// Where a longer line is broken, bytes. A line that was overwritten can be twice as long.
const MAX_LINE: usize = 4_096;
const TAB: usize = 8;

/// CAN: ends an unfinished escape sequence.
const CANCEL: u8 = 0x18;

/// Makes lines of bytes, which may come cut anywhere.
#[derive(Default)]
pub struct Lines {
    parser: vte::Parser,
    screen: Screen,
    /// The beginning of a character whose end has not come yet. The parser gets whole characters
    /// only: vte 0.15 may lose text behind a character that was cut.
    cut: Vec<u8>,
}

impl Lines {
    /// Takes in the next bytes, which were read at a time (`CLOCK_MONOTONIC`, ns).
    pub fn push(&mut self, bytes: &[u8], read_ns: u64) {
        self.screen.read_ns = read_ns;
        let mut all = std::mem::take(&mut self.cut);
        let bytes = if all.is_empty() {
            bytes
        } else {
            all.extend_from_slice(bytes);
            &all
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text(chunk.valid());
            let rest = chunk.invalid();
            let may_go_on = |error: std::str::Utf8Error| error.error_len().is_none();
            if chunks.peek().is_none() && std::str::from_utf8(rest).is_err_and(may_go_on) {
                self.cut = rest.to_vec();
            } else if !rest.is_empty() {
                self.text("\u{fffd}");
            }
        }
    }

    fn text(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            let line = piece.trim_end_matches('\n').as_bytes();
            self.parser.advance(&mut self.screen, line);
            if line.len() < piece.len() {
                // A newline also ends any unfinished sequence.
                self.parser.advance(&mut self.screen, &[CANCEL]);
                self.screen.end_line();
            }
        }
    }

    /// The lines, oldest first; the unfinished line is the last.
    pub fn all(&self) -> Vec<TimedLine> {
        let Screen { ended, line, .. } = &self.screen;
        let last = TimedLine {
            at_ns: u64::MAX,
            text: line.text.clone(),
        };
        let last = Some(last).filter(|line| !line.text.is_empty());
        ended.iter().cloned().chain(last).collect()
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.screen.fmt(f)
    }
}

/// The lines as a terminal shows them.
#[derive(Debug, Default)]
struct Screen {
    ended: VecDeque<TimedLine>,
    /// Bytes of text in `ended`.
    size: usize,
    line: Line,
    /// When the last bytes were read, `CLOCK_MONOTONIC` ns.
    read_ns: u64,
}

impl vte::Perform for Screen {
    fn print(&mut self, c: char) {
        self.line.show(c);
        self.break_if_long();
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.line.home(),
            b'\t' => self.line.tab(),
            8 => self.line.back(),
            _ => {}
        }
        self.break_if_long();
    }

    fn csi_dispatch(
        &mut self,
        parameters: &vte::Params,
        intermediates: &[u8],
        _ignore: bool,
        action: char,
    ) {
        if action != 'K' || !intermediates.is_empty() {
            return;
        }
        match parameters.iter().next() {
            None | Some([0]) => self.line.erase_rest(),
            Some([2]) => self.line.erase(),
            Some(_) => {}
        }
    }
}

impl Screen {
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
            self.size -= oldest.text.len();
            next = oldest.text;
        }
        next.clear();
        self.ended.push_back(TimedLine {
            at_ns: self.read_ns,
            text: std::mem::replace(&mut self.line.text, next),
        });
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
                None => self.put(' '),
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

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
