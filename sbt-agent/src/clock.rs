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

/// `CLOCK_REALTIME`, ns since 1970.
pub fn unix_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// A moment (ns since 1970) as local time of day, to the microsecond.
pub fn time_of_day(unix_ns: u64) -> String {
    let seconds = libc::time_t::try_from(unix_ns / 1_000_000_000).unwrap_or(0);
    // SAFETY: a structure of integers and a pointer that may be null.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to values of the right types that live long enough.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        local.tm_hour,
        local.tm_min,
        local.tm_sec,
        unix_ns % 1_000_000_000 / 1_000
    )
}
