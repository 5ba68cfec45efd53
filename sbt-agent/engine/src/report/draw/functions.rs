//! Draws functions from the samples taken in them.

use std::collections::HashMap;

use super::{
    super::{CallerReport, FunctionReport, SamplingReport},
    ns,
    usage::{pct, times},
};
use crate::{
    chains::{Chains, FunctionId, OTHER, TRUNCATED},
    model::{busy::Busy, sampled::Samples},
    place::printable,
};

/// The largest number of functions in a report.
const MOST_FUNCTIONS: usize = 1000;
const MOST_CALLERS: usize = 16;

/// The sums of a function.
#[derive(Default)]
struct Function {
    samples: u64,
    self_samples: u64,
    busy: Busy,
    normalised_ns: f64,
    self_ns: f64,
    path_ns: f64,
    weighted_ns: f64,
    /// By caller: normalised time, ns, and samples.
    callers: HashMap<Option<FunctionId>, (f64, u64)>,
}

/// The functions, by descending normalised processor time, with their totals entered in `sampling`.
pub fn functions(
    samples: &Samples,
    chains: &Chains,
    sampling: &mut SamplingReport,
) -> Vec<FunctionReport> {
    let mut all: HashMap<FunctionId, Function> = HashMap::new();
    let (mut whole, mut count, mut path, mut weight) = (0.0, 0, 0.0, 0.0);
    for (id, sums) in samples.sums() {
        whole += sums.normalised_ns;
        count += sums.samples;
        path += sums.path_ns;
        weight += sums.weighted_ns;
        let chain = chains.chain(id);
        if chain == [OTHER] {
            sampling.other += sums.samples;
        }
        for (depth, function) in chain.iter().enumerate() {
            if *function == TRUNCATED {
                continue;
            }
            let it = all.entry(*function).or_default();
            if depth + 1 == chain.len() {
                it.self_samples += sums.samples;
                it.self_ns += sums.normalised_ns;
            }
            // A recursive function is counted once for each chain.
            if chain[..depth].contains(function) {
                continue;
            }
            it.samples += sums.samples;
            it.busy.merge(&sums.busy);
            it.normalised_ns += sums.normalised_ns;
            it.path_ns += sums.path_ns;
            it.weighted_ns += sums.weighted_ns;
            let caller = depth.checked_sub(1).map(|above| chain[above]);
            let caller = caller.filter(|caller| *caller != TRUNCATED);
            let from = it.callers.entry(caller).or_default();
            *from = (from.0 + sums.normalised_ns, from.1 + sums.samples);
        }
    }
    sampling.working = count;
    sampling.waiting = samples.waiting;
    // While the program runs, samples of unfinished phases are not assigned yet and are not
    // counted.
    sampling.outside = samples.outside;
    sampling.samples = count + samples.waiting + samples.outside;
    sampling.npt_ns = ns(whole);
    sampling.blocked_npt_ns = samples.blocked_ns.map(ns);
    let mut sorted: Vec<(FunctionId, Function)> = all.into_iter().collect();
    sorted.sort_by(|a, b| {
        let order = b.1.normalised_ns.total_cmp(&a.1.normalised_ns);
        order
            .then(b.1.self_ns.total_cmp(&a.1.self_ns))
            .then(a.0.cmp(&b.0))
    });
    sorted.truncate(MOST_FUNCTIONS);
    let report = |(id, sums): (FunctionId, Function)| {
        let named = chains.named(id);
        FunctionReport {
            id,
            function: named.function.clone(),
            file: named.file.clone(),
            binary: named.binary.clone(),
            samples: sums.samples,
            self_samples: sums.self_samples,
            cpu_pct: pct(sums.samples as f64, count as f64).unwrap_or(0.0),
            npt_ns: ns(sums.normalised_ns),
            self_npt_ns: ns(sums.self_ns),
            npt_pct: pct(sums.normalised_ns, whole).unwrap_or(0.0),
            times: times(&sums.busy),
            path_pct: pct(sums.path_ns, path),
            weighted_path_pct: pct(sums.weighted_ns, weight),
            callers: callers(sums.callers, chains),
        }
    };
    sorted.into_iter().map(report).collect()
}

fn callers(all: HashMap<Option<FunctionId>, (f64, u64)>, chains: &Chains) -> Vec<CallerReport> {
    let mut sorted: Vec<_> = all.into_iter().collect();
    sorted.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then(a.0.cmp(&b.0)));
    sorted.truncate(MOST_CALLERS);
    let caller = |(id, (normalised_ns, samples)): (Option<FunctionId>, (f64, u64))| CallerReport {
        function: id.map(|id| chains.named(id).function.clone()),
        npt_ns: ns(normalised_ns),
        samples,
    };
    sorted.into_iter().map(caller).collect()
}

