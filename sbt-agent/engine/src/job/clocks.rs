//! How far the clocks of two machines are apart, by the collectives in which both take part.
//!
//! No rank leaves a synchronising collective before the last one has come. So each collective bounds
//! the offset between two clocks from both sides: by the last arrival on one machine and the first
//! departure on the other one (Duda et al., Estimating global time in distributed systems, 1987).

use std::fmt;

/// The largest difference between the speeds of two clocks that is tried: twice the largest correction of
/// `adjtimex` that NTP makes (500 parts per million).
const MOST_DRIFT: f64 = 1e-3;

/// Steps of each search. The interval of possible drifts shrinks below any difference in ns.
const STEPS: u32 = 100;

/// A collective, by the clock of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The last arrival of a rank of the machine, ns.
    pub last_arrival_ns: u64,
    /// The first departure of a rank of the machine, ns.
    pub first_departure_ns: u64,
}

/// What is added to the times of a machine to get times of the reference machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shift {
    /// The time of the machine's clock at which `offset_ns` is exact.
    pub at_ns: u64,
    /// The difference at that time.
    pub offset_ns: i64,
    /// By how much the difference grows, ns for each ns.
    pub drift: f64,
}

impl Shift {
    /// A time of the machine, by the clock of the reference machine.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "drifts are small, and times in ns far below 2^63"
    )]
    pub fn apply(&self, time_ns: u64) -> u64 {
        let since_ns = difference(time_ns, self.at_ns) as f64;
        let drifted_ns = (self.drift * since_ns).round() as i64;
        time_ns.saturating_add_signed(self.offset_ns.saturating_add(drifted_ns))
    }
}

/// The result of an alignment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alignment {
    /// From the machine's clock to the clock of the reference machine.
    pub shift: Shift,
    /// The largest error that the shift may have between the first and the last collective, ns.
    pub uncertainty_ns: u64,
    /// The number of collectives by which the clocks were aligned.
    pub meetings: u64,
}

/// Why two clocks cannot be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unaligned {
    /// There is no collective whose arrivals and departures were seen on both machines.
    NoMeeting,
    /// No offset, with or without drift, fits all collectives.
    Contradiction,
}

impl fmt::Display for Unaligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMeeting => {
                "there is no collective on MPI_COMM_WORLD of which all arrivals and all departures \
                 were recorded on both"
            }
            Self::Contradiction => {
                "their collectives contradict each other: with every offset of the clocks, also with \
                 a steady drift of up to 1000 parts per million, some rank leaves a collective before the last one has come"
            }
        })
    }
}

/// A bound of the offset at a time of the machine's clock, both relative to the first bound.
type Point = (i64, i64);

/// All bounds of the offset between two clocks. Keeps those alone that limit some straight line.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The time and the offset of the first bound, ns.
    first: Option<(u64, i64)>,
    /// The offset is above all of these.
    below: Vec<Point>,
    /// The offset is below all of these.
    above: Vec<Point>,
    meetings: u64,
}

impl Bounds {
    /// Takes in a collective, by the clock of the reference machine and by that of the other one.
    /// Collectives come in their order.
    pub fn add(&mut self, reference: Meeting, other: Meeting) {
        let (low_at, high_at) = (other.first_departure_ns, other.last_arrival_ns);
        let low = difference(reference.last_arrival_ns, low_at);
        let high = difference(reference.first_departure_ns, high_at);
        let (at_ns, offset_ns) = *self.first.get_or_insert((high_at, low));
        let point = |at, bound: i64| (difference(at, at_ns), bound.saturating_sub(offset_ns));
        push(&mut self.below, point(low_at, low), 1);
        push(&mut self.above, point(high_at, high), -1);
        self.meetings += 1;
    }

