//! Swim lanes: what threads did lately, one row per thread.

use ratatui::text::{Line, Span};

use super::words::{left, thread};
use crate::screen::theme::{Ink, Look};
use crate::show::table::percent;
use sbt_engine::{
    live::{Lane, Piece, Snapshot, Watching},
    report::Report,
};

/// A time window of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// End of the last piece, ns.
    pub end_ns: u64,
    /// Number of pieces.
    pub pieces: usize,
}

/// Number of pieces over which the glyphs add up to the measured times.
const GROUP: u64 = 64;

/// The kinds of time in a piece, in the order in which [`amounts`] returns them.
const KINDS: [Ink; 6] = [
    Ink::Work,
    Ink::Idle,
    Ink::Release,
    Ink::Ready,
    Ink::Blocked,
    Ink::Unknown,
];

/// The time of each of [`KINDS`] in a piece, ns.
fn amounts(piece: &Piece, piece_ns: u64, is_last: bool) -> [u64; 6] {
    let known = [
        piece.work,
        piece.idle,
        piece.release,
        piece.ready,
        piece.blocked,
    ]
    .map(u64::from);
    let sum: u64 = known.iter().sum();
    let [work, idle, release, ready, blocked] = known;
    // The last piece is still in progress: its missing time lies in the future.
    let unknown = if is_last && sum > 0 {
        0
    } else {
        piece_ns.saturating_sub(sum)
    };
    [work, idle, release, ready, blocked, unknown]
}

/// The pieces of a lane up to the end of the window, the index of the first visible piece, and the
/// number of empty columns before it.
fn part<'a>(lane: &'a Lane, snapshot: &Snapshot, window: Window) -> (&'a [Piece], usize, usize) {
    let piece_ns = snapshot.lanes.piece_ns.max(1);
    let behind = snapshot.lanes.end_ns.saturating_sub(window.end_ns) / piece_ns;
    let behind = usize::try_from(behind).unwrap_or(usize::MAX);
    let end = lane.pieces.len().saturating_sub(behind);
    let begin = end.saturating_sub(window.pieces);
    (&lane.pieces[..end], begin, window.pieces - (end - begin))
}

/// One glyph for every piece. A piece with several kinds of time shows the kind that is furthest
/// behind its measured share in this row. The glyphs of a row thus add up to the measured times at
/// any zoom.
pub fn inks(lane: &Lane, snapshot: &Snapshot, window: Window) -> Vec<Ink> {
    let lanes = &snapshot.lanes;
    let piece_ns = lanes.piece_ns.max(1);
    let (pieces, begin, empty) = part(lane, snapshot, window);
    let mut inks = vec![Ink::Unknown; empty];
    // Groups are counted from time 0, so that the glyphs do not change as the window moves.
    let last_number = lanes.end_ns.div_ceil(piece_ns);
    let number_of = |index: usize| last_number.saturating_sub((lane.pieces.len() - index) as u64);
    let warm_up = usize::try_from(number_of(begin) % GROUP).unwrap_or(0);
    let mut debts = [0_u64; KINDS.len()];
    let drawn = pieces.iter().enumerate();
    for (index, piece) in drawn.skip(begin.saturating_sub(warm_up)) {
        if number_of(index).is_multiple_of(GROUP) {
            debts = [0; KINDS.len()];
        }
        let amounts = amounts(piece, piece_ns, index + 1 == lane.pieces.len());
        let total: u64 = amounts.iter().sum();
        for (debt, amount) in debts.iter_mut().zip(amounts) {
            *debt += amount;
        }
        // A kind that does not occur in this piece is not drawn here.
        let kinds = (0..KINDS.len()).filter(|kind| amounts[*kind] > 0);
        let kind = kinds
            .rev()
            .max_by_key(|kind| debts[*kind])
            .unwrap_or(KINDS.len() - 1);
        debts[kind] = debts[kind].saturating_sub(total);
        if index >= begin {
            let from = number_of(index) * piece_ns;
            inks.push(if in_gap(snapshot, from + piece_ns / 2) {
                Ink::Gap
            } else {
                KINDS[kind]
            });
        }
    }
    inks
}

/// Whether probes were off at this time.
fn in_gap(snapshot: &Snapshot, at_ns: u64) -> bool {
    let now = match snapshot.watching {
        Watching::Off { since_ns } => Some((since_ns, u64::MAX)),
        _ => None,
    };
    let gaps = snapshot.gaps.iter().copied().chain(now);
    gaps.into_iter()
        .any(|(from, to)| (from..to).contains(&at_ns))
}

