//! The cost of watching for the target, once measured.

use std::time::{Duration, Instant};

use crate::source::Measurement;
use sbt_engine::model::{Model, cost::Tariff};

/// The longest time that the report of a short program waits for the measurement.
const PATIENCE: Duration = Duration::from_millis(150);

/// Hands the costs to the model when they have been measured.
#[derive(Debug, Default)]
pub struct Cost {
    measurement: Measurement,
    told: bool,
}

impl Cost {
    /// Takes a measurement that has begun.
    pub fn new(measurement: Measurement) -> Self {
        Self {
            measurement,
            told: false,
        }
    }

    /// Hands the costs to the model, once.
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

    /// Waits up to [`PATIENCE`] for the measurement if there are arrivals to price.
    pub fn wait_for(&self, arrivals: u64) {
        if arrivals == 0 {
            return;
        }
        let begun = Instant::now();
        while self.measurement.outcome().is_none() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The cost of each kind of probe; `None` while unknown.
    pub fn tariff(&self) -> Option<&Tariff> {
        self.measurement.outcome()?.as_ref().ok()
    }

    /// Why the costs are unknown; `None` if they are known.
    pub fn unknown_because(&self) -> Option<String> {
        match self.measurement.outcome() {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(error.clone()),
            None => Some("the program ended before sbt had measured the cost".into()),
        }
    }
}
