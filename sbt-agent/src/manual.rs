//! Manual pages and shell completions. Both are generated from the definition of the command line,
//! so that options are described in one place.

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, italic, roman},
};

use crate::{
    cli::Cli,
    settings::{CONTROLS, SETTINGS},
};

/// Sections that the command line does not define. The head of the file says how they are written.
const SECTIONS: &str = include_str!("manual/pages.txt");

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A generated manual page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Name of the file, such as `sbt-run.1`.
    pub name: String,
    /// Content in roff, in ASCII: other characters are written as escapes.
    pub text: String,
}

/// All manual pages: the page of sbt, then one for each command that is not hidden.
pub fn pages() -> anyhow::Result<Vec<Written>> {
    let mut all = Cli::command();
    all.build();
    let shown = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let commands: Vec<&Command> = std::iter::once(&all).chain(shown).collect();
    commands.iter().copied().map(page).collect()
}

/// The completion script for a shell.
pub fn completions(shell: Shell) -> anyhow::Result<String> {
    let mut script = Vec::new();
    let mut command = shown(&Cli::command()).version(VERSION);
    clap_complete::generate(shell, &mut command, "sbt", &mut script);
    String::from_utf8(script).context("the script is no text")
}

/// The command without its hidden arguments and subcommands, which completion scripts would offer
/// otherwise.
fn shown(command: &Command) -> Command {
    let arguments = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    let commands = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let all = Command::new(command.get_name().to_owned())
        .disable_help_subcommand(true)
        .args(arguments.cloned())
        .subcommands(commands.map(shown));
    match command.get_about() {
        Some(about) => all.about(about.clone()),
        None => all,
    }
}

fn page(command: &Command) -> anyhow::Result<Written> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    // The title line is written by hand, without a date: the page of one version should not change.
    // clap_mangen would omit the empty date, which shifts the fields after it.
    let upper = name.to_uppercase();
    let title =
        format!(".TH \"{upper}\" 1 \"\" \"sbt {VERSION}\" \"Barriers of parallel programs\"\n");
    let man = Man::new(command.clone());
    let mut text = title.into_bytes();
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut more = Roff::default();
    say(&mut more, name)?;
    more.to_writer(&mut text)?;
    let text = String::from_utf8(text).context("the page is no text")?;
    Ok(Written {
        name: format!("{name}.1"),
        text: plain(&text),
    })
}

/// Writes a part of [`SECTIONS`].
fn say(roff: &mut Roff, name: &str) -> anyhow::Result<()> {
    let text = part(name).with_context(|| format!("the manual says nothing of {name}"))?;
    // A section heading already starts a paragraph.
    let mut after_heading = true;
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.split_once(' ') {
            Some(("#", title)) => {
                roff.control("SH", [title]);
            }
            Some(("=", entry)) => {
                let (term, meaning) = entry.split_once(" | ").context("a term without meaning")?;
                say_entry(roff, term, meaning);
            }
            Some(("$", command)) => {
                roff.control("PP", []).control("RS", ["4"]);
                roff.text([italic(command)]).control("RE", []);
            }
            Some(("+", "variables")) => say_variables(roff),
            Some(("+", part)) => say(roff, part)?,
            Some((">", pages)) => say_pages(roff, pages),
            _ => {
                if !after_heading {
                    roff.control("PP", []);
                }
                roff.text([roman(line)]);
            }
        }
        after_heading = line.starts_with("# ");
    }
    Ok(())
}

/// The text of a part of [`SECTIONS`], without line breaks inside of sentences.
fn part(name: &str) -> Option<String> {
    let mut parts = SECTIONS.split("\n[");
    let text = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix("]\n"))?;
    Some(text.replace("\n  ", " "))
}

fn say_entry(roff: &mut Roff, term: &str, meaning: &str) {
    roff.control("TP", [])
        .text([bold(term)])
        .text([roman(meaning)]);
}

/// The environment variables of settings.
fn say_variables(roff: &mut Roff) {
    for setting in SETTINGS {
        if let Some(variable) = setting.variable {
            let meaning = format!("As {}: {}.", setting.option, setting.meaning);
            say_entry(roff, variable, &meaning);
        }
    }
    for (variable, meaning) in CONTROLS {
        say_entry(roff, variable, &format!("{meaning}."));
    }
}

