//! Names of counters, as perf spells them. Pure.

use serde::{Deserialize, Serialize};

use crate::pattern::nearest;
use std::fmt;

/// Largest number of requested counters; at most [`sbt_common::MAX_EVENTS`] of them may need a perf
/// event.
pub const MAX_NAMED: usize = 16;

/// Counters that the kernel always keeps for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kept {
    /// Time on a CPU, ns.
    TaskClock,
    /// Page faults of both kinds.
    PageFaults,
    /// Page faults without input or output.
    MinorFaults,
    /// Page faults with input or output.
    MajorFaults,
    /// The number of times that the thread left its CPU, voluntarily or not.
    ContextSwitches,
    /// The number of times that the thread moved to another CPU.
    Migrations,
}

/// Where a counter comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CounterKind {
    /// The kernel's own accounting, which costs next to nothing.
    Kept(Kept),
    /// A perf event of a kind that the kernel itself numbers.
    Generic {
        /// One of `PERF_TYPE_*`.
        kind: u32,
        /// The number of the event within its kind.
        config: u64,
    },
    /// A perf event of a device in `/sys/bus/event_source/devices`.
    Device {
        /// The name of the device.
        device: String,
        /// Events and fields, with or without a value, as written in the option.
        terms: Vec<(String, Option<u64>)>,
    },
}

/// A counter that the user requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Counter {
    /// The name: as requested, or the usual name for the kernel's own counters.
    pub name: String,
    /// Where the counter comes from.
    pub what: CounterKind,
    /// Restricts counting to the program itself (`:u`) or the kernel (`:k`); `None` counts both.
    pub only: Option<Side>,
}

/// Where an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// In the program's own code.
    User,
    /// In the kernel, on the program's behalf.
    Kernel,
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Several counters from one option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events(pub Vec<Counter>);

/// The counters that cost next to nothing: the name in reports, the counter, and a description.
pub const FREE: [(&str, Kept, &str); 6] = [
    ("task-clock", Kept::TaskClock, "time on a CPU, ns"),
    ("page-faults", Kept::PageFaults, "all page faults"),
    (
        "minor-faults",
        Kept::MinorFaults,
        "page faults without a read from a disk",
    ),
    (
        "major-faults",
        Kept::MajorFaults,
        "page faults with a read from a disk",
    ),
    (
        "context-switches",
        Kept::ContextSwitches,
        "times that the thread left its CPU",
    ),
    (
        "cpu-migrations",
        Kept::Migrations,
        "times that the thread moved to another CPU",
    ),
];

/// Other names of the counters in [`FREE`].
const ALIASES: [(&str, &str); 4] = [
    ("cpu-clock", "task-clock"),
    ("faults", "page-faults"),
    ("cs", "context-switches"),
    ("migrations", "cpu-migrations"),
];

