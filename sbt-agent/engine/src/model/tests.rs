//! Tests of the model against a simulated machine that knows the truth.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test that cannot go on has failed"
)]

mod apart;
mod bounds;
mod conceptual;
mod fuzz;
mod losses;
mod regions;
mod regular;
pub mod setup;
mod sim;
mod still;
mod truth;

use crate::{event::Event, model::Model};

/// A model that has taken in these events.
fn model(events: &[Event], start_ns: u64, departures: bool) -> Model {
    let mut model = Model::new(start_ns, departures);
    for event in events {
        model.push(event);
    }
    model.finish();
    model
}

/// Fewer cases than proptest's default, so that the tests end in a few seconds; `PROPTEST_CASES`
/// sets another number.
fn cases() -> proptest::test_runner::Config {
    let mut config = proptest::test_runner::Config {
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    };
    #[allow(clippy::disallowed_methods, reason = "of the test alone")]
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 200;
    }
    config
}
