//! Opens the perf events of counters, and explains those that cannot be opened.

use std::{io, path::Path};

use perf_event::Builder;
use sbt_common::MAX_EVENTS;

use super::device::{self, DEVICES, EventNumbers};
use crate::kernel::privilege;
use sbt_engine::counters::{Counter, CounterKind, Kept, Plan, Side, Source};

/// A CPU, and the event that counts there.
pub type OnCpu = (u32, perf_event::Counter);

/// Perf events, opened on every CPU.
#[derive(Debug, Default)]
pub struct Opened {
    /// Where each counter's value is found.
    pub plan: Plan,
    /// For each event its counters by CPU. They count only after [`Opened::enable`].
    pub events: Vec<Vec<OnCpu>>,
    /// The names of the counters of `events`, in the same order.
    names: Vec<String>,
    /// A sentence for each counter that cannot be counted.
    pub notes: Vec<String>,
}

/// Opens the events that the counters need on these CPUs. A counter that cannot be counted is noted
/// and left out. `may_count`: the error says why no perf event can be used.
pub fn open(counters: &[Counter], cpus: &[u32], may_count: Result<(), &str>) -> Opened {
    let mut opened = Opened::default();
    for counter in counters {
        let source = opened
            .source(counter, cpus, may_count)
            .unwrap_or_else(|why| {
                opened
                    .notes
                    .push(format!("{counter} is not counted: {why}"));
                Source::Nowhere
            });
        opened.plan.0.push((counter.clone(), source));
    }
    opened
}

impl Opened {
    /// Counts these counters from now on, and no others. Counters of before keep their places.
    /// Returns a sentence for each counter that cannot be counted; such counters are left out.
    pub fn choose(
        &mut self,
        wanted: &[Counter],
        cpus: &[u32],
        may_count: Result<(), &str>,
    ) -> Vec<String> {
        let is_wanted = |counter: &Counter| wanted.iter().any(|other| other.name == counter.name);
        for (counter, source) in &mut self.plan.0 {
            if !is_wanted(counter) {
                *source = Source::Nowhere;
            }
        }
        let mut notes = Vec::new();
        for counter in wanted {
            let known = self
                .plan
                .0
                .iter()
                .position(|(other, _)| other.name == counter.name);
            let counts = known.is_some_and(|at| self.plan.0[at].1 != Source::Nowhere);
            if counts {
                continue;
            }
            match (self.source(counter, cpus, may_count), known) {
                (Ok(source), Some(at)) => self.plan.0[at].1 = source,
                (Ok(source), None) => self.plan.0.push((counter.clone(), source)),
                (Err(why), _) => notes.push(format!("{counter} is not counted: {why}")),
            }
        }
        notes
    }

    /// Enables the events that are wanted, and disables all others.
    ///
    /// # Errors
    /// Errors of the ioctl.
    pub fn enable(&mut self) -> io::Result<()> {
        for (at, on_cpus) in self.events.iter_mut().enumerate() {
            let mut sources = self.plan.0.iter().map(|(_, source)| source);
            let is_wanted = sources.any(|source| *source == Source::Event(at));
            for (_, counter) in on_cpus {
                if is_wanted {
                    counter.enable()?;
                } else {
                    counter.disable()?;
                }
            }
        }
        Ok(())
    }

    /// Where a counter's value is found. Opens its perf event if needed.
    fn source(
        &mut self,
        counter: &Counter,
        cpus: &[u32],
        may_count: Result<(), &str>,
    ) -> Result<Source, String> {
        if let CounterKind::Kept(kept) = &counter.what {
            return Ok(kept_source(*kept));
        }
        if let Some(at) = self.names.iter().position(|name| *name == counter.name) {
            return Ok(Source::Event(at));
        }
        if self.events.len() == MAX_EVENTS {
            return Err(format!(
                "at most {MAX_EVENTS} counters that are not free can be read at a time; leave some \
                 out"
            ));
        }
        may_count?;
        self.events.push(event(counter, cpus)?);
        self.names.push(counter.name.clone());
        Ok(Source::Event(self.events.len() - 1))
    }
}

/// Where the kernel's own statistics of a thread have the counter.
pub const fn kept_source(kept: Kept) -> Source {
    match kept {
        Kept::TaskClock => Source::RunTime,
        Kept::MinorFaults => Source::Task(0, 1),
        Kept::MajorFaults => Source::Task(1, 2),
        Kept::PageFaults => Source::Task(0, 2),
        Kept::ContextSwitches => Source::Task(2, 4),
        Kept::Migrations => Source::Task(4, 5),
    }
}

/// Opens a counter's event on each CPU. The error is a sentence for the user.
pub fn event(counter: &Counter, cpus: &[u32]) -> Result<Vec<OnCpu>, String> {
    let Some(mut event) = asked(counter)? else {
        return Ok(Vec::new());
    };
    event.any_pid().enabled(false);
    let mut open = |cpu: &u32| {
        event
            .one_cpu(*cpu as usize)
            .build()
            .map(|event| (*cpu, event))
    };
    let all: io::Result<Vec<_>> = cpus.iter().map(&mut open).collect();
    all.map_err(|error| why(&error, counter, has_hardware()))
}