/// Kinds of perf events from `linux/perf_event.h`: `PERF_TYPE_HARDWARE` and others.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// Names, kinds and numbers of perf events from `linux/perf_event.h`.
const GENERIC: [(&str, u32, u64); 17] = [
    ("cycles", HARDWARE, 0),
    ("cpu-cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
    ("branches", HARDWARE, 4),
    ("branch-instructions", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("bus-cycles", HARDWARE, 6),
    ("stalled-cycles-frontend", HARDWARE, 7),
    ("idle-cycles-frontend", HARDWARE, 7),
    ("stalled-cycles-backend", HARDWARE, 8),
    ("idle-cycles-backend", HARDWARE, 8),
    ("ref-cycles", HARDWARE, 9),
    ("alignment-faults", SOFTWARE, 7),
    ("emulation-faults", SOFTWARE, 8),
    ("cgroup-switches", SOFTWARE, 11),
];

/// Caches, in the order of their numbers (`PERF_COUNT_HW_CACHE_*`).
const CACHES: [&str; 7] = [
    "L1-dcache",
    "L1-icache",
    "LLC",
    "dTLB",
    "iTLB",
    "branch",
    "node",
];
const DEEDS: [(&str, &str); 3] = [
    ("loads", "load"),
    ("stores", "store"),
    ("prefetches", "prefetch"),
];

/// Names of PAPI, which the thesis's library read, with perf's names for the same events.
const PAPI: [(&str, &str); 14] = [
    ("PAPI_TOT_CYC", "cycles"),
    ("PAPI_TOT_INS", "instructions"),
    ("PAPI_REF_CYC", "ref-cycles"),
    ("PAPI_BR_INS", "branches"),
    ("PAPI_BR_MSP", "branch-misses"),
    ("PAPI_RES_STL", "stalled-cycles-backend"),
    ("PAPI_L1_DCM", "L1-dcache-load-misses"),
    ("PAPI_L1_LDM", "L1-dcache-load-misses"),
    ("PAPI_L1_ICM", "L1-icache-load-misses"),
    ("PAPI_L2_TCM", "cache-references"),
    ("PAPI_L3_TCA", "cache-references"),
    ("PAPI_L3_TCM", "cache-misses"),
    ("PAPI_TLB_DM", "dTLB-load-misses"),
    ("PAPI_TLB_IM", "iTLB-load-misses"),
];

/// Reads a list such as `a,b,msr/tsc/`. `free` stands for all of [`FREE`].
pub fn commas(text: &str) -> Result<Events, String> {
    several(split(text, ','))
}

/// Reads a list such as `a:b`, as in the environment variable. A modifier belongs to the name
/// before it.
pub fn colons(text: &str) -> Result<Events, String> {
    let mut names: Vec<String> = Vec::new();
    for name in split(text, ':') {
        match names.last_mut() {
            Some(last) if ["u", "k"].contains(&name.as_str()) => {
                *last = format!("{last}:{name}");
            }
            _ => names.push(name),
        }
    }
    several(names)
}

/// Splits a text at each separator outside of slashes.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for c in text.chars() {
        inside ^= c == '/';
        if c == separator && !inside {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

fn several(names: Vec<String>) -> Result<Events, String> {
    let mut all: Vec<Counter> = Vec::new();
    for name in names {
        let new = if name == "free" {
            FREE.iter()
                .map(|(name, kept, _)| Counter::kept(name, *kept))
                .collect()
        } else {
            vec![name.parse()?]
        };
        for counter in new {
            if all.iter().all(|known| known.name != counter.name) {
                all.push(counter);
            }
        }
    }
    Ok(Events(all))
}

impl Counter {
    fn kept(name: &str, kept: Kept) -> Self {
        Self {
            name: name.to_owned(),
            what: CounterKind::Kept(kept),
            only: None,
        }
    }

    /// Whether the values are times, ns, and not numbers of events.
    pub const fn is_time(&self) -> bool {
        matches!(self.what, CounterKind::Kept(Kept::TaskClock))
    }
}

impl std::str::FromStr for Counter {
    type Err = String;

    /// Reads one name. Whether this machine has the counter is checked later.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(
                "expected names of counters, such as page-faults,cycles; `sbt list` shows them"
                    .into(),
            );
        }
        if text.chars().any(char::is_control) {
            return Err("the name of a counter has control characters".into());
        }
        let (base, only) = modifier(text)?;
        let what = what(base)?;
        if only.is_some() && matches!(what, CounterKind::Kept(_)) {
            return Err(format!(
                "`{text}`: the kernel cannot count {base} separately for the program and for \
                 itself; leave the modifier out"
            ));
        }
        // Names are made unique so that nothing is counted twice under two names.
        let name = match &what {
            CounterKind::Kept(kept) => FREE
                .iter()
                .find(|(_, known, _)| known == kept)
                .map_or(base, |(name, ..)| *name)
                .to_owned(),
            _ => text.to_owned(),
        };
        Ok(Self { name, what, only })
    }
}

/// Splits a name into the part before the modifier, and the modifier.
fn modifier(text: &str) -> Result<(&str, Option<Side>), String> {
    // The modifier of a device's event follows the last slash: `msr/tsc/u`.
    let last = text.rfind('/').filter(|last| text.find('/') != Some(*last));
    let (base, letters) = match last {
        Some(slash) => {
            let (base, letters) = text.split_at(slash + 1);
            (base, letters.trim_start_matches(':'))
        }
        None if text.contains('/') => return Ok((text, None)),
        None => match text.split_once(':') {
            Some((base, letters)) => (base, letters),
            None => return Ok((text, None)),
        },
    };
    match letters {
        "" => Ok((base, None)),
        "u" => Ok((base, Some(Side::User))),
        "k" => Ok((base, Some(Side::Kernel))),
        other => Err(format!(
            "`{text}`: there is no modifier `{other}`; there are u (the program's own code) and k (the kernel)"
        )),
    }
}

fn what(name: &str) -> Result<CounterKind, String> {
    if name.contains('/') {
        return device(name);
    }
    if let Some((_, perf)) = PAPI.iter().find(|(papi, _)| *papi == name) {
        return what(perf);
    }
    let canonical = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = canonical.map_or(name, |(_, canonical)| *canonical);
    if let Some((_, kept, _)) = FREE.iter().find(|(known, ..)| *known == name) {
        return Ok(CounterKind::Kept(*kept));
    }
    if let Some((_, kind, config)) = GENERIC.iter().find(|(known, ..)| *known == name) {
        return Ok(CounterKind::Generic {
            kind: *kind,
            config: *config,
        });
    }
    let cache = caches().find(|(known, _)| known == name);
    if let Some((_, config)) = cache {
        return Ok(CounterKind::Generic {
            kind: CACHE,
            config,
        });
    }
    let is_hex = |digits: &&str| {
        (1..=16).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_hexdigit())
    };
    if let Some(digits) = name.strip_prefix('r').filter(is_hex) {
        let config = u64::from_str_radix(digits, 16).map_err(|error| error.to_string())?;
        return Ok(CounterKind::Generic { kind: RAW, config });
    }
    let known: Vec<String> = all().collect();
    let near = nearest(name, known.iter().map(String::as_str))
        .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
    Err(format!(
        "there is no counter `{name}`; {near}`sbt list` shows what there is"
    ))
}

