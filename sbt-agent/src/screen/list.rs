//! A grid to walk through: selection, order, filter.

use std::ops::Range;

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    text::{Line, Span},
};

use super::{
    grid::{Grid, mark},
    keys::Move,
    words::{plural, put},
};
use crate::screen::theme::Look;

/// Where the user is in a grid.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// What is selected; until the user moves, whatever is on top.
    chosen: Option<u32>,
    /// The first row in sight.
    top: usize,
    /// The column that it is sorted by.
    sorted: usize,
    reverse: bool,
    /// From which on those columns are shown that scroll sideways.
    across: usize,
    /// What rows have to contain.
    pub filter: String,
    /// What was drawn: the rows in order,
    order: Vec<u32>,
    /// where they are,
    rows: Rect,
    /// where the titles of the columns are,
    titles: Vec<(Range<u16>, usize)>,
    /// and which of the columns that scroll, of how many.
    scrolled: (Range<usize>, usize),
}

impl List {
    /// One sorted by this column.
    pub fn sorted_by(column: usize) -> Self {
        Self {
            sorted: column,
            ..Self::default()
        }
    }

    /// What is selected.
    pub fn selected(&self) -> Option<u32> {
        self.chosen
            .filter(|id| self.order.contains(id))
            .or_else(|| self.order.first().copied())
    }

    /// What was drawn, in its order.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Which rows are in sight: `1-20 of 100`; nothing if all are.
    pub fn range(&self) -> Option<String> {
        let (all, height) = (self.order.len(), usize::from(self.rows.height));
        let last = (self.top + height).min(all);
        (all > height).then(|| format!("{}-{last} of {all}", self.top + 1))
    }

    /// Which of the columns that scroll are in sight: `columns 1-2 of 6`; nothing if all are.
    pub fn columns(&self) -> Option<String> {
        let (range, all) = &self.scrolled;
        let text = match range.len() {
            0 => format!("none of {all} columns"),
            1 => format!("column {} of {all}", range.end),
            _ => format!("columns {}-{} of {all}", range.start + 1, range.end),
        };
        (range.len() < *all).then_some(text)
    }

    /// The first of the columns that scroll.
    pub const fn across(&self) -> usize {
        self.across
    }

    /// What stands beside the title of the table: which rows and columns are in sight, or how
    /// many rows there are; `what`: one of them.
    pub fn note(&self, all: usize, what: &str) -> String {
        let rows = self.range().or_else(|| self.found(all));
        let rows = rows.unwrap_or_else(|| plural(all as u64, what));
        match self.columns() {
            Some(columns) => format!("{rows}, {columns}"),
            None => rows,
        }
    }

    /// How many of all rows contain the text: `3 of 100`; nothing without one.
    pub fn found(&self, all: usize) -> Option<String> {
        (!self.filter.is_empty()).then(|| format!("{} of {all}", self.order.len()))
    }

