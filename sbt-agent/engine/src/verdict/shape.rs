//! Verdicts on how work is spread over the threads, where only work made the last thread late.

use super::{
    late::for_want_of_a_cpu,
    words::{Cost, who},
};
use crate::report::{
    Figure, LateReport, Report, SiteReport, StragglerPattern, StragglerReport, StragglerSequence,
    VerdictKind, VerdictReport,
};

/// A phase is serial if the last thread works alone for this fraction of its work: the phase is
/// then at most 1 / 0.8 = 1.25 times as fast as with one thread (Amdahl, AFIPS 1967).
const ALONE: f64 = 0.8;

/// Mean work / longest work from which POP calls the load balance acceptable.
const BALANCED: f64 = 0.8;

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
    let gain = ("gain_ns", Figure::Whole(cost.gain_ns));
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

/// What all verdicts here need: the cost of the site, unless a want of CPUs explains the lateness.
fn of_work<'a>(
    report: &Report,
    site: &'a SiteReport,
) -> Option<(Cost, &'a LateReport, &'a StragglerReport)> {
    let straggler = site.straggler.as_ref()?;
    let (cost, _) = Cost::of(report, site)?;
    let late = straggler.late.as_ref()?;
    let is_of_work = cost.is_of_work(report) && !for_want_of_a_cpu(late);
    is_of_work.then_some((cost, late, straggler))
}

/// The last thread's work divided by the others' mean work.
fn ratio(late: &LateReport) -> f64 {
    late.last.work_ns as f64 / late.others.work_ns.max(1) as f64
}

fn longer(late: &LateReport) -> String {
    let ratio = ratio(late);
    if ratio < 10.0 {
        format!("{ratio:.1} times as long as the others")
    } else {
        "while the others have next to nothing to do".into()
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

/// Verdict: one thread works while all others wait.
pub fn serial_phase(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late, straggler) = of_work(report, site)?;
    // A thread that was merely woken late has no more work than the others; and if two threads
    // work, neither has a lead over the other.
    let (last_ns, others_ns) = (late.last.work_ns as f64, late.others.work_ns as f64);
    let alone_ns = (last_ns - others_ns).min(late.lead_ns as f64);
    if alone_ns < ALONE * last_ns {
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
    let text = format!(
        "serial phase before {}: one of {:.0} threads works ({whose}) while all others wait, \
         {:.0} % of the phase; {}: divide that work, or let the others go on with something else",
        site.called(),
        late.participants,
        alone * 100.0,
        cost.words(report),
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

/// The thread with most CPU time here, and its ratio to the mean, unless that is balanced. CPU time
/// is what threads have to do even where they lack CPUs. `None` also if the site's phases include
/// the program's start.
fn runs_most(report: &Report, site: &SiteReport) -> Option<(u32, f64)> {
    let starts_here = |phase: &crate::report::PhaseReport| phase.from.is_none();
    if report
        .phases
        .iter()
        .any(|phase| phase.to == site.id && starts_here(phase))
    {
        return None;
    }
    let episodes = site.threads.iter().map(|thread| thread.episodes).max()?;
    // Threads that were seldom there belong to other teams.
    let members = site
        .threads
        .iter()
        .filter(|thread| 2 * thread.episodes > episodes);
    let each = members.map(|thread| {
        let mean = thread.running_ns? as f64 / thread.episodes.max(1) as f64;
        Some((thread.thread, mean))
    });
    let each: Vec<(u32, f64)> = each.collect::<Option<_>>()?;
    let mean = each.iter().map(|(_, running)| running).sum::<f64>() / each.len() as f64;
    let most = each.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    // The ratio means nothing if the threads hardly run at all.
    let gain = (most.1 - mean) * site.episodes as f64 * 100.0;
    let is_worth = gain >= super::WORTH * report.seen_ns() as f64;
    (is_worth && mean < BALANCED * most.1).then_some((most.0, most.1 / mean.max(1.0)))
}

/// Verdict: the same thread is late again and again, or has most of the work.
pub fn persistent(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late) = Cost::of(report, site)?;
    let straggler = site.straggler.as_ref()?;
    if !cost.is_of_work(report) {
        return None;
    }
    let same = straggler.pattern == StragglerPattern::Persistent && !for_want_of_a_cpu(late);
    let most =
        runs_most(report, site).filter(|_| straggler.pattern != StragglerPattern::Alternating);
    let (thread, who_does_what) = match most {
        _ if same && !site.straggler_by_barrier.is_empty() => (
            None,
            format!(
                "at each of its barriers the same thread comes last, working {}",
                longer(late)
            ),
        ),
        _ if same => (
            Some(straggler.thread),
            format!(
                "{} comes last in {:.0} % of {} episodes, working {}",
                who(report, straggler.thread),
                straggler.share_pct,
                site.episodes,
                longer(late)
            ),
        ),
        Some((thread, times)) => (
            Some(thread),
            format!(
                "{} uses a CPU for {times:.1} times as long as all do on average",
                who(report, thread)
            ),
        ),
        None => return None,
    };
    let text = format!(
        "static imbalance at {}: {who_does_what}; {}: give it less of the work",
        site.called(),
        cost.words(report),
    );
    let mut named = vec![("work_ratio", ratio(late))];
    if same {
        named.push(("last_pct", straggler.share_pct));
    }
    named.extend(most.map(|(_, times)| ("running_ratio", times)));
    Some(verdict(
        VerdictKind::PersistentStraggler,
        site,
        thread,
        text,
        &cost,
        &named,
    ))
}

/// Figures of the evidence: the ratio of the last thread's work to the others', and how often the
/// most frequent straggler comes last.
fn figures(late: &LateReport, straggler: &StragglerReport) -> [(&'static str, f64); 2] {
    [
        ("work_ratio", ratio(late)),
        ("last_pct", straggler.share_pct),
    ]
}

/// Verdict: a few threads are late, one after the other or each for a while.
pub fn alternating(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late, straggler) = of_work(report, site)?;
    if straggler.pattern != StragglerPattern::Alternating {
        return None;
    }
    let how = match straggler.sequence {
        StragglerSequence::Turns => "a few threads come last in turns",
        StragglerSequence::Stretches => "one of a few threads comes last for a while, then another",
        _ => "mostly one of a few threads comes last",
    };
    let text = format!(
        "alternating stragglers at {}: {how} ({}), working {}; {}: divide what they do more than \
         others among all",
        site.called(),
        few(report, site),
        longer(late),
        cost.words(report),
    );
    let figures = figures(late, straggler);
    Some(verdict(
        VerdictKind::AlternatingStragglers,
        site,
        None,
        text,
        &cost,
        &figures,
    ))
}

/// Verdict: any thread may be late.
pub fn rotating(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (cost, late, straggler) = of_work(report, site)?;
    if straggler.pattern != StragglerPattern::Rotating {
        return None;
    }
    let turns = match straggler.sequence {
        StragglerSequence::Turns => "the threads come last in turns",
        StragglerSequence::Stretches => "one thread comes last for a while, then another",
        _ => "any thread may come last",
    };
    let text = format!(
        "dynamic imbalance at {}: {turns}, working {}; {}: hand the work out in smaller pieces \
         as threads get done, or do more between barriers",
        site.called(),
        longer(late),
        cost.words(report),
    );
    let figures = figures(late, straggler);
    Some(verdict(
        VerdictKind::RotatingStraggler,
        site,
        None,
        text,
        &cost,
        &figures,
    ))
}