    /// The offset that fits all collectives: a constant one if there is one, else with a constant
    /// drift.
    ///
    /// # Errors
    /// There are no bounds, or they contradict each other.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "offsets in ns are far below 2^63"
    )]
    pub fn align(&self) -> Result<Alignment, Unaligned> {
        let (at_ns, first_ns) = self.first.ok_or(Unaligned::NoMeeting)?;
        let drift = if self.room(0.0) >= 0.0 {
            0.0
        } else {
            highest((-MOST_DRIFT, MOST_DRIFT), |drift| self.room(drift))
        };
        if self.room(drift) < 0.0 {
            return Err(Unaligned::Contradiction);
        }
        let offset = f64::midpoint(self.low(drift), self.high(drift));
        let shift = Shift {
            at_ns,
            offset_ns: first_ns.saturating_add(offset.round() as i64),
            drift,
        };
        // Each drift for which there is an offset is possible.
        let drifts = (self.edge(drift, -MOST_DRIFT), self.edge(drift, MOST_DRIFT));
        let ends = [
            self.above.first().map_or(0, |point| point.0),
            self.below.last().map_or(0, |point| point.0),
        ];
        let errors = ends.into_iter().flat_map(|at| {
            let at = at as f64;
            let chosen = offset + drift * at;
            let high = |drift: f64| self.high(drift) + drift * at;
            let low = |drift: f64| -(self.low(drift) + drift * at);
            [
                high(highest(drifts, high)) - chosen,
                low(highest(drifts, low)) + chosen,
            ]
        });
        Ok(Alignment {
            shift,
            uncertainty_ns: errors.fold(0.0, f64::max).ceil() as u64,
            meetings: self.meetings,
        })
    }

    /// The lowest offset that fits a drift.
    fn low(&self, drift: f64) -> f64 {
        let all = self.below.iter();
        all.map(|(at, bound)| *bound as f64 - drift * *at as f64)
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// The highest offset that fits a drift.
    fn high(&self, drift: f64) -> f64 {
        let all = self.above.iter();
        all.map(|(at, bound)| *bound as f64 - drift * *at as f64)
            .fold(f64::INFINITY, f64::min)
    }

    /// How many offsets fit a drift; below 0 if none does.
    fn room(&self, drift: f64) -> f64 {
        self.high(drift) - self.low(drift)
    }

    /// The drift furthest from `good` towards `limit` that still has an offset, where `good` has one.
    fn edge(&self, good: f64, limit: f64) -> f64 {
        if self.room(limit) >= 0.0 {
            return limit;
        }
        let (mut good, mut bad) = (good, limit);
        for _ in 0..STEPS {
            let middle = f64::midpoint(good, bad);
            if self.room(middle) >= 0.0 {
                good = middle;
            } else {
                bad = middle;
            }
        }
        good
    }
}

