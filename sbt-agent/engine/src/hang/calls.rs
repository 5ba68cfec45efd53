//! What the functions on a thread's stack say of its wait: runtimes and libraries of MPI spin while
//! they wait, and words of memory alone do not say what for.

use super::scene::{CallSeen, ThreadSeen};
use crate::place::printable;

/// Functions of MPI that do not wait for other ranks.
const AT_ONCE: [&str; 7] = [
    "MPI_Init",
    "MPI_Wtime",
    "MPI_Isend",
    "MPI_Irecv",
    "MPI_Test",
    "MPI_Iprobe",
    "MPI_Improbe",
];

/// The object of the wait at a critical section of OpenMP.
const CRITICAL: &str = "for a critical section";

/// The object of the wait in `pthread_spin_lock`.
pub const SPIN_LOCK: &str = "for a spin lock";

/// The beginnings of the names of functions that wait, and the object of the wait.
const WAITS: [(&[&str], &str); 7] = [
    (&["GOMP_critical", "__kmpc_critical"], CRITICAL),
    (
        &[
            "omp_set_lock",
            "omp_set_nest_lock",
            "__kmpc_set_lock",
            "__kmpc_set_nest_lock",
        ],
        "for an OpenMP lock",
    ),
    (
        &[
            "GOMP_ordered_start",
            "GOMP_doacross_wait",
            "__kmpc_ordered",
            "__kmpc_doacross_wait",
        ],
        "for a turn in an ordered section",
    ),
    (
        &[
            "GOMP_taskwait",
            "GOMP_taskgroup_end",
            "__kmpc_omp_taskwait",
            "__kmpc_end_taskgroup",
        ],
        "for tasks to end",
    ),
    (&["pthread_spin_lock"], SPIN_LOCK),
    (
        &["__cxa_guard_acquire"],
        "for the first use of a static variable to be over",
    ),
    (
        &["pthread_once", "__pthread_once", "call_once"],
        "for the routine of pthread_once() to end",
    ),
];

/// The wait of a thread, by the function that the program called.
pub struct Wait<'a> {
    /// The words after `waits` in a sentence: `in MPI_Recv()`, `for a critical section`.
    pub what: String,
    /// Whether the function is one of MPI.
    pub is_mpi: bool,
    /// The call of the program's own code that called it.
    pub own: Option<&'a CallSeen>,
}

/// The wait of a thread, if a function on its stack tells for what.
pub fn wait(thread: &ThreadSeen) -> Option<Wait<'_>> {
    let stack = &thread.stack;
    let own = stack.iter().position(|call| !call.of_system);
    let inner = &stack[..own.unwrap_or(stack.len())];
    let own = own.map(|own| &stack[own]);
    // The outermost is what the program called.
    inner.iter().rev().find_map(|call| {
        let name = call.function.as_deref()?;
        let (what, is_mpi) = match of_mpi(name) {
            Some(name) => (format!("in {name}()"), true),
            None => match own.and_then(|own| own.enters.as_deref()) {
                Some(section) if of_library(name)? == CRITICAL => (
                    format!("for the critical section {}", printable(section)),
                    false,
                ),
                _ => (of_library(name)?.to_owned(), false),
            },
        };
        Some(Wait { what, is_mpi, own })
    })
}

fn of_library(name: &str) -> Option<&'static str> {
    let is = |begins: &&[&str]| begins.iter().any(|begin| name.starts_with(begin));
    let mut all = WAITS.iter();
    all.find(|(begins, _)| is(begins)).map(|(_, what)| *what)
}

/// The function of MPI of this name, if it waits for other ranks.
fn of_mpi(name: &str) -> Option<String> {
    // Open MPI's function goes on there by a jump, and so is on no stack.
    if name == "ompi_mpi_finalize" {
        return Some("MPI_Finalize".into());
    }
    let of_fortran = name.trim_start_matches('p').strip_prefix("mpi_");
    let name = match of_fortran {
        Some(of_fortran) => format!("MPI_{}", of_fortran.trim_end_matches('_')),
        None => name
            .trim_start_matches('P')
            .trim_end_matches('_')
            .to_owned(),
    };
    // Open MPI's functions for the module mpi_f08.
    let name = ["_f08ts", "_f08"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .map_or(name.clone(), str::to_owned);
    let waits = AT_ONCE.iter().all(|other| !name.starts_with(other));
    (name.starts_with("MPI_") && waits).then_some(name)
}
