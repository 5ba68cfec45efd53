//! Whether the thread that is always late executes more instructions than the others, or executes
//! them more slowly. Needs a counter (`-e instructions`).

use super::{
    cost::Cost,
    culprit::Culprit,
    late::for_want_of_a_cpu,
    words::{Others, who},
};
use crate::report::{
    Figure, Report, SiteReport, SiteThreadReport, VerdictKind, VerdictReport, counters::per_phase,
};

/// Ratios below this are no difference: threads with the same code execute nearly the same number
/// of instructions.
const DIFFERENT: f64 = 1.1;

/// The part that explains at least half of the logarithm of a ratio is the cause.
const HALF: f64 = 0.5;

/// Means over a thread's episodes.
struct Each {
    instructions: f64,
    running_ns: f64,
}

impl Each {
    fn of(thread: &SiteThreadReport, name: &str) -> Option<Self> {
        let episodes = thread.episodes.max(1) as f64;
        Some(Self {
            instructions: per_phase(&thread.counters, &thread.counted, name, thread.episodes)?,
            running_ns: thread.running_ns? as f64 / episodes,
        })
    }
}

/// Whether a counter with this name counts instructions: `instructions`, `instructions:u`,
/// `cpu_core/instructions/`.
fn counts_instructions(name: &str) -> bool {
    let event = name.split_once('/').map_or(name, |(_, event)| event);
    event.split([':', '/']).next() == Some("instructions")
}

/// Ratio of the straggler's instructions to the others' mean, and ratio of its time for each
/// instruction to theirs.
fn ratios(report: &Report, site: &SiteReport, straggler: u32) -> Option<(f64, f64)> {
    let mut counters = report.counters.iter();
    let name = &counters
        .find(|counter| counts_instructions(&counter.name))?
        .name;
    let episodes = site.threads.iter().map(|thread| thread.episodes).max()?;
    // Threads that were seldom there belong to other teams.
    let members = site
        .threads
        .iter()
        .filter(|thread| 2 * thread.episodes > episodes);
    let (mut last, mut others) = (None, Vec::new());
    for thread in members {
        let each = Each::of(thread, name)?;
        if thread.thread == straggler {
            last = Some(each);
        } else {
            others.push(each);
        }
    }
    let n = others.len() as f64;
    let mean = |of: fn(&Each) -> f64| others.iter().map(of).sum::<f64>() / n;
    let (instructions, running_ns) = (mean(|each| each.instructions), mean(|each| each.running_ns));
    let last = last.filter(|_| instructions > 0.0 && running_ns > 0.0)?;
    let more = last.instructions / instructions;
    let longer = last.running_ns / running_ns;
    (more > 0.0 && longer > DIFFERENT).then_some((more, longer / more))
}

/// The same thread is late again and again, and the counter shows why it takes longer.
pub fn instructions(report: &Report, site: &SiteReport) -> Option<VerdictReport> {
    let (all, late) = Cost::of(report, site)?;
    let straggler = Culprit::of(report, site)?;
    let excess = straggler.own.own() - straggler.others.own();
    let cost = all.explained(excess * late.episodes as f64);
    let is_one = site.straggler_by_barrier.is_empty() && cost.share_pct >= HALF * all.share_pct;
    // Counters also count what threads do while a runtime keeps them for the next parallel region.
    let is_pure = site.between_ns.is_none_or(|ns| ns == 0);
    if !is_one || !is_pure || !cost.is_worth(report) || for_want_of_a_cpu(late) {
        return None;
    }
    let (more, slower) = ratios(report, site, straggler.thread)?;
    let whole = (more * slower).ln();
    let name = who(report, straggler.thread);
    let others = Others::of(site);
    let (kind, text) = if more.ln() >= HALF * whole {
        (
            VerdictKind::StragglerExecutesMore,
            format!(
                "more instructions at {}: {name} comes last in {:.0} % of {} episodes and \
                 executes {more:.1} times as many as {}, at {:.1} times {} rate; {}. \
                 Give it less of the work: {}.",
                site.called(),
                straggler.last_pct,
                site.episodes,
                others.the(),
                1.0 / slower,
                others.choose("its", "their"),
                cost.words(&all),
                cost.saves(report),
            ),
        )
    } else {
        (
            VerdictKind::StragglerExecutesSlower,
            format!(
                "slower instructions at {}: {name} comes last in {:.0} % of {} episodes, \
                 executes {more:.1} times as many as {} and takes {slower:.1} times as \
                 long for each; {}. Look at its data (-e cache-misses), at what shares its core, \
                 and at its clock.",
                site.called(),
                straggler.last_pct,
                site.episodes,
                others.the(),
                cost.words(&all),
            ),
        )
    };
    Some(VerdictReport {
        kind,
        site: Some(site.id),
        thread: Some(straggler.thread),
        text,
        evidence: [
            ("share_pct", Figure::Real(cost.share_pct)),
            ("gain_ns", Figure::Whole(cost.saved_ns())),
            ("instructions_ratio", Figure::Real(more)),
            ("time_each_ratio", Figure::Real(slower)),
        ]
        .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_counter() {
        for name in ["instructions", "instructions:u", "cpu_core/instructions/"] {
            assert!(counts_instructions(name), "{name}");
        }
        for name in ["cycles", "branch-instructions", "instructions-per-cycle"] {
            assert!(!counts_instructions(name), "{name}");
        }
    }
}
