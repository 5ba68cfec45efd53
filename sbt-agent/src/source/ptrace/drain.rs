//! The thread that reads what the tracing process reports.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::AsFd as _,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::source::{
    BATCH, Batch, Sink,
    ebpf::{
        decode::{Decoder, Start},
        drain::hand_over,
        raw::Raw,
    },
    twin,
};

/// Pause between two reads of records, so that not every record wakes the reader.
const TOGETHER: Duration = Duration::from_millis(10);

/// Whether something can be read, or an end be noticed, within `time`.
fn is_readable(pipe: &File, time: Duration) -> bool {
    let mut polls = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    let millis = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
    // After a signal it may not be readable.
    poll(&mut polls, millis).is_ok_and(|readable| readable > 0)
}

/// Reads records until the other end is closed. Returns a remark for the user, if there is one.
pub fn run(mut pipe: File, start: Start, sink: &Sink, lost: &AtomicU64) -> Option<String> {
    let mut decoder = Decoder::new(start);
    let mut bytes = Vec::new();
    let mut room = vec![0; 1 << 18];
    let mut batch = Batch::new();
    let mut failed = None;
    loop {
        let count = match pipe.read(&mut room) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                failed = Some(format!("events could no longer be read: {error}"));
                break;
            }
        };
        let is_last = count == 0;
        bytes.extend_from_slice(&room[..count]);
        decoder.choose(sbt_program::clock::now_ns());
        let taken = twin::each(&bytes, |record| {
            if let Ok(number) = <[u8; 8]>::try_from(record) {
                lost.store(u64::from_ne_bytes(number), Ordering::Relaxed);
            } else if let Some(raw) = Raw::parse(record) {
                decoder.decode(&raw, &mut batch);
            }
            if batch.len() >= BATCH {
                hand_over(sink, &mut batch, false);
            }
        });
        bytes.drain(..taken);
        hand_over(sink, &mut batch, is_last);
        if is_last {
            break;
        }
        std::thread::sleep(TOGETHER);
        // What found no room must not wait for another record, which may never come.
        while !batch.is_empty() && !is_readable(&pipe, TOGETHER) {
            hand_over(sink, &mut batch, false);
        }
    }
    hand_over(sink, &mut batch, true);
    failed.or_else(|| decoder.note())
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::fd::OwnedFd, time::Instant};

    use sbt_common::{Head, Thread, kind};
    use sbt_engine::event::Event;

    use super::*;
    use crate::source::twin::Records;

    #[test]
    fn what_found_no_room_is_sent_although_nothing_more_happens() {
        let (read, mut write) = io::pipe().unwrap();
        let (sink, mut events) = tokio::sync::mpsc::channel(1);
        sink.try_send(vec![Event::Gap { time_ns: 1 }]).unwrap();
        let reader = std::thread::spawn(move || {
            let pipe = File::from(OwnedFd::from(read));
            run(pipe, Start::default(), &sink, &AtomicU64::new(0))
        });
        let mut records = Records::default();
        records.push(&Thread {
            head: Head {
                kind: kind::THREAD,
                tid: 7,
                ..Head::default()
            },
            start_ns: 50,
            ns_tid: 7,
            ns_tgid: 7,
            ..Thread::default()
        });
        write.write_all(&records.bytes).unwrap();
        // Until it has found no room. If it comes later, it has room, and this shows nothing.
        std::thread::sleep(5 * TOGETHER);
        assert_eq!(events.try_recv().unwrap(), [Event::Gap { time_ns: 1 }]);
        let begun = Instant::now();
        let sent = loop {
            if let Ok(sent) = events.try_recv() {
                break sent;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "it is kept");
            std::thread::sleep(TOGETHER);
        };
        assert!(matches!(sent[..], [Event::Thread { .. }]), "{sent:?}");
        drop(write);
        assert_eq!(reader.join().unwrap(), None);
    }
}
