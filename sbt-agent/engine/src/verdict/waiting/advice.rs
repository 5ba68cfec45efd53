//! The advice for waits: what the user may change.

use crate::report::{WaitKind, waits::WaitPlaceReport};

/// Whether threads wait there for their turn in an `omp ordered` part.
pub(super) fn is_ordered(place: &WaitPlaceReport) -> bool {
    let call = place.call.as_deref().unwrap_or_default();
    call.contains("_ordered")
}

/// The advice for a place.
pub(super) fn advice_at(place: &WaitPlaceReport) -> &'static str {
    if is_ordered(place) {
        return "Only one thread at a time passes the ordered part: do less in it";
    }
    advice(place.kind)
}

/// The advice for waits of a kind.
pub(super) const fn advice(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Sleep => "Remove that sleep unless it keeps a rate, or wait for the event itself",
        WaitKind::Io => "Read ahead, write behind, or do it in a thread of its own",
        WaitKind::Fault => {
            "Touch that memory or file before (MAP_POPULATE, madvise), or let it fit into memory"
        }
        WaitKind::Child => "Start that process earlier, or wait for it in a thread of its own",
        WaitKind::Poll => "Wait for that in a thread of its own, beside the work",
        WaitKind::Condvar | WaitKind::Semaphore => {
            "Let the thread that wakes them do so earlier, or divide its work among more threads"
        }
        WaitKind::Critical => {
            "Do less in it, or use a reduction, `omp atomic` or critical sections with different \
             names"
        }
        WaitKind::Allocator => {
            "Allocate before the parallel part, use memory again, or link an allocator made for \
             threads (jemalloc, tcmalloc, mimalloc)"
        }
        WaitKind::Interpreter => {
            "Use processes instead of threads, or libraries that release the lock while they \
             compute"
        }
        WaitKind::Monitor => {
            "`jstack PID` names them while it runs: hold them for a shorter time, or give each thread data \
             of its own"
        }
        _ => "Hold it for a shorter time, or give each thread data of its own",
    }
}
