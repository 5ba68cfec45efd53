//! The system call that a thread is in, by /proc, without stopping the thread.

use std::{fs, time::Duration};

use super::system_v;
use sbt_engine::hang::scene::ThreadId;
use sbt_program::{memory::Memory, spin::forever::begun_by, syscalls};

/// The content of /proc/PID/task/TID/syscall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The thread is on a CPU or could be.
    Running,
    /// The thread sleeps in the kernel outside of a system call: it waits for a page of its memory.
    Outside {
        /// rsp of its own code.
        sp: u64,
        /// The instruction pointer of its own code.
        at: u64,
    },
    /// The thread is in a system call.
    In {
        /// Number of the system call.
        number: i64,
        /// The arguments of the system call.
        arguments: [u64; 6],
        /// rsp of its own code.
        sp: u64,
        /// The instruction pointer of its own code.
        at: u64,
    },
    /// The kernel does not tell.
    Unknown,
}

impl Call {
    /// The call of a thread now.
    pub fn of(thread: ThreadId) -> Self {
        let ThreadId { process, thread } = thread;
        let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall"));
        let call = text.map_or(Self::Unknown, |text| Self::parse(&text));
        let memory = Memory { thread };
        call.or_continued(|at| {
            let read = |address: u64, bytes: &mut [u8]| {
                let read = memory.fill(address, bytes);
                read.is_ok_and(|count| count == bytes.len())
            };
            begun_by(at, &read)
        })
    }

    /// The sleep behind a call of `restart_syscall`, by which the kernel continues the sleep of a thread
    /// that was stopped meanwhile, also by an earlier look. `begun_by`: the number of the
    /// call right before an address of the thread's code.
    fn or_continued(self, begun_by: impl Fn(u64) -> Option<u64>) -> Self {
        let Self::In {
            number: libc::SYS_restart_syscall,
            arguments,
            sp,
            at,
        } = self
        else {
            return self;
        };
        let begun = begun_by(at).and_then(|number| i64::try_from(number).ok());
        match begun {
            Some(number @ (libc::SYS_nanosleep | libc::SYS_clock_nanosleep)) => Self::In {
                number,
                arguments,
                sp,
                at,
            },
            _ => self,
        }
    }

    /// Reads the content of the file.
    pub fn parse(text: &str) -> Self {
        let mut fields = text.split_whitespace();
        let number = match fields.next() {
            Some("running") => return Self::Running,
            Some(first) => first.parse::<i64>(),
            None => return Self::Unknown,
        };
        let numbers: Option<Vec<u64>> = fields
            .map(|field| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok())
            .collect();
        match (number, numbers.as_deref()) {
            (Ok(-1), Some(&[sp, at])) => Self::Outside { sp, at },
            (Ok(number), Some([arguments @ .., sp, at])) => {
                arguments
                    .try_into()
                    .map_or(Self::Unknown, |arguments| Self::In {
                        number,
                        arguments,
                        sp: *sp,
                        at: *at,
                    })
            }
            _ => Self::Unknown,
        }
    }

    /// The call that the thread has begun. A call that was interrupted shows as `restart_syscall`,
    /// by which the kernel continues it.
    pub fn or_begun(self, earlier: Self) -> Self {
        let place = |call: Self| match call {
            Self::In {
                arguments, sp, at, ..
            } => Some((arguments, sp, at)),
            _ => None,
        };
        match self {
            Self::In {
                number: libc::SYS_restart_syscall,
                ..
            } if place(self) == place(earlier) => earlier,
            other => other,
        }
    }

    /// rsp and the instruction pointer, if the thread sleeps.
    pub const fn standing(self) -> Option<(u64, u64)> {
        match self {
            Self::Outside { sp, at } | Self::In { sp, at, .. } => Some((sp, at)),
            Self::Running | Self::Unknown => None,
        }
    }

    /// Whether the call only sleeps for a time.
    pub const fn is_nap(self) -> bool {
        matches!(
            self,
            Self::In {
                number: libc::SYS_nanosleep | libc::SYS_clock_nanosleep,
                ..
            } | Self::In {
                number: libc::SYS_poll,
                arguments: [0, ..],
                ..
            }
        )
    }

