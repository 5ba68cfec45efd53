//! Verdicts on how work is spread over the threads, where only work made the last thread late.

use super::{
    away,
    cost::Cost,
    culprit::{Culprit, members},
    kernel, lack,
    late::{Excess, is_uneven, of_work, stands_out},
    noise::{is_noise, is_noise_of},
    speed,
    words::{Others, give_less, hand_out, share_out, who, whole},
};
use crate::{
    report::{
        BarrierKind, Figure, LateReport, Report, SiteReport, SiteThreadReport, StatReport,
        StragglerPattern, StragglerReport, StragglerSequence, VerdictKind, VerdictReport,
    },
    total::total,
    words::time,
};

/// A phase is serial if the last thread works alone for this fraction of its work: the phase is
/// then at most 1 / 0.8 = 1.25 times as fast as with one thread (Amdahl, AFIPS 1967).
const ALONE: f64 = 0.8;

/// By how much a thread must work longer than the others at least, as a fraction of its work. Of some 40 runs
/// of a balanced program that divides, on cores that other virtual machines shared, two had one thread that
/// worked 1.22 and 1.26 times as long on a CPU that was no slower by the fixed piece of work.
const LEAST: f64 = 0.22;

/// As [`LEAST`], where any thread may come last. Equal work that depends on memory differs by a fifth
/// of its length from phase to phase on a machine that others use too: of two threads the last then
/// works a fifth longer than the other on average (the larger of two normal values of deviation s:
/// 0.56 s).
const BY_CHANCE: f64 = 0.25;

/// As [`LEAST`], where one thread comes last for a while, then another: other users of the machine slow
/// one of its CPUs for a while, then another.
const IN_STRETCHES: f64 = 0.3;

/// The percentage of thread time that a thread must cost which comes last no more often than others.
const COSTS: f64 = 5.0;

/// Work of less than this fraction of the last thread's mean work is next to nothing.
const NEXT_TO_NOTHING: f64 = 0.05;

/// A thread is blamed although it comes last no more often than others if the others wait for it for
/// this fraction of their wait.
const NEARLY_ALL: f64 = 0.8;

/// A thread is also blamed, however often it comes last, if it works longer than the others by this
/// fraction of its work, in the mean of all its episodes.
const BY_FAR: f64 = 1.0 / 3.0;

/// How much more often than by chance a thread comes last that is blamed.
const ABOVE_CHANCE: f64 = 1.2;

/// Largest number of alternating threads that are named.
const MOST_NAMES: usize = 4;

