//! The moment of a recording that is shown: converts the time of the clock to that of the
//! recording. Pure: the caller says what time it is.

use std::{fmt, str::FromStr};

/// The speed of a replay, relative to real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// Real time.
    #[default]
    Real,
    /// Two to this power times real time, from [`SLOWEST`] to [`FASTEST`].
    Power(i8),
    /// As fast as the recording can be read.
    Most,
}

/// The smallest power of two: 1/16.
const SLOWEST: i8 = -4;
/// The largest power of two: 4096.
const FASTEST: i8 = 12;

impl Speed {
    const fn of(power: i8) -> Self {
        if power == 0 {
            Self::Real
        } else {
            Self::Power(power)
        }
    }

    const fn power(self) -> Option<i8> {
        match self {
            Self::Real => Some(0),
            Self::Power(power) => Some(power),
            Self::Most => None,
        }
    }

    /// The speed doubled.
    fn faster(self) -> Self {
        self.power()
            .map_or(self, |power| Self::of((power + 1).min(FASTEST)))
    }

    /// The speed halved.
    fn slower(self) -> Self {
        let power = self.power().map_or(FASTEST, |power| power - 1);
        Self::of(power.max(SLOWEST))
    }

    /// How much of the recording, ns, passes in `ns` of real time.
    fn times(self, ns: u64) -> u64 {
        match self.power() {
            None => u64::MAX,
            Some(power @ 0..) => ns.saturating_mul(1 << power),
            Some(power) => ns >> power.unsigned_abs(),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.power() {
            None => f.write_str("max"),
            Some(power @ 0..) => write!(f, "{}", 1_u32 << power),
            Some(power) => write!(f, "1/{}", 1_u32 << power.unsigned_abs()),
        }
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = (SLOWEST..=FASTEST).map(Self::of).chain([Self::Most]);
        let same = |speed: &Self| speed.to_string() == text;
        // Decimal fractions are accepted too.
        let decimal = |speed: &Self| {
            let power = speed.power().filter(|power| *power < 0);
            power.is_some_and(|power| text.parse() == Ok(2_f64.powi(power.into())))
        };
        known
            .into_iter()
            .find(|speed| same(speed) || decimal(speed))
            .ok_or_else(|| "expected 1/16, 1/8, 1/4, 1/2, 1, 2, 4 … 4096, or max".into())
    }
}

/// The moment that is shown. Times of the recording are ns since its beginning; times of the clock
/// are ns since any fixed moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    speed: Speed,
    is_paused: bool,
    /// Whether the replay goes to the end, regardless of its speed.
    hurries: bool,
    /// The moment of the recording that was shown at `since_ns`.
    at_ns: u64,
    /// The time of the clock at which `at_ns` was shown.
    since_ns: u64,
}

impl Pace {
    /// A replay from the beginning that starts at the time `now_ns`.
    pub const fn new(speed: Speed, now_ns: u64) -> Self {
        Self {
            speed,
            is_paused: false,
            hurries: false,
            at_ns: 0,
            since_ns: now_ns,
        }
    }

    /// The moment to be shown at the time `now_ns`; `u64::MAX` stands for all that can be read.
    pub fn at_ns(&self, now_ns: u64) -> u64 {
        if self.hurries {
            return u64::MAX;
        }
        if self.is_paused {
            return self.at_ns;
        }
        let passed = now_ns.saturating_sub(self.since_ns);
        self.at_ns.saturating_add(self.speed.times(passed))
    }

    /// Sets the moment that is shown at the time `now_ns`: the recording could not be read further,
    /// or the user jumped there.
    pub const fn stand_at(&mut self, at_ns: u64, now_ns: u64) {
        self.at_ns = at_ns;
        self.since_ns = now_ns;
    }

    /// Pauses or continues. `shown_ns` is the moment that is shown now.
    pub const fn toggle(&mut self, shown_ns: u64, now_ns: u64) {
        // A replay on its way to the end is paused where it is.
        self.is_paused = !self.is_paused || self.hurries;
        self.hurries = false;
        self.stand_at(shown_ns, now_ns);
    }

    /// Doubles the speed.
    pub fn faster(&mut self, shown_ns: u64, now_ns: u64) {
        self.stand_at(shown_ns, now_ns);
        self.speed = self.speed.faster();
    }

    /// Halves the speed.
    pub fn slower(&mut self, shown_ns: u64, now_ns: u64) {
        self.stand_at(shown_ns, now_ns);
        self.speed = self.speed.slower();
    }

    /// Goes to the end.
    pub const fn hurry(&mut self) {
        self.hurries = true;
    }

    /// Goes to the beginning; a paused replay stays paused.
    pub const fn begin_again(&mut self, now_ns: u64) {
        self.hurries = false;
        self.stand_at(0, now_ns);
    }