/// The perf event of a counter; `None` if the kernel counts it anyway.
fn asked(counter: &Counter) -> Result<Option<Builder<'static>>, String> {
    let asked = match &counter.what {
        CounterKind::Device { device, terms } => device::here(device, terms)?,
        CounterKind::Generic { kind, config } => EventNumbers {
            kind: *kind,
            config: [*config, 0, 0],
        },
        CounterKind::Kept(_) => return Ok(None),
    };
    let mut event = asked.event();
    event.exclude_kernel(counter.only == Some(Side::User));
    event.exclude_user(counter.only == Some(Side::Kernel));
    Ok(Some(event))
}

/// Opens the event of one thread (0: of the calling thread), on any CPU. Reading it gives the
/// value, and the times for which it should have counted and has counted, ns.
///
/// # Errors
/// A sentence for the user on why it cannot be opened.
pub fn of_thread(counter: &Counter, thread: u32) -> Result<perf_event::Counter, String> {
    let mut event = asked(counter)?.ok_or("the kernel counts it anyway")?;
    let opened = event.observe_pid(thread.cast_signed()).build();
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if counter.only.is_none() => format!(
            "this user may not count what happens in the kernel; `{counter}:u` counts what the \
             program does itself"
        ),
        _ => why(&error, counter, has_hardware()),
    })
}

/// Whether the processor has hardware counters that the kernel knows.
pub fn has_hardware() -> bool {
    ["cpu", "cpu_core", "cpu_atom", "armv8_pmuv3_0"]
        .iter()
        .any(|name| Path::new(DEVICES).join(name).exists())
}

/// Explains the kernel's refusal.
fn why(error: &io::Error, counter: &Counter, has_hardware: bool) -> String {
    let generic = matches!(counter.what, CounterKind::Generic { kind, .. } if kind != 1);
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) if generic && !has_hardware => {
            "this machine has no hardware counters, as is usual for virtual machines; `sbt list` \
             shows what it has"
                .into()
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine's processor has no such counter; `sbt list` shows what it has".into()
        }
        Some(libc::EINVAL) if counter.only.is_some() => {
            "it cannot be counted separately for the program and the kernel; leave the modifier \
             out"
            .into()
        }
        Some(libc::EINVAL) => {
            "this machine refuses this counter; `sbt list` shows what it has".into()
        }
        Some(libc::EACCES | libc::EPERM) => {
            let remedy = privilege::become_root();
            format!("missing CAP_PERFMON; {remedy}, or lower /proc/sys/kernel/perf_event_paranoid")
        }
        Some(libc::EMFILE) => {
            "too many files are open, one for each counter and CPU; raise `ulimit -n`".into()
        }
        Some(libc::EBUSY) => "something else uses the counters of this machine".into(),
        _ => format!("the kernel does not open the counter: {error}"),
    }
}

/// CPUs that are online, as /sys/devices/system/cpu/online lists them.
pub fn online() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    ranges(text.trim())
}

/// Parses a list such as `0-3,8`.
fn ranges(text: &str) -> Vec<u32> {
    let part = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<u32>().ok()?..=high.parse::<u32>().ok()?)
    };
    text.split(',').filter_map(part).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_those_that_run() {
        assert_eq!(ranges("0-1"), [0, 1]);
        assert_eq!(ranges("0,2-4,9"), [0, 2, 3, 4, 9]);
        assert!(ranges("").is_empty());
    }

    #[test]
    fn a_refusal_is_said_in_words() {
        for (error, name, hardware, words) in [
            (libc::ENOENT, "cycles", false, "no hardware counters"),
            (
                libc::ENOENT,
                "LLC-loads",
                true,
                "processor has no such counter",
            ),
            (libc::EOPNOTSUPP, "r1a8", false, "no hardware counters"),
            (libc::EINVAL, "msr/tsc/u", true, "leave the modifier out"),
            (libc::EACCES, "cycles", true, "sudo"),
            (libc::EMFILE, "cycles", true, "ulimit"),
            (libc::EIO, "cycles", true, "does not open"),
        ] {
            let counter: Counter = name.parse().unwrap();
            let text = why(&io::Error::from_raw_os_error(error), &counter, hardware);
            assert!(text.contains(words), "{name}: {text}");
        }
    }

    #[test]
    fn what_cannot_be_counted_leaves_the_rest_alone() {
        let all = sbt_engine::counters::commas("page-faults,nosuchdevice/x/,major-faults").unwrap();
        let opened = open(&all.0, &[0], Ok(()));
        let sources: Vec<_> = opened.plan.0.iter().map(|(_, source)| *source).collect();
        assert_eq!(
            sources,
            [Source::Task(0, 2), Source::Nowhere, Source::Task(1, 2)]
        );
        assert_eq!(opened.notes.len(), 1);
        assert!(opened.notes[0].starts_with("nosuchdevice/x/ is not counted: "));
        let opened = open(&all.0[1..2], &[0], Err("because"));
        assert_eq!(opened.notes, ["nosuchdevice/x/ is not counted: because"]);
    }
}
