//! The command line as a source of settings.

use super::Options;
use crate::settings::{
    Gate, SiteName, Watched,
    layer::{Given, Layer},
};
use sbt_engine::counters::Counter;

/// The settings that the options give.
pub fn layer(options: &Options) -> Layer {
    Layer {
        departures: one(options.departures, "--departures"),
        budget: one(options.budget.map(|budget| budget.0), "--budget"),
        backend: one(options.backend, "--backend"),
        futex: one(options.futex, "--futex"),
        spin: one(options.spin, "--spin"),
        states: one(options.states, "--states"),
        waits: one(options.waits, "--waits"),
        children: match (options.children, options.no_children) {
            (true, _) => one(Some(true), "--children"),
            (_, true) => one(Some(false), "--no-children"),
            _ => None,
        },
        duration: one(options.duration, "--duration"),
        start_at: one(options.start_at.clone(), "--start-at"),
        start_after: one(options.start_after, "--start-after"),
        stop_at: one(options.stop_at.clone(), "--stop-at"),
        watch: (!options.watch.is_empty()).then(|| {
            let sites = options.watch.iter().map(|watched| watched.site.clone());
            Given::new(sites.collect(), "--watch")
        }),
        watch_all: one(options.watch_all.then_some(true), "--watch-all"),
        warnings: one(options.no_warnings.then_some(false), "--no-warnings"),
        warn_time: one(options.warn_time, "--warn-time"),
        hang_time: one(options.hang_time.map(|time| time.0), "--hang-time"),
        phase_times: one(options.phase_times.then_some(true), "--phase-times"),
        names: each(&options.names, "--name")
            .into_iter()
            .chain(options.watch.iter().filter_map(named))
            .collect(),
        phases: each(&options.phases, "--phase"),
        marks: each(&options.marks, "--mark"),
        barriers: each(&options.barriers, "--barrier"),
        events: (!options.events.is_empty()).then(|| {
            let mut all: Vec<Counter> = Vec::new();
            for counter in options.events.iter().flat_map(|events| &events.0) {
                if !all.contains(counter) {
                    all.push(counter.clone());
                }
            }
            Given::new(all, "--events")
        }),
        sample: one(options.sample, "--sample"),
        exit_with_program: one(
            options.exit_with_program.then_some(true),
            "--exit-with-program",
        ),
        // Rules are not options of `run`.
        check: Gate::default(),
    }
}

/// The name that a watched site gets.
fn named(watched: &Watched) -> Option<Given<SiteName>> {
    let name = SiteName {
        site: watched.site.clone(),
        name: watched.name.clone()?,
    };
    Some(Given::new(name, "--watch"))
}

/// Whether the options say how to watch.
pub fn say_how_to_watch(options: &Options) -> bool {
    layer(options) != Layer::default() || options.folded.is_some()
}

fn one<T>(value: Option<T>, option: &str) -> Option<Given<T>> {
    value.map(|value| Given::new(value, option))
}

fn each<T: Clone>(values: &[T], option: &str) -> Vec<Given<T>> {
    values
        .iter()
        .map(|value| Given::new(value.clone(), option))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{
        cli::{Cli, Command},
        settings::merge::merge,
    };

    fn parse(arguments: &[&str]) -> Layer {
        let arguments = ["sbt", "run"].iter().chain(arguments).chain(&["prog"]);
        match Cli::parse_from(arguments).command {
            Command::Run { options, .. } => layer(&options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_given_leaves_weaker_sources_alone() {
        assert_eq!(parse(&[]), Layer::default());
    }

    #[test]
    fn every_option_arrives_under_its_own_name() {
        let layer = parse(&[
            "--watch",
            "lu.c:1",
            "--watch",
            "factor",
            "--watch=lu.c:7=seven",
            "--watch-all",
            "--no-warnings",
            "--warn-time=20",
            "--hang-time=off",
            "--phase-times",
            "--departures=off",
            "--budget=off",
            "--backend=ptrace",
            "--futex=on",
            "--spin=point",
            "--states=full",
            "--waits=off",
            "--no-children",
            "--duration=2",
            "--start-at=solve",
            "--stop-at=lu.c:9=end",
            "--name",
            "lu.c:1=one",
            "--phase",
            "p=a..b",
            "--mark",
            "f",
            "--mark",
            "lu.c:3=three",
            "--barrier",
            "bar:1:2",
            "-e",
            "faults,msr/tsc/",
            "--events=page-faults",
            "--sample=200",
            "--exit-with-program",
        ]);
        let (_, table) = merge(vec![layer]).unwrap();
        let shown: Vec<_> = table
            .iter()
            .map(|row| format!("{} {} {}", row.setting, row.value, row.origin))
            .collect();
        assert_eq!(
            shown,
            [
                "departures off --departures",
                "budget off --budget",
                "backend ptrace --backend",
                "futex on --futex",
                "spin point --spin",
                "states full --states",
                "waits off --waits",
                "children false --no-children",
                "duration 2s --duration",
                "start-at solve --start-at",
                "start-after none default",
                "stop-at lu.c:9=end --stop-at",
                "watch lu.c:1, factor, lu.c:7 --watch",
                "watch-all true --watch-all",
                "warnings false --no-warnings",
                "warn-time 20ms --warn-time",
                "hang-time off --hang-time",
                "phase-times true --phase-times",
                "events page-faults, msr/tsc/ --events",
                "sample 200 --sample",
                "exit-with-program true --exit-with-program",
                "names lu.c:1=one --name",
                "names lu.c:7=seven --watch",
                "phases p=a..b --phase",
                "marks f --mark",
                "marks lu.c:3=three --mark",
                "barriers bar:1:2 --barrier",
            ]
        );
    }
}
