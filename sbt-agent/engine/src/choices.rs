//! What the user may choose of how a program is watched.

use serde::{Deserialize, Serialize};

/// Which source is to be used: the rungs of the ladder, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// The best that this user may use.
    Auto,
    /// Probes of the kernel, and programs in it: root, or two capabilities.
    Ebpf,
    /// Breakpoints of the processor, sampled by the kernel: one's own processes, which
    /// do not stop for it.
    Perf,
    /// Breakpoints at which threads stop, as under a debugger: one's own processes.
    Ptrace,
}

/// Whether sbt watches departures from barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Departures {
    /// On while arrivals are not too frequent.
    Auto,
    /// Always.
    On,
    /// Never: the release latency then is unknown.
    Off,
}

/// Whether sbt watches the system calls of futexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Futexes {
    /// While nothing else shows barriers.
    Auto,
    /// Always.
    On,
    /// Never: barriers that are made of nothing else are not seen, nor locks.
    Off,
}

/// How closely sbt watches what threads do between barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum States {
    /// Running, ready and blocked, from two clocks that every event carries.
    #[default]
    Light,
    /// Likewise by every switch of its threads: blocked on what, and who took the CPU.
    Full,
    /// Not at all: the clocks are not read.
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
