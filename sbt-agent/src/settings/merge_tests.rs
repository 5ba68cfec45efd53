use std::time::Duration;

use super::*;
use crate::settings::{layer::Given, spec};
use sbt_engine::choices::Departures;

fn rows(table: &[Row], setting: &str) -> Vec<(String, String)> {
    table
        .iter()
        .filter(|row| row.setting == setting)
        .map(|row| (row.value.clone(), row.origin.clone()))
        .collect()
}

fn one(table: &[Row], setting: &str) -> (String, String) {
    let found = rows(table, setting);
    assert_eq!(found.len(), 1, "{setting}");
    found[0].clone()
}

fn said(value: &str, origin: &str) -> (String, String) {
    (value.into(), origin.into())
}

fn watch(sites: &[&str], origin: &str) -> Layer {
    let sites = sites.iter().map(|site| site.parse().unwrap()).collect();
    Layer {
        watch: Some(Given::new(sites, origin)),
        ..Layer::default()
    }
}

fn named(specs: &[&str], origin: &str) -> Layer {
    let give = |text: &&str| Given::new(spec::named(text).unwrap(), origin);
    Layer {
        names: specs.iter().map(give).collect(),
        ..Layer::default()
    }
}

fn phases(specs: &[&str], origin: &str) -> Layer {
    let give = |text: &&str| Given::new(spec::phase(text).unwrap(), origin);
    Layer {
        phases: specs.iter().map(give).collect(),
        ..Layer::default()
    }
}

#[test]
fn without_sources_the_defaults_hold() {
    let (settings, table) = merge(Vec::new()).unwrap();
    assert_eq!(settings, Settings::default());
    assert!(settings.warnings && settings.warn_time == Duration::from_secs(1));
    let keys: Vec<_> = table.iter().map(|row| row.setting).collect();
    assert_eq!(
        keys,
        SETTINGS.iter().map(|known| known.key).collect::<Vec<_>>()
    );
    assert!(table.iter().all(|row| row.origin == "default"), "{table:?}");
    assert_eq!(one(&table, "warn-time").0, "1s");
    assert_eq!(one(&table, "hang-time").0, "10s");
    assert_eq!(one(&table, "departures").0, "auto");
    assert_eq!(one(&table, "marks").0, "none");
}

#[test]
fn a_stronger_source_wins_and_is_named() {
    let weak = Layer {
        departures: Some(Given::new(Departures::Off, "sbt.toml:1")),
        duration: Some(Given::new(Duration::from_secs(5), "sbt.toml:2")),
        warn_time: Some(Given::new(Duration::from_millis(1500), "sbt.toml:3")),
        warnings: Some(Given::new(false, "sbt.toml:4")),
        phase_times: Some(Given::new(true, "sbt.toml:5")),
        ..Layer::default()
    };
    let middle = Layer {
        phase_times: Some(Given::new(false, "SBT_PHASE_TIMES")),
        watch_all: Some(Given::new(true, "SBT_WATCH_ALL")),
        ..Layer::default()
    };
    let strong = Layer {
        duration: Some(Given::new(Duration::from_millis(10), "--duration")),
        ..Layer::default()
    };
    let (settings, table) = merge(vec![weak, middle, strong]).unwrap();
    assert_eq!(
        settings,
        Settings {
            departures: Departures::Off,
            duration: Some(Duration::from_millis(10)),
            warn_time: Duration::from_millis(1500),
            warnings: false,
            watch_all: true,
            ..Settings::default()
        }
    );
    for (setting, value, origin) in [
        ("departures", "off", "sbt.toml:1"),
        ("duration", "10ms", "--duration"),
        ("warn-time", "1500ms", "sbt.toml:3"),
        ("warnings", "false", "sbt.toml:4"),
        ("phase-times", "false", "SBT_PHASE_TIMES"),
        ("watch-all", "true", "SBT_WATCH_ALL"),
        ("watch", "none", "default"),
    ] {
        assert_eq!(one(&table, setting), said(value, origin), "{setting}");
    }
}

#[test]
fn what_is_watched_replaces_what_a_weaker_source_watches() {
    let (settings, table) = merge(vec![
        watch(&["lu.c:1", "lu.c:2"], "sbt.toml:1"),
        watch(&["lu.c:3", "factor"], "SBT_WATCH"),
        Layer::default(),
    ])
    .unwrap();
    assert_eq!(settings.watch.len(), 2);
    assert_eq!(one(&table, "watch"), said("lu.c:3, factor", "SBT_WATCH"));
}

