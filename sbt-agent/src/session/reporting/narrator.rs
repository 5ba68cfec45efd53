//! Prints episodes while the program runs, and keeps the watched ones for the report.

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use super::saver::{Saver, Sites};
use crate::{
    naming::Naming,
    output::PLAIN,
    settings::Settings,
    show::{
        table::{Style, duration},
        text::episode::{self, Context},
    },
};
use sbt_engine::{
    counters::Plan,
    model::{
        Model,
        ids::SiteId,
        told::{Telling, ToldEpisode},
    },
    pattern::Pattern,
    place::{Place, printable},
    report::{order::Order, place_names::labels},
};
use sbt_program::clock;

/// The most watched episodes kept for JSON; older ones are dropped.
const KEPT: usize = 10_000;

/// The most arrivals in the kept episodes, which bounds their memory.
const KEPT_ARRIVALS: usize = 100_000;

/// The output about single episodes while the program runs.
#[derive(Clone, Debug)]
pub struct Narration {
    /// The style for episodes on standard error; `None` prints none.
    pub style: Option<Style>,
    /// Whether the report will list the watched episodes.
    pub keep: bool,
    /// The name of this run if there are several: it stands in front of messages about hangs, which
    /// are then printed even if `style` is `None`.
    pub run: Option<String>,
}

