//! Stragglers, the threads that arrive last, and the patterns in which they follow each other.

use super::ids::ThreadId;

/// A pattern needs at least this many episodes.
const FEW: u64 = 4;

/// The 97.5 % point of the normal distribution.
const Z: f64 = 1.96;

/// No pattern is reported if waiting takes less than this fraction of the threads' time.
const NEGLIGIBLE: f64 = 0.01;

/// A record of the stragglers of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Sum of the leads a_(n) - a_(n-1), ns.
    pub lead_ns: u64,
    run: Option<(ThreadId, u64)>,
    /// The longest run of episodes with the same straggler.
    pub longest_run: u64,
    /// The number of times that a straggler came last in its next episode here as well.
    pub repeats: u64,
    /// The number of times that a straggler did not come last in its next episode here. This goes
    /// by the thread's next episode and not by the site's next one, since several teams may use one
    /// site.
    pub changes: u64,
}

impl Ledger {
    /// Notes the straggler of the next episode, and its lead in ns.
    pub fn note(&mut self, id: ThreadId, lead_ns: u64) {
        self.lead_ns = self.lead_ns.saturating_add(lead_ns);
        let run = match self.run {
            Some((same, run)) if same == id => run + 1,
            _ => 1,
        };
        self.run = Some((id, run));
        self.longest_run = self.longest_run.max(run);
    }

    /// Notes an episode whose straggler is unknown, and its lead in ns.
    pub fn note_unknown(&mut self, lead_ns: u64) {
        self.lead_ns = self.lead_ns.saturating_add(lead_ns);
        self.run = None;
    }
}

/// How the stragglers of a site follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// In turn: a thread comes last in two of its own episodes in a row less than half as often as
    /// by chance.
    Turns,
    /// In long stretches: a straggler gives way to another in its next episode less than half as
    /// often as by chance.
    Stretches,
    /// Indistinguishable from chance, or too few episodes.
    None,
}

impl Sequence {
    /// Derives the sequence from each participant's number of episodes and how many of them it came
    /// last in.
    ///
    /// Chance means any order of the same episodes: a thread that came last in n of its N episodes
    /// comes last again in the next one with probability (n - 1) / (N - 1). The observed frequency
    /// counts by the lower end of its interval, see [`at_least`].
    pub fn of(threads: impl Iterator<Item = (u64, u64)>, ledger: &Ledger) -> Self {
        let (mut same, mut all) = (0.0, 0.0);
        for (episodes, last) in threads.filter(|(episodes, _)| *episodes > 1) {
            let others = last.saturating_sub(1) as f64;
            same += last as f64 * others / (episodes - 1) as f64;
            all += last as f64;
        }
        let pairs = ledger.repeats + ledger.changes;
        if pairs == 0 || all == 0.0 {
            return Self::None;
        }
        let same = same / all;
        if at_least(ledger.changes, pairs) > 1.0 - same / 2.0 {
            Self::Turns
        } else if at_least(ledger.repeats, pairs) > 1.0 - (1.0 - same) / 2.0 {
            Self::Stretches
        } else {
            Self::None
        }
    }
}

/// Whether the same threads come last again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One thread comes last more often than all others together.
    Persistent,
    /// A few threads come last, at most half of all; or two threads take turns.
    Alternating,
    /// Any thread comes last, at random or in turn: noise, or work that moves about.
    Rotating,
    /// Too few episodes, or too little waiting.
    None,
}

impl Pattern {
    /// Derives the pattern from how often each participant came last, the sequence, and the
    /// fraction (0 to 1) of the threads' time that went into waiting.
    ///
    /// A share of the episodes counts only as far as chance cannot explain it: by the lower end of
    /// its 95 % interval (Wilson, J. Am. Stat. Assoc. 22, 1927), which is far below the share if
    /// there are few episodes.
    pub fn of(lasts: &[u64], sequence: Sequence, waiting: f64) -> Self {
        let episodes: u64 = lasts.iter().sum();
        if lasts.len() < 2 || episodes < FEW || waiting < NEGLIGIBLE {
            return Self::None;
        }
        let mut lasts = lasts.to_vec();
        lasts.sort_unstable_by(|a, b| b.cmp(a));
        if at_least(lasts[0], episodes) > 0.5 {
            return Self::Persistent;
        }
        // The smallest group of threads that came last in four of five episodes.
        let mut together = 0;
        let few = lasts.iter().take_while(|last| {
            let more = together * 5 < episodes * 4;
            together += if more { **last } else { 0 };
            more
        });
        let few = few.count();
        let fair = few as f64 / lasts.len() as f64;
        let is_few = 2 * few <= lasts.len() && at_least(together, episodes) > fair;
        // Two threads out of few hardly take turns by chance.
        if is_few || few == 2 && sequence == Sequence::Turns {
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
    use crate::{
        event::Kind,
        model::{
            ids::PlaceId,
            parts::{Done, EpisodePart, Split},
            sites::Sites,
            tests::setup::Random,
        },
    };

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
            // One of two threads, as a coin may fall.
            (&[6, 4], 0.2, Rotating),
            (&[5_000, 5_000], 0.2, Rotating),
            (&[1, 2], 0.2, None),
            (&[100], 0.2, None),
            (&[0, 0, 0, 100], 0.001, None),
            (&[], 0.5, None),
        ];
        for (lasts, waiting, expected) in table {
            let pattern = Pattern::of(lasts, Sequence::None, waiting);
            assert_eq!(pattern, expected, "{lasts:?}");
        }
    }

