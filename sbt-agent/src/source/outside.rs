//! The common part of sources that learn of hits outside of the kernel. Their records, made by
//! `twin/`, are decoded on a thread of sbt.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use anyhow::{Context as _, anyhow};

use super::{
    Baselines, Measurement, Totals,
    ebpf::decode::{Choice, Start},
    measurement,
};
use crate::settings::Settings;
use sbt_engine::{
    choices::{Departures, States},
    counters::Plan,
    model::cost::{CLASSES, Tariff},
};
use sbt_program::process;

/// The common part of such a source.
pub struct Outside {
    pid: u32,
    /// Whether the target's children are watched too.
    pub children: bool,
    /// How closely the source looks at what threads do between barriers.
    pub states: States,
    /// The counters that are counted.
    pub counters: Plan,
    /// Counters chosen while the program runs, for the decoder.
    pub chosen: Choice,
    /// Events lost so far.
    pub lost: Arc<AtomicU64>,
    /// Sentences for the user.
    pub notes: Vec<String>,
    cost: Arc<measurement::Shared>,
    drain: Option<JoinHandle<Option<String>>>,
}

impl Outside {
    /// For a target, without counters.
    pub fn new(pid: u32, children: bool, settings: &Settings) -> Self {
        let mut notes = Vec::new();
        if settings.states == States::Full {
            notes.push("--states full needs --backend ebpf: sbt uses --states light".into());
        }
        Self {
            pid,
            children,
            states: if settings.states == States::Off {
                States::Off
            } else {
                States::Light
            },
            counters: Plan::default(),
            chosen: Choice::default(),
            lost: Arc::default(),
            notes,
            cost: Arc::default(),
            drain: None,
        }
    }

    /// Adds notes on what is asked for of a source that sees neither counters nor departures.
    /// `departures`: the note on those.
    pub fn sees_arrivals_only(&mut self, settings: &Settings, departures: &str) {
        if !settings.events.is_empty() {
            let note = "counters need --backend ebpf or ptrace: sbt reads no counters";
            self.notes.push(note.into());
        }
        if settings.departures == Departures::On {
            self.notes.push(departures.into());
        }
    }

    /// Sets what a hit costs, ns; or why that is not known.
    pub fn costs(&self, hit_ns: Result<f64, String>) {
        let tariff = hit_ns.map(|ns| Tariff {
            each: [ns; CLASSES],
            ..Tariff::default()
        });
        let _first = self.cost.outcome.set(tariff);
    }

    /// The decoder's input when watching begins. Run times need no correction here.
    pub fn start(&self, time_ns: u64, baselines: Baselines) -> Start {
        Start {
            time_ns,
            run_offset: (self.states != States::Off).then_some(0),
            baselines,
            pid: self.pid,
            shared: self.children.then_some(process::memory_at),
            plan: self.counters.clone(),
            chosen: self.chosen.clone(),
            kept: if self.counters.0.is_empty() {
                HashMap::new()
            } else {
                process::kept_counts(self.pid)
            },
        }
    }

    /// Starts the thread that decodes. Its result is a remark for the user.
    ///
    /// # Errors
    /// No more threads can be started.
    pub fn drain(
        &mut self,
        run: impl FnOnce() -> Option<String> + Send + 'static,
    ) -> anyhow::Result<()> {
        let thread = std::thread::Builder::new().name("sbt-drain".into());
        let thread = thread.spawn(run);
        self.drain = Some(thread.context("starting the thread that reads records")?);
        Ok(())
    }

    /// Waits for the end of that thread, which has been told that no more records come.
    ///
    /// # Errors
    /// The thread has panicked.
    pub fn end(&mut self) -> anyhow::Result<()> {
        if let Some(drain) = self.drain.take() {
            let note = drain
                .join()
                .map_err(|_| anyhow!("the thread that reads records failed"))?;
            self.notes.extend(note);
        }
        Ok(())
    }

    /// The losses and notes at the end.
    pub fn totals(&mut self) -> Totals {
        Totals {
            lost: self.lost(),
            notes: std::mem::take(&mut self.notes),
        }
    }

    /// Events lost so far, as in [`super::Source::lost`].
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The cost of a hit, as in [`super::Source::measure_costs`].
    pub fn measure_costs(&self) -> Measurement {
        Measurement::elsewhere(Arc::clone(&self.cost))
    }
}
