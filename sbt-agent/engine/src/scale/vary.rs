//! Parameters that a series varies beside the number of threads, and the runs that follow.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use serde::Serialize;

use super::counts::{Counts, PLACE, has, put, threads_of};

/// The largest number of combinations of parameters and numbers of threads.
const MOST: usize = 10_000;

/// A parameter and the values that it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Parameter {
    /// The name; `{NAME}` in the command stands for the value.
    pub name: String,
    /// The values, in the order in which the user gave them.
    pub values: Vec<String>,
}

/// One value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Setting {
    /// The name of the parameter.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Setting {
    fn is_in(&self, combination: &[Self]) -> bool {
        combination.contains(self)
    }
}

/// A value of each parameter, in the order of the parameters.
pub type Combination = Vec<Setting>;

/// Reads `NAME=A,B,C`.
///
/// # Errors
///
/// The text does not have this form.
pub fn parameter(text: &str) -> Result<Parameter, String> {
    let form = "expected NAME=VALUE,VALUE, such as size=16,32,64";
    let (name, values) = text.split_once('=').ok_or(form)?;
    let is_name = |c: char| c.is_alphanumeric() || "_-".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!(
            "{form}; a name has letters, digits, `_` and `-` only"
        ));
    }
    if PLACE == format!("{{{name}}}") {
        return Err(format!(
            "{PLACE} is the number of threads: give the numbers with -n {values}"
        ));
    }
    let values: Vec<String> = values
        .split(',')
        .map(|value| value.trim().to_owned())
        .collect();
    if values
        .iter()
        .any(|value| value.is_empty() || value.contains('\0'))
    {
        return Err(format!("{form}; a value is empty"));
    }
    for (at, value) in values.iter().enumerate() {
        if values[..at].contains(value) {
            return Err(format!(
                "{value} is given twice; --repeat runs each value several times"
            ));
        }
    }
    Ok(Parameter {
        name: name.into(),
        values,
    })
}

/// Reads `NAME=VALUE`.
///
/// # Errors
///
/// The text does not have this form.
pub fn setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.trim().is_empty() => Ok(Setting {
            name: name.into(),
            value: value.trim().into(),
        }),
        _ => Err("expected NAME=VALUE, such as version=./serial".into()),
    }
}

/// What a series runs, except for repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The parameters, as the user gave them; the first changes least often.
    pub parameters: Vec<Parameter>,
    /// The numbers of threads; `None` if sbt does not set them.
    pub counts: Option<Counts>,
    /// The value of a parameter with which all others are compared. It runs with one thread.
    pub serial: Option<Setting>,
}

/// A combination with a number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// A value for each parameter.
    pub combination: Combination,
    /// The number of threads; `None` if sbt does not set it.
    pub threads: Option<u32>,
}

impl Plan {
    /// Checks the parameters against each other and against the texts in which they are to be
    /// replaced: the program, its arguments, and the values of its variables.
    ///
    /// # Errors
    ///
    /// One line: what does not fit, and what would.
    pub fn check(&self, texts: &[&OsStr]) -> Result<(), String> {
        for (at, one) in self.parameters.iter().enumerate() {
            let name = &one.name;
            if self.parameters[..at]
                .iter()
                .any(|other| other.name == *name)
            {
                return Err(format!(
                    "--vary {name} is given twice; write all values in one list: --vary \
                     {name}=A,B,C"
                ));
            }
            let place = place(name);
            if !texts.iter().any(|text| has(text, &place)) {
                return Err(format!(
                    "--vary {name} changes nothing; write {place} where the value belongs: in the \
                     program's path, in its arguments, or in --env NAME={place}"
                ));
            }
        }
        if self.counts.is_none() && texts.iter().any(|text| has(text, PLACE)) {
            return Err(format!(
                "{PLACE} is the number of threads; give the numbers with -n, such as -n 1,2,4"
            ));
        }
        if let Some(Setting { name, value }) = &self.serial {
            let known = self.parameters.iter().find(|one| one.name == *name);
            let Some(known) = known else {
                return Err(format!(
                    "--serial {name}={value} needs --vary {name}={value},... with all versions"
                ));
            };
            if !known.values.contains(value) {
                return Err(format!(
                    "--serial {name}={value} is no value of --vary {name}; write --vary \
                     {name}={value},{}",
                    known.values.join(",")
                ));
            }
        }
        let sizes = self.parameters.iter().map(|one| one.values.len());
        let counts = self.counts.as_ref().map_or(1, |counts| counts.0.len());
        let all = sizes.fold(counts, usize::saturating_mul);
        if all > MOST {
            return Err(format!(
                "these are {all} combinations; at most {MOST} can be run"
            ));
        }
        Ok(())
    }

