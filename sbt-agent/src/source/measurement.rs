//! A measurement, in progress, of what a hit of a probe costs the thread that hits it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use sbt_engine::model::cost::Tariff;

/// The result, once there is one: the costs, or why there are none.
pub type Outcome = OnceLock<Result<Tariff, String>>;

/// A measurement that runs in the background. Dropping it cancels it and waits for its end, so that
/// its probes are gone then.
#[derive(Debug, Default)]
pub struct Measurement {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the measurement shares with the thread that measures.
#[derive(Debug, Default)]
pub struct Shared {
    /// The result.
    pub outcome: Outcome,
    /// Set when nobody waits for the result any more.
    pub unwanted: AtomicBool,
}

impl Measurement {
    /// Begins to measure on another thread.
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

    /// Costs that were measured before.
    pub fn known(tariff: Tariff) -> Self {
        let shared = Arc::<Shared>::default();
        let _first = shared.outcome.set(Ok(tariff));
        Self::elsewhere(shared)
    }

    /// A measurement that ends when somebody else sets the outcome.
    pub const fn elsewhere(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            thread: None,
        }
    }

    /// The costs, or why there are none; `None` while not finished.
    pub fn outcome(&self) -> Option<&Result<Tariff, String>> {
        self.shared.outcome.get()
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.shared.unwanted.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its result is of no use any more.
            let _panic = thread.join();
        }
    }
}
