//! One report of several recordings: those of the ranks of a job.
//!
//! The recordings are read twice, each time merged by time and row by row. The first time finds the
//! facts, the communicators and how the clocks are to be aligned; the second time feeds a model.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    },
    path::{Path, PathBuf},
    rc::Rc,
};

use anyhow::Context as _;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Row, bounds};
use merge::{Merge, Stream};
use scan::{Scan, check};

use sbt_engine::{
    event::Event,
    job::{
        clocks::{Alignment, Bounds, Shift},
        facts::{self, Part},
        meetings::{Left, Meetings},
        renumber::{MOST_RECORDINGS, Renumber},
    },
    model::{Model, tape::Step, told::Telling},
    place::printable,
    report::{ClocksReport, HostReport, JobReport, Report},
    verdict,
};
use sbt_program::access::typed;

mod merge;
mod scan;

/// The ending of the names of recordings in the folder of a job.
pub const ENDING: &str = "sbt";

/// The files of which a path may name the recordings: those of a folder, or else the path itself.
pub fn named(path: &Path) -> Vec<PathBuf> {
    let own = path.to_owned();
    recordings(std::slice::from_ref(&own)).unwrap_or_else(|_| vec![own])
}

/// The recordings that the paths name, of which each is a recording, or a folder with recordings.
///
/// # Errors
/// A folder cannot be read, or has no recording.
pub fn recordings(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        let shown = shown(path);
        if !path.is_dir() {
            anyhow::ensure!(
                !path.as_os_str().as_bytes().ends_with(b"/"),
                "cannot read {shown}: there is no such folder"
            );
            all.push(path.clone());
            continue;
        }
        let mut found = listed(path).with_context(|| format!("cannot read {shown}"))?;
        let is_hidden = |path: &Path| {
            path.file_name()
                .is_none_or(|name| name.as_encoded_bytes()[0] == b'.')
        };
        found.retain(|path| path.extension().is_some_and(|is| is == ENDING) && !is_hidden(path));
        found.sort();
        anyhow::ensure!(
            !found.is_empty(),
            "{shown} has no recordings, which end in .{ENDING}; `mpirun … sbt run -o {shown} -- PROG` makes \
             one of each rank"
        );
        all.extend(found);
    }
    Ok(all)
}

/// The paths of what lies in a folder, which is opened with the rights of the user.
fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    // Without the slash at the end.
    let folder = folder.components().as_path();
    let opened: File = match folder.file_name() {
        Some(_) => typed::read(folder)?,
        // `.`, `..` and `/` have no name of their own.
        None => typed::read(&fs::canonicalize(folder)?)?,
    };
    let entries = fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
    entries
        .map(|entry| Ok(folder.join(entry?.file_name())))
        .collect()
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// The recordings of a machine as the first reading merges them.
struct Machine {
    /// The recordings, by their place among all.
    members: Vec<usize>,
    merge: Merge,
    meetings: Meetings,
}

impl Machine {
    /// Reads on, up to the next collective of all ranks of the machine; `None` at the end.
    fn advance(&mut self, scans: &mut [Scan]) -> Option<Left> {
        loop {
            if let Some(left) = self.meetings.take_left() {
                return Some(left);
            }
            let (index, row) = self.merge.next()?;
            scans[self.members[index]].take(&row);
            if let Row::Step(Step::Event(event)) = &row {
                self.meetings.take(index, event);
            }
        }
    }
}

/// What the first reading has found.
struct Scanned {
    /// In the order of the ranks.
    scans: Vec<Scan>,
    /// The recordings of each machine.
    machines: Vec<Vec<usize>>,
    /// The clock of each machine; `None` for the first one.
    aligned: Vec<Option<Alignment>>,
}

