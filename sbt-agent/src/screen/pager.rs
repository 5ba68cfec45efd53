//! Lines to page through, as in less.

use ratatui::{buffer::Buffer, layout::Rect, text::Line};

use super::{keys::Move, words::put};

/// The user's position in a text.
#[derive(Clone, Debug, Default)]
pub struct Pager {
    top: usize,
    /// Whether the last line stays visible as lines are added.
    follow: bool,
    lines: usize,
    height: usize,
}

impl Pager {
    /// A pager that stays at the last line as lines are added.
    pub fn at_end() -> Self {
        Self {
            follow: true,
            ..Self::default()
        }
    }

    /// Whether the pager stays at the last line as lines are added.
    pub fn follows(&self) -> bool {
        self.follow
    }

    /// The visible range of lines: `1-20 of 100`; `None` if all lines are visible.
    pub fn range(&self) -> Option<String> {
        let last = (self.top + self.height).min(self.lines);
        (self.lines > self.height).then(|| format!("{}-{last} of {}", self.top + 1, self.lines))
    }

    /// Updates the position for a text of this many lines. Returns the visible lines.
    pub fn view(&mut self, lines: usize, height: u16) -> std::ops::Range<usize> {
        (self.lines, self.height) = (lines, usize::from(height));
        let last = lines.saturating_sub(self.height);
        self.top = if self.follow {
            last
        } else {
            self.top.min(last)
        };
        self.top..(self.top + self.height).min(lines)
    }

    pub fn draw(&mut self, lines: &[Line], buffer: &mut Buffer, area: Rect) {
        for (row, line) in (0..).zip(&lines[self.view(lines.len(), area.height)]) {
            put(buffer, area, row, line);
        }
    }

    /// Moves. With `may_follow`, reaching the last line makes the pager follow again.
    pub fn go(&mut self, to: Move, may_follow: bool) {
        let last = self.lines.saturating_sub(self.height);
        let page = self.height.saturating_sub(1).max(1);
        self.top = match to {
            Move::Up => self.top.saturating_sub(1),
            Move::Down => (self.top + 1).min(last),
            Move::PageUp => self.top.saturating_sub(page),
            Move::PageDown => (self.top + page).min(last),
            Move::Home => 0,
            Move::End => last,
            Move::Left | Move::Right => return,
        };
        self.follow = may_follow && self.top == last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_end_until_the_user_goes_up() {
        let mut pager = Pager::at_end();
        assert_eq!(pager.view(10, 4), 6..10);
        assert_eq!(pager.view(12, 4), 8..12);
        pager.go(Move::Up, true);
        assert_eq!(pager.view(14, 4), 7..11);
        pager.go(Move::End, true);
        assert_eq!(pager.view(20, 4), 16..20);
        assert_eq!(pager.view(2, 4), 0..2);
    }
}
