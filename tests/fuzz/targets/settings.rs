//! A `sbt.toml` → settings, or one line that says why not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sbt::settings;

fuzz_target!(|text: &str| {
    if let Err(error) = settings::check_file("sbt.toml", text) {
        assert!(!error.contains(['\n', '\x1b']), "{error:?}");
    }
});
