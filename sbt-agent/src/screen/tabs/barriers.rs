//! The table of sites, worst first, and the details of the selected site.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Position, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{Hint, Tab, View, looked, site, strip};
use crate::{
    screen::{
        counters::{self, ShownValue},
        ended,
        grid::{Cells, Grid},
        keys::{Action, Move},
        list::List,
        pager::Pager,
        words::{self, printable_site, put, rule},
    },
    show::{table::UNKNOWN, text},
};
use sbt_engine::{
    live::Request,
    report::{SiteReport, StatReport, counters::Counts},
};

/// Index of the column in [`grid`] by which sites are sorted initially: lost time.
const LOST: usize = 4;
/// Minimum width for showing details beside the table.
const WIDE: u16 = 110;

/// Minimum height for showing a verdict in one row; a lower table needs all rows.
const ROWS_FOR_VERDICT: u16 = 14;

/// Height from which on each further row of a verdict may be shown.
const ROWS_FOR_MORE: u16 = 3;

/// Most rows of a verdict.
const MOST_ROWS: usize = 3;

/// The tab of the barriers.
pub struct Barriers {
    list: List,
    details: Pager,
    /// Id of the site whose details fill the tab; `None` if the table is shown.
    open: Option<u32>,
}

impl Default for Barriers {
    fn default() -> Self {
        Self {
            list: List::sorted_by(LOST),
            details: Pager::default(),
            open: None,
        }
    }
}

fn grid(view: &View) -> Grid {
    let sites = &view.snapshot.report.sites;
    let wall = || sites.iter().map(|site| site.lost_wall_pct).collect();
    // The median, because the first phase includes the program's start, and a single slow episode
    // would distort the mean.
    let median = |stat: &Option<StatReport>| stat.as_ref().map(|stat| stat.p50);
    let last = |site: &SiteReport| match text::known(site) {
        Some(straggler) => (
            Some(straggler.share_pct),
            format!(
                "{} {:3.0} %",
                view.snapshot.report.label(straggler.thread),
                straggler.share_pct
            ),
        ),
        None => (None, UNKNOWN.to_owned()),
    };
    let times = |f: &dyn Fn(&SiteReport) -> Option<u64>| Cells::Time(sites.iter().map(f).collect());
    let mut grid = Grid {
        ids: sites.iter().map(|site| site.id).collect(),
        search: sites
            .iter()
            .map(|site| printable_site(site).to_lowercase())
            .collect(),
        ..Grid::default()
    };
    grid.column(
        "site",
        0,
        Cells::Text(sites.iter().map(words::site_name).collect()),
    )
    .column(
        "episodes",
        6,
        Cells::Count(sites.iter().map(|site| Some(site.episodes)).collect()),
    )
    .column("phase", 4, times(&|site| median(&site.phase_ns)))
    .column("barrier", 5, times(&|site| median(&site.barrier_ns)))
    .column("lost", 0, times(&|site| Some(site.lost_ns)))
    .column("wall", 2, Cells::Share(wall()))
    .column("", 8, Cells::Bar(wall()))
    .column(
        "imbalance",
        7,
        Cells::Share(sites.iter().map(|site| site.imbalance_pct).collect()),
    )
    .column("last", 1, Cells::Ranked(sites.iter().map(last).collect()));
    let counts: Vec<&Counts> = sites.iter().map(|site| &site.counters).collect();
    let (snapshot, told) = (view.snapshot, ShownValue::PerPhase);
    counters::columns(&mut grid, snapshot, told, |all| &all.sites, &counts);
    grid
}

impl Tab for Barriers {
    fn title(&self) -> &'static str {
        "Barriers"
    }

    fn brief_title(&self) -> &'static str {
        "Barr"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let report = &view.snapshot.report;
        if let Some(site) = self.open.and_then(|id| report.site(id)) {
            self.draw_open(site, view, buffer, area);
            return;
        }
        self.open = None;
        let area = draw_verdict(view, buffer, area);
        let strip = strip::height(view.snapshot.lanes.lanes.len(), area.height);
        let [above, below] =
            Layout::vertical([Constraint::Length(strip), Constraint::Min(0)]).areas(area);
        if strip > 0 {
            strip::draw(view, buffer, above);
        }
        let (table, beside) = if report.sites.is_empty() {
            (below, Rect::ZERO)
        } else if area.width >= WIDE {
            let [table, line, beside] = Layout::horizontal([
                Constraint::Percentage(58),
                Constraint::Length(1),
                Constraint::Min(0),
            ])
            .areas(below);
            divide(view, buffer, line);
            (table, beside)
        } else {
            let rows = u16::try_from(report.sites.len().max(3)).unwrap_or(u16::MAX);
            // The details get the rows that the table does not need, but at least a third.
            let table = rows.saturating_add(2).min(below.height - below.height / 3);
            let areas = [Constraint::Length(table), Constraint::Min(0)];
            let [table, beside] = Layout::vertical(areas).areas(below);
            (table, beside)
        };
        self.draw_table(view, buffer, table);
        let selected = self.list.selected().and_then(|id| report.site(id));
        if let Some(site) = selected.filter(|_| beside.height > 1) {
            let (title, body) = site::split(beside);
            let hint = if ended::is_over(view.snapshot) {
                ""
            } else {
                view.look.pick("Enter ↵", "Enter")
            };
            rule(buffer, title, &words::site_name(site), hint, view.look);
            let room = (usize::from(body.width), usize::from(body.height));
            let lines = site::overview(site, view, room, self.list.across());
            words::put_all(buffer, body, lines);
        }
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        match action {
            Action::Go(to @ (Move::Left | Move::Right)) => self.list.scroll(to),
            Action::Go(to) if self.open.is_some() => self.details.go(to, false),
            Action::Go(to) => self.list.go(to),
            Action::Open if self.open.is_none() => {
                self.open = self.list.selected();
                self.details = Pager::default();
            }
            Action::Open | Action::Back if self.open.is_some() => self.open = None,
            Action::Back => self.list.filter.clear(),
            Action::Sort => self.list.sort(),
            Action::Reverse => self.list.reverse(),
            _ => {}
        }
        Vec::new()
    }

    fn hints(&self) -> Vec<Hint> {
        if self.open.is_some() {
            vec![("Esc", "back"), ("n", "name")]
        } else {
            vec![
                ("Enter", "details"),
                ("s", "sort"),
                ("/", "filter"),
                ("n", "name"),
            ]
        }
    }

    fn click(&mut self, at: Position) {
        if self.open.is_none() && self.list.click(at) {
            self.open = self.list.selected();
            self.details = Pager::default();
        }
    }

    fn filter(&mut self) -> Option<&mut String> {
        self.open.is_none().then_some(&mut self.list.filter)
    }

    fn site(&self) -> Option<u32> {
        self.open.or_else(|| self.list.selected())
    }
}

