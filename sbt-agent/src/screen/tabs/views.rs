//! A table with several kinds of rows, of which one is shown at a time: left and right switch
//! between the kinds. The selected row can be opened to show its details.

use std::marker::PhantomData;

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    text::Line,
};

use super::{Hint, Tab, View, site};
use crate::screen::{
    grid::{Cells, Grid},
    keys::{Action, Move},
    list::List,
    pager::Pager,
    theme::Look,
    words::{self, plural, printable_site, put, rule},
};
use sbt_engine::{
    live::Request,
    place::printable,
    report::{FunctionReport, Report, SiteReport, ThreadReport},
};

/// A row of the table.
pub struct Row<F> {
    /// Identifies the row among those of its kind.
    pub id: u32,
    /// The name that the user reads.
    pub name: String,
    /// The words in which the filter searches.
    pub search: String,
    pub figures: F,
}

impl<F> Row<F> {
    /// The row of a site.
    pub fn of_site(site: &SiteReport, figures: F) -> Self {
        Self {
            id: site.id,
            name: words::site_name(site),
            search: printable_site(site).to_lowercase(),
            figures,
        }
    }

    /// The row of a thread.
    pub fn of_thread(thread: &ThreadReport, figures: F) -> Self {
        Self::named(thread.id, words::thread_name(thread), figures)
    }

    /// The row of a function.
    pub fn of_function(function: &FunctionReport, figures: F) -> Self {
        let search = printable(&format!("{} {}", function.function, function.binary));
        Self {
            id: function.id,
            name: printable(&function.function),
            search: search.to_lowercase(),
            figures,
        }
    }

    /// A row that the filter finds by its name.
    pub fn named(id: u32, name: String, figures: F) -> Self {
        Self {
            id,
            search: name.to_lowercase(),
            name,
            figures,
        }
    }
}

/// What a tab with such a table shows.
pub trait Content<const N: usize>: Default + Send {
    /// The titles of the tab: full, shorter, shortest.
    const TITLES: [&'static str; 3];
    /// The kinds of rows.
    const KINDS: [&'static str; N];
    /// Index of the column by which the tables are sorted initially.
    const SORTED: usize;
    /// The title above the table.
    const NAME: &'static str;

    /// The figures of a row.
    type Figures<'a>;

    /// The rows of the kind `what`.
    fn rows<'a>(view: &View<'a>, what: usize) -> Vec<Row<Self::Figures<'a>>>;

    /// Adds the columns after the names.
    fn columns(grid: &mut Grid, report: &Report, what: usize, rows: &[Row<Self::Figures<'_>>]);

    /// Shown in place of rows if there are none.
    fn nothing(report: &Report, what: usize) -> &'static str;

    /// Draws what stands above and below a table of so many rows. Returns the area of the table.
    fn around(view: &View, what: usize, rows: usize, buffer: &mut Buffer, area: Rect) -> Rect;

    /// The details of one row.
    fn details(
        row: &Row<Self::Figures<'_>>,
        view: &View,
        what: usize,
        columns: usize,
    ) -> Vec<Line<'static>>;
}

/// A tab with such a table.
pub struct Viewed<C, const N: usize> {
    views: Views<N>,
    content: PhantomData<C>,
}

impl<C: Content<N>, const N: usize> Default for Viewed<C, N> {
    fn default() -> Self {
        Self {
            views: Views::new(C::KINDS, C::SORTED),
            content: PhantomData,
        }
    }
}

impl<C: Content<N>, const N: usize> Tab for Viewed<C, N> {
    fn title(&self) -> &'static str {
        C::TITLES[0]
    }

    fn short_title(&self) -> &'static str {
        C::TITLES[1]
    }

    fn brief_title(&self) -> &'static str {
        C::TITLES[2]
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (report, look) = (&view.snapshot.report, view.look);
        let views = &mut self.views;
        let what = views.current();
        let rows = C::rows(view, what);
        let selected = views.list.selected();
        let mut opened = rows.iter().filter(|row| Some(row.id) == selected);
        if let Some(row) = opened.next().filter(|_| views.open) {
            let (title, body) = site::split(area);
            let lines = C::details(row, view, what, usize::from(area.width));
            views.details.draw(&lines, buffer, body);
            let note = views.details.range().unwrap_or_default();
            rule(buffer, title, &row.name, &note, look);
            return;
        }
        views.open = false;
        let (title, body) = site::split(C::around(view, what, rows.len(), buffer, area));
        let mut grid = Grid {
            ids: rows.iter().map(|row| row.id).collect(),
            search: rows.iter().map(|row| row.search.clone()).collect(),
            ..Grid::default()
        };
        let names = rows.iter().map(|row| row.name.clone()).collect();
        let kind = C::KINDS[what];
        let names = if kind == "thread" {
            Cells::Label(names)
        } else {
            Cells::Text(names)
        };
        grid.column(kind, 0, names);
        C::columns(&mut grid, report, what, &rows);
        views.list.draw(&grid, look, buffer, body);
        views.rule(buffer, title, C::NAME, rows.len(), look);
        if views.list.selected().is_none() {
            let text = views.none(C::nothing(report, what));
            let lines = words::wrap(&text, usize::from(body.width).saturating_sub(4), look);
            let height = area.bottom().saturating_sub(body.y);
            for (row, text) in (1..).zip(lines) {
                let line = Line::raw(format!("   {text}"));
                put(buffer, Rect { height, ..body }, row, &line);
            }
        }
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        self.views.act(action);
        Vec::new()
    }

    fn hints(&self) -> Vec<Hint> {
        self.views.hints()
    }

    fn click(&mut self, at: Position) {
        self.views.click(at);
    }

    fn filter(&mut self) -> Option<&mut String> {
        self.views.filter()
    }

    fn site(&self) -> Option<u32> {
        let selected = self.views.list.selected();
        selected.filter(|_| C::KINDS[self.views.current()] == "site")
    }
}

/// The table, and which kind of rows it shows.
struct Views<const N: usize> {
    names: [&'static str; N],
    current: usize,
    /// The table of the current kind.
    list: List,
    /// The tables of the other kinds, by kind.
    others: [List; N],
    /// Position in the details of the open row.
    details: Pager,
    /// Whether the details of the selected row are shown.
    open: bool,
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
    fn new(names: [&'static str; N], sorted: usize) -> Self {
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
    const fn current(&self) -> usize {
        self.current
    }

    fn show(&mut self, number: usize) {
        std::mem::swap(&mut self.list, &mut self.others[self.current]);
        self.current = number % N;
        std::mem::swap(&mut self.list, &mut self.others[self.current]);
    }

    /// Handles an action.
    fn act(&mut self, action: Action) {
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
    fn hints(&self) -> Vec<Hint> {
        if self.open {
            return vec![("Esc", "back")];
        }
        Self::HINTS.to_vec()
    }

    /// Handles a click: a click on the selected row opens it.
    fn click(&mut self, at: Position) {
        if !self.open && self.list.click(at) {
            self.open = true;
            self.details = Pager::default();
        }
    }

    /// The text of the filter; `None` while details are shown.
    fn filter(&mut self) -> Option<&mut String> {
        (!self.open).then_some(&mut self.list.filter)
    }

    /// Draws the rule above the table, with the number of rows and their kind.
    fn rule(&self, buffer: &mut Buffer, area: Rect, name: &str, all: usize, look: Look) {
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
    fn none(&self, nothing: &str) -> String {
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
