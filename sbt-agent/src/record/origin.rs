//! Where a recording is made.

use std::{fs, process, sync::OnceLock};

use sbt_engine::origin::Origin;
use sbt_program::process::job;

/// The machine and the place in a parallel program of this sbt, and so of the program that it starts;
/// `None` without /proc. Found out once.
pub fn origin() -> Option<Origin> {
    static ORIGIN: OnceLock<Option<Origin>> = OnceLock::new();
    ORIGIN.get_or_init(find).clone()
}

fn find() -> Option<Origin> {
    let line = |path: &str| Some(fs::read_to_string(path).ok()?.trim().to_owned());
    let me = process::id();
    Some(Origin {
        host: line("/proc/sys/kernel/hostname")?,
        // Containers of one machine have one: times are the kernel's, whatever time namespaces say.
        clock: line("/proc/sys/kernel/random/boot_id")?,
        job: job::name(me).map(|name| String::from_utf8_lossy(&name).into_owned()),
        rank: job::rank(me),
        ranks: job::ranks_of_open_mpi(me).or_else(|| job::ranks_of_mpich(me)),
    })
}
