//! Equal pieces of a time.

/// The pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// When the first begins, ns since watching began.
    pub from_ns: u64,
    /// How long each of them is, ns.
    pub step_ns: u64,
    /// How many there are, at least 1.
    pub number: usize,
}

impl Columns {
    /// Of the time from `from_ns` to `to_ns`, at most `most` pieces: a short time has fewer.
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

    /// In which of them a span lies, and how much of it in each, ns. What lies before the
    /// first or after the last is left out: a release may end after the watching did.
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
