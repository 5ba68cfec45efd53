//! The tracks of a trace.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
};

use super::{
    packets::Packets,
    proto::{CounterDescriptor, EXPLICIT, ProcessDescriptor, ThreadDescriptor, TrackDescriptor},
};
use crate::show::table::{Style, duration};
use sbt_engine::{
    place::printable,
    report::{Report, ThreadReport},
    words::command_line,
};

/// Maximum number of tracks of one site, which limits how many of its episodes are drawn at the
/// same time.
const MOST_LANES: usize = 64;

const STYLE: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

/// The tracks that things are drawn on.
pub struct Tracks {
    /// By thread; `None` if several threads share a number.
    threads: Vec<Option<u64>>,
    /// By thread and counter.
    counters: HashMap<(u32, usize), u64>,
    /// The track of the number of busy threads.
    pub busy: u64,
    /// The parent of the sites' episode tracks.
    pub episodes: u64,
    /// The parent of the phase tracks, which are grouped by the site where a phase ends.
    pub phases: u64,
    left_out: Option<u64>,
}

/// Name of a thread's track.
pub fn thread_name(thread: &ThreadReport) -> String {
    printable(&format!("{} {}", thread.label, thread.name))
}

/// A process id in the type that the format uses.
fn pid(pid: u32) -> Option<i32> {
    i32::try_from(pid).ok()
}

impl Tracks {
    /// Describes the tracks of a report. `step_ns` is the time over which the number of busy
    /// threads is averaged.
    pub fn new(
        report: &Report,
        packets: &mut Packets<impl Write>,
        step_ns: u64,
    ) -> io::Result<Self> {
        let processes = processes(report, packets)?;
        let mut met = HashSet::new();
        let mut threads = Vec::new();
        for (rank, thread) in (0..).zip(&report.threads) {
            if thread.threads > 1 {
                threads.push(None);
                continue;
            }
            let uuid = packets.uuid();
            // Perfetto needs unique thread ids: a thread whose id is unknown or was reused
            // is described by its name only.
            let is_one = thread.tid != 0 && met.insert((thread.pid, thread.tid));
            let described = ThreadDescriptor {
                pid: pid(thread.pid),
                tid: Some(thread.tid.into()),
                thread_name: Some(thread_name(thread)),
            };
            packets.describe(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid: processes.get(&thread.pid).copied(),
                name: (!is_one).then(|| thread_name(thread)),
                thread: is_one.then_some(described),
                sibling_order_rank: Some(rank),
                ..TrackDescriptor::default()
            })?;
            threads.push(Some(uuid));
        }
        let mut group = |name: &str, description: &str| {
            let uuid = packets.uuid();
            packets.describe(TrackDescriptor {
                uuid: Some(uuid),
                name: Some(name.to_owned()),
                description: Some(description.to_owned()),
                ..TrackDescriptor::default()
            })?;
            Ok::<u64, io::Error>(uuid)
        };
        let episodes = group("episodes", "From the first arrival to the last, by site")?;
        let phases = group(
            "phases",
            "From the last arrival of the previous episode to the last arrival of this episode, by \
             the site that ends the phase",
        )?;
        let busy = packets.uuid();
        let step = duration(Some(step_ns), STYLE);
        packets.describe(TrackDescriptor {
            uuid: Some(busy),
            name: Some("busy threads".into()),
            description: Some(format!(
                "Threads that were seen at work, between barriers: means over {step}. Times that \
                 sbt did not see are not included."
            )),
            counter: Some(CounterDescriptor {
                unit_name: Some("threads".into()),
            }),
            ..TrackDescriptor::default()
        })?;
        Ok(Self {
            threads,
            counters: HashMap::new(),
            busy,
            episodes,
            phases,
            left_out: None,
        })
    }

    /// The track of a thread; `None` if it has no track of its own.
    pub fn thread(&self, number: u32) -> Option<u64> {
        self.threads.get(number as usize).copied().flatten()
    }

    /// The track of one of a thread's counters.
    pub fn counter(
        &mut self,
        thread: u32,
        at: usize,
        name: &str,
        packets: &mut Packets<impl Write>,
    ) -> io::Result<Option<u64>> {
        let Some(parent) = self.thread(thread) else {
            return Ok(None);
        };
        if let Some(track) = self.counters.get(&(thread, at)) {
            return Ok(Some(*track));
        }
        let uuid = packets.uuid();
        packets.describe(TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: Some(parent),
            name: Some(printable(&format!("{name} per second"))),
            counter: Some(CounterDescriptor {
                unit_name: Some(format!("{}/s", printable(name))),
            }),
            ..TrackDescriptor::default()
        })?;
        self.counters.insert((thread, at), uuid);
        Ok(Some(uuid))
    }

    /// The track that shows where episodes are not drawn or not recorded.
    pub fn left_out(&mut self, packets: &mut Packets<impl Write>) -> io::Result<u64> {
        if let Some(track) = self.left_out {
            return Ok(track);
        }
        let uuid = packets.uuid();
        packets.describe(TrackDescriptor {
            uuid: Some(uuid),
            name: Some("not drawn".into()),
            description: Some(
                "`not recorded`: the recording keeps only later events. `not drawn`: the recording \
                 has more than the trace can show; evenly spread parts are drawn"
                    .into(),
            ),
            ..TrackDescriptor::default()
        })?;
        self.left_out = Some(uuid);
        Ok(uuid)
    }
}

