//! Tests that read the output with Perfetto's published definitions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage as _, Value as Field};

use super::*;
use crate::show::Participant;
use proto::{TrackDescriptor, TrackEvent, Type};
use sbt_engine::{
    report::{BarrierKind, CounterUnit, Report, counters::CounterReport},
    samples,
};

const MS: u64 = 1_000_000;

fn counter(name: &str) -> CounterReport {
    CounterReport {
        name: name.into(),
        unit: CounterUnit::Count,
        total: None,
        work: None,
        unknown: 0,
        counted_pct: None,
    }
}

fn report() -> Report {
    let mut report = samples::imbalanced().report;
    report.run.wall_ns = 1_000 * MS;
    report.counters = vec![counter("instructions")];
    report
}

/// An episode of four threads. Each works 1 ms longer than the previous one; the fourth arrives
/// last.
fn episode(index: u64, begin_ns: u64, release_ns: Option<u64>) -> Episode {
    let last_ns = begin_ns + 5 * MS;
    let seen = |thread: u32| {
        let work_ns = (u64::from(thread) + 2) * MS;
        Participant {
            thread,
            is_shared: false,
            arrived_ns: begin_ns + work_ns,
            idle_ns: last_ns - begin_ns - work_ns,
            release_ns: release_ns.map(|ns| ns + u64::from(thread)),
            work_ns: Some(work_ns),
            split: Split {
                running_ns: Some(work_ns),
                ready_ns: Some(0),
                blocked_ns: None,
            },
            counts: vec![Some(4_000_000)],
        }
    };
    Episode {
        site: 1,
        index,
        first_ns: begin_ns + 2 * MS,
        last_ns,
        phase: Some((Some(0), 5 * MS)),
        straggler: Some((3, MS)),
        alone: None,
        seen: (0..4).map(seen).collect(),
    }
}

/// The content of a file, as its readers understand it.
#[derive(Default)]
struct Read {
    tracks: BTreeMap<u64, TrackDescriptor>,
    /// By track: start, end, name and depth.
    slices: BTreeMap<u64, Vec<(u64, u64, String, usize)>>,
    instants: Vec<(u64, u64, String)>,
    counts: BTreeMap<u64, Vec<(u64, f64)>>,
    /// Start and end of each arrow.
    flows: BTreeMap<u64, (u64, Option<u64>)>,
    texts: BTreeSet<String>,
}

impl Read {
    fn track(&self, name: &str) -> u64 {
        let named = |track: &&TrackDescriptor| {
            let thread = track
                .thread
                .as_ref()
                .and_then(|track| track.thread_name.as_deref());
            track.name.as_deref().or(thread) == Some(name)
        };
        self.tracks.values().find(named).unwrap().uuid.unwrap()
    }

    fn names(&self, track: u64) -> Vec<&str> {
        let slices = &self.slices[&track];
        slices.iter().map(|slice| slice.2.as_str()).collect()
    }
}

/// Checks that a message has no fields beyond the definitions.
fn known(message: &DynamicMessage) {
    assert_eq!(message.unknown_fields().count(), 0, "{message:?}");
    for (_, field) in message.fields() {
        match field {
            Field::Message(inner) => known(inner),
            Field::List(all) => all.iter().filter_map(Field::as_message).for_each(known),
            _ => {}
        }
    }
}

