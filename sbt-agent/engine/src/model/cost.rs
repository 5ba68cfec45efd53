//! The cost of watching for each thread: probe hits by kind, and the cost of each kind. Hits are
//! counted rather than timed, so that they also cover the time before the costs were measured.

use serde::{Deserialize, Serialize};

/// Kinds of probes that cost differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A function that waits at a barrier was entered.
    Wait,
    /// A team's barrier function of OpenMP, C++ or Rust was entered.
    Team,
    /// A function that the user named, or one of MPI's, was entered.
    Call,
    /// A function that the user named, or one of MPI's, was left.
    CallEnd,
    /// A function returned: the additional cost of the return probe.
    Return,
    /// A function of condition variables was entered.
    Condvar,
    /// A marked place was passed.
    Mark,
    /// A parallel region of OpenMP began.
    Region,
}

impl Class {
    /// All classes, in the order of their discriminants.
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
}

/// The number of kinds.
pub const CLASSES: usize = Class::ALL.len();

/// Costs of one hit for the thread that hits the probe, ns of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tariff {
    /// Cost by [`Class`], on an instruction that the kernel emulates.
    pub each: [f64; CLASSES],
    /// Additional cost on an instruction that the kernel single-steps.
    pub step: f64,
    /// Additional cost of each function beyond the first in a chain of callers.
    pub walk: f64,
}

/// Probe hits since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    /// Hits by [`Class`].
    pub hits: [u32; CLASSES],
    /// Hits on instructions that are single-stepped.
    pub stepped: u32,
    /// Functions beyond the first in the chains of callers.
    pub walked: u32,
}

impl Paid {
    /// Adds one hit.
    pub fn add(&mut self, class: Class) {
        self.hits[class as usize] += 1;
    }

    /// Cost of the hits, ns.
    pub fn ns(&self, tariff: &Tariff) -> f64 {
        let hits = self.hits.iter().zip(tariff.each);
        let hits: f64 = hits.map(|(hits, ns)| f64::from(*hits) * ns).sum();
        hits + f64::from(self.stepped) * tariff.step + f64::from(self.walked) * tariff.walk
    }
}

/// Probe hits over a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Hits by [`Class`].
    pub hits: [u64; CLASSES],
    /// Hits on instructions that are single-stepped.
    pub stepped: u64,
    /// Functions beyond the first in the chains of callers.
    pub walked: u64,
}

impl Sum {
    /// Adds one hit.
    pub fn add(&mut self, class: Class) {
        self.hits[class as usize] += 1;
    }

    /// Adds the hits of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (hits, more) in self.hits.iter_mut().zip(other.hits) {
            *hits += more;
        }
        self.stepped += other.stepped;
        self.walked += other.walked;
    }

    /// Number of hits.
    pub fn events(&self) -> u64 {
        self.hits.iter().sum()
    }

    /// Cost of the hits, ns.
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
