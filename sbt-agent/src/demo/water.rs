//! Molecular dynamics with a loop over all pairs j < i, with two ways of giving the rows of that
//! triangle to the threads.
//!
//! The shape of SPLASH's water (n squared): a predictor, the forces between all pairs, their
//! reduction over the threads, a corrector, and the energies. Molecule i is paired with those
//! before it, so the last ones have the most partners. If the threads get equal contiguous parts,
//! the last of four has 7/16 of all pairs; if each gets rows from both ends, all have the same
//! number. The two phases with pair loops hold nearly all of the time.
//!
//! Molecules are points with a Lennard-Jones force, in its units, in a periodic box; velocity
//! Verlet steps.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};

use super::barrier::Barrier;
use super::molecules::{self, Space, Vector};
use super::rounds::{Rounds, Size};
use super::shared::Shared;
use super::{say, team};

/// Molecules along each edge of the initial lattice.
const EDGE: usize = 16;
const STEPS: usize = 90;
/// Length of a time step.
const DT: f64 = 0.002;
/// Of the total energy's change against the kinetic energy.
const DRIFT_TOLERANCE: f64 = 0.01;
/// Of momentum and force sums, and of forces against those computed serially.
const ROUNDING: f64 = 1e-8;

/// The molecules that each thread pairs with those before them.
#[derive(Clone, Copy)]
pub enum Deal {
    /// Its own, which lie one after the other.
    Block,
    /// As many from the beginning as from the end: the triangle folded in the middle.
    Folded,
}

struct Water {
    space: Space,
    count: usize,
    threads: usize,
    deal: Deal,
    positions: Shared<Vector>,
    velocities: Shared<Vector>,
    forces: Shared<Vector>,
    /// Per thread, the forces on all molecules that its pairs exert.
    partial: Shared<Vector>,
    /// Each thread's contributions to the kinetic and the potential energy of each step, in turns.
    /// A thread locks its own list only, until all are done.
    energies: Vec<Mutex<Vec<f64>>>,
    barrier: Barrier,
}

/// Runs the time steps and checks what is conserved; gives the check's outcome.
pub fn run(deal: Deal, threads: usize, size: Size) -> Result<String> {
    let steps = size.scaled_rounds(STEPS);
    let how = match deal {
        Deal::Block => "in blocks",
        Deal::Folded => "folded",
    };
    say(&format!(
        "water, {} molecules, {}, {threads} threads, pairs {how}",
        EDGE.pow(3),
        steps.told("time steps")
    ))?;
    let drift = Water::new(EDGE, threads, deal)?.simulate(&steps)?;
    Ok(format!("energy within {:.2} %", 100.0 * drift))
}

impl Water {
    fn new(edge: usize, threads: usize, deal: Deal) -> Result<Self> {
        let (space, count) = (Space::new(edge), edge.pow(3));
        let water = Self {
            space,
            count,
            threads,
            deal,
            positions: Shared::new(count, [0.0; 3]),
            velocities: Shared::new(count, [0.0; 3]),
            forces: Shared::new(count, [0.0; 3]),
            partial: Shared::new(threads * count, [0.0; 3]),
            energies: (0..threads).map(|_| Mutex::default()).collect(),
            barrier: Barrier::new(threads)?,
        };
        let (positions, velocities) = molecules::lattice(edge);
        // SAFETY: nobody else knows the arrays yet.
        unsafe {
            water.positions.write(0..count).copy_from_slice(&positions);
            water
                .velocities
                .write(0..count)
                .copy_from_slice(&velocities);
        }
        Ok(water)
    }

    /// Largest relative change of the energy; it is an error if anything is not conserved.
    fn simulate(self, steps: &Rounds) -> Result<f64> {
        team::run("water", self.threads, |me| {
            self.pair_forces(me);
            self.reduce_forces(me);
            for _ in steps.by(me) {
                self.predict(me);
                self.pair_forces(me);
                self.reduce_forces(me);
                self.correct(me);
                self.kinetic_energy(me);
                self.potential_energy(me);
            }
        })?;
        self.check()
    }

