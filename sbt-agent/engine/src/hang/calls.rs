//! Functions of MPI in which ranks wait, by the stacks.

use super::{names::View, scene::CallSeen};

/// Functions of MPI that do not wait for other ranks.
const AT_ONCE: [&str; 5] = [
    "MPI_Init",
    "MPI_Wtime",
    "MPI_Isend",
    "MPI_Irecv",
    "MPI_Test",
];

/// The function of MPI in which a thread waits, and the call of the program's own code that called
/// it.
pub fn wait<'a>(view: &View<'a>, thread: usize) -> Option<(String, Option<&'a CallSeen>)> {
    let stack = &view.thread(thread).stack;
    let own = stack.iter().position(|call| !call.of_system);
    let inner = &stack[..own.unwrap_or(stack.len())];
    // The outermost is what the program called.
    let name = inner.iter().rev().find_map(|call| {
        let name = call.function.as_deref()?;
        let bare = name.trim_start_matches('P').trim_end_matches('_');
        if let Some(of_fortran) = name.trim_start_matches('p').strip_prefix("mpi_") {
            let of_fortran = of_fortran.trim_end_matches('_');
            return Some(format!("MPI_{of_fortran}"));
        }
        bare.starts_with("MPI_").then(|| bare.to_owned())
    })?;
    let is_wait = AT_ONCE.iter().all(|other| !name.starts_with(other));
    is_wait.then(|| (name, own.map(|own| &stack[own])))
}