/// Refers to pages, such as `sbt(1), man(1)`.
fn say_pages(roff: &mut Roff, pages: &str) {
    roff.control("SH", ["SEE ALSO"]);
    let all: Vec<Inline> = pages
        .split_inclusive(", ")
        .flat_map(|page| {
            let (name, section) = page.split_at(page.find('(').unwrap_or(page.len()));
            [bold(name), roman(section)]
        })
        .collect();
    roff.text(all);
}

/// Converts a page to plain ASCII roff that every formatter reads: removes the terminal codes of
/// help texts, and merges the two requests for an empty line into one.
fn plain(page: &str) -> String {
    use std::fmt::Write as _;

    let mut out = String::with_capacity(page.len());
    let page = page
        .replace("\u{1b}[0m", "")
        .replace(".br\n\n.br\n", ".sp\n");
    for character in page.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            // Writing to a string cannot fail.
            let _ok = write!(out, "\\[u{:04X}]", u32::from(character));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of a page as a reader sees it, without roff markup.
    fn read(page: &Written) -> String {
        page.text
            .replace("\\-", "-")
            .replace("\\fB", "")
            .replace("\\fI", "")
            .replace("\\fR", "")
    }

    #[test]
    fn each_command_has_a_page_with_all_that_can_be_typed() {
        let mut all = Cli::command();
        all.build();
        let pages = pages().unwrap();
        let top = read(&pages[0]);
        let shown = all
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        let mut count = 1;
        for command in shown {
            count += 1;
            let name = format!("sbt-{}", command.get_name());
            assert!(top.contains(&format!("{name}(1)")), "{name}");
            let file = format!("{name}.1");
            let page = pages.iter().find(|page| page.name == file);
            let page = read(page.unwrap_or_else(|| panic!("no {file}")));
            for argument in command
                .get_arguments()
                .filter(|argument| !argument.is_hide_set())
            {
                let typed = match (argument.get_long(), argument.get_value_names()) {
                    (Some(long), _) => format!("--{long}"),
                    (None, Some(names)) => names[0].to_string(),
                    (None, None) => argument.get_id().to_string(),
                };
                assert!(page.contains(&typed), "{file}: {typed}");
                let help = argument.get_help().map(ToString::to_string);
                let begin = help.unwrap_or_default();
                let begin = begin.split_whitespace().next().unwrap_or_default();
                assert!(page.contains(begin), "{file}: {begin}");
            }
            for heading in ["EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
                assert!(page.contains(heading), "{file}: {heading}");
            }
        }
        assert_eq!(pages.len(), count);
        let written = SECTIONS.matches("\n[sbt").count();
        assert_eq!(written, count, "a page of a command that is no more");
        assert!(!top.contains("__demo"));
    }

    #[test]
    fn pages_refer_to_pages_that_there_are() {
        let pages = pages().unwrap();
        for page in &pages {
            let of = page.name.trim_end_matches(".1");
            let part = part(of).unwrap();
            let see = part.lines().find_map(|line| line.strip_prefix("> "));
            for name in see.unwrap().split(", ") {
                let (name, section) = name.trim_end_matches(')').split_once('(').unwrap();
                let is_ours = pages
                    .iter()
                    .any(|page| page.name == format!("{name}.{section}"));
                assert!(is_ours || !name.starts_with("sbt"), "{name}");
                assert_ne!(name, of, "refers to itself");
            }
        }
    }

    #[test]
    fn variables_are_told_where_they_mean_something() {
        let pages = pages().unwrap();
        for (name, has) in [("sbt-run.1", true), ("sbt-diff.1", false)] {
            let page = pages.iter().find(|page| page.name == name).unwrap();
            for variable in ["SBT_HANG_TIME", "SBT_NO_DEBUG"] {
                assert_eq!(page.text.contains(variable), has, "{name} {variable}");
            }
        }
    }

    #[test]
    fn pages_are_ascii_without_codes() {
        assert_eq!(plain("1 … {\u{1b}[0mn} µs"), "1 \\[u2026] {n} \\[u00B5]s");
        for page in pages().unwrap() {
            let odd = page
                .text
                .chars()
                .find(|letter| !letter.is_ascii() || letter.is_ascii_control() && *letter != '\n');
            assert_eq!(odd, None, "{}", page.name);
        }
    }

    #[test]
    fn shells_are_told_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completions(shell).unwrap();
            for word in [
                "attach",
                "completions",
                "hang-time",
                "max-imbalance",
                "version",
            ] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            for hidden in [" __demo", "____demo", "--into", "l into"] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
    }
}
