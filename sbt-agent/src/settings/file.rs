//! Reads the text of an `sbt.toml` as a source of settings. Pure.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    SETTINGS, declared, known,
    layer::{Given, Layer},
    spec,
};
use sbt_engine::{
    counters::{self, Counter},
    pattern::{Pattern, nearest},
    place::printable,
};
use sbt_program::access::NamedFile;

/// Reads the `text` of the file that the user knows as `shown`.
///
/// # Errors
/// One line that begins with file and line number: something in the file is not valid.
pub fn layer(shown: &str, text: &str) -> Result<Layer, String> {
    let file = File { shown, text };
    let table = DeTable::parse(text).map_err(|error| {
        file.at(
            &error.span().unwrap_or_default(),
            &not_toml(error.message()),
        )
    })?;
    let mut layer = Layer::default();
    for (key, value) in in_order(table.get_ref()) {
        file.set(&mut layer, key, value)?;
    }
    Ok(layer)
}

pub(super) type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// The entries in the order of the file: of two for the same subject the later one wins.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Key<'i>, &'t Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

pub(super) struct File<'a> {
    shown: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn set(&self, layer: &mut Layer, key: &Key, value: &Value) -> Result<(), String> {
        let name = key.get_ref().as_ref();
        if name == known::CHECK {
            layer.check = self.check(value)?;
        } else if !declared::set_key(layer, self, name, value)? {
            return Err(self.at(&key.span(), &who_knows(name)));
        }
        Ok(())
    }

    /// An error at a place in the file, as one line.
    pub(super) fn at(&self, place: &Range<usize>, what: &str) -> String {
        let what: Vec<_> = what.lines().map(printable).collect();
        format!("{}: {}", self.line(place), what.join("; "))
    }

    fn line(&self, place: &Range<usize>) -> String {
        let before = self.text.as_bytes().iter().take(place.start);
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}", self.shown)
    }

    fn given<T>(&self, place: &Value, value: T) -> Given<T> {
        Given::new(value, self.line(&place.span()))
    }

    fn wrong(&self, key: &str, value: &Value, expected: &str) -> String {
        let kind = value.get_ref().type_str();
        let article = if kind.starts_with(['a', 'i']) {
            "an"
        } else {
            "a"
        };
        let what = format!("`{key}` is {article} {kind}; expected {expected}");
        self.at(&value.span(), &what)
    }

    pub(super) fn read<T>(
        &self,
        key: &str,
        value: &Value,
        text: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Given<T>, String> {
        match read(text) {
            Ok(read) => Ok(self.given(value, read)),
            Err(error) => Err(self.at(&value.span(), &format!("`{key}` = `{text}`: {error}"))),
        }
    }

    pub(super) fn text_of(
        &self,
        key: &str,
        value: &Value,
        expected: &str,
    ) -> Result<String, String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong(key, value, expected)),
        }
    }

    pub(super) fn number_or_text(
        &self,
        key: &str,
        value: &Value,
        expected: &str,
    ) -> Result<String, String> {
        match value.get_ref() {
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.to_string()),
            _ => self.text_of(key, value, expected),
        }
    }

    pub(super) fn file(&self, name: &str, value: &Value) -> Result<Given<NamedFile>, String> {
        let text = self.text_of(name, value, "the name of a file")?;
        Ok(self.given(value, NamedFile::in_settings(text.into())))
    }

    /// A text, read by `read`. `expected`: for the error if the value is no text.
    pub(super) fn by_text<T>(
        &self,
        key: &str,
        value: &Value,
        expected: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Given<T>, String> {
        let text = self.text_of(key, value, expected)?;
        self.read(key, value, &text, read)
    }

    /// A number or a text, read by `read`. `expected`: for the error if the value is neither.
    pub(super) fn by_number<T>(
        &self,
        key: &str,
        value: &Value,
        expected: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Given<T>, String> {
        let text = self.number_or_text(key, value, expected)?;
        self.read(key, value, &text, read)
    }

    /// A list of sites.
    pub(super) fn sites(&self, key: &str, value: &Value) -> Result<Given<Vec<Pattern>>, String> {
        let sites = self.list(key, value, "[\"lu.c:120\", \"factor\"]", str::parse)?;
        let sites = sites.into_iter().map(|given| given.value).collect();
        Ok(self.given(value, sites))
    }

    /// A list of counters, each once.
    pub(super) fn counters(&self, key: &str, value: &Value) -> Result<Given<Vec<Counter>>, String> {
        let example = "[\"page-faults\", \"cycles\"]";
        let all = self.list(key, value, example, counters::commas)?;
        let mut events: Vec<Counter> = Vec::new();
        for counter in all.into_iter().flat_map(|given| given.value.0) {
            if !events.contains(&counter) {
                events.push(counter);
            }
        }
        Ok(self.given(value, events))
    }

    /// A table of sites with their names.
    pub(super) fn names(
        &self,
        key: &str,
        value: &Value,
    ) -> Result<Vec<Given<super::SiteName>>, String> {
        let table = self.table(key, value)?.into_iter();
        table
            .map(|(site, name)| {
                self.by_text(site.get_ref(), name, NAMES, |text| {
                    Ok(super::SiteName {
                        site: site.get_ref().parse()?,
                        name: spec::name(text)?,
                    })
                })
            })
            .collect()
    }

    /// A table of conceptual phases with their sites.
    pub(super) fn phases(
        &self,
        key: &str,
        value: &Value,
    ) -> Result<Vec<Given<super::Conceptual>>, String> {
        let table = self.table(key, value)?.into_iter();
        table
            .map(|(phase, sites)| {
                let read = |text: &str| spec::phase_of(phase.get_ref(), text);
                self.by_text(phase.get_ref(), sites, PHASES, read)
            })
            .collect()
    }

    pub(super) fn flag(&self, key: &str, value: &Value) -> Result<Given<bool>, String> {
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(self.given(value, *flag)),
            _ => Err(self.wrong(key, value, "true or false")),
        }
    }

    pub(super) fn list<T>(
        &self,
        key: &str,
        value: &Value,
        example: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<Given<T>>, String> {
        let expected = format!("a list such as {example}");
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.wrong(key, value, &expected));
        };
        items
            .iter()
            .map(|item| {
                let text = match item.get_ref() {
                    // A line number, which matches in any file.
                    DeValue::Integer(line)
                        if line.radix() == 10 && !line.as_str().starts_with('-') =>
                    {
                        line.to_string()
                    }
                    _ => self.text_of(key, item, &expected)?,
                };
                self.read(key, item, &text, &read)
            })
            .collect()
    }

    pub(super) fn table<'t, 'i>(
        &self,
        key: &str,
        value: &'t Value<'i>,
    ) -> Result<Vec<(&'t Key<'i>, &'t Value<'i>)>, String> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(in_order(table)),
            _ => Err(self.wrong(key, value, &format!("a table, under [{key}]"))),
        }
    }
}

const NAMES: &str = "a name, with the site in quotes, such as \"lu.c:120\" = \"factor\"";
const PHASES: &str = "two sites, such as solve = \"lu.c:10..lu.c:20\"";

fn not_toml(message: &str) -> String {
    let remedy = if message.contains("unquoted key") {
        "; a site needs quotes, such as \"lu.c:120\" = \"factor\""
    } else {
        ""
    };
    format!("this is not TOML: {message}{remedy}")
}

fn who_knows(unknown: &str) -> String {
    if unknown == "folded" {
        return "`folded` is not a setting: give --folded FILE on the command line".into();
    }
    let known = || {
        let settings = SETTINGS.iter().map(|known| known.key);
        settings.chain([known::CHECK])
    };
    let near = nearest(unknown, known()).map_or_else(
        || format!("there are {}", known().collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    format!("there is no setting `{unknown}`; {near}")
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