/// Folded stacks, as flame graph tools read them: `main;f;g 1234`, where the number is normalised
/// processor time in µs. Chains that round to 0 µs are left out.
pub fn folded(samples: &Samples, chains: &Chains) -> String {
    let mut lines: Vec<String> = samples
        .sums()
        .into_iter()
        .filter_map(|(id, sums)| {
            let us = ns(sums.normalised_ns / 1e3);
            let names = chains.chain(id).iter();
            // A semicolon separates functions in this format.
            let names = names.map(|id| printable(&chains.named(*id).function).replace(';', ":"));
            let names: Vec<String> = names.collect();
            (us > 0).then(|| format!("{} {us}\n", names.join(";")))
        })
        .collect();
    lines.sort();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::{
        model::{ids::SiteId, parts::Split, sampled::SampledPart},
        place::NamedFunction,
    };

    const MS: u64 = 1_000_000;

    fn work(thread: u32, work: Range<u64>, npt_ms: u64, is_last: bool) -> SampledPart {
        let running_ns = Some(work.end - work.start);
        let normalised_ns = (npt_ms * MS) as f64;
        SampledPart {
            thread,
            arrived_ns: work.end,
            left_ns: work.end,
            work: Some(work),
            split: Split {
                running_ns,
                ready_ns: Some(0),
                blocked_ns: Some(0),
            },
            normalised_ns,
            is_last,
            was_kept: false,
        }
    }

    #[test]
    fn a_function_is_told_with_what_it_called_and_by_itself() {
        let named = |function: &str| NamedFunction {
            function: function.into(),
            file: None,
            binary: "p".into(),
        };
        let mut chains = Chains::default();
        let [main, f, g] = ["main", "f;x", "g"].map(named);
        let in_f = chains.number(&[f.clone(), main.clone()], true);
        let in_g = chains.number(&[g.clone(), f.clone(), f, main], true);
        let cut = chains.number(&[g], false);
        let mut samples = Samples::new(10 * MS, None);
        let here = SiteId(0);
        for (at, chain) in [in_f, in_f, in_g, in_g, in_g, in_g].into_iter().enumerate() {
            samples.push(1, at as u64 * 10 * MS, chain);
        }
        for at in 0..6 {
            samples.push(2, at * 10 * MS, cut);
        }
        // For 20 ms thread 1 is alone, then both threads are busy. Thread 2 arrives last.
        samples.settle(here, &work(1, 0..60 * MS, 40, false), 2, |at| {
            if at < 20 * MS { 1 } else { 2 }
        });
        samples.settle(here, &work(2, 0..60 * MS, 30, true), 2, |_| 2);
        let mut sampling = SamplingReport::default();
        let all = functions(&samples, &chains, &mut sampling);
        assert_eq!(sampling.working, 12);
        assert_eq!(sampling.npt_ns, 70 * MS);
        let of = |name: &str| {
            all.iter()
                .find(|function| function.function == name)
                .unwrap()
        };
        assert_eq!((of("main").npt_ns, of("main").self_npt_ns), (40 * MS, 0));
        assert_eq!(of("f;x").samples, 6, "once, though it calls itself");
        assert_eq!(
            (of("f;x").npt_ns, of("f;x").self_npt_ns),
            (40 * MS, 20 * MS)
        );
        assert_eq!((of("g").npt_ns, of("g").self_npt_ns), (50 * MS, 50 * MS));
        assert_eq!(of("g").path_pct, Some(100.0));
        let callers = &of("g").callers;
        assert_eq!(callers.len(), 2);
        assert_eq!(
            (callers[0].function.as_deref(), callers[0].npt_ns),
            (None, 30 * MS)
        );
        assert_eq!(callers[1].function.as_deref(), Some("f;x"));
        let times = |name| -> Vec<_> {
            let times = of(name).times.iter();
            times.map(|time| (time.busy, time.ns / MS)).collect()
        };
        assert_eq!(times("main"), [(1, 20), (2, 40)]);
        assert!(
            all.iter()
                .all(|function| function.function != "[truncated]")
        );
        let lines = folded(&samples, &chains);
        let expected = "[truncated];g 30000\nmain;f:x 20000\nmain;f:x;f:x;g 20000\n";
        assert_eq!(lines, expected);
    }
}
