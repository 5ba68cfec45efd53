//! A table that the user moves in: selection, order, filter.

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

/// The user's position in a table, and how the table is sorted and filtered.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Id of the selected row; `None` until the user moves, which selects the first row.
    chosen: Option<u32>,
    /// Index of the first visible row.
    top: usize,
    /// Index of the column that the rows are sorted by.
    sorted: usize,
    reverse: bool,
    /// Number of the first visible column among those that scroll sideways.
    across: usize,
    /// Text that rows have to contain.
    pub filter: String,
    /// Ids of the rows last drawn, in order.
    order: Vec<u32>,
    /// Screen area of the rows last drawn.
    rows: Rect,
    /// Screen columns of each title last drawn, with the index of its column.
    titles: Vec<(Range<u16>, usize)>,
    /// Visible range of the scrolling columns last drawn, and their total number.
    scrolled: (Range<usize>, usize),
}

impl List {
    /// A table sorted by this column.
    pub fn sorted_by(column: usize) -> Self {
        Self {
            sorted: column,
            ..Self::default()
        }
    }

    /// Id of the selected row.
    pub fn selected(&self) -> Option<u32> {
        self.chosen
            .filter(|id| self.order.contains(id))
            .or_else(|| self.order.first().copied())
    }

    /// Ids of the rows last drawn, in order.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The visible range of rows: `1-20 of 100`; `None` if all rows are visible.
    pub fn range(&self) -> Option<String> {
        let (all, height) = (self.order.len(), usize::from(self.rows.height));
        let last = (self.top + height).min(all);
        (all > height).then(|| format!("{}-{last} of {all}", self.top + 1))
    }

    /// The visible range of the scrolling columns: `columns 1-2 of 6`; `None` if all are visible.
    pub fn columns(&self) -> Option<String> {
        let (range, all) = &self.scrolled;
        let text = match range.len() {
            0 => format!("none of {all} columns"),
            1 => format!("column {} of {all}", range.end),
            _ => format!("columns {}-{} of {all}", range.start + 1, range.end),
        };
        (range.len() < *all).then_some(text)
    }

    /// Number of the first visible scrolling column.
    pub const fn across(&self) -> usize {
        self.across
    }

    /// The note beside the table's title: the visible rows and columns, or the number of rows.
    /// `what` is the singular name of a row.
    pub fn note(&self, all: usize, what: &str) -> String {
        let rows = self.range().or_else(|| self.found(all));
        let rows = rows.unwrap_or_else(|| plural(all as u64, what));
        match self.columns() {
            Some(columns) => format!("{rows}, {columns}"),
            None => rows,
        }
    }

    /// The number of rows that match the filter: `3 of 100`; `None` without a filter.
    pub fn found(&self, all: usize) -> Option<String> {
        (!self.filter.is_empty()).then(|| format!("{} of {all}", self.order.len()))
    }

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
        // The first columns hold the mark of the selection.
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

    /// Scrolls the counters' columns by one.
    pub fn scroll(&mut self, to: Move) {
        match to {
            Move::Left => self.across = self.across.saturating_sub(1),
            // Drawing corrects a position that is too far right.
            Move::Right => self.across = (self.across + 1).min(self.scrolled.1),
            _ => {}
        }
    }

    /// Sorts by the next visible column.
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

    /// Reverses the order of the rows.
    pub fn reverse(&mut self) {
        self.reverse = !self.reverse;
    }

    /// Handles a click: a click on a row selects this row, a click on a title sorts by its column.
    /// Returns whether the clicked row was already selected.
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
