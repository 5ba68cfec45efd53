//! A table with several kinds of rows, of which one is shown at a time: left and right switch
//! between the kinds. The selected row can be opened to show its details.

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use super::Hint;
use crate::screen::{
    keys::{Action, Move},
    list::List,
    pager::Pager,
    theme::Look,
    words::{plural, rule},
};

/// The table, and which kind of rows it shows.
pub struct Views<const N: usize> {
    names: [&'static str; N],
    current: usize,
    /// The table of the current kind.
    pub list: List,
    /// The tables of the other kinds, by kind.
    others: [List; N],
    /// Position in the details of the open row.
    pub details: Pager,
    /// Whether the details of the selected row are shown.
    pub open: bool,
}

impl<const N: usize> Views<N> {
    /// Hints for the keys of the table.
    const HINTS: [Hint; 4] = [
        ("Enter", "details"),
        ("left/right", "rows"),
        ("s", "sort"),
        ("/", "filter"),
    ];

    /// A table with these kinds of rows, sorted by column `sorted`.
    pub fn new(names: [&'static str; N], sorted: usize) -> Self {
        Self {
            names,
            current: 0,
            list: List::sorted_by(sorted),
            others: std::array::from_fn(|_| List::sorted_by(sorted)),
            details: Pager::default(),
            open: false,
        }
    }

    /// Index of the kind that is shown.
    pub const fn current(&self) -> usize {
        self.current
    }

    fn show(&mut self, number: usize) {
        std::mem::swap(&mut self.list, &mut self.others[self.current]);
        self.current = number % N;
        std::mem::swap(&mut self.list, &mut self.others[self.current]);
    }

    /// Handles an action.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Go(to) if self.open => self.details.go(to, false),
            Action::Open | Action::Back if self.open => self.open = false,
            Action::Open => {
                self.open = self.list.selected().is_some();
                self.details = Pager::default();
            }
            Action::Go(Move::Right) => self.show(self.current + 1),
            Action::Go(Move::Left) => self.show(self.current + N - 1),
            Action::Go(to) => self.list.go(to),
            Action::Back => self.list.filter.clear(),
            Action::Sort => self.list.sort(),
            Action::Reverse => self.list.reverse(),
            _ => {}
        }
    }

    /// Hints for the keys that work now.
    pub fn hints(&self) -> Vec<Hint> {
        if self.open {
            return vec![("Esc", "back")];
        }
        Self::HINTS.to_vec()
    }

    /// Handles a click: a click on the selected row opens it.
    pub fn click(&mut self, at: Position) {
        if !self.open && self.list.click(at) {
            self.open = true;
            self.details = Pager::default();
        }
    }

    /// The text of the filter; `None` while details are shown.
    pub fn filter(&mut self) -> Option<&mut String> {
        (!self.open).then_some(&mut self.list.filter)
    }

    /// Draws the rule above the table, with the number of rows and their kind.
    pub fn rule(&self, buffer: &mut Buffer, area: Rect, name: &str, all: usize, look: Look) {
        let what = self.names[self.current];
        let note = self
            .list
            .range()
            .or_else(|| self.list.found(all))
            .unwrap_or_else(|| plural(all as u64, what));
        let name = if self.list.filter.is_empty() {
            format!("{name} by {what}")
        } else {
            format!("{name}: {what}s with \"{}\"", self.list.filter)
        };
        rule(buffer, area, &name, &note, look);
    }

    /// The text shown in place of rows: `nothing`, unless the filter hides all rows.
    pub fn none(&self, nothing: &str) -> String {
        if self.list.filter.is_empty() {
            return nothing.to_owned();
        }
        format!("no {} matches; Esc shows all", self.names[self.current])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_keeps_its_filter() {
        let mut views = Views::new(["a", "b", "c"], 0);
        views.list.filter = "x".into();
        views.act(Action::Go(Move::Right));
        assert_eq!((views.current(), views.list.filter.as_str()), (1, ""));
        views.act(Action::Go(Move::Left));
        assert_eq!((views.current(), views.list.filter.as_str()), (0, "x"));
        views.act(Action::Go(Move::Left));
        assert_eq!(views.current(), 2);
    }
}