    /// The pattern and sequence of a site at which these teams meet; each team comes with the
    /// thread that arrives last.
    fn told_of_teams(
        episodes: impl IntoIterator<Item = (std::ops::Range<u32>, u32)>,
    ) -> (Pattern, Sequence) {
        let mut sites = Sites::default();
        let id = sites.of(&[PlaceId(0)], Kind::Pthread);
        for (team, last) in episodes {
            // Each team has a barrier of its own.
            let team_number = u64::from(team.start);
            let parts: Vec<EpisodePart> = team
                .map(|row| EpisodePart {
                    row: ThreadId(row),
                    work_ns: Some(10),
                    idle_ns: u64::from(row != last),
                    release_ns: None,
                    wait: None,
                    split: Split::default(),
                    speed_ns: None,
                })
                .collect();
            let done = Done {
                first_ns: 0,
                last_ns: 1,
                phase: None,
                straggler: Some((ThreadId(last), 1)),
                alone: None,
            };
            sites.record(id, team_number, &done, &parts);
        }
        let site = sites.get(id);
        (site.pattern(None), site.sequence(None))
    }

    /// The pattern and sequence of a site used by one team with these stragglers.
    fn told(threads: u32, order: impl IntoIterator<Item = u32>) -> (Pattern, Sequence) {
        told_of_teams(order.into_iter().map(|last| (0..threads, last)))
    }

    #[test]
    fn taking_turns_is_told_from_chance() {
        use Pattern::{Alternating, Persistent, Rotating};
        use Sequence::{None, Stretches, Turns};
        let turns = |threads: u32, of: u32, episodes: u32| {
            told(threads, (0..episodes).map(|episode| episode % of))
        };
        assert_eq!(turns(2, 2, 100), (Alternating, Turns));
        assert_eq!(turns(2, 2, 14), (Alternating, Turns));
        // A coin may fall like this.
        assert_eq!(turns(2, 2, 8), (Rotating, None));
        assert_eq!(turns(3, 2, 100), (Alternating, Turns));
        assert_eq!(turns(8, 2, 100), (Alternating, Turns));
        assert_eq!(turns(3, 3, 99), (Rotating, Turns));
        assert_eq!(turns(8, 8, 100), (Rotating, Turns));
        assert_eq!(turns(8, 8, 16), (Rotating, None));
        // The threads hardly ever break their turn.
        let nearly = (0..200).map(|episode| (episode + episode / 20) % 2);
        assert_eq!(told(2, nearly), (Alternating, Turns));
        // One thread for the first half of the run, another one for the second.
        let halves = |threads| told(threads, (0..100).map(|episode| episode / 50));
        assert_eq!(halves(2), (Rotating, Stretches));
        assert_eq!(halves(4), (Alternating, Stretches));
        assert_eq!(told(2, [1; 100]), (Persistent, None));
        assert_eq!(told(2, []), (Pattern::None, None));
    }

    /// Two teams of two threads use one site in turn.
    #[test]
    fn teams_that_share_a_site_are_not_mixed_up() {
        use Pattern::{Persistent, Rotating};
        use Sequence::{None, Turns};
        let teams = |last: &mut dyn FnMut(u32) -> u32| {
            let episodes = (0..400).map(|number| {
                let first = number % 2 * 2;
                (first..first + 2, first + last(number / 2))
            });
            told_of_teams(episodes.collect::<Vec<_>>())
        };
        // The same thread of each team every time, a random one, and in turn.
        assert_eq!(teams(&mut |_| 1), (Persistent, None));
        let mut random = Random(7);
        let mut coin = |_| u32::from(random.chance(50));
        assert_eq!(teams(&mut coin), (Rotating, None));
        assert_eq!(teams(&mut |round| round % 2), (Rotating, Turns));
    }

    /// Stragglers in runs of all lengths.
    #[test]
    fn chance_is_not_taken_for_turns() {
        let mut random = Random(1);
        for weights in [
            &[1, 1][..],
            &[3, 2],
            &[1, 1, 1],
            &[5, 4, 1],
            &[4, 1, 1, 1, 1],
            &[1; 8],
        ] {
            let threads = u32::try_from(weights.len()).unwrap();
            let mut wrong = 0;
            for run in 0..300 {
                let order: Vec<u32> = (0..4 + run)
                    .map(|_| {
                        let mut left = random.below(weights.iter().sum());
                        let mine = |weight: &u64| {
                            let mine = left < *weight;
                            left = left.saturating_sub(*weight);
                            mine
                        };
                        u32::try_from(weights.iter().position(mine).unwrap()).unwrap()
                    })
                    .collect();
                wrong += u32::from(told(threads, order).1 != Sequence::None);
            }
            assert!(wrong <= 1, "{wrong} of 300 with {weights:?}");
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
