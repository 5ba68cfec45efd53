//! A program's debug information → functions, lines, parameters, and what was inlined.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sbt_program::{debuginfo::DebugInfo, elf};

fuzz_target!(|bytes: &[u8]| {
    let path = sbt_fuzz::file(bytes);
    let Ok(info) = DebugInfo::open(&path, Path::new("program"), Path::new("/")) else {
        return;
    };
    let Ok(segments) = elf::load_segments(bytes) else {
        return;
    };
    for segment in segments.iter().take(4) {
        for at in 0..64 {
            let frames = info.frames(segment.vaddr.wrapping_add(at * 16));
            for frame in &frames {
                let texts = [&frame.function, &frame.file];
                for text in texts.into_iter().flatten() {
                    assert!(!text.contains(char::is_control), "{text:?}");
                }
            }
            let is_inlined = frames.iter().rev().skip(1).all(|frame| frame.inlined);
            assert!(is_inlined, "{frames:?}");
        }
    }
    for name in ["main", "work", "pthread_barrier_wait", "Space::step"] {
        for symbol in info.functions(name).unwrap_or_default() {
            let _pointer = info.first_is_pointer(symbol.start);
            let _register = info.register(symbol.start, 1);
        }
        let _line = info.inlined(name);
    }
    info.inlined_places(&["inner", "step"], |_, code| assert!(!code.is_empty()));
    for file in info.files(1).iter().take(4) {
        drop(info.line(file, 3));
    }
    drop(info.line("", 7));
});