    /// Every combination, in the order of the parameters and of their values.
    pub fn combinations(&self) -> Vec<Combination> {
        let mut all = vec![Vec::new()];
        for Parameter { name, values } in &self.parameters {
            all = all
                .iter()
                .flat_map(|begin: &Combination| {
                    values.iter().map(|value| {
                        let mut longer = begin.clone();
                        longer.push(Setting {
                            name: name.clone(),
                            value: value.clone(),
                        });
                        longer
                    })
                })
                .collect();
        }
        all
    }

    /// Each combination with each number of threads; the serial value with one thread only.
    pub fn jobs(&self) -> Vec<Job> {
        let one = Counts(vec![1]);
        let mut jobs = Vec::new();
        for combination in self.combinations() {
            let is_serial = self.is_serial(&combination);
            let counts = self.counts.as_ref();
            let threads = match counts.map(|counts| if is_serial { &one } else { counts }) {
                Some(counts) => counts.0.iter().copied().map(Some).collect(),
                None => vec![None],
            };
            jobs.extend(threads.into_iter().map(|threads| Job {
                combination: combination.clone(),
                threads,
            }));
        }
        jobs
    }

    /// Whether this is a combination with which others are compared.
    pub fn is_serial(&self, combination: &[Setting]) -> bool {
        let serial = self.serial.as_ref();
        serial.is_some_and(|serial| serial.is_in(combination))
    }

    /// The combination with the serial value and otherwise the same values.
    pub fn serial_of(&self, combination: &[Setting]) -> Option<Combination> {
        let serial = self.serial.as_ref()?;
        let of = |one: &Setting| {
            let is_it = one.name == serial.name;
            if is_it { serial.clone() } else { one.clone() }
        };
        Some(combination.iter().map(of).collect())
    }
}

impl Job {
    /// The text with the values, and the number of threads, in their places.
    pub fn put(&self, text: &OsStr) -> OsString {
        let mut places = places(&self.combination);
        if let Some(threads) = self.threads {
            places.push((PLACE.into(), threads.to_string()));
        }
        put(text, &places)
    }

    /// `size=16, 2 threads`; empty if nothing is set.
    pub fn called(&self) -> String {
        let mut parts = Vec::new();
        parts.extend((!self.combination.is_empty()).then(|| called(&self.combination)));
        parts.extend(self.threads.map(threads_of));
        parts.join(", ")
    }
}

/// The text with the values in their places; the place of the number of threads stays.
pub fn put_values(text: &OsStr, combination: &[Setting]) -> OsString {
    put(text, &places(combination))
}

