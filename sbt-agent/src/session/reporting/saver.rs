//! Decides when the flight recorder saves what it holds.

use std::collections::{BTreeSet, VecDeque};

use sbt_engine::{
    model::{ids::SiteId, told::ToldEpisode},
    pattern::Pattern,
    saving::SaveRule,
};

/// The shortest time between two saves, ns: episodes that are bad in a row are one event.
const APART_NS: u64 = 1_000_000_000;

/// The most saves of a run, for episodes and for hangs: the disk must not fill.
const MOST: u32 = 100;

/// The rules, and what came of them.
#[derive(Debug)]
pub struct Saver {
    rules: Vec<SaveRule>,
    /// The time of the last save, ns.
    last_ns: Option<u64>,
    due: VecDeque<String>,
    /// The rules about whose site an episode was seen, by their index.
    seen: BTreeSet<usize>,
    /// Threads hung at the last look.
    hangs: bool,
    saved: u32,
    saved_hangs: u32,
    /// Events that met a rule and have no file of their own.
    passed: u64,
}

/// What a rule asks of a site.
pub trait Sites {
    /// Whether a pattern means the site.
    fn is_meant(&self, pattern: &Pattern, site: SiteId) -> bool;
    /// The site as it is shown.
    fn shown(&self, site: SiteId) -> String;
    /// A time as it is shown.
    fn time(&self, ns: u64) -> String;
}

impl Saver {
    /// Nothing is saved yet; `None` without rules.
    pub fn new(rules: Vec<SaveRule>) -> Option<Self> {
        (!rules.is_empty()).then_some(Self {
            rules,
            last_ns: None,
            due: VecDeque::new(),
            seen: BTreeSet::new(),
            hangs: false,
            saved: 0,
            saved_hangs: 0,
            passed: 0,
        })
    }

    /// Whether any rule is about episodes.
    pub fn asks_for_episodes(&self) -> bool {
        self.rules.iter().any(|rule| *rule != SaveRule::Hang)
    }

    /// Compares episodes with the rules.
    pub fn look(&mut self, told: &[ToldEpisode], sites: &impl Sites) {
        for told in told {
            for (index, rule) in self.rules.iter().enumerate() {
                if !self.seen.contains(&index) && is_about(rule, told, sites) {
                    self.seen.insert(index);
                }
            }
            let mut rules = self.rules.iter();
            let why = rules.find_map(|rule| broken(rule, told, sites));
            if let Some(why) = why {
                self.want(told.done.last_ns, why);
            }
        }
    }

    /// Whether threads hang; a hang is saved when it is found.
    pub fn look_at_hang(&mut self, hangs: bool) {
        // However often episodes are bad meanwhile: a hang is seldom, and begins once.
        if hangs && !self.hangs && self.rules.contains(&SaveRule::Hang) {
            if self.saved_hangs < MOST {
                self.saved_hangs += 1;
                self.due.push_back("threads hang".into());
            } else {
                self.passed += 1;
            }
        }
        self.hangs = hangs;
    }

    fn want(&mut self, time_ns: u64, why: String) {
        let is_apart = |last_ns: u64| time_ns.saturating_sub(last_ns) >= APART_NS;
        if self.saved < MOST && self.last_ns.is_none_or(is_apart) {
            self.last_ns = Some(time_ns);
            self.saved += 1;
            self.due.push_back(why);
        } else {
            self.passed += 1;
        }
    }

    /// The rules about sites at which no episode was seen, as the user wrote them.
    pub fn unmet(&self) -> Vec<String> {
        let rules = self.rules.iter().enumerate();
        let unseen = rules.filter(|(index, rule)| {
            let has_site = matches!(rule, SaveRule::Episode { site: Some(_), .. });
            has_site && !self.seen.contains(index)
        });
        unseen.map(|(_, rule)| rule.to_string()).collect()
    }

    /// Why to save now; `None` if there is no reason.
    pub fn take_due(&mut self) -> Option<String> {
        self.due.pop_front()
    }

    /// The note on events without a file of their own.
    pub fn note(&self) -> Option<String> {
        let times = if self.passed == 1 { "event" } else { "events" };
        (self.passed > 0).then(|| {
            format!(
                "--save-when: {} more {times} met a rule less than 1 s after a save, or after {MOST} \
                 saves, and have no file of their own",
                self.passed
            )
        })
    }
}

