//! CI services interpret commands in the output of build steps. This module makes sure that names
//! from the program cannot be taken for commands.

use std::borrow::Cow;

/// A CI service that reads annotations from output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// GitHub Actions, and compatible services (Gitea, Forgejo).
    GitHub,
    /// Azure Pipelines.
    Azure,
    /// `TeamCity`.
    TeamCity,
}

impl Service {
    /// The service that started this process, recognised by its environment variables. GitLab is
    /// not included: it reads JUnit instead.
    pub fn by(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let is = |name: &str, value: &str| {
            variable(name).is_some_and(|found| found.eq_ignore_ascii_case(value))
        };
        if is("GITHUB_ACTIONS", "true") {
            Some(Self::GitHub)
        } else if is("TF_BUILD", "true") {
            Some(Self::Azure)
        } else {
            let team_city = variable("TEAMCITY_VERSION");
            team_city
                .filter(|version| !version.is_empty())
                .map(|_| Self::TeamCity)
        }
    }
}

impl Service {
    /// The service that started this process.
    pub fn of_this_process() -> Option<Self> {
        Self::by(|name| std::env::var(name).ok())
    }
}

/// Makes text for people safe to print if a CI service may read it.
pub fn tame(text: &str) -> Cow<'_, str> {
    match Service::of_this_process() {
        Some(_) => harmless(text).into(),
        None => text.into(),
    }
}

/// Makes JSON safe to print if a CI service may read it. The JSON value stays the same.
pub fn tame_json(text: &str) -> Cow<'_, str> {
    match Service::of_this_process() {
        Some(_) => harmless_json(text).into(),
        None => text.into(),
    }
}

/// Removes commands from JSON. No line of JSON begins with `::`; commands elsewhere in a line need
/// `##`, which occurs within strings only and can be escaped.
fn harmless_json(text: &str) -> String {
    text.replace("##", "#\\u0023")
}

/// Removes commands from text for people, whatever names the program contains.
pub fn harmless(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        // Azure's commands, and older ones of GitHub, are also recognised in the middle of a line.
        let line = hashes_apart(line);
        match line.trim_start().strip_prefix("::") {
            Some(rest) => format!(": :{rest}"),
            None => line,
        }
    });
    lines.collect()
}

/// Separates consecutive `#` by blanks.
pub fn hashes_apart(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '#' && out.ends_with('#') {
            out.push(' ');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_known_by_its_variable() {
        let by = |name: &'static str, value: &'static str| {
            Service::by(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(by("GITHUB_ACTIONS", "true"), Some(Service::GitHub));
        assert_eq!(by("GITHUB_ACTIONS", "false"), None);
        assert_eq!(by("TF_BUILD", "True"), Some(Service::Azure));
        assert_eq!(by("TEAMCITY_VERSION", "2024.1"), Some(Service::TeamCity));
        assert_eq!(by("TEAMCITY_VERSION", ""), None);
        assert_eq!(by("CI", "true"), None);
    }

    #[test]
    fn json_says_the_same() {
        for name in ["##vso[x]", "a ### b", "####", "#", ""] {
            let text = serde_json::to_string_pretty(&[name]).unwrap();
            let found = harmless_json(&text);
            assert!(!found.contains("##"), "{found}");
            let read: Vec<String> = serde_json::from_str(&found).unwrap();
            assert_eq!(read, [name]);
        }
    }

    #[test]
    fn no_text_begins_a_command() {
        for (text, expected) in [
            ("::error::x\n  ::y\na::b\n", ": :error::x\n: :y\na::b\n"),
            ("a ##vso[x]\n", "a # #vso[x]\n"),
            ("###vso[x]", "# # #vso[x]"),
            ("#####[x]", "# # # # #[x]"),
            ("# one #", "# one #"),
        ] {
            let found = harmless(text);
            assert_eq!(found, expected);
            assert!(!found.contains("##"));
            assert_eq!(harmless(&found), found, "once is enough");
        }
    }
}