fn verdict(
    kind: VerdictKind,
    site: &SiteReport,
    thread: Option<u32>,
    text: String,
    cost: &Cost,
    named: &[(&'static str, f64)],
) -> VerdictReport {
    let share = ("share_pct", Figure::Real(cost.share_pct));
    let gain = ("gain_ns", Figure::Whole(cost.saved_ns()));
    let others = named
        .iter()
        .map(|(name, value)| (*name, Figure::Real(*value)));
    VerdictReport {
        kind,
        site: Some(site.id),
        thread,
        text,
        evidence: [share, gain].into_iter().chain(others).collect(),
    }
}

/// The waits at a site, and the part of them that the work of the last thread explains.
struct OfWork<'a> {
    late: &'a LateReport,
    straggler: &'a StragglerReport,
    /// The cost of all waits.
    all: Cost,
    /// The part of the cost that time on CPUs explains.
    cost: Cost,
    /// By how much the last thread works longer than the others, as a fraction of its work.
    spread: f64,
}

impl<'a> OfWork<'a> {
    /// `None` unless time on CPUs explains most of a wait that is worth mending.
    fn of(report: &Report, site: &'a SiteReport) -> Option<Self> {
        let straggler = site.straggler.as_ref()?;
        let (all, _) = Cost::of(report, site)?;
        let late = straggler.late.as_ref()?;
        let (cost, spread) = of_work(report, site, &all, late)?;
        Some(Self {
            late,
            straggler,
            all,
            cost,
            spread,
        })
    }

    /// Whether the work differs by more than equal work does on a machine that others use too: there
    /// the last of a few threads takes a tenth longer, now one, now another.
    fn is_more_than_noise(&self) -> bool {
        let least = match self.straggler.sequence {
            StragglerSequence::Stretches => IN_STRETCHES,
            _ => BY_CHANCE,
        };
        self.spread >= least
    }

    /// Whether the difference may be no work: with GNU's OpenMP the thread that begins a region first
    /// waits, on its CPU, until the others have left the region before (libgomp's `team.c`,
    /// `gomp_team_start`), and they leave late where they lack CPUs.
    fn may_be_of_the_dock(&self, report: &Report, site: &SiteReport) -> bool {
        /// A wait in the dock takes at most this many times the mean time of leaving.
        const LONGEST: f64 = 3.0;
        let Some(excess) = Excess::of(self.late).filter(|_| site.kind == BarrierKind::Gomp) else {
            return false;
        };
        let of_gomp = report.sites.iter().filter(|one| one.kind == site.kind);
        let leaving: Vec<_> = of_gomp
            .filter_map(|site| site.release_ns.as_ref())
            .collect();
        let sum_ns = total(leaving.iter().map(|stat| stat.sum)) as f64;
        let count = total(leaving.iter().map(|stat| stat.count)).max(1) as f64;
        let each_ns = excess.running / self.late.split_episodes.max(1) as f64;
        each_ns < LONGEST * sum_ns / count
    }

    /// The work of the last thread and that of the others, each in the mean of an episode.
    fn works(&self, site: &SiteReport) -> String {
        let late = self.late;
        let with = with_completion(site);
        let each = |ns: u64, episodes: u64| time(ns / episodes.max(1));
        match (late.last.running_ns, late.others.running_ns) {
            (Some(last), Some(others)) => format!(
                "the last is on a CPU for {}, {} for {} on average{with}",
                each(last, late.split_episodes),
                Others::of(site).the(),
                each(others, late.split_episodes)
            ),
            _ => format!(
                "the last works {}, {} {} on average{with}",
                each(late.last.work_ns, late.episodes),
                Others::of(site).the(),
                each(late.others.work_ns, late.episodes)
            ),
        }
    }

    /// Figures of the evidence: how long the last works and how long the others do, in the mean of
    /// an episode, and how often the most frequent straggler comes last.
    fn figures(&self) -> [(&'static str, f64); 2] {
        let (last, others) = (self.late.last.work_ns, self.late.others.work_ns);
        [
            ("work_ratio", last as f64 / others.max(1) as f64),
            ("last_pct", self.straggler.share_pct),
        ]
    }
}

/// What work at a `std::barrier` may contain where nobody knows when threads leave it, in words; else empty.
fn with_completion(site: &SiteReport) -> &'static str {
    if site.kind == BarrierKind::Std && site.release_ns.is_none() {
        " (a completion function of the barrier counts for the thread that calls it)"
    } else {
        ""
    }
}

/// The threads that come last most often, as many as account for four of five episodes, with their
/// percentages.
fn few(report: &Report, site: &SiteReport) -> String {
    let mut threads: Vec<_> = site.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.last));
    let mut together = 0;
    let few = threads.iter().take_while(|thread| {
        let more = together * 5 < site.episodes * 4;
        together += if more { thread.last } else { 0 };
        more
    });
    let names: Vec<String> = few
        .take(MOST_NAMES)
        .map(|thread| {
            let share = thread.last as f64 / site.episodes.max(1) as f64 * 100.0;
            format!("{} {share:.0} %", report.label(thread.thread))
        })
        .collect();
    names.join(", ")
}

/// Whether a verdict on one site or thread stands: not on how work is spread where threads may work in
/// the barrier itself, and not where sbt's own stops, or a want of CPUs, may have made the difference.
pub fn stands(report: &Report, verdict: &VerdictReport) -> bool {
    let is_of_lack = matches!(
        verdict.kind,
        VerdictKind::StragglerBlocked | VerdictKind::StragglerLostItsCpu
    );
    let works = |site| report.worked_in_barrier_ns(site) > 0;
    let is_of_spread = verdict.kind.is_of_work();
    if is_of_spread && may_be_want_of_cpus(report, verdict) {
        return false;
    }
    match verdict.site.and_then(|site| report.site(site)) {
        Some(site) if (is_of_spread || is_of_lack) && is_disturbed(report, site) => false,
        Some(site) if is_of_spread && may_be_of_completion(report, site) => false,
        // Where threads sleep on in the barrier, the sleep of unknown place may be that one.
        Some(site) if away::may_be_lock(verdict) && report.each_sleeps_on_ns(site).is_some() => {
            false
        }
        _ if is_of_lack => true,
        Some(site) => !works(site),
        None => {
            let is_open = |site| works(site) || is_disturbed(report, site);
            verdict.kind != VerdictKind::StragglerAtManySites || !report.sites.iter().any(is_open)
        }
    }
}