    /// Continues from where the replay is paused.
    pub const fn go_on(&mut self, now_ns: u64) {
        self.is_paused = false;
        self.since_ns = now_ns;
    }

    /// The speed of the replay, also while it is paused.
    pub const fn speed(&self) -> Speed {
        self.speed
    }

    /// Whether the replay is paused.
    pub const fn is_paused(&self) -> bool {
        self.is_paused && !self.hurries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_as_they_are_written() {
        let table = [
            ("1/16", 16, 1),
            ("1/2", 16, 8),
            ("1", 16, 16),
            ("2", 16, 32),
            ("4096", 16, 65_536),
            ("max", 16, u64::MAX),
            ("4096", u64::MAX / 2, u64::MAX),
        ];
        for (text, ns, expected) in table {
            let speed: Speed = text.parse().unwrap();
            assert_eq!(speed.to_string(), text);
            assert_eq!(speed.times(ns), expected, "{text}");
        }
        assert_eq!("0.25".parse(), Ok(Speed::Power(-2)));
        for wrong in ["0", "3", "-1", "8192", "1/32", "fast", "", "NaN", "0.3"] {
            let error = wrong.parse::<Speed>().unwrap_err();
            assert!(error.contains("1/16"), "{wrong}: {error}");
        }
    }

    #[test]
    fn twice_and_half_stop_at_both_ends() {
        let mut speed = Speed::Real;
        let mut seen = Vec::new();
        for _ in 0..14 {
            speed = speed.faster();
            seen.push(speed.to_string());
        }
        assert_eq!(seen[..3], ["2", "4", "8"]);
        assert_eq!(seen[11..], ["4096", "4096", "4096"]);
        for _ in 0..17 {
            speed = speed.slower();
        }
        assert_eq!(speed.to_string(), "1/16");
        assert_eq!(Speed::Most.faster(), Speed::Most);
        assert_eq!(Speed::Most.slower().to_string(), "4096");
    }

    /// A key, or an event of the reader.
    #[derive(Clone, Copy)]
    enum Key {
        Space,
        Plus,
        Minus,
        End,
        Home,
        /// The recording could be read only up to this moment, ms.
        Read(u64),
    }

    #[test]
    fn the_moment_follows_keys_and_time() {
        use Key::{End, Home, Minus, Plus, Read, Space};
        /// Keys with their times, a time, and the moment shown then; all in ms.
        type Row = (&'static [(u64, Key)], u64, u64);
        const MS: u64 = 1_000_000;
        let max = u64::MAX / MS;
        let table: [Row; 12] = [
            (&[], 100, 0),
            (&[], 350, 250),
            (&[(200, Space)], 900, 100),
            (&[(200, Space), (700, Space)], 900, 300),
            (&[(200, Plus)], 300, 300),
            (&[(200, Plus), (300, Plus)], 400, 700),
            (&[(200, Minus)], 300, 150),
            // A new speed has no effect while the replay is paused.
            (&[(200, Space), (300, Plus), (500, Space)], 600, 300),
            (&[(200, End)], 201, max),
            // The replay is paused on its way to the end, where it had come.
            (&[(200, End), (250, Read(800)), (260, Space)], 900, 800),
            (&[(200, Home)], 300, 100),
            // The disk is slow: the replay goes on from what was read.
            (&[(200, Plus), (300, Read(150))], 400, 350),
        ];
        for (number, (keys, at, expected)) in table.into_iter().enumerate() {
            let mut pace = Pace::new(Speed::Real, 100 * MS);
            let mut read = None;
            for (when, key) in keys {
                let now = when * MS;
                let shown = pace.at_ns(now);
                let shown = read.filter(|_| shown == u64::MAX).unwrap_or(shown);
                match key {
                    Space => pace.toggle(shown, now),
                    Plus => pace.faster(shown, now),
                    Minus => pace.slower(shown, now),
                    End => pace.hurry(),
                    Home => pace.begin_again(now),
                    Read(until) => {
                        read = Some(until * MS);
                        pace.stand_at(until * MS, now);
                    }
                }
            }
            assert_eq!(pace.at_ns(at * MS) / MS, expected, "row {number}");
        }
    }

    #[test]
    fn it_stands_still_until_it_goes_on() {
        let mut pace = Pace::new(Speed::Most, 0);
        assert_eq!(pace.at_ns(1), u64::MAX);
        pace.toggle(7, 1);
        assert!(pace.is_paused());
        assert_eq!(pace.at_ns(100), 7);
        pace.begin_again(100);
        assert!(pace.is_paused());
        assert_eq!(pace.at_ns(200), 0);
        pace.hurry();
        assert!(!pace.is_paused());
        pace.begin_again(300);
        assert!(pace.is_paused());
        pace.go_on(300);
        assert_eq!(pace.at_ns(301), u64::MAX);
    }
}