    #[inline(never)]
    fn predict(&self, me: usize) {
        // SAFETY: this phase uses them in this way only.
        let (positions, velocities, forces) = unsafe { self.mine(me) };
        for ((position, velocity), force) in positions.iter_mut().zip(velocities).zip(forces) {
            for axis in 0..3 {
                velocity[axis] += 0.5 * DT * force[axis];
                let moved = position[axis] + DT * velocity[axis];
                position[axis] = self.space.wrap(moved);
            }
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn pair_forces(&self, me: usize) {
        // SAFETY: nobody moves molecules in this phase; the row of partial forces is our own.
        let (positions, partial) = unsafe {
            (
                self.positions.read(0..self.count),
                self.partial.write(self.row(me)),
            )
        };
        partial.fill([0.0; 3]);
        for i in self.paired(me) {
            let mut on_i = [0.0; 3];
            for (other, on_other) in positions[..i].iter().zip(&mut *partial) {
                if let Some(force) = self.space.force(&positions[i], other) {
                    for axis in 0..3 {
                        on_i[axis] += force[axis];
                        on_other[axis] -= force[axis];
                    }
                }
            }
            for axis in 0..3 {
                partial[i][axis] += on_i[axis];
            }
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn reduce_forces(&self, me: usize) {
        let part = self.part(me);
        // SAFETY: a thread's own molecules.
        let forces = unsafe { self.forces.write(part.clone()) };
        forces.fill([0.0; 3]);
        for thread in 0..self.threads {
            let row = thread * self.count;
            // SAFETY: partial forces are only read in this phase.
            let partial = unsafe { self.partial.read(row + part.start..row + part.end) };
            for (sum, force) in forces.iter_mut().zip(partial) {
                for axis in 0..3 {
                    sum[axis] += force[axis];
                }
            }
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn correct(&self, me: usize) {
        // SAFETY: this phase uses them in this way only.
        let (_, velocities, forces) = unsafe { self.mine(me) };
        for (velocity, force) in velocities.iter_mut().zip(forces) {
            for axis in 0..3 {
                velocity[axis] += 0.5 * DT * force[axis];
            }
        }
        self.barrier.wait();
    }

    #[inline(never)]
    fn kinetic_energy(&self, me: usize) {
        // SAFETY: this phase uses them in this way only.
        let (_, velocities, _) = unsafe { self.mine(me) };
        let twice: f64 = velocities.iter().flatten().map(|v| v * v).sum();
        self.record(me, 0.5 * twice);
        self.barrier.wait();
    }

    #[inline(never)]
    fn potential_energy(&self, me: usize) {
        // SAFETY: nobody moves molecules in this phase.
        let positions = unsafe { self.positions.read(0..self.count) };
        let mut sum = 0.0;
        for i in self.paired(me) {
            for other in &positions[..i] {
                sum += self.space.energy(&positions[i], other);
            }
        }
        self.record(me, sum);
        self.barrier.wait();
    }

    /// Positions, velocities and forces of a thread's own molecules.
    ///
    /// # Safety
    /// In this phase no thread uses another one's molecules, nor its own in a second way.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the contract, not the type"
    )]
    unsafe fn mine(&self, me: usize) -> (&mut [Vector], &mut [Vector], &[Vector]) {
        let part = self.part(me);
        // SAFETY: the caller's promise.
        unsafe {
            (
                self.positions.write(part.clone()),
                self.velocities.write(part.clone()),
                self.forces.read(part),
            )
        }
    }

    fn record(&self, me: usize, energy: f64) {
        let mut mine = self.energies[me]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        mine.push(energy);
    }

    /// Kinetic and potential energy of each step, over all threads.
    fn energies(self) -> Vec<[f64; 2]> {
        let mut steps = Vec::new();
        for list in self.energies {
            let list = list.into_inner().unwrap_or_else(PoisonError::into_inner);
            let (list, _) = list.as_chunks();
            steps.resize(list.len(), [0.0; 2]);
            for (sum, [kinetic, potential]) in steps.iter_mut().zip(list) {
                sum[0] += kinetic;
                sum[1] += potential;
            }
        }
        steps
    }

    fn part(&self, me: usize) -> Range<usize> {
        team::part(self.count, self.threads, me)
    }

    /// The molecules that `me` pairs with all those before them.
    fn paired(&self, me: usize) -> impl Iterator<Item = usize> + use<> {
        let (low, high) = match self.deal {
            Deal::Block => (self.part(me), 0..0),
            Deal::Folded => {
                let low = team::part(self.count.div_ceil(2), self.threads, me);
                // The mirror image, without the middle row of an odd number.
                let high = (self.count - low.end).max(low.end)..self.count - low.start;
                (low, high)
            }
        };
        low.chain(high)
    }

    fn row(&self, me: usize) -> Range<usize> {
        me * self.count..(me + 1) * self.count
    }

    fn check(mut self) -> Result<f64> {
        let (positions, forces) = (self.positions.as_slice(), self.forces.as_slice());
        for molecule in (0..5).map(|sample| sample * (self.count - 1) / 4) {
            let serial = self.space.force_on(molecule, positions);
            ensure!(
                molecules::distance(&serial, &forces[molecule]) < ROUNDING,
                "the force on molecule {molecule} is not the one computed serially"
            );
        }
        for (what, vectors) in [("force", forces), ("momentum", self.velocities.as_slice())] {
            let total = molecules::length(&molecules::sum(vectors));
            ensure!(
                total < ROUNDING * self.count as f64,
                "the total {what} is {total:.1e}"
            );
        }
        let energies = self.energies();
        let [kinetic, potential] = energies.first().copied().unwrap_or_default();
        let change = |[k, p]: &[f64; 2]| (k + p - kinetic - potential).abs() / kinetic;
        let drift = energies.iter().map(change).fold(0.0, f64::max);
        ensure!(
            drift < DRIFT_TOLERANCE,
            "the energy changes by {drift:.1e} of the kinetic energy"
        );
        Ok(drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEALS: [Deal; 2] = [Deal::Block, Deal::Folded];

    #[test]
    fn energy_and_momentum_are_conserved() {
        for deal in DEALS {
            for threads in [1, 3, 4] {
                let water = Water::new(6, threads, deal).unwrap();
                water.simulate(&Rounds::of(50)).unwrap();
            }
        }
    }

    #[test]
    fn a_wrong_force_is_found() {
        let water = Water::new(6, 1, Deal::Block).unwrap();
        water.predict(0);
        water.pair_forces(0);
        // Left out: reduce_forces.
        assert!(water.check().is_err());
    }

    #[test]
    fn every_molecule_is_paired_once() {
        for deal in DEALS {
            for (edge, threads) in [(3, 4), (4, 4), (2, 5), (1, 3)] {
                let water = Water::new(edge, threads, deal).unwrap();
                let mut all: Vec<usize> = (0..threads).flat_map(|me| water.paired(me)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..water.count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn folded_gives_all_the_same_number_of_pairs() {
        let pairs = |deal: Deal| -> Vec<usize> {
            let water = Water::new(4, 4, deal).unwrap();
            (0..4).map(|me| water.paired(me).sum()).collect()
        };
        assert_eq!(pairs(Deal::Folded), [504; 4]);
        assert_eq!(pairs(Deal::Block), [120, 376, 632, 888]);
    }
}