#[test]
fn names_add_up_and_the_later_one_of_a_site_wins() {
    let (settings, table) = merge(vec![
        named(&["lu.c:1=one", "lu.c:2=two"], "sbt.toml:1"),
        named(&["lu.c:2=zwei", "lu.c:3=one", "lu.c:3=three"], "--name"),
    ])
    .unwrap();
    let shown: Vec<_> = settings.names.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["lu.c:1=one", "lu.c:2=zwei", "lu.c:3=three"]);
    assert_eq!(
        rows(&table, "names"),
        [
            said("lu.c:1=one", "sbt.toml:1"),
            said("lu.c:2=zwei", "--name"),
            said("lu.c:3=three", "--name"),
        ]
    );
    // Two sites may share a name.
    assert_eq!(
        merge(vec![named(&["a=x", "b=x"], "--name")])
            .unwrap()
            .0
            .names
            .len(),
        2
    );
}

#[test]
fn a_phase_replaces_that_of_a_weaker_source_but_none_of_its_own() {
    let (settings, _) = merge(vec![
        phases(&["solve=a..b", "all=a..z"], "sbt.toml:1"),
        phases(&["solve=c..d"], "--phase"),
    ])
    .unwrap();
    let shown: Vec<_> = settings.phases.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["solve=c..d", "all=a..z"]);
    let error = merge(vec![phases(&["solve=a..b", "solve=c..d"], "--phase")]).unwrap_err();
    assert!(
        error.contains("--phase") && error.contains("`solve`"),
        "{error}"
    );
}

#[test]
fn marks_and_barriers_add_up() {
    let layer = |mark: &str, barrier: &str, origin: &str| Layer {
        marks: vec![Given::new(spec::mark(mark).unwrap(), origin)],
        barriers: vec![Given::new(spec::barrier(barrier).unwrap(), origin)],
        ..Layer::default()
    };
    let (settings, _) = merge(vec![
        layer("f", "bar", "sbt.toml:1"),
        layer("g=inner", "other:1", "sbt.toml:2"),
        layer("f=outer", "bar:1:2", "--mark"),
    ])
    .unwrap();
    let marks: Vec<_> = settings.marks.iter().map(ToString::to_string).collect();
    let barriers: Vec<_> = settings.barriers.iter().map(ToString::to_string).collect();
    assert_eq!(marks, ["f=outer", "g=inner"]);
    assert_eq!(barriers, ["bar:1:2", "other:1"]);
}

#[test]
fn too_much_of_something_is_an_error() {
    let repeated = |count: usize| {
        let texts: Vec<_> = (0..count).map(|index| format!("p{index}")).collect();
        let give = |text: &String| Given::new(text.clone(), "--x");
        texts.iter().map(give).collect::<Vec<_>>()
    };
    let phases = |count| Layer {
        phases: repeated(count)
            .into_iter()
            .map(|given| Given::new(spec::phase_of(&given.value, "a..b").unwrap(), given.origin))
            .collect(),
        ..Layer::default()
    };
    let marks = |count| Layer {
        marks: repeated(count)
            .into_iter()
            .map(|given| Given::new(spec::mark(&given.value).unwrap(), given.origin))
            .collect(),
        ..Layer::default()
    };
    let barriers = |count| Layer {
        barriers: repeated(count)
            .into_iter()
            .map(|given| Given::new(spec::barrier(&given.value).unwrap(), given.origin))
            .collect(),
        ..Layer::default()
    };
    for (make, limit, option) in [
        (&phases as &dyn Fn(usize) -> Layer, 64, "--phase"),
        (&marks, 254, "--mark"),
        (&barriers, 32, "--barrier"),
    ] {
        assert!(merge(vec![make(limit)]).is_ok(), "{option}");
        let error = merge(vec![make(limit + 1)]).unwrap_err();
        assert!(error.contains(option), "{error}");
        assert!(error.contains(&limit.to_string()), "{error}");
        // Items that replace each other count once, from whichever source they are.
        assert!(merge(vec![make(limit), make(limit)]).is_ok(), "{option}");
    }
}
