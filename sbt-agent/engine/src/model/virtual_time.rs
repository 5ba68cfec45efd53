//! Compensated figures: what the program would have done unwatched.
//!
//! Virtual time (Z. Li and H. Zhang): VT = RT - I, where I is what monitoring has cost a thread so
//! far. Episodes are recomputed in virtual time. A thread arrives at a' = R' + (a - R) - I(R, a). R
//! and R' are the thread's last release in real and virtual time; I(R, a) is what the thread paid
//! between its arrivals. The next release is L' = max a'. So a cost hidden by waiting does not
//! count, and a cost that made others wait counts for all of them. All other figures stay
//! uncompensated.

use super::{
    cost::{Paid, Tariff},
    ids::{SiteId, ThreadId},
};

/// Members of episodes that are kept until the costs of probes are known, at most.
const MAX_WAITING: usize = 65_536;

/// A thread's part in an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualPart {
    /// The thread.
    pub row: ThreadId,
    /// The time at which the thread's work began, ns; `None` if unknown.
    pub start_ns: Option<u64>,
    /// The time at which the thread arrived, ns.
    pub arrived_ns: u64,
    /// The probes' cost to the thread since its previous arrival, including this arrival.
    pub paid: Paid,
}

impl VirtualPart {
    /// From the thread's release to the beginning of its work, ns: the thread left the barrier
    /// later, or was kept until the next region began.
    fn idle_before(&self, released: f64) -> f64 {
        self.start_ns
            .map_or(0.0, |start_ns| (start_ns as f64 - released).max(0.0))
    }
}

/// Sums over episodes, ns of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Recomputed episodes: those for which the beginning of all work is known.
    pub episodes: u64,
    /// From the previous release to the last arrival.
    pub phase_ns: f64,
    /// From each thread's arrival to the last arrival.
    pub idle_ns: f64,
    /// From the beginning of each thread's work to its arrival.
    pub work_ns: f64,
}

/// A moment in real and virtual time, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment {
    real: f64,
    virt: f64,
}

#[derive(Clone, Debug)]
enum Input {
    Closed(SiteId, Vec<VirtualPart>),
    Ended(ThreadId, u64, Paid),
    Gap,
}

/// Recomputes episodes in virtual time; see the module's documentation.
#[derive(Debug, Default)]
pub struct Virtual {
    tariff: Option<Tariff>,
    /// Input received before the tariff was known.
    waiting: Vec<Input>,
    parts: usize,
    /// Whether some input was dropped: no figures can be given then.
    spoilt: bool,
    /// The last release of each thread, by [`ThreadId`].
    released: Vec<Option<Moment>>,
    /// The latest moment for which both times are known.
    latest: Option<Moment>,
    total: Sums,
    sites: Vec<Sums>,
}

impl Virtual {
    /// Sets the costs of probes; only the first call counts.
    pub fn set_tariff(&mut self, tariff: Tariff) {
        if self.tariff.is_none() {
            self.tariff = Some(tariff);
            for input in std::mem::take(&mut self.waiting) {
                self.take(&input, &tariff);
            }
        }
    }

    /// Resets all totals. No figures are given from then on, since they would have to cover the
    /// whole run.
    pub fn reset(&mut self) {
        self.spoilt = true;
        self.total = Sums::default();
        self.sites.clear();
    }

    /// Takes in a complete episode.
    pub fn close(&mut self, site: SiteId, parts: impl Iterator<Item = VirtualPart>) {
        if let Some(tariff) = self.tariff {
            let parts: Vec<VirtualPart> = parts.collect();
            self.compute(site, &parts, &tariff);
        } else {
            let parts: Vec<VirtualPart> = parts.collect();
            self.parts += parts.len();
            self.wait(Input::Closed(site, parts));
        }
    }

    /// A thread has ended. `paid`: what it has paid since its last arrival.
    pub fn end(&mut self, row: ThreadId, time_ns: u64, paid: Paid) {
        self.put(Input::Ended(row, time_ns, paid));
    }

    /// Something went unseen: the threads' last releases are no longer known.
    pub fn gap(&mut self) {
        self.put(Input::Gap);
    }

    fn put(&mut self, input: Input) {
        match self.tariff {
            Some(tariff) => self.take(&input, &tariff),
            None => self.wait(input),
        }
    }

    fn wait(&mut self, input: Input) {
        if self.parts > MAX_WAITING || self.waiting.len() > MAX_WAITING {
            self.spoilt = true;
            self.waiting = Vec::new();
            self.parts = 0;
        }
        if !self.spoilt {
            self.waiting.push(input);
        }
    }

