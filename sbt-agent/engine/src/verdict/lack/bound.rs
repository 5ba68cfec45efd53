//! Threads that are bound to fewer CPUs than there are of them, while the program has others.

use std::collections::BTreeSet;

use super::{super::team::Member, Case, cpus_called, list, others};
use crate::report::{Figure, VerdictKind, VerdictReport};

/// Fraction of their time for which the bound threads must be ready without a CPU.
const READY: f64 = 0.05;

/// Threads that share a set of CPUs that is too small for them.
struct Crowd<'a> {
    cpus: BTreeSet<u32>,
    members: Vec<&'a Member<'a>>,
    helpers: Vec<&'a Member<'a>>,
    /// The mean fraction of their time for which the members were ready.
    ready: f64,
}

/// The bound threads that lack a CPU for longest.
fn crowd<'a>(case: &'a Case<'a>) -> Option<Crowd<'a>> {
    let team = &case.team;
    let sets: BTreeSet<&BTreeSet<u32>> =
        team.members.iter().map(|member| &member.allowed).collect();
    let crowds = sets.into_iter().filter_map(|cpus| {
        let on = |all: &'a [Member<'a>]| -> Vec<&'a Member<'a>> {
            let all = all.iter().filter(|member| member.allowed.is_subset(cpus));
            let mut all: Vec<_> = all.collect();
            all.sort_by_key(|member| (member.thread.map(|thread| thread.id), member.task.tid));
            all
        };
        let (members, helpers) = (on(&team.members), on(&team.helpers));
        let is_bound = cpus != &team.available && cpus.is_subset(&team.available);
        let is_crowded = members.len() + helpers.len() > cpus.len();
        let ready =
            members.iter().map(|member| member.ready()).sum::<f64>() / members.len().max(1) as f64;
        (is_bound && is_crowded && ready >= READY).then(|| Crowd {
            cpus: cpus.clone(),
            members,
            helpers,
            ready,
        })
    });
    let weight = |crowd: &Crowd<'_>| crowd.ready * crowd.members.len() as f64;
    crowds.max_by(|a, b| weight(a).total_cmp(&weight(b)))
}

/// Verdict: threads may run on fewer CPUs than there are of them, while other CPUs of the program
/// are not allowed to them.
pub fn to_few_cpus(case: &Case<'_>) -> Option<VerdictReport> {
    let Crowd {
        cpus,
        members,
        helpers,
        ready,
    } = crowd(case)?;
    let report = case.report;
    let names: Vec<String> = members.iter().map(|member| member.called(report)).collect();
    let beside = if helpers.is_empty() {
        String::new()
    } else {
        let names: Vec<String> = helpers.iter().map(|member| member.called(report)).collect();
        format!(
            " together with {} of this program, which came to no barrier",
            list(&names)
        )
    };
    let free: BTreeSet<u32> = case.team.available.difference(&cpus).copied().collect();
    let (is, them) = match (free.len(), names.len()) {
        (1, 1) => ("is", "it"),
        (1, _) => ("is", "them"),
        (_, 1) => ("are", "it"),
        _ => ("are", "them"),
    };
    let text = format!(
        "bound to too few CPUs: {} may only run on {}{beside}, and {} ready without a CPU for \
         {:.0} % of the time; {} {is} not allowed to {them}{}. Bind fewer threads to each CPU \
         (pthread_setaffinity_np, taskset, OMP_PLACES), or bind none.",
        list(&names),
        cpus_called(&cpus),
        if names.len() == 1 { "is" } else { "are" },
        ready * 100.0,
        cpus_called(&free),
        others::too(case.report),
    );
    let thread = match members[..] {
        [one] => one.thread.map(|thread| thread.id),
        _ => None,
    };
    Some(case.lack.verdict(
        VerdictKind::BoundToFewCpus,
        thread,
        text,
        &[
            (
                "threads",
                Figure::Whole((members.len() + helpers.len()) as u64),
            ),
            ("cpus", Figure::Whole(cpus.len() as u64)),
            (
                "allowed_cpus",
                Figure::Whole(case.team.available.len() as u64),
            ),
        ],
    ))
}
