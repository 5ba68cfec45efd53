//! The clocks that sbt itself reads.

use nix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> u64 {
    // Cannot fail for these clocks on any kernel that sbt runs on.
    clock_gettime(clock).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
        seconds * 1_000_000_000 + nanos
    })
}

/// `CLOCK_MONOTONIC`, ns: the clock of the events.
pub fn now_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// What the calling thread has used of the CPUs, ns.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// What this process has used of the CPUs, ns.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}
