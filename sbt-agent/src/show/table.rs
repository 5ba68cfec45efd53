//! Tables of figures with one unit per column, so that rows compare at a glance.

/// How text is formatted for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Width in columns; 80 if the output is not a terminal.
    pub width: usize,
    /// Whether bold and dim text is used.
    pub color: bool,
    /// Whether characters beyond ASCII can be shown.
    pub unicode: bool,
}

impl Style {
    /// Emphasises a text.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Dims a text.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// A bar for a share from 0 to 1.
    pub fn bar(self, share: f64, width: usize) -> String {
        let mark = if self.unicode { '█' } else { '#' };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a small width"
        )]
        let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        let mut bar: String = std::iter::repeat_n(mark, filled).collect();
        bar.extend(std::iter::repeat_n(' ', width - filled));
        bar
    }
}

impl Style {
    /// The mark of the second part of a stacked bar.
    pub const fn shade(self) -> char {
        if self.unicode { '░' } else { '.' }
    }

    /// A bar of two parts, with a share from 0 to 1 each.
    pub fn stacked(self, [first, second]: [f64; 2], width: usize) -> String {
        let both = self.bar(first + second, width);
        let first = self.bar(first, width).trim_end().chars().count();
        let shade = |(at, mark): (usize, char)| {
            if at < first || mark == ' ' {
                mark
            } else {
                self.shade()
            }
        };
        both.chars().enumerate().map(shade).collect()
    }
}

/// Heights of a sparkline, lowest first.
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_SPARKS: [char; 8] = ['_', '.', '-', ':', '=', '+', '*', '#'];

impl Style {
    /// One character for each value, with a height in proportion to `top`; [`Style::above`] for
    /// greater values.
    pub fn spark(self, values: &[u64], top: u64) -> String {
        let sparks = if self.unicode { SPARKS } else { ASCII_SPARKS };
        let draw = |value: u64| {
            if value > top {
                return self.above();
            }
            let height = u128::from(value) * SPARKS.len() as u128 / u128::from(top.max(1));
            sparks[usize::try_from(height).unwrap_or(0).min(SPARKS.len() - 1)]
        };
        values.iter().map(|value| draw(*value)).collect()
    }

    /// The mark for values above the top of a sparkline.
    pub fn above(self) -> char {
        if self.unicode { '↑' } else { '^' }
    }
}

/// The text for an unknown value.
pub const UNKNOWN: &str = "?";

/// Maximum number of decimals of a duration that is short compared with its column.
const MOST_DECIMALS: usize = 3;
/// Steps of the last digit within a unit, by number of decimals.
const STEPS: [f64; MOST_DECIMALS + 1] = [1.0, 10.0, 100.0, 1000.0];

/// A unit of time, with the number of decimals for a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Name of the unit.
    pub name: &'static str,
    ns: f64,
    decimals: usize,
}

impl Unit {
    /// The unit in which the greatest of some durations (ns) has one to four digits before the
    /// point.
    pub fn fitting(values: impl IntoIterator<Item = Option<u64>>) -> Self {
        let max = values.into_iter().flatten().max().unwrap_or(0);
        let unit = |name, ns: u64| {
            let digits = (max / ns).checked_ilog10().unwrap_or(0);
            Self {
                name,
                ns: ns as f64,
                decimals: if digits == 0 {
                    2
                } else {
                    usize::from(digits == 1)
                },
            }
        };
        match max {
            0..10_000 => Self {
                name: "ns",
                ns: 1.0,
                decimals: 0,
            },
            10_000..10_000_000 => unit("µs", 1_000),
            10_000_000..10_000_000_000 => unit("ms", 1_000_000),
            _ => unit("s", 1_000_000_000),
        }
    }

