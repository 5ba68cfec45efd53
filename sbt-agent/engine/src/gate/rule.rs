//! What a rule is, and how it is typed: `10%`, or for one site `lu.c:690:10%`.

use std::time::Duration;

use crate::{
    pattern::Pattern,
    report::Figure,
    value::{self, duration_text},
};

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// How uneven the work is, in the mean of the episodes.
    Imbalance,
    /// How much of their time threads wait for each other.
    Idle,
    /// How much of their time threads do something useful.
    Efficiency,
    /// Mean / most work of a thread.
    LoadBalance,
    /// From first to last arrival.
    BarrierTime,
    /// From the last arrival before to the last arrival.
    Phase,
    /// Complete ones.
    Episodes,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Imbalance,
        Self::Idle,
        Self::Efficiency,
        Self::LoadBalance,
        Self::BarrierTime,
        Self::Phase,
        Self::Episodes,
    ];

    /// The rule's name: that of its option, and in `sbt.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Imbalance => "max-imbalance",
            Self::Idle => "max-idle",
            Self::Efficiency => "min-efficiency",
            Self::LoadBalance => "min-load-balance",
            Self::BarrierTime => "max-barrier-time",
            Self::Phase => "max-phase",
            Self::Episodes => "min-episodes",
        }
    }

    /// Whether more than the limit breaks the rule, and not less.
    pub const fn is_upper(self) -> bool {
        matches!(
            self,
            Self::Imbalance | Self::Idle | Self::BarrierTime | Self::Phase
        )
    }

    /// Whether it is a share that may be large where hardly any time is lost.
    pub const fn is_of_waiting(self) -> bool {
        matches!(self, Self::Imbalance | Self::Idle)
    }

    /// Whether without a site it is about the run as a whole, and not about each site.
    pub const fn is_of_the_run(self) -> bool {
        matches!(self, Self::Efficiency | Self::LoadBalance | Self::Episodes)
    }

    /// A limit as it may be typed.
    const fn example(self) -> &'static str {
        match self {
            Self::Imbalance => "25%",
            Self::Idle => "10%",
            Self::Efficiency => "0.8",
            Self::LoadBalance => "0.85",
            Self::BarrierTime => "5ms",
            Self::Phase => "50ms",
            Self::Episodes => "100",
        }
    }

    fn amount(self, text: &str) -> Result<Amount, String> {
        match self {
            Self::Imbalance | Self::Idle => percent(text).map(Amount::Percent),
            Self::Efficiency | Self::LoadBalance => text
                .parse()
                .ok()
                .filter(|share| (0.0..=1.0).contains(share))
                .map(Amount::Share)
                .ok_or_else(|| "expected a share of 1".into()),
            Self::BarrierTime | Self::Phase => {
                let time = time(text)?;
                Ok(Amount::Time(
                    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                ))
            }
            Self::Episodes => text
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Amount::Count)
                .ok_or_else(|| "expected a number above zero".into()),
        }
    }
}

/// How much of something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Per cent.
    Percent(f64),
    /// Of 1.
    Share(f64),
    /// Nanoseconds.
    Time(u64),
    /// How many.
    Count(u64),
}

impl Amount {
    /// The unit, as JSON has it.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Percent(_) => "pct",
            Self::Share(_) => "share",
            Self::Time(_) => "ns",
            Self::Count(_) => "count",
        }
    }

    /// The number alone.
    pub const fn figure(self) -> Figure {
        match self {
            Self::Percent(number) | Self::Share(number) => Figure::Real(number),
            Self::Time(number) | Self::Count(number) => Figure::Whole(number),
        }
    }

    /// To be compared with others of its kind.
    pub const fn number(self) -> f64 {
        match self {
            Self::Percent(number) | Self::Share(number) => number,
            Self::Time(number) | Self::Count(number) => number as f64,
        }
    }

    /// As it may be typed.
    pub fn typed(self) -> String {
        match self {
            Self::Percent(number) => format!("{number}%"),
            Self::Share(number) => number.to_string(),
            Self::Time(ns) => duration_text(Duration::from_nanos(ns)),
            Self::Count(number) => number.to_string(),
        }
    }
}

/// A limit, for all sites or for some.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What is limited.
    pub measure: Measure,
    /// Where; without it everywhere.
    pub site: Option<Pattern>,
    /// What still holds.
    pub limit: Amount,
}

