//! Kinds of counters, by whether a count may be the reason why a thread is late. Pure.

use super::{Counter, CounterKind, Kept};

/// Numbers of the kernel's generic events that count time or switches: cycles, bus cycles, cycles
/// without progress, reference cycles; and switches between control groups.
const TIMES: [u64; 5] = [0, 6, 7, 8, 9];
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CGROUP_SWITCHES: u64 = 11;

/// Clocks of the processor, in the device `msr`.
const CLOCKS: [&str; 4] = ["tsc", "aperf", "mperf", "pperf"];

/// The bearing of a counter on lateness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Says {
    /// Nothing: lateness itself makes it, as time on a CPU, or switches and moves between CPUs.
    Nothing,
    /// Misses, each of which keeps the processor for about so long at least, ns.
    Misses(f64),
    /// Each of its events makes the thread wait for about so long at least, ns.
    Waits(f64),
    /// Page faults: what one costs is measured.
    Faults,
    /// An amount of work, or events whose cost is not known.
    Amount,
}

/// What a counter with this name says of lateness; a name that is not known may count anything.
pub fn says(name: &str) -> Says {
    let Ok(Counter { what, .. }) = name.parse() else {
        return Says::Amount;
    };
    match what {
        CounterKind::Kept(Kept::TaskClock | Kept::ContextSwitches | Kept::Migrations)
        | CounterKind::Generic {
            kind: SOFTWARE,
            config: CGROUP_SWITCHES,
        } => Says::Nothing,
        CounterKind::Generic {
            kind: HARDWARE,
            config,
        } if TIMES.contains(&config) => Says::Nothing,
        CounterKind::Kept(Kept::PageFaults | Kept::MinorFaults) => Says::Faults,
        // A read from a disk.
        CounterKind::Kept(Kept::MajorFaults) => Says::Waits(50_000.0),
        CounterKind::Generic { .. } => cost_of_misses(name).map_or(Says::Amount, Says::Misses),
        CounterKind::Device { device, terms } => of_device(&device, &terms),
    }
}

fn of_device(device: &str, terms: &[(String, Option<u64>)]) -> Says {
    let [(event, None)] = terms else {
        return Says::Amount;
    };
    if device == "msr" && CLOCKS.contains(&event.as_str()) {
        return Says::Nothing;
    }
    // `cpu_core/cycles/` is `cycles` on one kind of core.
    if device.starts_with("cpu") && !event.contains('/') {
        return says(event);
    }
    Says::Amount
}

/// What a miss costs, ns, on processors of today; little of it overlaps with other work at least.
fn cost_of_misses(name: &str) -> Option<f64> {
    let event = name.split(':').next().unwrap_or(name);
    let of_memory = ["cache-misses", "PAPI_L3_TCM"].contains(&event)
        || event.starts_with("LLC-") && event.ends_with("-misses")
        || event.starts_with("node-") && event.ends_with("-misses");
    if of_memory {
        return Some(100.0);
    }
    let is_other = event.ends_with("-misses")
        || [
            "PAPI_BR_MSP",
            "PAPI_L1_DCM",
            "PAPI_L1_LDM",
            "PAPI_L1_ICM",
            "PAPI_TLB_DM",
            "PAPI_TLB_IM",
        ]
        .contains(&event);
    is_other.then_some(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lateness_makes_says_nothing_of_its_reason() {
        for name in [
            "task-clock",
            "cpu-clock",
            "context-switches",
            "migrations",
            "cycles:u",
            "cpu-cycles",
            "ref-cycles",
            "stalled-cycles-backend",
            "PAPI_TOT_CYC",
            "cgroup-switches",
            "msr/tsc/",
            "msr/aperf/",
            "cpu_core/cycles/",
        ] {
            assert_eq!(says(name), Says::Nothing, "{name}");
        }
        for name in [
            "instructions",
            "instructions:u",
            "cpu_atom/instructions/",
            "branches",
            "LLC-loads",
            "cache-references",
            "r1a8",
            "cpu/event=0x3c/",
            "msr/smi/",
            "not a counter",
        ] {
            assert_eq!(says(name), Says::Amount, "{name}");
        }
    }

    #[test]
    fn events_that_cost_time_have_a_cost() {
        assert_eq!(says("faults"), Says::Faults);
        assert_eq!(says("minor-faults"), Says::Faults);
        assert_eq!(says("major-faults"), Says::Waits(50_000.0));
        for (name, ns) in [
            ("cache-misses:u", 100.0),
            ("LLC-load-misses", 100.0),
            ("branch-misses", 10.0),
            ("dTLB-load-misses", 10.0),
            ("PAPI_L1_DCM", 10.0),
        ] {
            assert_eq!(says(name), Says::Misses(ns), "{name}");
        }
    }
}