    /// A duration in this unit, without the unit's name. A duration above 0 is never written as 0,
    /// however long the others in its column are: `0.04`, and `<0.001` below that.
    pub fn write(self, value: Option<u64>) -> String {
        let Some(value) = value else {
            return UNKNOWN.into();
        };
        let in_unit = value as f64 / self.ns;
        // Values up to half of the last digit would be rounded to 0.
        let shows = |decimals: &usize| in_unit > 0.5 / STEPS[*decimals];
        match (self.decimals..=MOST_DECIMALS).find(shows) {
            Some(decimals) => grouped(&format!("{in_unit:.decimals$}")),
            None if value == 0 => format!("{:.*}", self.decimals, 0.0),
            None => format!("<{}", 1.0 / STEPS[MOST_DECIMALS]),
        }
    }

    /// The unit's name, in ASCII if the terminal requires this.
    pub fn label(self, style: Style) -> &'static str {
        if self.name == "µs" && !style.unicode {
            "us"
        } else {
            self.name
        }
    }
}

/// A single duration with its unit: `1.23 ms`.
pub fn duration(value: Option<u64>, style: Style) -> String {
    let unit = Unit::fitting([value]);
    match value {
        Some(_) => format!("{} {}", unit.write(value), unit.label(style)),
        None => UNKNOWN.into(),
    }
}

/// A count with grouped thousands: `12 345`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A number with its noun: `1 site`, `2 sites`.
pub fn plural(n: u64, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {what}{s}", count(n))
}

/// The average number of occurrences, with at least three digits: `0.25`, `12 345`, `345 M` for 345
/// millions.
pub fn mean(value: Option<f64>) -> String {
    let Some(value) = value else {
        return UNKNOWN.into();
    };
    match value {
        // A value above 0 is not written as 0.
        0.0..0.005 if value > 0.0 => "<0.01".into(),
        0.0..10.0 if value.fract() == 0.0 => format!("{value:.0}"),
        0.0..9.995 => format!("{value:.2}"),
        0.0..99.95 => format!("{value:.1}"),
        0.0..1e8 => grouped(&format!("{value:.0}")),
        0.0..1e11 => format!("{} M", grouped(&format!("{:.0}", value / 1e6))),
        _ => format!("{} G", grouped(&format!("{:.0}", value / 1e9))),
    }
}

fn grouped(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    if whole <= 4 {
        return number.to_owned();
    }
    let mut out = String::new();
    for (index, c) in number.char_indices() {
        if index > 0 && index < whole && (whole - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// Rounds a mean to whole ns.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time of a phase, in ns"
)]
pub fn rounded(ns: f64) -> u64 {
    ns.round() as u64
}

/// A ratio with two decimals.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.into(), |value| format!("{value:.2}"))
}

/// A share in percent.
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.into(), |value| format!("{value:.0} %"))
}

/// A table: the first column is left-aligned, the others are right-aligned.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<(String, Vec<String>)>,
}

impl Table {
    /// Adds a column of text.
    pub fn column(&mut self, title: impl Into<String>, cells: Vec<String>) -> &mut Self {
        self.columns.push((title.into(), cells));
        self
    }

    /// Adds a column of durations (ns) with a unit of its own.
    pub fn durations(&mut self, title: &str, cells: &[Option<u64>], style: Style) -> &mut Self {
        let unit = Unit::fitting(cells.iter().copied());
        let title = format!("{title} {}", unit.label(style));
        let cells = cells.iter().map(|cell| unit.write(*cell)).collect();
        self.column(title, cells)
    }

