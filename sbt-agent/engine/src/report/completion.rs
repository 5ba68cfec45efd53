//! Barriers in which threads sleep on after the last one has come: that one does something before it lets
//! them go, as the completion function of a `std::barrier`.

use super::{Report, SiteReport};
use crate::total::total;

/// To wake a thread takes less than this, ns: some 10 µs, in virtual machines 50 µs, and more where
/// threads lack CPUs.
const LONG_NS: f64 = 500_000.0;

impl Report {
    /// For how long at least threads slept in the barriers of a site after the last one had come, ns, all
    /// threads together, by the kernel's sums; 0 where the model knows how long they took to leave: their
    /// work is without that time then. 0 too where episodes are incomplete: the kernel's sums are of these as
    /// well, and the model's are not.
    pub fn slept_after_the_last_ns(&self, site: &SiteReport) -> u64 {
        if site.release_ns.is_some()
            || site.estimated
            || site.incomplete > 0
            || self.lost_events > 0
        {
            return 0;
        }
        let places = self.waits.iter().flat_map(|looks| &looks.places);
        let here = places.filter(|place| place.in_barrier && site.places.contains(&place.place));
        total(here.filter_map(|place| place.slept_ns)).saturating_sub(site.lost_ns)
    }

    /// How long a thread sleeps in the barriers of a site after the last one has come, in the mean of its
    /// waits, ns; `None` if that takes no longer than to wake it.
    pub fn each_sleeps_on_ns(&self, site: &SiteReport) -> Option<f64> {
        // All threads but the last one of each episode.
        let waits = site.idle_ns.as_ref()?.count.saturating_sub(site.episodes);
        let each_ns = self.slept_after_the_last_ns(site) as f64 / waits.max(1) as f64;
        (each_ns >= LONG_NS).then_some(each_ns)
    }

    /// The percentage of thread time for which threads sleep in barriers after the last one has come, and
    /// which counts as work; `None` if that is little.
    pub fn slept_after_the_last_pct(&self) -> Option<f64> {
        const LEAST_PCT: f64 = 5.0;
        let sites = self.sites.iter();
        let long = sites.filter(|site| self.each_sleeps_on_ns(site).is_some());
        let slept = total(long.map(|site| self.slept_after_the_last_ns(site)));
        let pct = slept as f64 / self.thread_time.total_ns.max(1) as f64 * 100.0;
        (pct >= LEAST_PCT).then_some(pct)
    }
}
