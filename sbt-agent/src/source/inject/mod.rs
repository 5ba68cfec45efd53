//! The inject backend: threads of the target note their arrivals themselves, in memory that they share
//! with sbt. No thread stops, the kernel is not entered, and no privilege is needed as long as the
//! process is the user's own.
//!
//! For a moment all threads stand (`remote.rs`), and one of them maps rings and a page of code for sbt
//! (`space.rs`). At each place, one instruction is replaced by a jump to that code
//! ([`trampoline`](sbt_program::arch::trampoline)), which notes the time, the thread, the barrier and
//! the caller in the thread's own ring. A moment later, sbt makes of this the records that the BPF
//! programs would have made (`twin/`). The kernel tells when threads get and lose a CPU (`lives.rs`).
//! Departures, condition variables, futexes and counters are not seen.
//!
//! If sbt is killed, a small process takes the jumps out (`keeper.rs`). If that is killed as well, the
//! program goes on writing into its rings, and is otherwise as without sbt.

use anyhow::{anyhow, bail};

mod armed;
mod calibrate;
mod clock;
mod keeper;
mod lives;
mod ready;
mod remote;
mod ring;
mod site;
mod space;
mod watch;

pub use keeper::{ARGUMENT, Keeper, run as keep};
use lives::Lives;
use watch::{NEXT, Watch};

use super::{outside::Outside, polled::Polled};
use crate::settings::Settings;
use sbt_engine::choices::States;
use sbt_program::process;

/// The inject source of one target.
pub type Inject = Polled<Watch>;

impl Inject {
    /// Begins to watch a process. `runs`: whether it runs its own program already; `keeper`: the one of that
    /// process.
    ///
    /// # Errors
    /// The process may not be watched this way: the error says why, and what would help.
    pub fn begin(
        pid: u32,
        runs: bool,
        settings: &Settings,
        keeper: Keeper,
    ) -> anyhow::Result<Self> {
        if !clock::is_counter() {
            bail!(
                "cannot watch from inside of the program: this machine's kernel does not take the \
                 time from the processor (the clocksource is not tsc); {NEXT}"
            );
        }
        if let Some(tracer) = process::tracer(pid, pid).filter(|tracer| *tracer != 0) {
            let error = anyhow!("process {tracer} traces it");
            return Err(super::refused::explain(pid, &error));
        }
        super::allow_files();
        let mut outside = Outside::new(pid, false, settings);
        outside.costs(calibrate::hit_ns());
        outside.sees_arrivals_only(
            settings,
            "departures need --backend ebpf or ptrace: sbt sees arrivals only",
        );
        #[cfg(debug_assertions)]
        sbt_program::trace::fault::arm();
        let lives = Lives::of(pid, outside.states != States::Off);
        if !lives.are_exact() {
            outside.states = States::Off;
            outside.notes.push(
                "this user may not have perf events (kernel.perf_event_paranoid): when threads \
                 begin and end is known to some 10 ms only, and it is not known how long they were \
                 running, ready or blocked"
                    .into(),
            );
        }
        Self::new(outside, Watch::new(pid, runs, lives, keeper), pid, runs)
    }
}
