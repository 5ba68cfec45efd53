//! How long the probes were off at the user's wish.

/// The times in which the probes were off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Off {
    past_ns: u64,
    since_ns: Option<u64>,
}

impl Off {
    /// The probes go off.
    pub fn begin(&mut self, now_ns: u64) {
        self.since_ns.get_or_insert(now_ns);
    }

    /// The probes are on again.
    pub fn end(&mut self, now_ns: u64) {
        self.past_ns = self.until_ns(now_ns);
        self.since_ns = None;
    }

    /// Forgets the time so far; if the probes are off, they count as off from `now_ns` on.
    pub fn reset(&mut self, now_ns: u64) {
        self.past_ns = 0;
        self.since_ns = self.since_ns.map(|_| now_ns);
    }

    /// How long the probes were off until `now_ns`, ns.
    pub fn until_ns(&self, now_ns: u64) -> u64 {
        let open_ns = self
            .since_ns
            .map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.past_ns + open_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_times_add_up() {
        let mut off = Off::default();
        assert_eq!(off.until_ns(50), 0);
        off.begin(100);
        off.begin(150);
        assert_eq!(off.until_ns(180), 80);
        off.end(200);
        assert_eq!(off.until_ns(500), 100);
        off.begin(600);
        assert_eq!(off.until_ns(650), 150);
        off.reset(640);
        assert_eq!(off.until_ns(650), 10);
        off.end(660);
        assert_eq!(off.until_ns(900), 20);
    }
}
