//! Merges the settings of all sources into one [`Settings`], and makes a table of where each value
//! came from. Pure.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt::Display,
    hash::Hash,
};

use sbt_engine::counters::MAX_NAMED;

use super::{
    SETTINGS, Settings,
    declared::{over, settle},
    layer::{Given, Layer},
};

/// The most conceptual phases.
pub const MAX_PHASES: usize = 64;
/// The most marks: the number of a mark crosses the ring in one byte.
pub const MAX_MARKS: usize = 254;
/// The most functions of the user's that are barriers.
pub const MAX_BARRIERS: usize = 32;

/// A row of the table of effective settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key of the setting.
    pub setting: &'static str,
    /// The effective value; a setting that adds up over sources has a row for each item.
    pub value: String,
    /// The place where the value was given; `default` if it was given nowhere.
    pub origin: String,
}

/// Lays `layers` over the defaults, weakest first.
///
/// # Errors
/// One line: a list is too long, or two phases of one source share a name.
pub fn merge(layers: Vec<Layer>) -> Result<(Settings, Vec<Row>), String> {
    let mut all = Layer::default();
    for layer in layers {
        unique_phases(&layer)?;
        all = over(all, layer);
    }
    within(all.phases.len(), MAX_PHASES, "phases", "--phase, [phases]")?;
    within(
        all.barriers.len(),
        MAX_BARRIERS,
        "barriers of your own",
        "--barrier, barriers",
    )?;
    let events = all.events.as_ref().map_or(0, |given| given.value.len());
    within(
        events,
        MAX_NAMED,
        "counters",
        "--events, SBT_EVENTS, events",
    )?;
    let (mut settings, table) = settle(all);
    settings.add_marks_of_window();
    let marks = settings.marks.len();
    within(
        marks,
        MAX_MARKS,
        "marks",
        "--mark, marks, --start-at, --stop-at",
    )?;
    Ok((settings, table))
}

fn unique_phases(layer: &Layer) -> Result<(), String> {
    let mut names = HashSet::new();
    match layer
        .phases
        .iter()
        .find(|given| !names.insert(&given.value.name))
    {
        Some(again) => Err(format!(
            "{}: there are two phases `{}`; give each a name of its own",
            again.origin, again.value.name
        )),
        None => Ok(()),
    }
}

fn within(number: usize, limit: usize, what: &str, sources: &str) -> Result<(), String> {
    if number <= limit {
        return Ok(());
    }
    Err(format!(
        "{number} {what} are too many ({sources}): name at most {limit}"
    ))
}

/// The items of both layers; a later item on the same subject replaces the earlier one.
pub(super) fn add<T, K: Eq + Hash>(
    weak: Vec<Given<T>>,
    strong: Vec<Given<T>>,
    subject: impl Fn(&T) -> K,
) -> Vec<Given<T>> {
    let mut all = Vec::with_capacity(weak.len() + strong.len());
    let mut places = HashMap::new();
    for item in weak.into_iter().chain(strong) {
        match places.entry(subject(&item.value)) {
            Entry::Occupied(known) => all[*known.get()] = item,
            Entry::Vacant(new) => {
                new.insert(all.len());
                all.push(item);
            }
        }
    }
    all
}

/// The origin of a value that no source gives.
pub(super) const DEFAULT: &str = "default";
const NONE: &str = "none";

pub(super) fn list(items: &[impl Display]) -> String {
    if items.is_empty() {
        return NONE.into();
    }
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

#[derive(Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
}

impl Table {
    fn row(&mut self, setting: &'static str, value: String, origin: String) {
        debug_assert!(SETTINGS.iter().any(|known| known.key == setting));
        self.rows.push(Row {
            setting,
            value,
            origin,
        });
    }

    pub(super) fn one<T>(
        &mut self,
        setting: &'static str,
        given: Option<Given<T>>,
        default: T,
        text: impl Fn(&T) -> String,
    ) -> T {
        let Given { value, origin } = given.unwrap_or_else(|| Given::new(default, DEFAULT));
        self.row(setting, text(&value), origin);
        value
    }

    pub(super) fn each<T: Display>(
        &mut self,
        setting: &'static str,
        items: Vec<Given<T>>,
    ) -> Vec<T> {
        if items.is_empty() {
            self.row(setting, NONE.into(), DEFAULT.into());
        }
        items
            .into_iter()
            .map(|Given { value, origin }| {
                self.row(setting, value.to_string(), origin);
                value
            })
            .collect()
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
