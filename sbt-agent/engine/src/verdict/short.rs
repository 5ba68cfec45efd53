//! The verdict on phases that are as short as the barrier itself.

use super::{FEW, WORTH, lack, regions};
use crate::{
    report::{Figure, Report, SiteReport, VerdictKind, VerdictReport},
    words::time,
};

/// Cost of waking a thread, ns, used if departures were not seen. A sleeping thread goes on about
/// 10 µs after it is woken, and about 50 µs in virtual machines. A release of more than twice this
/// time is more than waking.
const WAKE_NS: u64 = 25_000;

/// The longest release that may be the barrier's own, ns.
const MOST_RELEASE_NS: u64 = 20 * WAKE_NS;

/// How many times the barrier's cost threads may work: the barrier then takes a third of the time.
const SHORT: u64 = 2;

/// How many times the barrier's cost the last thread may work: above that, the work is to blame and
/// not the barrier.
const STRAGGLER: u64 = 4;

/// Departures count as seen if they were in this part of the waits: elsewhere the work includes the
/// time that it takes to get going again.
const SEEN: f64 = 0.9;

/// How long a thread works between two barriers, and what a barrier takes, ns: the medians.
struct Medians {
    work: u64,
    /// Waiting for the last, and getting going again.
    idle: u64,
    release: Option<u64>,
    /// Beginning a parallel region, the mean.
    begin: u64,
}

impl Medians {
    fn of(site: &SiteReport) -> Option<Self> {
        let idle = site.idle_ns.as_ref()?;
        let release = site.release_ns.as_ref();
        let release = release.filter(|stat| stat.count as f64 >= SEEN * idle.count as f64);
        Some(Self {
            work: site.work_ns.as_ref()?.p50,
            idle: idle.p50,
            release: release.map(|release| release.p50),
            begin: regions::beginning(site),
        })
    }

    /// What one thread passes in the barrier each time, ns.
    fn barrier_ns(&self) -> u64 {
        // Where it is not known how long threads take to get going again, that is in the work: as
        // much as waking takes.
        let release = self.release.unwrap_or(self.work.min(WAKE_NS));
        self.idle + release + self.begin
    }
}

/// Fewer places than this are told one by one.
const MANY: usize = 3;

/// The most places that are listed of many.
const LISTED: usize = 3;

/// A place with this part of the loss at all places is told alone.
const MOST_OF_ALL: f64 = 0.6;

/// A place with less of the threads' time than this is not counted among many, percent.
const LITTLE: f64 = 0.1;

/// What the verdict advises.
const ADVICE: &str =
    "Do more between barriers (larger pieces, merged loops), or use fewer threads.";

/// A site at which phases are as short as the barrier.
struct Short<'a> {
    site: &'a SiteReport,
    medians: Medians,
    phase_ns: u64,
    /// What barriers take there, as a percentage of the threads' time.
    share_pct: f64,
}

/// Verdict: the work between two barriers takes no longer than passing a barrier. Not given if CPUs
/// lack: a long release is then caused by the lack of CPUs.
pub fn phase_too_short(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let short = Short::of(report, site).filter(|short| short.share_pct >= WORTH)?;
    let text = format!(
        "phase too short for its barrier at {}: {}; barriers take {} {:.0} % of thread time. \
         {ADVICE}",
        site.called(),
        short.sentence(),
        short.about(),
        short.share_pct,
    );
    Some(short.verdict(text, short.share_pct))
}

