//! A program's `.eh_frame` and its code → who calls what, and how to get to the caller.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use sbt_program::{files::ProbedFile, walks};

fuzz_target!(|bytes: &[u8]| {
    let path = sbt_fuzz::file(bytes);
    let Ok(file) = ProbedFile::open(&path, Path::new("program")) else {
        return;
    };
    drop(walks::of_program(&Arc::new(file), 64));
});
