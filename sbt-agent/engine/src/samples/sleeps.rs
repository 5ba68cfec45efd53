//! Places where threads sleep.

use super::MS;
use crate::report::{
    WaitKind,
    waits::{HolderReport, LooksReport, PairReport, SumsReport, WaitPlaceReport, WaitThreadReport},
};

/// What was seen of sleeping threads: a lock that all wait for, and a thread that reads.
pub(super) fn looks() -> LooksReport {
    LooksReport {
        looks: 300,
        span_ns: 12_000 * MS,
        cpu_ns: 30 * MS,
        thread_looks: 1200,
        threads: Vec::new(),
        places: vec![
            WaitPlaceReport {
                threads: vec![thread("T1", 9.0), thread("T2", 8.0), thread("T3", 1.0)],
                holders: vec![HolderReport {
                    label: "T3".into(),
                    tid: 4243,
                    looks: 44,
                    share_pct: 91.0,
                    kept_ns: Some(480 * MS),
                    locks_at: Some("push queue.c:88".into()),
                    asleep_looks: 0,
                    asleep_in: None,
                }],
                objects: 1,
                ..place(WaitKind::Mutex, "pthread_mutex_lock", "push queue.c:88")
            },
            WaitPlaceReport {
                what: Some("/data/matrix.bin".into()),
                threads: vec![thread("T0", 4.0)],
                ..place(WaitKind::Io, "read", "load_block io.c:41")
            },
        ],
        pairs: vec![
            pair(("T1", 4241), ("T3", 4243), 1080 * MS),
            pair(("T2", 4242), ("T3", 4243), 960 * MS),
        ],
        sums: Some(SumsReport {
            watched_ns: 12_000 * MS,
            span_ns: 12_000 * MS,
            sleeps: 2210,
            unplaced_ns: 0,
            missed: 0,
        }),
    }
}

fn thread(label: &str, share_pct: f64) -> WaitThreadReport {
    WaitThreadReport {
        label: label.into(),
        tid: 4241,
        looks: 20,
        share_pct,
        slept_ns: Some(100 * MS),
    }
}

fn pair(waiter: (&str, u32), waker: (&str, u32), slept_ns: u64) -> PairReport {
    PairReport {
        waiter: waiter.0.into(),
        waiter_tid: waiter.1,
        waker: waker.0.into(),
        waker_tid: waker.1,
        slept_ns,
        share_pct: slept_ns as f64 / (12_000 * MS) as f64 * 100.0,
        kind: WaitKind::Mutex,
        at: "the mutex locked at push queue.c:88".into(),
    }
}

fn place(kind: WaitKind, call: &str, at: &str) -> WaitPlaceReport {
    let (function, line) = at.split_once(' ').unwrap_or((at, ""));
    WaitPlaceReport {
        kind,
        call: Some(call.into()),
        what: None,
        place: at.into(),
        function: Some(function.into()),
        file: line.split(':').next().map(Into::into),
        line: line.rsplit(':').next().and_then(|line| line.parse().ok()),
        callers: Vec::new(),
        in_library: false,
        in_barrier: false,
        looks: 60,
        share_pct: 5.0,
        sleeps: Some(1100),
        slept_ns: Some(2400 * MS),
        threads: Vec::new(),
        objects: 0,
        object: None,
        awaited: Vec::new(),
        holders: Vec::new(),
        wakers: Vec::new(),
    }
}
