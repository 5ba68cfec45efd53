//! The numbers that a report gives to threads.

use std::collections::{HashMap, HashSet};

use super::{Report, SiteReport};
use crate::model::{
    Model,
    ids::{SiteId, ThreadId},
};

/// Numbers the threads that came to a barrier or passed a mark, from 0, in order of their creation.
/// With several processes, the threads of one process follow those of another. The row that several
/// threads share is the last of its process.
pub struct Order {
    numbers: Vec<u32>,
    /// The processes of the threads, in order.
    processes: Vec<Process>,
    /// For each site, its number in another report, and how many more episodes that report has;
    /// `None` if this report uses its own numbers.
    sites: Option<Vec<(u32, u64)>>,
}

/// A process with threads in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id that the user sees.
    pub pid: u32,
    /// The number in labels: the rank if each process has a different rank, else the position in
    /// order of creation, from 0.
    pub number: u32,
    /// The rank in a parallel program.
    pub rank: Option<u32>,
    /// The number of the first thread of the process.
    pub first: u32,
}

/// Stands for "no number" of a thread or a site.
const NONE: u32 = u32::MAX;

impl Order {
    /// Numbers the threads of a model.
    pub fn new(model: &Model) -> Self {
        let rows = model.threads().rows();
        let marked: HashSet<usize> = model
            .marks()
            .hits
            .keys()
            .map(|(_, thread)| thread.index())
            .collect();
        let mut born: Vec<usize> = (0..rows.len())
            .filter(|index| {
                // After a reset, a thread may end an episode whose arrival came before the reset.
                let row = &rows[*index];
                row.arrivals > 0 || row.episodes > 0 || marked.contains(index)
            })
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
        Self {
            numbers,
            processes,
            sites: None,
        }
    }

    /// The numbers that a report of the `whole` run gives to the threads and sites of a model that
    /// knows only a part of the run. `part` is the model's own report.
    #[must_use]
    pub fn as_in(self, whole: &Report, part: &Report, model: &Model) -> Self {
        let mut named: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        for thread in whole.threads.iter().filter(|thread| thread.threads == 1) {
            named
                .entry((thread.tid, thread.pid))
                .or_default()
                .push(thread.id);
        }
        let mut shared = whole.threads.iter().filter(|thread| thread.threads > 1);
        let shared = shared.next().map_or(NONE, |thread| thread.id);
        let rows = model.threads().rows();
        let mut numbers = vec![NONE; rows.len()];
        // The kernel reuses thread ids: the threads of this model are the latest with their id.
        let mut known: Vec<usize> = (0..rows.len()).collect();
        known.retain(|index| self.numbers[*index] != NONE);
        known.sort_by_key(|index| std::cmp::Reverse(rows[*index].since_ns));
        for index in known {
            let row = &rows[index];
            let own = (row.threads == 1).then(|| named.get_mut(&row.shown)?.pop());
            numbers[index] = own.flatten().unwrap_or(shared);
        }
        let sites = model.sites().all().len();
        let mut sites = vec![(NONE, 0); sites];
        for site in &part.sites {
            let same = |candidate: &&SiteReport| is_same(candidate, site);
            let found = whole.sites.iter().find(same);
            if let (Some(found), Some(of)) = (found, sites.get_mut(site.id as usize)) {
                *of = (found.id, found.episodes.saturating_sub(site.episodes));
            }
        }
        Self {
            numbers,
            processes: self.processes,
            sites: Some(sites),
        }
    }

    /// The number of a site; `u32::MAX` if it has none.
    pub fn site(&self, SiteId(site): SiteId) -> u32 {
        match &self.sites {
            Some(sites) => sites.get(site as usize).map_or(NONE, |of| of.0),
            None => site,
        }
    }

    /// The index in the whole run of an episode with this `index` in the model.
    pub fn index(&self, SiteId(site): SiteId, index: u64) -> u64 {
        let sites = self.sites.as_ref();
        let before = sites.and_then(|sites| Some(sites.get(site as usize)?.1));
        index + before.unwrap_or(0)
    }

    /// The processes of the threads, in order.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The label of a thread by its number: `T3`, or with several processes `1.3`, which is the
    /// process and the number of the thread in it.
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

    /// Pairs data about threads with the threads' numbers, sorted by number. Threads without a
    /// number are left out.
    pub fn sorted<T>(&self, of: impl IntoIterator<Item = (ThreadId, T)>) -> Vec<(u32, T)> {
        let mut pairs: Vec<_> = of
            .into_iter()
            .map(|(thread, what)| (self.number(thread), what))
            .filter(|(number, _)| *number != NONE)
            .collect();
        pairs.sort_by_key(|(number, _)| *number);
        pairs
    }

    /// As [`Self::sorted`], for a list that is indexed by [`ThreadId`].
    pub fn by_index<T>(&self, list: impl IntoIterator<Item = T>) -> Vec<(u32, T)> {
        self.sorted((0..).map(ThreadId).zip(list))
    }
}

/// Whether entries in two reports of one run are the same site.
fn is_same(a: &SiteReport, b: &SiteReport) -> bool {
    let lines = |site: &SiteReport| (site.function.clone(), site.file.clone(), site.line);
    (&a.binary, &a.offset, &a.callers, &a.places) == (&b.binary, &b.offset, &b.callers, &b.places)
        && lines(a) == lines(b)
}

/// The processes of threads, where the threads come in order of their creation.
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
