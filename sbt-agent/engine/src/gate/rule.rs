//! Rules and how they are typed: `10%`, or for one site `lu.c:690:10%`.

use std::time::Duration;

use crate::{
    pattern::Pattern,
    report::{Figure, kinds::kinds},
    value::{self, duration_text},
};

kinds! {
    /// The name of a rule.
    closed pub enum RuleName {
        /// The imbalance of the work has an upper limit.
        MaxImbalance = "max-imbalance",
        /// The share of their time for which threads wait for each other has an upper limit.
        MaxIdle = "max-idle",
        /// The share of their time for which threads do useful work has a lower limit.
        MinEfficiency = "min-efficiency",
        /// Mean work / largest work of a thread has a lower limit.
        MinLoadBalance = "min-load-balance",
        /// The time from the first to the last arrival has an upper limit.
        MaxBarrierTime = "max-barrier-time",
        /// The time from last arrival to last arrival has an upper limit.
        MaxPhase = "max-phase",
        /// The number of complete episodes has a lower limit.
        MinEpisodes = "min-episodes",
        /// No hang is longer than the limit.
        NoHang = "no-hang",
        /// The share of lost events has an upper limit.
        MaxLost = "max-lost",
        /// Nothing takes longer than in an earlier run.
        Baseline = "baseline",
        /// The program does not fail.
        Program = "program",
        /// The recording is complete; only present if something is missing.
        Complete = "complete",
    }
}

kinds! {
    /// The unit of a measured value and its limit.
    closed pub enum Unit {
        /// A percentage of a whole.
        Pct = "pct",
        /// A fraction of 1.
        Share = "share",
        /// A time in nanoseconds.
        Ns = "ns",
        /// A number of things.
        Count = "count",
        /// An exit status.
        Status = "status",
    }
}

/// The quantity that a rule limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Imbalance of the work, averaged over the episodes.
    Imbalance,
    /// Share of their time for which threads wait for each other.
    Idle,
    /// Share of their time for which threads do useful work.
    Efficiency,
    /// Mean work / largest work of a thread.
    LoadBalance,
    /// Time from the first to the last arrival.
    BarrierTime,
    /// Time from the last arrival of the previous episode to the last arrival.
    Phase,
    /// Number of complete episodes.
    Episodes,
}

impl Measure {
    /// All measures.
    pub const ALL: [Self; 7] = [
        Self::Imbalance,
        Self::Idle,
        Self::Efficiency,
        Self::LoadBalance,
        Self::BarrierTime,
        Self::Phase,
        Self::Episodes,
    ];

    /// The rule that limits this measure.
    pub const fn rule(self) -> RuleName {
        match self {
            Self::Imbalance => RuleName::MaxImbalance,
            Self::Idle => RuleName::MaxIdle,
            Self::Efficiency => RuleName::MinEfficiency,
            Self::LoadBalance => RuleName::MinLoadBalance,
            Self::BarrierTime => RuleName::MaxBarrierTime,
            Self::Phase => RuleName::MaxPhase,
            Self::Episodes => RuleName::MinEpisodes,
        }
    }

    /// The rule's name: that of its option, and of its key in `sbt.toml`.
    pub const fn name(self) -> &'static str {
        self.rule().name()
    }

    /// Whether the limit is an upper one: values above it break the rule. Otherwise values below it
    /// do.
    pub const fn is_upper(self) -> bool {
        matches!(
            self,
            Self::Imbalance | Self::Idle | Self::BarrierTime | Self::Phase
        )
    }

    /// Whether the measure is a share that may be large although hardly any time is lost.
    pub const fn is_of_waiting(self) -> bool {
        matches!(self, Self::Imbalance | Self::Idle)
    }

    /// Whether a rule without a site applies to the whole run rather than to each site.
    pub const fn is_of_the_run(self) -> bool {
        matches!(self, Self::Efficiency | Self::LoadBalance | Self::Episodes)
    }

    /// An example of a limit as a user types it.
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
                .ok_or_else(|| "expected a share from 0 to 1".into()),
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

