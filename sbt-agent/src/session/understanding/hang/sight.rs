//! Times in which a barrier may have come to stand still unseen because the probes were off. Pure.

/// The state of sight. All times are ns of the events' clock.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// The start of the time without a seen arrival, when the probes went off.
    lost_ns: Option<u64>,
    /// The time at which the probes came back on.
    again_ns: Option<u64>,
    /// The number of arrivals seen when the probes came back on.
    arrivals: u64,
    /// The time at which the probes went off once more, if no thread is known to have arrived since
    /// they came back on.
    relost_ns: Option<u64>,
    /// The longest time without a seen arrival that is over.
    longest_ns: u64,
}

impl Sight {
    /// The probes go off.
    pub fn lose(&mut self, now_ns: u64) {
        if self.lost_ns.is_none() {
            self.lost_ns = Some(now_ns);
        } else if self.again_ns.is_some() {
            // The latest arrivals may not have been taken in yet.
            self.relost_ns.get_or_insert(now_ns);
        }
    }

    /// The probes are on again. `arrivals`: the arrivals seen so far, earlier ones included.
    pub fn regain(&mut self, now_ns: u64, arrivals: u64) {
        if self.lost_ns.is_none() {
            return;
        }
        let relost_ns = self.relost_ns.take();
        if self.again_ns.is_some() && arrivals != self.arrivals {
            self.close(relost_ns.unwrap_or(now_ns));
            self.lost_ns = relost_ns;
        }
        (self.again_ns, self.arrivals) = (Some(now_ns), arrivals);
    }

    /// Takes the number of arrivals so far while the probes are on: a new arrival shows that
    /// threads move.
    pub fn see(&mut self, now_ns: u64, arrivals: u64) {
        if self.unseen_since_ns().is_some() && arrivals != self.arrivals {
            self.close(now_ns);
        }
    }

    /// A look has found no thread waiting at a barrier: later waits are seen.
    pub fn clear(&mut self) {
        if let Some(again_ns) = self.unseen_since_ns() {
            self.close(again_ns);
        }
    }

    fn close(&mut self, until_ns: u64) {
        self.longest_ns = self.longest_ns(until_ns);
        (self.lost_ns, self.again_ns) = (None, None);
    }

    /// The time at which the probes came back on, ns, if no thread has arrived since: threads may
    /// wait at a barrier at which they arrived unseen. `None` otherwise.
    pub fn unseen_since_ns(&self) -> Option<u64> {
        self.again_ns.filter(|_| self.relost_ns.is_none())
    }

    /// The longest time in which a barrier may have stood still unseen, ns.
    pub fn longest_ns(&self, now_ns: u64) -> u64 {
        let open_ns = self
            .lost_ns
            .map_or(0, |lost_ns| now_ns.saturating_sub(lost_ns));
        self.longest_ns.max(open_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_always_watched_is_never_unseen() {
        let mut sight = Sight::default();
        sight.regain(5, 1);
        sight.see(6, 2);
        sight.clear();
        assert_eq!(sight.unseen_since_ns(), None);
        assert_eq!(sight.longest_ns(100), 0);
    }

    #[test]
    fn who_comes_ends_what_was_not_known() {
        let mut sight = Sight::default();
        sight.lose(10);
        assert_eq!(sight.unseen_since_ns(), None, "nothing is seen now");
        sight.regain(30, 7);
        sight.see(31, 7);
        assert_eq!(sight.unseen_since_ns(), Some(30));
        sight.see(40, 8);
        assert_eq!(sight.unseen_since_ns(), None);
        assert_eq!(sight.longest_ns(1000), 30);
    }

    #[test]
    fn in_spans_with_arrivals_only_the_time_between_them_counts() {
        let mut sight = Sight::default();
        for round in 0..5 {
            sight.lose(100 * round);
            sight.regain(100 * round + 50, round);
            assert_eq!(sight.unseen_since_ns(), Some(100 * round + 50));
        }
        // From one loss of sight to the end of the span after it.
        assert_eq!(sight.longest_ns(450), 100);
    }

    #[test]
    fn spans_in_which_nobody_comes_are_one_time() {
        let mut sight = Sight::default();
        for round in 0..5 {
            sight.lose(100 * round);
            sight.regain(100 * round + 50, 3);
        }
        assert_eq!(sight.unseen_since_ns(), Some(450));
        assert_eq!(sight.longest_ns(460), 460);
        // No thread waits: the unseen time ended when the probes came back on.
        sight.clear();
        assert_eq!(sight.unseen_since_ns(), None);
        assert_eq!(sight.longest_ns(9999), 450);
    }
}