/// The share of waiting in a window, percent; `None` if nothing is known.
pub fn waiting_pct(lane: &Lane, snapshot: &Snapshot, window: Window) -> Option<f64> {
    let (pieces, begin, _) = part(lane, snapshot, window);
    let mut waiting = 0;
    let mut known = 0;
    for piece in &pieces[begin..] {
        let [work, idle, release, ready, blocked, _] = amounts(piece, 0, false);
        waiting += idle + release;
        known += work + idle + release + ready + blocked;
    }
    (known > 0).then(|| waiting as f64 / known as f64 * 100.0)
}

/// Columns of a row besides its pieces.
pub fn chrome(names: usize) -> usize {
    names + " 100 %".len() + 2
}

/// Width of the longest of some threads' names, 2 to 16 columns.
pub fn name_columns(report: &Report, lanes: &[&Lane]) -> usize {
    let widths = lanes
        .iter()
        .map(|lane| super::words::width(&thread(report, lane.thread)));
    widths.max().unwrap_or(2).clamp(2, 16)
}

/// One row: the thread's name, the pieces, the share of waiting.
pub fn line(
    lane: &Lane,
    snapshot: &Snapshot,
    window: Window,
    names: usize,
    look: Look,
) -> Line<'static> {
    let name = left(&thread(&snapshot.report, lane.thread), names, look);
    let mut spans = vec![Span::raw(format!(" {name} "))];
    for run in inks(lane, snapshot, window).chunk_by(|a, b| a == b) {
        let text: String = run.iter().map(|ink| ink.glyph(look)).collect();
        spans.push(Span::styled(text, run[0].style(look)));
    }
    let share = percent(waiting_pct(lane, snapshot, window));
    spans.push(Span::raw(format!(" {share:>5}")));
    Line::from(spans)
}

/// Number of entries of [`Ink::NAMED`] in a complete legend.
pub const ALL: usize = Ink::NAMED.len();
/// Number of entries without the one for unwatched time.
pub const KNOWN: usize = ALL - 1;
/// Number of entries for the kinds that always occur.
pub const MAIN: usize = 2;

/// Number of entries in the legend. The entry for unwatched time is omitted if there was none: it
/// would only puzzle.
pub fn kinds(snapshot: &Snapshot) -> usize {
    let is_off = matches!(snapshot.watching, Watching::Off { .. });
    if is_off || !snapshot.gaps.is_empty() {
        ALL
    } else {
        KNOWN
    }
}

/// A legend of the first `names` kinds.
pub fn key(names: usize, look: Look) -> Line<'static> {
    let mut spans = Vec::new();
    for (ink, name) in Ink::NAMED.iter().take(names) {
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        let glyph = ink.glyph(look).to_string();
        spans.push(Span::styled(glyph, ink.style(look)));
        spans.push(Span::raw(format!(" {name}")));
    }
    Line::from(spans)
}

/// Length of a window, ns.
pub fn length_ns(snapshot: &Snapshot, window: Window) -> u64 {
    snapshot.lanes.piece_ns * window.pieces as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::samples;

    fn lane(pieces: &[(u32, u32)]) -> Lane {
        let piece = |(work, idle): &(u32, u32)| Piece {
            work: *work,
            idle: *idle,
            ..Piece::default()
        };
        Lane {
            thread: 0,
            pieces: pieces.iter().map(piece).collect(),
        }
    }

    fn row(lane: &Lane, pieces: usize) -> String {
        let mut snapshot = samples::empty();
        snapshot.lanes.piece_ns = 100;
        snapshot.lanes.end_ns = 6400;
        let look = Look {
            unicode: false,
            color: false,
        };
        let window = Window {
            end_ns: 6400,
            pieces,
        };
        let inks = inks(lane, &snapshot, window);
        inks.iter().map(|ink| ink.glyph(look)).collect()
    }

    #[test]
    fn pieces_stand_at_the_end_of_the_row() {
        assert_eq!(row(&lane(&[(100, 0), (0, 100), (0, 0)]), 5), "  #. ");
        assert_eq!(row(&lane(&[(100, 0), (0, 100)]), 1), ".");
        assert_eq!(row(&lane(&[]), 2), "  ");
    }

    #[test]
    fn mixed_pieces_add_up() {
        let mixed = row(&lane(&[(75, 25); 64]), 64);
        assert_eq!(mixed.matches('.').count(), 16, "{mixed}");
        let half = row(&lane(&[(40, 20); 64]), 64);
        // Unknown time counts as well among the 64 pieces.
        for (glyph, expected) in [('#', 25.6), ('.', 12.8), (' ', 25.6)] {
            let drawn = half.matches(glyph).count() as f64;
            assert!((drawn - expected).abs() <= 1.0, "{glyph} in {half}");
        }
    }

    #[test]
    fn the_picture_stays_as_it_moves() {
        let lane = lane(&[(70, 30); 64]);
        assert!(row(&lane, 40).ends_with(&row(&lane, 33)));
    }
}
