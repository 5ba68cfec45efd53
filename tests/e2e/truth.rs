//! The log of the program `truth`, and figures that follow from it.

use std::{collections::BTreeMap, fs, path::Path};

use crate::{
    harness::{Report, folder, watch_with},
    programs::program,
};

/// Watches the program and reads its log.
pub fn measure(options: &[&str], arguments: &[&str]) -> (Truth, Report) {
    let folder = folder();
    let log = folder.path().join("log");
    let mut arguments = arguments.to_vec();
    let log_option = format!("log={}", log.display());
    arguments.push(&log_option);
    let (finished, report) = watch_with(options, &program("truth.c"), &arguments);
    finished.expect(0);
    (Truth::read(Path::new(&log)), report)
}

/// One thread's passage through one episode.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    pub tid: u64,
    pub arrival: u64,
    pub departure: u64,
    /// When the thread began its load for the round, if the program logs it.
    pub begin: Option<u64>,
}

/// All episodes of a run; passages in the order of arrival.
pub struct Truth(pub Vec<Vec<Passage>>);

impl Truth {
    pub fn read(path: &Path) -> Self {
        let mut rounds: BTreeMap<u64, Vec<Passage>> = BTreeMap::new();
        for line in fs::read_to_string(path).unwrap().lines() {
            let fields: Vec<u64> = line
                .split_whitespace()
                .map(|field| field.parse().unwrap())
                .collect();
            rounds.entry(fields[2]).or_default().push(Passage {
                tid: fields[1],
                arrival: fields[3],
                departure: fields[4],
                begin: fields.get(5).copied(),
            });
        }
        let mut rounds: Vec<_> = rounds.into_values().collect();
        for round in &mut rounds {
            round.sort_by_key(|passage| passage.arrival);
        }
        Self(rounds)
    }

    fn last_arrival(round: &[Passage]) -> u64 {
        round[round.len() - 1].arrival
    }

    /// Σ over the episodes of (L - F).
    pub fn barrier_time(&self) -> u64 {
        self.0
            .iter()
            .map(|round| Self::last_arrival(round) - round[0].arrival)
            .sum()
    }

    /// Σ over all episodes but the first of (L - L of the previous episode).
    pub fn phase_time(&self) -> u64 {
        self.0
            .windows(2)
            .map(|pair| Self::last_arrival(&pair[1]) - Self::last_arrival(&pair[0]))
            .sum()
    }

    /// Σ of one thread's time between its arrival and the last one.
    pub fn idle(&self, tid: u64) -> u64 {
        self.0
            .iter()
            .flat_map(|round| {
                round
                    .iter()
                    .filter(move |passage| passage.tid == tid)
                    .map(|passage| Self::last_arrival(round) - passage.arrival)
            })
            .sum()
    }

    /// Σ of one thread's time between a departure and its next arrival.
    pub fn work(&self, tid: u64) -> u64 {
        let of = |round: &[Passage]| *round.iter().find(|passage| passage.tid == tid).unwrap();
        self.0
            .windows(2)
            .map(|pair| of(&pair[1]).arrival - of(&pair[0]).departure)
            .sum()
    }

    /// How often a thread came last by more than `lead` ns.
    pub fn clearly_last(&self, tid: u64, lead: u64) -> u64 {
        let count = self
            .0
            .iter()
            .filter(|round| {
                let [.., before, last] = round.as_slice() else {
                    return false;
                };
                last.tid == tid && last.arrival - before.arrival > lead
            })
            .count();
        count as u64
    }

    /// Number of episodes in which no thread came last by more than `lead` ns.
    pub fn unclear(&self, lead: u64) -> u64 {
        let clear: u64 = self
            .tids()
            .iter()
            .map(|tid| self.clearly_last(*tid, lead))
            .sum();
        self.0.len() as u64 - clear
    }

    /// Ids of the threads, sorted.
    pub fn tids(&self) -> Vec<u64> {
        let mut tids: Vec<_> = self.0[0].iter().map(|passage| passage.tid).collect();
        tids.sort_unstable();
        tids
    }
}
