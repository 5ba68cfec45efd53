//! Outcomes of rules: the data that every view is drawn from.

use serde::Serialize;

use super::{Amount, Rule, RuleName, Unit};
use crate::report::{Figure, Report, SCHEMA, SiteReport, Word, kinds::kinds};

kinds! {
    /// The result of a check, or of a rule; the later ones in this list are worse.
    closed pub enum Status {
        /// All rules hold.
        Holds = "holds",
        /// A rule is broken, or could not be measured.
        Broken = "broken",
        /// Too much was lost to judge.
        Lost = "lost",
        /// The program has failed.
        Failed = "failed",
        /// The program hung, or stood still for too long.
        Hangs = "hangs",
    }
}

impl Status {
    /// The exit status of `sbt check`. The worst status of several is the most informative: a
    /// hanging program was killed and so has failed; a failed program may have shown little; and
    /// unseen events need not break a rule.
    pub const fn exit(self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::Broken => 1,
            Self::Hangs => 3,
            Self::Failed => 4,
            Self::Lost => 5,
        }
    }
}

/// The output of `sbt check --json`: the outcome of each rule at each site. `null` means unknown or
/// not measured, never 0. Fields may be added.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "sbt check"))]
pub struct CheckReport {
    /// Version of these fields, as in reports.
    pub schema: u32,
    /// Version of sbt.
    pub version: Word,
    /// The program's command line.
    pub command: Vec<String>,
    /// The time at which watching began, ns since 1970 (UTC).
    pub start_unix_ns: u64,
    /// How long the program was watched, ns.
    pub wall_ns: u64,
    /// Exit status of the program, 128 + N if signal N ended it; null if it is unknown.
    pub program_status: Option<u8>,
    /// The worst result of a rule.
    pub result: Status,
    /// The exit status of `sbt check`: 0 if all rules hold, 3 if the program hung or stood still
    /// for too long, 4 if it has failed, 5 if too much was lost to judge, 1 if rules are broken.
    pub exit_status: u8,
    /// Number of `outcomes` that do not hold.
    pub failures: usize,
    /// The outcome of each rule at each site, the worst first.
    pub outcomes: Vec<Outcome>,
}

impl CheckReport {
    /// All outcomes of one report.
    pub fn new(report: &Report, mut outcomes: Vec<Outcome>) -> Self {
        // The sort is stable: outcomes with the same status stay in the order of the rules.
        outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.status));
        let worst = outcomes
            .first()
            .map_or(Status::Holds, |outcome| outcome.status);
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            command: report.run.command.clone(),
            start_unix_ns: report.run.start_unix_ns,
            wall_ns: report.run.wall_ns,
            program_status: report.run.exit_status,
            result: worst,
            exit_status: worst.exit(),
            failures: outcomes.iter().filter(|outcome| !outcome.holds).count(),
            outcomes,
        }
    }
}

/// The outcome of a rule at a site or in the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Outcome {
    /// The rule that was checked.
    pub rule: RuleName,
    /// The rule in words, with its limit and site: the same in every run. It is also the name of
    /// the case in JUnit.
    pub case: String,
    /// Whether the rule holds. It may hold beyond its limit; `text` then says why.
    pub holds: bool,
    /// The meaning of a rule that does not hold: `broken`, `hangs`, `failed` or `lost`; `holds` for
    /// other rules.
    #[serde(rename = "means")]
    pub status: Status,
    /// Whether the rule could be measured; if not, it does not hold.
    pub is_measured: bool,
    /// The site's name, or its places. If no site was found, what was asked for. Null for the whole
    /// run.
    pub site: Option<String>,
    /// Source file of the site's first place; null if there is none or it is unknown.
    pub file: Option<String>,
    /// The line of the site's first place; null if it is unknown.
    pub line: Option<u32>,
    /// The unit of the figures.
    pub unit: Unit,
    /// The measured value; null if it was not measured, and for `no-hang` if nothing hung.
    pub measured: Option<Figure>,
    /// The limit: the last value with which the rule holds.
    pub limit: Figure,
    /// Whether the limit is an upper one: values above it break the rule. Otherwise values below it
    /// do.
    pub is_upper: bool,
    /// The mean of times, ns; `measured` is their 95th percentile. Null for other measures.
    pub mean_ns: Option<u64>,
    /// Why the rule does not hold, or other remarks.
    pub text: Option<String>,
}

