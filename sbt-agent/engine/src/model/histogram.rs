//! The distribution of a stream of values, in memory that depends on the spread of the values and
//! not on their number.
//!
//! Buckets are log-linear: [`SUB`] buckets of equal width in every octave, so that the width of a
//! bucket is at most 1/16 of its values. Only octaves with values are stored, because there is a
//! histogram for each thread and site, and most of them see at most three octaves.

/// Buckets in each octave.
const SUB: usize = 16;
const SUB_BITS: u32 = SUB.trailing_zeros();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Octave {
    /// Octave 0 holds the values below [`SUB`]; octave `k` begins at `SUB << (k - 1)`.
    number: u32,
    counts: [u32; SUB],
}

/// Counts of values by size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Octaves in ascending order.
    octaves: Vec<Octave>,
}

/// The octave and the bucket of a value.
#[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
const fn bucket(value: u64) -> (u32, usize) {
    let number = match value.checked_ilog2() {
        Some(log) if log >= SUB_BITS => log - SUB_BITS + 1,
        _ => 0,
    };
    let shift = number.saturating_sub(1);
    (number, (value >> shift) as usize % SUB)
}

/// The smallest value of a bucket, and the bucket's width.
const fn bounds(number: u32, index: usize) -> (u64, u64) {
    match number {
        0 => (index as u64, 1),
        _ => (((SUB + index) as u64) << (number - 1), 1 << (number - 1)),
    }
}

impl Histogram {
    /// Adds one value.
    pub fn add(&mut self, value: u64) {
        let (number, index) = bucket(value);
        let at = self
            .octaves
            .iter()
            .position(|octave| octave.number >= number)
            .unwrap_or(self.octaves.len());
        if self
            .octaves
            .get(at)
            .is_none_or(|octave| octave.number != number)
        {
            let counts = [0; SUB];
            // Grow by one, since most histograms never get a fourth octave.
            self.octaves.reserve_exact(1);
            self.octaves.insert(at, Octave { number, counts });
        }
        let count = &mut self.octaves[at].counts[index];
        *count = count.saturating_add(1);
    }

    /// The number of values in each octave from 2ᵏ (0 for the first) to below 2ᵏ⁺¹, for all k from
    /// the first to the last octave with values: pairs of lower bound and count.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let mut out: Vec<(u64, u64)> = Vec::new();
        for (least, _, count) in self.buckets() {
            let begin = least.checked_ilog2().map_or(0, |log| 1 << log);
            while let Some((last, _)) = out.last()
                && *last < begin
            {
                out.push(((*last << 1).max(1), 0));
            }
            match out.last_mut() {
                Some((_, sum)) => *sum += count,
                None => out.push((begin, count)),
            }
        }
        out
    }

    /// The value below which the fraction `q` (0 to 1) of all values lies, by interpolation in its
    /// bucket: at most 1/16 off. `None` without values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let total: u64 = self.buckets().map(|(_, _, count)| count).sum();
        let wanted = q.clamp(0.0, 1.0) * total as f64;
        let mut below = 0.0;
        for (least, width, count) in self.buckets() {
            let count = count as f64;
            if below + count >= wanted {
                // The values of a bucket are assumed to be spread evenly over it; a bucket of width
                // 1 is exact.
                let within = ((wanted - below) / count).clamp(0.0, 1.0);
                return Some(least as f64 + within * (width - 1) as f64);
            }
            below += count;
        }
        None
    }

    /// Smallest value, width and count of each bucket in use, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.octaves.iter().flat_map(|octave| {
            octave
                .counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(|(index, count)| {
                    let (least, width) = bounds(octave.number, index);
                    (least, width, u64::from(*count))
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn octaves_follow_each_other() {
        let mut histogram = Histogram::default();
        assert!(histogram.octaves().is_empty());
        for value in [1000, 1023, 1024, 9000] {
            histogram.add(value);
        }
        let expected = [(512, 2), (1024, 1), (2048, 0), (4096, 0), (8192, 1)];
        assert_eq!(histogram.octaves(), expected);
        histogram.add(0);
        histogram.add(1);
        assert_eq!(histogram.octaves()[..3], [(0, 1), (1, 1), (2, 0)]);
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_narrow_bucket(value: u64) {
            let (number, index) = bucket(value);
            let (least, width) = bounds(number, index);
            prop_assert!(least <= value && value - least < width);
            prop_assert!(width == 1 || width <= least / SUB as u64);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(0u64..1 << 40, 1..300),
            q in 0.0f64..=1.0,
        ) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.add(*value);
            }
            values.sort_unstable();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let got = histogram.quantile(q).unwrap_or(-1.0);
            prop_assert!((got - exact).abs() <= exact / 16.0, "{got} instead of {exact}");
        }
    }

    #[test]
    fn a_share_that_is_just_that_of_some_values_is_the_greatest_of_them() {
        let of = |values: &[u64], q: f64| {
            let mut histogram = Histogram::default();
            for value in values {
                histogram.add(*value);
            }
            histogram.quantile(q).unwrap()
        };
        // Values below 16 are kept exactly.
        for (values, q, expected) in [
            (&[3, 9][..], 0.5, 3.0),
            (&[9, 3], 0.5, 3.0),
            (&[3, 9], 0.51, 9.0),
            (&[3, 9], 1.0, 9.0),
            (&[3, 9], 0.0, 3.0),
            (&[1, 2, 3, 4], 0.25, 1.0),
            (&[1, 2, 3, 4], 0.5, 2.0),
            (&[1, 2, 3, 4], 0.75, 3.0),
            (&[7], 0.5, 7.0),
        ] {
            let found = of(values, q);
            assert!((found - expected).abs() < 1e-9, "{values:?} {q}: {found}");
        }
        // The values of a bucket, here 1024 to 1087, are assumed to be spread evenly over it.
        for (q, expected) in [(0.25, 1039.75), (0.5, 1055.5), (1.0, 1087.0)] {
            let found = of(&[1024, 1025, 1026, 1027], q);
            assert!((found - expected).abs() < 1e-9, "{q}: {found}");
        }
        // The median of two values far apart is near the lesser one.
        let found = of(&[1_000, 1_000_000], 0.5);
        assert!((1_000.0..1_063.0).contains(&found), "{found}");
    }

    #[test]
    fn a_narrow_stream_takes_one_octave_however_long_it_is() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for value in 0..100_000 {
            histogram.add(20_000 + value % 100);
        }
        assert_eq!(histogram.octaves.len(), 1);
        assert_eq!(histogram.octaves.capacity(), 1);
    }
}