/// A value of a measure, or a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Percent.
    Percent(f64),
    /// A fraction of 1.
    Share(f64),
    /// Nanoseconds.
    Time(u64),
    /// A number of things.
    Count(u64),
}

impl Amount {
    /// The unit of the value.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Percent(_) => Unit::Pct,
            Self::Share(_) => Unit::Share,
            Self::Time(_) => Unit::Ns,
            Self::Count(_) => Unit::Count,
        }
    }

    /// The value without its unit.
    pub const fn figure(self) -> Figure {
        match self {
            Self::Percent(number) | Self::Share(number) => Figure::Real(number),
            Self::Time(number) | Self::Count(number) => Figure::Whole(number),
        }
    }

    /// The value as a number, to be compared with others of its kind.
    pub const fn number(self) -> f64 {
        match self {
            Self::Percent(number) | Self::Share(number) => number,
            Self::Time(number) | Self::Count(number) => number as f64,
        }
    }

    /// The value as a user types it.
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
    /// The limited quantity.
    pub measure: Measure,
    /// The sites to which the limit applies; `None` for all.
    pub site: Option<Pattern>,
    /// The last value with which the rule holds.
    pub limit: Amount,
}

impl Rule {
    /// Reads `[SITE:]LIMIT`. The limit follows the last colon: sites contain colons, limits do not,
    /// and a limit with a unit cannot be a line number. For phases, an equals sign may replace the
    /// colon.
    ///
    /// # Errors
    ///
    /// A line with what is wrong and an example of what is right.
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

    /// The rule as a user types it, without the name of the option.
    pub fn typed(&self) -> String {
        let limit = self.limit.typed();
        match &self.site {
            Some(site) => format!("{site}:{limit}"),
            None => limit,
        }
    }
}

/// Reads a percentage. The sign is required: a bare number may be a fraction of 1.
///
/// # Errors
///
/// The text is no percentage.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    number
        .and_then(|number| number.parse::<f64>().ok())
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "expected a percentage with the % sign".into())
}

/// Reads the percentage of events that may be lost.
///
/// # Errors
///
/// The text is no percentage.
pub fn lost(text: &str) -> Result<f64, String> {
    percent(text).map_err(|error| format!("{error}, such as 0.1%"))
}

/// The longest time that a look at missing threads takes, from when it is due to its result: it
/// begins with the next tick, and takes time itself.
pub const LOOK: Duration = Duration::from_millis(900);

/// The shortest limit for which a standstill can be reported in time.
const SHORTEST: Duration = Duration::from_secs(1);

/// The outcomes of a look that `--no-hang` counts as a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHang {
    /// For how long threads may stand still.
    pub limit: Duration,
    /// Whether a program that waits for the outside, as for input, counts as well.
    pub strict: bool,
}

/// Reads how long threads may stand still: `30s`, or `30s,strict`, or `strict` for 30 s.
///
/// # Errors
///
/// The text is no time with a unit, or the time is too short.
pub fn no_hang(text: &str) -> Result<NoHang, String> {
    const STRICT: &str = "strict";
    const USUAL: &str = "30s";
    let (text, strict) = match text.split_once(',') {
        _ if text == STRICT => (USUAL, true),
        Some((text, STRICT)) => (text, true),
        _ => (text, false),
    };
    let limit = time(text).map_err(|error| format!("{error}, such as 30s"))?;
    if limit < SHORTEST {
        return Err(
            "expected 1s or more, such as 30s: to find the missing threads takes most of a second"
                .into(),
        );
    }
    Ok(NoHang { limit, strict })
}

/// After what time without an arrival sbt has to look so that its finding is there when `limit` is
/// reached: the program may be ended then.
pub fn look_after(limit: Duration) -> Duration {
    limit.saturating_sub(LOOK).max(Duration::from_millis(1))
}

/// Reads a time with its unit. The unit is required, since seconds and milliseconds are easily
/// confused.
fn time(text: &str) -> Result<Duration, String> {
    if text.ends_with(|c: char| c.is_ascii_digit() || c == '.') || text.is_empty() {
        return Err("expected a time with its unit".into());
    }
    value::milliseconds(text).map_err(|error| match error.split_once(" such as ") {
        Some((what, _)) => what.to_owned(),
        None => error,
    })
}

