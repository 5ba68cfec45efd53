//! Tables on the screen: one unit per column, sortable by any column; the least important columns
//! are omitted if space is short.

use std::{borrow::Cow, cmp::Ordering, ops::Range};

use super::words::{fit_middle, left, right, width};
use crate::screen::theme::Look;
use crate::show::table::{UNKNOWN, Unit, count, mean, percent};

/// The cells of a column, one per row.
#[derive(Clone, Debug)]
pub enum Cells {
    /// Left-aligned, sorted alphabetically, shortened in the middle.
    Text(Vec<String>),
    /// Left-aligned, sorted in the original order of the rows.
    Label(Vec<String>),
    /// Right-aligned.
    Count(Vec<Option<u64>>),
    /// Durations in ns, right-aligned.
    Time(Vec<Option<u64>>),
    /// Durations in ns, right-aligned, in a unit shared with other columns so that these compare.
    TimeIn(Unit, Vec<Option<u64>>),
    /// Percentages, right-aligned.
    Share(Vec<Option<f64>>),
    /// Percentages, drawn as bars.
    Bar(Vec<Option<f64>>),
    /// Average number of occurrences, right-aligned.
    Mean(Vec<Option<f64>>),
    /// Right-aligned texts, sorted by the number beside them.
    Ranked(Vec<(Option<f64>, String)>),
}

#[derive(Clone, Debug)]
pub struct Column {
    /// Title without the unit.
    pub title: Cow<'static, str>,
    pub cells: Cells,
    /// Priority for omission when space is short: 0 is never omitted, higher values are omitted
    /// first.
    pub spare: u8,
    /// Whether the column belongs to those that scroll sideways.
    pub scrolls: bool,
}

/// A table: its columns, and for each row its id and searchable text.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// At least one column, and at least one of text.
    pub columns: Vec<Column>,
    /// Id of the object (site, thread, ...) in each row.
    pub ids: Vec<u32>,
    /// Text of each row that the filter searches, in lower case.
    pub search: Vec<String>,
}

/// Width of a bar, in screen columns.
const BAR: usize = 12;
/// Minimum width of a text column.
const TEXT_AT_LEAST: usize = 24;
/// Screen columns between two table columns.
const SPACE: usize = 2;

/// A column with its cells as text, ready to be drawn.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Index of the column in the grid.
    pub index: usize,
    /// Width in screen columns.
    pub width: usize,
    /// Title with the unit.
    pub title: String,
    /// Whether the cells are right-aligned.
    pub to_right: bool,
    /// Whether cells are shortened in the middle.
    is_text: bool,
    /// Cells as text, by row of the grid.
    pub texts: Vec<String>,
}

/// The columns that fit on the screen.
#[derive(Clone, Debug)]
pub struct Fitting {
    /// The columns, in the order of the grid.
    pub columns: Vec<Shown>,
    /// The range of the scrolling columns that are shown.
    pub scrolled: Range<usize>,
    /// Number of scrolling columns in the grid.
    pub scrolling: usize,
}

impl Fitting {
    /// The titles as one line, and one line for each of the given rows.
    pub fn lines(&self, rows: &[usize], look: Look) -> (String, Vec<String>) {
        let line = |f: &dyn Fn(&Shown) -> String| {
            let cells: Vec<String> = self.columns.iter().map(f).collect();
            format!(" {}", cells.join("  "))
        };
        let rows = rows.iter().map(|row| {
            line(&|column| {
                let text = column.texts.get(*row).map_or("", String::as_str);
                column.pad(text, look)
            })
        });
        (
            line(&|column| column.pad(&column.title, look)),
            rows.collect(),
        )
    }

    /// Number of scrolling columns that are not visible.
    pub fn hidden(&self) -> usize {
        self.scrolling - self.scrolled.len()
    }
}

impl Shown {
    /// Pads or shortens a text to the width of the column.
    pub fn pad(&self, text: &str, look: Look) -> String {
        if self.to_right {
            right(text, self.width, look)
        } else if self.is_text {
            left(&fit_middle(text, self.width, look), self.width, look)
        } else {
            left(text, self.width, look)
        }
    }
}

