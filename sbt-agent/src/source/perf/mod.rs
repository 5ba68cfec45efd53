//! The perf backend: breakpoints of the processor, sampled by the kernel. No thread stops, and no
//! privilege is needed as long as the processes are the user's own.
//!
//! A thread that comes to one of four addresses leaves its registers and the top of its stack in a
//! ring, and goes on. A moment later, sbt makes of this the records that the BPF programs would
//! have made (`twin/`). Three things differ: there is room for four addresses only; departures and
//! futexes are not seen; memory is read late.

use std::io;

use anyhow::anyhow;
use sbt_common::{Code, Rule};

mod calibrate;
pub(super) mod cover;
pub(super) mod events;
mod place;
pub(super) mod record;
mod refused;
pub(super) mod run;
mod space;
mod watch;

use events::Events;
use watch::Watch;

use super::{
    abilities::{Callers, Condvars},
    outside::Outside,
    polled::Polled,
};
use crate::{kernel::counting, settings::Settings};
use sbt_engine::choices::States;

/// The perf source of one target.
pub type Hardware = Polled<Watch>;

impl Hardware {
    /// Begins to watch a process. `runs`: whether it runs its own program already.
    ///
    /// # Errors
    /// The process may not be watched this way: the error says why, and what would help.
    pub fn begin(
        pid: u32,
        runs: bool,
        children: bool,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        super::allow_files();
        let hit_ns = calibrate::hit_ns().map_err(explained)?;
        let mut outside = Outside::new(pid, children, settings);
        outside.costs(Ok(hit_ns));
        outside.sees_arrivals_only(
            settings,
            "departures need --backend ebpf or ptrace: the processor's few breakpoints are used \
             for arrivals",
        );
        let switches = outside.states != States::Off;
        let events = Events::new(&counting::online(), children, switches).map_err(explained)?;
        let mut watch = Watch::new(pid, events, children);
        watch.hear_of(pid, runs).map_err(explained)?;
        Self::new(outside, watch, pid, runs)
    }
}

/// The message for an error of the kernel.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn explained(error: io::Error) -> anyhow::Error {
    anyhow!("{}", refused::explain(&error))
}

impl Condvars for Hardware {
    fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        self.watch().set_condvars(on).map_err(explained)
    }
}

impl Callers for Hardware {
    fn learn(&mut self, changes: &[(Code, Option<Rule>)]) -> anyhow::Result<()> {
        self.watch().learn(changes);
        Ok(())
    }
}
