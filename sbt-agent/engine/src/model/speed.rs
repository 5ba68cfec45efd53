//! How fast the CPUs of threads were: how long a fixed piece of work took there just before arrivals.

/// A measurement counts for the arrivals within this time, ns: what slows a CPU lasts longer, as a rule.
const RECENT_NS: u64 = 20_000_000;

/// A measurement that took so many times as long as the shortest of the run was interrupted.
const INTERRUPTED: u32 = 4;

/// How fast a CPU was at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The time of the measurement, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// How long the fixed piece of work took, ns.
    pub took_ns: u32,
}

impl Measured {
    /// How long the piece of work took shortly before `time_ns`; `None` if that was not measured.
    pub fn before(this: Option<Self>, time_ns: u64) -> Option<u32> {
        let recent = this.filter(|this| time_ns.saturating_sub(this.time_ns) <= RECENT_NS)?;
        Some(recent.took_ns)
    }
}

/// How fast the CPUs of a thread were, by all of its measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speeds {
    /// The number of measurements.
    pub times: u64,
    /// The sum of the times that the fixed piece of work took, ns.
    pub took_ns: u64,
    /// The shortest of these times, ns; `None` before the first.
    pub least_ns: Option<u32>,
    /// The longest of these times, ns.
    pub longest_ns: u32,
}

impl Speeds {
    /// Adds a measurement.
    pub fn add(&mut self, took_ns: u32) {
        self.times += 1;
        self.least_ns = Some(self.least_ns.map_or(took_ns, |least| least.min(took_ns)));
        self.took_ns = self.took_ns.saturating_add(took_ns.into());
        self.longest_ns = self.longest_ns.max(took_ns);
    }

    /// The mean time that the fixed piece of work took, ns; `None` if nothing was measured.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.times > 0).then(|| self.took_ns as f64 / self.times as f64)
    }

    /// As [`Speeds::mean_ns`], without the longest time: of a few measurements, the one into which an interrupt or
    /// another virtual machine fell would make most of the mean.
    pub fn mean_without_longest_ns(&self) -> Option<f64> {
        let left_out = u64::from(self.times > 1);
        let took_ns = self.took_ns - left_out * u64::from(self.longest_ns);
        (self.times > 0).then(|| took_ns as f64 / (self.times - left_out) as f64)
    }
}

/// The shortest measurement of the run, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortest(Option<u32>);

impl Shortest {
    /// The measurement, ns; `None` before the first.
    pub const fn ns(self) -> Option<u32> {
        self.0
    }

    /// Looks at a measurement, ns. `None` if it was interrupted.
    pub fn check(&mut self, took_ns: u64) -> Option<u32> {
        let took_ns = u32::try_from(took_ns).ok().filter(|ns| *ns > 0)?;
        let shortest = self.0.map_or(took_ns, |shortest| shortest.min(took_ns));
        self.0 = Some(shortest);
        (took_ns <= shortest.saturating_mul(INTERRUPTED)).then_some(took_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_interrupted_does_not_count() {
        let mut shortest = Shortest::default();
        let kept: Vec<_> = [1000, 900, 3600, 3601, 0, 1 << 40]
            .into_iter()
            .map(|ns| shortest.check(ns).is_some())
            .collect();
        assert_eq!(kept, [true, true, true, false, false, false]);
    }

    #[test]
    fn one_measurement_of_a_few_that_took_long_makes_no_slow_cpu() {
        let mean_ns = |all: &[u32]| {
            let mut speeds = Speeds::default();
            for took_ns in all {
                speeds.add(*took_ns);
            }
            speeds.mean_without_longest_ns()
        };
        assert_eq!(mean_ns(&[]), None);
        assert_eq!(mean_ns(&[371]), Some(371.0));
        assert_eq!(mean_ns(&[371, 1400, 401]), Some(386.0));
    }

    #[test]
    fn what_was_measured_long_ago_tells_nothing() {
        let measured = Some(Measured {
            time_ns: 5,
            took_ns: 900,
        });
        assert_eq!(Measured::before(measured, 5 + RECENT_NS), Some(900));
        assert_eq!(Measured::before(measured, 6 + RECENT_NS), None);
        assert_eq!(Measured::before(None, 6), None);
    }
}
