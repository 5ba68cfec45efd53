//! What watching has cost each thread: hits of probes by kind, and what one of each
//! kind costs. Counted and not timed, so that the figures are there also for what
//! happened before the costs were measured.

use serde::{Deserialize, Serialize};

/// Kinds of probes that cost differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A function that waits at a barrier was entered.
    Wait,
    /// The same of a team: OpenMP, C++ and Rust.
    Team,
    /// A function that the user has named, or one of MPI's.
    Call,
    /// The end of one of those.
    CallEnd,
    /// A function returned: the return probe, with what it adds to the entry.
    Return,
    /// A function of condition variables was entered.
    Condvar,
    /// A marked place was passed.
    Mark,
    /// A parallel region of OpenMP began.
    Region,
}

impl Class {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Wait,
        Self::Team,
        Self::Call,
        Self::CallEnd,
        Self::Return,
        Self::Condvar,
        Self::Mark,
        Self::Region,
    ];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "arrival",
            Self::Team => "team-arrival",
            Self::Call => "call",
            Self::CallEnd => "call-end",
            Self::Return => "departure",
            Self::Condvar => "condvar",
            Self::Mark => "mark",
            Self::Region => "region",
        }
    }
}

/// How many kinds there are.
pub const CLASSES: usize = Class::ALL.len();

/// What one of each costs the thread that hits it, ns of its CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tariff {
    /// By [`Class`], on an instruction that the kernel emulates.
    pub each: [f64; CLASSES],
    /// More than that on one that it single-steps.
    pub step: f64,
    /// More for each function beyond the first in a chain of callers.
    pub walk: f64,
}

/// Hits since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    /// By [`Class`].
    pub hits: [u32; CLASSES],
    /// Of those, on instructions that are single-stepped.
    pub stepped: u32,
    /// Functions that were walked beyond the first.
    pub walked: u32,
}

impl Paid {
    /// One hit.
    pub fn add(&mut self, class: Class) {
        self.hits[class as usize] += 1;
    }

    /// What that cost, ns.
    pub fn ns(&self, tariff: &Tariff) -> f64 {
        let hits = self.hits.iter().zip(tariff.each);
        let hits: f64 = hits.map(|(hits, ns)| f64::from(*hits) * ns).sum();
        hits + f64::from(self.stepped) * tariff.step + f64::from(self.walked) * tariff.walk
    }
}

/// The same over a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// By [`Class`].
    pub hits: [u64; CLASSES],
    /// See [`Paid::stepped`].
    pub stepped: u64,
    /// See [`Paid::walked`].
    pub walked: u64,
}

impl Sum {
    /// One hit.
    pub fn add(&mut self, class: Class) {
        self.hits[class as usize] += 1;
    }

    /// All of another.
    pub fn merge(&mut self, other: &Self) {
        for (hits, more) in self.hits.iter_mut().zip(other.hits) {
            *hits += more;
        }
        self.stepped += other.stepped;
        self.walked += other.walked;
    }

    /// How many hits.
    pub fn events(&self) -> u64 {
        self.hits.iter().sum()
    }

    /// What they cost, ns.
    pub fn ns(&self, tariff: &Tariff) -> f64 {
        let hits = self.hits.iter().zip(tariff.each);
        let hits: f64 = hits.map(|(hits, ns)| *hits as f64 * ns).sum();
        hits + self.stepped as f64 * tariff.step + self.walked as f64 * tariff.walk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARIFF: Tariff = Tariff {
        each: [1000.0, 1100.0, 1200.0, 900.0, 600.0, 800.0, 700.0, 700.0],
        step: 10_000.0,
        walk: 200.0,
    };

    #[test]
    fn each_kind_has_its_price() {
        let mut paid = Paid::default();
        let mut sum = Sum::default();
        for class in [Class::Wait, Class::Return, Class::Mark, Class::Mark] {
            paid.add(class);
            sum.add(class);
        }
        paid.stepped = 1;
        paid.walked = 3;
        sum.stepped = 1;
        sum.walked = 3;
        let expected = 1000.0 + 600.0 + 2.0 * 700.0 + 10_000.0 + 3.0 * 200.0;
        assert!((paid.ns(&TARIFF) - expected).abs() < 1e-9);
        assert!((sum.ns(&TARIFF) - expected).abs() < 1e-9);
        sum.merge(&sum.clone());
        assert_eq!(sum.events(), 8);
        assert!((sum.ns(&TARIFF) - 2.0 * expected).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_places_in_the_list() {
        for (number, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number);
        }
    }
}