fn read(bytes: &[u8]) -> Read {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/show/perfetto");
    let files = protox::compile(["published.proto"], [folder]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let trace = pool.get_message_by_name("perfetto.protos.Trace").unwrap();
    let message = DynamicMessage::decode(trace, bytes).unwrap();
    known(&message);
    assert_eq!(message.descriptor().name(), "Trace");
    structure(proto::Trace::decode(bytes).unwrap())
}

/// Reads a trace like Perfetto's importer: by time, and packets of the same time in the order of
/// the file.
fn structure(whole: proto::Trace) -> Read {
    let mut out = Read::default();
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut events: Vec<(u64, TrackEvent, String)> = Vec::new();
    assert_eq!(whole.packet[0].sequence_flags, Some(proto::STATE_CLEARED));
    for packet in whole.packet {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        if packet.sequence_flags == Some(proto::STATE_CLEARED) {
            names.clear();
        }
        let interned = packet.interned_data.unwrap_or_default();
        for name in interned.event_names {
            out.texts.insert(name.name.clone().unwrap());
            names.insert(name.iid.unwrap(), name.name.unwrap());
        }
        for text in interned.debug_annotation_string_values {
            out.texts
                .insert(String::from_utf8(text.str.unwrap()).unwrap());
        }
        if let Some(track) = packet.track_descriptor {
            let thread = track
                .thread
                .iter()
                .filter_map(|thread| thread.thread_name.clone());
            out.texts.extend(thread.chain(track.name.clone()));
            let parent = track.parent_uuid;
            assert!(parent.is_none_or(|number| out.tracks.contains_key(&number)));
            assert!(out.tracks.insert(track.uuid.unwrap(), track).is_none());
        }
        if let Some(event) = packet.track_event {
            assert!(out.tracks.contains_key(&event.track_uuid.unwrap()));
            let name = event
                .name_iid
                .map_or_else(String::new, |number| names[&number].clone());
            events.push((packet.timestamp.unwrap(), event, name));
        }
    }
    events.sort_by_key(|event| event.0);
    let mut open: HashMap<u64, Vec<(u64, String)>> = HashMap::new();
    for (time_ns, event, name) in events {
        let track = event.track_uuid.unwrap();
        for flow in event.flow_ids {
            assert!(out.flows.insert(flow, (time_ns, None)).is_none());
        }
        for flow in event.terminating_flow_ids {
            let end = &mut out.flows.get_mut(&flow).expect("it has begun").1;
            assert!(end.replace(time_ns).is_none());
        }
        match Type::try_from(event.r#type.unwrap()).unwrap() {
            Type::SliceBegin => open.entry(track).or_default().push((time_ns, name)),
            Type::SliceEnd => {
                let stack = open.get_mut(&track).unwrap();
                let (from_ns, name) = stack.pop().expect("something is open");
                assert!(from_ns < time_ns);
                let slice = (from_ns, time_ns, name, stack.len());
                out.slices.entry(track).or_default().push(slice);
            }
            Type::Instant => out.instants.push((track, time_ns, name)),
            Type::Counter => {
                let value = event.double_counter_value.unwrap();
                out.counts.entry(track).or_default().push((time_ns, value));
            }
            Type::Unspecified => panic!("an event without a type"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "all that begins ends");
    assert!(out.flows.values().all(|(_, end)| end.is_some()));
    out
}

/// All episodes of a run are known.
fn all(arrivals: u64) -> KnownPart {
    KnownPart {
        from_ns: 0,
        arrivals,
    }
}

fn written(report: &Report, episodes: impl IntoIterator<Item = Episode>) -> Vec<u8> {
    written_of(report, all(0), episodes)
}

fn written_of(
    report: &Report,
    known: KnownPart,
    episodes: impl IntoIterator<Item = Episode>,
) -> Vec<u8> {
    let mut trace = Trace::new(report, known, Vec::new()).unwrap();
    for episode in episodes {
        trace.add(&episode).unwrap();
    }
    trace.finish().unwrap()
}

/// Each episode begins when the first thread has left the previous one: a thread's spans never
/// overlap.
fn run(count: u64, release_ns: Option<u64>) -> impl Iterator<Item = Episode> {
    let step = 5 * MS + release_ns.map_or(0, |ns| ns + 3);
    (0..count).map(move |at| episode(at, at * step, release_ns))
}

#[test]
fn threads_work_wait_and_go_on() {
    let report = report();
    let found = read(&written(&report, run(3, Some(2000))));
    let thread = found.track("T1 worker");
    assert_eq!(found.names(thread), ["work", "idle", "release"].repeat(3));
    let slices = &found.slices[&thread];
    assert_eq!((slices[1].0, slices[1].1), (3 * MS, 5 * MS));
    assert!(slices.iter().all(|slice| slice.3 == 0), "side by side");
    // The last thread to arrive does not wait.
    assert_eq!(
        found.names(found.track("T3 worker"))[..2],
        ["work", "release"]
    );
    let process = found.tracks[&thread].parent_uuid.unwrap();
    let process = found.tracks[&process].process.as_ref().unwrap();
    assert_eq!(process.pid, Some(4242));
    assert_eq!(process.cmdline[0], "./lu");
}

#[test]
fn arrows_lead_from_the_last_to_all_others() {
    for release_ns in [Some(2000), Some(0), None] {
        let report = report();
        let found = read(&written(&report, run(3, release_ns)));
        assert_eq!(found.flows.len(), 3 * 3);
        let gone_ns = release_ns.unwrap_or(0);
        for (begin_ns, end_ns) in found.flows.values() {
            assert!((gone_ns..gone_ns + 3).contains(&(end_ns.unwrap() - begin_ns)));
        }
        let named = |name: &str| {
            found
                .instants
                .iter()
                .filter(|instant| instant.2 == name)
                .count()
        };
        assert_eq!(named("last to arrive"), 3);
        let (left, may) = if release_ns.is_some() { (9, 0) } else { (0, 9) };
        assert_eq!((named("leaves"), named("may leave")), (left, may));
    }
}

#[test]
fn episodes_and_phases_are_slices_below_their_site() {
    let report = report();
    let found = read(&written(&report, run(4, Some(2000))));
    let site = report.site(1).unwrap().called();
    let below = |parent: &str| {
        let parent = Some(found.track(parent));
        let mut mine = found
            .tracks
            .values()
            .filter(|track| track.parent_uuid == parent);
        let track = mine.next().unwrap();
        assert!(mine.next().is_none(), "one is enough");
        assert_eq!(track.name.as_deref(), Some(site.as_str()));
        track.uuid.unwrap()
    };
    assert_eq!(found.names(below("episodes")), [site.as_str(); 4]);
    let from = report.site(0).unwrap().called();
    let phase = format!("{from} → {site}");
    assert_eq!(found.names(below("phases")), [phase.as_str(); 4]);
}

#[test]
fn what_happens_at_a_time_at_one_site_has_tracks_of_its_own() {
    let report = report();
    let mut teams: Vec<Episode> = Vec::new();
    for at in 0..3 {
        for team in 0..2 {
            let mut one = episode(at, at * 6 * MS + team * MS, Some(10));
            one.seen.retain(|seen| u64::from(seen.thread) / 2 == team);
            one.straggler = Some((if team == 0 { 1 } else { 3 }, MS));
            teams.push(one);
        }
    }
    let found = read(&written(&report, teams));
    let parent = Some(found.track("episodes"));
    let below = found
        .tracks
        .values()
        .filter(|track| track.parent_uuid == parent);
    let below: Vec<u64> = below.map(|track| track.uuid.unwrap()).collect();
    assert_eq!(below.len(), 2);
    for track in below {
        assert!(found.slices[&track].iter().all(|slice| slice.3 == 0));
    }
}

#[test]
fn what_is_told_late_does_not_end_what_comes_after_it() {
    let report = report();
    let mut all: Vec<Episode> = run(6, Some(2000)).collect();
    for late in [0, 3] {
        all.swap(late, late + 1);
    }
    let found = read(&written(&report, all));
    for thread in ["T0 lu", "T3 worker"] {
        let slices = &found.slices[&found.track(thread)];
        assert!(slices.iter().all(|slice| slice.3 == 0), "{slices:?}");
        let work = slices.iter().filter(|slice| slice.2 == "work");
        let expected = if thread == "T0 lu" { 2 * MS } else { 5 * MS };
        for slice in work {
            assert!((expected - 1..=expected).contains(&(slice.1 - slice.0)));
        }
    }
}

#[test]
fn busy_threads_and_counters_are_counted() {
    let report = report();
    let found = read(&written(&report, run(1, Some(2000))));
    let busy = &found.counts[&found.track("busy threads")];
    let at = |time_ns: u64| busy.iter().rfind(|step| step.0 <= time_ns).unwrap().1;
    let values = [MS, 2 * MS + MS / 2, 4 * MS + MS / 2, 6 * MS].map(at);
    assert!(
        values
            .iter()
            .zip([4.0, 3.0, 1.0, 0.0])
            .all(|(a, b)| (a - b).abs() < 0.01)
    );
    let thread = Some(found.track("T0 lu"));
    let mut below = found
        .tracks
        .values()
        .filter(|track| track.parent_uuid == thread);
    let counter = below.next().unwrap();
    assert_eq!(counter.name.as_deref(), Some("instructions per second"));
    let values = &found.counts[&counter.uuid.unwrap()];
    assert_eq!(values.len(), 1);
    assert!((values[0].1 - 2e9).abs() < 1.0);
}

#[test]
fn of_a_long_run_some_stretches_are_drawn_and_the_rest_is_said_to_be_missing() {
    let mut report = report();
    let count = 10 * STRETCH;
    report.run.wall_ns = count * 6 * MS;
    let most = count * 4 / 5;
    let mut trace = Trace::with_at_most(&report, all(count * 4), Vec::new(), most).unwrap();
    for episode in run(count, Some(2000)) {
        trace.add(&episode).unwrap();
    }
    let found = read(&trace.finish().unwrap());
    let missing = &found.slices[&found.track("not drawn")];
    assert_eq!(missing.len(), 2);
    let drawn = found.names(found.track("T0 lu"));
    let drawn = drawn.iter().filter(|name| **name == "work").count();
    assert_eq!(drawn as u64, 2 * STRETCH);
    let busy = &found.counts[&found.track("busy threads")];
    assert!(
        busy.last().unwrap().0 > report.run.wall_ns * 4 / 5,
        "of all that was"
    );
}

#[test]
fn what_was_not_recorded_is_no_time_in_which_nobody_was_busy() {
    let mut report = report();
    report.run.wall_ns = 20_000 * MS;
    // The whole run has more arrivals than are drawn, the kept part has fewer.
    for thread in &mut report.threads {
        thread.episodes = MOST_ARRIVALS;
    }
    let from_ns = 19_950 * MS;
    let known = KnownPart {
        from_ns,
        arrivals: 8 * 4,
    };
    let kept = (0..8).map(|at| episode(at, from_ns + at * 6 * MS, Some(2000)));
    let found = read(&written_of(&report, known, kept));
    let missing = &found.slices[&found.track("not drawn")];
    assert_eq!(missing.len(), 1);
    let (from, to, name, _) = &missing[0];
    assert_eq!((*from, *to, name.as_str()), (0, from_ns, "not recorded"));
    let busy = &found.counts[&found.track("busy threads")];
    assert_eq!(busy[0], (from_ns, 4.0));
    let drawn = found.names(found.track("T0 lu"));
    assert_eq!(drawn.iter().filter(|name| **name == "work").count(), 8);
}

/// The spans of time in which the thread of the first track was counted.
fn spans(report: &Report, episodes: impl IntoIterator<Item = Episode>) -> Vec<(u64, f64)> {
    let found = read(&written(report, episodes));
    let thread = Some(found.track("T0 lu"));
    let mut below = found
        .tracks
        .values()
        .filter(|track| track.parent_uuid == thread);
    let counter = below.next().and_then(|track| track.uuid);
    let values = counter.and_then(|number| found.counts.get(&number).cloned());
    values.unwrap_or_default()
}

#[test]
fn rates_are_of_the_time_that_was_counted() {
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    let mut report = report();
    let mut episodes: Vec<Episode> = run(3, Some(2000)).collect();
    for one in &mut episodes[1..] {
        // The work begins 1 ms after the thread has left the barrier, as if it had been at another
        // one.
        one.seen[0].work_ns = Some(MS);
    }
    let found = spans(&report, episodes.clone());
    let from: Vec<u64> = found.iter().map(|span| span.0).collect();
    assert_eq!(from, [0, 6 * MS + 2003, 11 * MS + 4006]);
    assert!(close(found[1].1, 4e9), "{found:?}");

    // If work begins with regions, the time between regions is counted too.
    let site = report.sites.iter_mut().find(|site| site.id == 1);
    site.unwrap().kind = BarrierKind::Gomp;
    let found = spans(&report, episodes);
    let from: Vec<u64> = found.iter().map(|span| span.0).collect();
    assert_eq!(from, [5 * MS + 2000, 10 * MS + 4003]);
    let seconds = (2 * MS + 3) as f64 / 1e9;
    assert!(close(found[0].1, 4e6 / seconds), "{found:?}");
}

#[test]
fn where_departures_are_not_watched_waiting_is_counted() {
    let report = report();
    let found = spans(&report, run(3, None));
    let from: Vec<u64> = found.iter().map(|span| span.0).collect();
    // The first count covers the time since the thread's birth, the others the time since its
    // previous arrival.
    assert_eq!(from, [0, 2 * MS, 7 * MS]);
    assert!((found[1].1 / (4e6 / 0.005) - 1.0).abs() < 1e-6, "{found:?}");
}

#[test]
fn a_million_episodes_are_not_more_than_browsers_open() {
    let mut report = report();
    report.run.wall_ns = 1_000_000 * 6 * MS;
    let known = all(4_000_000);
    let bytes = written_of(&report, known, run(1_000_000, Some(2000))).len();
    assert!((10_000_000..150_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn names_of_any_kind_are_text_and_threads_of_any_number_are_apart() {
    let mut report = samples::hostile().report;
    report.threads[1].tid = report.threads[0].tid;
    report.threads[2].tid = 0;
    report.threads[3].threads = 5;
    let mut all: Vec<Episode> = run(2, Some(2000)).collect();
    for episode in &mut all {
        episode.seen[3].is_shared = true;
        // A site and a thread that are not in the report.
        episode.phase = Some((Some(4000), MS));
        episode.straggler = Some((u32::MAX, 0));
    }
    let found = read(&written(&report, all));
    for text in &found.texts {
        let turns = |c: char| ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(
            !text.contains(|c: char| c.is_control() || turns(c)),
            "{text:?}"
        );
    }
    let threads = found.tracks.values().filter(|track| track.thread.is_some());
    assert_eq!(threads.count(), 1, "the others share numbers or have none");
    let drawn = found.tracks.values().filter(|track| {
        let slices = track.uuid.and_then(|uuid| found.slices.get(&uuid));
        slices.is_some_and(|all| all.iter().any(|slice| slice.2 == "work"))
    });
    assert_eq!(drawn.count(), 3);
    assert!(found.flows.is_empty(), "nobody knows who came last");
}
