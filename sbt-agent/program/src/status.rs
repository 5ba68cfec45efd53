//! Facts from `/proc/PID/status` about a process or a thread: the only parser of that file.
//!
//! The crate `procfs` gives up on names that are not UTF-8, and knows neither the number of filters
//! for system calls nor the features of the processor.

use std::{fs, io, path::Path, str::FromStr};

use super::arch::unwind::SHADOW_STACK;

/// The text of such a file; empty if it could not be read.
#[derive(Clone, Debug, Default)]
pub struct Status(String);

impl From<&str> for Status {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Status {
    /// The status of a process, or of a thread by its own number. `None` if it is gone.
    pub fn of(task: u32) -> Option<Self> {
        Self::in_folder(Path::new(&format!("/proc/{task}")))
    }

    /// The status that lies in a folder of /proc. `None` if the process or thread is gone.
    pub fn in_folder(folder: &Path) -> Option<Self> {
        Self::read(folder).ok()
    }

    /// The status that lies in a folder of /proc.
    pub fn read(folder: &Path) -> io::Result<Self> {
        // The name may hold any bytes, because the kernel cuts it after 15 bytes, which may split a
        // character.
        let bytes = fs::read(folder.join("status"))?;
        Ok(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The status of the thread that asks; empty where /proc is missing.
    pub fn of_this_thread() -> Self {
        Self::in_folder(Path::new("/proc/thread-self")).unwrap_or_default()
    }

    /// The value on the line of this name, which is given without its colon.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.trim())
    }

    /// The number on a line.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.field(name)?.parse().ok()
    }

    /// The set of bits on a line, which the kernel writes as a hexadecimal number.
    pub fn bits(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, 16).ok()
    }

    /// All numbers on a line. `None` if there is no such line, or if anything else is on it.
    pub fn numbers(&self, name: &str) -> Option<Vec<u32>> {
        let words = self.field(name)?.split_whitespace();
        words.map(|word| word.parse().ok()).collect()
    }

    /// The process that traces the thread; `None` if none does.
    pub fn tracer(&self) -> Option<u32> {
        self.number("TracerPid").filter(|tracer| *tracer != 0)
    }

    /// Whether a signal is pending for the thread itself. Signals that are pending for the whole
    /// process do not count.
    pub fn is_pending(&self, signal: i32) -> bool {
        let pending = self.bits("SigPnd");
        let bit = u32::try_from(signal)
            .ok()
            .and_then(|number| number.checked_sub(1));
        let bit = bit.and_then(|bit| 1_u64.checked_shl(bit));
        pending.zip(bit).is_some_and(|(bits, bit)| bits & bit != 0)
    }

    /// Number of filters for the system calls of the thread; before Linux 5.9, 2 if there are any.
    /// `u32::MAX` in strict mode.
    pub fn filters(&self) -> u32 {
        // The strict mode has no filter, and allows next to nothing.
        match self.number("Seccomp") {
            Some(1) => u32::MAX,
            mode => self.number("Seccomp_filters").or(mode).unwrap_or(0),
        }
    }

    /// Whether the process or thread is in a pid namespace below that of the reader of /proc, where
    /// processes have other numbers.
    pub fn has_other_numbers(&self) -> bool {
        // The line has one number for each namespace, the outermost first.
        self.field("NSpid")
            .is_none_or(|all| all.split_whitespace().count() != 1)
    }

    /// Whether the processor keeps a second copy of the return addresses of the process.
    pub fn has_shadow_stack(&self) -> bool {
        let (line, word) = SHADOW_STACK;
        self.field(line)
            .is_some_and(|all| all.split_ascii_whitespace().any(|feature| feature == word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_traces() {
        let tracer = |line: &str| {
            Status::from(&format!("Name:\tTracerPid: 3\n{line}Uid:\t0\n")[..]).tracer()
        };
        assert_eq!(tracer("TracerPid:\t77\n"), Some(77));
        assert_eq!(tracer("TracerPid:\t0\n"), None, "nobody");
        assert_eq!(tracer("TracerPid:\t-1\n"), None);
        assert_eq!(tracer(""), None);
    }

    #[test]
    fn which_signals_wait() {
        let status = Status::from("SigQ:\t1/99\nSigPnd:\t8000000000000200\nShdPnd:\t1\n");
        for (signal, waits) in [(10, true), (64, true), (1, false), (9, false)] {
            assert_eq!(status.is_pending(signal), waits, "{signal}");
        }
        // These signals do not exist.
        for signal in [0, -1, 65, i32::MAX, i32::MIN] {
            assert!(!status.is_pending(signal), "{signal}");
        }
        assert!(!Status::from("SigPnd:\tmany\n").is_pending(10));
        assert!(!Status::default().is_pending(10));
    }

    #[test]
    fn return_addresses_are_kept_twice_or_not() {
        for (line, twice) in [
            ("x86_Thread_features:\tshstk wrss\n", true),
            ("x86_Thread_features:\t\n", false),
            ("x86_Thread_features_locked:\tshstk\n", false),
        ] {
            assert_eq!(Status::from(line).has_shadow_stack(), twice, "{line}");
        }
    }

    #[test]
    fn how_many_filters_there_are() {
        let filters = |text: &str| Status::from(text).filters();
        assert_eq!(filters("Seccomp:\t2\nSeccomp_filters:\t3\n"), 3);
        assert_eq!(filters("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
        assert_eq!(filters("Seccomp:\t2\n"), 2, "before Linux 5.9");
        assert_eq!(filters("Seccomp:\t1\nSeccomp_filters:\t0\n"), u32::MAX);
        assert_eq!(filters("Name:\tx\n"), 0, "a kernel without");
    }

    #[test]
    fn numbers_elsewhere() {
        let has_others = |text: &str| Status::from(text).has_other_numbers();
        assert!(!has_others("Pid:\t7\nNSpid:\t7\n"));
        assert!(has_others("Pid:\t7\nNSpid:\t7\t1\n"));
        assert!(has_others(""), "it is gone");
    }
}
