//! The calls that a thread is in, with the functions inlined into them, as they are told.

use sbt_engine::{
    hang::scene::{CallSeen, MessageSeen},
    place::Frame,
};
use sbt_program::{
    runtimes::mpi::messages,
    sites::{CallAt, Called},
};

/// Whether a function came with the compiler: by its file, or by its name if the file is not known.
pub(super) fn is_of_library(frame: &Frame) -> bool {
    const NAMES: [&str; 7] = [
        "std::",
        "core::",
        "alloc::",
        "<std::",
        "<core::",
        "<alloc::",
        "__gnu_cxx::",
    ];
    let name = frame.function.as_deref().unwrap_or_default();
    frame.is_of_library()
        || frame.file.is_none() && NAMES.iter().any(|prefix| name.starts_with(prefix))
}

/// The function of a library that a call of the program's own code has called.
pub(super) fn called_function(inner: &CallAt, call: &CallAt) -> Option<CallSeen> {
    let name = call.called.calls.as_deref()?;
    let is_call = inner.called.is_system && !call.called.is_system;
    is_call.then(|| CallSeen {
        function: Some(name.to_owned()),
        binary: inner.called.binary.clone(),
        offset: inner.called.offset,
        of_system: true,
        ..CallSeen::default()
    })
}

/// The [`called_function`], if the call `inner` that it has led to has no name: libraries go on by
/// jumps, or have no names for their inner functions.
fn called_library(inner: Option<&CallAt>, call: &CallAt) -> Option<CallSeen> {
    let inner = inner?;
    let mut frames = inner.called.frames.iter();
    let is_named = frames.any(|frame| frame.function.is_some());
    (!is_named).then(|| called_function(inner, call)).flatten()
}

/// The calls with the functions inlined into them, and their messages of MPI if it is given whose they
/// are.
pub(super) fn told(calls: &[CallAt], process: Option<u32>) -> Vec<CallSeen> {
    let mut told = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let inner = at.checked_sub(1).map(|at| &calls[at]);
        told.extend(called_library(inner, call));
        told.extend(told_of(call, process));
    }
    told
}

/// A call with the functions inlined into it.
pub(super) fn told_of(call: &CallAt, process: Option<u32>) -> Vec<CallSeen> {
    let called = &call.called;
    let of_message = process.filter(|_| !called.is_of_section());
    let awaited = of_message.and_then(|process| messages::awaited(process, &call.given));
    let message = awaited.map(|awaited| MessageSeen {
        rank: awaited.rank,
        is_of_world: awaited.is_of_world,
        tag: awaited.tag,
        of_all: awaited.of_all,
    });
    let unnamed = CallSeen {
        binary: called.binary.clone(),
        offset: called.offset,
        begins: called.begins,
        enters: called.section(process, &call.given),
        message,
        of_system: called.is_system,
        calls_back: called.calls_back,
        after_signal: call.after_signal,
        ..CallSeen::default()
    };
    if called.frames.is_empty() {
        return vec![unnamed];
    }
    let frames = called.frames.iter().map(|frame| CallSeen {
        function: frame.function.clone(),
        file: frame.file.clone(),
        line: frame.line,
        of_system: called.is_system || is_of_library(frame),
        ..unnamed.clone()
    });
    frames.collect()
}

/// Whether a call is of library code only.
pub(super) fn is_library(called: &Called) -> bool {
    let frames = &called.frames;
    called.is_system || !frames.is_empty() && frames.iter().all(is_of_library)
}
