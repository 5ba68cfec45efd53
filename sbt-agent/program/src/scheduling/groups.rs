//! The control groups of processes: CPU quotas, and whether a group is frozen. Versions 1 and 2.

use std::{
    collections::BTreeMap,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use procfs::{
    FromBufRead, FromRead as _,
    process::{MountInfo, MountInfos},
};
use sbt_engine::report::QuotaReport;

use crate::process::text;

/// The most control groups with a quota that are kept.
const MOST_GROUPS: usize = 64;

/// A mounted hierarchy of control groups.
#[derive(Clone, Debug)]
struct Hierarchy {
    /// The controller for which it is used; `None` for version 2, where all are in one.
    controller: Option<&'static str>,
    /// The group that is mounted.
    root: PathBuf,
    mounted_at: PathBuf,
}

/// The controllers of version 1 that matter here.
const CONTROLLERS: [&str; 2] = ["cpu", "freezer"];

/// The counters of a group with a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    periods: u64,
    throttled_periods: u64,
    throttled_ns: u64,
}

/// A quota: how many CPUs it amounts to, and its period, ns.
type Quota = (f64, u64);

/// A group with a quota.
#[derive(Clone, Debug)]
struct Kept {
    shown: String,
    quota: Quota,
    first: Counts,
    last: Counts,
}

/// The control groups of a target.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    hierarchies: Vec<Hierarchy>,
    /// By the folder of the group.
    kept: BTreeMap<PathBuf, Kept>,
}

impl Groups {
    /// The groups of no process yet. `proc`: where /proc is mounted.
    pub fn new(proc: &Path) -> Self {
        let mounts: Option<MountInfos> = buffered(&proc.join("self/mountinfo"));
        let hierarchies = mounts.into_iter().flatten();
        Self {
            hierarchies: hierarchies
                .flat_map(|mount| hierarchies_of(&mount))
                .collect(),
            kept: BTreeMap::new(),
        }
    }

    /// Looks at the groups of a process, and at those above them.
    pub fn look(&mut self, proc: &Path, pid: u32) {
        for (folder, shown) in self.groups_of(proc, pid, "cpu") {
            if self.kept.contains_key(&folder) || self.kept.len() >= MOST_GROUPS {
                continue;
            }
            if let (Some(quota), Some(counts)) = (quota(&folder), counts(&folder)) {
                let kept = Kept {
                    shown,
                    quota,
                    first: counts,
                    last: counts,
                };
                self.kept.insert(folder, kept);
            }
        }
    }

    /// Reads again what the groups have counted.
    pub fn count(&mut self) {
        for (folder, kept) in &mut self.kept {
            // A group that was removed keeps its last counts; a quota may be changed meanwhile.
            if let Some(counts) = counts(folder) {
                kept.last = counts;
            }
            if let Some(quota) = quota(folder) {
                kept.quota = quota;
            }
        }
    }

    /// Counts from now on.
    pub fn reset(&mut self) {
        self.count();
        for kept in self.kept.values_mut() {
            kept.first = kept.last;
        }
    }

    /// The frozen group that keeps a process from running, if any.
    pub fn frozen(&self, proc: &Path, pid: u32) -> Option<String> {
        // The state of a group includes those above it: the outermost frozen group is the cause.
        let groups = self.groups_of(proc, pid, "freezer");
        let mut frozen = groups.into_iter().filter(|(folder, _)| is_frozen(folder));
        frozen.next_back().map(|(_, shown)| shown)
    }

    /// The groups with a quota, those that were stopped for longest first.
    pub fn report(&self) -> Vec<QuotaReport> {
        let report = |kept: &Kept| QuotaReport {
            group: kept.shown.clone(),
            cpus: kept.quota.0,
            period_ns: kept.quota.1,
            periods: kept.last.periods.saturating_sub(kept.first.periods),
            throttled_periods: (kept.last.throttled_periods)
                .saturating_sub(kept.first.throttled_periods),
            throttled_ns: kept
                .last
                .throttled_ns
                .saturating_sub(kept.first.throttled_ns),
        };
        let mut all: Vec<QuotaReport> = self.kept.values().map(report).collect();
        all.sort_by_key(|quota| std::cmp::Reverse(quota.throttled_ns));
        all
    }

    /// The folder and the path of a process's group for a controller, and those of the groups above
    /// it, the innermost first: in version 1, and in version 2, which freezes also where the
    /// controller is in version 1.
    fn groups_of(&self, proc: &Path, pid: u32, controller: &str) -> Vec<(PathBuf, String)> {
        let versions = [Some(controller), None].into_iter();
        versions
            .filter_map(|wanted| self.groups_in(proc, pid, wanted))
            .flatten()
            .collect()
    }

