//! The parallel program (job) of which a process is a rank, from the environment that the program's
//! launcher has set.

use std::fs;

use super::{folder, parent, stat};

/// The most ancestors of a process that are searched for its launcher.
const MAX_ANCESTORS: usize = 64;

/// Identifies the parallel program of which a process is a rank, among programs that run at the
/// same time: the namespace of `PMIx` (so of Open MPI), the pid of Hydra (the launcher of MPICH and
/// its kin) on this machine, or the step of Slurm.
pub fn name(pid: u32) -> Option<Box<[u8]>> {
    let environment = environment(pid)?;
    name_in(&environment, || {
        let mut process = Some(pid);
        let mut ancestors = std::iter::from_fn(|| {
            process = parent(process?);
            process
        });
        // Scripts may stand between a rank and the launcher.
        ancestors.by_ref().take(MAX_ANCESTORS).find(|ancestor| {
            stat(&folder(*ancestor)).is_some_and(|stat| stat.comm == "hydra_pmi_proxy")
        })
    })
}

/// The rank of a process in its parallel program; set by Open MPI, MPICH and its kin, `PMIx`, Slurm.
pub fn rank(pid: u32) -> Option<u32> {
    rank_in(&environment(pid)?)
}

/// The number of ranks of a process's parallel program, and whether all of them run on this machine;
/// set by Open MPI, MPICH and its kin.
pub fn ranks(pid: u32) -> Option<(u32, bool)> {
    ranks_in(&environment(pid)?)
}

/// The number of ranks of a process's parallel program, as the launcher of Open MPI sets it, or Slurm
/// where Slurm starts ranks of Open MPI.
pub fn ranks_of_open_mpi(pid: u32) -> Option<u32> {
    ranks_of_open_mpi_in(&environment(pid)?)
}

/// The number of ranks of a process's parallel program, as MPICH's `mpiexec` or Slurm sets it.
pub fn ranks_of_mpich(pid: u32) -> Option<u32> {
    ranks_of_mpich_in(&environment(pid)?)
}

fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(folder(pid).join("environ")).ok()
}

/// `proxy` finds Hydra's process. Within one step of Slurm, Hydra may be started several times.
fn name_in(environment: &[u8], proxy: impl FnOnce() -> Option<u32>) -> Option<Box<[u8]>> {
    let value = |name| variable(environment, name);
    if let Some(namespace) = value("PMIX_NAMESPACE") {
        return Some(namespace.into());
    }
    if let Some(proxy) = proxy() {
        return Some(proxy.to_string().into_bytes().into());
    }
    let step = [value("SLURM_JOB_ID")?, value("SLURM_STEP_ID")?];
    Some(step.join(&b'.').into())
}

fn rank_in(environment: &[u8]) -> Option<u32> {
    const NAMES: [&str; 4] = [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ];
    number_in(environment, &NAMES)
}

fn ranks_in(environment: &[u8]) -> Option<(u32, bool)> {
    let all = number_in(environment, &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])?;
    let names = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
    let here = number_in(environment, &names);
    Some((all, here == Some(all)))
}

fn ranks_of_open_mpi_in(environment: &[u8]) -> Option<u32> {
    let by_launcher = number_in(environment, &["OMPI_COMM_WORLD_SIZE"]);
    by_launcher.or_else(|| {
        variable(environment, "PMIX_RANK")?;
        number_in(environment, &["SLURM_STEP_NUM_TASKS"])
    })
}

fn ranks_of_mpich_in(environment: &[u8]) -> Option<u32> {
    number_in(environment, &["PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
}

/// The value of the first of these variables that is set; `None` also if that value is no number.
fn number_in(environment: &[u8], names: &[&str]) -> Option<u32> {
    let mut values = names.iter().filter_map(|name| variable(environment, name));
    std::str::from_utf8(values.next()?).ok()?.parse().ok()
}

fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut all = environment.split(|byte| *byte == 0);
    all.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
