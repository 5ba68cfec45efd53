//! Decides whether condition variables are worth watching: a pure decision.

/// Uses of condition variables per second above which their probes are switched off if no barrier
/// was recognised.
const TOO_MANY: f64 = 50_000.0;

/// The time after which these probes are switched on again, ns: programs have stages. The time
/// doubles with each switch to off.
const AWAY_NS: u64 = 10_000_000_000;
const MAX_AWAY_DOUBLED: u32 = 5;

/// Decides from the number of uses.
#[derive(Debug)]
pub struct Governor {
    last: (u64, u64),
    on: bool,
    times_off: u32,
    back_ns: u64,
}

impl Governor {
    /// Starts at `now_ns`, switched on.
    pub const fn new(now_ns: u64) -> Self {
        Self {
            last: (now_ns, 0),
            on: true,
            times_off: 0,
            back_ns: 0,
        }
    }

    /// Takes the number of uses so far; returns the new state if watching should be switched.
    pub fn tick(&mut self, now_ns: u64, uses: u64, has_barriers: bool) -> Option<bool> {
        let (then_ns, before) = std::mem::replace(&mut self.last, (now_ns, uses));
        let seconds = now_ns.saturating_sub(then_ns) as f64 / 1e9;
        if self.on {
            let rate = uses.saturating_sub(before) as f64 / seconds;
            if seconds <= 0.0 || has_barriers || rate <= TOO_MANY {
                return None;
            }
            self.on = false;
            let away_ns = AWAY_NS << self.times_off.min(MAX_AWAY_DOUBLED);
            self.times_off += 1;
            self.back_ns = now_ns.saturating_add(away_ns);
            Some(false)
        } else if now_ns >= self.back_ns {
            self.on = true;
            Some(true)
        } else {
            None
        }
    }

    /// The note for the user if the probes were ever switched off.
    pub fn note(&self) -> Option<String> {
        (self.times_off > 0).then(|| {
            format!(
                "condition variables were watched part of the time only: they were used more than \
                {TOO_MANY} times a second, and none of them was a barrier"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn goes_off_above_the_limit_and_tries_again_later() {
        let mut governor = Governor::new(0);
        assert_eq!(governor.tick(SECOND, 50_000, false), None);
        assert_eq!(governor.tick(2 * SECOND, 150_000, true), None);
        assert_eq!(governor.tick(3 * SECOND, 250_000, false), Some(false));
        assert_eq!(governor.tick(12 * SECOND, 250_000, false), None);
        assert_eq!(governor.tick(13 * SECOND, 250_000, false), Some(true));
        assert_eq!(governor.tick(14 * SECOND, 350_000, false), Some(false));
        assert_eq!(governor.tick(33 * SECOND, 350_000, false), None);
        assert_eq!(governor.tick(34 * SECOND, 350_000, false), Some(true));
        assert!(governor.note().is_some());
    }
}