/// Prints and keeps episodes.
pub struct Narrator {
    /// The style for episodes on standard error; `None` prints none.
    style: Option<Style>,
    /// The name of this run, as in [`Narration::run`].
    run: Option<String>,
    start_ns: u64,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC` at the start, ns.
    pub unix_offset_ns: u64,
    limit_ns: Option<u64>,
    phase_times: bool,
    /// By site: how many barrier times were above the limit, and the longest of them, ns.
    warned: BTreeMap<SiteId, (u64, u64)>,
    kept: Option<VecDeque<ToldEpisode>>,
    kept_arrivals: usize,
    omitted: u64,
    /// When to save what a recording holds; `None` never.
    pub saver: Option<Saver>,
}

impl Narrator {
    /// A narrator for a run that begins at `start_ns`.
    pub fn new(settings: &Settings, narration: Narration, start_ns: u64) -> Self {
        let Narration { style, keep, run } = narration;
        let limit_ns = u64::try_from(settings.warn_time.as_nanos()).unwrap_or(u64::MAX);
        let watches = settings.watch_all || !settings.watch.is_empty();
        Self {
            style,
            run,
            start_ns,
            unix_offset_ns: clock::unix_ns().saturating_sub(clock::now_ns()),
            limit_ns: settings.warnings.then_some(limit_ns),
            phase_times: settings.phase_times,
            warned: BTreeMap::new(),
            kept: (watches && keep).then(VecDeque::new),
            kept_arrivals: 0,
            omitted: 0,
            saver: None,
        }
    }

    /// Moves the beginning of the run to a later time.
    pub const fn begin_at(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Forgets what was told and kept: it lies before the part that counts.
    pub fn forget(&mut self) {
        self.warned.clear();
        if let Some(kept) = &mut self.kept {
            kept.clear();
        }
        self.kept_arrivals = 0;
        self.omitted = 0;
    }

    /// The text in front of messages about hangs; `None` if none are printed.
    pub fn before_hangs(&self) -> Option<String> {
        match &self.run {
            Some(run) => Some(format!("{run}: ")),
            None => self.style.map(|_| String::new()),
        }
    }

    /// The episodes that the model should hand to the narrator.
    pub fn telling(&self) -> Telling {
        Telling {
            all: self.phase_times,
            above_ns: self.limit_ns,
        }
    }

    /// Takes the episodes that the model has ready, `told`, and returns what to print: the lines on
    /// each episode, at the time at which it was complete (`CLOCK_MONOTONIC`, ns).
    pub fn tell(
        &mut self,
        told: Vec<ToldEpisode>,
        model: &Model,
        places: &[Rc<Place>],
        settings: &Settings,
        counters: &Plan,
    ) -> Vec<(u64, String)> {
        if told.is_empty() {
            return Vec::new();
        }
        let all: Vec<&Place> = places.iter().map(AsRef::as_ref).collect();
        let names = Names {
            model,
            places: &all,
            naming: Naming(settings),
            counters,
            order: Order::new(model),
        };
        if let Some(saver) = &mut self.saver {
            saver.look(&told, &names);
        }
        let texts = told
            .into_iter()
            .map(|told| (told.done.last_ns, self.tell_one(told, &names)));
        texts.filter(|(_, text)| !text.is_empty()).collect()
    }

    fn tell_one(&mut self, told: ToldEpisode, names: &Names<'_>) -> String {
        let mut text = String::new();
        let watched = names.model.sites().all()[told.site.index()].roles.watched;
        let barrier_ns = told.done.barrier_ns();
        let late = self.limit_ns.filter(|limit_ns| barrier_ns > *limit_ns);
        let mut first_warning = false;
        if late.is_some() {
            let (count, worst_ns) = self.warned.entry(told.site).or_default();
            first_warning = *count == 0;
            *count += 1;
            *worst_ns = barrier_ns.max(*worst_ns);
        }
        if let Some(style) = self.style {
            let offset_ns = self.unix_offset_ns;
            let from = told.done.phase.and_then(|(from, _)| from);
            let from = from.map(|site| names.site(site));
            let context = Context {
                site: &names.site(told.site),
                from: from.as_deref(),
                start_ns: self.start_ns,
                time_of_day: &|time_ns| clock::time_of_day(time_ns + offset_ns),
                thread: &|thread| names.thread(thread),
                counters: &names.counters.0,
                style,
            };
            if self.phase_times {
                text.push_str(&episode::phase(&told, &context));
            }
            if watched {
                text.push_str(&episode::episode(&told, &context));
            }
            if let Some(limit_ns) = late.filter(|_| first_warning) {
                text.push_str(&episode::warning(&told, limit_ns, &context));
            }
        }
        if let Some(kept) = self.kept.as_mut().filter(|_| watched) {
            self.kept_arrivals += told.arrivals.len();
            kept.push_back(told);
            while kept.len() > KEPT || self.kept_arrivals > KEPT_ARRIVALS && kept.len() > 1 {
                let oldest = kept.pop_front();
                self.kept_arrivals -= oldest.map_or(0, |told| told.arrivals.len());
                self.omitted += 1;
            }
        }
        text
    }

    /// By site: the number of warnings, the longest barrier time and the limit, both in ns.
    pub fn warnings(&self) -> Vec<(SiteId, u64, u64, u64)> {
        let limit_ns = self.limit_ns.unwrap_or(0);
        let warned = self.warned.iter();
        warned
            .map(|(site, (count, worst_ns))| (*site, *count, *worst_ns, limit_ns))
            .collect()
    }

    /// The kept episodes, `None` if the user asked for none, and the number of older ones that were
    /// dropped.
    pub fn take_kept(&mut self) -> (Option<Vec<ToldEpisode>>, u64) {
        (self.kept.take().map(Vec::from), self.omitted)
    }
}

/// Names of sites, threads and counters.
struct Names<'a> {
    model: &'a Model,
    places: &'a [&'a Place],
    naming: Naming<'a>,
    counters: &'a Plan,
    order: Order,
}

impl Sites for Names<'_> {
    fn is_meant(&self, pattern: &Pattern, site: SiteId) -> bool {
        let ids = self.model.sites().all()[site.index()].places.iter();
        let mut places = ids.filter_map(|id| self.places.get(id.0 as usize));
        places.any(|place| self.naming.is_meant(pattern, place))
    }

    fn shown(&self, site: SiteId) -> String {
        self.site(site)
    }

    fn time(&self, ns: u64) -> String {
        duration(Some(ns), PLAIN)
    }
}

impl Names<'_> {
    fn site(&self, site: SiteId) -> String {
        let ids = self.model.sites().all()[site.index()].places.iter();
        let places = || {
            ids.clone()
                .filter_map(|id| self.places.get(id.0 as usize).copied())
        };
        let labels = labels(places(), self.places).join(" | ");
        match places().find_map(|place| self.naming.name(place)) {
            Some(name) => format!("{name} ({labels})"),
            None => labels,
        }
    }

    fn thread(&self, id: sbt_engine::model::ids::ThreadId) -> String {
        let row = &self.model.threads().rows()[id.index()];
        if row.threads > 1 {
            return format!("one of {} further threads", row.threads);
        }
        let number = self.order.number(id);
        let name = printable(&row.name);
        let label = self.order.label(number);
        format!("{label} {} {name}", row.shown.0)
    }
}
