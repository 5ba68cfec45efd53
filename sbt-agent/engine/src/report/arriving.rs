//! Between `arrive` and `wait` of a `std::barrier` a thread may work: whether the threads of a run did.

use super::{BarrierKind, Report, SiteReport};
use crate::total::total;

/// Threads that are on a CPU for less than this part of the time between their arrival and the last
/// one, do not work there.
const ON_A_CPU: f64 = 0.05;

/// The least part of the sleep between arrival and release that must be in the barrier, for threads
/// that wait for nothing else.
const IN_THE_BARRIER: f64 = 0.7;

impl Report {
    /// Whether the threads of a site may have worked between their arrival and their wait, and that
    /// counts as waiting: not where they told when they began to wait, nor where
    /// the kernel's sums and the looks tell that they slept in the barrier.
    pub(crate) fn may_work_between(&self, site: &SiteReport) -> bool {
        site.kind == BarrierKind::Std
            && site.release_ns.is_none()
            && !site.tells_waits
            && !self.slept_between(site)
    }

    fn slept_between(&self, site: &SiteReport) -> bool {
        // The sums are those of all barriers together.
        if self
            .sites
            .iter()
            .any(|other| other.kind != BarrierKind::Std)
        {
            return false;
        }
        let sums = site.threads.iter().map(|row| self.between(row.thread));
        let sums: Option<Vec<Between>> = sums.collect();
        let Some(sums) = sums.filter(|threads| !threads.is_empty()) else {
            return false;
        };
        let all = |part: fn(&Between) -> u64| total(sums.iter().map(part)) as f64;
        let (idle, running) = (all(|thread| thread.idle), all(|thread| thread.running));
        let (blocked, in_barrier) = (
            all(|thread| thread.blocked),
            all(|thread| thread.in_barrier),
        );
        let sleeps_there = blocked > 0.0 && in_barrier >= IN_THE_BARRIER * blocked;
        running <= ON_A_CPU * idle * self.on_cpus(site) && sleeps_there
    }

    /// The part of their work in which the threads of a site are on CPUs, of the time in which they could be. Where
    /// threads lack CPUs, others wait longer for them, and do no more meanwhile.
    fn on_cpus(&self, site: &SiteReport) -> f64 {
        let rows = site.threads.iter();
        let threads = rows.filter_map(|row| self.thread(row.thread));
        let known = threads.filter_map(|thread| thread.running_ns.zip(thread.ready_ns));
        let (running, ready): (Vec<_>, Vec<_>) = known.unzip();
        let [running, ready] = [running, ready].map(|times| total(times) as f64);
        if running > 0.0 {
            running / (running + ready)
        } else {
            1.0
        }
    }

    /// The times of a thread between its arrivals and the last arrivals; `None` if they are not known.
    fn between(&self, id: u32) -> Option<Between> {
        let looks = self.waits.as_ref()?;
        let thread = self.thread(id)?;
        let whole = looks.threads.iter().find(|row| row.tid == thread.tid)?;
        let inside = looks.places.iter().filter(|place| place.in_barrier);
        let rows = inside.flat_map(|place| &place.threads);
        let own = rows.filter(|row| row.tid == thread.tid);
        Some(Between {
            idle: thread.idle_ns,
            running: whole.running_ns?.saturating_sub(thread.running_ns?),
            blocked: whole.blocked_ns?.saturating_sub(thread.blocked_ns?),
            in_barrier: own.map(|row| looks.slept_ns(row)).sum(),
        })
    }
}

/// The times of a thread between its arrivals and the last arrivals, ns.
struct Between {
    /// All of that time.
    idle: u64,
    /// On a CPU.
    running: u64,
    /// Asleep, wherever.
    blocked: u64,
    /// Asleep in a barrier.
    in_barrier: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::waits::{LookedThreadReport, LooksReport};

    /// A run of two threads that meet at `std::barrier`s: the second waits for 80 of 100 ns.
    fn run() -> Report {
        let mut report = crate::samples::imbalanced().report;
        report.sites.truncate(1);
        let site = &mut report.sites[0];
        (site.kind, site.release_ns) = (BarrierKind::Std, None);
        site.threads.truncate(2);
        let mut looks = LooksReport::default();
        for (id, (idle_ns, in_barrier_ns)) in [(0, (0, 0)), (1, (80, 70))] {
            let thread = &mut report.threads[id];
            thread.idle_ns = idle_ns;
            (thread.running_ns, thread.blocked_ns) = (Some(20), Some(0));
            thread.ready_ns = Some(0);
            looks.threads.push(LookedThreadReport {
                thread: Some(thread.id),
                label: thread.label.clone(),
                tid: thread.tid,
                pid: thread.pid,
                name: thread.name.clone(),
                looks: 0,
                asleep_looks: 0,
                alone_looks: 0,
                watched_ns: 100,
                running_ns: Some(20),
                ready_ns: None,
                blocked_ns: Some(idle_ns),
            });
            let mut places = crate::samples::imbalanced().report.waits.unwrap().places;
            places.truncate(1);
            places[0].in_barrier = true;
            places[0].threads.truncate(1);
            places[0].threads[0].tid = thread.tid;
            places[0].threads[0].slept_ns = Some(in_barrier_ns);
            looks.places.extend(places);
        }
        report.waits = Some(looks);
        report
    }

    type Change = fn(&mut Report);

    #[test]
    fn who_sleeps_in_the_barrier_does_not_work_there() {
        let is_open = |change: Change| {
            let mut report = run();
            change(&mut report);
            let site = report.sites[0].clone();
            report.may_work_between(&site)
        };
        assert!(!is_open(|_| ()));
        // A twentieth of the time is the bound.
        assert!(!is_open(|report| {
            report.waits.as_mut().unwrap().threads[1].running_ns = Some(24);
        }));
        // So is the same of the time for which the threads had CPUs.
        let lacks: Change = |report| {
            for thread in &mut report.threads {
                thread.ready_ns = Some(20);
            }
            report.waits.as_mut().unwrap().threads[1].running_ns = Some(22);
        };
        assert!(!is_open(lacks));
        let cases: [(&str, Change); 7] = [
            ("on a CPU as long as could be", |report| {
                for thread in &mut report.threads {
                    thread.ready_ns = Some(20);
                }
                report.waits.as_mut().unwrap().threads[1].running_ns = Some(23);
            }),
            ("nobody looked", |report| report.waits = None),
            ("on a CPU", |report| {
                report.waits.as_mut().unwrap().threads[1].running_ns = Some(25);
            }),
            ("never asleep", |report| {
                report.waits.as_mut().unwrap().threads[1].blocked_ns = Some(0);
            }),
            ("asleep elsewhere", |report| {
                report.waits.as_mut().unwrap().places[1].in_barrier = false;
            }),
            ("CPU time unknown", |report| {
                report.threads[1].running_ns = None;
            }),
            ("other barriers too", |report| {
                let mut other = report.sites[0].clone();
                other.kind = BarrierKind::Pthread;
                report.sites.push(other);
            }),
        ];
        for (what, change) in cases {
            assert!(is_open(change), "{what}");
        }
        let mut pthread = run().sites[0].clone();
        pthread.kind = BarrierKind::Pthread;
        assert!(!run().may_work_between(&pthread));
    }
}
