//! Decides whether the system calls of futexes are worth watching: a pure decision.
//!
//! The BPF programs at the tracepoints of system calls run for every process on the machine. With
//! `auto` they are tried only for a target with several threads and no barriers, and only briefly
//! if they show nothing.

use super::super::understanding::seen::{QUIET_AFTER_OTHERS_NS, QUIET_NS, Seen};
use sbt_engine::choices::Futexes;

/// The time for which futexes are tried, ns.
const TRIED_NS: u64 = 2_000_000_000;

/// The pause before the next try, ns: programs have stages. The pause doubles each time.
const AWAY_NS: u64 = 10_000_000_000;
const MAX_AWAY_DOUBLED: u32 = 5;

/// Decides from what has been seen.
#[derive(Debug)]
pub struct Governor {
    wish: Futexes,
    on: bool,
    ever_off: bool,
    ever_on: bool,
    /// The time at which watching was switched on, ns, and what had been seen by then.
    on_since: (u64, Seen),
    /// The time of the last hit at a barrier that is not made of futexes, ns.
    quiet_since_ns: u64,
    others: u64,
    times_in_vain: u32,
    /// The earliest time of the next try, ns.
    back_ns: u64,
}

impl Governor {
    /// Starts at `now_ns`, switched on if the user asks for [`Futexes::On`].
    pub fn new(wish: Futexes, now_ns: u64) -> Self {
        let on = wish == Futexes::On;
        Self {
            wish,
            on,
            ever_off: !on,
            ever_on: on,
            on_since: (now_ns, Seen::default()),
            quiet_since_ns: now_ns,
            others: 0,
            times_in_vain: 0,
            back_ns: 0,
        }
    }

    /// Whether futexes are being watched.
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// Futexes cannot be watched here: never tries again.
    pub fn give_up(&mut self) {
        *self = Self::new(Futexes::Off, 0);
    }

    /// Takes what has been seen; returns the new state if watching should be switched.
    pub fn tick(&mut self, now_ns: u64, seen: Seen) -> Option<bool> {
        if std::mem::replace(&mut self.others, seen.others) != seen.others {
            self.quiet_since_ns = now_ns;
        }
        if self.wish != Futexes::Auto {
            return None;
        }
        if self.on {
            let (since_ns, then) = self.on_since;
            let has_some = seen.futexes > then.futexes;
            let has_others = seen.others > then.others;
            if has_some || !has_others && now_ns.saturating_sub(since_ns) < TRIED_NS {
                return None;
            }
            self.on = false;
            let away_ns = AWAY_NS << self.times_in_vain.min(MAX_AWAY_DOUBLED);
            self.times_in_vain += 1;
            self.back_ns = now_ns.saturating_add(away_ns);
            return Some(false);
        }
        let long_ns = if seen.others > 0 {
            QUIET_AFTER_OTHERS_NS
        } else {
            QUIET_NS
        };
        let is_quiet = now_ns.saturating_sub(self.quiet_since_ns) >= long_ns;
        if seen.threads < 2 || !is_quiet || now_ns < self.back_ns {
            return None;
        }
        self.on = true;
        self.ever_on = true;
        self.on_since = (now_ns, seen);
        Some(true)
    }

    /// Whether futexes were watched: `true` all the time, `false` never, `None` part of the time.
    pub const fn summary(&self) -> Option<bool> {
        match (self.ever_on, self.ever_off) {
            (true, false) => Some(true),
            (false, _) => Some(false),
            (true, true) => None,
        }
    }

    /// The note for the user; `None` if futexes were never watched.
    pub fn note(&self) -> Option<String> {
        match self.summary() {
            Some(false) => None,
            Some(true) => Some(
                "futexes were watched, which slows down every system call of all processes on this \
                 machine"
                    .into(),
            ),
            None => Some(
                "futexes were watched part of the time, which slows down every system call of all \
                 processes on this machine (--futex off never watches futexes, --futex on always)"
                    .into(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    const fn seen(threads: u64, others: u64, futexes: u64) -> Seen {
        Seen {
            threads,
            others,
            futexes,
        }
    }

    #[test]
    fn is_tried_when_several_threads_show_no_barrier() {
        let mut governor = Governor::new(Futexes::Auto, 0);
        assert_eq!(governor.summary(), Some(false));
        assert_eq!(governor.tick(100 * MS, seen(4, 0, 0)), None);
        assert_eq!(governor.tick(300 * MS, seen(1, 0, 0)), None);
        assert_eq!(governor.tick(600 * MS, seen(4, 0, 0)), Some(true));
        assert_eq!(governor.summary(), None);
        assert!(governor.note().is_some());
    }

    #[test]
    fn a_long_phase_between_other_barriers_is_no_reason() {
        let mut governor = Governor::new(Futexes::Auto, 0);
        assert_eq!(governor.tick(100 * MS, seen(4, 8, 0)), None);
        assert_eq!(governor.tick(10_000 * MS, seen(4, 8, 0)), None);
        assert_eq!(governor.tick(10_200 * MS, seen(4, 8, 0)), Some(true));
    }

    #[test]
    fn goes_off_when_it_shows_nothing_and_comes_back_ever_later() {
        let mut governor = Governor::new(Futexes::Auto, 0);
        let mut changes = Vec::new();
        for second in 1..=40 {
            let change = governor.tick(second * 1000 * MS, seen(4, 0, 0));
            changes.extend(change.map(|on| (second, on)));
        }
        let expected = [(1, true), (3, false), (13, true), (15, false), (35, true)];
        assert_eq!(changes[..5], expected);
    }

    #[test]
    fn stays_on_for_what_it_shows() {
        let mut governor = Governor::new(Futexes::Auto, 0);
        assert_eq!(governor.tick(1000 * MS, seen(4, 0, 0)), Some(true));
        for second in 2..60 {
            assert_eq!(governor.tick(second * 1000 * MS, seen(4, second, 1)), None);
        }
    }

    #[test]
    fn goes_off_at_once_when_other_barriers_appear() {
        let mut governor = Governor::new(Futexes::Auto, 0);
        assert_eq!(governor.tick(1000 * MS, seen(4, 0, 0)), Some(true));
        assert_eq!(governor.tick(1100 * MS, seen(4, 1, 0)), Some(false));
    }

    #[test]
    fn a_wish_is_never_overruled() {
        for (wish, on) in [(Futexes::On, true), (Futexes::Off, false)] {
            let mut governor = Governor::new(wish, 0);
            assert_eq!(governor.is_on(), on);
            for second in 1..60 {
                assert_eq!(governor.tick(second * 1000 * MS, seen(4, 0, 0)), None);
            }
            assert_eq!(governor.summary(), Some(on));
            assert_eq!(governor.note().is_some(), on);
        }
    }
}