impl Outcome {
    /// An outcome for the whole run that has not been measured yet.
    pub fn of_run(rule: RuleName, unit: Unit, limit: Figure) -> Self {
        Self {
            rule,
            case: format!("{rule} {}", amount_text(unit, limit)),
            holds: false,
            status: Status::Broken,
            is_measured: false,
            site: None,
            file: None,
            line: None,
            unit,
            measured: None,
            limit,
            is_upper: true,
            mean_ns: None,
            text: None,
        }
    }

    /// An outcome of a rule that has not been measured yet.
    pub fn of_rule(rule: &Rule) -> Self {
        let Rule { measure, limit, .. } = rule;
        let outcome = Self::of_run(measure.rule(), limit.unit(), limit.figure());
        let at = rule.site.as_ref().map(|site| format!(" at {site}"));
        Self {
            is_upper: measure.is_upper(),
            case: format!("{}{}", outcome.case, at.unwrap_or_default()),
            ..outcome
        }
    }

    /// Sets the name, which must not depend on figures of this run.
    #[must_use]
    pub fn called(self, case: impl Into<String>) -> Self {
        Self {
            case: case.into(),
            ..self
        }
    }

    /// Adds a name that distinguishes this outcome from others of the same rule.
    #[must_use]
    pub fn one_of(self, name: &str) -> Self {
        Self {
            case: format!("{} at {name}", self.case),
            ..self
        }
    }

    /// Sets the site.
    #[must_use]
    pub fn at(self, site: &SiteReport) -> Self {
        Self {
            site: Some(site.called()),
            file: site.file.clone(),
            line: site.line,
            ..self
        }
    }

    /// Sets the measured value; the rule holds if that is within the limit.
    #[must_use]
    pub fn found(self, amount: Amount) -> Self {
        let (is, limit) = (amount.number(), number(self.limit));
        let holds = if self.is_upper {
            is <= limit
        } else {
            is >= limit
        };
        Self {
            holds,
            status: if holds { Status::Holds } else { self.status },
            is_measured: true,
            measured: Some(amount.figure()),
            ..self
        }
    }

    /// The rule cannot be measured, and so does not hold.
    #[must_use]
    pub fn unknown(self, why: impl Into<String>) -> Self {
        Self {
            text: Some(format!("cannot be measured: {}", why.into())),
            ..self
        }
    }

    /// Too much was lost or unseen to measure the rule: it neither holds nor is broken.
    #[must_use]
    pub fn lost(self, why: impl Into<String>) -> Self {
        Self {
            status: Status::Lost,
            ..self.unknown(why)
        }
    }

    /// The outcome in a sentence.
    pub fn sentence(&self) -> String {
        let measured = self.measured.map(|figure| {
            let [is, limit] = self.texts(figure);
            match (self.unit, self.is_upper) {
                (Unit::Status, _) => format!("ended with {is} instead of {limit}"),
                (_, true) => format!("is {is}, at most {limit} is allowed"),
                (_, false) => format!("is {is}, at least {limit} is required"),
            }
        });
        let at = self.site.as_ref().map(|site| format!("{site}: "));
        let what = match (measured, &self.text) {
            (Some(measured), Some(text)) => format!("{measured}; {text}"),
            (Some(one), None) => one,
            (None, Some(one)) => one.clone(),
            (None, None) => String::new(),
        };
        format!("{}{} {what}", at.unwrap_or_default(), self.rule)
    }

    /// The measured value and the limit, in units for people. If the values differ, the texts
    /// differ.
    pub fn texts(&self, measured: Figure) -> [String; 2] {
        let limit = amount_text(self.unit, self.limit);
        let is = amount_text(self.unit, measured);
        let differ = number(measured).total_cmp(&number(self.limit)).is_ne();
        if is != limit || !differ {
            return [is, limit];
        }
        match measured {
            Figure::Whole(ns) if self.unit == Unit::Ns => {
                // As few more digits as tell the two apart.
                let longer = (3..=9).map(|digits| time_with(ns, digits));
                let other = longer.into_iter().find(|text| *text != limit);
                [other.unwrap_or(is), limit]
            }
            Figure::Real(real) if self.unit == Unit::Pct => [format!("{real} %"), limit],
            Figure::Real(real) => [real.to_string(), limit],
            Figure::Whole(_) => [is, limit],
        }
    }
}

fn number(figure: Figure) -> f64 {
    match figure {
        Figure::Whole(number) => number as f64,
        Figure::Real(number) => number,
    }
}

