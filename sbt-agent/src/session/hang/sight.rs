//! While the probes were off a barrier may have come to stand still: what is not known of
//! hangs since then. Pure.

/// See the module. All times are ns of the events' clock.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Since when nobody was seen to come, because not all was seen.
    lost_ns: Option<u64>,
    /// Since when all is seen again,
    again_ns: Option<u64>,
    /// and how many had come until then.
    arrivals: u64,
    /// When sight was lost once more, with nobody known to have come in between.
    relost_ns: Option<u64>,
    /// The longest of the times that are over.
    longest_ns: u64,
}

impl Sight {
    /// The probes go off.
    pub fn lose(&mut self, now_ns: u64) {
        if self.lost_ns.is_none() {
            self.lost_ns = Some(now_ns);
        } else if self.again_ns.is_some() {
            // Who came at last may not have been told of yet.
            self.relost_ns.get_or_insert(now_ns);
        }
    }

    /// They are on again. `arrivals`: how many were seen so far, of all that came before.
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

    /// While they are on: who comes now moves. `arrivals` as before.
    pub fn see(&mut self, now_ns: u64, arrivals: u64) {
        if self.unseen_since_ns().is_some() && arrivals != self.arrivals {
            self.close(now_ns);
        }
    }

    /// It was looked from outside, and nobody waits at a barrier: who waits later is seen.
    pub fn clear(&mut self) {
        if let Some(again_ns) = self.unseen_since_ns() {
            self.close(again_ns);
        }
    }

    fn close(&mut self, until_ns: u64) {
        self.longest_ns = self.longest_ns(until_ns);
        (self.lost_ns, self.again_ns) = (None, None);
    }

    /// Since when all is seen and nobody has come, although threads may wait at a barrier
    /// to which they came unseen; `None` if it is not so.
    pub fn unseen_since_ns(&self) -> Option<u64> {
        self.again_ns.filter(|_| self.relost_ns.is_none())
    }

    /// The longest time in which a barrier may have stood still unseen.
    pub fn longest_ns(&self, now_ns: u64) -> u64 {
        let open_ns = self.lost_ns.map_or(0, |it| now_ns.saturating_sub(it));
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
        // From one loss to the end of the span after it.
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
        // Nobody waits: what was not seen is over since it was last off.
        sight.clear();
        assert_eq!(sight.unseen_since_ns(), None);
        assert_eq!(sight.longest_ns(9999), 450);
    }
}
