//! The environment variables `SBT_*`, with the meanings that the thesis gives them.

use std::{ffi::OsString, time::Duration};

use super::{declared, known, layer::Layer};
use sbt_engine::{pattern::Pattern, place::printable, value};

/// The settings and switches from the environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// `SBT_NO_DEBUG`: run the program without watching it.
    pub no_debug: bool,
    /// `SBT_OPTIONS`: show the settings.
    pub options: bool,
    /// `SBT_VERBOSE`: show and describe the settings.
    pub verbose: bool,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
    /// The settings.
    pub(super) layer: Layer,
}

impl Environment {
    /// Reads `variables`. Unknown variables that begin with `SBT_` are ignored: Scala's build tool
    /// has variables of that kind. An empty variable counts as not set.
    ///
    /// # Errors
    /// One line: the value of a known variable is not valid.
    pub fn read(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, String> {
        let mut environment = Self::default();
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|name| name.starts_with("SBT_")) else {
                continue;
            };
            if value.is_empty() {
                continue;
            }
            let Some(known) = known::variables().find(|known| *known == name) else {
                let meant = meant(name);
                environment.notes.extend(meant.map(|meant| {
                    format!(
                        "{} is not a variable of sbt; did you mean {meant}?",
                        printable(name)
                    )
                }));
                continue;
            };
            let lossy = value.to_string_lossy();
            value
                .to_str()
                .ok_or_else(|| "expected text in UTF-8".to_owned())
                .and_then(|value| environment.set(known, value))
                .map_err(|expected| format!("{name}={}: {expected}", printable(&lossy)))?;
        }
        // Make the order independent of the order of the environment.
        environment.notes.sort();
        Ok(environment)
    }

    fn set(&mut self, name: &'static str, text: &str) -> Result<(), String> {
        match name {
            "SBT_NO_DEBUG" => self.no_debug = value::switch(text)?,
            "SBT_OPTIONS" => self.options = value::switch(text)?,
            "SBT_VERBOSE" => self.verbose = value::switch(text)?,
            name => declared::set_variable(&mut self.layer, name, text)?,
        }
        Ok(())
    }
}

pub(super) fn sites(text: &str) -> Result<Vec<Pattern>, String> {
    text.split(',').map(|site| site.trim().parse()).collect()
}

pub(super) fn warn_time(text: &str) -> Result<Duration, String> {
    value::milliseconds(text).map_err(|error| format!("{error}; a plain number is milliseconds"))
}

pub(super) fn hang_time(text: &str) -> Result<Option<Duration>, String> {
    value::hang_time(text).map_err(|error| format!("{error}; a plain number is seconds"))
}

