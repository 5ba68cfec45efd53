//! All settings, each declared once: its type, its default, what it is called in `sbt.toml`, in the
//! environment and on the command line, and what it means. How each is typed is in `cli.rs`.

use std::{path::PathBuf, time::Duration};

use sbt_engine::{
    choices::{Backend, Departures, Futexes, Spins, States, Waits},
    counters::{self, Counter},
    pattern::Pattern,
    value::{self, choice_text, duration_text},
};

use super::{
    Conceptual, DEFAULT_BUDGET, DEFAULT_HANG_TIME, Gate, Mark, SettingNames, SiteName, UserBarrier,
    environment,
    file::{File, Value},
    layer::Given,
    merge::{Row, Table, add, list},
    spec,
};

/// Declares the settings.
///
/// `one`: the strongest source that gives the setting decides. The first type is that of a source,
/// the second that of the result. `variable … by`: the environment variable, and the function that
/// reads its text. `file`: the function that reads the value of the key in `sbt.toml`. `shown`: the
/// value as text.
///
/// `each`: the items of all sources count. Of two items with the same subject (`by`), the item of
/// the stronger source counts.
macro_rules! settings {
    (
        one {$(
            $(#[$doc:meta])*
            $field:ident: $given:ty => $value:ty = $default:expr,
            key $key:literal, option $option:literal,
            $(variable $variable:literal by $read:expr,)?
            file $file:expr, shown $shown:expr,
            $meaning:literal;
        )*}
        each {$(
            $(#[$item_doc:meta])*
            $items:ident: $item:ty, by $subject:expr,
            key $items_key:literal, option $items_option:literal,
            file $items_file:expr,
            $items_meaning:literal;
        )*}
    ) => {
        /// How to watch and what to print.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
        pub struct Settings {
            $($(#[$doc])* pub $field: $value,)*
            $($(#[$item_doc])* pub $items: Vec<$item>,)*
            /// The file for folded stacks of the samples.
            pub folded: Option<PathBuf>,
            /// The time after which a program that hangs is ended; `None` never ends it.
            pub end_hangs: Option<Duration>,
            /// Whether the user may choose other counters while the program runs, as on the live
            /// screen.
            pub may_choose: bool,
            /// The rules of `sbt check`.
            pub check: Gate,
        }

        impl Default for Settings {
            fn default() -> Self {
                Self {
                    $($field: $default,)*
                    $($items: Vec::new(),)*
                    folded: None,
                    end_hangs: None,
                    may_choose: false,
                    check: Gate::default(),
                }
            }
        }

        /// The settings of one source; settings that the source does not give are `None` or empty.
        /// The meaning of each is described at [`Settings`].
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Layer {
            $($(#[$doc])* pub $field: Option<Given<$given>>,)*
            $($(#[$item_doc])* pub $items: Vec<Given<$item>>,)*
            /// Rules of `sbt check`; a rule of a stronger source replaces the weaker source's rule
            /// on the same subject.
            pub check: Gate,
        }

        /// All settings, in the order in which they are shown.
        pub const SETTINGS: &[SettingNames] = &[
            $(SettingNames {
                key: $key,
                variable: [$($variable,)?].as_slice().first().copied(),
                option: $option,
                meaning: $meaning,
            },)*
            $(SettingNames {
                key: $items_key,
                variable: None,
                option: $items_option,
                meaning: $items_meaning,
            },)*
        ];

        /// The settings of both sources.
        pub(super) fn over(weak: Layer, strong: Layer) -> Layer {
            Layer {
                $($field: strong.$field.or(weak.$field),)*
                $($items: add(weak.$items, strong.$items, $subject),)*
                check: weak.check.with(strong.check),
            }
        }

        /// Fills in the defaults and makes the table.
        pub(super) fn settle(all: Layer) -> (Settings, Vec<Row>) {
            let default = Settings::default();
            let mut table = Table::default();
            let settings = Settings {
                $($field: table.one(
                    $key,
                    all.$field
                        .map(|given| Given::new(<$value>::from(given.value), given.origin)),
                    default.$field,
                    $shown,
                ),)*
                $($items: table.each($items_key, all.$items),)*
                check: all.check,
                ..default
            };
            (settings, table.rows)
        }

        /// Sets the setting that an environment variable stands for, if it stands for any.
        ///
        /// # Errors
        /// What was expected instead of `text`.
        pub(super) fn set_variable(
            layer: &mut Layer,
            name: &'static str,
            text: &str,
        ) -> Result<(), String> {
            match name {
                $($($variable => {
                    let read: fn(&str) -> Result<$given, String> = $read;
                    layer.$field = Some(Given::new(read(text)?, name));
                })?)*
                _ => {}
            }
            Ok(())
        }

        /// Sets the setting with this key in `sbt.toml`; whether there is one.
        ///
        /// # Errors
        /// One line, with the place in the file, that says what was expected.
        pub(super) fn set_key(
            layer: &mut Layer,
            file: &File<'_>,
            key: &str,
            value: &Value<'_>,
        ) -> Result<bool, String> {
            match key {
                $($key => {
                    let read: fn(&File<'_>, &str, &Value<'_>) -> Result<Given<$given>, String> =
                        $file;
                    layer.$field = Some(read(file, key, value)?);
                })*
                $($items_key => {
                    let read: fn(&File<'_>, &str, &Value<'_>) -> Result<Vec<Given<$item>>, String> =
                        $items_file;
                    layer.$items = read(file, key, value)?;
                })*
                _ => return Ok(false),
            }
            Ok(true)
        }
    };
}

const AUTO_OFF: &str = "\"auto\" or \"off\"";
const AUTO_POINT_OFF: &str = "\"auto\", \"point\" or \"off\"";
const AUTO_ON_OFF: &str = "\"auto\", \"on\" or \"off\"";
const BACKENDS: &str = "\"auto\", \"ebpf\", \"inject\", \"perf\" or \"ptrace\"";
const MARK: &str = "a function or line, such as \"solve\" or \"lu.c:12=inner\"";
const LEVELS: &str = "\"light\", \"full\" or \"off\"";
const OFF: &str = "off";

settings! {
    one {
        /// Whether to watch departures.
        departures: Departures => Departures = Departures::Auto,
            key "departures", option "--departures",
            file |file, key, value| file.by_text(key, value, AUTO_ON_OFF, value::choice),
            shown choice_text,
            "whether departures from barriers are watched: how long the release takes";
        /// The share of a thread's time that watching may cost, in percent; `None` for no limit.
        budget: Option<f64> => Option<f64> = Some(DEFAULT_BUDGET),
            key "budget", option "--budget", variable "SBT_BUDGET" by value::percent,
            file |file, key, value| file.by_number(key, value, "percent or \"off\"", value::percent),
            shown |budget| budget.map_or_else(|| OFF.into(), |budget| format!("{budget}%")),
            "limit for the cost of watching, in percent of a thread's time; above it sbt watches \
             less";
        /// The way to watch the program.
        backend: Backend => Backend = Backend::Auto,
            key "backend", option "--backend",
            file |file, key, value| file.by_text(key, value, BACKENDS, value::choice),
            shown choice_text,
            "how the program is watched: auto, ebpf, inject, perf or ptrace";
        /// Whether to watch the system calls of futexes.
        futex: Futexes => Futexes = Futexes::Auto,
            key "futex", option "--futex",
            file |file, key, value| file.by_text(key, value, AUTO_ON_OFF, value::choice),
            shown choice_text,
            "whether the futex system call is watched, for locks and for barriers made from \
             futexes";
        /// Whether barriers that only spin are counted, pointed at, or not looked for.
        spin: Spins => Spins = Spins::Auto,
            key "spin", option "--spin",
            file |file, key, value| file.by_text(key, value, AUTO_POINT_OFF, value::choice),
            shown choice_text,
            "whether sbt looks for barriers that only spin, and counts them: auto, point or off";
        /// How closely to watch what threads do between barriers.
        states: States => States = States::Light,
            key "states", option "--states", variable "SBT_STATES" by value::choice,
            file |file, key, value| file.by_text(key, value, LEVELS, value::choice),
            shown choice_text,
            "what is measured of threads between barriers: light, full or off";
        /// Whether to look where threads sleep.
        waits: Waits => Waits = Waits::Auto,
            key "waits", option "--waits", variable "SBT_WAITS" by value::choice,
            file |file, key, value| file.by_text(key, value, AUTO_OFF, value::choice),
            shown choice_text,
            "whether sbt looks where threads sleep and for what: auto or off";
        /// Whether to watch processes that the target starts; `None` watches them only if sbt starts
        /// the target itself.
        children: bool => Option<bool> = None,
            key "children", option "--children",
            file |file, key, value| file.flag(key, value),
            shown |children| children.map_or_else(|| "in run".into(), |children| children.to_string()),
            "whether processes that the program starts are watched too";
        /// How long to watch; `None` watches until the target ends.
        duration: Duration => Option<Duration> = None,
            key "duration", option "--duration",
            file |file, key, value| {
                file.by_number(key, value, "seconds or a text such as \"500ms\"", value::seconds)
            },
            shown |duration| duration.map_or_else(|| "until the end".into(), duration_text),
            "watching stops after this time";
        /// The place at which counting begins; `None` counts from the start.
        start_at: Mark => Option<Mark> = None,
            key "start-at", option "--start-at",
            file |file, key, value| file.by_text(key, value, MARK, spec::mark),
            shown |mark| mark.as_ref().map_or_else(|| "the start".into(), Mark::to_string),
            "a function or line at which counting begins";
        /// The time after the start at which counting begins; `start_at` comes first.
        start_after: Duration => Option<Duration> = None,
            key "start-after", option "--start-after",
            file |file, key, value| {
                file.by_number(key, value, "seconds or a text such as \"30s\"", value::seconds)
            },
            shown |time| time.map_or_else(|| "none".into(), duration_text),
            "counting begins this time after the start";
        /// The place at which counting and watching end.
        stop_at: Mark => Option<Mark> = None,
            key "stop-at", option "--stop-at",
            file |file, key, value| file.by_text(key, value, MARK, spec::mark),
            shown |mark| mark.as_ref().map_or_else(|| "the end".into(), Mark::to_string),
            "a function or line at which watching ends";
        /// Sites, or names of sites or phases, whose episodes are printed one by one.
        watch: Vec<Pattern> => Vec<Pattern> = Vec::new(),
            key "watch", option "--watch", variable "SBT_WATCH" by environment::sites,
            file |file, key, value| file.sites(key, value),
            shown |sites| list(sites),
            "barriers whose episodes are printed one by one, by site or name";
        /// Whether to print the episodes of all barriers one by one.
        watch_all: bool => bool = false,
            key "watch-all", option "--watch-all", variable "SBT_WATCH_ALL" by value::switch,
            file |file, key, value| file.flag(key, value), shown bool::to_string,
            "whether the episodes of all barriers are printed one by one";
        /// Whether to warn of long episodes.
        warnings: bool => bool = true,
            key "warnings", option "--no-warnings", variable "SBT_WARNINGS" by value::switch,
            file |file, key, value| file.flag(key, value), shown bool::to_string,
            "whether sbt warns of an episode longer than warn-time, watched or not";
        /// The barrier time above which an episode is long.
        warn_time: Duration => Duration = Duration::from_secs(1),
            key "warn-time", option "--warn-time",
            variable "SBT_WARN_TIME" by environment::warn_time,
            file |file, key, value| {
                file.by_number(key, value, "milliseconds or a text such as \"2s\"", value::milliseconds)
            },
            shown |time| duration_text(*time),
            "the time from first to last arrival above which an episode is long";
        /// The time without an arrival after which threads waiting at a barrier may hang; `None`
        /// never looks for hangs.
        hang_time: Option<Duration> => Option<Duration> = Some(DEFAULT_HANG_TIME),
            key "hang-time", option "--hang-time",
            variable "SBT_HANG_TIME" by environment::hang_time,
            file |file, key, value| {
                file.by_number(key, value, "seconds or \"off\"", value::hang_time)
            },
            shown |time| time.map_or_else(|| OFF.into(), duration_text),
            "how long threads wait at a barrier without an arrival before sbt looks for a hang";
        /// Whether to print the time of each phase as it ends.
        phase_times: bool => bool = false,
            key "phase-times", option "--phase-times", variable "SBT_PHASE_TIMES" by value::switch,
            file |file, key, value| file.flag(key, value), shown bool::to_string,
            "whether the time of each phase is printed when it ends";
        /// Counters to read with every event of a thread.
        events: Vec<Counter> => Vec<Counter> = Vec::new(),
            key "events", option "--events",
            variable "SBT_EVENTS" by |text| Ok(counters::colons(text)?.0),
            file |file, key, value| file.counters(key, value),
            shown |counters| list(counters),
            "counters that are read for each thread and phase; `sbt list` names them";
        /// Samples per second of a thread's time on a CPU; 0 takes none.
        sample: u32 => u32 = 0,
            key "sample", option "--sample", variable "SBT_SAMPLE" by value::sample,
            file |file, key, value| {
                file.by_number(key, value, "a number of samples a second", value::sample)
            },
            shown u32::to_string,
            "samples per second of CPU time, for the time by function; 0 takes none";
        /// Whether the live screen closes when the program ends, without waiting for a key.
        exit_with_program: bool => bool = false,
            key "exit-with-program", option "--exit-with-program",
            variable "SBT_EXIT_WITH_PROGRAM" by value::switch,
            file |file, key, value| file.flag(key, value), shown bool::to_string,
            "whether the live screen closes when the program ends, without waiting for a key";
    }
    each {
        /// Names of sites. A site has one name at most; several sites may share a name.
        names: SiteName, by |named| named.site.clone(),
            key "names", option "--name",
            file |file, key, value| file.names(key, value),
            "names of sites, for reports and for watch";
        /// Conceptual phases, with distinct names, at most [`super::MAX_PHASES`].
        phases: Conceptual, by |phase| phase.name.clone(),
            key "phases", option "--phase",
            file |file, key, value| file.phases(key, value),
            "phases from one barrier to another, with all barriers between";
        /// Marks, at distinct places, at most [`super::MAX_MARKS`].
        marks: Mark, by |mark| mark.at.clone(),
            key "marks", option "--mark",
            file |file, key, value| {
                file.list(key, value, "[\"factor\", \"lu.c:12=inner\"]", spec::mark)
            },
            "functions and lines: how often threads pass them, and the times between";
        /// The user's own functions that are barriers, each once, at most [`super::MAX_BARRIERS`].
        barriers: UserBarrier, by |barrier| barrier.function.clone(),
            key "barriers", option "--barrier",
            file |file, key, value| file.list(key, value, "[\"bar_wait:1:2\"]", spec::barrier),
            "functions of the program that are barriers";
    }
}
