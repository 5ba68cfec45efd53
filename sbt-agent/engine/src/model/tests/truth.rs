//! The true course of a run, and all figures computed from it in the plain way.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    event::Clocks,
    model::{Model, parts::Split},
};

#[derive(Clone, Debug)]
pub struct Thread {
    pub tid: u32,
    pub born: Clocks,
    pub ended: Option<Clocks>,
}

#[derive(Clone, Debug)]
pub struct Part {
    pub thread: usize,
    pub arrived: Clocks,
    pub place: u32,
    /// The time at which the thread left.
    pub gone: Option<Clocks>,
    /// The time at which the thread left, if its departure was reported.
    pub left: Option<Clocks>,
}

impl Part {
    /// Run time between arrival and departure, ns.
    fn spun_ns(&self) -> Option<u64> {
        Some(self.left?.run_ns? - self.arrived.run_ns?)
    }

    /// Sleep between arrival and departure, ns: simulated threads never wait for a CPU in a
    /// barrier.
    fn slept_ns(&self) -> Option<u64> {
        Some(self.left?.time_ns - self.arrived.time_ns - self.spun_ns()?)
    }
}

#[derive(Clone, Debug)]
pub struct Episode {
    pub object: u64,
    pub parts: Vec<Part>,
}

impl Episode {
    pub fn first_ns(&self) -> u64 {
        let times = self.parts.iter().map(|part| part.arrived.time_ns);
        times.min().unwrap()
    }

    pub fn last_ns(&self) -> u64 {
        let times = self.parts.iter().map(|part| part.arrived.time_ns);
        times.max().unwrap()
    }

    pub fn site(&self) -> Vec<u32> {
        let mut places: Vec<_> = self.parts.iter().map(|part| part.place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Arrivals as (time, thread), sorted.
    pub fn arrivals(&self, truth: &Truth) -> Vec<(u64, u32)> {
        let mut all: Vec<_> = self
            .parts
            .iter()
            .map(|part| (part.arrived.time_ns, truth.threads[part.thread].tid))
            .collect();
        all.sort_unstable();
        all
    }
}

#[derive(Clone, Debug, Default)]
pub struct Truth {
    pub threads: Vec<Thread>,
    /// Complete episodes, in the order of their ends.
    pub episodes: Vec<Episode>,
    /// Number of arrivals that were reported.
    pub seen: u64,
    pub last_loss_ns: u64,
}

/// A sum in ns, and its number of parts.
type Sum = (u64, u64);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadFigures {
    pub episodes: u64,
    pub last: u64,
    pub idle: u64,
    pub work: Option<u64>,
    pub release: Option<u64>,
    pub spun: Option<u64>,
    pub slept: Option<u64>,
    pub running: Option<u64>,
    pub ready: Option<u64>,
    pub blocked: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteFigures {
    pub episodes: u64,
    pub participants: u64,
    pub phase: Sum,
    pub barrier: Sum,
    pub idle: Sum,
    pub release: Sum,
    pub work: Sum,
    pub longest: u64,
    pub gain: u64,
    pub lead: u64,
    pub threads: BTreeMap<usize, ThreadFigures>,
}

type Site = Vec<u32>;

/// All figures that are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub arrivals: u64,
    pub episodes: u64,
    pub barriers: BTreeMap<u64, u64>,
    pub sites: BTreeMap<Site, SiteFigures>,
    pub phases: BTreeMap<(Option<Site>, Site), (Sum, Sum)>,
    pub threads: BTreeMap<usize, ThreadFigures>,
}

fn add(sum: &mut Sum, value: u64) {
    sum.0 += value;
    sum.1 += 1;
}

fn add_known(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0) + value);
    }
}

impl ThreadFigures {
    fn work(&mut self, from: Clocks, to: Clocks) {
        add_known(&mut self.work, Some(to.time_ns - from.time_ns));
        let Split {
            running_ns,
            ready_ns,
            blocked_ns,
        } = Split::between(from, to);
        add_known(&mut self.running, running_ns);
        add_known(&mut self.ready, ready_ns);
        add_known(&mut self.blocked, blocked_ns);
    }
}

impl Truth {
    pub fn left(&mut self, thread: usize, clocks: Clocks, seen: bool) {
        let mut parts = self.episodes.iter_mut().rev().flat_map(|e| &mut e.parts);
        let part = parts.find(|part| part.thread == thread).unwrap();
        part.gone = Some(clocks);
        part.left = seen.then_some(clocks);
    }