/// Reads all recordings, and aligns the clock of each machine with that of the first one.
fn scan(paths: &[PathBuf]) -> anyhow::Result<Scanned> {
    let opened: anyhow::Result<Vec<_>> = paths.iter().map(|path| Scan::open(path)).collect();
    let mut opened = opened?;
    // The first machine is that of rank 0.
    opened.sort_by_key(|(scan, _)| scan.origin.rank.unwrap_or(u32::MAX));
    let (mut scans, streams): (Vec<Scan>, Vec<Stream>) = opened.into_iter().unzip();
    let mut clocks: Vec<(String, Vec<usize>, Vec<Stream>)> = Vec::new();
    for (index, stream) in streams.into_iter().enumerate() {
        let clock = &scans[index].origin.clock;
        match clocks.iter_mut().find(|(known, ..)| known == clock) {
            Some((_, members, streams)) => {
                members.push(index);
                streams.push(stream);
            }
            None => clocks.push((clock.clone(), vec![index], vec![stream])),
        }
    }
    let mut machines: Vec<Machine> = clocks
        .into_iter()
        .map(|(_, members, streams)| {
            let ranks = members.iter();
            let ranks = ranks.filter(|index| scans[**index].origin.rank.is_some());
            Machine {
                meetings: Meetings::of(ranks.count()),
                merge: Merge::of(streams, vec![Shift::default(); members.len()]),
                members,
            }
        })
        .collect();
    let mut bounds = vec![Bounds::default(); machines.len()];
    loop {
        let all: Option<Vec<Left>> = machines
            .iter_mut()
            .map(|machine| machine.advance(&mut scans))
            .collect();
        let Some(all) = all else {
            break;
        };
        for (bounds, other) in bounds.iter_mut().zip(&all).skip(1) {
            if let (Left::Seen(reference), Left::Seen(other)) = (all[0], *other) {
                bounds.add(reference, other);
            }
        }
    }
    for machine in &mut machines {
        while machine.advance(&mut scans).is_some() {}
        for (index, stream) in machine.members.iter().zip(&machine.merge.streams) {
            scans[*index].finish(stream)?;
        }
    }
    check(&scans)?;
    let members: Vec<Vec<usize>> = machines
        .into_iter()
        .map(|machine| machine.members)
        .collect();
    let aligned = aligned(&scans, &members, &bounds)?;
    Ok(Scanned {
        scans,
        machines: members,
        aligned,
    })
}

/// The alignment of each machine; `None` for the first one.
fn aligned(
    scans: &[Scan],
    machines: &[Vec<usize>],
    bounds: &[Bounds],
) -> anyhow::Result<Vec<Option<Alignment>>> {
    if machines.len() < 2 {
        return Ok(vec![None; machines.len()]);
    }
    let host = |machine: &[usize]| printable(&scans[machine[0]].origin.host);
    // The n-th collective of one rank is the n-th of another one only if all were seen.
    for scan in scans {
        anyhow::ensure!(
            scan.facts.lost == 0 && scan.facts.run.started == Some(true),
            "cannot align the clocks of {} hosts: {} lacks events, so its collectives are not known to be \
             those of the other ranks; `sbt report` shows the recordings of one host",
            machines.len(),
            scan.shown()
        );
    }
    let whole = || {
        scans
            .iter()
            .filter(|scan| scan.missing.is_none() && scan.origin.rank.is_some())
    };
    if let (Some(most), Some(least)) = (
        whole().max_by_key(|scan| scan.on_world),
        whole().min_by_key(|scan| scan.on_world),
    ) {
        anyhow::ensure!(
            most.on_world == least.on_world,
            "cannot align the clocks of {} hosts: {} came to {} collectives on MPI_COMM_WORLD, and {} \
             to {}; `sbt report` shows the recordings of one host",
            machines.len(),
            most.origin.called(),
            most.on_world,
            least.origin.called(),
            least.on_world
        );
    }
    let each = machines.iter().zip(bounds).skip(1);
    let others = each.map(|(machine, bounds)| {
        bounds.align().map(Some).map_err(|why| {
            anyhow::anyhow!(
                "cannot align the clocks of {} and {}: {why}; `sbt report` shows the recordings of one host",
                host(&machines[0]),
                host(machine)
            )
        })
    });
    std::iter::once(Ok(None)).chain(others).collect()
}

