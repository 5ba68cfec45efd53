//! What was found, as data: the one structure that the text and the JSON view
//! are drawn from. Field names and units are those of docs/json.md; what was
//! not measured is `None`, never 0.

use std::rc::Rc;

use serde::Serialize;

use crate::{
    model::{
        Model,
        site::{Site, SiteId, SiteThread},
        stats::Stat,
        thread::{Row, SplitSum, ThreadId},
    },
    place::{Place, printable, short},
};

/// Version of the JSON fields.
pub const SCHEMA: u32 = 1;

/// What the session knows and the model does not.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The name of the source, and how it works.
    pub backend: String,
    /// See [`crate::source::Source::method`].
    pub method: String,
    /// The target's command line.
    pub command: Vec<String>,
    /// Its process id.
    pub pid: u32,
    /// For how long it was watched, ns.
    pub wall_ns: u64,
    /// Whether it had ended by then.
    pub ended: bool,
    /// How it ended; `None` if it had not, or if we did not start it.
    pub exit_status: Option<u8>,
    /// Events lost, wherever.
    pub lost: u64,
    /// Whether departures were watched: at the end, and all the time.
    pub departures: Option<bool>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// CPU time that sbt itself used, ns.
    pub own_cpu_ns: u64,
}

/// Everything a report says.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct Report {
    pub schema: u32,
    pub version: &'static str,
    pub backend: String,
    pub method: String,
    pub command: Vec<String>,
    pub pid: u32,
    pub wall_ns: u64,
    pub ended: bool,
    pub exit_status: Option<u8>,
    pub arrivals: u64,
    pub episodes: u64,
    pub incomplete_episodes: u64,
    pub lost_events: u64,
    pub threads: Vec<ThreadReport>,
    pub barriers: Vec<BarrierReport>,
    pub sites: Vec<SiteReport>,
    pub phases: Vec<PhaseReport>,
    pub unfinished: Vec<UnfinishedReport>,
    pub efficiency: Option<()>,
    pub verdicts: Option<()>,
    pub hang: Option<()>,
    pub own_cost: OwnCost,
    pub departures: Option<bool>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct ThreadReport {
    pub id: u32,
    pub tid: u32,
    pub name: String,
    /// How many threads share this entry, if more than one.
    pub threads: u64,
    pub ended: bool,
    pub arrivals: u64,
    pub episodes: u64,
    pub last: u64,
    pub work_ns: Option<u64>,
    pub idle_ns: u64,
    pub release_ns: Option<u64>,
    pub running_ns: Option<u64>,
    pub ready_ns: Option<u64>,
    pub blocked_ns: Option<u64>,
    pub spinning_ns: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct BarrierReport {
    pub id: u32,
    pub kind: &'static str,
    pub address: String,
    pub participants: Option<u32>,
    pub episodes: u64,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct SiteReport {
    pub id: u32,
    pub name: Option<String>,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub binary: String,
    pub offset: String,
    pub callers: Vec<String>,
    /// All places of the site, each as `function file:line`; several where the
    /// threads call from different lines.
    pub places: Vec<String>,
    pub barriers: Vec<u32>,
    pub kind: &'static str,
    pub episodes: u64,
    pub incomplete: u64,
    pub lost_ns: u64,
    pub gain_ns: u64,
    pub imbalance_pct: Option<f64>,
    pub phase_ns: Option<StatReport>,
    pub barrier_ns: Option<StatReport>,
    pub idle_ns: Option<StatReport>,
    pub release_ns: Option<StatReport>,
    pub work_ns: Option<StatReport>,
    pub straggler: Option<StragglerReport>,
    pub threads: Vec<SiteThreadReport>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct StatReport {
    pub sum: u64,
    pub min: u64,
    pub mean: u64,
    pub max: u64,
    pub stddev: u64,
    pub p50: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct StragglerReport {
    pub pattern: Option<&'static str>,
    pub thread: u32,
    pub share_pct: f64,
    pub longest_run: u64,
    pub mean_lead_ns: u64,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct SiteThreadReport {
    pub thread: u32,
    pub episodes: u64,
    pub work_ns: Option<u64>,
    pub idle_ns: u64,
    pub release_ns: Option<u64>,
    pub running_ns: Option<u64>,
    pub ready_ns: Option<u64>,
    pub blocked_ns: Option<u64>,
    pub last: u64,
    pub counters: Option<()>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct PhaseReport {
    pub from: Option<u32>,
    pub to: u32,
    pub episodes: u64,
    pub phase_ns: Option<StatReport>,
    pub work_ns: Option<StatReport>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct UnfinishedReport {
    pub barrier: u32,
    pub site: u32,
    pub participants: Option<u32>,
    pub arrived: Vec<u32>,
    pub missing: Vec<u32>,
    /// How long the first of them had been waiting, ns.
    pub waiting_ns: u64,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/json.md")]
pub struct OwnCost {
    pub events: u64,
    pub ns_per_event: Option<u64>,
    pub share_pct: Option<f64>,
    /// CPU time that sbt itself used, ns; apart from what probes cost the target.
    pub cpu_ns: u64,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations in ns are positive and far below 2^63"
)]
fn ns(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

fn stat(stat: &Stat) -> Option<StatReport> {
    Some(StatReport {
        sum: stat.sum(),
        min: stat.min()?,
        mean: ns(stat.mean()?),
        max: stat.max()?,
        stddev: ns(stat.stddev()?),
        p50: None,
        p95: None,
        p99: None,
    })
}

/// `function file:line` as far as it is known, else `binary+0xoffset`.
fn label(place: &Place, frame: usize) -> String {
    let Some(frame) = place.frames.get(frame) else {
        return format!("{}+{:#x}", printable(&place.binary), place.offset);
    };
    let function = frame.function.as_deref().map(printable);
    let line = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => Some(format!("{}:{line}", printable(short(file)))),
        _ => None,
    };
    match (function, line) {
        (Some(function), Some(line)) => format!("{function} {line}"),
        (Some(function), None) => format!(
            "{function} ({}+{:#x})",
            printable(&place.binary),
            place.offset
        ),
        (None, Some(line)) => line,
        (None, None) => format!("{}+{:#x}", printable(&place.binary), place.offset),
    }
}

impl Report {
    /// Draws the report up. `places`: by [`crate::model::site::PlaceId`].
    pub fn new(model: &Model, places: &[Rc<Place>], run: Run, end_ns: u64) -> Self {
        let all: Vec<&Place> = places.iter().map(AsRef::as_ref).collect();
        let order = Order::new(model.threads().rows());
        let totals = model.totals();
        let mut sites: Vec<SiteReport> = (0..)
            .zip(model.sites().all())
            .map(|(id, site)| site_report(id, site, &all, &order))
            .collect();
        sites.sort_by_key(|site| (std::cmp::Reverse(site.lost_ns), site.id));
        let mut phases: Vec<PhaseReport> = model
            .sites()
            .phases
            .iter()
            .map(|((from, to), phase)| PhaseReport {
                from: from.map(|SiteId(id)| id),
                to: to.0,
                episodes: phase.phase.count(),
                phase_ns: stat(&phase.phase),
                work_ns: stat(&phase.work),
            })
            .collect();
        phases.sort_by_key(|phase| (phase.from, phase.to));
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            backend: run.backend,
            method: run.method,
            command: run.command,
            pid: run.pid,
            wall_ns: run.wall_ns,
            ended: run.ended,
            exit_status: run.exit_status,
            arrivals: totals.arrivals,
            episodes: totals.episodes,
            incomplete_episodes: totals.incomplete,
            lost_events: run.lost,
            threads: thread_reports(model.threads().rows(), &order),
            barriers: (0..)
                .zip(model.barriers().all())
                .filter(|(_, barrier)| barrier.heard_ns > 0)
                .map(|(id, barrier)| BarrierReport {
                    id,
                    kind: barrier.kind.name(),
                    address: format!("{:#x}", barrier.key.1),
                    participants: barrier.count,
                    episodes: barrier.episodes,
                })
                .collect(),
            sites,
            phases,
            unfinished: unfinished_reports(model, &order, end_ns),
            efficiency: None,
            verdicts: None,
            hang: None,
            own_cost: OwnCost {
                events: totals.arrivals + totals.departures,
                ns_per_event: None,
                share_pct: None,
                cpu_ns: run.own_cpu_ns,
            },
            departures: run.departures,
            notes: run.notes,
        }
    }

    /// A thread by its id.
    pub fn thread(&self, id: u32) -> Option<&ThreadReport> {
        self.threads.iter().find(|thread| thread.id == id)
    }

    /// A site by its id.
    pub fn site(&self, id: u32) -> Option<&SiteReport> {
        self.sites.iter().find(|site| site.id == id)
    }

    /// A barrier by its id.
    pub fn barrier(&self, id: u32) -> Option<&BarrierReport> {
        self.barriers.iter().find(|barrier| barrier.id == id)
    }
}

/// The numbers by which a report calls threads: those that met a barrier, in
/// the order of their birth, from 0.
struct Order(Vec<u32>);

impl Order {
    fn new(rows: &[Row]) -> Self {
        let mut born: Vec<usize> = (0..rows.len())
            .filter(|index| rows[*index].arrivals > 0)
            .collect();
        born.sort_by_key(|index| (rows[*index].since_ns, rows[*index].shown));
        let mut numbers = vec![u32::MAX; rows.len()];
        for (number, index) in (0..).zip(born) {
            numbers[index] = number;
        }
        Self(numbers)
    }

    fn number(&self, thread: ThreadId) -> u32 {
        self.0.get(thread.index()).copied().unwrap_or(u32::MAX)
    }

    /// Pairs what is kept by thread with the thread's number, in its order.
    fn sorted<'a, T>(&self, by_thread: &'a [T]) -> Vec<(u32, &'a T)> {
        let mut pairs: Vec<_> = self.0.iter().copied().zip(by_thread).collect();
        pairs.retain(|(number, _)| *number != u32::MAX);
        pairs.sort_by_key(|(number, _)| *number);
        pairs
    }
}

fn thread_reports(rows: &[Row], order: &Order) -> Vec<ThreadReport> {
    order
        .sorted(rows)
        .into_iter()
        .map(|(id, row)| {
            let SplitSum {
                running,
                ready,
                blocked,
            } = row.split;
            ThreadReport {
                id,
                tid: row.shown.0,
                name: printable(&row.name),
                threads: row.threads,
                ended: row.ended,
                arrivals: row.arrivals,
                episodes: row.episodes,
                last: row.last,
                work_ns: row.work.get(),
                idle_ns: row.idle_ns,
                release_ns: row.release.get(),
                running_ns: running.get(),
                ready_ns: ready.get(),
                blocked_ns: blocked.get(),
                // Where a thread spins inside a barrier is not yet told apart.
                spinning_ns: None,
            }
        })
        .collect()
}

fn unfinished_reports(model: &Model, order: &Order, end_ns: u64) -> Vec<UnfinishedReport> {
    let ids = |threads: &mut dyn Iterator<Item = ThreadId>| {
        threads.map(|thread| order.number(thread)).collect()
    };
    model
        .unfinished()
        .iter()
        .map(|open| UnfinishedReport {
            barrier: open.barrier.0,
            site: open.site.0,
            participants: model.barriers().all()[open.barrier.index()].count,
            arrived: ids(&mut open.arrived.iter().map(|(thread, _)| *thread)),
            missing: ids(&mut open.missing.iter().copied()),
            waiting_ns: open
                .arrived
                .first()
                .map_or(0, |(_, time)| end_ns.saturating_sub(*time)),
        })
        .collect()
}

fn site_report(id: u32, site: &Site, places: &[&Place], order: &Order) -> SiteReport {
    let mine: Vec<(&Place, usize)> = site
        .places
        .iter()
        .filter_map(|place| places.get(place.0 as usize))
        .map(|place| (*place, place.naming_frame(places)))
        .collect();
    let first = mine.first();
    let frame = first.and_then(|(place, frame)| place.frames.get(*frame));
    SiteReport {
        id,
        name: None,
        function: frame
            .and_then(|frame| frame.function.as_deref())
            .map(printable),
        file: frame.and_then(|frame| frame.file.as_deref()).map(printable),
        line: frame.and_then(|frame| frame.line),
        binary: first.map_or_else(|| "?".into(), |(place, _)| printable(&place.binary)),
        offset: first.map_or_else(|| "?".into(), |(place, _)| format!("{:#x}", place.offset)),
        callers: first.map_or_else(Vec::new, |(place, frame)| {
            (frame + 1..place.frames.len())
                .map(|outer| label(place, outer))
                .collect()
        }),
        places: {
            let mut labels: Vec<_> = mine
                .iter()
                .map(|(place, frame)| label(place, *frame))
                .collect();
            labels.dedup();
            labels
        },
        barriers: site.barriers.iter().map(|barrier| barrier.0).collect(),
        kind: site.kind.name(),
        episodes: site.episodes,
        incomplete: site.incomplete,
        lost_ns: site.idle.sum(),
        gain_ns: ns(site.gain_ns),
        imbalance_pct: site.imbalance_pct(),
        phase_ns: stat(&site.phase),
        barrier_ns: stat(&site.barrier),
        idle_ns: stat(&site.idle),
        release_ns: stat(&site.release),
        work_ns: stat(&site.work),
        straggler: straggler_report(site, order),
        threads: order
            .sorted(&site.threads)
            .into_iter()
            .filter(|(_, thread)| thread.episodes > 0)
            .map(|(id, thread)| site_thread_report(id, thread))
            .collect(),
    }
}

fn site_thread_report(id: u32, thread: &SiteThread) -> SiteThreadReport {
    SiteThreadReport {
        thread: id,
        episodes: thread.episodes,
        work_ns: thread.work.get(),
        idle_ns: thread.idle_ns,
        release_ns: thread.release.get(),
        running_ns: thread.split.running.get(),
        ready_ns: thread.split.ready.get(),
        blocked_ns: thread.split.blocked.get(),
        last: thread.last,
        counters: None,
    }
}

fn straggler_report(site: &Site, order: &Order) -> Option<StragglerReport> {
    let (thread, most) = order
        .sorted(&site.threads)
        .into_iter()
        .max_by_key(|(id, thread)| (thread.last, std::cmp::Reverse(*id)))?;
    (site.episodes > 0).then(|| StragglerReport {
        pattern: None,
        thread,
        share_pct: most.last as f64 / site.episodes as f64 * 100.0,
        longest_run: site.longest_run,
        mean_lead_ns: site.lead_ns / site.episodes,
    })
}
