//! The values of counters for the tables of the live screen.

use sbt_engine::{
    counters::{Plan, Source},
    event::MarkId,
    live::{CounterFigure, CounterFigures},
    model::{
        Model,
        counts::{Sum, Sums},
        ids::{SiteId, ThreadId},
        rates::Rates,
        site::Site,
        thread::Row,
    },
    report::{Report, order::Order},
};

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RowKey {
    Site(SiteId),
    Thread(ThreadId),
    Phase(Option<SiteId>, SiteId),
    Conceptual(usize),
    Interval(MarkId, MarkId),
}

/// The growth per second of the counters in the rows of all tables.
#[derive(Default)]
pub struct CounterRates {
    rates: Rates<RowKey>,
}

impl CounterRates {
    /// Takes in the counts up to `now_ns`.
    pub fn push(&mut self, now_ns: u64, model: &Model) {
        let mut push = |row: RowKey, sums: &Sums| {
            self.rates.push(now_ns, row, sums.all());
        };
        for (id, site) in (0..).map(SiteId).zip(model.sites().all()) {
            push(RowKey::Site(id), &site.counts);
        }
        for (id, row) in (0..).map(ThreadId).zip(model.threads().rows()) {
            push(RowKey::Thread(id), &row.counts);
        }
        for ((from, to), phase) in &model.sites().phases {
            push(RowKey::Phase(*from, *to), &phase.counts);
        }
        for (at, spans) in model.conceptual().all().iter().enumerate() {
            push(RowKey::Conceptual(at), &spans.done.counts);
        }
        for ((from, to), interval) in &model.marks().intervals {
            push(RowKey::Interval(*from, *to), &interval.counts);
        }
    }
}

/// The values of the report's counters in each of its rows. `plan` says which counters are being
/// counted now.
pub fn figures(
    report: &Report,
    plan: &Plan,
    model: &Model,
    order: &Order,
    rates: &CounterRates,
) -> Vec<CounterFigures> {
    let tables = Tables {
        report,
        model,
        order,
        rates,
    };
    let of = |counter: usize| CounterFigures {
        is_chosen: plan
            .0
            .get(counter)
            .is_some_and(|(_, source)| *source != Source::Nowhere),
        sites: tables.sites(counter),
        site_threads: tables.site_threads(counter),
        threads: tables.threads(counter),
        phases: tables.phases(counter),
        conceptual: tables.conceptual(counter),
        intervals: tables.intervals(counter),
    };
    (0..report.counters.len()).map(of).collect()
}

/// The sources of the tables of a report.
struct Tables<'a> {
    report: &'a Report,
    model: &'a Model,
    order: &'a Order,
    rates: &'a CounterRates,
}

impl Tables<'_> {
    fn figure(
        &self,
        counter: usize,
        row: RowKey,
        sum: Sum,
        per_phase: Option<f64>,
    ) -> CounterFigure {
        CounterFigure {
            sum: sum.get(),
            per_phase,
            per_second: self.rates.rates.per_second(&row, counter),
        }
    }

    fn sites(&self, counter: usize) -> Vec<CounterFigure> {
        let sites = self.model.sites().all();
        let rows = self.report.sites.iter();
        rows.map(|row| {
            let sum = sites[row.id as usize].counts.of(counter);
            let per_phase = row.counter_per_phase(&self.report.counters[counter].name);
            self.figure(counter, RowKey::Site(SiteId(row.id)), sum, per_phase)
        })
        .collect()
    }

    fn site_threads(&self, counter: usize) -> Vec<Vec<CounterFigure>> {
        let sites = self.model.sites().all();
        let rows = self.report.sites.iter();
        rows.map(|row| of_threads(&sites[row.id as usize], self.order, counter))
            .collect()
    }

    fn threads(&self, counter: usize) -> Vec<CounterFigure> {
        let rows = (0..).map(ThreadId).zip(self.model.threads().rows());
        let threads = self.order.sorted(rows.map(|(id, row)| (id, (id, row))));
        let figure = |(_, (id, row)): (u32, (ThreadId, &Row))| {
            let sum = row.counts.of(counter);
            self.figure(counter, RowKey::Thread(id), sum, mean(sum))
        };
        threads.into_iter().map(figure).collect()
    }

    fn phases(&self, counter: usize) -> Vec<CounterFigure> {
        let rows = self.report.phases.iter();
        rows.map(|row| {
            let key = (row.from.map(SiteId), SiteId(row.to));
            let phase = self.model.sites().phases.get(&key);
            let sum = phase.map_or_else(Sum::default, |phase| phase.counts.of(counter));
            let per_phase = row.counter_per_phase(&self.report.counters[counter].name);
            self.figure(counter, RowKey::Phase(key.0, key.1), sum, per_phase)
        })
        .collect()
    }

    fn conceptual(&self, counter: usize) -> Vec<CounterFigure> {
        let rows = self.model.conceptual().all().iter().enumerate();
        rows.map(|(at, spans)| {
            let sum = spans.done.counts.of(counter);
            let per_phase = of_all(sum, spans.done.intervals, spans.done.time.count());
            self.figure(counter, RowKey::Conceptual(at), sum, per_phase)
        })
        .collect()
    }

    fn intervals(&self, counter: usize) -> Vec<CounterFigure> {
        let rows = self.report.intervals.iter();
        rows.map(|row| {
            let [from, to] = [row.from, row.to].map(mark);
            let interval = self.model.marks().intervals.get(&(from, to));
            let sum = interval.map_or_else(Sum::default, |interval| interval.counts.of(counter));
            self.figure(counter, RowKey::Interval(from, to), sum, mean(sum))
        })
        .collect()
    }
}

/// The mark with this id in a report.
fn mark(id: u32) -> MarkId {
    MarkId(u8::try_from(id).unwrap_or(u8::MAX))
}

/// The mean over the intervals of work that were counted.
fn mean(sum: Sum) -> Option<f64> {
    sum.get().map(|value| value as f64 / sum.known() as f64)
}

/// The mean per phase: the mean per interval times the mean number of intervals in a phase.
/// `intervals` and `phases` cover the whole run; `sum` covers only the time since the counter was
/// chosen.
fn of_all(sum: Sum, intervals: u64, phases: u64) -> Option<f64> {
    mean(sum).map(|mean| mean * intervals as f64 / phases as f64)
}

fn of_threads(site: &Site, order: &Order, counter: usize) -> Vec<CounterFigure> {
    let rows = site.threads.iter().map(|thread| (thread.id, thread));
    let figure = |sum: Sum| CounterFigure {
        sum: sum.get(),
        per_phase: mean(sum),
        per_second: None,
    };
    order
        .sorted(rows)
        .into_iter()
        .map(|(_, thread)| figure(thread.counts.of(counter)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::event::Count;

    #[test]
    fn a_counter_that_was_chosen_late_has_the_means_of_the_phases_since() {
        let mut sums = Sums::default();
        // 4 threads count 10 each in the last 2 of 6 phases.
        for _ in 0..8 {
            sums.add(&[Some(Count {
                value: 10,
                ..Count::default()
            })]);
        }
        assert_eq!(of_all(sums.of(0), 24, 6), Some(40.0));
        assert_eq!(of_all(sums.of(1), 24, 6), None);
    }
}
