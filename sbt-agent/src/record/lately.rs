//! Changes in a recording since the run's facts were last written. Where a recording breaks off,
//! its facts are brought up to the last event read.

use sbt_engine::{
    event::Event,
    model::{cost::Tariff, tape::Step},
    report::{Facts, HangOutcome},
};

/// Changes since the last facts.
#[derive(Clone, Debug, Default)]
pub struct Lately {
    /// Whether threads have come to barriers or left them.
    moves: bool,
    /// The last switch of departures, if any.
    departures: Option<bool>,
    tariff: Option<Tariff>,
    /// The time at which the probes were first taken off, `CLOCK_MONOTONIC` ns.
    off_first_ns: Option<u64>,
    /// Since when the probes are off, ns; `None` if they are on.
    off_since_ns: Option<u64>,
    /// How long the probes were off before, ns.
    off_ns: u64,
}

impl Lately {
    /// Takes note of a step that happened at `at_ns` or a little later.
    pub fn step(&mut self, step: &Step, at_ns: u64) {
        match step {
            Step::Event(Event::Arrive { .. } | Event::Depart { .. }) => self.moves = true,
            Step::Event(Event::Departures { on }) => self.departures = Some(*on),
            Step::Tariff(tariff) => self.tariff = Some(*tariff),
            Step::Off(true) => {
                self.off_first_ns.get_or_insert(at_ns);
                self.off_since_ns.get_or_insert(at_ns);
            }
            Step::Off(false) => {
                let since_ns = self.off_since_ns.take().unwrap_or(at_ns);
                self.off_ns += at_ns.saturating_sub(since_ns);
            }
            _ => {}
        }
    }

    /// The facts have just been written: they hold everything up to `at_ns`.
    pub fn written(&mut self, at_ns: u64) {
        let is_off = self.off_since_ns.is_some();
        *self = Self {
            off_since_ns: is_off.then_some(at_ns),
            ..Self::default()
        };
    }

    /// Brings facts up to `until_ns`, the time of the last event.
    pub fn settle(&self, facts: &mut Facts, until_ns: u64) {
        let wall_ns = until_ns.saturating_sub(facts.run.start_ns);
        facts.run.wall_ns = facts.run.wall_ns.max(wall_ns);
        facts.tariff = self.tariff.or(facts.tariff);
        if self
            .departures
            .is_some_and(|on| facts.run.departures != Some(on))
        {
            facts.run.departures = None;
        }
        let since_ns = self.off_since_ns.unwrap_or(until_ns);
        let off_ns = self.off_ns + until_ns.saturating_sub(since_ns);
        facts.thinned = match (facts.thinned, self.off_first_ns) {
            (Some((first_ns, before_ns)), _) => Some((first_ns, before_ns + off_ns)),
            (None, Some(first_ns)) => Some((first_ns, off_ns)),
            (None, None) => None,
        };
        // Threads have moved since: how the hang went on was not recorded.
        if let Some(hang) = facts
            .run
            .hang
            .as_mut()
            .filter(|hang| hang.outcome == HangOutcome::Lasts)
            && self.moves
        {
            hang.outcome = HangOutcome::Unknown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::{
        event::Clocks,
        report::Run,
        samples::{hung, over},
    };

    const S: u64 = 1_000_000_000;

    fn depart() -> Step {
        Step::Event(Event::Depart {
            tid: 1,
            clocks: Clocks::at(1),
        })
    }

    fn settled(facts: Facts, steps: &[(u64, Step)], until_ns: u64) -> Facts {
        let (mut facts, mut lately) = (facts, Lately::default());
        for (at_ns, step) in steps {
            lately.step(step, *at_ns);
        }
        lately.settle(&mut facts, until_ns);
        facts
    }

    #[test]
    fn the_time_goes_on_to_the_last_event() {
        let facts = Facts {
            run: Run {
                start_ns: 10 * S,
                wall_ns: 2 * S,
                ..Run::default()
            },
            ..Facts::default()
        };
        assert_eq!(settled(facts.clone(), &[], 11 * S).run.wall_ns, 2 * S);
        assert_eq!(settled(facts, &[], 15 * S).run.wall_ns, 5 * S);
    }

    #[test]
    fn probes_that_were_off_are_counted() {
        let off = |off| Step::Off(off);
        let steps = [(S, off(true)), (3 * S, off(false)), (7 * S, off(true))];
        let thinned = settled(Facts::default(), &steps, 8 * S).thinned;
        assert_eq!(thinned, Some((S, 3 * S)));
        let before = Facts {
            thinned: Some((S / 2, S)),
            ..Facts::default()
        };
        assert_eq!(settled(before, &steps, 8 * S).thinned, Some((S / 2, 4 * S)));
        assert_eq!(settled(Facts::default(), &[], 8 * S).thinned, None);
        // The probes were off when the facts were written, and since.
        let (mut facts, mut lately) = (Facts::default(), Lately::default());
        lately.step(&off(true), S);
        lately.written(2 * S);
        facts.thinned = Some((S, S));
        lately.settle(&mut facts, 6 * S);
        assert_eq!(facts.thinned, Some((S, 5 * S)));
    }

    #[test]
    fn departures_that_were_switched_are_watched_in_part() {
        let switched = |before, on| {
            let facts = Facts {
                run: Run {
                    departures: before,
                    ..Run::default()
                },
                ..Facts::default()
            };
            let step = Step::Event(Event::Departures { on });
            settled(facts, &[(S, step)], S).run.departures
        };
        assert_eq!(switched(Some(true), true), Some(true));
        assert_eq!(switched(Some(true), false), None);
        assert_eq!(switched(None, true), None);
    }

    #[test]
    fn a_hang_is_not_known_to_last_once_threads_have_moved() {
        for (hang, moves, outcome) in [
            (hung(), false, HangOutcome::Lasts),
            (hung(), true, HangOutcome::Unknown),
            (over(), true, HangOutcome::Over),
        ] {
            let facts = Facts {
                run: Run {
                    hang: hang.report.run.hang.clone(),
                    ..Run::default()
                },
                ..Facts::default()
            };
            let steps = [(S, depart())];
            let steps = if moves { &steps[..] } else { &[] };
            assert_eq!(settled(facts, steps, S).run.hang.unwrap().outcome, outcome);
        }
    }
}
