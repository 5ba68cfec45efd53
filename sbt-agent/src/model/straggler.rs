//! Who comes last, and whether there is a pattern in it.

use super::thread::ThreadId;

/// Fewer episodes than this show no pattern.
const FEW: u64 = 4;

/// The 97.5 % point of the normal distribution.
const Z: f64 = 1.96;

/// Below this share of the threads' time the waiting is too little to ask who
/// caused it.
const NEGLIGIBLE: f64 = 0.01;

/// The last arrivers of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Sum of leads a_(n) - a_(n-1), ns.
    pub lead_ns: u64,
    run: Option<(ThreadId, u64)>,
    /// The longest run of episodes with the same straggler.
    pub longest_run: u64,
}

impl Ledger {
    /// Notes who came last in the next episode, and by how much, ns.
    pub fn note(&mut self, id: ThreadId, lead_ns: u64) {
        self.lead_ns = self.lead_ns.saturating_add(lead_ns);
        let run = match self.run {
            Some((same, run)) if same == id => run + 1,
            _ => 1,
        };
        self.run = Some((id, run));
        self.longest_run = self.longest_run.max(run);
    }

    /// Notes that someone came last of whom it is not known who.
    pub fn note_unknown(&mut self, lead_ns: u64) {
        self.lead_ns = self.lead_ns.saturating_add(lead_ns);
        self.run = None;
    }
}

/// Whether the same threads come last again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One thread, more often than all others together.
    Persistent,
    /// A few, at most half of all.
    Alternating,
    /// Any of them: noise, or work that moves about.
    Rotating,
    /// Too few episodes or too little waiting to tell.
    None,
}

impl Pattern {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Persistent => "persistent",
            Self::Alternating => "alternating",
            Self::Rotating => "rotating",
            Self::None => "none",
        }
    }

    /// From how often each participant came last, and the share (0 to 1) of
    /// their time that went into waiting.
    ///
    /// A share of the episodes counts only as far as chance cannot explain it:
    /// by the lower end of its 95 % interval (Wilson, J. Am. Stat. Assoc. 22,
    /// 1927), which is far below it when there are few episodes.
    pub fn of(lasts: &[u64], waiting: f64) -> Self {
        let episodes: u64 = lasts.iter().sum();
        if lasts.len() < 2 || episodes < FEW || waiting < NEGLIGIBLE {
            return Self::None;
        }
        let mut lasts = lasts.to_vec();
        lasts.sort_unstable_by(|a, b| b.cmp(a));
        if at_least(lasts[0], episodes) > 0.5 {
            return Self::Persistent;
        }
        // The fewest that account for four of five episodes.
        let mut together = 0;
        let few = lasts.iter().take_while(|last| {
            let more = together * 5 < episodes * 4;
            together += if more { **last } else { 0 };
            more
        });
        let few = few.count();
        let fair = few as f64 / lasts.len() as f64;
        if 2 * few <= lasts.len() && at_least(together, episodes) > fair {
            Self::Alternating
        } else {
            Self::Rotating
        }
    }
}

/// The lower end of Wilson's 95 % interval for the share of `hits` in `all`.
fn at_least(hits: u64, all: u64) -> f64 {
    let n = all as f64;
    let p = hits as f64 / n;
    let centre = p + Z * Z / (2.0 * n);
    let width = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    (centre - width) / (1.0 + Z * Z / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_told_apart() {
        use Pattern::{Alternating, None, Persistent, Rotating};
        let table: [(&[u64], f64, Pattern); 12] = [
            (&[0, 0, 0, 100], 0.2, Persistent),
            (&[10, 10, 10, 70], 0.2, Persistent),
            (&[0, 0, 0, 4], 0.2, Persistent),
            (&[50, 0, 0, 50], 0.2, Alternating),
            (&[522, 10, 12, 480], 0.2, Alternating),
            (&[25, 26, 24, 25], 0.2, Rotating),
            // One of two, as a coin may fall.
            (&[6, 4], 0.2, Rotating),
            (&[5_000, 5_000], 0.2, Rotating),
            (&[1, 2], 0.2, None),
            (&[100], 0.2, None),
            (&[0, 0, 0, 100], 0.001, None),
            (&[], 0.5, None),
        ];
        for (lasts, waiting, expected) in table {
            assert_eq!(Pattern::of(lasts, waiting), expected, "{lasts:?}");
        }
    }

    #[test]
    fn the_longest_run_is_remembered() {
        let mut ledger = Ledger::default();
        for id in [1, 1, 1, 0, 1, 1] {
            ledger.note(ThreadId(id), 5);
        }
        assert_eq!((ledger.longest_run, ledger.lead_ns), (3, 30));
        for id in [1, 1] {
            ledger.note_unknown(5);
            ledger.note(ThreadId(id), 5);
        }
        assert_eq!((ledger.longest_run, ledger.lead_ns), (3, 50));
    }
}
