//! Writes on a separate thread, since a disk may be slow or block: the thread that hands parts over
//! never waits for the disk.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::Builder,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

/// The most bytes that may wait to be written: beyond that the disk is too slow.
const MOST_WAITING: usize = 128 << 20;

/// The progress of the writing thread.
#[derive(Debug, Default)]
struct Progress {
    /// Bytes handed over and not yet written.
    waiting: AtomicUsize,
    /// The number of parts written.
    written: AtomicU64,
}

/// The parts to write, in order.
pub struct Queue<T> {
    parts: Receiver<(T, usize)>,
    progress: Arc<Progress>,
    /// The size of the part being written.
    bytes: Option<usize>,
}

impl<T> Iterator for &mut Queue<T> {
    type Item = T;

    /// The next part; asking for it marks the part before as written.
    fn next(&mut self) -> Option<T> {
        if let Some(bytes) = self.bytes.take() {
            self.progress.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.progress.written.fetch_add(1, Ordering::Relaxed);
        }
        let (part, bytes) = self.parts.recv().ok()?;
        self.bytes = Some(bytes);
        Some(part)
    }
}

/// The handle of a writing thread.
pub struct Writer<T> {
    parts: Sender<(T, usize)>,
    progress: Arc<Progress>,
    handed: u64,
    result: oneshot::Receiver<anyhow::Result<()>>,
}

/// The state of the parts handed over.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All parts are written.
    Written,
    /// Writing failed, with the reason.
    Failed(String),
    /// Some parts are not written yet.
    Pending,
}

impl<T: Send + 'static> Writer<T> {
    /// Starts the writing thread; `write` gets the parts and returns after the last one.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn spawn(
        write: impl FnOnce(&mut Queue<T>) -> anyhow::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, parts) = channel();
        let (tell, result) = oneshot::channel();
        let progress = Arc::<Progress>::default();
        let mut queue = Queue {
            parts,
            progress: Arc::clone(&progress),
            bytes: None,
        };
        Builder::new().name("sbt-record".into()).spawn(move || {
            // Send the result before the queue closes, so that a failed `push` finds it.
            let _nobody_asks = tell.send(write(&mut queue));
            drop(queue);
        })?;
        Ok(Self {
            parts: sender,
            progress,
            handed: 0,
            result,
        })
    }

    /// Hands over a part that takes `bytes` of memory. Returns false if too much waits to be
    /// written already, or the writing thread has ended.
    pub fn push(&mut self, part: T, bytes: usize) -> bool {
        let waiting = self.progress.waiting.load(Ordering::Relaxed);
        // A single part may be larger than the limit.
        let has_room = waiting == 0 || waiting.saturating_add(bytes) <= MOST_WAITING;
        has_room && self.push_last(part, bytes)
    }

    /// Hands over a part without regard to the limit on waiting bytes. Returns false if the writing
    /// thread has ended.
    pub fn push_last(&mut self, part: T, bytes: usize) -> bool {
        self.progress.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.handed += 1;
        self.parts.send((part, bytes)).is_ok()
    }

    /// The number of parts handed over.
    pub const fn handed(&self) -> u64 {
        self.handed
    }

    /// The number of parts written.
    pub fn written(&self) -> u64 {
        self.progress.written.load(Ordering::Relaxed)
    }

    /// Why no more parts can be written, without waiting for the writing thread.
    pub fn failure(mut self) -> String {
        use oneshot::error::TryRecvError;
        match self.result.try_recv() {
            Ok(Err(error)) => format!("{error:#}"),
            Ok(Ok(())) | Err(TryRecvError::Closed) => "the writing thread failed".into(),
            Err(TryRecvError::Empty) => "the disk is too slow for the rate of events".into(),
        }
    }

    /// Waits at most `patience` until all parts are written.
    pub async fn over(&mut self, patience: Duration) -> Outcome {
        match timeout(patience, &mut self.result).await {
            Err(_) => Outcome::Pending,
            Ok(Ok(Ok(()))) => Outcome::Written,
            Ok(Ok(Err(error))) => Outcome::Failed(format!("{error:#}")),
            Ok(Err(_)) => Outcome::Failed("the writing thread failed".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that writes one part for each permission, and fails when no more permissions can
    /// come.
    fn disk() -> (Writer<u32>, Sender<()>, Receiver<u32>) {
        let (allow, allowed) = channel::<()>();
        let (tell, told) = channel();
        let writer = Writer::spawn(move |queue| {
            for part in queue {
                allowed.recv().map_err(|_| anyhow::anyhow!("it is gone"))?;
                tell.send(part)?;
                if part == 0 {
                    break;
                }
            }
            Ok(())
        });
        (writer.unwrap(), allow, told)
    }

    fn over(writer: &mut Writer<u32>, patience: Duration) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(writer.over(patience))
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_disk_that_stands_still_is_not_waited_for() {
        let (mut writer, allow, told) = disk();
        assert!(writer.push(1, MOST_WAITING / 2));
        assert!(writer.push(2, MOST_WAITING / 2));
        // The limit counts bytes, not parts.
        assert!(!writer.push(3, 1));
        assert_eq!((writer.handed(), writer.written()), (2, 0));
        assert_eq!(over(&mut writer, Duration::ZERO), Outcome::Pending);
        // Once a part is written, a small part has room again.
        allow.send(()).unwrap();
        assert_eq!(told.recv(), Ok(1));
        while writer.written() == 0 {
            std::thread::yield_now();
        }
        assert!(writer.push(4, 1));
        let why = writer.failure();
        assert!(why.contains("too slow"), "{why}");
    }

    #[test]
    fn the_last_is_taken_in_any_case_and_written_after_the_others() {
        let (mut writer, allow, told) = disk();
        assert!(writer.push(1, 2 * MOST_WAITING), "one alone may be larger");
        assert!(!writer.push(2, 1));
        assert!(writer.push_last(0, 1));
        for _ in 0..2 {
            allow.send(()).unwrap();
        }
        assert_eq!(over(&mut writer, LONG), Outcome::Written);
        assert_eq!(told.iter().collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn why_it_failed_is_told() {
        let (mut writer, allow, _told) = disk();
        assert!(writer.push(1, 1));
        drop(allow);
        let mut tries = 0;
        while writer.push(2, 1) {
            tries += 1;
            std::thread::yield_now();
            assert!(tries < 1 << 20);
        }
        assert_eq!(writer.failure(), "it is gone");
        let (mut writer, allow, _told) = disk();
        assert!(writer.push_last(1, 1));
        drop(allow);
        let failed = Outcome::Failed("it is gone".into());
        assert_eq!(over(&mut writer, LONG), failed);
    }
}
