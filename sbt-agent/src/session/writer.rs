//! What is written on a thread of its own, since a disk may be slow or stand still: whoever
//! hands parts over never waits for it.

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

/// Bytes that wait to be written, at most: beyond that the disk is too slow.
const MOST_WAITING: usize = 128 << 20;

/// How far it has come.
#[derive(Debug, Default)]
struct Progress {
    /// Bytes that were handed over, and are not written.
    waiting: AtomicUsize,
    /// Parts that are written.
    written: AtomicU64,
}

/// Parts that are to be written, in their order.
pub struct Queue<T> {
    parts: Receiver<(T, usize)>,
    progress: Arc<Progress>,
    /// Of the one that is being written.
    bytes: Option<usize>,
}

impl<T> Iterator for &mut Queue<T> {
    type Item = T;

    /// The next; the one before it is written.
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

/// Whoever writes.
pub struct Writer<T> {
    parts: Sender<(T, usize)>,
    progress: Arc<Progress>,
    handed: u64,
    result: oneshot::Receiver<anyhow::Result<()>>,
}

/// What has become of what was handed over.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is written.
    Written,
    /// It is not, and will not be; why.
    Failed(String),
    /// Not yet.
    Pending,
}

impl<T: Send + 'static> Writer<T> {
    /// Begins to write; `write` gets the parts, and ends after the last.
    ///
    /// # Errors
    /// There can be no thread.
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
            // Told before nothing more can be handed over.
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

    /// Hands a part over that takes so many bytes. False if it cannot be written: nothing
    /// more can.
    pub fn push(&mut self, part: T, bytes: usize) -> bool {
        let waiting = self.progress.waiting.load(Ordering::Relaxed);
        // One alone may be larger.
        let has_room = waiting == 0 || waiting.saturating_add(bytes) <= MOST_WAITING;
        has_room && self.push_last(part, bytes)
    }

    /// The same of the last one, for which there is room in any case.
    pub fn push_last(&mut self, part: T, bytes: usize) -> bool {
        self.progress.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.handed += 1;
        self.parts.send((part, bytes)).is_ok()
    }

    /// How many parts have been handed over.
    pub const fn handed(&self) -> u64 {
        self.handed
    }

    /// How many of them are written.
    pub fn written(&self) -> u64 {
        self.progress.written.load(Ordering::Relaxed)
    }

    /// Why nothing more can be written: that is not waited for.
    pub fn failure(mut self) -> String {
        use oneshot::error::TryRecvError;
        match self.result.try_recv() {
            Ok(Err(error)) => format!("{error:#}"),
            Ok(Ok(())) | Err(TryRecvError::Closed) => "its thread failed".into(),
            Err(TryRecvError::Empty) => "the disk is too slow for what happens".into(),
        }
    }

    /// Waits until all is written, but no longer than so.
    pub async fn over(&mut self, patience: Duration) -> Outcome {
        match timeout(patience, &mut self.result).await {
            Err(_) => Outcome::Pending,
            Ok(Ok(Ok(()))) => Outcome::Written,
            Ok(Ok(Err(error))) => Outcome::Failed(format!("{error:#}")),
            Ok(Err(_)) => Outcome::Failed("its thread failed".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that takes a part whenever it is told to, and fails when nobody does any more.
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
        // By bytes, and not by parts.
        assert!(!writer.push(3, 1));
        assert_eq!((writer.handed(), writer.written()), (2, 0));
        assert_eq!(over(&mut writer, Duration::ZERO), Outcome::Pending);
        // What is small goes on.
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
