//! The list of all settings: their names in each source, and their meaning.

/// The names and the meaning of a setting.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The key in `sbt.toml` and in the table of effective settings.
    pub key: &'static str,
    /// The environment variable, if there is one.
    pub variable: Option<&'static str>,
    /// The option on the command line.
    pub option: &'static str,
    /// The meaning, in one line.
    pub meaning: &'static str,
}

/// All settings, in the order in which they are shown.
pub const SETTINGS: [Known; 21] = [
    known(
        "departures",
        None,
        "--departures",
        "whether departures are watched too: they tell how long the release took",
    ),
    known(
        "budget",
        Some("SBT_BUDGET"),
        "--budget",
        "how much of its time watching may cost a thread; above it less is watched",
    ),
    known(
        "backend",
        None,
        "--backend",
        "how the program is watched: auto, ebpf, perf or ptrace",
    ),
    known(
        "futex",
        None,
        "--futex",
        "whether the system calls of futexes are watched: barriers made of nothing else, and locks",
    ),
    known(
        "states",
        Some("SBT_STATES"),
        "--states",
        "how closely is looked at what threads do between barriers: light, full or off",
    ),
    known(
        "children",
        None,
        "--children",
        "whether processes that the program starts are watched too",
    ),
    known(
        "duration",
        None,
        "--duration",
        "watching stops after this time",
    ),
    known(
        "watch",
        Some("SBT_WATCH"),
        "--watch",
        "barriers whose episodes are told one by one, by site or name",
    ),
    known(
        "watch-all",
        Some("SBT_WATCH_ALL"),
        "--watch-all",
        "the episodes of all barriers are told one by one",
    ),
    known(
        "warnings",
        Some("SBT_WARNINGS"),
        "--no-warnings",
        "an episode longer than warn-time is warned of, watched or not",
    ),
    known(
        "warn-time",
        Some("SBT_WARN_TIME"),
        "--warn-time",
        "from first to last arrival, above which an episode is long",
    ),
    known(
        "hang-time",
        Some("SBT_HANG_TIME"),
        "--hang-time",
        "for how long threads wait at a barrier to which nobody comes before it may be a hang",
    ),
    known(
        "phase-times",
        Some("SBT_PHASE_TIMES"),
        "--phase-times",
        "the time of each phase is told when it ends",
    ),
    known(
        "names",
        None,
        "--name",
        "names of sites, for reports and for watch",
    ),
    known(
        "phases",
        None,
        "--phase",
        "phases from one barrier to another, whatever lies between",
    ),
    known(
        "marks",
        None,
        "--mark",
        "functions and lines whose passing is told",
    ),
    known(
        "barriers",
        None,
        "--barrier",
        "functions of the program's own that are barriers",
    ),
    known(
        "events",
        Some("SBT_EVENTS"),
        "--events",
        "counters that are read for each thread and phase; `sbt list` names them",
    ),
    known(
        "sample",
        Some("SBT_SAMPLE"),
        "--sample",
        "samples a second of where threads are: time by function; 0 is none",
    ),
    known(
        "folded",
        None,
        "--folded",
        "a file for folded stacks of the samples, for flame graphs",
    ),
    known(
        "exit-with-program",
        Some("SBT_EXIT_WITH_PROGRAM"),
        "--exit-with-program",
        "the live screen leaves when the program ends, and does not wait for a key",
    ),
];

/// Environment variables that are not settings of a run.
pub const CONTROLS: [(&str, &str); 3] = [
    (
        "SBT_NO_DEBUG",
        "1: the program is run without being watched",
    ),
    ("SBT_OPTIONS", "1: the settings are shown at start"),
    (
        "SBT_VERBOSE",
        "1: the settings are shown at start and described",
    ),
];

/// The key of the table of rules, which are options of `sbt check` alone.
pub const CHECK: &str = "check";

const fn known(
    key: &'static str,
    variable: Option<&'static str>,
    option: &'static str,
    meaning: &'static str,
) -> Known {
    Known {
        key,
        variable,
        option,
        meaning,
    }
}

/// Every environment variable that sbt reads.
pub fn variables() -> impl Iterator<Item = &'static str> {
    SETTINGS
        .iter()
        .filter_map(|known| known.variable)
        .chain(CONTROLS.iter().map(|(name, _)| *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of the manual that describes the settings.
    const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md"));

    #[test]
    fn all_are_documented() {
        for known in SETTINGS {
            for word in [Some(known.key), known.variable, Some(known.option)] {
                let word = word.unwrap_or_default();
                assert!(
                    PAGE.contains(&format!("`{word}")) || word.is_empty(),
                    "{word}"
                );
            }
        }
        for name in variables() {
            assert!(PAGE.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn all_are_options() {
        use clap::CommandFactory as _;
        let command = crate::cli::Cli::command();
        for name in ["run", "attach", "demo"] {
            let command = command.find_subcommand(name).unwrap();
            for known in SETTINGS {
                let long = known.option.trim_start_matches("--");
                assert!(
                    command
                        .get_arguments()
                        .any(|arg| arg.get_long() == Some(long)),
                    "{name} {long}"
                );
            }
        }
    }
}
