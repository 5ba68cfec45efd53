//! Threads that a runtime of OpenMP keeps for the next parallel region.

use std::collections::HashSet;

use super::scene::{CallSeen, Doing, Scene, ThreadSeen, WaitFor};
use crate::place::short;

/// Functions of the runtimes in which the thread that began a parallel region waits for its end.
pub const ENDS: [&str; 6] = [
    "GOMP_parallel",
    "GOMP_teams",
    "__kmpc_fork_call",
    "__kmpc_end_serialized_parallel",
    "__kmpc_fork_teams",
    "GOMP_task_reductions",
];

/// How the file names of the runtimes of OpenMP begin. Copies in wheels of Python are called `libgomp-a34b3233.so.1`.
const LIBRARIES: [&str; 4] = ["libgomp", "libomp.", "libomp-", "libiomp5"];

/// For each thread of a scene, by index: whether a runtime of OpenMP keeps it for the next parallel region.
pub fn idle(scene: &Scene) -> Vec<bool> {
    let between = between_regions(scene);
    let all = scene.threads.iter();
    all.map(|thread| {
        let is_first = thread.id.process == thread.id.thread;
        is_idle(scene, thread) && !is_first && between.contains(&thread.id.process)
    })
    .collect()
}

fn is_idle(scene: &Scene, thread: &ThreadSeen) -> bool {
    let sleeps = matches!(
        thread.doing,
        Doing::Waiting(WaitFor::Futex { .. } | WaitFor::Condvar { .. })
    );
    let of_openmp = |call: &CallSeen| {
        let file = short(&call.binary);
        // Plug-ins for other processors have names of their own.
        LIBRARIES.iter().any(|begin| file.starts_with(begin)) && !file.contains("plugin")
    };
    let mut barriers = scene.barriers.iter();
    let in_runtime = thread.stack.iter().any(of_openmp);
    let of_system = thread.stack.iter().all(|call| call.of_system);
    let is_kept = sleeps && !thread.timed && in_runtime && of_system;
    is_kept && !barriers.any(|barrier| barrier.waiting.contains(&thread.id))
}

/// The processes of which it is known that no thread is in a parallel region: the calls of all threads are
/// known, and none has begun a region.
fn between_regions(scene: &Scene) -> HashSet<u32> {
    let alive = || {
        let threads = scene.threads.iter();
        threads.filter(|thread| thread.doing != Doing::Ended)
    };
    let begins = |call: &CallSeen| {
        let name = call.function.as_deref().unwrap_or_default();
        ENDS.iter().any(|begin| name.starts_with(begin))
    };
    let in_region = |thread: &&ThreadSeen| !thread.is_whole || thread.stack.iter().any(begins);
    let mut all: HashSet<u32> = alive().map(|thread| thread.id.process).collect();
    for thread in alive().filter(in_region) {
        all.remove(&thread.id.process);
    }
    all
}