impl Barriers {
    fn draw_table(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (title, body) = site::split(area);
        let sites = &view.snapshot.report.sites;
        if sites.is_empty() {
            rule(buffer, title, "barriers", "", view.look);
            draw_nothing(view, buffer, body);
            return;
        }
        self.list.draw(&grid(view), view.look, buffer, body);
        let note = self.list.note(sites.len(), "site");
        let name = if !self.list.filter.is_empty() {
            format!("barriers with \"{}\"", self.list.filter)
        } else if counters::chosen(view.snapshot).next().is_none() {
            "barriers: where thread time is lost, and who is last".to_owned()
        } else {
            "barriers, and counters of a phase".to_owned()
        };
        rule(buffer, title, &name, &note, view.look);
        if self.list.selected().is_none() {
            let text = format!(
                "   no site contains \"{}\"; Esc shows all",
                self.list.filter
            );
            put(buffer, body, 1, &Line::raw(text));
        }
    }

    fn draw_open(&mut self, site: &SiteReport, view: &View, buffer: &mut Buffer, area: Rect) {
        let (title, body) = site::split(area);
        let lines = site::full(site, view, usize::from(body.width), self.list.across());
        self.details.draw(&lines, buffer, body);
        let note = self.details.range().unwrap_or_default();
        rule(buffer, title, &words::site_name(site), &note, view.look);
    }
}

/// Where the rest of a verdict is: the tab of the log shows all.
const REST: &str = " 6: all";

/// Draws the first verdict into the last rows. Returns the area that remains.
fn draw_verdict(view: &View, buffer: &mut Buffer, area: Rect) -> Rect {
    let look = view.look;
    let top = view.snapshot.report.verdicts.iter().flatten().next();
    let Some(top) = top.filter(|_| area.height >= ROWS_FOR_VERDICT) else {
        return area;
    };
    let sentence = text::sentence(&top.text, look.text());
    let columns = usize::from(area.width).saturating_sub(4);
    let more = usize::from((area.height - ROWS_FOR_VERDICT) / ROWS_FOR_MORE);
    let most = MOST_ROWS.min(1 + more);
    let mut texts = words::wrap(&sentence, columns, look);
    if texts.len() > most {
        let rest = texts.split_off(most - 1).join(" ");
        let room = columns.saturating_sub(words::width(REST));
        texts.push(words::fit(&rest, room, look) + REST);
    }
    let rest = Rect {
        height: area
            .height
            .saturating_sub(u16::try_from(texts.len()).unwrap_or(1)),
        ..area
    };
    for (row, text) in (0..).zip(texts) {
        let mark = if row == 0 { look.pick("▶", ">") } else { " " };
        let line = Line::from_iter([
            Span::styled(format!(" {mark} "), look.title()),
            Span::styled(text, look.bold()),
        ]);
        put(buffer, area, rest.height + row, &line);
    }
    rest
}

/// Draws a text in place of the table if there are no barriers.
fn draw_nothing(view: &View, buffer: &mut Buffer, area: Rect) {
    let columns = usize::from(area.width.saturating_sub(2));
    let text = if ended::is_over(view.snapshot) {
        "No barrier was seen."
    } else {
        "No barrier has been seen yet."
    };
    let waits = looked::looks(&view.snapshot.report).map(|_| {
        "The tab Threads (2) shows how threads spend their time, and the tab Waits (7) where they sleep or spin."
    });
    let texts = [Some(text), waits].into_iter().flatten().map(str::to_owned);
    let notes = view
        .snapshot
        .report
        .notes
        .iter()
        .map(|note| sbt_engine::place::printable(note));
    let lines = texts
        .into_iter()
        .chain(notes)
        .flat_map(|text| words::wrap(&text, columns, view.look))
        .map(|text| Line::from(vec![Span::raw(" "), Span::styled(text, Style::new())]));
    words::put_all(buffer, area, lines);
}

fn divide(view: &View, buffer: &mut Buffer, area: Rect) {
    let line = Line::styled(view.look.pick("│", "|"), view.look.dim());
    for row in 1..area.height {
        put(buffer, area, row, &line);
    }
}
