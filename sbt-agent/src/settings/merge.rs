//! Merges the settings of all sources into one [`Settings`], and makes a table of where each value
//! came from. Pure.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt::Display,
    hash::Hash,
};

use sbt_engine::counters::MAX_NAMED;
use sbt_program::access;

use super::{
    Settings, known,
    layer::{Given, Layer},
};
use sbt_engine::value::{choice_text, duration_text};

/// The most conceptual phases.
pub const MAX_PHASES: usize = 64;
/// The most marks: the number of a mark crosses the ring in one byte.
pub const MAX_MARKS: usize = 255;
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
/// # Errors One line: a list is too long, or two phases of one source share a name.
pub fn merge(layers: Vec<Layer>) -> Result<(Settings, Vec<Row>), String> {
    let mut all = Layer::default();
    for layer in layers {
        unique_phases(&layer)?;
        all = over(all, layer);
    }
    within(all.phases.len(), MAX_PHASES, "phases", "--phase, [phases]")?;
    within(all.marks.len(), MAX_MARKS, "marks", "--mark, marks")?;
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
    Ok(settle(all))
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

fn over(weak: Layer, strong: Layer) -> Layer {
    Layer {
        departures: strong.departures.or(weak.departures),
        budget: strong.budget.or(weak.budget),
        backend: strong.backend.or(weak.backend),
        futex: strong.futex.or(weak.futex),
        states: strong.states.or(weak.states),
        children: strong.children.or(weak.children),
        duration: strong.duration.or(weak.duration),
        watch: strong.watch.or(weak.watch),
        watch_all: strong.watch_all.or(weak.watch_all),
        warnings: strong.warnings.or(weak.warnings),
        warn_time: strong.warn_time.or(weak.warn_time),
        hang_time: strong.hang_time.or(weak.hang_time),
        phase_times: strong.phase_times.or(weak.phase_times),
        names: add(weak.names, strong.names, |named| named.site.clone()),
        phases: add(weak.phases, strong.phases, |phase| phase.name.clone()),
        marks: add(weak.marks, strong.marks, |mark| mark.at.clone()),
        barriers: add(weak.barriers, strong.barriers, |barrier| {
            barrier.function.clone()
        }),
        events: strong.events.or(weak.events),
        sample: strong.sample.or(weak.sample),
        folded: strong.folded.or(weak.folded),
        exit_with_program: strong.exit_with_program.or(weak.exit_with_program),
        check: weak.check.with(strong.check),
    }
}

/// The items of both layers; a later item on the same subject replaces the earlier one.
fn add<T, K: Eq + Hash>(
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

/// Fills in the defaults and makes the table.
fn settle(all: Layer) -> (Settings, Vec<Row>) {
    let default = Settings::default();
    let mut table = Table::default();
    let flag = bool::to_string;
    let settings = Settings {
        may_choose: false,
        departures: table.one(
            "departures",
            all.departures,
            default.departures,
            choice_text,
        ),
        budget: table.one("budget", all.budget, default.budget, |value| {
            value.map_or_else(|| "off".into(), |value| format!("{value}%"))
        }),
        backend: table.one("backend", all.backend, default.backend, choice_text),
        futex: table.one("futex", all.futex, default.futex, choice_text),
        states: table.one("states", all.states, default.states, choice_text),
        children: table.one(
            "children",
            all.children
                .map(|given| Given::new(Some(given.value), given.origin)),
            default.children,
            |value| value.map_or_else(|| "in run".into(), |value| flag(&value)),
        ),
        duration: table.one(
            "duration",
            all.duration
                .map(|given| Given::new(Some(given.value), given.origin)),
            default.duration,
            |value| value.map_or_else(|| "until the end".into(), duration_text),
        ),
        watch: table.one("watch", all.watch, default.watch, |value| list(value)),
        watch_all: table.one("watch-all", all.watch_all, default.watch_all, flag),
        warnings: table.one("warnings", all.warnings, default.warnings, flag),
        warn_time: table.one("warn-time", all.warn_time, default.warn_time, |value| {
            duration_text(*value)
        }),
        hang_time: table.one("hang-time", all.hang_time, default.hang_time, |value| {
            value.map_or_else(|| "off".into(), duration_text)
        }),
        phase_times: table.one("phase-times", all.phase_times, default.phase_times, flag),
        names: table.each("names", all.names),
        phases: table.each("phases", all.phases),
        marks: table.each("marks", all.marks),
        barriers: table.each("barriers", all.barriers),
        events: table.one("events", all.events, default.events, |value| list(value)),
        sample: table.one("sample", all.sample, default.sample, u32::to_string),
        folded: table.file("folded", all.folded, default.folded),
        exit_with_program: table.one(
            "exit-with-program",
            all.exit_with_program,
            default.exit_with_program,
            flag,
        ),
        end_hangs: default.end_hangs,
        check: all.check,
    };
    (settings, table.rows)
}

/// The origin of a value that no source gives.
pub(super) const DEFAULT: &str = "default";
const NONE: &str = "none";

fn list(items: &[impl Display]) -> String {
    if items.is_empty() {
        return NONE.into();
    }
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.join(", ")
}

#[derive(Default)]
struct Table {
    rows: Vec<Row>,
}

impl Table {
    fn row(&mut self, setting: &'static str, value: String, origin: String) {
        debug_assert!(known::SETTINGS.iter().any(|known| known.key == setting));
        self.rows.push(Row {
            setting,
            value,
            origin,
        });
    }

    fn one<T>(
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

    fn file(
        &mut self,
        setting: &'static str,
        given: Option<Given<access::Named>>,
        default: Option<access::Named>,
    ) -> Option<access::Named> {
        let given = given.map(|given| Given::new(Some(given.value), given.origin));
        self.one(setting, given, default, |path| match path {
            Some(named) => named.path.to_string_lossy().into_owned(),
            None => NONE.into(),
        })
    }

    fn each<T: Display>(&mut self, setting: &'static str, items: Vec<Given<T>>) -> Vec<T> {
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
