//! The thread that reads the rings at its own pace; events do not wake it.

use std::{
    io::PipeReader,
    os::fd::AsRawFd as _,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use sbt_common::Mpi;
use tokio::sync::mpsc::error::TrySendError;

use super::{
    decode::{Decoder, Start},
    raw::Raw,
    ring::Rings,
    sleeps::Samples,
};
use crate::source::{BATCH, Batch, Sink};
use sbt_program::clock;

/// Chooses the pause between two passes over the rings by how much the last passes found. A BPF
/// program that fills a ring to a quarter meanwhile ends the pause early.
#[derive(Default)]
struct Pace {
    /// `calm`: passes in a row that found less than 64 KiB; `silent`: passes in a row that found
    /// nothing.
    calm: u32,
    silent: u32,
}

impl Pace {
    fn next(&mut self, bytes: usize) -> Duration {
        let count = |passes: u32, goes_on| if goes_on { passes.saturating_add(1) } else { 0 };
        self.calm = count(self.calm, bytes < 65_536);
        self.silent = count(self.silent, bytes == 0);
        // Each pass wakes two threads, which costs more than reading a few records.
        Duration::from_millis(match (self.calm, self.silent) {
            (0, _) => 5,
            // The first second after a flood is read often: a burst may be short.
            (..=50, _) => 20,
            (_, ..=50) => 40,
            _ => 100,
        })
    }
}

/// Reads the rings until the writing end of `stop` is closed, then what is left. Closes the sink by
/// dropping it. Calls `teach` once with the place of Open MPI's communicator numbers, when this is
/// known. Hands samples of sleeps on to `samples`. Stores in `no_events` how many of the lost records are known to be no events. Returns the
/// rings and the decoder.
pub fn run(
    mut rings: Rings,
    start: Start,
    sink: &Sink,
    stop: &PipeReader,
    (no_events, samples): (&AtomicU64, &Samples),
    teach: impl FnOnce(Mpi),
) -> (Rings, Decoder) {
    let mut decoder = Decoder::new(start);
    let mut teach = Some(teach);
    let mut raws: Vec<Raw> = Vec::new();
    let mut pace = Pace::default();
    let mut batch = Batch::new();
    let mut last = false;
    loop {
        let bytes = rings.drain(clock::now_ns(), &mut raws);
        if last {
            rings.drain_rest(&mut raws);
        }
        decoder.choose(clock::now_ns());
        pass_on(&raws, sink, (&mut batch, last), |chunk, batch| {
            for raw in chunk {
                if !samples.take(raw) {
                    decoder.decode(raw, batch);
                }
            }
            if let Some(mpi) = decoder.mpi()
                && let Some(teach) = teach.take()
            {
                teach(mpi);
            }
        });
        no_events.store(decoder.lost_readings(), Ordering::Relaxed);
        raws.clear();
        raws.shrink_to(4 * BATCH);
        if last {
            return (rings, decoder);
        }
        last = sleep(&rings, pace.next(bytes), stop);
    }
}

/// Decodes the records of one pass, and sends the events batch by batch; also those that found no room
/// in the pass before, although no record may follow.
fn pass_on(
    raws: &[Raw],
    sink: &Sink,
    (batch, last): (&mut Batch, bool),
    mut decode: impl FnMut(&[Raw], &mut Batch),
) {
    for chunk in raws.chunks(BATCH) {
        decode(chunk, batch);
        hand_over(sink, batch, last);
    }
    hand_over(sink, batch, last);
}

/// Sends the batch. If the queue is full, a small batch is kept and grows instead of blocking:
/// blocking would delay reading what records point to in the target's memory.
pub fn hand_over(sink: &Sink, batch: &mut Batch, last: bool) {
    hand_over_above(BATCH, sink, batch, last);
}

/// As [`hand_over`]: with a full queue, a batch of fewer than `most` events is kept.
pub fn hand_over_above(most: usize, sink: &Sink, batch: &mut Batch, last: bool) {
    if batch.is_empty() {
        return;
    }
    match sink.try_send(std::mem::take(batch)) {
        Err(TrySendError::Full(small)) if small.len() < most && !last => *batch = small,
        // Fails only if the reader is gone; then nobody needs the batch.
        Err(TrySendError::Full(all)) => drop(sink.blocking_send(all)),
        Ok(()) | Err(TrySendError::Closed(_)) => {}
    }
}

/// Sleeps until `time` is over, a ring asks to be read, or `stop` closes. Returns whether `stop`
/// has closed.
fn sleep(rings: &Rings, time: Duration, stop: &PipeReader) -> bool {
    let poll = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let fds = std::iter::once(stop.as_raw_fd()).chain(rings.descriptors());
    let mut polls: Vec<libc::pollfd> = fds.map(poll).collect();
    let count = polls.len() as libc::nfds_t;
    let millis = i32::try_from(time.as_millis()).unwrap_or(100);
    // SAFETY: `polls` is an array of `count` initialised elements. An error
    // (a signal) only ends the sleep early.
    let told = unsafe { libc::poll(polls.as_mut_ptr(), count, millis) };
    told > 0 && polls[0].revents != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_less_is_found_the_rarer_are_the_passes() {
        let mut pace = Pace::default();
        let mut after = |bytes, passes: u32| {
            let times: Vec<_> = (0..passes).map(|_| pace.next(bytes).as_millis()).collect();
            *times.last().unwrap()
        };
        assert_eq!(after(100, 1), 20);
        assert_eq!(after(100, 50), 40);
        assert_eq!(after(0, 50), 40);
        assert_eq!(after(0, 1), 100);
        assert_eq!(after(100, 1), 40);
        assert_eq!(after(65_536, 1), 5);
        assert_eq!(after(100, 1), 20);
    }

    #[test]
    fn what_finds_no_room_is_put_together() {
        let (sink, mut reader) = tokio::sync::mpsc::channel(1);
        let gap = |time_ns| sbt_engine::event::Event::Gap { time_ns };
        let mut batch = vec![gap(1)];
        hand_over(&sink, &mut batch, false);
        assert_eq!(batch, []);
        batch.push(gap(2));
        hand_over(&sink, &mut batch, false);
        batch.push(gap(3));
        hand_over(&sink, &mut batch, false);
        assert_eq!(batch, [gap(2), gap(3)]);
        assert_eq!(reader.try_recv().unwrap(), [gap(1)]);
        // Nothing more has happened.
        pass_on(&[], &sink, (&mut batch, false), |_, _| {});
        assert_eq!(reader.try_recv().unwrap(), [gap(2), gap(3)]);
        batch.extend([gap(2), gap(3)]);
        hand_over(&sink, &mut batch, true);
        assert_eq!(reader.try_recv().unwrap(), [gap(2), gap(3)]);
        // The reader is gone.
        drop(reader);
        batch.push(gap(4));
        hand_over(&sink, &mut batch, true);
        assert_eq!(batch, []);
    }
}
