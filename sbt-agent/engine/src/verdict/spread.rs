//! The verdict on one thread for which the others wait at several places, or in a few long episodes:
//! no place alone shows that, and all of them together do.

use super::{
    culprit::{members, well_above_chance},
    noise::is_noise_at,
    speed,
    words::{Others, count, who, whole},
};
use crate::{
    report::{Figure, LaterReport, Report, SiteReport, VerdictKind, VerdictReport},
    total::total,
    words::time,
};

/// The most places that are listed.
const MOST_PLACES: usize = 3;

/// A place with less than this part of what the others wait for the thread does not count.
const COUNTS: f64 = 0.01;

/// The thread must work longer than the others by this fraction of its work: less is noise.
const SPREAD: f64 = 0.1;

/// One place explains the loss by itself if it has this part of it or more.
const ALONE: f64 = 0.6;

/// How long the others waited for a thread at a site, ns.
fn kept_ns(site: &SiteReport, thread: u32) -> u64 {
    let mut all = site.threads.iter();
    let found = all.find(|other| other.thread == thread);
    found.and_then(|found| found.kept_ns).unwrap_or(0)
}

/// Whether the others waited for a thread at a site, for `ns`, for longer than they wait for each
/// thread by chance. Few episodes do not tell chance from cause.
fn is_above_chance(site: &SiteReport, ns: u64) -> bool {
    let members = members(site);
    let all_ns = total(members.iter().filter_map(|thread| thread.kept_ns));
    site.episodes < super::FEW || ns as f64 >= well_above_chance(members.len()) * all_ns as f64
}

/// How long a thread works at a site, and how long the others do in as many episodes.
struct Works {
    own_ns: f64,
    /// The part of it that a slower CPU explains.
    by_cpu_ns: f64,
    /// The mean of the others.
    others_ns: f64,
    /// By how much the thread sleeps longer than the others.
    asleep_longer_ns: f64,
    /// How many others there are.
    others: f64,
}

impl Works {
    fn at(report: &Report, site: &SiteReport, thread: u32) -> Option<Self> {
        let members = members(site);
        let own = members.iter().find(|other| other.thread == thread)?.later?;
        let others: Vec<LaterReport> = members
            .iter()
            .filter(|other| other.thread != thread)
            .filter_map(|other| other.later)
            .collect();
        let n = others.len() as f64;
        let each = |ns: fn(&LaterReport) -> u64| {
            let all = others
                .iter()
                .map(|other| ns(other) as f64 / other.episodes.max(1) as f64 * own.episodes as f64);
            all.sum::<f64>() / n
        };
        // Without a CPU nobody works.
        let works = |later: &LaterReport| later.work_ns.saturating_sub(later.ready_ns.unwrap_or(0));
        let asleep = |later: &LaterReport| later.blocked_ns.unwrap_or(0);
        let (own_ns, asleep_ns) = (works(&own) as f64, asleep(&own) as f64);
        let slower = speed::of_thread(report, site, thread).at_most;
        (!others.is_empty()).then(|| Self {
            own_ns,
            by_cpu_ns: (own_ns - asleep_ns).max(0.0) * (1.0 - 1.0 / slower),
            others_ns: each(works),
            asleep_longer_ns: asleep_ns - each(asleep),
            others: n,
        })
    }

    /// By how much the thread works longer than its CPU explains, ns.
    fn excess_ns(&self) -> f64 {
        self.own_ns - self.by_cpu_ns - self.others_ns
    }

    /// Whether the thread works longer by more than by chance.
    fn is_longer(&self) -> bool {
        self.excess_ns() >= SPREAD * self.own_ns
    }
}

/// Whether a thread works longer than the others at a site, and not by chance, as far as enough episodes
/// tell.
fn may_be_its_work(report: &Report, site: &SiteReport, thread: u32) -> bool {
    let is_longer = |works: Works| {
        works.is_longer() && !is_noise_at(site, thread, (works.own_ns, works.others_ns))
    };
    site.episodes < super::FEW || Works::at(report, site, thread).is_none_or(is_longer)
}

