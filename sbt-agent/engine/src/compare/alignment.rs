//! Sequence alignment: pairs each element of the shorter sequence with an element of the longer
//! sequence, in order.

/// A pair, as positions in both sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Position in the shorter sequence.
    pub few: usize,
    /// Position in the longer sequence.
    pub many: usize,
    /// Whether no other partner would do nearly as well.
    pub certain: bool,
}

/// Alignments whose score is below the best by less than this may be right too.
const NEARLY: f64 = 0.6;

/// Finds the pairs with the best total score. `few` is the length of the shorter sequence, `many`
/// that of the longer; `alike` scores a pair of positions, and higher is better. Takes time and
/// memory proportional to `few` × `many`.
pub fn align(few: usize, many: usize, alike: impl Fn(usize, usize) -> f64) -> Vec<Pair> {
    let scores: Vec<Vec<f64>> = (0..few)
        .map(|one| (0..many).map(|other| alike(one, other)).collect())
        .collect();
    let before = best_before(&scores, few, many);
    // The best sums from the end: the same computation on reversed scores.
    let backward: Vec<Vec<f64>> = scores
        .iter()
        .rev()
        .map(|row| row.iter().rev().copied().collect())
        .collect();
    let behind = best_before(&backward, few, many);
    // The best score of an alignment with this pair.
    let with = |one: usize, other: usize| {
        before[one][other] + scores[one][other] + behind[few - 1 - one][many - 1 - other]
    };
    let best = before[few][many];
    let mut pairs = Vec::with_capacity(few);
    let mut other = many;
    for one in (0..few).rev() {
        // Among equally good partners, take the first.
        while other > one + 1 && before[one + 1][other - 1] >= before[one + 1][other] {
            other -= 1;
        }
        other -= 1;
        let mut rest = (0..many).filter(|partner| *partner != other);
        pairs.push(Pair {
            few: one,
            many: other,
            certain: !rest.any(|partner| with(one, partner) > best - NEARLY),
        });
    }
    pairs.reverse();
    pairs
}

/// The best sums of scores for the beginnings of both sequences, by the length of the beginning of
/// the shorter and of the longer sequence. Each element of the shorter beginning has a partner.
fn best_before(scores: &[Vec<f64>], few: usize, many: usize) -> Vec<Vec<f64>> {
    let mut best = vec![vec![f64::NEG_INFINITY; many + 1]; few + 1];
    best[0].fill(0.0);
    for (one, row) in scores.iter().enumerate() {
        for (other, score) in row.iter().enumerate().skip(one) {
            let taken = best[one][other] + score;
            best[one + 1][other + 1] = taken.max(best[one + 1][other]);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(few: &[f64], many: &[f64]) -> Vec<(usize, usize, bool)> {
        let alike =
            |one: usize, other: usize| few[one].min(many[other]) / few[one].max(many[other]);
        align(few.len(), many.len(), alike)
            .into_iter()
            .map(|pair| (pair.few, pair.many, pair.certain))
            .collect()
    }

    #[test]
    fn what_is_alike_is_found_among_more() {
        assert_eq!(
            pairs(&[500.0, 1500.0, 9000.0], &[100.0, 500.0, 1500.0, 9000.0]),
            [(0, 1, true), (1, 2, true), (2, 3, true)]
        );
        assert_eq!(pairs(&[], &[1.0]), []);
    }

    #[test]
    fn what_may_be_another_is_uncertain() {
        assert_eq!(
            pairs(&[1.0, 100.0], &[1.0, 1.0, 100.0]),
            [(0, 0, false), (1, 2, true)]
        );
        assert_eq!(pairs(&[3.0], &[3.0]), [(0, 0, true)]);
    }

    /// The best sum, found by trying all alignments.
    fn best(scores: &[Vec<f64>], from: usize) -> f64 {
        let Some((row, rest)) = scores.split_first() else {
            return 0.0;
        };
        (from..row.len())
            .map(|at| row[at] + best(rest, at + 1))
            .fold(f64::NEG_INFINITY, f64::max)
    }

    proptest! {
        #[test]
        fn no_other_alignment_is_better(
            scores in (0_usize..5, 0_usize..4).prop_flat_map(|(few, more)| {
                prop::collection::vec(prop::collection::vec(0.0..3.0, few + more), few)
            })
        ) {
            let many = scores.first().map_or(0, Vec::len);
            let found = align(scores.len(), many, |one, other| scores[one][other]);
            prop_assert_eq!(found.len(), scores.len());
            prop_assert!(found.windows(2).all(|pairs| pairs[0].many < pairs[1].many));
            let sum: f64 = found.iter().map(|pair| scores[pair.few][pair.many]).sum();
            prop_assert!((sum - best(&scores, 0)).abs() < 1e-9, "{found:?}");
        }
    }
}
