//! A recording → a report, or one line that says why not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sbt::record;

fuzz_target!(|bytes: &[u8]| {
    match record::report(&sbt_fuzz::file(bytes)) {
        Ok(report) => drop(serde_json::to_string(&report).expect("a report can be written")),
        Err(error) => assert!(!format!("{error:#}").contains('\n'), "{error:#}"),
    }
});