    /// The same in one hierarchy; `None` if it is not mounted.
    fn groups_in(
        &self,
        proc: &Path,
        pid: u32,
        controller: Option<&str>,
    ) -> Option<Vec<(PathBuf, String)>> {
        let path = path_of(proc, pid, controller)?;
        // Groups outside of sbt's namespace cannot be reached by name.
        if path.contains("/..") {
            return None;
        }
        let mut mounted = self.hierarchies.iter();
        let (hierarchy, below) = mounted.find_map(|hierarchy| {
            let below = Path::new(&path).strip_prefix(&hierarchy.root).ok()?;
            (hierarchy.controller == controller).then_some((hierarchy, below))
        })?;
        let folders = below.ancestors().map(|up| hierarchy.mounted_at.join(up));
        let shown = Path::new(&path).ancestors();
        let shown = shown.map(|up| up.to_string_lossy().into_owned());
        Some(folders.zip(shown).collect())
    }
}

/// The path of a process's group in the hierarchy of a controller; that of version 2 for `None`.
fn path_of(proc: &Path, pid: u32, controller: Option<&str>) -> Option<String> {
    let groups = procfs::ProcessCGroups::from_file(proc.join(format!("{pid}/cgroup"))).ok()?;
    let is_meant = |group: &procfs::ProcessCGroup| match controller {
        Some(controller) => group.controllers.iter().any(|name| name == controller),
        None => group.hierarchy == 0,
    };
    let group = groups.0.into_iter().find(is_meant)?;
    Some(group.pathname)
}

fn hierarchies_of(mount: &MountInfo) -> Vec<Hierarchy> {
    let hierarchy = |controller| Hierarchy {
        controller,
        root: PathBuf::from(&mount.root),
        mounted_at: mount.mount_point.clone(),
    };
    match mount.fs_type.as_str() {
        "cgroup2" => vec![hierarchy(None)],
        "cgroup" => CONTROLLERS
            .into_iter()
            .filter(|controller| mount.super_options.contains_key(*controller))
            .map(|controller| hierarchy(Some(controller)))
            .collect(),
        _ => Vec::new(),
    }
}

fn buffered<T: FromBufRead>(path: &Path) -> Option<T> {
    T::from_buf_read(BufReader::new(File::open(path).ok()?)).ok()
}

/// The quota of a group; `None` if it has none.
fn quota(folder: &Path) -> Option<Quota> {
    if let Ok(limit) = text(folder.join("cpu.max")) {
        return quota_of(&limit);
    }
    let quota = text(folder.join("cpu.cfs_quota_us")).ok()?;
    let period = text(folder.join("cpu.cfs_period_us")).ok()?;
    quota_of(&format!("{} {}", quota.trim(), period.trim()))
}

/// The quota of the words for quota and period, in µs. No quota is `max` or -1.
fn quota_of(words: &str) -> Option<Quota> {
    let mut words = words.split_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok().filter(|period| *period > 0)?;
    Some((quota as f64 / period as f64, period.saturating_mul(1000)))
}

fn counts(folder: &Path) -> Option<Counts> {
    counts_of(&text(folder.join("cpu.stat")).ok()?)
}

fn counts_of(stat: &str) -> Option<Counts> {
    let number = |name: &str| {
        let mut lines = stat.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse::<u64>().ok()
    };
    let usec = number("throttled_usec").map(|us| us.saturating_mul(1000));
    Some(Counts {
        periods: number("nr_periods")?,
        throttled_periods: number("nr_throttled")?,
        throttled_ns: usec.or_else(|| number("throttled_time"))?,
    })
}

