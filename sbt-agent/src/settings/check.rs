//! The table `[check]` of an `sbt.toml`: the rules of `sbt check`, named like its options.

use toml::de::DeValue;

use super::file::{File, Value};
use sbt_engine::value;
use sbt_engine::{
    gate::{CheckRules, Measure, Rule, rule},
    pattern::nearest,
};
use sbt_program::access::NamedFile;

/// The rules of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    /// The limits.
    pub asked: CheckRules,
    /// A recording or report to compare with.
    pub baseline: Option<NamedFile>,
}

impl Gate {
    /// The rules of both; on the same subject the `stronger` one wins.
    #[must_use]
    pub fn with(self, stronger: Self) -> Self {
        Self {
            asked: self.asked.with(stronger.asked),
            baseline: stronger.baseline.or(self.baseline),
        }
    }

    /// Whether there are no rules.
    pub const fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.baseline.is_none()
    }
}

/// The rules that are not limits of a [`Measure`].
const OTHERS: [&str; 4] = ["no-hang", "max-lost", "baseline", "tolerance"];

impl File<'_> {
    /// Reads the table.
    pub(super) fn check(&self, value: &Value) -> Result<Gate, String> {
        let (mut asked, mut baseline) = (CheckRules::default(), None);
        for (key, value) in self.table("check", value)? {
            let name = key.get_ref().as_ref();
            let share = |read: fn(&str) -> Result<f64, String>| {
                let text = self.number_or_text(name, value, "a share such as \"10%\"")?;
                self.read(name, value, &text, read)
            };
            match name {
                "no-hang" => {
                    let text = self.text_of(name, value, "a time such as \"30s\"")?;
                    let time = self.read(name, value, &text, rule::no_hang)?;
                    asked.no_hang = Some(time.value.limit);
                    asked.strict_hang = time.value.strict;
                }
                "max-lost" => asked.max_lost = Some(share(rule::lost)?.value),
                "tolerance" => asked.tolerance = Some(share(value::tolerance)?.value),
                "baseline" => baseline = Some(self.file(name, value)?.value),
                _ => match Measure::ALL.iter().find(|measure| measure.name() == name) {
                    Some(measure) => {
                        let rules = self.limits(*measure, value)?;
                        asked = asked.with(rules);
                    }
                    None => return Err(self.at(&key.span(), &no_such_rule(name))),
                },
            }
        }
        Ok(Gate { asked, baseline })
    }

    /// Reads one limit or a list of limits.
    fn limits(&self, measure: Measure, value: &Value) -> Result<CheckRules, String> {
        let name = measure.name();
        let read = |text: &str| Rule::parse(measure, text);
        let rules = if let DeValue::Array(_) = value.get_ref() {
            self.list(name, value, "[\"25%\", \"lu.c:120:10%\"]", read)?
        } else {
            let text = self.number_or_text(name, value, "a limit, or a list of them")?;
            vec![self.read(name, value, &text, read)?]
        };
        Ok(CheckRules {
            rules: rules.into_iter().map(|given| given.value).collect(),
            ..CheckRules::default()
        })
    }
}

fn no_such_rule(unknown: &str) -> String {
    let known = || Measure::ALL.map(Measure::name).into_iter().chain(OTHERS);
    let near = nearest(unknown, known()).map_or_else(
        || format!("there are {}", known().collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    format!("there is no rule `{unknown}`; {near}")
}
