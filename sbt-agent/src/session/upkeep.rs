//! What is decided anew every now and then: what is worth watching.

use anyhow::Context as _;

use super::{Session, futexes};
use crate::{
    clock,
    event::Event,
    target::{cpus, process},
};

impl Session {
    /// Lets go what the recogniser holds back for too long.
    pub(super) fn recognise(&mut self) {
        if let Some(source) = &mut self.source
            && let Err(error) = self
                .recognition
                .tick(clock::now_ns(), source, &mut self.model)
        {
            self.notes.push(format!("{error:#}"));
        }
    }

    /// Asks anew how many CPUs the target may use: it may bind its threads.
    pub(super) fn count_cpus(&mut self) {
        if self.source.is_some() {
            self.cpus = cpus::allowed(self.pid).or(self.cpus);
        }
    }

    /// Decides anew whether departures are worth their cost.
    pub(super) fn govern(&mut self) {
        let totals = self.model.totals();
        let rows = self.model.threads().rows().iter();
        let threads = self.governor.active(rows.map(|row| row.arrivals));
        let change = self
            .governor
            .tick(clock::now_ns(), totals.arrivals, threads);
        if let (Some(on), Some(source)) = (change, &mut self.source) {
            match source.set_departures(on) {
                Ok(()) => self.model.push(&Event::Departures { on }),
                Err(error) => self.notes.push(format!("{error:#}")),
            }
        }
    }

    /// Decides anew whether the system calls of futexes are worth watching.
    pub(super) fn govern_futexes(&mut self) {
        let (futexes, others) = self.recognition.arrivals();
        let seen = futexes::Seen {
            threads: self.processes.threads(),
            others,
            futexes,
        };
        if let Some(source) = &self.source {
            self.locks.tick(clock::now_ns(), source);
        }
        if let Some(on) = self.futexes.tick(clock::now_ns(), seen) {
            self.set_futexes(on);
        }
        // Without probes nobody knows whether barriers are hit.
        if self.source.is_some() && !self.is_off() {
            // Its children are not looked at.
            let seen = futexes::Seen {
                threads: process::threads(self.pid),
                ..seen
            };
            self.spinning
                .tick(clock::now_ns(), seen, self.pid, &mut self.resolver);
        }
    }

    pub(super) fn set_futexes(&mut self, on: bool) {
        let Some(source) = &mut self.source else {
            return;
        };
        let mut switch = || {
            if on {
                self.resolver.follow_system_calls();
                if let Some(rules) = self.resolver.new_rules() {
                    source.learn(&rules)?;
                }
            }
            source.set_futexes(on)?;
            if on {
                self.locks.watch();
            } else {
                // Who waits now will not be seen to go on.
                self.locks.read(source);
                source.clear_locks(None).context("forgetting locks")?;
                self.locks.begin_anew();
            }
            anyhow::Ok(())
        };
        if let Err(error) = switch() {
            self.notes.push(format!("{error:#}"));
            self.futexes.give_up();
        }
    }
}
