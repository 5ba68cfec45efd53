//! The numbers by which a report calls threads.

use std::collections::{HashMap, HashSet};

use crate::model::{Model, thread::ThreadId};

/// Those that met a barrier or passed a mark, in the order of their birth,
/// from 0; where they are of several processes, one process after the other. The row
/// that several share is the last one of its process.
pub struct Order {
    numbers: Vec<u32>,
    /// Their processes, in order.
    processes: Vec<Process>,
}

/// A process with threads in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// As the user sees it.
    pub pid: u32,
    /// What the report calls it: its rank, if each process has one of its own, else
    /// which it is in the order of birth, from 0.
    pub number: u32,
    /// Which rank of a parallel program it is.
    pub rank: Option<u32>,
    /// The number of its first thread.
    pub first: u32,
}

/// The number of a thread that has none.
const NONE: u32 = u32::MAX;

impl Order {
    /// Of all threads of a model.
    pub fn new(model: &Model) -> Self {
        let rows = model.threads().rows();
        let marked: HashSet<usize> = model
            .marks()
            .hits
            .keys()
            .map(|(_, thread)| thread.index())
            .collect();
        let mut born: Vec<usize> = (0..rows.len())
            .filter(|index| rows[*index].arrivals > 0 || marked.contains(index))
            .collect();
        born.sort_by_key(|index| {
            let row = &rows[*index];
            (row.threads > 1, row.since_ns, row.shown)
        });
        let mut processes = processes(model, born.iter().map(|index| rows[*index].shown.1));
        let place: HashMap<u32, usize> = (0..)
            .zip(&processes)
            .map(|(place, process)| (process.pid, place))
            .collect();
        born.sort_by_key(|index| place[&rows[*index].shown.1]);
        let mut numbers = vec![NONE; rows.len()];
        for (number, index) in (0..).zip(born) {
            numbers[index] = number;
            let first = &mut processes[place[&rows[index].shown.1]].first;
            *first = (*first).min(number);
        }
        Self { numbers, processes }
    }

    /// The processes of the threads, in order.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// How the report calls a thread by its number: `T3`, or, of several processes,
    /// `1.3`: the process and which of its threads.
    pub fn label(&self, number: u32) -> String {
        let mut before = self.processes.iter().rev();
        match before.find(|process| process.first <= number) {
            Some(process) if self.processes.len() > 1 => {
                format!("{}.{}", process.number, number - process.first)
            }
            _ => format!("T{number}"),
        }
    }

    /// A thread's number; `u32::MAX` if it has none.
    pub fn number(&self, thread: ThreadId) -> u32 {
        self.numbers.get(thread.index()).copied().unwrap_or(NONE)
    }

    /// Pairs what is kept of threads with their numbers, in the order of those.
    pub fn sorted<T>(&self, of: impl IntoIterator<Item = (ThreadId, T)>) -> Vec<(u32, T)> {
        let mut pairs: Vec<_> = of
            .into_iter()
            .map(|(thread, what)| (self.number(thread), what))
            .filter(|(number, _)| *number != NONE)
            .collect();
        pairs.sort_by_key(|(number, _)| *number);
        pairs
    }

    /// The same of what is kept in a list by [`ThreadId`].
    pub fn by_index<T>(&self, list: impl IntoIterator<Item = T>) -> Vec<(u32, T)> {
        self.sorted((0..).map(ThreadId).zip(list))
    }
}

/// The processes of threads that are in the order of their birth.
fn processes(model: &Model, of_threads: impl Iterator<Item = u32>) -> Vec<Process> {
    let mut seen = HashSet::new();
    let pids: Vec<u32> = of_threads.filter(|pid| seen.insert(*pid)).collect();
    let mut taken = HashSet::new();
    let mut ranks = pids.iter().map(|pid| model.rank(*pid));
    let by_rank = ranks.all(|rank| rank.is_some_and(|rank| taken.insert(rank)));
    let mut processes: Vec<Process> = (0..)
        .zip(pids)
        .map(|(place, pid)| {
            let rank = model.rank(pid);
            Process {
                pid,
                number: rank.filter(|_| by_rank).unwrap_or(place),
                rank,
                first: NONE,
            }
        })
        .collect();
    processes.sort_by_key(|process| process.number);
    processes
}