/// The recordings and clocks, as the report shows them.
fn described(scans: &[Scan], machines: &[Vec<usize>], aligned: &[Option<Alignment>]) -> JobReport {
    let ranks = scans.iter().filter_map(|scan| scan.origin.ranks).max();
    let there: FxHashSet<u32> = scans.iter().filter_map(|scan| scan.origin.rank).collect();
    let missing = (0..ranks.unwrap_or(0)).filter(|rank| !there.contains(rank));
    let hosts = machines.iter().zip(aligned).map(|(members, aligned)| {
        let shift = aligned.map_or_else(Shift::default, |aligned| aligned.shift);
        HostReport {
            name: printable(&scans[members[0]].origin.host),
            recordings: u32::try_from(members.len()).unwrap_or(u32::MAX),
            offset_ns: shift.offset_ns,
            drift_ns_per_s: shift.drift * 1e9,
        }
    });
    let known = || aligned.iter().flatten();
    JobReport {
        recordings: u32::try_from(scans.len()).unwrap_or(u32::MAX),
        ranks,
        missing_ranks: missing.collect(),
        hosts: hosts.collect(),
        clocks: known()
            .map(|aligned| aligned.meetings)
            .min()
            .map(|collectives| ClocksReport {
                collectives,
                uncertainty_ns: known()
                    .map(|aligned| aligned.uncertainty_ns)
                    .max()
                    .unwrap_or(0),
            }),
    }
}

/// How many ranks each communicator has of which no recording knows that, by recording and object:
/// those that have come to it, if all ranks of the job were recorded.
fn sizes(scans: &[Scan], job: &JobReport) -> FxHashMap<(usize, u64), u32> {
    let mut members: FxHashMap<&str, (u32, bool)> = FxHashMap::default();
    let is_whole = job.ranks == Some(job.recordings)
        && scans
            .iter()
            .all(|scan| scan.missing.is_none() && scan.facts.lost == 0);
    if !is_whole {
        return FxHashMap::default();
    }
    for scan in scans {
        let names: FxHashSet<&str> = scan
            .used
            .iter()
            .map(|object| scan.named[object].0.as_str())
            .collect();
        for name in names {
            members.entry(name).or_default().0 += 1;
        }
        for (name, is_counted) in scan.named.values() {
            members.entry(name).or_default().1 |= is_counted;
        }
    }
    let each = scans.iter().enumerate().flat_map(|(index, scan)| {
        let named = scan.named.iter();
        named.map(move |(object, (name, _))| ((index, *object), name.as_str()))
    });
    let is_known = |name| !scans.iter().any(|scan| scan.reused.contains(name));
    each.filter_map(|(key, name)| {
        let (count, is_counted) = *members.get(name)?;
        (!is_counted && is_known(name)).then_some((key, count))
    })
    .collect()
}

/// The report of the job whose recordings these are.
///
/// # Errors
/// A file cannot be read, or the recordings cannot be merged.
pub fn report(paths: &[PathBuf]) -> anyhow::Result<Report> {
    anyhow::ensure!(
        u32::try_from(paths.len()).is_ok_and(|count| count <= MOST_RECORDINGS),
        "these are {} recordings, and sbt merges at most {MOST_RECORDINGS}",
        paths.len()
    );
    each_once(paths)?;
    // All are open at the same time.
    crate::source::allow_files();
    let Scanned {
        scans,
        machines,
        aligned,
    } = scan(paths)?;
    let mut machine_of = vec![0; scans.len()];
    for (machine, members) in machines.iter().enumerate() {
        for index in members {
            machine_of[*index] = machine;
        }
    }
    let shifts: Vec<Shift> = machine_of
        .iter()
        .map(|machine| aligned[*machine].map_or_else(Shift::default, |aligned| aligned.shift))
        .collect();
    let origins = scans.iter().map(|scan| &scan.origin);
    let mut renumber = Renumber::of(origins.zip(shifts.iter().copied()));
    let job = described(&scans, &machines, &aligned);
    let sizes = sizes(&scans, &job);
    let (model, places) = model(&scans, &shifts, &mut renumber, &sizes)?;
    let parts: Vec<Part> = scans
        .into_iter()
        .zip(&shifts)
        .map(|(scan, shift)| {
            let mut facts = scan.facts;
            facts.run.start_ns = shift.apply(facts.run.start_ns);
            Part {
                origin: scan.origin,
                facts,
                missing: scan.missing,
            }
        })
        .collect();
    let facts = facts::merged(&parts, job);
    let mut report = verdict::with(Report::new(&model, &places, facts));
    renumber.restore(&mut report, |index| {
        u32::try_from(machine_of.get(index).copied().unwrap_or(0)).unwrap_or(0)
    });
    Ok(report)
}

