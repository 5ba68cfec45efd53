//! Conceptual phases: from one barrier to another, whatever lies between.
//!
//! The thesis names them as future work ("user-defined start and end barriers
//! for one conceptual phase that contains other barriers"). Such a phase begins
//! with the last arrival at an episode of its first site and ends with that at
//! the next episode of its second, as ordinary phases do. If the first site is
//! passed again before, it goes on. They may overlap and contain each other.

use super::{
    site::{Part, Roles},
    stats::Stat,
    trend::{Bucket, Trend},
};

/// What happened in one of them.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Wall-clock times, from beginning to end.
    pub time: Stat,
    /// How they changed over the run.
    pub trend: Trend,
    /// Episodes inside, the one that ends it included.
    pub episodes: u64,
    /// Waiting for others inside, of all threads, ns.
    pub idle_ns: u64,
    /// Work inside, of all threads, ns.
    pub work_ns: u64,
    /// Work and idle time inside by [`super::thread::ThreadId`], ns.
    pub threads: Vec<(u64, u64)>,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.episodes += other.episodes;
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.work_ns = self.work_ns.saturating_add(other.work_ns);
        for (index, (work_ns, idle_ns)) in other.threads.iter().enumerate() {
            let (work, idle) = self.thread(index);
            *work = work.saturating_add(*work_ns);
            *idle = idle.saturating_add(*idle_ns);
        }
    }

    fn thread(&mut self, index: usize) -> &mut (u64, u64) {
        if self.threads.len() <= index {
            self.threads.resize(index + 1, (0, 0));
        }
        &mut self.threads[index]
    }

    fn take(&mut self, parts: &[Part]) {
        self.episodes += 1;
        for part in parts {
            let work_ns = part.work_ns.unwrap_or(0);
            self.idle_ns = self.idle_ns.saturating_add(part.idle_ns);
            self.work_ns = self.work_ns.saturating_add(work_ns);
            let (work, idle) = self.thread(part.row.index());
            *work = work.saturating_add(work_ns);
            *idle = idle.saturating_add(part.idle_ns);
        }
    }
}

/// One of them, and whether it is going on.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Those that have ended.
    pub done: Sums,
    /// When the present one began, ns.
    pub begun_ns: Option<u64>,
    /// What has happened in it so far; it counts when it ends.
    present: Sums,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Conceptual {
    spans: Vec<Span>,
}

impl Conceptual {
    /// For so many, at most 64.
    pub fn new(count: usize) -> Self {
        Self {
            spans: vec![Span::default(); count.min(64)],
        }
    }

    /// By their numbers.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// An episode was completed, its last thread having come at `last_ns`.
    pub(super) fn pass(&mut self, roles: Roles, last_ns: u64, parts: &[Part]) {
        for (number, span) in self.spans.iter_mut().enumerate() {
            let bit = 1_u64 << number;
            if let Some(begun_ns) = span.begun_ns {
                span.present.take(parts);
                // Episodes of other teams may be told a little out of order.
                if roles.ends & bit != 0 && last_ns > begun_ns {
                    span.end(begun_ns, last_ns);
                }
            }
            if roles.begins & bit != 0 && span.begun_ns.is_none() {
                span.begun_ns = Some(last_ns);
            }
        }
    }

    /// What is going on will not end.
    pub(super) fn abandon(&mut self) {
        for span in &mut self.spans {
            span.begun_ns = None;
            span.present = Sums::default();
        }
    }
}

impl Span {
    fn end(&mut self, begun_ns: u64, last_ns: u64) {
        self.begun_ns = None;
        let present = std::mem::take(&mut self.present);
        self.done.time.add(last_ns - begun_ns);
        self.done.trend.add(&Bucket {
            episodes: 1,
            last_ns,
            phases: (1, last_ns - begun_ns),
            barrier_ns: 0,
            idle_ns: present.idle_ns,
        });
        self.done.add(&present);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::thread::{Split, ThreadId};

    const fn roles(begins: u64, ends: u64) -> Roles {
        Roles {
            watched: false,
            begins,
            ends,
        }
    }

    fn part(work_ns: u64, idle_ns: u64) -> [Part; 1] {
        [Part {
            row: ThreadId(1),
            work_ns: Some(work_ns),
            idle_ns,
            release_ns: None,
            split: Split::default(),
        }]
    }

    /// Sites A, B, C in turns; phases A..C, B..C, A..A.
    #[test]
    fn they_contain_each_other_and_overlap() {
        let mut all = Conceptual::new(3);
        let (a, b, c) = (roles(0b101, 0b100), roles(0b010, 0), roles(0, 0b011));
        for round in 0..3 {
            let start = 100 * round;
            all.pass(a, start + 10, &part(5, 1));
            all.pass(b, start + 20, &part(6, 2));
            all.pass(c, start + 50, &part(7, 3));
        }
        let sum = |number: usize| {
            let sums = &all.spans()[number].done;
            (
                sums.time.count(),
                sums.time.sum(),
                sums.episodes,
                sums.work_ns,
                sums.idle_ns,
            )
        };
        assert_eq!(sum(0), (3, 3 * 40, 6, 39, 15));
        assert_eq!(sum(1), (3, 3 * 30, 3, 21, 9));
        assert_eq!(sum(2), (2, 2 * 100, 6, 36, 12));
        assert_eq!(all.spans()[0].done.threads, [(0, 0), (39, 15)]);
        assert_eq!(all.spans()[2].begun_ns, Some(210));
    }

    #[test]
    fn the_first_passing_begins_it() {
        let mut all = Conceptual::new(1);
        for time in [10, 20, 30] {
            all.pass(roles(1, 0), time, &[]);
        }
        all.pass(roles(0, 1), 40, &[]);
        all.pass(roles(0, 1), 50, &[]);
        assert_eq!(all.spans()[0].done.time.sum(), 30);
        assert_eq!(all.spans()[0].done.time.count(), 1);
    }

    #[test]
    fn what_is_abandoned_does_not_count() {
        let mut all = Conceptual::new(1);
        all.pass(roles(1, 0), 10, &[]);
        all.pass(roles(0, 0), 15, &part(5, 5));
        all.abandon();
        all.pass(roles(0, 1), 20, &[]);
        assert_eq!(all.spans()[0].done.time.count(), 0);
        assert_eq!(all.spans()[0].done.episodes, 0);
    }
}
