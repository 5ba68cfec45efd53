//! How much a demo does: a number of rounds, or rounds until a time has passed.
//!
//! All threads do the same number of rounds, whoever reads the clock when: thread 0 alone decides
//! before a round whether it is the last one, and the others learn of it after that round. The
//! barriers of the round lie in between, so no barrier has to be added.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{TIME, scaled};

/// How much a demo does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// An amount of work against that of 1, however long it takes; above 0.
    Scale(f64),
    /// Work of the usual size, again and again for so long.
    Time(Duration),
}

impl Size {
    /// By what the user has said: a time, a scale, or neither.
    pub fn chosen(scale: Option<f64>, time: Option<Duration>) -> Self {
        match (time, scale) {
            (None, Some(scale)) => Self::Scale(scale),
            (time, _) => Self::Time(time.unwrap_or(TIME)),
        }
    }

    /// The amount of work against the usual one.
    pub const fn factor(self) -> f64 {
        match self {
            Self::Scale(scale) => scale,
            Self::Time(_) => 1.0,
        }
    }

    /// As many rounds as `usual`, times the scale.
    pub fn scaled_rounds(self, usual: usize) -> Rounds {
        self.rounds(scaled(usual, self.factor(), 1))
    }

    /// `number` rounds, whatever the scale: the size of each follows it.
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
    /// How many, if not for a time.
    number: usize,
    /// For how long, and until when.
    time: Option<(Duration, Instant)>,
    /// The last one, once thread 0 knows.
    last: AtomicUsize,
}

impl Rounds {
    /// So many, at least one.
    pub const fn of(number: usize) -> Self {
        Self {
            number,
            time: None,
            last: AtomicUsize::new(usize::MAX),
        }
    }

    /// From now on for so long; the round that is under way then is the last one.
    pub fn during(time: Duration) -> Self {
        Self {
            number: usize::MAX,
            time: Some((time, Instant::now() + time)),
            last: AtomicUsize::new(usize::MAX),
        }
    }

    /// Those of thread `me`, one after the other. In each of them all threads have to meet at a
    /// barrier.
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

    /// How many there were, when all threads are done.
    pub fn done(&self) -> usize {
        self.last.load(Ordering::Relaxed).saturating_add(1)
    }

    /// So many of `what`, in words, or for how long.
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

    /// How many rounds each of some threads has done.
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