    /// Whether the thread may be stopped for a moment without noticing: then the kernel restarts
    /// the system call by itself. Other calls fail with EINTR (signal(7)).
    pub fn may_be_interrupted(self, thread: u32) -> bool {
        let Self::In {
            number, arguments, ..
        } = self
        else {
            // A stop does not end the wait for a page.
            return matches!(self, Self::Running);
        };
        match number {
            libc::SYS_futex => matches!(
                futex_operation(arguments[1]),
                libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI | LOCK_PI2
            ),
            libc::SYS_nanosleep
            | libc::SYS_clock_nanosleep
            | libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_wait4
            | libc::SYS_waitid => true,
            // While a thread waits at a pipe it has read nothing. A write may have written a part,
            // and then returns: a program that does not expect that loses the rest.
            libc::SYS_read | libc::SYS_readv => {
                descriptor(thread, arguments[0]).starts_with("pipe:[")
            }
            _ => false,
        }
    }

    /// Whether the call waits for a child, or for input or room that a child may give.
    pub const fn is_for_others(self) -> bool {
        matches!(
            self,
            Self::In {
                number: libc::SYS_wait4
                    | libc::SYS_waitid
                    | libc::SYS_read
                    | libc::SYS_flock
                    | libc::SYS_fcntl
                    | libc::SYS_poll
                    | libc::SYS_ppoll
                    | libc::SYS_select
                    | libc::SYS_pselect6
                    | libc::SYS_epoll_wait
                    | libc::SYS_epoll_pwait
                    | libc::SYS_epoll_pwait2
                    | libc::SYS_readv
                    | libc::SYS_recvfrom
                    | libc::SYS_recvmsg
                    | libc::SYS_write
                    | libc::SYS_writev
                    | libc::SYS_sendto
                    | libc::SYS_sendmsg,
                ..
            }
        )
    }

    /// The call's name, and what it waits for, if known.
    pub fn described(self, thread: u32) -> Option<(String, Option<String>)> {
        let Self::In {
            number, arguments, ..
        } = self
        else {
            return None;
        };
        let name = syscalls::name(number).map_or_else(|| format!("syscall {number}"), Into::into);
        let memory = Memory { thread };
        let what = match number {
            // The kernel has written over the time with what was left of it.
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep if is_continued(thread) => None,
            libc::SYS_nanosleep => duration(memory, arguments[0]),
            // An absolute time is no duration.
            libc::SYS_clock_nanosleep if arguments[1] & 1 == 0 => duration(memory, arguments[2]),
            libc::SYS_poll | libc::SYS_ppoll => polled(memory, arguments[0], arguments[1]),
            libc::SYS_openat => path(memory, arguments[1]),
            libc::SYS_open => path(memory, arguments[0]),
            libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_msgrcv | libc::SYS_msgsnd => {
                system_v::described(thread, number, arguments)
            }
            _ if has_descriptor(number) => opened(thread, arguments[0]),
            _ => None,
        };
        Some((name, what))
    }
}

/// Whether a thread is in a sleep that the kernel continues because the thread was stopped meanwhile.
fn is_continued(thread: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{thread}/syscall"));
    let begins = format!("{} ", libc::SYS_restart_syscall);
    text.is_ok_and(|text| text.starts_with(&begins))
}

/// `FUTEX_LOCK_PI2` of Linux 5.14.
pub const LOCK_PI2: i32 = 13;

/// The operation of a futex call, without its flags.
pub fn futex_operation(argument: u64) -> i32 {
    let argument = i32::try_from(argument & 0xffff_ffff).unwrap_or(-1);
    argument & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
}

