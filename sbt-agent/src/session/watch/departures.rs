//! Decides whether departures are worth their cost: a pure decision.
//!
//! Idle times follow from the arrivals alone. Departures add the release latency and the exact
//! start of a phase, for about half the price of an arrival; a program with very short phases
//! should not pay that price.

use sbt_engine::choices::Departures;

/// Arrivals per second and thread above which departures are switched off automatically: above this
/// rate they would cost more than half a percent of the thread's time.
const TOO_MANY: f64 = 5_000.0;
/// Arrivals per second and thread below which departures are switched on again.
const FEW: f64 = TOO_MANY / 4.0;
/// The number of consecutive ticks below [`FEW`] before departures are switched on again.
const QUIET_TICKS: u32 = 20;

/// Decides from the rate of arrivals.
#[derive(Debug)]
pub struct Governor {
    wish: Departures,
    on: bool,
    ever_off: bool,
    /// Departures were switched off because of the number of arrivals, not for another reason.
    too_many: bool,
    last: (u64, u64),
    /// Arrivals so far, by thread.
    arrivals: Vec<u64>,
    quiet: u32,
}

impl Governor {
    /// Starts at `now_ns`.
    pub fn new(wish: Departures, now_ns: u64) -> Self {
        let on = wish != Departures::Off;
        Self {
            wish,
            on,
            ever_off: !on,
            too_many: false,
            last: (now_ns, 0),
            arrivals: Vec::new(),
            quiet: 0,
        }
    }

    /// The number of threads with arrivals since the last call, threads that have ended included.
    /// `arrivals`: the arrivals so far of each thread.
    pub fn active(&mut self, arrivals: impl Iterator<Item = u64>) -> usize {
        let mut active = 0;
        for (index, now) in arrivals.enumerate() {
            if index == self.arrivals.len() {
                self.arrivals.push(0);
            }
            active += usize::from(std::mem::replace(&mut self.arrivals[index], now) != now);
        }
        active
    }

    /// Takes the number of arrivals so far and of active threads; returns the new state if
    /// departures should be switched.
    pub fn tick(&mut self, now_ns: u64, arrivals: u64, threads: usize) -> Option<bool> {
        let (then_ns, before) = std::mem::replace(&mut self.last, (now_ns, arrivals));
        let seconds = now_ns.saturating_sub(then_ns) as f64 / 1e9;
        if self.wish != Departures::Auto || seconds <= 0.0 {
            return None;
        }
        let rate = arrivals.saturating_sub(before) as f64 / seconds / threads.max(1) as f64;
        self.quiet = if rate < FEW { self.quiet + 1 } else { 0 };
        if self.on && rate > TOO_MANY {
            self.on = false;
            self.ever_off = true;
            self.too_many = true;
            Some(false)
        } else if !self.on && self.quiet >= QUIET_TICKS {
            self.on = true;
            Some(true)
        } else {
            None
        }
    }

    /// Whether departures are being watched and may be dropped to save cost.
    pub fn may_drop(&self) -> bool {
        self.on && self.wish == Departures::Auto
    }

    /// Departures have been dropped to save cost.
    pub fn drop_them(&mut self) {
        self.on = false;
        self.ever_off = true;
        self.quiet = 0;
    }

    /// Whether departures were watched: `true` all the time, `false` never, `None` part of the
    /// time.
    pub fn summary(&self) -> Option<bool> {
        match (self.on, self.ever_off) {
            (true, false) => Some(true),
            (false, true) if self.wish == Departures::Off => Some(false),
            _ => None,
        }
    }

    /// The note for the user if the rate of arrivals switched departures off.
    pub fn note(&self) -> Option<String> {
        self.too_many.then(|| {
            format!(
                "departures were not watched while a thread arrived more than {TOO_MANY} times a \
                 second: release times cover the rest of the time only (--departures on watches \
                 always)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 250_000_000;

    #[test]
    fn goes_off_above_the_limit_and_comes_back_after_a_quiet_time() {
        let mut governor = Governor::new(Departures::Auto, 0);
        assert_eq!(governor.tick(TICK, 1_000, 4), None);
        // 24 000 more arrivals in a quarter of a second on four threads: 24 000/s each.
        assert_eq!(governor.tick(2 * TICK, 25_000, 4), Some(false));
        assert_eq!(governor.tick(3 * TICK, 49_000, 4), None);
        for tick in 4..23 {
            assert_eq!(governor.tick(tick * TICK, 49_000, 4), None);
        }
        assert_eq!(governor.tick(23 * TICK, 49_000, 4), Some(true));
        assert_eq!(governor.summary(), None);
        assert!(governor.note().is_some());
    }

    #[test]
    fn a_team_that_has_ended_counts_for_what_it_did() {
        let mut governor = Governor::new(Departures::Auto, 0);
        let team = || [300; 64].into_iter();
        assert_eq!(governor.active(team()), 64);
        assert_eq!(governor.active(team().chain([5, 5])), 2);
        assert_eq!(governor.active(team().chain([5, 6])), 1);
        assert_eq!(governor.tick(TICK, 64 * 300, 64), None);
    }

    #[test]
    fn a_wish_is_never_overruled() {
        for (wish, summary) in [(Departures::On, true), (Departures::Off, false)] {
            let mut governor = Governor::new(wish, 0);
            assert_eq!(governor.tick(TICK, 1_000_000, 1), None);
            assert_eq!(governor.summary(), Some(summary));
            assert_eq!(governor.note(), None);
        }
    }
}
