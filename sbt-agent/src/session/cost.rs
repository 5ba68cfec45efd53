//! What watching costs the target, as far as it is known.

use std::time::{Duration, Instant};

use crate::source::Measurement;
use sbt_engine::model::{Model, cost::Tariff};

/// How long a report waits at most for the measurement: the program was a short one.
const PATIENCE: Duration = Duration::from_millis(150);

/// Takes the costs over when they have been measured.
#[derive(Debug, Default)]
pub struct Cost {
    measurement: Measurement,
    told: bool,
}

impl Cost {
    /// Of a measurement that has begun.
    pub fn new(measurement: Measurement) -> Self {
        Self {
            measurement,
            told: false,
        }
    }

    /// Tells the model of them, once.
    pub fn look(&mut self, model: &mut Model) {
        if !self.told
            && let Some(outcome) = self.measurement.outcome()
        {
            self.told = true;
            if let Ok(tariff) = outcome {
                model.set_tariff(*tariff);
            }
        }
    }

    /// Waits for them a little, if there is anything to reckon.
    pub fn wait_for(&self, arrivals: u64) {
        if arrivals == 0 {
            return;
        }
        let begun = Instant::now();
        while self.measurement.outcome().is_none() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What probes cost, if it is known.
    pub fn tariff(&self) -> Option<&Tariff> {
        self.measurement.outcome()?.as_ref().ok()
    }

    /// Why it is not known.
    pub fn unknown_because(&self) -> Option<String> {
        match self.measurement.outcome() {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(error.clone()),
            None => Some("the program ended before it was measured".into()),
        }
    }
}