type Places = Vec<Rc<sbt_engine::place::Place>>;

/// Refuses recordings of which one is named twice.
fn each_once(paths: &[PathBuf]) -> anyhow::Result<()> {
    let mut seen = FxHashMap::default();
    for path in paths {
        let Ok(file) = fs::metadata(path) else {
            continue;
        };
        if let Some(other) = seen.insert((file.dev(), file.ino()), path) {
            anyhow::bail!(
                "{} and {} are one file; name it once",
                shown(other),
                shown(path)
            );
        }
    }
    Ok(())
}

/// Reads the recordings a second time: the model of the job.
fn model(
    scans: &[Scan],
    shifts: &[Shift],
    renumber: &mut Renumber,
    sizes: &FxHashMap<(usize, u64), u32>,
) -> anyhow::Result<(Model, Places)> {
    let begins = || scans.iter().zip(shifts);
    let start_ns = begins().map(|(scan, shift)| shift.apply(scan.begin.start_ns));
    let mut model = Model::new(
        start_ns.min().unwrap_or(0),
        scans.iter().all(|scan| scan.begin.departures),
    );
    let conceptual = scans.iter().map(|scan| scan.begin.conceptual);
    model.observe(conceptual.max().unwrap_or(0), Telling::default());
    if scans.iter().all(|scan| scan.begin.switches) {
        model.watch_switches();
    }
    let streams: anyhow::Result<Vec<Stream>> = scans
        .iter()
        .map(|scan| Ok(Stream::open(&scan.path)?.0))
        .collect();
    let mut merge = Merge::of(streams?, shifts.to_vec());
    let mut limits: Vec<_> = scans.iter().map(|_| bounds::Bounds::default()).collect();
    let mut places = Places::new();
    while let Some((index, row)) = merge.next() {
        let is_allowed = limits[index].allow(&row, &model);
        match &row {
            _ if !is_allowed => merge.stop(index),
            Row::Place(place) => places.extend(renumber.place(index, place).map(Rc::new)),
            Row::Step(step) => {
                let size = match step {
                    Step::Event(Event::Arrive { object, .. }) => sizes.get(&(index, *object)),
                    _ => None,
                };
                match renumber.step(index, step) {
                    Ok(Some(step)) => {
                        if let (Some(count), Step::Event(arrival)) = (size, &step) {
                            tell_size(&mut model, arrival, *count);
                        }
                        model.take(&step);
                        drop(model.take_told());
                    }
                    Ok(None) => {}
                    Err(_) => merge.stop(index),
                }
            }
            _ => {}
        }
        if let Some(error) = merge.streams[index]
            .stopped
            .take_if(|_| scans[index].missing.is_none())
        {
            // The first reading found nothing wrong.
            return Err(error.into());
        }
    }
    model.finish();
    Ok((model, places))
}

/// Tells the number of ranks of the communicator at which a rank is about to arrive.
fn tell_size(model: &mut Model, arrival: &Event, count: u32) {
    if let Event::Arrive {
        tid,
        clocks,
        object,
        ..
    } = arrival
    {
        model.take(&Step::Event(Event::Memory {
            tid: *tid,
            time_ns: clocks.time_ns,
            object: *object,
            count,
            round: None,
        }));
    }
}