/// Whether the first argument is a file descriptor.
fn has_descriptor(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_preadv2
            | libc::SYS_pwritev2
            | libc::SYS_ioctl
            | libc::SYS_fcntl
            | libc::SYS_flock
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_connect
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_sendto
            | libc::SYS_recvfrom
            | libc::SYS_sendmsg
            | libc::SYS_recvmsg
            | libc::SYS_sendmmsg
            | libc::SYS_recvmmsg
            | libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_getdents64
            | libc::SYS_mq_timedsend
            | libc::SYS_mq_timedreceive
    )
}

/// The file of a process's descriptor, as the kernel names it. The file itself is not touched: a
/// file on a dead server would block.
fn descriptor(thread: u32, number: u64) -> String {
    // Descriptors have the type `int`.
    let number = number & 0xffff_ffff;
    fs::read_link(format!("/proc/{thread}/fd/{number}"))
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The file of a descriptor, in words for the user. `None` if not known.
fn opened(thread: u32, number: u64) -> Option<String> {
    let name = match number & 0xffff_ffff {
        0 => "standard input".into(),
        1 => "standard output".into(),
        2 => "standard error".into(),
        _ => descriptor(thread, number),
    };
    (!name.is_empty()).then_some(name)
}

/// A path in memory. `None` if it is long, or cannot be read.
fn path(memory: Memory, address: u64) -> Option<String> {
    let bytes: [u8; 256] = memory.bytes(address)?;
    let path = bytes.split(|byte| *byte == 0).next()?;
    (path.len() < bytes.len()).then(|| String::from_utf8_lossy(path).into_owned())
}

fn duration(memory: Memory, address: u64) -> Option<String> {
    let bytes: [u8; 16] = memory.bytes(address)?;
    let (seconds, ns) = (bytes.first_chunk()?, bytes.last_chunk()?);
    let seconds = u64::try_from(i64::from_ne_bytes(*seconds)).ok()?;
    let ns = u32::try_from(i64::from_ne_bytes(*ns)).ok()?;
    (ns < 1_000_000_000).then(|| shown(Duration::new(seconds, ns)))
}

/// A duration with one decimal, in a unit that fits.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (number, unit) = match seconds {
        _ if seconds >= 1.0 => (seconds, "s"),
        _ if seconds >= 1e-3 => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    let text = format!("{number:.1}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// The number of descriptors of a poll that are named.
const MAX_POLLED: u64 = 3;

fn polled(memory: Memory, address: u64, count: u64) -> Option<String> {
    let entries = (0..count.min(MAX_POLLED)).map(|index| {
        let entry: [u8; 8] = memory.bytes(address.checked_add(8 * index)?)?;
        let number = i32::from_ne_bytes(*entry.first_chunk()?);
        // A negative entry is ignored by poll.
        u64::try_from(number)
            .ok()
            .and_then(|number| opened(memory.thread, number))
    });
    let mut names: Vec<String> = entries.flatten().collect();
    if count > MAX_POLLED && !names.is_empty() {
        names.push(format!("{} more", count - MAX_POLLED));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_and_garbage_is_unknown() {
        let futex = "202 0x1 0x80 0x2 0x0 0x0 0x7f00 0x7ffe10 0x7f0010\n";
        let expected = Call::In {
            number: 202,
            arguments: [1, 0x80, 2, 0, 0, 0x7f00],
            sp: 0x7f_fe10,
            at: 0x7f_0010,
        };
        assert_eq!(Call::parse(futex), expected);
        assert_eq!(Call::parse("running\n"), Call::Running);
        let outside = Call::Outside { sp: 16, at: 32 };
        assert_eq!(Call::parse("-1 0x10 0x20\n"), outside);
        for text in [
            "",
            "\n",
            "202",
            "202 0x1",
            "x 0x1 0x2",
            "-1 0x10 20",
            "202 running",
        ] {
            assert_eq!(Call::parse(text), Call::Unknown, "{text:?}");
        }
    }

    #[test]
    fn a_call_that_goes_on_is_the_one_that_was_begun() {
        let call = |number, sp| Call::In {
            number,
            arguments: [1; 6],
            sp,
            at: 5,
        };
        let (futex, again) = (call(libc::SYS_futex, 3), call(libc::SYS_restart_syscall, 3));
        assert_eq!(again.or_begun(futex), futex);
        assert_eq!(again.or_begun(Call::Running), again);
        assert_eq!(again.or_begun(call(libc::SYS_futex, 4)), again);
        assert_eq!(futex.or_begun(call(libc::SYS_poll, 3)), futex);
    }

    #[test]
    fn a_sleep_that_an_earlier_look_interrupted_is_a_sleep() {
        let call = |number| Call::In {
            number,
            arguments: [1; 6],
            sp: 3,
            at: 5,
        };
        let again = call(libc::SYS_restart_syscall);
        let [sleep, futex] = [libc::SYS_clock_nanosleep, libc::SYS_futex].map(i64::cast_unsigned);
        assert_eq!(again.or_continued(|_| Some(sleep)), call(230));
        assert_eq!(again.or_continued(|_| Some(futex)), again);
        assert_eq!(again.or_continued(|_| None), again);
        let poll = call(libc::SYS_poll);
        assert_eq!(poll.or_continued(|_| Some(sleep)), poll);
    }

    #[test]
    fn only_calls_that_begin_again_may_be_interrupted() {
        let call = |number, arguments| Call::In {
            number,
            arguments,
            sp: 0,
            at: 0,
        };
        let process = std::process::id();
        let futex = |operation| call(libc::SYS_futex, [0, operation, 0, 0, 0, 0]);
        for (call, expected) in [
            (futex(0x80), true),
            (futex(0x189), true),
            (futex(6), true),
            // FUTEX_WAIT_REQUEUE_PI
            (futex(11), false),
            (call(libc::SYS_clock_nanosleep, [0; 6]), true),
            (call(libc::SYS_epoll_wait, [0; 6]), false),
            (call(libc::SYS_semtimedop, [0; 6]), false),
            (call(libc::SYS_rt_sigtimedwait, [0; 6]), false),
            (call(libc::SYS_msgrcv, [0; 6]), false),
            (call(libc::SYS_io_getevents, [0; 6]), false),
            (call(libc::SYS_read, [999_999, 0, 0, 0, 0, 0]), false),
            (Call::Running, true),
            (Call::Unknown, false),
            (Call::Outside { sp: 0, at: 0 }, false),
        ] {
            assert_eq!(call.may_be_interrupted(process), expected, "{call:?}");
        }
        let (from, to) = std::io::pipe().unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = fs::File::open("/proc/self/exe").unwrap();
        for (number, file, expected) in [
            (libc::SYS_read, from.as_raw_fd(), true),
            (libc::SYS_readv, from.as_raw_fd(), true),
            // A part may have been written.
            (libc::SYS_write, to.as_raw_fd(), false),
            (libc::SYS_writev, to.as_raw_fd(), false),
            (libc::SYS_read, socket.as_raw_fd(), false),
            (libc::SYS_read, file.as_raw_fd(), false),
        ] {
            let descriptor = u64::try_from(file).unwrap();
            let call = call(number, [descriptor, 0, 0, 0, 0, 0]);
            assert_eq!(call.may_be_interrupted(process), expected, "{call:?}");
        }
    }

    #[test]
    fn sleeps_say_how_long() {
        let time = [2_i64, 500_000_000];
        let address = time.as_ptr().expose_provenance() as u64;
        let own = std::process::id();
        let sleep = Call::In {
            number: libc::SYS_nanosleep,
            arguments: [address, 0, 0, 0, 0, 0],
            sp: 0,
            at: 0,
        };
        let described = sleep.described(own);
        assert_eq!(described, Some(("nanosleep".into(), Some("2.5 s".into()))));
        assert_eq!(shown(Duration::from_millis(20)), "20 ms");
        assert_eq!(shown(Duration::from_micros(7)), "7 µs");
        let unknown = Call::In {
            number: 9999,
            arguments: [0; 6],
            sp: 0,
            at: 0,
        };
        assert_eq!(unknown.described(own), Some(("syscall 9999".into(), None)));
    }
}
