//! The recent past of each thread in equal pieces of time, for the timeline of the live screen.
//! Memory is bounded: at most [`MAX_LANES`] threads, each with the last [`PIECES`] pieces of every
//! length in [`LEVELS`].

use rustc_hash::FxHashMap;

use super::{ids::ThreadId, parts::Split};

/// Lengths of pieces, ns: the zoom levels.
pub const LEVELS: [u64; 6] = [
    131_072,
    1_048_576,
    8_388_608,
    67_108_864,
    536_870_912,
    4_294_967_296,
];

/// Pieces of each lane and level, at most.
pub const PIECES: usize = 512;

/// Threads whose lanes are kept, at most; the thread silent for longest gives way.
pub const MAX_LANES: usize = 256;

/// How a thread spent a piece of time, ns; the rest of the piece is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Outside of barriers and on a CPU, or not known to be without one.
    pub work: u32,
    /// Outside of barriers, waiting for a CPU.
    pub ready: u32,
    /// Outside of barriers, asleep.
    pub blocked: u32,
    /// In a barrier before the last arrival.
    pub idle: u32,
    /// In a barrier after the last arrival.
    pub release: u32,
}

/// An activity of a thread.
#[derive(Clone, Copy, Debug)]
pub enum Doing {
    /// Work; its parts are assumed to be spread evenly over it.
    Work(Split),
    /// Waiting for other threads.
    Idle,
    /// Waiting to leave the barrier.
    Release,
}

impl Piece {
    /// Adds `part` ns out of a stretch of `whole` ns.
    pub fn add(&mut self, doing: Doing, part: u64, whole: u64) {
        let put = |slot: &mut u32, ns: u64| {
            *slot = slot.saturating_add(u32::try_from(ns).unwrap_or(u32::MAX));
        };
        match doing {
            Doing::Idle => put(&mut self.idle, part),
            Doing::Release => put(&mut self.release, part),
            Doing::Work(split) => {
                let share = |ns: Option<u64>| {
                    if part == whole {
                        return ns.unwrap_or(0);
                    }
                    let share = u128::from(ns.unwrap_or(0).min(whole)) * u128::from(part);
                    u64::try_from(share / u128::from(whole.max(1))).unwrap_or(part)
                };
                let ready = share(split.ready_ns).min(part);
                let blocked = share(split.blocked_ns).min(part - ready);
                put(&mut self.ready, ready);
                put(&mut self.blocked, blocked);
                put(&mut self.work, part - ready - blocked);
            }
        }
    }
}

/// Pieces of one length; piece `n` of the run lies at `n % PIECES`.
#[derive(Clone, Debug)]
struct Ring {
    pieces: Box<[Piece]>,
    /// The number of the newest piece.
    newest: u64,
}

impl Ring {
    fn new(newest: u64) -> Self {
        Self {
            pieces: vec![Piece::default(); PIECES].into(),
            newest,
        }
    }

    fn slot(&mut self, number: u64) -> &mut Piece {
        let length = self.pieces.len() as u64;
        &mut self.pieces[usize::try_from(number % length).unwrap_or(0)]
    }

    /// The number of the oldest piece that is kept.
    fn oldest(&self) -> u64 {
        self.newest.saturating_sub(PIECES as u64 - 1)
    }

    fn advance(&mut self, number: u64) {
        let from = (self.newest + 1).max(number.saturating_sub(PIECES as u64 - 1));
        for new in from..=number {
            *self.slot(new) = Piece::default();
        }
        self.newest = self.newest.max(number);
    }

    fn add(&mut self, piece_ns: u64, (from_ns, to_ns): (u64, u64), doing: Doing) {
        self.advance(to_ns / piece_ns);
        let whole = to_ns - from_ns;
        for number in (from_ns / piece_ns).max(self.oldest())..=to_ns / piece_ns {
            let begin = number * piece_ns;
            let end = begin.saturating_add(piece_ns).min(to_ns);
            let part = end.saturating_sub(begin.max(from_ns));
            self.slot(number).add(doing, part, whole);
        }
    }
}

/// The lanes of all threads.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    of: FxHashMap<ThreadId, Vec<Ring>>,
}

impl Lanes {
    /// Adds an activity of a thread that lasted from `span.0` to `span.1`, ns.
    pub fn add(&mut self, thread: ThreadId, span: (u64, u64), doing: Doing) {
        if span.1 <= span.0 {
            return;
        }
        if !self.of.contains_key(&thread) {
            self.make_room();
        }
        let rings = self.of.entry(thread).or_insert_with(|| {
            let rings = LEVELS.iter().map(|piece_ns| Ring::new(span.0 / piece_ns));
            rings.collect()
        });
        for (ring, piece_ns) in rings.iter_mut().zip(LEVELS) {
            ring.add(piece_ns, span, doing);
        }
    }

