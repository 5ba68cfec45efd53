//! A report in JSON → text, or one line that says why not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sbt::{
    record,
    show::{table::Style, text},
};

const STYLE: Style = Style {
    width: 80,
    color: false,
    unicode: true,
};

fuzz_target!(|bytes: &[u8]| {
    if !bytes.starts_with(b"{") {
        return;
    }
    match record::report(&sbt_fuzz::file(bytes)) {
        Ok(report) => {
            let shown = text::with(&report, STYLE, true);
            assert!(!shown.contains('\x1b'), "{shown:?}");
        }
        Err(error) => assert!(!format!("{error:#}").contains('\n'), "{error:#}"),
    }
});