    /// Draws it.
    pub fn draw(&mut self, grid: &Grid, look: Look, buffer: &mut Buffer, area: Rect) {
        let order = grid.order(self.sorted, self.reverse, &self.filter);
        self.order = order.iter().map(|row| grid.ids[*row]).collect();
        self.rows = Rect {
            y: area.y.saturating_add(1),
            height: area.height.saturating_sub(1),
            ..area
        };
        let selected = self.selected();
        self.show_selected(selected);
        // The mark of the selection stands before the columns.
        let room = usize::from(area.width).saturating_sub(2);
        let fitting = grid.shown(room, self.sorted, self.across, look);
        self.across = fitting.scrolled.start;
        self.scrolled = (fitting.scrolled, fitting.scrolling);
        let columns = fitting.columns;
        let mut title = vec![Span::raw("  ")];
        let mut x = area.x.saturating_add(2);
        self.titles.clear();
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                title.push(Span::raw("  "));
                x = x.saturating_add(2);
            }
            let arrow = mark(self.reverse, look);
            let (text, style) = match (column.index == self.sorted, column.to_right) {
                (true, true) => (format!("{arrow}{}", column.title), look.bold()),
                (true, false) => (format!("{}{arrow}", column.title), look.bold()),
                (false, _) => (column.title.clone(), look.dim()),
            };
            title.push(Span::styled(column.pad(&text, look), style));
            let end = x.saturating_add(u16::try_from(column.width).unwrap_or(u16::MAX));
            self.titles.push((x..end, column.index));
            x = end;
        }
        put(buffer, area, 0, &Line::from(title));
        let height = usize::from(self.rows.height);
        for (at, row) in order.iter().skip(self.top).take(height).enumerate() {
            let mine = selected == Some(grid.ids[*row]);
            let pointer = if mine { look.pick("▸ ", "> ") } else { "  " };
            let cells = columns.iter().map(|column| {
                let text = column.texts.get(*row).map_or("", String::as_str);
                column.pad(text, look)
            });
            let text = cells.collect::<Vec<_>>().join("  ");
            let style = if mine {
                look.chosen()
            } else {
                ratatui::style::Style::new()
            };
            let line = Line::styled(
                format!("{pointer}{text}{}", " ".repeat(usize::from(area.width))),
                style,
            );
            put(
                buffer,
                self.rows,
                u16::try_from(at).unwrap_or(u16::MAX),
                &line,
            );
        }
    }

    fn show_selected(&mut self, selected: Option<u32>) {
        let height = usize::from(self.rows.height).max(1);
        let at = self.position(selected);
        self.top = self.top.clamp((at + 1).saturating_sub(height), at);
        self.top = self.top.min(self.order.len().saturating_sub(height));
    }

    fn position(&self, id: Option<u32>) -> usize {
        let found = self.order.iter().position(|other| Some(*other) == id);
        found.unwrap_or(0)
    }

    /// Moves the selection.
    pub fn go(&mut self, to: Move) {
        let at = self.position(self.selected());
        let page = usize::from(self.rows.height).max(1);
        let last = self.order.len().saturating_sub(1);
        let to = match to {
            Move::Up => at.saturating_sub(1),
            Move::Down => at + 1,
            Move::PageUp => at.saturating_sub(page),
            Move::PageDown => at + page,
            Move::Home => 0,
            Move::End => last,
            Move::Left | Move::Right => {
                self.scroll(to);
                return;
            }
        };
        self.chosen = self.order.get(to.min(last)).copied();
    }

    /// Scrolls by one of the columns of counters.
    pub fn scroll(&mut self, to: Move) {
        match to {
            Move::Left => self.across = self.across.saturating_sub(1),
            // Drawing takes back what is too far.
            Move::Right => self.across = (self.across + 1).min(self.scrolled.1),
            _ => {}
        }
    }

    /// Sorts by the next of the columns that are shown.
    pub fn sort(&mut self) {
        let at = self
            .titles
            .iter()
            .position(|(_, column)| *column == self.sorted);
        let next = at.map_or(0, |at| (at + 1) % self.titles.len());
        if let Some((_, column)) = self.titles.get(next) {
            self.sorted = *column;
            self.reverse = false;
        }
    }

    /// Sorts the other way round.
    pub fn reverse(&mut self) {
        self.reverse = !self.reverse;
    }

    /// A click: on a row selects it, on a title sorts. Whether it was on the
    /// row that was selected already.
    pub fn click(&mut self, at: Position) -> bool {
        if self.rows.contains(at) {
            let row = self.top + usize::from(at.y - self.rows.y);
            let before = self.selected();
            if let Some(id) = self.order.get(row) {
                self.chosen = Some(*id);
                return before == Some(*id);
            }
        } else if at.y.checked_add(1) == Some(self.rows.y) {
            let title = self.titles.iter().find(|(range, _)| range.contains(&at.x));
            if let Some((_, column)) = title {
                if self.sorted == *column {
                    self.reverse();
                } else {
                    (self.sorted, self.reverse) = (*column, false);
                }
            }
        }
        false
    }
}