/// Whether threads lacked CPUs for a good part of their lives, and nobody knows how much of that lies in the work
/// that a verdict is about.
fn may_be_want_of_cpus(report: &Report, verdict: &VerdictReport) -> bool {
    const MUCH_PCT: f64 = 10.0;
    let is_split = |thread: &SiteThreadReport| thread.later.is_some_and(|it| it.ready_ns.is_some());
    let sites = report.sites.iter();
    let sites = sites.filter(|site| verdict.site.is_none_or(|id| id == site.id));
    let is_known = sites.flat_map(|site| &site.threads).any(is_split);
    !is_known && lack::ready_pct(report).is_some_and(|pct| pct >= MUCH_PCT)
}

/// Whether what the last thread works more may be what it does in the barrier, as a completion function,
/// which counts as its work where nobody knows when threads leave.
fn may_be_of_completion(report: &Report, site: &SiteReport) -> bool {
    const PART: f64 = 0.5;
    let Some((_, late)) = Cost::of(report, site) else {
        return false;
    };
    let excess_ns = Excess::of(late).map_or_else(
        || {
            let ns = late.last.work_ns as f64 - late.others.work_ns as f64;
            ns / late.episodes.max(1) as f64
        },
        |excess| excess.running / late.split_episodes.max(1) as f64,
    );
    let slept_ns = report.each_sleeps_on_ns(site);
    slept_ns.is_some_and(|slept| slept >= PART * excess_ns)
}

/// Whether sbt may have made the difference between the threads of a site: where each hit stops a
/// thread, and the phases are so short that not every departure could be watched.
fn is_disturbed(report: &Report, site: &SiteReport) -> bool {
    const SHORT_NS: u64 = 1_000_000;
    let is_short = site
        .phase_ns
        .as_ref()
        .is_some_and(|phase| phase.p50 < SHORT_NS);
    report.run.has_stopped_threads() && report.run.departures != Some(true) && is_short
}

/// Whether a thread's work exceeds that of the others as in a serial phase in one of twenty episodes at least. In
/// fewer of many short phases, other users of the machine may have made the difference between the sums.
fn works_alone_often(site: &SiteReport, thread: u32) -> bool {
    let members = members(site);
    let percentiles: [fn(&StatReport) -> u64; 2] = [|work| work.p50, |work| work.p95];
    percentiles.iter().any(|percentile| {
        let longest = |of_it: bool| {
            let some = members.iter().filter(|one| (one.thread == thread) == of_it);
            let works = some.filter_map(|one| one.each.work_ns.as_ref().map(percentile));
            works.max().unwrap_or(0) as f64
        };
        let (own, others) = (longest(true), longest(false));
        own > 0.0 && own - others >= ALONE * own
    })
}

/// Verdict: one thread works while all others wait.
pub fn serial_phase(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let OfWork {
        late,
        straggler,
        all,
        cost,
        ..
    } = OfWork::of(report, site)?;
    if report.may_work_between(site) {
        return None;
    }
    // A thread that was merely woken late has no more work than the others; and if two threads
    // work, neither has a lead over the other.
    let (last_ns, others_ns) = (late.last.work_ns as f64, late.others.work_ns as f64);
    // Without a CPU nobody works.
    if let Some((last, others)) = late.last.running_ns.zip(late.others.running_ns)
        && (last as f64 - others as f64) < ALONE * last as f64
    {
        return None;
    }
    let alone_ns = (last_ns - others_ns).min(late.lead_ns as f64);
    if alone_ns < ALONE * last_ns {
        return None;
    }
    // Where now one thread is last, now another, they have uneven work, unless each has phases in
    // which it does next to nothing.
    let idles = |thread: &SiteThreadReport| {
        let least = thread.each.work_ns.as_ref().map(|work| work.min as f64);
        least.is_none_or(|least| least * late.episodes as f64 <= NEXT_TO_NOTHING * last_ns)
    };
    let is_usual = match straggler.pattern {
        // Of several barriers each may have its own.
        StragglerPattern::Persistent if !site.straggler_by_barrier.is_empty() => true,
        StragglerPattern::Persistent => works_alone_often(site, straggler.thread),
        _ => site.threads.iter().all(idles),
    };
    if !is_usual {
        return None;
    }
    let alone = late.lead_ns as f64 / late.phase_ns.max(1) as f64;
    let is_one =
        straggler.pattern == StragglerPattern::Persistent && site.straggler_by_barrier.is_empty();
    let whose = match straggler.pattern {
        _ if is_one => who(report, straggler.thread),
        StragglerPattern::Persistent => "the same one at each barrier".into(),
        StragglerPattern::Alternating => format!("one of a few: {}", few(report, site)),
        _ => "now one, now another".into(),
    };
    let kernel = is_one
        .then(|| kernel::of_thread(report, straggler.thread))
        .flatten();
    let (why, remedy) = kernel.map_or_else(
        || (String::new(), share_out(site.kind, Others::of(site))),
        |it| (format!(" ({})", it.why), it.remedy),
    );
    let text = format!(
        "serial phase before {}: one of {:.0} threads works ({whose}) for {:.0} % of the phase \
         while {}{why}; {}. {remedy}: {}.",
        site.called(),
        late.participants,
        alone * 100.0,
        Others::of(site).choose("the other waits", "all others wait"),
        cost.words(&all),
        cost.saves(report),
    );
    Some(verdict(
        VerdictKind::SerialPhase,
        site,
        is_one.then_some(straggler.thread),
        text,
        &cost,
        &[("alone_pct", alone * 100.0), ("threads", late.participants)],
    ))
}

