//! The counters of two runs side by side: sums, and rates that do not depend on how much work there
//! was.

use std::collections::BTreeMap;

use super::{
    comparison::{Change, CounterChange, RateChange},
    matching::Pair,
    rate::{ALL, Counted, rate},
};
use crate::report::{Report, SiteReport, StatReport};

const TASK_CLOCK: &str = "task-clock";

/// Sums by name.
type Sums = BTreeMap<String, Counted>;

/// The sums at a site, and the time on a CPU there.
fn at(site: &SiteReport) -> Sums {
    let count = |stat: &Option<StatReport>| stat.as_ref().map_or(0, |it| it.count);
    let intervals = count(&site.idle_ns);
    let known = site.counters.iter().filter_map(|(name, sum)| {
        let counted = match site.counted.get(name) {
            Some(it) => (it.known, it.intervals),
            // The time on a CPU of all work that is known.
            None if name == TASK_CLOCK => (count(&site.work_ns), intervals),
            None => return None,
        };
        let counted = Counted {
            sum: (*sum)?,
            known: counted.0,
            intervals: counted.1,
        };
        Some((name.clone(), counted))
    });
    known.collect()
}

/// The sums of all sites. A counter that is unknown at one of them is unknown.
fn whole(report: &Report) -> Sums {
    let mut all: Option<Sums> = None;
    for site in report.sites.iter().filter(|site| site.episodes > 0) {
        let here = at(site);
        let Some(all) = &mut all else {
            all = Some(here);
            continue;
        };
        all.retain(|name, _| here.contains_key(name));
        for (name, sum) in all {
            if let Some(more) = here.get(name) {
                sum.sum = sum.sum.saturating_add(more.sum);
                sum.known = sum.known.saturating_add(more.known);
                sum.intervals = sum.intervals.saturating_add(more.intervals);
            }
        }
    }
    all.unwrap_or_default()
}

/// The counters that were asked for in one of the runs, in the order of the run after.
pub(super) fn names<'a>(before: &'a Report, after: &'a Report) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for counter in after.counters.iter().chain(&before.counters) {
        if !names.contains(&counter.name.as_str()) {
            names.push(&counter.name);
        }
    }
    names
}

fn changes<'a>(names: &[&str], before: &'a Sums, after: &'a Sums) -> Vec<CounterChange> {
    let listed = |sums: &'a Sums| -> Vec<(&'a str, Counted)> {
        let all = sums.iter();
        all.map(|(name, sum)| (name.as_str(), *sum)).collect()
    };
    let (mine, others) = (listed(before), listed(after));
    let one = |name: &&str| {
        let sum = |sums: &Sums| sums.get(*name).map(|counted| counted.sum);
        let rates = ALL.map(|per| (per, rate(name, per, &mine), rate(name, per, &others)));
        // A divisor that both runs have comes first: only then the rates compare.
        let both = rates
            .iter()
            .find(|rate| rate.1.is_some() && rate.2.is_some());
        let one = || {
            rates
                .iter()
                .find(|rate| rate.1.is_some() || rate.2.is_some())
        };
        let rate = both.or_else(one).map_or_else(RateChange::default, |rate| {
            let (per, before, after) = *rate;
            RateChange {
                per: Some(per),
                before,
                after,
                change_pct: before
                    .zip(after)
                    .filter(|(before, _)| *before > 0.0)
                    .map(|(before, after)| (after / before - 1.0) * 100.0),
            }
        });
        CounterChange {
            name: (*name).to_owned(),
            sum: Change::plain(sum(before), sum(after)),
            rate,
        }
    };
    names.iter().map(one).collect()
}

/// The counters of both runs, in all work.
pub(super) fn of_runs(before: &Report, after: &Report) -> Vec<CounterChange> {
    let mut all = changes(&names(before, after), &whole(before), &whole(after));
    let work = |report: &Report, name: &str| {
        let mut counters = report.counters.iter();
        counters.find(|counter| counter.name == name)?.work
    };
    for counter in &mut all {
        let name = &counter.name;
        counter.sum = Change::plain(work(before, name), work(after, name));
    }
    all
}

/// The counters of both runs at a site. `names`: from [`names`].
pub(super) fn of_site(names: &[&str], pair: &Pair<'_>) -> Vec<CounterChange> {
    changes(names, &at(pair.before), &at(pair.after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::{RatePer, compare},
        samples,
    };

    /// The sample with counters, with so many times the page faults and, if known, instructions.
    fn run(faults: u64, instructions: Option<u64>) -> Report {
        let mut report = samples::counted().report;
        for site in &mut report.sites {
            let sums = &mut site.counters;
            let sum = |name: &str, times: u64| Some(sums[name].unwrap() * times);
            let (some, more) = (
                sum("page-faults", faults),
                instructions.and_then(|times| sum("instructions", times)),
            );
            sums.insert("page-faults".into(), some);
            sums.insert("instructions".into(), more);
        }
        report
    }

    fn faults(all: &[CounterChange]) -> RateChange {
        let mut all = all.iter();
        all.find(|counter| counter.name == "page-faults")
            .unwrap()
            .rate
    }

    #[test]
    fn twice_the_work_has_the_same_rate() {
        let all = compare(&run(1, Some(1)), &run(2, Some(2)));
        for rate in [faults(&all.counters), faults(&all.sites[0].counters)] {
            assert_eq!(rate.per, Some(RatePer::Instructions));
            assert_eq!(rate.change_pct, Some(0.0));
        }
        let sum = all.sites[0].counters[0].sum;
        assert_eq!(sum.change_pct, Some(100.0));
        let more = compare(&run(1, Some(1)), &run(3, Some(1)));
        assert!((faults(&more.counters).change_pct.unwrap() - 200.0).abs() < 1e-9);
    }

    #[test]
    fn both_runs_have_the_same_measure() {
        // Only one run counted instructions: both know the time on a CPU.
        let all = compare(&run(1, Some(1)), &run(2, None));
        let rate = faults(&all.counters);
        assert_eq!(rate.per, Some(RatePer::CpuSecond));
        assert!((rate.change_pct.unwrap() - 100.0).abs() < 1e-9);
        let mut without = run(1, None);
        for site in &mut without.sites {
            site.counters.remove("task-clock");
        }
        let one = faults(&compare(&run(1, Some(1)), &without).counters);
        assert_eq!(one.per, Some(RatePer::Instructions));
        assert!(one.before.is_some() && one.after.is_none());
        assert_eq!(
            faults(&compare(&without, &without).counters),
            RateChange::default()
        );
    }

    #[test]
    fn sums_of_a_run_that_lost_events_do_not_compare_but_rates_do() {
        let mut after = run(3, Some(1));
        after.lost_events = 1;
        let all = compare(&run(1, Some(1)), &after);
        for counters in [&all.counters, &all.sites[0].counters] {
            assert!(counters.iter().all(|it| it.sum.change_pct.is_none()));
            assert!(faults(counters).change_pct > Some(199.0));
        }
    }

    #[test]
    fn a_counter_that_one_site_lacks_has_no_rate_over_the_run() {
        let mut after = run(1, Some(1));
        after.sites[1].counters.insert("page-faults".into(), None);
        let all = compare(&run(1, Some(1)), &after);
        assert_eq!(faults(&all.counters).after, None);
        assert!(
            all.sites
                .iter()
                .any(|it| faults(&it.counters).after.is_some())
        );
    }
}