/// All names, except events of devices.
pub fn all() -> impl Iterator<Item = String> {
    let free = FREE.iter().map(|(name, ..)| *name);
    let generic = GENERIC.iter().map(|(name, ..)| *name);
    let plain = free.chain(generic).map(str::to_owned);
    plain.chain(caches().map(|(name, _)| name))
}

/// All cache counters: the name, and the number for `PERF_TYPE_HW_CACHE`.
pub fn caches() -> impl Iterator<Item = (String, u64)> {
    (0_u64..).zip(CACHES).flat_map(|(cache, cache_name)| {
        (0_u64..).zip(DEEDS).flat_map(move |(deed, (deeds, one))| {
            let config = cache | deed << 8;
            [
                (format!("{cache_name}-{deeds}"), config),
                (format!("{cache_name}-{one}-misses"), config | 1 << 16),
            ]
        })
    })
}

fn device(text: &str) -> Result<CounterKind, String> {
    let wrong = || format!("`{text}` is not DEVICE/EVENT/, such as msr/tsc/ or cpu/event=0x3c/");
    let (device, rest) = text.split_once('/').ok_or_else(wrong)?;
    let terms = rest.strip_suffix('/').ok_or_else(wrong)?;
    let is_name = |name: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        !name.is_empty() && name.chars().all(fits) && !name.starts_with('.')
    };
    if !is_name(device) || terms.is_empty() {
        return Err(wrong());
    }
    let terms = terms.split(',').map(|term| {
        let (name, value) = match term.split_once('=') {
            Some((name, value)) => (name, Some(number(value).ok_or_else(wrong)?)),
            None => (term, None),
        };
        if is_name(name) {
            Ok((name.to_owned(), value))
        } else {
            Err(wrong())
        }
    });
    Ok(CounterKind::Device {
        device: device.to_owned(),
        terms: terms.collect::<Result<_, _>>()?,
    })
}

/// A number as in the device's files: decimal, or hexadecimal with `0x`.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(events: &Events) -> Vec<&str> {
        events.0.iter().map(|event| event.name.as_str()).collect()
    }

    #[test]
    fn names_of_perf_are_understood() {
        let all = commas(
            "faults, cs,cycles,LLC-load-misses,r1a8,msr/tsc/,cpu/event=0x3c,umask=1/u,instructions:u",
        );
        let all = all.unwrap();
        assert_eq!(
            names(&all),
            [
                "page-faults",
                "context-switches",
                "cycles",
                "LLC-load-misses",
                "r1a8",
                "msr/tsc/",
                "cpu/event=0x3c,umask=1/u",
                "instructions:u"
            ]
        );
        let generic = |kind, config| CounterKind::Generic { kind, config };
        let what: Vec<_> = all.0.iter().map(|event| event.what.clone()).collect();
        assert_eq!(what[0], CounterKind::Kept(Kept::PageFaults));
        assert_eq!(what[2], generic(0, 0));
        // PERF_COUNT_HW_CACHE_LL | OP_READ << 8 | RESULT_MISS << 16
        assert_eq!(what[3], generic(3, 0x1_0002));
        assert_eq!(what[4], generic(4, 0x1a8));
        assert_eq!(
            what[6],
            CounterKind::Device {
                device: "cpu".into(),
                terms: vec![("event".into(), Some(0x3c)), ("umask".into(), Some(1))],
            }
        );
        assert_eq!(all.0[6].only, Some(Side::User));
        assert_eq!(all.0[7].only, Some(Side::User));
        assert_eq!(what[7], generic(0, 1));
    }

    #[test]
    fn the_environment_separates_by_colons() {
        let all = colons("cycles:u:page-faults:msr/tsc/:PAPI_L1_DCM").unwrap();
        assert_eq!(
            names(&all),
            ["cycles:u", "page-faults", "msr/tsc/", "PAPI_L1_DCM"]
        );
        // L1D, read, miss
        assert_eq!(
            all.0[3].what,
            CounterKind::Generic {
                kind: 3,
                config: 0x1_0000
            }
        );
    }

    #[test]
    fn what_is_the_same_is_counted_once() {
        assert_eq!(
            names(&commas("faults,page-faults,faults").unwrap()),
            ["page-faults"]
        );
        let all = commas("cs,free").unwrap();
        assert_eq!(all.0.len(), FREE.len());
        assert_eq!(all.0[0].name, "context-switches");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (text, words) in [
            ("", "sbt list"),
            ("cylces", "`cycles`"),
            ("page-faults,,cs", "sbt list"),
            ("cycles:x", "u (the program's own code)"),
            ("faults:u", "leave the modifier out"),
            ("msr/tsc", "DEVICE/EVENT/"),
            ("msr//", "DEVICE/EVENT/"),
            ("../tsc/", "DEVICE/EVENT/"),
            ("cpu/event=x/", "DEVICE/EVENT/"),
            ("rxyz", "there is no counter"),
            ("a\u{1b}[1m", "control"),
        ] {
            let error = commas(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
            assert!(!error.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn every_name_means_something() {
        for name in all() {
            assert!(name.parse::<Counter>().is_ok(), "{name}");
        }
    }
}