/// The loss that one thread causes.
pub struct Loss<'a> {
    thread: u32,
    /// Where the others wait for the thread, and how long, ns; the longest first.
    places: Vec<(&'a SiteReport, u64)>,
    /// Percentage of the threads' time.
    share_pct: f64,
    /// By how much the thread works longer than the mean of all: wall time, ns; and the part of
    /// that for which it sleeps.
    gain_ns: f64,
    asleep: f64,
    /// Work of the thread and of the others in the mean, ns.
    works_ns: (f64, f64),
    /// By how much the thread works longer than its CPU explains, ns.
    excess_ns: f64,
}

impl<'a> Loss<'a> {
    /// The loss by the thread for which the others wait longest, if that is well above chance.
    pub fn of(report: &'a Report) -> Option<Self> {
        let mut kept = std::collections::BTreeMap::<u32, u64>::new();
        for thread in report.sites.iter().flat_map(|site| &site.threads) {
            let kept = kept.entry(thread.thread).or_default();
            *kept = kept.saturating_add(thread.kept_ns?);
        }
        let all_ns = total(report.sites.iter().map(|site| site.lost_ns));
        let (thread, kept_all_ns) = kept.into_iter().max_by_key(|(_, ns)| *ns)?;
        if report.thread(thread)?.threads > 1 {
            return None;
        }
        let mut places: Vec<(&SiteReport, u64)> = report
            .sites
            .iter()
            .map(|site| (site, kept_ns(site, thread)))
            .filter(|(site, ns)| {
                *ns as f64 >= COUNTS * kept_all_ns as f64
                    && is_above_chance(site, *ns)
                    && may_be_its_work(report, site, thread)
            })
            .collect();
        places.sort_by_key(|(site, ns)| (std::cmp::Reverse(*ns), site.id));
        let threads = members(places.first()?.0).len();
        if (kept_all_ns as f64) < well_above_chance(threads) * all_ns as f64 {
            return None;
        }
        let kept_here_ns = total(places.iter().map(|(_, ns)| *ns));
        let mut loss = Self {
            thread,
            places,
            share_pct: kept_here_ns as f64 / report.thread_time.total_ns.max(1) as f64 * 100.0,
            gain_ns: 0.0,
            asleep: 0.0,
            works_ns: (0.0, 0.0),
            excess_ns: 0.0,
        };
        loss.add_work(report);
        Some(loss)
    }

    /// Adds up by how much the thread works longer than the others at all sites, not only where it
    /// came last.
    fn add_work(&mut self, report: &Report) {
        let mut asleep_ns = 0.0;
        for site in &report.sites {
            let Some(works) = Works::at(report, site, self.thread) else {
                continue;
            };
            let excess = works.excess_ns();
            self.excess_ns += excess;
            asleep_ns += works.asleep_longer_ns;
            self.gain_ns += excess * works.others / (works.others + 1.0);
            self.works_ns.0 += works.own_ns;
            self.works_ns.1 += works.others_ns;
        }
        self.asleep = if self.excess_ns > 0.0 {
            (asleep_ns / self.excess_ns).clamp(0.0, 1.0)
        } else {
            0.0
        };
    }

    /// Whether the loss is worth mentioning. A single place with enough episodes speaks for itself.
    pub fn is_worth(&self, report: &Report) -> bool {
        let (own, _) = self.works_ns;
        if let [(site, _)] = self.places[..]
            && site.episodes >= super::FEW
        {
            return false;
        }
        // Where each hit stops a thread, that counts as sleep, too.
        if report.run.has_stopped_threads() && self.asleep >= 0.5 {
            return false;
        }
        self.gain_ns * 100.0 >= super::WORTH * report.seen_ns() as f64
            && self.share_pct >= super::WORTH
            && self.excess_ns >= SPREAD * own
    }