#[allow(clippy::cast_possible_truncation, reason = "clamped to 64 bits")]
fn difference(a: u64, b: u64) -> i64 {
    (i128::from(a) - i128::from(b)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Adds a point to a hull: the points that some line above all points touches (`side` 1), or some line
/// below all (`side` -1).
fn push(hull: &mut Vec<Point>, new: Point, side: i128) {
    while let [.., (ax, ay), (bx, by)] = hull[..] {
        let wide = |high: i64, low: i64| i128::from(high) - i128::from(low);
        // Whether the last point lies on the line's other side.
        let product = |a: i128, b: i128| a.saturating_mul(b);
        let turn = product(wide(bx, ax), wide(new.1, ay))
            .saturating_sub(product(wide(by, ay), wide(new.0, ax)));
        if turn.signum() * side < 0 {
            break;
        }
        hull.pop();
    }
    hull.push(new);
}

/// Where a function that rises and then falls is highest.
fn highest((mut from, mut to): (f64, f64), of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..STEPS {
        let third = (to - from) / 3.0;
        if of(from + third) < of(to - third) {
            from += third;
        } else {
            to -= third;
        }
    }
    f64::midpoint(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const US: u64 = 1_000;

    /// A collective at a true time: on both machines the last rank comes `early` before it, and the
    /// first one goes `late` after it.
    fn meeting(time_ns: u64, early: u64, late: u64) -> Meeting {
        Meeting {
            last_arrival_ns: time_ns - early,
            first_departure_ns: time_ns + late,
        }
    }

    /// Collectives, one each millisecond, with delays that vary; `clock`: the other machine's.
    fn bounds(count: u64, clock: impl Fn(u64) -> u64) -> Bounds {
        let mut bounds = Bounds::default();
        for number in 0..count {
            let time_ns = 100 * S + number * 1_000 * US;
            let delay = |factor: u64| 5 * US + number * factor % 31 * US;
            let reference = meeting(time_ns, delay(7), delay(11));
            let other = meeting(time_ns, delay(13), delay(17));
            bounds.add(
                reference,
                Meeting {
                    last_arrival_ns: clock(other.last_arrival_ns),
                    first_departure_ns: clock(other.first_departure_ns),
                },
            );
        }
        bounds
    }

    /// The largest error of an alignment over the time of the collectives, ns.
    fn error(alignment: &Alignment, count: u64, clock: impl Fn(u64) -> u64) -> u64 {
        let times = (0..count).map(|number| 100 * S + number * 1_000 * US);
        times
            .map(|time| alignment.shift.apply(clock(time)).abs_diff(time))
            .max()
            .unwrap()
    }

    #[test]
    fn a_clock_that_was_set_otherwise_is_shifted() {
        let clocks: [fn(u64) -> u64; 3] = [
            |time| time + 5_000 * S + 123,
            |time| time - 77 * S,
            |time| time,
        ];
        for clock in clocks {
            let alignment = bounds(400, clock).align().unwrap();
            assert_eq!(alignment.meetings, 400);
            assert!(alignment.shift.drift.abs() < 1e-12, "{alignment:?}");
            assert!(alignment.uncertainty_ns <= 60 * US, "{alignment:?}");
            let error = error(&alignment, 400, clock);
            assert!(error <= alignment.uncertainty_ns, "{error} {alignment:?}");
        }
    }

    #[test]
    fn a_clock_that_is_faster_drifts() {
        // 100 parts per million: 2 ms in 20 s.
        let clocks: [fn(u64) -> u64; 2] = [
            |time| time + time / 10_000,
            |time| time - time / 10_000 + 9 * S,
        ];
        for clock in clocks {
            let alignment = bounds(20_000, clock).align().unwrap();
            let drift = alignment.shift.drift.abs();
            assert!((0.99e-4..1.01e-4).contains(&drift), "{alignment:?}");
            let error = error(&alignment, 20_000, clock);
            assert!(
                error <= alignment.uncertainty_ns + 1,
                "{error} {alignment:?}"
            );
            assert!(alignment.uncertainty_ns < 20 * US, "{alignment:?}");
        }
    }

    #[test]
    fn a_drift_that_fits_a_constant_offset_is_within_the_uncertainty() {
        // 1 part per million: 5 µs in 5 s.
        let clock = |time: u64| time + time / 1_000_000;
        let alignment = bounds(5_000, clock).align().unwrap();
        let error = error(&alignment, 5_000, clock);
        assert!(
            error <= alignment.uncertainty_ns + 1,
            "{error} {alignment:?}"
        );
    }

    #[test]
    fn one_collective_gives_half_of_its_width() {
        let mut bounds = Bounds::default();
        bounds.add(meeting(S, 10, 10), meeting(3 * S, 10, 10));
        let alignment = bounds.align().unwrap();
        assert_eq!(alignment.shift.apply(3 * S), S);
        assert!(
            (20..=21).contains(&alignment.uncertainty_ns),
            "{alignment:?}"
        );
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        assert_eq!(Bounds::default().align(), Err(Unaligned::NoMeeting));
        // The clock is set anew in the middle.
        let clock = |time: u64| time + if time > 101 * S { S } else { 0 };
        assert_eq!(bounds(2_000, clock).align(), Err(Unaligned::Contradiction));
        // Ranks leave before the last one has come.
        let mut bounds = Bounds::default();
        let early = Meeting {
            last_arrival_ns: 2 * S,
            first_departure_ns: S,
        };
        bounds.add(early, early);
        assert_eq!(bounds.align(), Err(Unaligned::Contradiction));
    }

    #[test]
    fn few_of_many_bounds_are_kept() {
        let bounds = bounds(100_000, |time| time + time / 10_000);
        let kept = bounds.below.len() + bounds.above.len();
        assert!(kept < 100, "{kept}");
    }
}
