//! Nothing is missed: every figure equals a plain recomputation.

use proptest::prelude::*;

use super::{
    cases, model,
    setup::{Memory, Random, Setup, Watch},
    sim::{Run, run},
    truth::{Figures, same},
};
use crate::event::{Event, Tid};

fn tid(event: &Event) -> Option<Tid> {
    match event {
        Event::Thread { tid, .. }
        | Event::Arrive { tid, .. }
        | Event::Depart { tid, .. }
        | Event::Memory { tid, .. }
        | Event::Init { tid, .. }
        | Event::Exit { tid, .. } => Some(*tid),
        _ => None,
    }
}

fn time(event: &Event) -> Option<u64> {
    match event {
        Event::Arrive { clocks, .. }
        | Event::Depart { clocks, .. }
        | Event::Exit { clocks, .. } => Some(clocks.time_ns),
        Event::Memory { time_ns, .. } | Event::Init { time_ns, .. } => Some(*time_ns),
        _ => None,
    }
}

/// Merges the same streams in another order: threads whose events have the same time take turns.
fn shuffle(events: &[Event], random: &mut Random) -> Vec<Event> {
    let mut groups: Vec<(u64, Vec<Event>)> = Vec::new();
    for event in events.iter().rev() {
        // An event without a time stands directly before the next event.
        let time = time(event).unwrap_or_else(|| groups.last().map_or(0, |(time, _)| *time));
        match groups.last_mut() {
            Some((last, group)) if *last == time => group.insert(0, event.clone()),
            _ => groups.push((time, vec![event.clone()])),
        }
    }
    let mut out = Vec::new();
    for (_, mut group) in groups.into_iter().rev() {
        while !group.is_empty() {
            let pick = usize::try_from(random.below(group.len() as u64)).unwrap();
            let chosen = tid(&group[pick]);
            let first = group.iter().position(|event| tid(event) == chosen).unwrap();
            out.push(group.remove(first));
        }
    }
    out
}

/// Whether two arrivals or two departures have the same time.
fn ties(run: &Run) -> bool {
    let parts = || run.truth.episodes.iter().flat_map(|episode| &episode.parts);
    let mut times: Vec<_> = parts()
        .map(|part| part.arrived.time_ns)
        .chain(parts().filter_map(|part| Some(part.left?.time_ns)))
        .collect();
    times.sort_unstable();
    times.windows(2).any(|pair| pair[0] == pair[1])
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn all_figures_equal_a_plain_recomputation(setup in Setup::any()) {
        let run = run(&setup, &Watch::default());
        let model = model(&run.events, 0, setup.departures);
        let (mut found, mut expected) = (Figures::of(&model), run.truth.figures());
        if ties(&run) {
            (found, expected) = (found.without_order(), expected.without_order());
        }
        // A thread that never completed an episode has no row to compare.
        expected.threads.retain(|_, thread| thread.episodes > 0);
        same(&found, &expected).map_err(TestCaseError::fail)?;
        let hangs = run.truth.seen
            > run.truth.episodes.iter().map(|episode| episode.parts.len() as u64).sum();
        prop_assert_eq!(model.totals().incomplete, u64::from(hangs));
        prop_assert_eq!(model.unfinished().len(), usize::from(hangs));
        prop_assert_eq!(model.totals().lost, 0);
    }

    #[test]
    fn sums_agree_between_sites_and_threads(setup in Setup::any()) {
        let run = run(&setup, &Watch::default());
        let model = model(&run.events, 0, setup.departures);
        for (index, row) in model.threads().rows().iter().enumerate() {
            let at_sites = || {
                let all = model.sites().all().iter().flat_map(|site| &site.threads);
                all.filter(|thread| thread.id.index() == index)
            };
            prop_assert_eq!(row.idle_ns, at_sites().map(|thread| thread.idle.sum()).sum::<u64>());
            prop_assert_eq!(row.episodes, at_sites().map(|thread| thread.episodes).sum::<u64>());
            prop_assert_eq!(row.last, at_sites().map(|thread| thread.last).sum::<u64>());
            let release: u64 = at_sites().filter_map(|thread| thread.release.known_sum()).sum();
            prop_assert_eq!(row.release.get().unwrap_or(0), release);
        }
        for site in model.sites().all() {
            prop_assert_eq!(site.threads.iter().map(|thread| thread.last).sum::<u64>(), site.episodes);
            let pct = site.imbalance_pct();
            prop_assert!(pct.is_none_or(|pct| (-1e-6..=100.0 + 1e-6).contains(&pct)), "{:?}", pct);
            let trend = site.trend.buckets();
            prop_assert_eq!(trend.iter().map(|bucket| bucket.episodes).sum::<u64>(), site.episodes);
            prop_assert_eq!(trend.iter().map(|bucket| bucket.idle_ns).sum::<u64>(), site.idle.sum());
            prop_assert_eq!(trend.iter().map(|bucket| bucket.phases.1).sum::<u64>(), site.phase.sum());
            prop_assert!(site.ledger.longest_run <= site.episodes);
        }
    }

    #[test]
    fn threads_at_the_same_time_may_come_in_any_order(setup in Setup::any(), seed: u64) {
        let setup = Setup { pool: false, grain: 16, ..setup };
        let run = run(&setup, &Watch::default());
        let other = shuffle(&run.events, &mut Random(seed));
        let one = model(&run.events, 0, setup.departures);
        let two = model(&other, 0, setup.departures);
        same(&Figures::of(&one).without_order(), &Figures::of(&two).without_order()).map_err(TestCaseError::fail)?;
        prop_assert_eq!(one.totals(), two.totals());
    }

    #[test]
    fn without_any_reading_repeats_and_departures_end_an_episode(setup in Setup::any()) {
        let setup = Setup {
            pool: false,
            memory: Memory::Opaque,
            inits: false,
            ..setup
        };
        let run = run(&setup, &Watch::default());
        let model = model(&run.events, 0, setup.departures);
        let expected = run.truth.figures();
        // If a thread ends without another arrival, it is unknown whether it left its last episode.
        prop_assert_eq!(model.totals().episodes + model.totals().incomplete, expected.episodes);
        if setup.departures {
            let mut expected = expected;
            expected.threads.retain(|_, thread| thread.episodes > 0);
            // The order in which episodes are known to be complete differs from the true order.
            let (mut found, mut expected) = (Figures::of(&model).without_order(), expected.without_order());
            for site in found.sites.values_mut().chain(expected.sites.values_mut()) {
                site.phase = (0, 0);
            }
            same(&found, &expected).map_err(TestCaseError::fail)?;
        }
    }
}
