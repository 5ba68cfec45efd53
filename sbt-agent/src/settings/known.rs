//! The list of all settings: their names in each source, and their meaning.

use super::declared::SETTINGS;

/// The names and the meaning of a setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingNames {
    /// The key in `sbt.toml` and in the table of effective settings.
    pub key: &'static str,
    /// The environment variable, if there is one.
    pub variable: Option<&'static str>,
    /// The option on the command line.
    pub option: &'static str,
    /// The meaning, in one line.
    pub meaning: &'static str,
}

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
