//! The amount of work of a demo: a number of rounds, or rounds until a time has passed.
//!
//! All threads do the same number of rounds, no matter when each reads the clock: thread 0 alone
//! decides before a round whether this round is the last, and the other threads learn this after
//! the round. The barriers of the round lie in between, so no further barrier is needed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{TIME, scaled};

/// The amount of work of a demo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// The work relative to the usual amount, however long it takes; above 0.
    Scale(f64),
    /// The usual work, repeated for this duration.
    Time(Duration),
}

impl Size {
    /// The size for the user's choice of a time, a scale, or neither.
    pub fn chosen(scale: Option<f64>, time: Option<Duration>) -> Self {
        match (time, scale) {
            (None, Some(scale)) => Self::Scale(scale),
            (time, _) => Self::Time(time.unwrap_or(TIME)),
        }
    }

    /// The amount of work relative to the usual amount.
    pub const fn factor(self) -> f64 {
        match self {
            Self::Scale(scale) => scale,
            Self::Time(_) => 1.0,
        }
    }

    /// `usual` rounds times the scale, or rounds for the duration.
    pub fn scaled_rounds(self, usual: usize) -> Rounds {
        self.rounds(scaled(usual, self.factor(), 1))
    }

    /// `number` rounds at any scale, because the size of each round follows the scale; or rounds
    /// for the duration.
    pub fn rounds(self, number: usize) -> Rounds {
        match self {
            Self::Scale(_) => Rounds::of(number),
            Self::Time(time) => Rounds::during(time),
        }
    }
}

/// The rounds of a demo, which its threads do together.
#[derive(Debug)]
pub struct Rounds {
    /// Number of rounds, unless `time` limits them.
    number: usize,
    /// The duration and its end, if a duration limits the rounds.
    time: Option<(Duration, Instant)>,
    /// Index of the last round; `usize::MAX` until thread 0 knows.
    last: AtomicUsize,
}

impl Rounds {
    /// A fixed number of rounds, at least one.
    pub const fn of(number: usize) -> Self {
        Self {
            number,
            time: None,
            last: AtomicUsize::new(usize::MAX),
        }
    }

    /// Rounds for a duration from now on. The round in progress at its end is the last one.
    pub fn during(time: Duration) -> Self {
        Self {
            number: usize::MAX,
            time: Some((time, Instant::now() + time)),
            last: AtomicUsize::new(usize::MAX),
        }
    }

    /// The rounds of thread `me`, in order. In each round all threads have to meet at a barrier.
    pub fn by(&self, me: usize) -> impl Iterator<Item = usize> {
        (0_usize..)
            .take_while(move |round| match round.checked_sub(1) {
                Some(before) => self.last.load(Ordering::Relaxed) > before,
                None => true,
            })
            .inspect(move |round| {
                if me == 0 && self.is_last(*round) {
                    self.last.store(*round, Ordering::Relaxed);
                }
            })
    }

    fn is_last(&self, round: usize) -> bool {
        let is_over = |(_, end)| Instant::now() >= end;
        round + 1 >= self.number || self.time.is_some_and(is_over)
    }

    /// The number of rounds done, once all threads have finished.
    pub fn done(&self) -> usize {
        self.last.load(Ordering::Relaxed).saturating_add(1)
    }

    /// The amount in words: the number of `what`, or the duration.
    pub fn told(&self, what: &str) -> String {
        match self.time {
            Some((time, _)) => format!("{what} for {} s", time.as_secs_f64()),
            None => format!("{} {what}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{barrier::Barrier, team};
    use super::*;

    /// The number of rounds that each thread has done.
    fn done_by(threads: usize, rounds: &Rounds) -> Vec<usize> {
        let barrier = Barrier::new(threads).unwrap();
        let done: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        team::run("rounds", threads, |me| {
            for round in rounds.by(me) {
                assert_eq!(done[me].fetch_add(1, Ordering::Relaxed), round);
                barrier.wait();
            }
        })
        .unwrap();
        done.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn all_threads_do_the_same_number() {
        for number in [1, 2, 50] {
            let rounds = Rounds::of(number);
            assert_eq!(done_by(4, &rounds), [number; 4]);
            assert_eq!(rounds.done(), number);
        }
        for ms in [0, 30] {
            let rounds = Rounds::during(Duration::from_millis(ms));
            let done = done_by(4, &rounds);
            assert!(done[0] >= 1);
            assert_eq!(done, [rounds.done(); 4]);
        }
    }

    #[test]
    fn a_time_passes_before_the_last_round_ends() {
        let time = Duration::from_millis(50);
        let begin = Instant::now();
        done_by(2, &Rounds::during(time));
        assert!(begin.elapsed() >= time);
    }

    #[test]
    fn the_scale_holds_for_one_or_the_other() {
        let scale = Size::Scale(0.5);
        assert_eq!(scale.scaled_rounds(192).told("sorts"), "96 sorts");
        assert_eq!(scale.rounds(48).told("rounds"), "48 rounds");
        assert_eq!(
            Size::Scale(1e-6).scaled_rounds(192).told("sorts"),
            "1 sorts"
        );
        let time = Size::Time(Duration::from_millis(8500));
        assert_eq!(time.scaled_rounds(90).told("steps"), "steps for 8.5 s");
        assert!((time.factor() - 1.0).abs() < f64::EPSILON);
    }
}
