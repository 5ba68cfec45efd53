//! Time by the number of busy threads, as bars.

use ratatui::text::Line;

use crate::{
    screen::{
        theme::Look,
        words::{self, right},
    },
    show::table::{Unit, percent},
};
use sbt_engine::report::BusyReport;

/// The lowest and highest number of busy threads that a bar stands for, and the time, ns.
type Group = (u32, u32, u64);

/// Groups neighbouring numbers of busy threads into at most `rows` equally wide groups.
fn groups(times: &[BusyReport], rows: usize) -> Vec<Group> {
    let most = times.iter().map(|time| time.busy).max().unwrap_or(0);
    let rows = u32::try_from(rows.max(1)).unwrap_or(u32::MAX);
    // 0 busy threads is always a group of its own.
    let size = most.div_ceil(rows.saturating_sub(1).max(1)).max(1);
    let mut groups: Vec<Group> = Vec::new();
    for time in times {
        let number = time.busy.div_ceil(size);
        let (from, to) = match number {
            0 => (0, 0),
            _ => ((number - 1) * size + 1, (number * size).min(most)),
        };
        match groups.last_mut() {
            Some(last) if last.0 == from => last.2 = last.2.saturating_add(time.ns),
            _ => groups.push((from, to, time.ns)),
        }
    }
    groups
}

/// A bar for each number of busy threads, or for groups of them if space is short. The longest bar
/// stands for the most time.
pub fn bars(times: &[BusyReport], look: Look, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let groups = groups(times, rows);
    let whole: u64 = groups.iter().fold(0, |sum, it| sum.saturating_add(it.2));
    let most = groups.iter().map(|group| group.2).max().unwrap_or(0).max(1);
    let unit = Unit::fitting(groups.iter().map(|group| Some(group.2)));
    let name = |(from, to, _): &Group| {
        if from == to {
            format!("{from} busy")
        } else {
            format!("{from}-{to} busy")
        }
    };
    let names = groups.iter().map(|group| words::width(&name(group))).max();
    let names = names.unwrap_or(0);
    let label = unit.label(look.text());
    // Columns for the time with its unit and the share.
    let figures = 11 + label.len() + 6;
    let room = columns.saturating_sub(names + figures + 4);
    let line = |group: &Group| {
        let share = group.2 as f64 / whole.max(1) as f64 * 100.0;
        Line::raw(format!(
            " {}  {}{} {label}{}",
            right(&name(group), names, look),
            look.bar(group.2 as f64 / most as f64, room),
            right(&unit.write(Some(group.2)), 10, look),
            right(&percent(Some(share)), 6, look),
        ))
    };
    groups.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(all: &[(u32, u64)]) -> Vec<BusyReport> {
        let time = |&(busy, ns)| BusyReport { busy, ns };
        all.iter().map(time).collect()
    }

    #[test]
    fn neighbours_are_put_together_where_there_is_no_room() {
        let all = times(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]);
        let each = [(0, 0, 1), (1, 1, 2), (2, 2, 3), (3, 3, 4), (4, 4, 5)];
        assert_eq!(groups(&all, 5), each);
        assert_eq!(groups(&all, 9), each);
        assert_eq!(groups(&all, 3), [(0, 0, 1), (1, 2, 5), (3, 4, 9)]);
        assert_eq!(groups(&all, 1), [(0, 0, 1), (1, 4, 14)]);
        let few = times(&[(1, 2), (1024, 3)]);
        assert_eq!(groups(&few, 3), [(1, 512, 2), (513, 1024, 3)]);
        assert!(groups(&[], 3).is_empty());
    }
}
