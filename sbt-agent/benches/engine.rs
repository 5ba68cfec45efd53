//! Events a second through decoder and model, on one core, from synthetic
//! records: `engine [MILLIONS]`. Prints one line of JSON a case.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a benchmark that cannot go on should stop; its numbers are small"
)]

use std::time::Instant;

use sbt::{
    model::Model,
    source::ebpf::decode::{Decoder, Raw, Start},
};
use sbt_common::{Arrive, Clocks, Depart, Head, Memory, Thread, kind, layout};

fn main() {
    let millions: u64 = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(4);
    for (threads, sites) in [
        (2, 1),
        (8, 1),
        (8, 64),
        (64, 64),
        (256, 64),
        (1024, 1),
        (8, 1000),
    ] {
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            best = best.min(run(threads, sites, millions * 1_000_000));
        }
        println!(
            "{{\"threads\":{threads},\"sites\":{sites},\"ns_per_event\":{best:.1},\"million_per_second\":{:.2},\"rss_mib\":{:.1}}}",
            1e3 / best,
            rss_mib(),
        );
    }
}

fn rss_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096.0 / f64::from(1 << 20)
}

fn head(kind: u8, tid: u32) -> Head {
    Head {
        kind,
        layout: layout::GLIBC,
        reserved: 0,
        tid,
    }
}

fn clocks(time_ns: u64) -> Clocks {
    Clocks {
        time_ns,
        run_ns: time_ns / 2,
        delay_ns: time_ns / 4,
    }
}

/// The bytes of a record as they would lie in the ring.
fn bytes<T>(record: &T) -> &[u8] {
    // SAFETY: the records are plain integers without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<T>()) }
}

/// Time of one event, ns: `threads` threads use one barrier from `sites`
/// places in turn, until there were so many events.
fn run(threads: u32, sites: u64, events: u64) -> f64 {
    let mut decoder = Decoder::new(Start {
        run_offset: Some(0),
        ..Start::default()
    });
    let mut model = Model::new(0, true);
    let mut seqs = vec![0_u32; threads as usize];
    let mut time_ns = 1_000;
    let mut batch = Vec::new();
    let mut feed = |record: &[u8], model: &mut Model| {
        let raw = Raw::parse(record).unwrap();
        decoder.decode(&raw, &mut batch);
        for event in batch.drain(..) {
            model.push(&event);
        }
    };
    for tid in 1..=threads {
        let thread = Thread {
            head: head(kind::THREAD, tid),
            clocks: clocks(time_ns),
            ns_tid: tid,
            ns_tgid: 1,
            ..Thread::default()
        };
        feed(bytes(&thread), &mut model);
    }
    let mut next = |tid: u32| {
        let seq = &mut seqs[tid as usize - 1];
        *seq += 1;
        *seq - 1
    };
    let memory = Memory {
        head: head(kind::MEMORY, 1),
        time_ns,
        object: 0x1000,
        seq: next(1),
        count: threads,
        round: 0,
        arrived: 0,
    };
    feed(bytes(&memory), &mut model);

    let start = Instant::now();
    let mut done = 0;
    let mut episode = 0;
    while done < events {
        for index in 0..threads {
            let tid = (index + episode as u32) % threads + 1;
            time_ns += 100;
            let record = Arrive {
                head: head(kind::ARRIVE, tid),
                clocks: clocks(time_ns),
                object: 0x1000,
                caller: 0x40_0000 + 0x10 * (episode % sites),
                seq: next(tid),
                reserved: 0,
            };
            feed(bytes(&record), &mut model);
        }
        for tid in 1..=threads {
            time_ns += 50;
            let record = Depart {
                head: head(kind::DEPART, tid),
                clocks: clocks(time_ns),
                seq: next(tid),
                reserved: 0,
            };
            feed(bytes(&record), &mut model);
        }
        done += 2 * u64::from(threads);
        episode += 1;
    }
    let elapsed = start.elapsed();
    assert_eq!(model.totals().episodes, episode);
    elapsed.as_nanos() as f64 / done as f64
}
