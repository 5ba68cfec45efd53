//! The costs of probes that sbt has measured a short while ago on this machine, kept by root for
//! the runs that follow: to measure them takes longer than many a run itself.
//!
//! They are a file in `/run`, which a restart of the machine empties. Only root reads and writes it, in
//! a folder that only root can change: whoever can change it decides how much sbt may cost.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use sbt_engine::model::cost::Tariff;

/// How long costs are used. A machine becomes busy, or runs at another frequency.
const FRESH: Duration = Duration::from_mins(10);

/// The most costs of different programs and settings that are kept.
const MOST: usize = 16;

/// The file is not read beyond this length, bytes.
const LONGEST: u64 = 1 << 16;

/// The folder of sbt's own files, and who must own it.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    owner: u32,
}

/// The costs of one choice of programs.
#[derive(Debug, Deserialize, Serialize)]
struct Known {
    /// Names what was measured.
    key: String,
    /// When it was measured, by the system's clock, s since 1970.
    at: u64,
    tariff: Tariff,
}

/// The content of the file.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Content {
    /// The kernel's name for the time since this machine was started.
    boot: String,
    known: Vec<Known>,
}

impl Folder {
    /// The folder of this machine; `None` unless sbt is root.
    pub fn of_machine() -> Option<Self> {
        nix::unistd::geteuid().is_root().then(|| Self {
            path: PathBuf::from("/run/sbt"),
            owner: 0,
        })
    }

    fn file(&self) -> PathBuf {
        self.path.join("costs.json")
    }

    /// Whether the folder can be changed by its owner only, and so cannot be put in its place by
    /// anybody else.
    fn is_sound(&self) -> bool {
        let is_kept = |path: &Path| {
            let meta = fs::symlink_metadata(path);
            meta.is_ok_and(|meta| {
                meta.is_dir() && meta.uid() == self.owner && meta.mode() & 0o022 == 0
            })
        };
        is_kept(&self.path) && self.path.parent().is_some_and(is_kept)
    }

    fn read(&self) -> Option<Content> {
        if !self.is_sound() {
            return None;
        }
        let file = self.file();
        let meta = fs::symlink_metadata(&file).ok()?;
        if !meta.is_file() || meta.uid() != self.owner || meta.len() > LONGEST {
            return None;
        }
        let content: Content = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        (content.boot == boot()?).then_some(content)
    }

    /// The costs of `key`, if they were measured a short while ago.
    pub fn find(&self, key: &str, now: SystemTime) -> Option<Tariff> {
        let now = seconds(now)?;
        let known = self.read()?.known;
        let known = known.into_iter().find(|known| known.key == key)?;
        let is_fresh = (known.at..=known.at.saturating_add(FRESH.as_secs())).contains(&now);
        (is_fresh && is_possible(&known.tariff)).then_some(known.tariff)
    }

    /// Keeps costs that were measured just now. Nobody is told if that fails: the next run measures.
    pub fn keep(&self, key: &str, tariff: &Tariff, now: SystemTime) {
        let _not_kept = self.try_keep(key, tariff, now);
    }

    fn try_keep(&self, key: &str, tariff: &Tariff, now: SystemTime) -> Option<()> {
        let _exists = fs::DirBuilder::new().mode(0o700).create(&self.path);
        let content = self.read().unwrap_or_default();
        let mut known = content.known;
        known.retain(|known| known.key != key);
        known.truncate(MOST - 1);
        let new = Known {
            key: key.to_owned(),
            at: seconds(now)?,
            tariff: *tariff,
        };
        known.insert(0, new);
        let content = Content {
            boot: boot()?,
            known,
        };
        if !self.is_sound() {
            return None;
        }
        // Another sbt may read meanwhile, or write too.
        let mut part = tempfile::NamedTempFile::new_in(&self.path).ok()?;
        part.write_all(&serde_json::to_vec(&content).ok()?).ok()?;
        part.persist(self.file()).ok()?;
        Some(())
    }
}

/// Whether these are costs: a damaged file could make sbt cost the program without a bound.
fn is_possible(tariff: &Tariff) -> bool {
    let mut all = tariff.each.iter().chain([&tariff.step, &tariff.walk]);
    all.all(|cost| cost.is_finite() && *cost >= 0.0)
        && tariff.each.first().is_some_and(|wait| *wait > 0.0)
}

fn seconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

#[cfg(test)]
#[path = "known_costs_tests.rs"]
mod tests;
