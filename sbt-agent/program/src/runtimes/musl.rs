//! musl: `pthread_barrier_wait`. `elf/layout.rs` tells whether a file is of musl, and finds the
//! functions by their names.
//!
//! A barrier's memory does not count rounds. Of other objects of musl nothing is read.

use sbt_common::layout;
use sbt_engine::event::Kind;

use super::{
    Object, Role, Runtime,
    waits::{NO_BARRIER, of_c_library},
};

/// Departures are told by the return of the function.
pub static RUNTIME: Runtime = Runtime {
    name: "musl",
    kind: Kind::Pthread,
    role: Role::CLibrary,
    barriers: None,
    layouts: &[layout::MUSL],
    is_library: true,
    libraries: &["libc.so", "libc.musl", "ld-"],
    ways: &[],
    prefix: None,
    object: Some(|[_, _, limit, _]| Object {
        count: (limit & 0x7fff_ffff) + 1,
        shared: limit >> 31 != 0,
        ..Object::default()
    }),
    rounds: None,
    language: None,
    is_barrier: NO_BARRIER,
    waits: of_c_library,
};