/// Verdict: the same thread is late again and again, and works longer than the others whether it
/// comes last or not.
pub fn persistent(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let mut clear = site
        .straggler_by_barrier
        .iter()
        .filter(|at| at.pattern != StragglerPattern::None);
    let first = clear.next();
    // Where it is one thread at all barriers of the site, that one is named.
    let differ = first.is_some_and(|first| clear.any(|at| at.thread != first.thread));
    if differ {
        return at_each_barrier(report, site);
    }
    let (all, late) = Cost::of(report, site)?;
    let culprit = Culprit::of(report, site)?;
    let (own, others) = (culprit.own.own(), culprit.others.own());
    let slower = speed::of_thread(report, site, culprit.thread);
    let equal = own / slower.at_most;
    let explained = |own: f64| all.explained((own - others) * late.episodes as f64);
    let (cost, of_equal) = (explained(own), explained(equal));
    let spread = (equal - others) / equal.max(1.0);
    let is_its_work = stands_out(&all, &cost, late, spread) || is_uneven(&all, &cost, late, spread);
    let chance_pct = 100.0 / late.participants.max(1.0);
    let is_last = culprit.last_pct >= ABOVE_CHANCE * chance_pct;
    // A thread that comes last no more often than others is blamed if the others wait for it nearly
    // always, or if it works longer by far.
    let is_sure = culprit.share >= NEARLY_ALL && spread >= LEAST || spread >= BY_FAR;
    let is_waited_for = is_sure && of_equal.share_pct >= COSTS;
    if !is_its_work || !(is_last || is_waited_for) || spread < LEAST || !of_equal.is_worth(report) {
        return None;
    }
    if is_noise_of(site, &culprit) {
        return None;
    }
    let how = if culprit.own.is_split {
        "is on a CPU for"
    } else {
        "works"
    };
    let others_do = if others * 100.0 < own {
        "next to nothing".into()
    } else {
        format!("{} on average", time(whole(others)))
    };
    let kernel = kernel::of_thread(report, culprit.thread);
    let rare = rare(site, culprit.thread, own);
    let (why, remedy) = kernel.map_or_else(
        || (String::new(), remedy(report, site, !rare.is_empty())),
        |it| (format!(" ({})", it.why), it.remedy.to_owned()),
    );
    let why = if slower.is_told() {
        format!(
            "{why} (its CPU was {:.1} times slower, which explains a part of that)",
            slower.measured
        )
    } else {
        why
    };
    let whose = who(report, culprit.thread);
    let last = format!(
        "comes last in {:.0} % of {} episodes",
        culprit.last_pct, site.episodes
    );
    let own_does = time(whole(own));
    let (often, at) = (format!("{how} {own_does} in"), site.called());
    let sentence = if is_last && rare.is_empty() {
        format!("static imbalance at {at}: {whose} {last}, and {often} each phase")
    } else if is_last {
        format!("static imbalance at {at}: {whose} {last}, and {often} a phase on average{rare}")
    } else {
        format!(
            "imbalance at {at}: {:.0} % of the wait is for {whose}, which {last}, and {often} a phase \
             on average{rare}",
            culprit.share * 100.0,
        )
    };
    let text = format!(
        "{sentence}, {} {others_do}{why}{}; {}. {remedy}: {}.",
        Others::of(site).the(),
        with_completion(site),
        cost.words(&all),
        cost.saves(report),
    );
    Some(verdict(
        VerdictKind::PersistentStraggler,
        site,
        Some(culprit.thread),
        text,
        &cost,
        &[
            ("work_ratio", own / others.max(1.0)),
            ("last_pct", culprit.last_pct),
        ],
    ))
}