impl Grid {
    /// Adds a fixed column; see [`Column::spare`] for `spare`.
    pub fn column(&mut self, title: &'static str, spare: u8, cells: Cells) -> &mut Self {
        self.columns.push(Column {
            title: Cow::Borrowed(title),
            cells,
            spare,
            scrolls: false,
        });
        self
    }

    /// Adds a column that scrolls sideways.
    pub fn scrolling(&mut self, title: String, cells: Cells) -> &mut Self {
        self.columns.push(Column {
            title: Cow::Owned(title),
            cells,
            spare: 0,
            scrolls: true,
        });
        self
    }

    /// The indices of the rows that contain `filter`, sorted by a column: numbers in descending
    /// order with unknown values last, texts in ascending order.
    pub fn order(&self, column: usize, reverse: bool, filter: &str) -> Vec<usize> {
        let filter = filter.to_lowercase();
        let mut rows: Vec<usize> = (0..self.ids.len())
            .filter(|row| {
                let text = self.search.get(*row);
                filter.is_empty() || text.is_some_and(|text| text.contains(&filter))
            })
            .collect();
        if let Some(column) = self.columns.get(column) {
            rows.sort_by(|a, b| column.cells.compare(*a, *b, reverse));
        }
        rows
    }

    /// Selects the columns that fit into `columns`. Scrolling columns start at number `from`;
    /// leftover space goes to the text columns.
    pub fn shown(&self, columns: usize, sorted: usize, from: usize, look: Look) -> Fitting {
        let all: Vec<Shown> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| column.shown(index, index == sorted, look))
            .collect();
        let column = |shown: &Shown| &self.columns[shown.index];
        let least = |shown: &Shown| match column(shown).cells {
            Cells::Text(_) | Cells::Label(_) => shown.width.min(TEXT_AT_LEAST),
            _ => shown.width,
        };
        let (scrolling, mut fixed): (Vec<Shown>, Vec<Shown>) =
            all.into_iter().partition(|shown| column(shown).scrolls);
        let needed = |shown: &[Shown]| {
            shown.iter().map(least).sum::<usize>() + SPACE * shown.len().saturating_sub(1)
        };
        let spare = |fixed: &mut Vec<Shown>, room: usize, keep: u8| {
            while needed(fixed) > room {
                let spare = |shown: &Shown| column(shown).spare;
                let most = fixed.iter().map(spare).max().unwrap_or(0);
                if most <= keep {
                    break;
                }
                fixed.retain(|shown| spare(shown) < most);
            }
        };
        // Scrolling columns, which the user asked for, take precedence over optional ones.
        let mut kept = fixed.clone();
        spare(&mut kept, 0, KEPT);
        let first = scrolling.first().map_or(0, |shown| SPACE + shown.width);
        if needed(&kept) + first > columns {
            spare(&mut kept, 0, 0);
        }
        let range = fitting(&scrolling, columns.saturating_sub(needed(&kept)), from);
        let counted = &scrolling[range.clone()];
        let counted_room: usize = counted.iter().map(|shown| SPACE + shown.width).sum();
        let room = columns.saturating_sub(counted_room);
        spare(&mut fixed, room, 0);
        let mut left = room.saturating_sub(needed(&fixed));
        for column in &mut fixed {
            let least = least(column);
            let more = (column.width - least).min(left);
            left -= more;
            column.width = least + more;
        }
        fixed.extend_from_slice(counted);
        fixed.sort_by_key(|shown| shown.index);
        Fitting {
            columns: fixed,
            scrolled: range,
            scrolling: scrolling.len(),
        }
    }
}

/// The highest [`Column::spare`] that is kept beside scrolling columns if there is room.
const KEPT: u8 = 1;

/// The range of columns, starting at number `from`, that fits into `room`. If the range reaches the
/// last column, it is extended to the left as far as there is room.
fn fitting(columns: &[Shown], room: usize, from: usize) -> Range<usize> {
    let fit = |columns: &mut dyn Iterator<Item = &Shown>| {
        let mut left = room;
        columns
            .take_while(|shown| {
                let fits = SPACE + shown.width <= left;
                left = left.saturating_sub(SPACE + shown.width);
                fits
            })
            .count()
    };
    let at_end = columns.len() - fit(&mut columns.iter().rev());
    let from = from.min(at_end);
    from..from + fit(&mut columns[from..].iter())
}

