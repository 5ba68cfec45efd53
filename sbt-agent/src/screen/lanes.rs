//! Swim lanes: what threads did lately, a row each.

use ratatui::text::{Line, Span};

use super::words::{left, thread};
use crate::screen::theme::{Ink, Look};
use crate::show::table::percent;
use sbt_engine::{
    live::{Lane, Piece, Snapshot, Watching},
    report::Report,
};

/// A stretch of time, cut into pieces of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Where the last piece ends, ns.
    pub end_ns: u64,
    /// How many.
    pub pieces: usize,
}

/// Pieces over which the glyphs add up to what was measured.
const GROUP: u64 = 64;

/// The kinds of time in a piece, in the order of [`amounts`].
const KINDS: [Ink; 6] = [
    Ink::Work,
    Ink::Idle,
    Ink::Release,
    Ink::Ready,
    Ink::Blocked,
    Ink::Unknown,
];

/// ns of each of [`KINDS`].
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
    // The last piece is not over: what it lacks is yet to come.
    let unknown = if is_last && sum > 0 {
        0
    } else {
        piece_ns.saturating_sub(sum)
    };
    [work, idle, release, ready, blocked, unknown]
}

/// A lane's pieces in a window: from which on, and how many columns stay
/// empty before them.
fn part<'a>(lane: &'a Lane, snapshot: &Snapshot, window: Window) -> (&'a [Piece], usize, usize) {
    let piece_ns = snapshot.lanes.piece_ns.max(1);
    let behind = snapshot.lanes.end_ns.saturating_sub(window.end_ns) / piece_ns;
    let behind = usize::try_from(behind).unwrap_or(usize::MAX);
    let end = lane.pieces.len().saturating_sub(behind);
    let begin = end.saturating_sub(window.pieces);
    (&lane.pieces[..end], begin, window.pieces - (end - begin))
}

/// A character for every piece. A piece in which several things happened shows
/// that which is most behind in its row: so the characters of a row add up to
/// the times, however long the pieces are.
pub fn inks(lane: &Lane, snapshot: &Snapshot, window: Window) -> Vec<Ink> {
    let lanes = &snapshot.lanes;
    let piece_ns = lanes.piece_ns.max(1);
    let (pieces, begin, empty) = part(lane, snapshot, window);
    let mut inks = vec![Ink::Unknown; empty];
    // Counted from the beginning of time, so that the picture does not change
    // when it moves.
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
        // What is not in this piece at all is not drawn there.
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

/// Whether nobody watched then.
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

/// Columns of a lane that are not its pieces.
pub fn chrome(names: usize) -> usize {
    names + " 100 %".len() + 2
}

/// Columns that the names of some threads take, at most 16.
pub fn name_columns(report: &Report, lanes: &[&Lane]) -> usize {
    let widths = lanes
        .iter()
        .map(|lane| super::words::width(&thread(report, lane.thread)));
    widths.max().unwrap_or(2).clamp(2, 16)
}

/// A lane: name, pieces, share of waiting.
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

/// How many of [`Ink::NAMED`] a key explains: all,
pub const ALL: usize = Ink::NAMED.len();
/// those that are measured,
pub const KNOWN: usize = ALL - 1;
/// those that there always are.
pub const MAIN: usize = 2;

/// How many there are to explain: where it was watched all the time, a sign
/// for when it was not would only puzzle.
pub fn kinds(snapshot: &Snapshot) -> usize {
    let is_off = matches!(snapshot.watching, Watching::Off { .. });
    if is_off || !snapshot.gaps.is_empty() {
        ALL
    } else {
        KNOWN
    }
}

/// The key to the first so many characters.
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

/// How long a window is, ns.
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
        // Of 64, the unknown as well.
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
