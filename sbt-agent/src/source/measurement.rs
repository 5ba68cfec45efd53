//! What a hit of a probe costs the thread that hits it, while that is being measured.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use sbt_engine::model::cost::Tariff;

/// What comes of it, when it does: the costs, or why there are none.
pub type Outcome = OnceLock<Result<Tariff, String>>;

/// A measurement that goes on beside everything else. Who drops it breaks it off and
/// waits for its end, so that it takes off at once what it has put on.
#[derive(Debug, Default)]
pub struct Measurement {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What it shares with who measures.
#[derive(Debug, Default)]
pub struct Shared {
    /// What came of it.
    pub outcome: Outcome,
    /// Nobody waits for it any more.
    pub unwanted: AtomicBool,
}

impl Measurement {
    /// Begins, on a thread of its own.
    pub fn begin(measure: impl FnOnce(&Shared) + Send + 'static) -> Self {
        let shared = Arc::<Shared>::default();
        let result = Arc::clone(&shared);
        let begun = std::thread::Builder::new()
            .name("sbt-calibrate".into())
            .spawn(move || measure(&result));
        let thread = begun.map_err(|error| {
            let why = format!("no thread to measure it in: {error}");
            let _first = shared.outcome.set(Err(why));
        });
        Self {
            thread: thread.ok(),
            shared,
        }
    }

    /// One that somebody else ends, by setting the outcome.
    pub const fn elsewhere(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            thread: None,
        }
    }

    /// The costs, or why there are none; `None` while that is open.
    pub fn outcome(&self) -> Option<&Result<Tariff, String>> {
        self.shared.outcome.get()
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.shared.unwanted.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say any more.
            let _panic = thread.join();
        }
    }
}