/// All that the user asks of a check, from one source or several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckRules {
    /// The limits.
    pub rules: Vec<Rule>,
    /// For how long a barrier may stand still; `None` without a limit.
    pub no_hang: Option<Duration>,
    /// Whether a program that waits for the outside for so long fails, too.
    pub strict_hang: bool,
    /// Percentage of events that may be lost; `None` for the default.
    pub max_lost: Option<f64>,
    /// Percentage by which the run may be slower than its baseline; `None` for the default.
    pub tolerance: Option<f64>,
    /// Whether incomplete or damaged recordings are judged too, also as the baseline.
    pub allow_incomplete: bool,
}

impl CheckRules {
    /// The union of both; where both ask the same, `stronger` wins.
    #[must_use]
    pub fn with(mut self, stronger: Self) -> Self {
        let same = |a: &Rule, b: &Rule| a.measure == b.measure && a.site == b.site;
        self.rules
            .retain(|weak| !stronger.rules.iter().any(|strong| same(weak, strong)));
        self.rules.extend(stronger.rules);
        Self {
            rules: self.rules,
            no_hang: stronger.no_hang.or(self.no_hang),
            strict_hang: if stronger.no_hang.is_some() {
                stronger.strict_hang
            } else {
                self.strict_hang
            },
            max_lost: stronger.max_lost.or(self.max_lost),
            tolerance: stronger.tolerance.or(self.tolerance),
            allow_incomplete: stronger.allow_incomplete || self.allow_incomplete,
        }
    }

    /// Whether there is nothing to check.
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
            (Measure::Idle, "101%", "percentage"),
            (Measure::Idle, "-1%", "percentage"),
            (Measure::Idle, "NaN%", "percentage"),
            (Measure::Idle, ":10%", "expected file.c:120"),
            (Measure::Idle, "lu.c:0:10%", "line"),
            (Measure::Efficiency, "80%", "such as 0.8"),
            (Measure::Efficiency, "1.1", "share from 0 to 1"),
            (Measure::Efficiency, "lu.c:690", "share from 0 to 1"),
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
        for (text, seconds, strict) in [
            ("5s,strict", 5, true),
            ("strict", 30, true),
            ("5s", 5, false),
        ] {
            let limit = Duration::from_secs(seconds);
            assert_eq!(no_hang(text).unwrap(), NoHang { limit, strict }, "{text}");
        }
        assert!(no_hang("5s,loose").is_err());
        let limit = no_hang("1s").unwrap().limit;
        assert!(look_after(limit) > Duration::ZERO && look_after(limit) + LOOK <= limit);
        assert!(
            no_hang("9999999999h").unwrap_err().contains("too long"),
            "it is above zero"
        );
        assert!(lost("0.1").unwrap_err().contains("such as 0.1%"));
    }

    #[test]
    fn who_speaks_of_the_same_rule_replaces_it() {
        let of = |texts: &[&str]| CheckRules {
            rules: texts.iter().map(|text| rule(Measure::Idle, text)).collect(),
            max_lost: Some(texts.len() as f64),
            ..CheckRules::default()
        };
        let both = of(&["10%", "a:10%", "b:10%"]).with(of(&["20%", "a:20%"]));
        let rules: Vec<String> = both.rules.iter().map(Rule::typed).collect();
        assert_eq!(rules, ["b:10%", "20%", "a:20%"]);
        assert_eq!(both.max_lost, Some(2.0));
        assert!(!both.is_empty());
        // A tolerance alone permits something, and requires nothing.
        let tolerance = CheckRules {
            tolerance: Some(10.0),
            ..CheckRules::default()
        };
        assert!(tolerance.is_empty());
        let kept = of(&["10%"]).with(tolerance);
        assert_eq!((kept.max_lost, kept.tolerance), (Some(1.0), Some(10.0)));
    }
}