/// The variable of sbt that an unknown one most likely stands for.
fn meant(name: &str) -> Option<&'static str> {
    let name = name.to_uppercase();
    known::variables()
        .map(|known| (strsim::damerau_levenshtein(known, &name), known))
        // One wrong letter in a short word, two in a long one.
        .filter(|(distance, known)| *distance <= (known.len() - "SBT_".len()).div_ceil(8))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;
    use crate::settings::layer::Given;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, String> {
        Environment::read(
            variables
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        )
    }

    #[test]
    fn every_variable_has_its_meaning() {
        let read = read(&[
            ("SBT_WATCH", "120, factor,lu.c:7"),
            ("SBT_WATCH_ALL", "1"),
            ("SBT_WARN_TIME", "250"),
            ("SBT_HANG_TIME", "1.5"),
            ("SBT_WARNINGS", "0"),
            ("SBT_PHASE_TIMES", "1"),
            ("SBT_BUDGET", "0.5%"),
            ("SBT_EXIT_WITH_PROGRAM", "1"),
            ("SBT_OPTIONS", "1"),
            ("SBT_VERBOSE", "0"),
            ("SBT_NO_DEBUG", "0"),
            ("PATH", "/bin"),
        ])
        .unwrap();
        let layer = &read.layer;
        let watch: Vec<_> = layer.watch.iter().flat_map(|given| &given.value).collect();
        let shown: Vec<_> = watch.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [":120", "factor", "lu.c:7"]);
        assert_eq!(layer.watch.as_ref().unwrap().origin, "SBT_WATCH");
        assert_eq!(layer.watch_all, Some(Given::new(true, "SBT_WATCH_ALL")));
        assert_eq!(
            layer.warn_time,
            Some(Given::new(Duration::from_millis(250), "SBT_WARN_TIME"))
        );
        assert_eq!(layer.budget, Some(Given::new(Some(0.5), "SBT_BUDGET")));
        let hang_time = Some(Duration::from_millis(1500));
        assert_eq!(
            layer.hang_time,
            Some(Given::new(hang_time, "SBT_HANG_TIME"))
        );
        assert_eq!(layer.warnings, Some(Given::new(false, "SBT_WARNINGS")));
        assert_eq!(layer.phase_times, Some(Given::new(true, "SBT_PHASE_TIMES")));
        let exit = Some(Given::new(true, "SBT_EXIT_WITH_PROGRAM"));
        assert_eq!(layer.exit_with_program, exit);
        assert!(read.options && !read.verbose && !read.no_debug);
        assert!(read.notes.is_empty(), "{:?}", read.notes);
    }

    #[test]
    fn what_is_empty_is_not_set() {
        let empty: Vec<_> = known::variables().map(|name| (name, "")).collect();
        assert_eq!(read(&empty), Ok(Environment::default()));
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_expected() {
        for (name, value, expected) in [
            ("SBT_WATCH", "lu.c:0", "line"),
            ("SBT_WATCH", "a,,b", "expected"),
            ("SBT_WATCH_ALL", "yes", "0 or 1"),
            ("SBT_WARN_TIME", "soon", "milliseconds"),
            ("SBT_WARN_TIME", "0", "above zero"),
            ("SBT_WARNINGS", "2", "0 or 1"),
            ("SBT_PHASE_TIMES", "-1", "0 or 1"),
            ("SBT_NO_DEBUG", "on", "0 or 1"),
            ("SBT_OPTIONS", "x", "0 or 1"),
            ("SBT_VERBOSE", "01", "0 or 1"),
            ("SBT_BUDGET", "-1", "off"),
            ("SBT_EVENTS", "cylces", "`cycles`"),
            ("SBT_SAMPLE", "20000", "1 to 10000"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value}: ")), "{error}");
            assert!(error.contains(expected), "{error}");
        }
        let bytes = OsString::from_vec(vec![0xff, 0x1b]);
        let error = Environment::read([("SBT_WATCH".into(), bytes)]).unwrap_err();
        assert!(
            error.contains("UTF-8") && !error.contains('\x1b'),
            "{error}"
        );
    }

    #[test]
    fn only_a_typing_error_is_spoken_of() {
        for (name, meant) in [
            ("SBT_WACTH", "SBT_WATCH"),
            ("SBT_WATCHES", ""),
            ("SBT_WATCHALL", "SBT_WATCH_ALL"),
            ("SBT_WARNTIME", "SBT_WARN_TIME"),
            ("SBT_WARNING", "SBT_WARNINGS"),
            ("SBT_NODEBUG", "SBT_NO_DEBUG"),
            ("SBT_EVENT", "SBT_EVENTS"),
            ("SBT_watch", "SBT_WATCH"),
        ] {
            let notes = read(&[(name, "x")]).unwrap().notes;
            match meant {
                "" => assert!(notes.is_empty(), "{notes:?}"),
                meant => assert!(
                    notes.len() == 1 && notes[0].contains(name) && notes[0].contains(meant),
                    "{name}: {notes:?}"
                ),
            }
        }
        // Variables of other programs, and of sbt's own tests.
        for name in [
            "SBT_OPTS",
            "SBT_HOME",
            "SBT_CREDENTIALS",
            "SBT_VERSION",
            "SBT_NATIVE_CLIENT",
            "SBT_GLOBAL_SERVER_DIR",
            "SBT_BIN",
            "SBT_SKIP_LOG",
            "SBT_",
            "XSBT_WATCH",
        ] {
            assert_eq!(read(&[(name, "x")]), Ok(Environment::default()), "{name}");
        }
    }

    #[test]
    fn counters_are_separated_by_colons() {
        let read = read(&[("SBT_EVENTS", "PAPI_TOT_CYC:faults:cycles:u")]).unwrap();
        assert!(read.notes.is_empty(), "{:?}", read.notes);
        let events = read.layer.events.unwrap();
        let names: Vec<_> = events.value.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["PAPI_TOT_CYC", "page-faults", "cycles:u"]);
        assert_eq!(events.origin, "SBT_EVENTS");
    }
}