/// `version=./lu size=16`.
pub fn called(combination: &[Setting]) -> String {
    let one = |setting: &Setting| format!("{}={}", setting.name, setting.value);
    combination.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Values by name.
pub fn by_name(combination: &[Setting]) -> BTreeMap<String, String> {
    let pair = |one: &Setting| (one.name.clone(), one.value.clone());
    combination.iter().map(pair).collect()
}

fn place(name: &str) -> String {
    format!("{{{name}}}")
}

fn places(combination: &[Setting]) -> Vec<(String, String)> {
    let pair = |one: &Setting| (place(&one.name), one.value.clone());
    combination.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(vary: &[&str], counts: Option<&[u32]>, serial: Option<&str>) -> Plan {
        Plan {
            parameters: vary.iter().map(|text| parameter(text).unwrap()).collect(),
            counts: counts.map(|counts| Counts(counts.to_vec())),
            serial: serial.map(|text| setting(text).unwrap()),
        }
    }

    fn refused(plan: &Plan, texts: &[&str]) -> String {
        let texts: Vec<&OsStr> = texts.iter().map(OsStr::new).collect();
        plan.check(&texts).unwrap_err()
    }

    #[test]
    fn values_are_free_text_in_the_order_given() {
        let read = parameter("size=16, 8,a=b c").unwrap();
        assert_eq!(read.values, ["16", "8", "a=b c"]);
        for (wrong, words) in [
            ("size", "size=16,32,64"),
            ("=1", "size=16,32,64"),
            ("a b=1", "letters"),
            ("size=", "empty"),
            ("size=1,,2", "empty"),
            ("size=1,2,1", "--repeat"),
            ("n=1,2", "-n 1,2"),
        ] {
            let told = parameter(wrong).unwrap_err();
            assert!(told.contains(words), "{wrong}: {told}");
        }
        assert!(setting("version").unwrap_err().contains("NAME=VALUE"));
    }

    #[test]
    fn every_combination_runs_and_the_serial_one_with_one_thread() {
        let plan = plan(&["v=./s,./p", "size=1,2"], Some(&[2, 4]), Some("v=./s"));
        let jobs: Vec<String> = plan.jobs().iter().map(Job::called).collect();
        assert_eq!(
            jobs,
            [
                "v=./s size=1, 1 thread",
                "v=./s size=2, 1 thread",
                "v=./p size=1, 2 threads",
                "v=./p size=1, 4 threads",
                "v=./p size=2, 2 threads",
                "v=./p size=2, 4 threads",
            ]
        );
        let last = plan.combinations().pop().unwrap();
        assert_eq!(called(&plan.serial_of(&last).unwrap()), "v=./s size=2");
    }

    #[test]
    fn without_parameters_the_jobs_are_the_numbers_of_threads() {
        let jobs = plan(&[], Some(&[1, 2]), None).jobs();
        let called: Vec<String> = jobs.iter().map(Job::called).collect();
        assert_eq!(called, ["1 thread", "2 threads"]);
        let jobs = plan(&["size=1,2"], None, None).jobs();
        let called: Vec<String> = jobs.iter().map(Job::called).collect();
        assert_eq!(called, ["size=1", "size=2"]);
    }

    #[test]
    fn what_was_put_in_is_not_replaced_again() {
        let plan = plan(&["a={n},x", "b={a}"], Some(&[3]), None);
        let job = &plan.jobs()[0];
        assert_eq!(job.put(OsStr::new("{a}{b}{n}{c}")), "{n}{a}3{c}");
        assert_eq!(
            put_values(OsStr::new("{a} {n}"), &job.combination),
            "{n} {n}"
        );
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_would() {
        let one = plan(&["size=1,2"], None, None);
        assert!(refused(&one, &["./p", "{sizes}"]).contains("write {size} where"));
        assert!(refused(&one, &["./p", "{size}", "{n}"]).contains("-n 1,2,4"));
        let twice = plan(&["size=1", "size=2"], None, None);
        assert!(refused(&twice, &["{size}"]).contains("--vary size=A,B,C"));
        let other = plan(&["v=./p"], None, Some("w=./s"));
        assert!(refused(&other, &["{v}"]).contains("needs --vary w=./s"));
        let missing = plan(&["v=./p,./q"], None, Some("v=./s"));
        assert!(refused(&missing, &["{v}"]).contains("write --vary v=./s,./p,./q"));
        let values: Vec<String> = (0..101).map(|at| at.to_string()).collect();
        let values = values.join(",");
        let many = plan(
            &[&format!("a={values}"), &format!("b={values}")],
            None,
            None,
        );
        assert!(refused(&many, &["{a}{b}"]).contains("10201 combinations"));
    }
}