impl Rule {
    /// Reads `[SITE:]LIMIT`. The limit is what follows the last colon: sites have colons,
    /// limits have none, and one with a unit is never taken for a line. Of phases an
    /// equals sign will do.
    ///
    /// # Errors
    /// A line with what is wrong and what would be right.
    pub fn parse(measure: Measure, text: &str) -> Result<Self, String> {
        let last = match measure {
            Measure::Phase => text.rfind([':', '=']),
            _ => text.rfind(':'),
        };
        let (site, limit) = match last {
            Some(at) => (Some(&text[..at]), &text[at + 1..]),
            None => (None, text),
        };
        let limit = measure.amount(limit.trim()).map_err(|error| {
            let example = measure.example();
            format!("{error}, such as {example}; for one site SITE:{example}")
        })?;
        Ok(Self {
            measure,
            site: site.map(str::parse).transpose()?,
            limit,
        })
    }

    /// As it may be typed, without the name of the option.
    pub fn typed(&self) -> String {
        let limit = self.limit.typed();
        match &self.site {
            Some(site) => format!("{site}:{limit}"),
            None => limit,
        }
    }
}

/// Reads a share in per cent, which the sign must tell: a bare number may be one of 1.
///
/// # Errors
/// It is none.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    number
        .and_then(|number| number.parse::<f64>().ok())
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "expected a share in per cent, with its sign".into())
}

/// Reads a share of events that may be lost.
///
/// # Errors
/// It is none.
pub fn lost(text: &str) -> Result<f64, String> {
    percent(text).map_err(|error| format!("{error}, such as 0.1%"))
}

/// From when something stands still to when a look that is due then has told who is
/// missing, at most: the look is begun and taken by ticks, and lasts itself.
pub const LOOK: Duration = Duration::from_millis(900);

/// The shortest time of which can be told in time that something stands still.
const SHORTEST: Duration = Duration::from_secs(1);

/// Reads how long a barrier may stand still.
///
/// # Errors
/// It is no time with a unit, or too short.
pub fn no_hang(text: &str) -> Result<Duration, String> {
    let limit = time(text).map_err(|error| format!("{error}, such as 30s"))?;
    if limit < SHORTEST {
        return Err(
            "expected 1s or more, such as 30s: a look at who is missing takes most of a second"
                .into(),
        );
    }
    Ok(limit)
}

/// After how long without an arrival it has to be looked for `limit` to be kept: what was
/// found by then may end the program.
pub fn look_after(limit: Duration) -> Duration {
    limit.saturating_sub(LOOK).max(Duration::from_millis(1))
}

/// A time whose unit is said: seconds and milliseconds are too easily confused.
fn time(text: &str) -> Result<Duration, String> {
    if text.ends_with(|c: char| c.is_ascii_digit() || c == '.') || text.is_empty() {
        return Err("expected a time with its unit".into());
    }
    value::milliseconds(text).map_err(|error| match error.split_once(" such as ") {
        Some((what, _)) => what.to_owned(),
        None => error,
    })
}

/// All that is asked for, from one source or several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Limits.
    pub rules: Vec<Rule>,
    /// For how long no barrier may stand still.
    pub no_hang: Option<Duration>,
    /// Events that may be lost, per cent.
    pub max_lost: Option<f64>,
    /// By how much the run may be worse than its baseline, per cent.
    pub tolerance: Option<f64>,
    /// Also a recording that is cut or damaged is judged, and compared with.
    pub allow_incomplete: bool,
}

impl Asked {
    /// Both; where they speak of the same, what the `stronger` one says.
    #[must_use]
    pub fn with(mut self, stronger: Self) -> Self {
        let same = |a: &Rule, b: &Rule| a.measure == b.measure && a.site == b.site;
        self.rules
            .retain(|weak| !stronger.rules.iter().any(|strong| same(weak, strong)));
        self.rules.extend(stronger.rules);
        Self {
            rules: self.rules,
            no_hang: stronger.no_hang.or(self.no_hang),
            max_lost: stronger.max_lost.or(self.max_lost),
            tolerance: stronger.tolerance.or(self.tolerance),
            allow_incomplete: stronger.allow_incomplete || self.allow_incomplete,
        }
    }

