//! Places where a function is inlined besides the places that can be probed: sbt does not see it
//! there.

use super::find::MAX_FUNCTION;
use super::{Binary, Wish};
use crate::arch::prologue::ways_out;
use crate::debuginfo::{Range, is_part};
use crate::files::Offer;
use crate::point::Point;
use sbt_engine::pattern::Code;

/// The most bytes of code that are decoded to see where the code leads.
const MAX_DECODED: u64 = 1 << 26;

impl Binary<'_> {
    /// For each wish, at how many places of the file the function is inlined, if it is probed in
    /// this file at all.
    pub(super) fn inlined(&self, wishes: &[Wish], offers: &[Offer]) -> Vec<usize> {
        let (mut names, mut indices, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (wish, offer)) in wishes.iter().zip(offers).enumerate() {
            if let (Code::Name(name), Offer::Points(points)) = (&wish.at.code, offer) {
                names.push(&name[..]);
                indices.push(index);
                parts.push(self.parts(points));
            }
        }
        let mut counts = vec![0; wishes.len()];
        if !names.is_empty() {
            let mut left = MAX_DECODED;
            self.debug.inlined_places(&names, |name, code| {
                if !self.leads_to(code, &parts[name], &mut left) {
                    counts[indices[name]] += 1;
                }
            });
        }
        counts
    }

    /// The addresses of the parts that were split off from a function, as far as these parts are
    /// probed.
    fn parts(&self, points: &[Point]) -> Vec<u64> {
        points
            .iter()
            .filter(|point| is_part(&point.symbol))
            .filter_map(|point| self.debug.functions_exactly(&point.symbol).ok())
            .flatten()
            .map(|part| part.start)
            .collect()
    }

    /// Whether some code goes on to one of the parts. If so, the code is no more than the
    /// function's first test, and the rest is seen.
    fn leads_to(&self, code: &[Range], parts: &[u64], left: &mut u64) -> bool {
        !parts.is_empty()
            && code.iter().any(|range| {
                let size = range.end.saturating_sub(range.begin).min(MAX_FUNCTION);
                *left = left.saturating_sub(size);
                *left > 0
                    && self.code(range.begin, size).is_some_and(|code| {
                        ways_out(code.bytes, range.begin).any(|to| parts.contains(&to))
                    })
            })
    }
}