/// Verdict: the same at many places, of which each may take little. `found`: the verdicts so far.
pub fn at_many_places(report: &Report, found: &[VerdictReport]) -> Option<VerdictReport> {
    let is_told = |site: &SiteReport| {
        let mut others = found.iter().filter(|verdict| verdict.kind != KIND);
        others.any(|verdict| verdict.site == Some(site.id))
    };
    let sites = report.sites.iter().filter(|site| !is_told(site));
    let mut all: Vec<Short<'_>> = sites
        .filter_map(|site| Short::of(report, site))
        .filter(|short| short.share_pct >= LITTLE)
        .collect();
    all.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
    let share_pct: f64 = all.iter().map(|short| short.share_pct).sum();
    let worst = all.first()?;
    if all.len() < MANY || share_pct < WORTH || worst.share_pct > MOST_OF_ALL * share_pct {
        return None;
    }
    let listed: Vec<String> = all
        .iter()
        .take(LISTED)
        .map(|short| format!("{:.0} % at {}", short.share_pct, short.site.called()))
        .collect();
    let about = if all.iter().all(|short| short.medians.release.is_some()) {
        "about"
    } else {
        "up to"
    };
    let text = format!(
        "phases too short for their barriers at {} places: barriers take {about} {share_pct:.0} % \
         of thread time there ({}). At the first, {}. {ADVICE}",
        all.len(),
        listed.join(", "),
        worst.sentence(),
    );
    Some(worst.verdict(text, share_pct))
}

const KIND: VerdictKind = VerdictKind::PhaseTooShort;

impl<'a> Short<'a> {
    fn of(report: &Report, site: &'a SiteReport) -> Option<Self> {
        let late = site.straggler.as_ref()?.late.as_ref()?;
        if late.episodes < FEW {
            return None;
        }
        let medians = Medians::of(site)?;
        let (cost_ns, most_ns) = match medians.release {
            Some(release_ns) => {
                // Barriers that spin let threads go on within a microsecond: the last one is waited
                // for all the same, and who comes last changes from phase to phase.
                let cost_ns =
                    release_ns.min(2 * WAKE_NS) + medians.idle.min(WAKE_NS) + medians.begin;
                (cost_ns, cost_ns * SHORT)
            }
            None => (2 * WAKE_NS, 2 * WAKE_NS),
        };
        // To let threads go on takes no barrier so long: they work in it (tasks of OpenMP).
        let works_in_it = medians
            .release
            .is_some_and(|release_ns| release_ns > MOST_RELEASE_NS);
        let last_ns = late.last.work_ns / late.episodes;
        if works_in_it
            || medians.work > most_ns
            || last_ns > cost_ns * STRAGGLER
            || lack::is_of_the_run(report)
        {
            return None;
        }
        let total_ns = report.thread_time.total_ns.max(1) as f64;
        // By the medians, since few long waits are not the barrier's doing.
        let waits = site.idle_ns.as_ref()?.count as f64;
        let share_pct = (waits * medians.barrier_ns() as f64 / total_ns).min(1.0) * 100.0;
        Some(Self {
            site,
            phase_ns: late.phase_ns / late.episodes,
            medians,
            share_pct,
        })
    }

    const fn about(&self) -> &'static str {
        if self.medians.release.is_some() {
            "about"
        } else {
            "up to"
        }
    }

    /// How long threads work there, and what the barrier takes.
    fn sentence(&self) -> String {
        let medians = &self.medians;
        let cost = medians.release.map_or_else(
            || "about as long as it takes to wake a thread".into(),
            |release_ns| {
                // Of two threads, each is the last in half of the phases.
                if medians.idle == 0 {
                    return format!("and need {} in the barrier to go on", time(release_ns));
                }
                format!(
                    "and pass {} in the barrier: {} until the last has come and {} until they go on",
                    time(medians.idle + release_ns),
                    time(medians.idle),
                    time(release_ns)
                )
            },
        );
        let begin = if medians.begin > 0 {
            format!(
                ", and {} until the next parallel region begins",
                time(medians.begin)
            )
        } else {
            String::new()
        };
        format!(
            "threads work {} between barriers (median), {cost}{begin}",
            time(medians.work)
        )
    }

    fn verdict(&self, text: String, share_pct: f64) -> VerdictReport {
        let medians = &self.medians;
        let mut evidence: std::collections::BTreeMap<_, _> = [
            ("share_pct", Figure::Real(share_pct)),
            ("work_ns", Figure::Whole(medians.work)),
            ("phase_ns", Figure::Whole(self.phase_ns)),
            ("idle_ns", Figure::Whole(medians.idle)),
        ]
        .into();
        let release = medians.release;
        evidence.extend(release.map(|release_ns| ("release_ns", Figure::Whole(release_ns))));
        VerdictReport {
            kind: KIND,
            site: Some(self.site.id),
            thread: None,
            text,
            evidence,
        }
    }
}