    /// Whether nobody has asked for anything.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.no_hang.is_none() && self.max_lost.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(measure: Measure, text: &str) -> Rule {
        Rule::parse(measure, text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_limit_is_what_follows_the_last_colon() {
        for (measure, text, site, limit) in [
            (Measure::Idle, "10%", None, Amount::Percent(10.0)),
            (
                Measure::Idle,
                "lu.c:690:10%",
                Some("lu.c:690"),
                Amount::Percent(10.0),
            ),
            (
                Measure::Idle,
                "factor:2.5 %",
                Some("factor"),
                Amount::Percent(2.5),
            ),
            (
                Measure::Imbalance,
                "lu!a::b+0x1f:0%",
                Some("lu!a::b+0x1f"),
                Amount::Percent(0.0),
            ),
            (Measure::Efficiency, "0.8", None, Amount::Share(0.8)),
            (
                Measure::LoadBalance,
                "690:1",
                Some(":690"),
                Amount::Share(1.0),
            ),
            (Measure::BarrierTime, "5ms", None, Amount::Time(5_000_000)),
            (
                Measure::Phase,
                "lu.c:690=50ms",
                Some("lu.c:690"),
                Amount::Time(50_000_000),
            ),
            (
                Measure::Phase,
                "A::operator==:1s",
                Some("A::operator=="),
                Amount::Time(1_000_000_000),
            ),
            (
                Measure::Phase,
                "the first part:1.5m",
                Some("the first part"),
                Amount::Time(90_000_000_000),
            ),
            (
                Measure::Episodes,
                "lu.c:690:100",
                Some("lu.c:690"),
                Amount::Count(100),
            ),
        ] {
            let rule = rule(measure, text);
            let found = rule.site.as_ref().map(ToString::to_string);
            assert_eq!(found.as_deref(), site, "{text}");
            assert_eq!(rule.limit, limit, "{text}");
            assert_eq!(rule, Rule::parse(measure, &rule.typed()).unwrap(), "{text}");
        }
    }

    #[test]
    fn what_is_no_limit_is_told_with_what_would_be() {
        for (measure, text, words) in [
            (Measure::Idle, "10", "such as 10%; for one site SITE:10%"),
            (Measure::Idle, "lu.c:690", "such as 10%"),
            (Measure::Idle, "101%", "per cent"),
            (Measure::Idle, "-1%", "per cent"),
            (Measure::Idle, "NaN%", "per cent"),
            (Measure::Idle, ":10%", "expected file.c:120"),
            (Measure::Idle, "lu.c:0:10%", "line"),
            (Measure::Efficiency, "80%", "such as 0.8"),
            (Measure::Efficiency, "1.1", "share of 1"),
            (Measure::Efficiency, "lu.c:690", "share of 1"),
            (Measure::BarrierTime, "5", "with its unit, such as 5ms"),
            (Measure::BarrierTime, "0ms", "above zero, such as 5ms"),
            (Measure::BarrierTime, "5 parsecs", "`parsecs`"),
            (Measure::Phase, "lu.c:690=", "with its unit, such as 50ms"),
            (Measure::Episodes, "0", "above zero"),
            (Measure::Episodes, "1.5", "a number"),
        ] {
            let error = Rule::parse(measure, text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(no_hang("30").unwrap_err().contains("such as 30s"));
        for short in ["1us", "999ms"] {
            assert!(no_hang(short).unwrap_err().contains("1s or more"));
        }
        let limit = no_hang("1s").unwrap();
        assert!(look_after(limit) > Duration::ZERO && look_after(limit) + LOOK <= limit);
        assert!(
            no_hang("9999999999h").unwrap_err().contains("too long"),
            "it is above zero"
        );
        assert!(lost("0.1").unwrap_err().contains("such as 0.1%"));
    }

    #[test]
    fn who_speaks_of_the_same_rule_replaces_it() {
        let of = |texts: &[&str]| Asked {
            rules: texts.iter().map(|text| rule(Measure::Idle, text)).collect(),
            max_lost: Some(texts.len() as f64),
            ..Asked::default()
        };
        let both = of(&["10%", "a:10%", "b:10%"]).with(of(&["20%", "a:20%"]));
        let rules: Vec<String> = both.rules.iter().map(Rule::typed).collect();
        assert_eq!(rules, ["b:10%", "20%", "a:20%"]);
        assert_eq!(both.max_lost, Some(2.0));
        assert!(!both.is_empty());
        // A tolerance alone allows, and asks for nothing.
        let tolerance = Asked {
            tolerance: Some(10.0),
            ..Asked::default()
        };
        assert!(tolerance.is_empty());
        let kept = of(&["10%"]).with(tolerance);
        assert_eq!((kept.max_lost, kept.tolerance), (Some(1.0), Some(10.0)));
    }
}
