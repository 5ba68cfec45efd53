//! Events a second through decoder and model, on one core, from synthetic
//! records: `engine [MILLIONS]`. Prints one line of JSON a case. And how much
//! memory that takes as the run goes on: `engine memory THREADS SITES MILLIONS`
//! prints a line after the first million and one at the end.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a benchmark that cannot go on should stop; its numbers are small"
)]

use std::time::Instant;

use sbt::source::ebpf::{
    decode::{Decoder, Start},
    raw::Raw,
};
use sbt_common::{Arrive, Clocks, Depart, Head, Memory, Thread, kind, layout};
use sbt_engine::model::Model;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments
        .iter()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    if arguments.iter().any(|argument| argument == "memory") {
        return memory(numbers[0] as u32, numbers[1], numbers[2]);
    }
    let millions = numbers.first().copied().unwrap_or(4);
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
            best = best.min(run(threads, sites, millions * 1_000_000, |_| {}));
        }
        println!(
            "{{\"threads\":{threads},\"sites\":{sites},\"ns_per_event\":{best:.1},\"million_per_second\":{:.2},\"rss_mib\":{:.1}}}",
            1e3 / best,
            rss_mib(),
        );
    }
}

/// Prints the resident memory after one million events and at the end.
fn memory(threads: u32, sites: u64, millions: u64) {
    let mut said = false;
    run(threads, sites, millions * 1_000_000, |events| {
        if (events >= 1_000_000 && !said) || events >= millions * 1_000_000 {
            said = true;
            println!("{{\"events\":{events},\"rss_mib\":{:.2}}}", rss_mib());
        }
    });
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
        detail: 0,
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

/// Numbers without a pattern (xorshift; Marsaglia, J. Stat. Softw. 8(14), 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A time as programs show them: around `ns`, some of them much longer.
    fn about(&mut self, ns: u64) -> u64 {
        let long = if self.next().is_multiple_of(100) {
            20
        } else {
            1
        };
        ns / 2 + self.next() % (ns * long)
    }
}

/// Time of one event, ns: `threads` threads use one barrier from `sites`
/// places in turn, until there were so many events. `look` is called with the
/// number of events after every episode.
fn run(threads: u32, sites: u64, events: u64, mut look: impl FnMut(u64)) -> f64 {
    let mut random = Random(88_172_645_463_325_252);
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
            time_ns += random.about(100);
            let record = Arrive {
                head: head(kind::ARRIVE, tid),
                clocks: clocks(time_ns),
                object: 0x1000,
                caller: 0x40_0000 + 0x10 * (episode % sites),
                seq: next(tid),
                epoch: 1,
            };
            feed(bytes(&record), &mut model);
        }
        for tid in 1..=threads {
            time_ns += random.about(50);
            let record = Depart {
                head: head(kind::DEPART, tid),
                clocks: clocks(time_ns),
                seq: next(tid),
                mark: 0,
            };
            feed(bytes(&record), &mut model);
        }
        done += 2 * u64::from(threads);
        episode += 1;
        look(done);
    }
    let elapsed = start.elapsed();
    assert_eq!(model.totals().episodes, episode);
    elapsed.as_nanos() as f64 / done as f64
}
