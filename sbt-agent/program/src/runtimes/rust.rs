//! Rust: `std::sync::Barrier` waits in `Barrier::wait` (library/std/src/sync/barrier.rs), which is
//! compiled with the library and never inlined. Where the number of threads lies in the object is
//! the compiler's choice: the offset is read from the comparison with the number.
//!
//! A stripped program has no such symbol. Of Rust's locks in memory nothing is read.

use memchr::memmem;
use sbt_common::layout;
use sbt_engine::event::Kind;

use super::{
    Role, Runtime,
    language::{Language, NEVER_INLINED, of_first_argument},
    waits::Wants,
};
use crate::{
    arch::{self, patterns},
    elf::Code,
    point::{Function, Point},
};

/// Departures are told by the return of the function.
pub static RUNTIME: Runtime = Runtime {
    name: "Rust",
    kind: Kind::Rust,
    role: Role::Language,
    barriers: Some("the barriers of Rust"),
    layouts: &[layout::RUST],
    is_library: false,
    libraries: &[],
    ways: &[],
    prefix: None,
    object: None,
    rounds: None,
    language: Some(Language {
        part: b"barrier",
        is_named,
        points,
        inlined_calls: &[],
        inlined_with: (b"", b""),
        inlined: NEVER_INLINED,
    }),
    is_barrier: |name, _| {
        name.ends_with("sync::barrier::Barrier>::wait")
            || name.ends_with("sync::barrier::Barrier::wait")
    },
    waits,
};

fn is_named(name: &[u8]) -> bool {
    name.starts_with(b"_ZN3std4sync7barrier7Barrier4wait17h")
        || name.starts_with(b"_RNv")
            && memmem::find(name, b"3std4sync7barrier").is_some()
            && name.ends_with(b"7Barrier4wait")
}

fn points(_name: &str, code: &Code<'_>, start: u64) -> Vec<Point> {
    let count = patterns::count_of_rust(&arch::Code::new(start, code.bytes));
    let symbol = "std::sync::Barrier::wait";
    let point = |function| Point::of_function(function, symbol, code, layout::RUST);
    let enters = of_first_argument(count.unwrap_or_default().into(), count.is_some());
    let (enters, leaves) = (point(enters), point(Function::TeamEnd));
    enters.into_iter().chain(leaves).collect()
}

/// What a function of Rust's library waits for besides barriers.
fn waits(name: &str) -> Option<Wants> {
    if !name.contains("std::s") {
        return None;
    }
    let has = |part: &str| name.contains(part);
    if has("condvar::") || has("Condvar::") {
        Some(Wants::RustCondvar)
    } else if has("rwlock::") || has("RwLock") {
        Some(Wants::RustRwLock {
            writes: has("write"),
        })
    } else if has("mutex::") || has("Mutex") {
        Some(Wants::RustMutex)
    } else {
        None
    }
}
