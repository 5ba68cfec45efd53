//! A program's file: its barriers, its symbols and lines, and how its functions are left.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sbt_program::{debuginfo::DebugInfo, elf, files::ProbedFile, wanted::Wanted};

fuzz_target!(|bytes: &[u8]| {
    let path = sbt_fuzz::file(bytes);
    let shown = Path::new("program");
    let Ok(mut file) = ProbedFile::open(&path, shown) else {
        return;
    };
    file.look_for(&Wanted::default(), Path::new("/"));
    let _interpreter = elf::interpreter(bytes);
    let Ok(info) = DebugInfo::open(&path, shown, Path::new("/")) else {
        return;
    };
    let Ok(segments) = elf::load_segments(bytes) else {
        return;
    };
    for segment in segments.iter().take(8) {
        for at in 0..64 {
            let address = segment.vaddr.wrapping_add(at * 16);
            drop(info.frames(address));
            let _start = info.function_start(address);
        }
    }
    drop(info.functions("main"));
    drop(info.line("main.c", 3));
});
