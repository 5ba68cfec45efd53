//! The user's choices of how a program is watched.

use serde::{Deserialize, Serialize};

/// The backends, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// The best backend that this user may use.
    Auto,
    /// Kernel probes with BPF programs: needs root or two capabilities.
    Ebpf,
    /// Code inside of the program that notes arrivals: your own processes, at a cost of nanoseconds;
    /// arrivals only. Not chosen by `auto`.
    Inject,
    /// Breakpoint registers of the processor, read through perf events: your own processes,
    /// which do not stop at a breakpoint.
    Perf,
    /// Breakpoints at which threads stop, as in a debugger: your own processes.
    Ptrace,
}

/// Whether sbt watches departures from barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Departures {
    /// On while arrivals are not too frequent.
    Auto,
    /// Always.
    On,
    /// Never: the release time is unknown.
    Off,
}

/// Whether sbt watches the system calls of futexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Futexes {
    /// On while no other barriers are found.
    Auto,
    /// Always.
    On,
    /// Never: locks, and barriers that a program makes from futexes, are not seen.
    Off,
}

/// How sbt treats barriers that only spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Spins {
    /// sbt looks for them, and counts those that are proven to be barriers.
    Auto,
    /// sbt looks for them, and names the function.
    Point,
    /// sbt does not look.
    Off,
}

/// How closely sbt watches what threads do between barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum States {
    /// Running, ready and blocked time, from two clocks that are read with every event.
    #[default]
    Light,
    /// Also every context switch of the threads: what blocked them, and who took the CPU.
    Full,
    /// Neither: the clocks are not read.
    Off,
}

impl States {
    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Full => "full",
            Self::Off => "off",
        }
    }
}

/// Whether sbt looks where threads sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Waits {
    /// Looks at random moments, as often as the limit for the cost allows.
    Auto,
    /// Never.
    Off,
}
