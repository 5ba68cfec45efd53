//! Reads values as a user types them, and writes them in the same form.

use std::time::Duration;

use clap::ValueEnum;

/// Longer than anybody waits, and short enough to be added to any clock.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);

/// Reads a time whose plain number is seconds: `10`, `10s`, `1.5m`, `500ms`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    duration(text, 1.0, "10s or 500ms")
}

/// Reads a time whose plain number is milliseconds: `1000`, `2s`, `500us`.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    duration(text, 1e-3, "1000, 2s or 500us")
}

/// Reads a time whose plain number is seconds; `off` and `0` are `None`.
pub fn hang_time(text: &str) -> Result<Option<Duration>, String> {
    match text.trim() {
        "off" | "0" | "0s" => Ok(None),
        time => duration(time, 1.0, "10s, or off").map(Some),
    }
}

/// The largest sampling rate, in samples a second: each sample takes some microseconds of the
/// thread's time.
const MAX_SAMPLES: u32 = 10_000;

/// Reads a number of samples a second; 0 for no samples.
pub fn sample(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|hz| *hz <= MAX_SAMPLES)
        .ok_or_else(|| {
            format!("expected samples a second, 1 to {MAX_SAMPLES}, such as 200; 0 takes none")
        })
}

/// Reads a process id.
pub fn process(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|pid| *pid > 0)
        .ok_or_else(|| "expected the number of a process; `ps -e` lists all processes".into())
}

/// Reads a time. `plain` is the unit of a number without one, in seconds.
fn duration(text: &str, plain: f64, example: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "" => plain,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit if !number.is_empty() => {
            return Err(format!("unknown unit `{unit}`; use us, ms, s, m or h"));
        }
        _ => return Err(format!("expected a time such as {example}")),
    };
    let number = number.parse::<f64>().ok();
    let seconds = number.map(|number| number * factor);
    if seconds.is_some_and(|seconds| seconds >= LONGEST.as_secs_f64()) {
        return Err(format!(
            "`{text}` is too long: the longest time is a hundred years; expected a time such as \
             {example}"
        ));
    }
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .map(|exact| Duration::new(exact.as_secs(), exact.subsec_micros() * 1000))
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("expected a time above zero such as {example}"))
}

/// Reads a share in percent: `2`, `0.5%`; `off` and `0` are `None`.
pub fn percent(text: &str) -> Result<Option<f64>, String> {
    if text == "off" {
        return Ok(None);
    }
    text.strip_suffix('%')
        .unwrap_or(text)
        .trim_end()
        .parse::<f64>()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| (percent > 0.0).then_some(percent))
        .ok_or_else(|| "expected a share such as 2%, or off".into())
}

/// Reads a percentage by which something may be longer: `10%`, `0.5`, `150`.
pub fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let number = number.trim_end().parse::<f64>();
    number
        .ok()
        .filter(|percent| percent.is_finite() && *percent >= 0.0)
        .ok_or_else(|| "expected a percentage, such as 10%".into())
}

/// Reads one of the values of an enumeration, such as `auto`, `on` or `off`.
pub fn choice<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let names: Vec<_> = T::value_variants().iter().map(choice_text).collect();
        match names.split_last() {
            Some((last, others)) => format!("expected {} or {last}", others.join(", ")),
            None => "expected nothing".into(),
        }
    })
}

/// Reads `0` or `1`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("expected 0 or 1".into()),
    }
}

/// A value of an enumeration as a user types it.
pub fn choice_text<T: ValueEnum>(choice: &T) -> String {
    choice
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A time in the largest unit that leaves no fraction, as a user types it.
pub fn duration_text(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros.is_multiple_of(1_000_000) {
        format!("{}s", micros / 1_000_000)
    } else if micros.is_multiple_of(1000) {
        format!("{}ms", micros / 1000)
    } else {
        format!("{micros}us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::States;
    use crate::choices::{Departures, Futexes};

    #[test]
    fn durations_take_units() {
        let ms = Duration::from_millis;
        for (text, as_seconds, as_milliseconds) in [
            ("10", 10_000, 10_u64),
            ("1500.0", 1_500_000, 1500),
            ("10s", 10_000, 10_000),
            ("500ms", 500, 500),
            ("2000us", 2, 2),
            ("1.5m", 90_000, 90_000),
            ("2 min", 120_000, 120_000),
            ("1h", 3_600_000, 3_600_000),
        ] {
            assert_eq!(seconds(text), Ok(ms(as_seconds)), "{text}");
            assert_eq!(milliseconds(text), Ok(ms(as_milliseconds)), "{text}");
        }
        assert_eq!(milliseconds("1.5"), Ok(Duration::from_micros(1500)));
        for wrong in [
            "",
            "0",
            "ten",
            "5x",
            "-1",
            "1e400",
            "1.2.3",
            "s",
            "0.1us",
            "99999999999999h",
            "9999999999999999999",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
        for long in ["9999999999h", "18446744073709551615", "99999999999999h"] {
            assert!(seconds(long).unwrap_err().contains("too long"), "{long}");
        }
        assert!(seconds("5x").unwrap_err().contains("`x`"));
        assert!(!seconds("ten").unwrap_err().contains("unit"));
    }

    #[test]
    fn shares_have_one_sign_or_none() {
        assert_eq!(tolerance("10%"), Ok(10.0));
        assert_eq!(tolerance("0.5 %"), Ok(0.5));
        assert_eq!(percent("2"), Ok(Some(2.0)));
        for wrong in ["10%%", "%", "10 % %", ""] {
            assert!(tolerance(wrong).is_err(), "{wrong}");
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wait_may_be_as_long_as_it_likes() {
        assert_eq!(hang_time("off"), Ok(None));
        assert_eq!(hang_time("0"), Ok(None));
        assert_eq!(hang_time("0.5"), Ok(Some(Duration::from_millis(500))));
        assert_eq!(hang_time("2m"), Ok(Some(Duration::from_mins(2))));
        assert!(hang_time("never").unwrap_err().contains("or off"));
        assert!(hang_time("").is_err());
    }

    #[test]
    fn times_are_shown_as_they_may_be_typed() {
        for text in ["1s", "1500ms", "90s", "250us"] {
            assert_eq!(duration_text(seconds(text).unwrap()), text, "{text}");
        }
    }

    #[test]
    fn choices_are_read_as_they_are_shown() {
        for wish in [Departures::Auto, Departures::On, Departures::Off] {
            assert_eq!(choice(&choice_text(&wish)), Ok(wish));
        }
        for wish in [Futexes::Auto, Futexes::On, Futexes::Off] {
            assert_eq!(choice(&choice_text(&wish)), Ok(wish));
        }
        for wish in [States::Light, States::Full, States::Off] {
            assert_eq!(choice(wish.name()), Ok(wish));
            assert_eq!(choice_text(&wish), wish.name());
        }
        assert!(choice::<States>("auto").is_err());
        assert!(choice::<Departures>("perhaps").is_err());
        assert_eq!((switch("0"), switch("1")), (Ok(false), Ok(true)));
        assert!(switch("yes").is_err());
    }
}
