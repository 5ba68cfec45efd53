//! Verdicts on a lack of CPUs name its cause, and blame no thread.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    harness::{Report, best_of_five, needs_root, pause, watch_with},
    programs::program,
    turns::skipped,
};

/// A control group that lives as long as the test.
struct Group(PathBuf);

impl Group {
    /// A group with a quota of a fifth of a CPU; `None` if this machine gives none.
    fn with_quota() -> Option<Self> {
        let name = format!("sbt-test-{}", std::process::id());
        let version_1 = Path::new("/sys/fs/cgroup/cpu");
        if version_1.join("cpu.cfs_quota_us").exists() {
            let group = Self::new(version_1.join(name))?;
            return group.set("cpu.cfs_quota_us", "20000");
        }
        let version_2 = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(version_2.join("cgroup.subtree_control")).ok()?;
        if !controllers.split_whitespace().any(|name| name == "cpu") {
            return None;
        }
        Self::new(version_2.join(name))?.set("cpu.max", "20000 100000")
    }

    fn new(folder: PathBuf) -> Option<Self> {
        fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }

    fn set(self, file: &str, value: &str) -> Option<Self> {
        fs::write(self.0.join(file), value).ok()?;
        Some(self)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel takes a moment to forget the last process.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            pause(10);
        }
    }
}

fn verdicts(report: &Report) -> &[Value] {
    report.0["verdicts"].as_array().map_or(&[], Vec::as_slice)
}

/// A program with even work, in a control group with a quota: the quota is named, and nobody else.
#[test]
fn a_quota_is_named_and_nobody_else() {
    needs_root!(alone);
    let Some(group) = Group::with_quota() else {
        skipped("no control group with a quota", "a_quota_is_named");
        return;
    };
    let procs = group.0.join("cgroup.procs");
    let script = format!("echo $$ > {}; exec \"$0\" \"$@\"", procs.display());
    let healthy = program("verdicts.c");
    best_of_five(|| {
        let healthy = healthy.to_str().unwrap();
        let arguments = ["-c", &script, healthy, "fault=healthy", "rounds=12"];
        let (finished, report) = watch_with(&[], Path::new("/bin/sh"), &arguments);
        finished.expect(0);
        let quota = &report.0["scheduling"]["quotas"][0];
        assert_eq!(quota["cpus"], 0.2, "{quota}");
        for verdict in verdicts(&report) {
            assert_eq!(verdict["site"], Value::Null, "{report}");
            assert_eq!(verdict["thread"], Value::Null, "{report}");
        }
        let first = verdicts(&report)
            .first()
            .map(|verdict| verdict["kind"].clone());
        if first == Some("cpu-quota".into()) {
            Ok(())
        } else {
            Err(format!("{first:?} {quota}"))
        }
    });
}