    fn make_room(&mut self) {
        if self.of.len() < MAX_LANES {
            return;
        }
        let newest = |rings: &Vec<Ring>| rings.first().map(|ring| ring.newest);
        let silent = self.of.iter().min_by_key(|(_, rings)| newest(rings));
        if let Some(thread) = silent.map(|(thread, _)| *thread) {
            self.of.remove(&thread);
        }
    }

    /// The threads that have a lane.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> {
        self.of.keys().copied()
    }

    /// The pieces of a thread at a zoom level, numbered `from..to` since time 0. Pieces that are
    /// not kept, or not there yet, are empty.
    pub fn pieces(&self, thread: ThreadId, level: usize, from: u64, to: u64) -> Vec<Piece> {
        let ring = self.of.get(&thread).and_then(|rings| rings.get(level));
        (from..to)
            .map(|number| match ring {
                Some(ring) if (ring.oldest()..=ring.newest).contains(&number) => {
                    let length = ring.pieces.len() as u64;
                    ring.pieces[usize::try_from(number % length).unwrap_or(0)]
                }
                _ => Piece::default(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THREAD: ThreadId = ThreadId(3);

    fn all(lanes: &Lanes, level: usize, to: u64) -> Vec<Piece> {
        lanes.pieces(THREAD, level, 0, to)
    }

    #[test]
    fn a_span_is_cut_into_pieces() {
        let mut lanes = Lanes::default();
        let step = LEVELS[0];
        lanes.add(THREAD, (step / 2, 2 * step + 10), Doing::Idle);
        let idle: Vec<u64> = all(&lanes, 0, 4).iter().map(|p| p.idle.into()).collect();
        assert_eq!(idle, [step / 2, step, 10, 0]);
        let split = Split {
            running_ns: Some(step / 2),
            ready_ns: Some(step / 4),
            blocked_ns: Some(step / 4),
        };
        lanes.add(THREAD, (3 * step, 4 * step), Doing::Work(split));
        let piece = all(&lanes, 0, 4)[3];
        let quarter = u32::try_from(step / 4).unwrap();
        assert_eq!((piece.work, piece.ready), (2 * quarter, quarter));
        assert_eq!((piece.blocked, piece.idle), (quarter, 0));
        // The next coarser level has all of the time in one piece.
        assert_eq!(u64::from(all(&lanes, 1, 1)[0].idle), step / 2 + step + 10);
    }

    #[test]
    fn what_is_old_gives_way_and_the_whole_of_a_piece_fits() {
        let mut lanes = Lanes::default();
        let step = LEVELS[0];
        lanes.add(THREAD, (0, step), Doing::Release);
        let later = 10 * PIECES as u64;
        lanes.add(THREAD, (later * step, (later + 1) * step), Doing::Release);
        assert_eq!(all(&lanes, 0, 1)[0], Piece::default());
        let found = lanes.pieces(THREAD, 0, later, later + 1);
        assert_eq!(u64::from(found[0].release), step);
        lanes.add(THREAD, (0, LEVELS[5]), Doing::Idle);
        assert_eq!(all(&lanes, 5, 1)[0].idle, u32::MAX);
    }

    #[test]
    fn the_thread_that_was_silent_longest_loses_its_lane() {
        let mut lanes = Lanes::default();
        for number in 0..=MAX_LANES {
            let thread = ThreadId(u32::try_from(number).unwrap());
            let at = (number as u64 + 1) * LEVELS[0];
            lanes.add(thread, (at, at + 1000), Doing::Idle);
        }
        assert_eq!(lanes.threads().count(), MAX_LANES);
        assert!(lanes.threads().all(|thread| thread != ThreadId(0)));
    }

    proptest! {
        /// Nothing is lost or counted twice at any level.
        #[test]
        fn pieces_add_up(spans in prop::collection::vec((0_u64..50_000_000, 0_u64..9_000_000), 1..20)) {
            let mut lanes = Lanes::default();
            let mut sum = 0;
            for (from, length) in &spans {
                lanes.add(THREAD, (*from, from + length), Doing::Idle);
                sum += length;
            }
            for (level, piece_ns) in LEVELS.iter().enumerate() {
                let to = 60_000_000 / piece_ns + 1;
                let pieces = all(&lanes, level, to);
                let found: u64 = pieces.iter().map(|piece| u64::from(piece.idle)).sum();
                prop_assert_eq!(found, sum);
            }
        }
    }
}