/// Whether a rule is about the site of an episode.
fn is_about(rule: &SaveRule, told: &ToldEpisode, sites: &impl Sites) -> bool {
    let SaveRule::Episode { site, .. } = rule else {
        return false;
    };
    let is_meant = |site: &Pattern| sites.is_meant(site, told.site);
    site.as_ref().is_none_or(is_meant)
}

/// What to tell if an episode meets a rule.
fn broken(rule: &SaveRule, told: &ToldEpisode, sites: &impl Sites) -> Option<String> {
    let SaveRule::Episode {
        quantity, limit_ns, ..
    } = rule
    else {
        return None;
    };
    let found_ns = quantity.of(told).filter(|found_ns| found_ns > limit_ns)?;
    is_about(rule, told, sites).then(|| {
        format!(
            "{} at {} took {}",
            quantity.word(),
            sites.shown(told.site),
            sites.time(found_ns)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::model::parts::Done;

    struct Two;

    impl Sites for Two {
        fn is_meant(&self, pattern: &Pattern, site: SiteId) -> bool {
            pattern.is_name(if site.0 == 0 { "one" } else { "two" })
        }

        fn shown(&self, site: SiteId) -> String {
            format!("site {}", site.0)
        }

        fn time(&self, ns: u64) -> String {
            format!("{ns} ns")
        }
    }

    fn told(site: u32, last_ns: u64, phase_ns: Option<u64>) -> ToldEpisode {
        ToldEpisode {
            site: SiteId(site),
            index: 0,
            number: 1,
            done: Done {
                first_ns: last_ns - 1_000_000,
                last_ns,
                phase: phase_ns.map(|phase_ns| (None, phase_ns)),
                straggler: None,
                alone: None,
            },
            arrivals: Vec::new(),
        }
    }

    fn saver(rules: &[&str]) -> Saver {
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Saver::new(rules).unwrap()
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn only_the_site_that_is_meant_counts() {
        let mut saver = saver(&["phase two > 2us"]);
        saver.look(
            &[told(0, 5 * S, Some(9000)), told(1, 5 * S, Some(2000))],
            &Two,
        );
        saver.look(&[told(1, 5 * S, None)], &Two);
        assert_eq!(saver.take_due(), None);
        saver.look(&[told(1, 5 * S, Some(2001))], &Two);
        assert_eq!(saver.take_due().unwrap(), "phase at site 1 took 2001 ns");
        assert_eq!(saver.take_due(), None);
    }

    #[test]
    fn what_comes_at_once_is_saved_once() {
        let mut saver = saver(&["barrier > 500us", "hang"]);
        for at in [5 * S, 5 * S + 7, 6 * S - 1] {
            saver.look(&[told(0, at, None)], &Two);
        }
        assert!(saver.take_due().is_some());
        assert!(saver.note().unwrap().contains("2 more events"));
        saver.look_at_hang(true);
        assert_eq!(saver.take_due().unwrap(), "threads hang");
        saver.look_at_hang(true);
        assert_eq!(saver.take_due(), None, "it is the same hang");
        for second in 10..300 {
            saver.look(&[told(0, second * S, None)], &Two);
        }
        assert_eq!(saver.saved, MOST);
        // However many episodes are bad, a hang has a file of its own.
        while saver.take_due().is_some() {}
        saver.look_at_hang(false);
        saver.look_at_hang(true);
        assert_eq!(saver.take_due().unwrap(), "threads hang");
    }

    #[test]
    fn rules_about_sites_that_do_not_exist_are_told() {
        let mut saver = saver(&["phase two > 1s", "barrier one > 1s", "idle > 1s", "hang"]);
        assert_eq!(saver.unmet(), ["phase two > 1s", "barrier one > 1s"]);
        saver.look(&[told(0, 5 * S, Some(9000))], &Two);
        assert_eq!(saver.unmet(), ["phase two > 1s"]);
        saver.look(&[told(1, 6 * S, Some(9000))], &Two);
        assert!(saver.unmet().is_empty());
    }
}