    fn take(&mut self, input: &Input, tariff: &Tariff) {
        match input {
            Input::Closed(site, parts) => self.compute(*site, parts, tariff),
            Input::Ended(row, time_ns, paid) => {
                let real = *time_ns as f64;
                let from = self.released(*row);
                let virt = from.map_or(real - self.shift(), |from| {
                    (from.virt + real - from.real - paid.ns(tariff)).max(from.virt)
                });
                self.pass(Moment { real, virt });
                if let Some(slot) = self.released.get_mut(row.index()) {
                    // The row may come to be shared with another thread.
                    *slot = None;
                }
            }
            Input::Gap => self.released.clear(),
        }
    }

    fn compute(&mut self, site: SiteId, parts: &[VirtualPart], tariff: &Tariff) {
        let shift = self.shift();
        // The moment from which each thread is reckoned, and whether that moment is a release.
        let begun = |part: &VirtualPart| {
            let real = part.start_ns? as f64;
            let virt = real - shift;
            let released = self.released(part.row);
            Some(released.map_or((Moment { real, virt }, false), |moment| (moment, true)))
        };
        let arrive = |part: &VirtualPart, from: Moment| {
            let took = part.arrived_ns as f64 - from.real - part.paid.ns(tariff);
            from.virt + took.max(0.0)
        };
        let all: Option<Vec<_>> = parts.iter().map(begun).collect();
        let real = parts.iter().map(|part| part.arrived_ns).max().unwrap_or(0) as f64;
        let Some(all) = all else {
            self.release(
                parts,
                Moment {
                    real,
                    virt: real - shift,
                },
            );
            return;
        };
        let arrivals: Vec<f64> = parts
            .iter()
            .zip(&all)
            .map(|(part, (from, _))| arrive(part, *from))
            .collect();
        let last = arrivals.iter().copied().fold(f64::MIN, f64::max);
        let latest = |moments: &mut dyn Iterator<Item = f64>| moments.reduce(f64::max);
        let before = latest(&mut all.iter().filter(|(_, is)| *is).map(|(from, _)| from.virt));
        let before = before.or_else(|| all.iter().map(|(from, _)| from.virt).reduce(f64::min));
        let more = Sums {
            episodes: 1,
            phase_ns: (last - before.unwrap_or(last)).max(0.0),
            idle_ns: arrivals.iter().map(|arrived| last - arrived).sum(),
            work_ns: arrivals
                .iter()
                .zip(parts.iter().zip(&all))
                .map(|(arrived, (part, (from, _)))| {
                    (arrived - from.virt - part.idle_before(from.real)).max(0.0)
                })
                .sum(),
        };
        let index = site.0 as usize;
        if self.sites.len() <= index {
            self.sites.resize(index + 1, Sums::default());
        }
        for sums in [&mut self.total, &mut self.sites[index]] {
            sums.episodes += more.episodes;
            sums.phase_ns += more.phase_ns;
            sums.idle_ns += more.idle_ns;
            sums.work_ns += more.work_ns;
        }
        self.release(parts, Moment { real, virt: last });
    }

    fn released(&self, row: ThreadId) -> Option<Moment> {
        self.released.get(row.index()).copied().flatten()
    }

    fn release(&mut self, parts: &[VirtualPart], moment: Moment) {
        for part in parts {
            let index = part.row.index();
            if self.released.len() <= index {
                self.released.resize(index + 1, None);
            }
            self.released[index] = Some(moment);
        }
        self.pass(moment);
    }

    fn pass(&mut self, moment: Moment) {
        if self.latest.is_none_or(|latest| moment.real >= latest.real) {
            self.latest = Some(moment);
        }
    }

    /// By how much the watching has delayed the program so far, ns.
    fn shift(&self) -> f64 {
        self.latest.map_or(0.0, |latest| latest.real - latest.virt)
    }

    /// The duration, ns, that a run of `wall_ns` would have had unwatched; `None` if the costs of
    /// probes are unknown or some input was dropped.
    pub fn wall_ns(&self, wall_ns: u64) -> Option<f64> {
        self.total()?;
        Some((wall_ns as f64 - self.shift()).max(0.0))
    }

    /// Sums over the run; `None` if the costs of probes are unknown or some input was dropped.
    pub fn total(&self) -> Option<&Sums> {
        (self.tariff.is_some() && !self.spoilt).then_some(&self.total)
    }

    /// Sums of a site; `None` as for [`Self::total`], and if no episode of the site could be
    /// recomputed.
    pub fn site(&self, site: SiteId) -> Option<&Sums> {
        self.total()?;
        let sums = self.sites.get(site.0 as usize)?;
        (sums.episodes > 0).then_some(sums)
    }
}

#[cfg(test)]
#[path = "virtual_time_tests.rs"]
mod tests;
