//! The physics of the water demo: a periodic box and the force between two molecules in it.

use super::random;

/// A vector in space.
pub type Vector = [f64; 3];

/// Distance from one molecule to the next in the initial lattice.
const SPACING: f64 = 1.15;
/// Distance at which the force ends.
const CUTOFF: f64 = 2.5;

/// A cubic box that repeats in all directions.
pub struct Space {
    edge: f64,
    /// Square of the distance at which the force ends.
    cutoff2: f64,
    /// Force over distance, and potential, of the unshifted Lennard-Jones law at the cutoff.
    at_cutoff: (f64, f64),
}

impl Space {
    /// The box of a lattice of `edge` molecules each way.
    pub fn new(edge: usize) -> Self {
        let edge = edge as f64 * SPACING;
        let cutoff = CUTOFF.min(0.5 * edge);
        Self {
            edge,
            cutoff2: cutoff * cutoff,
            at_cutoff: lennard_jones(cutoff * cutoff),
        }
    }

    /// Maps a coordinate back into the box, if it has left the box by less than the box's size.
    pub fn wrap(&self, coordinate: f64) -> f64 {
        if coordinate < 0.0 {
            coordinate + self.edge
        } else if coordinate >= self.edge {
            coordinate - self.edge
        } else {
            coordinate
        }
    }

    /// The force on a molecule at `at` from another molecule; `None` beyond the cutoff.
    ///
    /// The force is shifted so that it falls to 0 at the cutoff without a jump, which conserves
    /// energy.
    pub fn force(&self, at: &Vector, other: &Vector) -> Option<Vector> {
        let (apart, r2) = self.nearest(at, other);
        (r2 < self.cutoff2).then(|| {
            let shift = self.at_cutoff.0 * (self.cutoff2 / r2).sqrt();
            let over_r = lennard_jones(r2).0 - shift;
            apart.map(|component| component * over_r)
        })
    }

    /// The potential energy of two molecules: the integral of `force`.
    pub fn energy(&self, at: &Vector, other: &Vector) -> f64 {
        let (_, r2) = self.nearest(at, other);
        if r2 < self.cutoff2 {
            let past = (r2 * self.cutoff2).sqrt() - self.cutoff2;
            lennard_jones(r2).1 - self.at_cutoff.1 + past * self.at_cutoff.0
        } else {
            0.0
        }
    }

    /// The sum of the forces of all other molecules on one molecule.
    pub fn force_on(&self, molecule: usize, positions: &[Vector]) -> Vector {
        let others = positions.iter().enumerate().filter(|(i, _)| *i != molecule);
        let forces: Vec<Vector> = others
            .filter_map(|(_, other)| self.force(&positions[molecule], other))
            .collect();
        sum(&forces)
    }

    /// The vector from the nearest image of `other` to `at`, and the square of its length.
    fn nearest(&self, at: &Vector, other: &Vector) -> (Vector, f64) {
        let half = 0.5 * self.edge;
        let mut apart = [0.0; 3];
        let mut r2 = 0.0;
        for axis in 0..3 {
            let d = at[axis] - other[axis];
            let back = if d > half { self.edge } else { 0.0 };
            let forth = if d < -half { self.edge } else { 0.0 };
            apart[axis] = d - back + forth;
            r2 += apart[axis] * apart[axis];
        }
        (apart, r2)
    }
}

/// Force over distance, and potential, at the squared distance `r2`.
fn lennard_jones(r2: f64) -> (f64, f64) {
    let inverse2 = 1.0 / r2;
    let inverse6 = inverse2 * inverse2 * inverse2;
    (
        24.0 * inverse2 * inverse6 * (2.0 * inverse6 - 1.0),
        4.0 * inverse6 * (inverse6 - 1.0),
    )
}

/// Positions on a cubic lattice of `edge` molecules each way, and random velocities without total
/// momentum.
pub fn lattice(edge: usize) -> (Vec<Vector>, Vec<Vector>) {
    let count = edge.pow(3);
    let place = |i: usize| (i as f64 + 0.5) * SPACING;
    let positions = (0..count)
        .map(|i| [i % edge, i / edge % edge, i / edge / edge].map(place))
        .collect();
    let speed = |i: usize| 3.0 * random::centred(i as u64);
    let mut velocities: Vec<Vector> = (0..count)
        .map(|i| [3 * i, 3 * i + 1, 3 * i + 2].map(speed))
        .collect();
    let mean = sum(&velocities).map(|component| component / count as f64);
    for velocity in &mut velocities {
        for axis in 0..3 {
            velocity[axis] -= mean[axis];
        }
    }
    (positions, velocities)
}

/// The sum of some vectors.
pub fn sum(vectors: &[Vector]) -> Vector {
    vectors.iter().fold([0.0; 3], |sum, vector| {
        [sum[0] + vector[0], sum[1] + vector[1], sum[2] + vector[2]]
    })
}

/// The length of a vector.
pub fn length(vector: &Vector) -> f64 {
    distance(vector, &[0.0; 3])
}

/// The length of the difference of two vectors.
pub fn distance(a: &Vector, b: &Vector) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).powi(2))
        .sum::<f64>()
        .sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_force_is_the_slope_of_the_energy() {
        let space = Space::new(8);
        let step = 1e-6;
        for at in [0.95, 1.2, 1.9, 2.45] {
            let energy = |x: f64| space.energy(&[x, 0.0, 0.0], &[0.0; 3]);
            let slope = (energy(at + step) - energy(at - step)) / (2.0 * step);
            let force = space.force(&[at, 0.0, 0.0], &[0.0; 3]).unwrap()[0];
            assert!(
                (force + slope).abs() < 1e-5 * (1.0 + force.abs()),
                "{at}: {force} {slope}"
            );
        }
        assert!(space.force(&[2.51, 0.0, 0.0], &[0.0; 3]).is_none());
    }

    #[test]
    fn molecules_across_the_border_are_near() {
        let space = Space::new(8);
        let (near, far) = ([0.5, 0.5, 0.5], [8.0 * SPACING - 0.5, 0.5, 0.5]);
        let force = space.force(&near, &far).unwrap();
        assert!(force[0] > 0.0, "pushed away from the image on the left");
    }

    #[test]
    fn the_lattice_is_at_rest_as_a_whole() {
        let (positions, velocities) = lattice(5);
        assert_eq!(positions.len(), 125);
        assert!(length(&sum(&velocities)) < 1e-10);
    }
}
