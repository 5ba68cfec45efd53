//! What the first reading finds in each recording, and whether the recordings are of one job.

use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    super::{Begin, Row, lately::Lately},
    merge::Stream,
    shown,
};
use sbt_engine::{
    event::Event,
    job::is_on_world,
    model::tape::Step,
    origin::Origin,
    report::{Facts, IncompleteKind, IncompleteReport},
    words::time,
};

/// The most names of communicators of a recording that are kept.
const MOST_NAMES: usize = 1 << 16;

/// What the first reading finds in a recording.
pub(super) struct Scan {
    pub(super) path: PathBuf,
    pub(super) begin: Begin,
    pub(super) origin: Origin,
    pub(super) facts: Facts,
    pub(super) lately: Lately,
    pub(super) at_ns: u64,
    /// Why the recording cannot be merged with others.
    pub(super) alone: Option<&'static str>,
    /// Communicators by object: the name in the job, and whether the number of ranks is known.
    pub(super) named: FxHashMap<u64, (String, bool)>,
    /// The names of communicators that had one object after the other.
    pub(super) reused: FxHashSet<String>,
    /// The objects of communicators at which the rank has arrived.
    pub(super) used: FxHashSet<u64>,
    /// Arrivals on the world.
    pub(super) on_world: u64,
    pub(super) missing: Option<IncompleteReport>,
}

impl Scan {
    pub(super) fn open(path: &Path) -> anyhow::Result<(Self, Stream)> {
        let (stream, begin) = Stream::open(path)?;
        let shown = shown(path);
        let Some(Row::Facts(facts)) = &stream.next else {
            anyhow::bail!(
                "{shown} was made with --keep or --stats-only, or is damaged: it cannot be merged with \
                 other recordings; `sbt report {shown}` shows it alone"
            );
        };
        let Some(origin) = facts.origin.clone() else {
            anyhow::bail!(
                "{shown} was made by an older sbt and does not say on which machine: it cannot be merged \
                 with other recordings; record the job again"
            );
        };
        let this = Self {
            path: path.to_owned(),
            begin,
            origin,
            facts: Facts::default(),
            lately: Lately::default(),
            at_ns: begin.start_ns,
            alone: None,
            named: FxHashMap::default(),
            reused: FxHashSet::default(),
            used: FxHashSet::default(),
            on_world: 0,
            missing: None,
        };
        Ok((this, stream))
    }

    pub(super) fn shown(&self) -> String {
        shown(&self.path)
    }

    pub(super) fn take(&mut self, row: &Row) {
        self.at_ns = self.at_ns.max(row.time_ns().unwrap_or(0));
        match row {
            Row::Facts(facts) => {
                self.facts = (**facts).clone();
                self.lately.written(self.at_ns);
            }
            Row::Step(step) => {
                self.lately.step(step, self.at_ns);
                self.step(step);
            }
            Row::Report(_) => {
                self.alone = Some("it was made with --keep, and does not have all events");
            }
            _ => {}
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Off(true) => {
                self.alone = Some(
                    "its probes were off for a part of the time, because they cost more than --budget \
                     allows; record the job again with `--budget off`",
                );
            }
            Step::Reset { .. } | Step::Event(Event::Gap { .. }) => {
                self.alone = Some(
                    "it has gaps, because only a part of the run was watched, or because a barrier that \
                     spins was recognised late",
                );
            }
            Step::Event(Event::Communicator { object, name, .. })
                if self.named.len() < MOST_NAMES =>
            {
                if let Some(name) = self.origin.name_in_job(name)
                    && let Some((before, _)) = self.named.insert(*object, (name.clone(), false))
                    && before != name
                    && self.reused.len() < MOST_NAMES
                {
                    self.reused.extend([before, name]);
                }
            }
            Step::Event(Event::Memory { object, .. }) => {
                if let Some((_, is_counted)) = self.named.get_mut(object) {
                    *is_counted = true;
                }
            }
            Step::Event(Event::Arrive { object, .. }) => {
                if let Some((name, _)) = self.named.get(object) {
                    self.on_world += u64::from(is_on_world(name));
                    self.used.insert(*object);
                }
            }
            _ => {}
        }
    }

    /// The recording has been read.
    pub(super) fn finish(&mut self, stream: &Stream) -> anyhow::Result<()> {
        if let Some(why) = self.alone {
            anyhow::bail!(
                "{} cannot be merged with other recordings: {why}",
                self.shown()
            );
        }
        if stream.ended && stream.stopped.is_none() {
            return Ok(());
        }
        self.lately.settle(&mut self.facts, self.at_ns);
        let (kind, why) = match &stream.stopped {
            Some(error) => (IncompleteKind::Damaged, error.to_string()),
            None => (
                IncompleteKind::NoEnd,
                format!(
                    "{} has no end: its sbt is still writing it, was killed or ran out of disk space, or \
                     the file was cut later",
                    self.shown()
                ),
            ),
        };
        let text = format!(
            "{why}; of {} only the first {} are known",
            self.origin.called(),
            time(self.facts.run.wall_ns)
        );
        self.missing = Some(IncompleteReport { kind, text });
        Ok(())
    }
}

/// No job has more ranks than this; those that are missing are listed.
const MOST_RANKS: u32 = 1 << 24;

/// Checks that the recordings are of one job, and were made alike.
pub(super) fn check(scans: &[Scan]) -> anyhow::Result<()> {
    let Some(first) = scans.first() else {
        return Ok(());
    };
    let most = scans.iter().filter_map(|scan| scan.origin.ranks).max();
    anyhow::ensure!(
        most.is_none_or(|most| most <= MOST_RANKS),
        "{} is damaged: its job has more than {MOST_RANKS} ranks",
        first.shown()
    );
    let mut ranks = FxHashMap::default();
    for scan in scans {
        // Hydra's name of a job is another one on each machine.
        let mut beside = scans
            .iter()
            .filter(|other| other.origin.clock == scan.origin.clock);
        let other = beside.find(|other| other.origin.job != scan.origin.job);
        let other = other.or((first.origin.ranks != scan.origin.ranks).then_some(first));
        if let Some(other) = other {
            anyhow::bail!(
                "{} and {} are of different runs; remove the recordings of earlier runs",
                other.shown(),
                scan.shown()
            );
        }
        let (here, there) = (scan.shown(), first.shown());
        anyhow::ensure!(
            scan.origin.rank.is_some() || scan.facts.run.command == first.facts.run.command,
            "{here} and {there} are of different programs, and have no ranks of MPI: they are no job"
        );
        if let Some(other) = scan
            .origin
            .rank
            .and_then(|rank| ranks.insert(rank, &scan.path))
        {
            anyhow::bail!(
                "{here} and {} are both of {}; remove the recordings of earlier runs",
                shown(other),
                scan.origin.called()
            );
        }
        let options = |scan: &Scan| {
            let Facts {
                conceptual,
                marks,
                counters,
                states,
                ..
            } = &scan.facts;
            (conceptual.clone(), marks.clone(), counters.clone(), *states)
        };
        anyhow::ensure!(
            options(scan) == options(first),
            "{here} and {there} were made with different options: --phase, --mark, --events and \
             --states must be the same for all ranks"
        );
    }
    Ok(())
}
