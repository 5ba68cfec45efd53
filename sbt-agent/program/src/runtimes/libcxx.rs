//! libc++: it counts a thread in an exported function, `__arrive_barrier_algorithm_base`
//! (libcxx/src/barrier.cpp). Its argument points to an object that begins with the address of the
//! number of threads, the first word of the barrier.

use memchr::memmem;
use sbt_common::layout;
use sbt_engine::event::Kind;

use super::{
    Role, Runtime,
    language::{Language, NEVER_INLINED, of_first_argument},
    libstdcxx::is_barrier,
    waits::NO_WAITS,
};
use crate::point::Point;

/// Departures are not watched: release times are unknown.
pub static RUNTIME: Runtime = Runtime {
    name: "libc++",
    kind: Kind::Std,
    role: Role::Language,
    barriers: Some("std::barrier"),
    layouts: &[layout::STD_POINTED],
    is_library: true,
    libraries: &["libc++"],
    ways: &[],
    prefix: None,
    object: None,
    rounds: None,
    language: Some(Language {
        part: b"barrier",
        is_named: |name| {
            let part = b"31__arrive_barrier_algorithm_baseE";
            name.starts_with(b"_ZNSt") && memmem::find(name, part).is_some()
        },
        // Programs import the function by its mangled name.
        points: |name, code, _| {
            let arrives = of_first_argument(0, true);
            let point = Point::of_function(arrives, name, code, layout::STD_POINTED);
            point.into_iter().collect()
        },
        inlined_calls: &[],
        inlined_with: (b"", b""),
        inlined: NEVER_INLINED,
    }),
    is_barrier,
    waits: NO_WAITS,
};