/// A figure with its unit, rounded to about three digits.
fn amount_text(unit: Unit, figure: Figure) -> String {
    match (unit, figure) {
        (Unit::Ns, Figure::Whole(ns)) => time_text(ns),
        (Unit::Pct, figure) => {
            let pct = number(figure);
            // Shares below 1 % get more digits.
            let steps = if pct < 1.0 { 1000.0 } else { 10.0 };
            format!("{} %", rounded(pct, steps))
        }
        (Unit::Share, figure) => rounded(number(figure), 1000.0).to_string(),
        (_, Figure::Whole(count)) => count.to_string(),
        (_, Figure::Real(real)) => real.to_string(),
    }
}

fn rounded(number: f64, steps: f64) -> f64 {
    (number * steps).round() / steps
}

/// A time in a suitable unit.
fn in_unit(ns: u64) -> (f64, &'static str) {
    let (unit, of) = match ns {
        0..1_000 => ("ns", 1.0),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    (ns as f64 / of, unit)
}

/// A time in a suitable unit, with so many digits after the point at most.
fn time_with(ns: u64, digits: i32) -> String {
    let (number, unit) = in_unit(ns);
    format!("{} {unit}", rounded(number, 10_f64.powi(digits)))
}

/// A time in a suitable unit, with three digits.
pub fn time_text(ns: u64) -> String {
    let (number, unit) = in_unit(ns);
    let steps = match number {
        0.0..10.0 => 100.0,
        10.0..100.0 => 10.0,
        _ => 1.0,
    };
    format!("{} {unit}", rounded(number, steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Measure;

    fn outcome(measure: Measure, limit: &str) -> Outcome {
        Outcome::of_rule(&Rule::parse(measure, limit).unwrap())
    }

    #[test]
    fn limits_hold_at_the_limit() {
        for (measure, limit, amount, holds) in [
            (Measure::Idle, "10%", Amount::Percent(10.0), true),
            (Measure::Idle, "10%", Amount::Percent(10.001), false),
            (Measure::Efficiency, "0.8", Amount::Share(0.8), true),
            (Measure::Efficiency, "0.8", Amount::Share(0.799), false),
            (Measure::Phase, "1ms", Amount::Time(1_000_000), true),
            (Measure::Phase, "1ms", Amount::Time(1_000_001), false),
            (Measure::Episodes, "5", Amount::Count(4), false),
            (Measure::Idle, "10%", Amount::Percent(f64::NAN), false),
        ] {
            let outcome = outcome(measure, limit).found(amount);
            assert_eq!(outcome.holds, holds, "{limit} {amount:?}");
            assert_eq!(outcome.status == Status::Holds, holds);
        }
    }

    #[test]
    fn what_breaks_a_limit_by_little_does_not_read_as_if_it_held() {
        for (measure, limit, amount, expected) in [
            (
                Measure::Idle,
                "10%",
                Amount::Percent(51.26),
                ["51.3 %", "10 %"],
            ),
            (
                Measure::Idle,
                "10%",
                Amount::Percent(10.001),
                ["10.001 %", "10 %"],
            ),
            (
                Measure::Efficiency,
                "0.8",
                Amount::Share(0.7111),
                ["0.711", "0.8"],
            ),
            (
                Measure::Efficiency,
                "0.8",
                Amount::Share(0.799_99),
                ["0.79999", "0.8"],
            ),
            (
                Measure::Phase,
                "5ms",
                Amount::Time(12_345_678),
                ["12.3 ms", "5 ms"],
            ),
            (
                Measure::Phase,
                "5ms",
                Amount::Time(5_000_001),
                ["5.000001 ms", "5 ms"],
            ),
            (
                Measure::Phase,
                "2s",
                Amount::Time(2_000_741_813),
                ["2.001 s", "2 s"],
            ),
            (Measure::Phase, "5ms", Amount::Time(900), ["900 ns", "5 ms"]),
            (
                Measure::Phase,
                "5ms",
                Amount::Time(1_500_000_000),
                ["1.5 s", "5 ms"],
            ),
            (Measure::Episodes, "5", Amount::Count(4), ["4", "5"]),
        ] {
            let texts = outcome(measure, limit).texts(amount.figure());
            assert_eq!(texts, expected);
        }
        let lost = Outcome::of_run(RuleName::MaxLost, Unit::Pct, Figure::Real(0.1));
        assert_eq!(lost.case, "max-lost 0.1 %");
    }

    #[test]
    fn one_exit_status_tells_of_all() {
        let order = [
            Status::Holds,
            Status::Broken,
            Status::Lost,
            Status::Failed,
            Status::Hangs,
        ];
        assert!(order.is_sorted());
        assert_eq!(order.map(Status::exit), [0, 1, 5, 4, 3]);
    }
}