/// Describes the processes. Returns their tracks by process id.
fn processes(report: &Report, packets: &mut Packets<impl Write>) -> io::Result<HashMap<u32, u64>> {
    let mut all: Vec<(u32, String)> = Vec::new();
    let command = printable(&command_line(&report.run.command));
    for process in &report.processes {
        let name = match process.rank {
            Some(rank) => format!("rank {rank} of {command}"),
            None if process.pid == report.run.pid => command.clone(),
            None => format!("process {} of {command}", process.id),
        };
        if all.iter().all(|(pid, _)| *pid != process.pid) {
            all.push((process.pid, name));
        }
    }
    for thread in &report.threads {
        if all.iter().all(|(pid, _)| *pid != thread.pid) {
            all.push((thread.pid, command.clone()));
        }
    }
    let mut tracks = HashMap::new();
    for (number, name) in all {
        let uuid = packets.uuid();
        packets.describe(TrackDescriptor {
            uuid: Some(uuid),
            process: Some(ProcessDescriptor {
                pid: pid(number),
                cmdline: report
                    .run
                    .command
                    .iter()
                    .map(|word| printable(word))
                    .collect(),
                process_name: Some(name),
            }),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        })?;
        tracks.insert(number, uuid);
    }
    Ok(tracks)
}

/// Tracks for spans that may overlap: each site gets as many tracks of the same name as needed.
pub struct Lanes {
    parent: u64,
    /// By site: its tracks, each with the end of its last span, ns.
    of: HashMap<u32, Vec<(u64, u64)>>,
}

impl Lanes {
    /// Starts without tracks; new tracks go below `parent`.
    pub fn new(parent: u64) -> Self {
        Self {
            parent,
            of: HashMap::new(),
        }
    }

    /// A track of a site that is free during a span; `None` if the span is empty or there are too
    /// many tracks.
    pub fn of(
        &mut self,
        site: u32,
        name: &str,
        (from_ns, to_ns): (u64, u64),
        packets: &mut Packets<impl Write>,
    ) -> io::Result<Option<u64>> {
        if from_ns >= to_ns {
            return Ok(None);
        }
        let lanes = self.of.entry(site).or_default();
        if let Some((track, until_ns)) = lanes.iter_mut().find(|lane| lane.1 <= from_ns) {
            *until_ns = to_ns;
            return Ok(Some(*track));
        }
        if lanes.len() >= MOST_LANES {
            return Ok(None);
        }
        let uuid = packets.uuid();
        lanes.push((uuid, to_ns));
        packets.describe(TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: Some(self.parent),
            name: Some(printable(name)),
            ..TrackDescriptor::default()
        })?;
        Ok(Some(uuid))
    }
}
