//! The clocks that sbt itself reads.

use std::{fs, sync::OnceLock};

use nix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> u64 {
    // Reading these clocks cannot fail on any kernel that sbt runs on.
    clock_gettime(clock).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
        seconds * 1_000_000_000 + nanos
    })
}

/// `CLOCK_MONOTONIC`, ns: the clock of the events.
///
/// The kernel stamps events without regard to time namespaces (`time_namespaces(7)`). In such a
/// namespace this process reads a shifted clock; this function takes the shift back.
pub fn now_ns() -> u64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    let offset_ns = *OFFSET_NS.get_or_init(|| {
        let text = fs::read_to_string("/proc/self/timens_offsets");
        // Kernels without the file have no time namespaces.
        text.ok()
            .and_then(|text| monotonic_offset_ns(&text))
            .unwrap_or(0)
    });
    read(ClockId::CLOCK_MONOTONIC).saturating_add_signed(offset_ns.saturating_neg())
}

/// The offset that a time namespace adds to the kernel's `CLOCK_MONOTONIC`, ns. `text` is
/// `/proc/PID/timens_offsets`: each line has a clock, seconds and nanoseconds.
fn monotonic_offset_ns(text: &str) -> Option<i64> {
    let mut words = text.lines().map(str::split_whitespace);
    let mut words = words.find_map(|mut words| {
        // Linux before 5.7 writes numbers instead of names.
        (["monotonic", "1"].contains(&words.next()?)).then_some(words)
    })?;
    let seconds: i64 = words.next()?.parse().ok()?;
    let nanos: i64 = words.next()?.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// CPU time that the calling thread has used, ns.
pub fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time that this process has used, ns.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_time_namespaces() {
        for (text, expected) in [
            (
                "monotonic           0         0\nboottime            0         0\n",
                Some(0),
            ),
            (
                "monotonic  86400 5\nboottime  1 2\n",
                Some(86_400_000_000_005),
            ),
            (
                "boottime 1 2\nmonotonic -20000 7\n",
                Some(-19_999_999_999_993),
            ),
            ("1 3 0\n7 1 2\n", Some(3_000_000_000)),
            ("monotonic 99999999999999 0\n", None),
            ("monotonic x 0\n", None),
            ("", None),
        ] {
            assert_eq!(monotonic_offset_ns(text), expected, "{text}");
        }
    }
}