    /// Whether one of the verdicts on single sites says the same. Two that tell parts of it are two places.
    pub fn is_told_by(&self, found: &[VerdictReport]) -> bool {
        let all_ns = total(self.places.iter().map(|(_, ns)| *ns));
        let says_most = |verdict: &VerdictReport| {
            let mut places = self.places.iter();
            let here = places.find(|(site, _)| verdict.site == Some(site.id));
            verdict.thread == Some(self.thread)
                && here.is_some_and(|(_, ns)| *ns as f64 >= ALONE * all_ns as f64)
        };
        let parts = found.iter().filter(|verdict| self.covers(verdict)).count();
        parts < 2 && found.iter().any(says_most)
    }

    /// Whether a verdict on one site tells a part of this.
    pub fn covers(&self, verdict: &VerdictReport) -> bool {
        let is_of_thread = matches!(
            verdict.kind,
            VerdictKind::PersistentStraggler
                | VerdictKind::StragglerBlocked
                | VerdictKind::AlternatingStragglers
                | VerdictKind::RotatingStraggler
        );
        let is_here = self
            .places
            .iter()
            .any(|(site, _)| verdict.site == Some(site.id));
        is_of_thread && is_here && verdict.thread.is_none_or(|thread| thread == self.thread)
    }

    /// The verdict that names the thread and the places.
    pub fn verdict(&self, report: &Report) -> VerdictReport {
        let name = who(report, self.thread);
        let all_ns = total(self.places.iter().map(|(_, ns)| *ns));
        let listed: Vec<String> = self
            .places
            .iter()
            .take(MOST_PLACES)
            .map(|(site, ns)| {
                let part = *ns as f64 / all_ns.max(1) as f64 * 100.0;
                format!("{part:.0} % at {}", site.called())
            })
            .collect();
        let more = self.places.len().saturating_sub(MOST_PLACES);
        let more = if more > 0 {
            format!(", the rest at {}", count(more, "more place"))
        } else {
            String::new()
        };
        let episodes = total(self.places.iter().map(|(site, _)| site.episodes));
        let place = if let [(site, _)] = self.places[..] {
            format!(
                "late at {}: in {}",
                site.called(),
                count(usize::try_from(episodes).unwrap_or(usize::MAX), "episode")
            )
        } else {
            format!(
                "the same thread is late at {}: at",
                count(self.places.len(), "place")
            )
        };
        let (own, others) = self.works_ns;
        let them = Others::of_all(self.places.iter().map(|(site, _)| *site));
        let works = if self.asleep >= 0.5 {
            "works or sleeps"
        } else {
            "works"
        };
        let places = if self.places.len() == 1 {
            format!(
                "{place} {} for {name}",
                them.choose("the other waits", "the others wait")
            )
        } else {
            format!(
                "{place} those {} for {name} ({}{more})",
                them.choose("the other waits", "the others wait"),
                listed.join(", ")
            )
        };
        let others_ns = time(whole(others));
        let others_do = if them.is_one() {
            format!("the other {others_ns}")
        } else {
            format!("the others {others_ns} on average")
        };
        let text = format!(
            "{places}, {:.0} % of thread time; it {works} {} in all, {}. \
             Give it less to do there: even work would save up to {} of {} {}.",
            self.share_pct,
            time(whole(own)),
            others_do,
            time(whole(self.gain_ns)),
            time(report.seen_ns()),
            report.seen_called(),
        );
        VerdictReport {
            kind: VerdictKind::StragglerAtManySites,
            site: if self.places.len() == 1 {
                self.places.first().map(|(site, _)| site.id)
            } else {
                None
            },
            thread: Some(self.thread),
            text,
            evidence: [
                ("share_pct", Figure::Real(self.share_pct)),
                ("gain_ns", Figure::Whole(whole(self.gain_ns))),
                ("places", Figure::Whole(self.places.len() as u64)),
                ("episodes", Figure::Whole(episodes)),
            ]
            .into(),
        }
    }
}
