//! Records of the ring → events → model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sbt::source::ebpf::{
    decode::{Decoder, Start},
    raw::Raw,
};
use sbt_engine::model::Model;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::new(Start::default());
    let mut model = Model::new(0, true);
    let mut events = Vec::new();
    let mut rest = bytes;
    while let [length, more @ ..] = rest {
        let (record, more) = more.split_at(usize::from(*length).min(more.len()));
        rest = more;
        if let Some(raw) = Raw::parse(record) {
            decoder.decode(&raw, &mut events);
        }
    }
    for event in &events {
        model.push(event);
    }
    model.finish();
});
