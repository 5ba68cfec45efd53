//! The table of effective settings, as text.

use std::fmt::Write as _;

use super::{SETTINGS, effective::Effective, known};
use sbt_engine::place::printable;

/// The amount of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// No table.
    Nothing,
    /// Each setting and its origin.
    Settings,
    /// Each setting, its origin and its meaning.
    Described,
}

impl Detail {
    /// The highest detail that `-v`, `SBT_OPTIONS` and `SBT_VERBOSE` ask for.
    pub fn of(verbose_option: bool, options_variable: bool, verbose_variable: bool) -> Self {
        if verbose_variable {
            Self::Described
        } else if verbose_option || options_variable {
            Self::Settings
        } else {
            Self::Nothing
        }
    }
}

/// The widest column of values; longer values move their origin out of the column.
const WIDEST: usize = 40;

/// The table, safe to print; empty for [`Detail::Nothing`].
pub fn table(effective: &Effective, detail: Detail) -> String {
    if detail == Detail::Nothing {
        return String::new();
    }
    let rows: Vec<_> = effective
        .rows
        .iter()
        .map(|row| (row.setting, printable(&row.value), printable(&row.origin)))
        .collect();
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0).min(WIDEST);
    let first = width(&mut rows.iter().map(|row| row.0.chars().count()));
    let second = width(&mut rows.iter().map(|row| row.1.chars().count()));
    let file = effective.file.as_deref().unwrap_or("no sbt.toml");
    let mut text = format!("sbt: settings, with {}\n", printable(file));
    let mut before = "";
    for (setting, value, origin) in &rows {
        // Writing to a String cannot fail.
        let _always = writeln!(text, "  {setting:<first$}  {value:<second$}  {origin}");
        let known = SETTINGS.iter().find(|known| known.key == *setting);
        if let (Detail::Described, Some(known)) = (detail, known)
            && *setting != before
        {
            let _always = writeln!(text, "      {}: {}", names(known), known.meaning);
        }
        before = setting;
    }
    if detail == Detail::Described {
        text.push_str("  further variables\n");
        for (name, meaning) in known::CONTROLS {
            let _always = writeln!(text, "      {name}={meaning}");
        }
    }
    text
}

fn names(known: &known::SettingNames) -> String {
    match known.variable {
        Some(variable) => format!("{}, {variable}", known.option),
        None => known.option.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Settings, merge::Row};

    fn example() -> Effective {
        let row = |setting, value: &str, origin: &str| Row {
            setting,
            value: value.into(),
            origin: origin.into(),
        };
        Effective {
            settings: Settings::default(),
            rows: vec![
                row("watch", "lu.c:690, factor", "--watch"),
                row("warn-time", "1s", "default"),
                row("names", "lu.c:1=a", "sbt.toml:3"),
                row("names", "lu.c:2=\x1bb", "sbt.toml:4"),
            ],
            file: Some("sbt.toml".into()),
            notes: Vec::new(),
        }
    }

    #[test]
    fn each_setting_has_a_line_with_its_origin() {
        assert_eq!(
            table(&example(), Detail::Settings),
            "\
sbt: settings, with sbt.toml
  watch      lu.c:690, factor  --watch
  warn-time  1s                default
  names      lu.c:1=a          sbt.toml:3
  names      lu.c:2=?b         sbt.toml:4
"
        );
        assert_eq!(table(&example(), Detail::Nothing), "");
        let without = Effective {
            file: None,
            ..example()
        };
        assert!(table(&without, Detail::Settings).starts_with("sbt: settings, with no sbt.toml\n"));
    }

    #[test]
    fn descriptions_are_a_line_each() {
        let text = table(&example(), Detail::Described);
        assert!(text.contains("--warn-time, SBT_WARN_TIME: "), "{text}");
        assert_eq!(text.matches("--name: ").count(), 1, "{text}");
        assert!(text.contains("SBT_NO_DEBUG=1: "), "{text}");
        assert!(text.contains("SBT_VERBOSE=1: "), "{text}");
    }

    #[test]
    fn the_most_detail_that_is_asked_for() {
        assert_eq!(Detail::of(false, false, false), Detail::Nothing);
        assert_eq!(Detail::of(true, false, false), Detail::Settings);
        assert_eq!(Detail::of(false, true, false), Detail::Settings);
        assert_eq!(Detail::of(true, true, true), Detail::Described);
    }
}
