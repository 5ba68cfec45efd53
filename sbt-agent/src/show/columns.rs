//! A span of time cut into equal pieces.

/// Equal pieces of a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Start of the first piece, ns since watching began.
    pub from_ns: u64,
    /// Length of each piece, ns.
    pub step_ns: u64,
    /// Number of pieces, at least 1.
    pub number: usize,
}

impl Columns {
    /// Cuts the time from `from_ns` to `to_ns` into at most `most` pieces; a short time gets fewer.
    pub fn new(from_ns: u64, to_ns: u64, most: usize) -> Self {
        let length_ns = to_ns.saturating_sub(from_ns);
        let step_ns = length_ns.div_ceil(most.max(1) as u64).max(1);
        let number = usize::try_from(length_ns.div_ceil(step_ns)).unwrap_or(most);
        Self {
            from_ns,
            step_ns,
            number: number.max(1),
        }
    }

    /// The pieces that a span overlaps, with the overlap of each, ns. Time outside of all pieces is
    /// left out: a release may end after watching did.
    pub fn parts(self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (usize, u64)> {
        let since = |time_ns: u64| time_ns.saturating_sub(self.from_ns);
        let (from_ns, to_ns) = (since(from_ns), since(to_ns));
        let first = usize::try_from(from_ns / self.step_ns).unwrap_or(usize::MAX);
        (first..self.number).map_while(move |at| {
            let begin_ns = at as u64 * self.step_ns;
            (begin_ns < to_ns).then(|| {
                let part_ns = to_ns.min(begin_ns + self.step_ns) - from_ns.max(begin_ns);
                (at, part_ns)
            })
        })
    }
}
