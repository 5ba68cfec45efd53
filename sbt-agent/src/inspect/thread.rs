//! Facts about a thread from /proc.

use std::path::PathBuf;

use super::call::Call;
use sbt_engine::hang::scene::{ThreadId, Withheld};
use sbt_program::{process, status::Status};

/// The state of a thread at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Its state as in /proc/PID/stat: `R`, `S`, `D`, `T`, `t`, `Z` …
    pub state: char,
    /// The process that traces it; 0 if none does.
    pub tracer: u32,
    /// Its number in its own pid namespace.
    pub own_number: u32,
    /// The number of times that it has left the CPU.
    pub switches: u64,
    /// How many of these times it did so to sleep.
    pub sleeps: u64,
    /// CPU time used so far, ns; `None` if the kernel does not report it.
    pub ran_ns: Option<u64>,
    /// Time in which it was ready and had no CPU so far, ns; `None` if the kernel does not report it.
    pub ready_ns: Option<u64>,
    /// The signals that were sent and that it blocks.
    pub withheld: Withheld,
    /// The system call that it is in.
    pub call: Call,
}

impl Glance {
    /// The state of a thread now; `None` if it is gone.
    pub fn at(id: ThreadId) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{}/task/{}", id.process, id.thread));
        let read = |name: &str| process::text(folder.join(name)).ok();
        // Read before the number of switches: a thread that wakes in between, and comes back to the
        // same call, then has another number.
        let call = Call::of(id);
        let mut glance = Self::of_status(&Status::in_folder(&folder)?, id.thread)?;
        let times = read("schedstat");
        let mut times = times.iter().flat_map(|text| text.split(' '));
        let mut time = || times.next()?.parse().ok();
        (glance.ran_ns, glance.ready_ns) = (time(), time());
        // A thread that has ended is in no system call.
        if !glance.has_ended() {
            glance.call = call;
        }
        Some(glance)
    }

    fn of_status(status: &Status, thread: u32) -> Option<Self> {
        let own = status.field("NSpid");
        let own = own.and_then(|all| all.split_whitespace().last()?.parse().ok());
        Some(Self {
            state: status.field("State")?.chars().next()?,
            tracer: status.tracer().unwrap_or(0),
            own_number: own.unwrap_or(thread),
            sleeps: status.number("voluntary_ctxt_switches").unwrap_or(0),
            switches: status.number("voluntary_ctxt_switches").unwrap_or(0)
                + status.number("nonvoluntary_ctxt_switches").unwrap_or(0),
            ran_ns: None,
            ready_ns: None,
            withheld: withheld(status),
            call: Call::Unknown,
        })
    }

    /// Whether the thread has ended and is only a zombie.
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether it sleeps in the same system call as at an earlier look.
    pub fn sleeps_again(&self, earlier: &Self) -> bool {
        self.call.standing().is_some() && (self.state, self.call) == (earlier.state, earlier.call)
    }

    /// Whether it has slept in the same system call without interruption since `earlier`.
    pub fn sleeps_since(&self, earlier: &Self) -> bool {
        self.sleeps_again(earlier) && self.switches == earlier.switches
    }
}

fn withheld(status: &Status) -> Withheld {
    let bits = |name| status.bits(name).unwrap_or(0);
    let blocked = bits("SigBlk");
    Withheld {
        own: bits("SigPnd") & blocked,
        shared: bits("ShdPnd") & blocked,
    }
}

/// The kernel's name of a thread.
pub fn name(id: ThreadId) -> Option<String> {
    let path = format!("/proc/{}/task/{}/comm", id.process, id.thread);
    let name = process::text(path).ok()?;
    Some(name.strip_suffix('\n').unwrap_or(&name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read() {
        let status = "Name:\tState:\tR\nState:\tS (sleeping)\nTracerPid:\t7\nNSpid:\t90\t4\n\
                      voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        let glance = Glance::of_status(&status.into(), 90).unwrap();
        assert_eq!((glance.state, glance.tracer), ('S', 7));
        assert_eq!((glance.own_number, glance.switches), (4, 11));
        assert_eq!(Glance::of_status(&"".into(), 90), None);
        let signals =
            "State:\tS\nSigPnd:\t0000000000000201\nShdPnd:\t4000\nSigBlk:\t0000000000004200\n";
        let withheld = Glance::of_status(&signals.into(), 90).unwrap().withheld;
        assert_eq!((withheld.own, withheld.shared), (0x200, 0x4000));
        assert!(!glance.sleeps_since(&glance), "its call is not known");
        let asleep = Glance {
            call: Call::Outside { sp: 1, at: 2 },
            ..glance
        };
        assert!(asleep.sleeps_since(&asleep));
        let since = Glance {
            switches: 12,
            ..asleep
        };
        assert!(!since.sleeps_since(&asleep), "it has run between");
        assert!(since.sleeps_again(&asleep));
        let elsewhere = Glance {
            call: Call::Outside { sp: 1, at: 3 },
            ..asleep
        };
        assert!(!elsewhere.sleeps_again(&asleep));
        assert_eq!(
            Glance::of_status(&"State:\tZ".into(), 90)
                .unwrap()
                .own_number,
            90
        );
    }

    #[test]
    fn a_thread_sees_itself_running() {
        let id = ThreadId {
            process: std::process::id(),
            thread: nix::unistd::gettid().as_raw().cast_unsigned(),
        };
        let glance = Glance::at(id).unwrap();
        assert_eq!(glance.state, 'R');
        assert!(name(id).is_some());
        let nobody = ThreadId { thread: 0, ..id };
        assert_eq!(Glance::at(nobody), None);
    }
}