/// Where a thread does much of its work in few phases: how long these are, in words; else empty. `mean_ns`:
/// its work, without the program's start.
fn rare(site: &SiteReport, thread: u32, mean_ns: f64) -> String {
    const LONGER: f64 = 1.5;
    const MORE: f64 = 3.0;
    let work = site.threads.iter().find(|other| other.thread == thread);
    let work = work.and_then(|thread| thread.each.work_ns.as_ref());
    work.map_or_else(String::new, |work| {
        let most = |of: &str, ns| {
            let (ns, longest) = (time(ns), time(work.max));
            format!(" (by the clock at most {ns} in {of} of them, and {longest} in the longest)")
        };
        if mean_ns > work.p95 as f64 {
            most("95 %", work.p95)
        } else if mean_ns > LONGER * work.p50 as f64 && work.max as f64 > MORE * mean_ns {
            most("half", work.p50)
        } else {
            String::new()
        }
    })
}

/// What to do about a thread that is on a CPU for longer: whether it has more to do or works more
/// slowly is known only where instructions are counted. `is_rare`: whether only in few phases.
fn remedy(report: &Report, site: &SiteReport, is_rare: bool) -> String {
    if is_rare {
        return "Look for what it does now and then, and do it elsewhere or share it out".into();
    }
    let give_less = give_less(site.kind);
    if report.run.hardware_counters == Some(true) && report.counters.is_empty() {
        format!("{give_less}, unless it only works more slowly (-e instructions tells)")
    } else {
        give_less.to_owned()
    }
}

/// Several barriers are used from one place, each with a straggler of its own.
fn at_each_barrier(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let of_work = OfWork::of(report, site)?;
    let is_persistent = of_work.straggler.pattern == StragglerPattern::Persistent;
    if !is_persistent {
        return None;
    }
    let text = format!(
        "static imbalance at {}: at each of its barriers the same thread comes last, and {}; {}. \
         {}: {}.",
        site.called(),
        of_work.works(site),
        of_work.cost.words(&of_work.all),
        give_less(site.kind),
        of_work.cost.saves(report),
    );
    Some(verdict(
        VerdictKind::PersistentStraggler,
        site,
        None,
        text,
        &of_work.cost,
        &of_work.figures(),
    ))
}

/// Verdict: a few threads are late, one after the other or each for a while.
pub fn alternating(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let of_work = OfWork::of(report, site)?;
    let straggler = of_work.straggler;
    if straggler.pattern != StragglerPattern::Alternating
        || !of_work.is_more_than_noise()
        || of_work.may_be_of_the_dock(report, site)
    {
        return None;
    }
    let how = match straggler.sequence {
        StragglerSequence::Turns => "a few threads come last in turns",
        StragglerSequence::Stretches => "one of a few threads comes last for a while, then another",
        _ => "mostly one of a few threads comes last",
    };
    let text = format!(
        "alternating stragglers at {}: {how} ({}), and {}; {}. Divide among all what {}: {}.",
        site.called(),
        few(report, site),
        of_work.works(site),
        of_work.cost.words(&of_work.all),
        Others::of(site).choose("one does more than the other", "they do more than others"),
        of_work.cost.saves(report),
    );
    Some(verdict(
        VerdictKind::AlternatingStragglers,
        site,
        None,
        text,
        &of_work.cost,
        &of_work.figures(),
    ))
}

/// Verdict: any thread may be late.
pub fn rotating(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let of_work = OfWork::of(report, site)?;
    let straggler = of_work.straggler;
    if matches!(
        straggler.pattern,
        StragglerPattern::Alternating | StragglerPattern::None
    ) || !of_work.is_more_than_noise()
        || of_work.may_be_of_the_dock(report, site)
    {
        return None;
    }
    if straggler.pattern == StragglerPattern::Persistent && is_noise(report, site) {
        return None;
    }
    let turns = match straggler.sequence {
        StragglerSequence::Turns => "the threads come last in turns",
        StragglerSequence::Stretches => "one thread comes last for a while, then another",
        _ => "now one thread comes last, now another",
    };
    let text = format!(
        "dynamic imbalance at {}: {turns}, and {}; {}. {}: {}.",
        site.called(),
        of_work.works(site),
        of_work.cost.words(&of_work.all),
        hand_out(site.kind),
        of_work.cost.saves(report),
    );
    Some(verdict(
        VerdictKind::RotatingStraggler,
        site,
        None,
        text,
        &of_work.cost,
        &of_work.figures(),
    ))
}
