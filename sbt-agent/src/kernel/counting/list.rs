//! `sbt list`: which counters this machine has, and why it lacks others.

use std::{fmt::Write as _, path::Path};

use super::{
    device::{self, DEVICES},
    open,
};
use sbt_engine::counters::{Counter, FREE, name};

/// A counter that can be asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name on the command line.
    pub name: String,
    /// The meaning of the counter, if its name does not tell.
    pub about: String,
    /// Why it cannot be counted here.
    pub missing: Option<String>,
}

/// The counters of this machine; those that may be missing are tried one by one.
pub fn machine() -> Vec<Entry> {
    let free = FREE.iter().map(|(name, _, about)| Entry {
        name: (*name).to_owned(),
        about: format!("{about} (free)"),
        missing: None,
    });
    let known = |name: &String| FREE.iter().any(|(free, ..)| free == name);
    let generic = name::all().filter(|name| !known(name));
    // These do not count anything of a thread.
    let unfit = ["breakpoint", "tracepoint", "uprobe", "kprobe", "software"];
    let devices = device::all(Path::new(DEVICES)).into_iter();
    let devices = devices
        .filter(|(device, _)| !unfit.contains(&device.as_str()))
        .flat_map(|(device, events)| {
            let names = events.into_iter();
            names.map(move |event| format!("{device}/{event}/"))
        });
    free.chain(generic.chain(devices).map(attempt)).collect()
}

fn attempt(name: String) -> Entry {
    let opened = name
        .parse::<Counter>()
        .and_then(|counter| open::event(&counter, &open::online()));
    Entry {
        name,
        about: String::new(),
        // The advice to type `sbt list` is of no use in its own output.
        missing: opened
            .err()
            .map(|why| match why.split_once("; `sbt list`") {
                Some((why, _)) => why.to_owned(),
                None => why,
            }),
    }
}

/// The list as text: first the counters that work, one a line, then the missing ones by reason.
pub fn text(entries: &[Entry]) -> String {
    let (there, missing): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry.missing.is_none());
    let width = there
        .iter()
        .map(|entry| entry.name.len())
        .max()
        .unwrap_or(0);
    let mut out = String::from("Counters of this machine, for sbt run -e a,b:\n");
    for entry in there {
        let line = format!("  {:width$}  {}", entry.name, entry.about);
        let _infallible = writeln!(out, "{}", line.trim_end());
    }
    out.push_str("  free  all counters that are called free\n");
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for entry in &missing {
        let why = entry.missing.as_deref().unwrap_or_default();
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&entry.name),
            None => reasons.push((why, vec![&entry.name])),
        }
    }
    for (why, names) in reasons {
        let _infallible = write!(out, "\nNot available: {why}.\n");
        let mut line = String::new();
        for name in names {
            if line.len() + name.len() > 76 {
                let _infallible = writeln!(out, " {line}");
                line.clear();
            }
            let _infallible = write!(line, " {name}");
        }
        let _infallible = writeln!(out, " {line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_listed_once_for_each_reason() {
        let entry = |name: &str, missing: Option<&str>| Entry {
            name: name.into(),
            about: String::new(),
            missing: missing.map(str::to_owned),
        };
        let shown = text(&[
            entry("page-faults", None),
            entry("cycles", Some("no hardware")),
            entry("power/x/", Some("not for threads")),
            entry("instructions", Some("no hardware")),
        ]);
        assert_eq!(
            shown,
            "Counters of this machine, for sbt run -e a,b:\n  page-faults\n  free  all counters \
             that are called free\n\nNot available: no hardware.\n  cycles instructions\n\nNot \
             available: not for threads.\n  power/x/\n"
        );
    }

    #[test]
    fn the_free_ones_are_always_there() {
        let all = machine();
        for (name, ..) in FREE {
            let entry = all.iter().find(|entry| entry.name == name).unwrap();
            assert_eq!(entry.missing, None, "{name}");
        }
        // Every other counter works, or is missing for a reason.
        let missing = all.iter().filter_map(|entry| entry.missing.as_ref());
        assert!(missing.clone().all(|why| !why.is_empty()));
    }
}