    /// Writes the table. A first cell that is too long for its column gets a line of its own:
    /// nothing is cut.
    pub fn write(&self, out: &mut String, style: Style, first_at_most: usize) {
        let length = |text: &str| text.chars().count();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, (title, cells))| {
                let fits = |cell: &&String| index > 0 || length(cell) <= first_at_most;
                cells
                    .iter()
                    .filter(fits)
                    .map(|cell| length(cell))
                    .chain([length(title)])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (index, (cell, width)) in cells.zip(&widths).enumerate() {
                let pad = " ".repeat(width.saturating_sub(length(cell)));
                if index == 0 {
                    line.push_str(cell);
                    line.push_str(&pad);
                } else {
                    line.push_str("  ");
                    line.push_str(&pad);
                    line.push_str(cell);
                }
            }
            line.truncate(line.trim_end().len());
            line
        };
        let title = line(&mut self.columns.iter().map(|(title, _)| title.as_str()));
        out.push_str(&style.dim(&title));
        out.push('\n');
        let rows = self.columns.first().map_or(0, |(_, cells)| cells.len());
        for row in 0..rows {
            let first = &self.columns[0].1[row];
            let alone = length(first) > widths[0];
            if alone {
                out.push_str(first);
                out.push('\n');
            }
            let mut cells = self.columns.iter().enumerate().map(|(index, (_, cells))| {
                if index == 0 && alone {
                    ""
                } else {
                    cells[row].as_str()
                }
            });
            out.push_str(&line(&mut cells));
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style {
        width: 80,
        color: false,
        unicode: true,
    };

    #[test]
    fn durations_keep_three_figures() {
        let written = |value| duration(Some(value), PLAIN);
        assert_eq!(written(0), "0 ns");
        assert_eq!(written(9_999), "9999 ns");
        assert_eq!(written(12_345), "12.3 µs");
        assert_eq!(written(1_234_567), "1235 µs");
        assert_eq!(written(12_345_678), "12.3 ms");
        assert_eq!(written(4_812_000_000), "4812 ms");
        assert_eq!(written(14_812_000_000), "14.8 s");
        assert_eq!(duration(None, PLAIN), "?");
    }

    #[test]
    fn a_stacked_bar_shows_both_parts() {
        let ascii = Style {
            unicode: false,
            ..PLAIN
        };
        assert_eq!(PLAIN.stacked([0.5, 0.25], 8), "████░░  ");
        assert_eq!(ascii.stacked([0.5, 0.5], 4), "##..");
        assert_eq!(PLAIN.stacked([0.0, 1.0], 3), "░░░");
        assert_eq!(PLAIN.stacked([0.0, 0.0], 2), "  ");
    }

    #[test]
    fn what_is_short_for_its_column_is_not_0() {
        let unit = Unit::fitting([Some(123_456_789)]);
        let written = |ns| unit.write(Some(ns));
        assert_eq!(written(123_456_789), "123");
        assert_eq!(written(1_400_000), "1");
        assert_eq!(written(500_001), "1");
        assert_eq!(written(500_000), "0.5");
        assert_eq!(written(140_000), "0.1");
        assert_eq!(written(49_000), "0.05");
        assert_eq!(written(1_000), "0.001");
        assert_eq!(written(499), "<0.001");
        assert_eq!(written(1), "<0.001");
        assert_eq!(written(0), "0");
        assert_eq!(unit.write(None), "?");
    }

    #[test]
    fn thousands_are_set_apart_above_four_digits() {
        assert_eq!(count(1234), "1234");
        assert_eq!(count(12_345), "12 345");
        assert_eq!(count(1_234_567), "1 234 567");
    }

    #[test]
    fn a_long_first_cell_is_not_cut() {
        let mut table = Table::default();
        table
            .column("site", vec!["a".into(), "a_very_long_name".into()])
            .column("n", vec!["1".into(), "22".into()]);
        let mut out = String::new();
        table.write(&mut out, PLAIN, 6);
        assert_eq!(out, "site   n\na      1\na_very_long_name\n      22\n");
    }

    #[test]
    fn sparks_are_as_high_as_their_value() {
        assert_eq!(PLAIN.spark(&[0, 4, 8], 8), "▁▅█");
        assert_eq!(PLAIN.spark(&[0, 80, 8], 8), "▁↑█");
        assert_eq!(PLAIN.spark(&[0, 0], 0), "▁▁");
        assert_eq!(PLAIN.spark(&[], 0), "");
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(PLAIN.bar(0.5, 4), "██  ");
        assert_eq!(PLAIN.bar(7.0, 4), "████");
    }
}
