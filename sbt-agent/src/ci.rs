//! Services that run builds and obey what a step writes. Names from the target must not
//! tell them anything.

use std::borrow::Cow;

/// A service that reads remarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// GitHub Actions, and what does as it does (Gitea, Forgejo).
    GitHub,
    /// Azure Pipelines.
    Azure,
    /// `TeamCity`.
    TeamCity,
}

impl Service {
    /// The one that has started us, by the variables that it sets. GitLab has none: it
    /// reads JUnit.
    pub fn by(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let is = |name: &str, value: &str| {
            variable(name).is_some_and(|it| it.eq_ignore_ascii_case(value))
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
    /// The one that has started this process.
    pub fn of_this_process() -> Option<Self> {
        Self::by(|name| std::env::var(name).ok())
    }
}

/// Text for people, as it may be written where a service may read it.
pub fn tame(text: &str) -> Cow<'_, str> {
    match Service::of_this_process() {
        Some(_) => harmless(text).into(),
        None => text.into(),
    }
}

/// JSON, as it may be written likewise: it says the same.
pub fn tame_json(text: &str) -> Cow<'_, str> {
    match Service::of_this_process() {
        Some(_) => harmless_json(text).into(),
        None => text.into(),
    }
}

/// JSON in which a service finds nothing to obey: no line of it begins with `::`, and what it
/// would obey elsewhere has two `#`, which are within strings.
fn harmless_json(text: &str) -> String {
    text.replace("##", "#\\u0023")
}

/// Text for people in which such a service finds nothing to obey, whatever the target
/// calls its functions.
pub fn harmless(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        // Azure finds its commands, and GitHub its older ones, in the middle of lines too.
        let line = hashes_apart(line);
        match line.trim_start().strip_prefix("::") {
            Some(rest) => format!(": :{rest}"),
            None => line,
        }
    });
    lines.collect()
}

/// No `#` follows another.
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
