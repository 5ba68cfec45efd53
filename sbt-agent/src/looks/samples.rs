//! Places of sleeps, by the samples that the kernel takes.

use std::{collections::HashMap, sync::Mutex};

use sbt_common::Asleep;

use super::locked;
use crate::{
    inspect::sleepers::{Sleep, Sleepers},
    source::ebpf::sleeps::Sample,
};
use sbt_engine::looks::{Tally, ThreadId, WaitNumber, sums::Key};

/// The most sampled sleeps whose end is awaited.
const MOST_OPEN: usize = 4096;

/// Sampled sleeps that have not ended.
#[derive(Default)]
pub struct Open(HashMap<u32, (Key, WaitNumber)>);

impl Open {
    /// Takes a sample. `sleepers` may look into its process.
    pub fn take(&mut self, sample: &Sample, sleepers: &mut Sleepers, tally: &Mutex<Tally>) {
        match sample {
            Sample::Asleep(record) => {
                let tid = record.head.tid;
                self.0.remove(&tid);
                if self.0.len() < MOST_OPEN
                    && let Some(known) = place(record, sleepers, tally)
                {
                    // The sleep may not end while sbt watches.
                    locked(tally).sampled(known.0, known.1, 0);
                    self.0.insert(tid, known);
                }
            }
            Sample::Woken(record) => {
                if let Some((key, wait)) = self.0.remove(&record.head.tid) {
                    locked(tally).sampled(key, wait, record.slept_ns);
                }
            }
        }
    }
}

fn place(
    record: &Asleep,
    sleepers: &mut Sleepers,
    tally: &Mutex<Tally>,
) -> Option<(Key, WaitNumber)> {
    let who = ThreadId {
        process: record.process,
        thread: record.head.tid,
    };
    if !sleepers.may(who.process) {
        return None;
    }
    let words = record.stack.iter().take(record.words as usize);
    let top: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
    let sleep = Sleep::of(record.call, record.arguments, record.sp, record.ip);
    let wait = sleepers.sampled(who, sleep, top)?;
    let wait = locked(tally).number(wait)?;
    Some((sleep.key(who), wait))
}