fn is_frozen(folder: &Path) -> bool {
    let says = |file: &str, words: &str| {
        text(folder.join(file)).is_ok_and(|text| text.lines().any(|line| line.trim() == words))
    };
    says("cgroup.events", "frozen 1") || says("freezer.state", "FROZEN")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A made-up system in a temporary folder.
    struct Fake(tempfile::TempDir);

    impl Fake {
        fn new(mounts: &[(&str, &str, &str, &str)], groups: &str) -> Self {
            let fake = Self(tempfile::tempdir().unwrap());
            let lines = mounts.iter().map(|(kind, root, at, options)| {
                let at = fake.0.path().join(at);
                format!(
                    "30 20 0:26 {root} {} rw - {kind} {kind} rw,{options}\n",
                    at.display()
                )
            });
            fake.write("proc/self/mountinfo", &lines.collect::<String>());
            fake.write("proc/7/cgroup", groups);
            fake
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn proc(&self) -> PathBuf {
            self.0.path().join("proc")
        }
    }

    fn seen(groups: &Groups) -> Vec<(String, f64, u64, u64)> {
        let quotas = groups.report().into_iter();
        quotas
            .map(|quota| {
                (
                    quota.group,
                    quota.cpus,
                    quota.throttled_periods,
                    quota.throttled_ns,
                )
            })
            .collect()
    }

    #[test]
    fn a_quota_of_version_2_counts_also_above_the_group() {
        let fake = Fake::new(
            &[("cgroup2", "/", "cg", "nsdelegate")],
            "0::/user/job/step\n",
        );
        let stat = |usec: u64| {
            format!("usage_usec 9\nnr_periods 40\nnr_throttled 30\nthrottled_usec {usec}\n")
        };
        fake.write("cg/user/job/step/cpu.max", "max 100000\n");
        fake.write("cg/user/job/step/cpu.stat", &stat(0));
        fake.write("cg/user/job/cpu.max", "50000 100000\n");
        fake.write("cg/user/job/cpu.stat", &stat(1_000));
        let mut groups = Groups::new(&fake.proc());
        groups.look(&fake.proc(), 7);
        groups.count();
        assert_eq!(seen(&groups), [("/user/job".into(), 0.5, 0, 0)]);
        fake.write("cg/user/job/cpu.stat", &stat(1_700).replace("30", "37"));
        groups.count();
        assert_eq!(seen(&groups), [("/user/job".into(), 0.5, 7, 700_000)]);
        // The group is gone: what it counted stays.
        fs::remove_dir_all(fake.0.path().join("cg")).unwrap();
        groups.count();
        assert_eq!(seen(&groups), [("/user/job".into(), 0.5, 7, 700_000)]);
        groups.reset();
        assert_eq!(seen(&groups), [("/user/job".into(), 0.5, 0, 0)]);
    }

    #[test]
    fn a_quota_of_version_1_is_found_in_a_container() {
        // The container's own group is mounted, and the paths are those outside.
        let fake = Fake::new(
            &[
                ("cgroup", "/docker/1", "cg/cpu", "cpu,cpuacct"),
                ("cgroup", "/docker/1", "cg/freezer", "freezer"),
                ("cgroup2", "/", "cg/unified", "nsdelegate"),
            ],
            "8:freezer:/docker/1\n4:cpu,cpuacct:/docker/1/sub\n0::/\n",
        );
        fake.write("cg/cpu/sub/cpu.cfs_quota_us", "-1\n");
        fake.write("cg/cpu/sub/cpu.cfs_period_us", "100000\n");
        fake.write("cg/cpu/cpu.cfs_quota_us", "150000\n");
        fake.write("cg/cpu/cpu.cfs_period_us", "100000\n");
        fake.write(
            "cg/cpu/cpu.stat",
            "nr_periods 9\nnr_throttled 3\nthrottled_time 250\n",
        );
        let mut groups = Groups::new(&fake.proc());
        groups.look(&fake.proc(), 7);
        assert_eq!(seen(&groups), [("/docker/1".into(), 1.5, 0, 0)]);
        assert_eq!(groups.frozen(&fake.proc(), 7), None);
        fake.write("cg/freezer/freezer.state", "FROZEN\n");
        assert_eq!(groups.frozen(&fake.proc(), 7).as_deref(), Some("/docker/1"));
    }

    #[test]
    fn the_outermost_frozen_group_is_named() {
        let fake = Fake::new(&[("cgroup2", "/", "cg", "rw")], "0::/a/b\n");
        fake.write("cg/a/b/cgroup.events", "populated 1\nfrozen 1\n");
        fake.write("cg/a/cgroup.events", "populated 1\nfrozen 1\n");
        fake.write("cg/cgroup.events", "populated 1\nfrozen 0\n");
        let groups = Groups::new(&fake.proc());
        assert_eq!(groups.frozen(&fake.proc(), 7).as_deref(), Some("/a"));
        // The freezer of version 1 is mounted too, and lets the process run.
        let mounts = [
            ("cgroup", "/", "cg/freezer", "freezer"),
            ("cgroup2", "/", "cg/unified", "rw"),
        ];
        let fake = Fake::new(&mounts, "6:freezer:/\n0::/job\n");
        fake.write("cg/freezer/freezer.state", "THAWED\n");
        fake.write("cg/unified/job/cgroup.events", "populated 1\nfrozen 1\n");
        let groups = Groups::new(&fake.proc());
        assert_eq!(groups.frozen(&fake.proc(), 7).as_deref(), Some("/job"));
    }

    #[test]
    fn what_cannot_be_read_is_no_quota() {
        assert_eq!(quota_of("max 100000"), None);
        assert_eq!(quota_of("-1 100000"), None);
        assert_eq!(quota_of("50000 0"), None);
        assert_eq!(quota_of("50000"), None);
        assert_eq!(quota_of("200000 100000"), Some((2.0, 100_000_000)));
        assert_eq!(counts_of("usage_usec 7\n"), None);
        // A group outside of sbt's namespace.
        let fake = Fake::new(&[("cgroup2", "/", "cg", "rw")], "0::/../other\n");
        let mut groups = Groups::new(&fake.proc());
        groups.look(&fake.proc(), 7);
        groups.look(&fake.proc(), 8);
        assert!(groups.report().is_empty());
    }
}
