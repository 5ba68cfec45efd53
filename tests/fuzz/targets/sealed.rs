//! A recording whose checksums fit, whatever is in its batches → a report, or one line that says
//! why not. The target `recording` stops at the first batch that was changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sbt::record::{self, seal};

fuzz_target!(|bytes: &[u8]| {
    match record::report(&sbt_fuzz::file(&seal::renewed(bytes))) {
        Ok(report) => drop(serde_json::to_string(&report).expect("a report can be written")),
        Err(error) => assert!(!format!("{error:#}").contains('\n'), "{error:#}"),
    }
});
