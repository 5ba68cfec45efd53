//! Reads the log of a program of barriers.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// One thread's passage through one episode, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The kernel's id of the thread.
    pub tid: u32,
    /// Time just before the call of the barrier, ns.
    pub arrival_ns: u64,
    /// Time just after the call returned, ns.
    pub departure_ns: u64,
    /// Threads that the barrier had counted just before the arrival, if the program logs it.
    pub counted: Option<u64>,
}

/// One episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Episode {
    /// Passages in the order of arrival; never empty.
    pub passages: Vec<Passage>,
    /// The last arrival, ns.
    pub last_ns: u64,
}

impl Episode {
    /// Sorts the passages; `None` if there are none.
    pub fn new(mut passages: Vec<Passage>) -> Option<Self> {
        passages.sort_by_key(|passage| passage.arrival_ns);
        Some(Self {
            last_ns: passages.last()?.arrival_ns,
            passages,
        })
    }

    /// The passage of one thread.
    pub fn passage(&self, tid: u32) -> Option<&Passage> {
        self.passages.iter().find(|passage| passage.tid == tid)
    }
}

/// Reads a log with a line for each passage: the thread's number in the program, its `tid`, the
/// round, arrival and departure, and optionally how many threads the barrier had counted.
pub fn parse(text: &str) -> Result<Vec<Episode>> {
    let mut rounds: BTreeMap<u64, Vec<Passage>> = BTreeMap::new();
    for line in text.lines() {
        let fields = numbers(line)?;
        let (&[_, tid, round, arrival_ns, departure_ns]
        | &[_, tid, round, arrival_ns, departure_ns, _]) = &fields[..]
        else {
            bail!("not a line of a log: {line}");
        };
        rounds.entry(round).or_default().push(Passage {
            tid: u32::try_from(tid)?,
            arrival_ns,
            departure_ns,
            counted: fields.get(5).copied(),
        });
    }
    Ok(rounds.into_values().filter_map(Episode::new).collect())
}

/// The numbers of a line.
pub fn numbers(line: &str) -> Result<Vec<u64>> {
    line.split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("not a line of numbers: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_put_in_the_order_of_arrival() {
        let episodes = parse("0 7 0 50 61\n0 7 1 90 99\n1 8 0 40 60\n1 8 1 95 98\n").unwrap();
        let tids = |episode: &Episode| -> Vec<u32> {
            episode.passages.iter().map(|passage| passage.tid).collect()
        };
        assert_eq!(episodes.len(), 2);
        assert_eq!(tids(&episodes[0]), [8, 7]);
        assert_eq!(episodes[0].last_ns, 50);
        let first = episodes[0].passage(8).unwrap();
        assert_eq!((first.arrival_ns, first.departure_ns), (40, 60));
        assert_eq!(tids(&episodes[1]), [7, 8]);
    }

    #[test]
    fn the_count_may_be_noted() {
        let episodes = parse("0 7 0 50 61 1\n1 8 0 40 60 0\n2 9 0 55 60\n").unwrap();
        let counted = |tid| episodes[0].passage(tid).unwrap().counted;
        assert_eq!([7, 8, 9].map(counted), [Some(1), Some(0), None]);
    }

    #[test]
    fn other_lines_are_refused() {
        assert!(parse("0 7 0 50\n").is_err());
        assert!(parse("ready\n").is_err());
        assert!(parse("").unwrap().is_empty());
    }
}