impl Column {
    fn shown(&self, index: usize, sorted: bool, look: Look) -> Shown {
        let mut title = self.title.clone().into_owned();
        let texts: Vec<String> = match &self.cells {
            Cells::Text(texts) | Cells::Label(texts) => texts.clone(),
            Cells::Count(values) => values
                .iter()
                .map(|value| value.map_or_else(|| UNKNOWN.into(), count))
                .collect(),
            Cells::Time(values) | Cells::TimeIn(_, values) => {
                let unit = match self.cells {
                    Cells::TimeIn(unit, _) => unit,
                    _ => Unit::fitting(values.iter().copied()),
                };
                title = format!("{title} {}", unit.label(look.text()));
                values.iter().map(|value| unit.write(*value)).collect()
            }
            Cells::Share(values) => values.iter().map(|value| percent(*value)).collect(),
            Cells::Bar(values) => values
                .iter()
                .map(|value| look.bar(value.unwrap_or(0.0) / 100.0, BAR))
                .collect(),
            Cells::Mean(values) => values.iter().map(|value| mean(*value)).collect(),
            Cells::Ranked(values) => values.iter().map(|(_, text)| text.clone()).collect(),
        };
        let mark = if sorted { width(mark(false, look)) } else { 0 };
        let widths = texts.iter().map(|text| width(text));
        Shown {
            index,
            width: widths.max().unwrap_or(0).max(width(&title) + mark),
            title,
            to_right: !matches!(self.cells, Cells::Text(_) | Cells::Label(_) | Cells::Bar(_)),
            is_text: matches!(self.cells, Cells::Text(_)),
            texts,
        }
    }
}

/// The arrow on the title of the column that the rows are sorted by.
pub const fn mark(reverse: bool, look: Look) -> &'static str {
    if reverse {
        look.pick("▲", "^ ")
    } else {
        look.pick("▼", "v ")
    }
}

impl Cells {
    fn compare(&self, a: usize, b: usize, reverse: bool) -> Ordering {
        let turn = |order: Ordering| if reverse { order.reverse() } else { order };
        match self {
            Self::Text(texts) => turn(texts[a].cmp(&texts[b])),
            Self::Label(_) => turn(a.cmp(&b)),
            Self::Count(values) | Self::Time(values) | Self::TimeIn(_, values) => {
                figures(values[a].as_ref(), values[b].as_ref(), |a, b| {
                    turn(b.cmp(a))
                })
            }
            Self::Share(values) | Self::Bar(values) | Self::Mean(values) => {
                figures(values[a].as_ref(), values[b].as_ref(), |a, b| {
                    turn(b.total_cmp(a))
                })
            }
            Self::Ranked(values) => {
                let ranks = (values[a].0.as_ref(), values[b].0.as_ref());
                figures(ranks.0, ranks.1, |a, b| turn(b.total_cmp(a)))
            }
        }
    }
}

/// Compares two cells; unknown values come last in either direction.
fn figures<T>(a: Option<&T>, b: Option<&T>, compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(a, b),
        _ => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look {
        unicode: true,
        color: false,
    };

    fn grid() -> Grid {
        let mut grid = Grid {
            ids: vec![7, 8, 9],
            search: vec!["b".into(), "a".into(), "ab".into()],
            ..Grid::default()
        };
        grid.column(
            "site",
            0,
            Cells::Text(vec!["b".into(), "a".into(), "c".into()]),
        )
        .column("lost", 0, Cells::Time(vec![Some(5), None, Some(9)]))
        .column("n", 1, Cells::Count(vec![Some(12_345), Some(1), Some(2)]));
        grid
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        let grid = grid();
        assert_eq!(grid.order(0, false, ""), [1, 0, 2]);
        assert_eq!(grid.order(1, false, ""), [2, 0, 1]);
        assert_eq!(
            grid.order(1, true, ""),
            [0, 2, 1],
            "the unknown stays behind"
        );
        assert_eq!(grid.order(1, false, "A"), [2, 1]);
    }

    #[test]
    fn what_can_be_spared_is_left_out() {
        let grid = grid();
        assert_eq!(grid.shown(40, 1, 0, LOOK).columns.len(), 3);
        assert_eq!(grid.shown(13, 1, 0, LOOK).columns.len(), 2);
        assert_eq!(grid.shown(1, 1, 0, LOOK).columns.len(), 2);
    }
}