    /// The figures of a run that was watched from time 0 without losses.
    pub fn figures(&self) -> Figures {
        let mut all = Figures {
            arrivals: self.seen,
            ..Figures::default()
        };
        // For each thread, the beginning of its work, and L and site of its previous episode.
        let mut since: Vec<(Clocks, Option<(u64, Site)>)> =
            self.threads.iter().map(|t| (t.born, None)).collect();
        let first_end = self.episodes.iter().map(Episode::last_ns).min();
        for episode in &self.episodes {
            let (first, last, name) = (episode.first_ns(), episode.last_ns(), episode.site());
            all.episodes += 1;
            *all.barriers.entry(episode.object).or_default() += 1;
            let starts = || episode.parts.iter().map(|part| &since[part.thread]);
            let born = starts().map(|(clocks, _)| clocks.time_ns).min().unwrap();
            let start = if Some(born) <= first_end { 0 } else { born };
            let (begun, before) = starts()
                .filter_map(|(_, before)| before.clone())
                .max_by_key(|(last, _)| *last)
                .map_or((start, None), |(last, site)| (last, Some(site)));
            let phase = all.phases.entry((before, name.clone())).or_default();
            let site = all.sites.entry(name.clone()).or_default();
            site.episodes += 1;
            site.participants += episode.parts.len() as u64;
            add(&mut site.phase, last - begun);
            add(&mut phase.0, last - begun);
            add(&mut site.barrier, last - first);
            let mut times: Vec<_> = episode.arrivals(self).iter().map(|(t, _)| *t).collect();
            let straggler = times.pop().unwrap();
            site.lead += times.last().map_or(0, |before| straggler - before);
            let mut works = Vec::new();
            for part in &episode.parts {
                let (start, _) = since[part.thread].clone();
                let work = part.arrived.time_ns - start.time_ns;
                works.push(work);
                add(&mut site.work, work);
                add(&mut phase.1, work);
                add(&mut site.idle, last - part.arrived.time_ns);
                let release = part.left.map(|left| left.time_ns - last);
                if let Some(release) = release {
                    add(&mut site.release, release);
                }
                for figures in [
                    site.threads.entry(part.thread).or_default(),
                    all.threads.entry(part.thread).or_default(),
                ] {
                    figures.episodes += 1;
                    figures.last += u64::from(part.arrived.time_ns == last);
                    figures.idle += last - part.arrived.time_ns;
                    add_known(&mut figures.release, release);
                    add_known(&mut figures.spun, part.spun_ns());
                    add_known(&mut figures.slept, part.slept_ns());
                    figures.work(start, part.arrived);
                }
                let start = part.left.unwrap_or(Clocks {
                    time_ns: last,
                    ..part.arrived
                });
                since[part.thread] = (start, Some((last, name.clone())));
            }
            let longest = works.iter().max().unwrap();
            site.longest += longest;
            // In 840ths, so that means over up to eight threads are whole numbers.
            site.gain += longest * 840 - works.iter().sum::<u64>() * 840 / works.len() as u64;
        }
        for (index, thread) in self.threads.iter().enumerate() {
            if let (Some(ended), (start, Some(_))) = (thread.ended, &since[index]) {
                all.threads.entry(index).or_default().work(*start, ended);
            }
        }
        all
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small and positive"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

impl Figures {
    /// The figures of a model whose threads are named by number.
    pub fn of(model: &Model) -> Self {
        let rows = model.threads().rows();
        let number = |row: usize| rows[row].name.parse::<usize>().unwrap();
        let sites = model.sites().all();
        let name = |site: usize| -> Site { sites[site].places.iter().map(|p| p.0).collect() };
        let mut all = Self {
            arrivals: model.totals().arrivals,
            episodes: model.totals().episodes,
            ..Self::default()
        };
        for barrier in model.barriers().all() {
            if barrier.episodes > 0 {
                *all.barriers.entry(barrier.key.1).or_default() += barrier.episodes;
            }
        }
        for (index, site) in sites.iter().enumerate() {
            let sum = |stat: &crate::model::stats::Stat| (stat.sum(), stat.count());
            if site.episodes == 0 {
                continue;
            }
            let mut figures = SiteFigures {
                episodes: site.episodes,
                participants: site.participants,
                phase: sum(&site.phase),
                barrier: sum(&site.barrier),
                idle: sum(&site.idle),
                release: sum(&site.release),
                work: sum(&site.work),
                longest: site.longest_ns,
                gain: rounded(site.gain_ns * 840.0),
                lead: site.ledger.lead_ns,
                threads: BTreeMap::new(),
            };
            for thread in &site.threads {
                if thread.episodes > 0 {
                    let id = thread.id;
                    let thread = ThreadFigures {
                        episodes: thread.episodes,
                        last: thread.last,
                        idle: thread.idle.sum(),
                        work: thread.work.known_sum(),
                        release: thread.release.known_sum(),
                        spun: thread.waits.split.running.get(),
                        slept: thread.waits.split.blocked.get(),
                        running: thread.split.running.get(),
                        ready: thread.split.ready.get(),
                        blocked: thread.split.blocked.get(),
                    };
                    figures.threads.insert(number(id.index()), thread);
                }
            }
            all.sites.insert(name(index), figures);
        }
        for ((before, site), phase) in &model.sites().phases {
            all.phases.insert(
                (before.map(|site| name(site.index())), name(site.index())),
                (
                    (phase.phase.sum(), phase.phase.count()),
                    (phase.work.sum(), phase.work.count()),
                ),
            );
        }
        for (index, row) in rows.iter().enumerate() {
            if row.episodes > 0 {
                let row = ThreadFigures {
                    episodes: row.episodes,
                    last: row.last,
                    idle: row.idle_ns,
                    work: row.work.get(),
                    release: row.release.get(),
                    spun: row.waits.split.running.get(),
                    slept: row.waits.split.blocked.get(),
                    running: row.split.running.get(),
                    ready: row.split.ready.get(),
                    blocked: row.split.blocked.get(),
                };
                all.threads.insert(number(index), row);
            }
        }
        all
    }

    /// The figures without stragglers and previous episodes, which are arbitrary if times are
    /// equal.
    pub fn without_order(mut self) -> Self {
        self.phases.clear();
        let of_sites = self.sites.values_mut().flat_map(|s| s.threads.values_mut());
        for thread in of_sites.chain(self.threads.values_mut()) {
            thread.last = 0;
        }
        self
    }
}

/// Returns an error that says where the figures differ.
pub fn same(found: &Figures, expected: &Figures) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (format!("{found:#?}"), format!("{expected:#?}"));
    let mut out = String::new();
    let mut path: Vec<&str> = Vec::new();
    for (left, right) in found.lines().zip(expected.lines()) {
        let depth = (left.len() - left.trim_start().len()) / 4;
        path.truncate(depth);
        path.push(left.trim());
        if left != right {
            let path = path.join(" ");
            let _ = writeln!(out, "{path} but expected {}", right.trim());
            if out.len() > 2000 {
                break;
            }
        }
    }
    Err(out)
}
