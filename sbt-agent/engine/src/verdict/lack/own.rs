//! Busy threads of the program that come to no barrier, and take the CPUs of those that do.

use super::{super::team::Member, Case, cpus_called, list, others};
use crate::report::{Figure, Report, VerdictKind, VerdictReport};

/// A thread takes a CPU if it is on one for this fraction of the time.
const TAKES: f64 = 0.1;

/// A thread that lived for less than this fraction of the time of one that meets others may have worked while
/// those had nothing to do, as the threads of another library.
const ALL_ALONG: f64 = 0.8;

/// The fraction of the time for which a thread was on a CPU at least beside those that meet, of which two lived
/// for `team_ns`. What a thread did before takes no CPU from those that meet, and it may have been on a CPU all
/// that time; nor does what the first thread does alone.
fn beside(report: &Report, helper: &Member<'_>, team_ns: u64) -> f64 {
    let is_first = helper.task.tid == helper.task.pid && helper.task.pid == report.run.pid;
    let alone = report.run.first_thread.filter(|_| is_first);
    let alone_ns: u64 = alone.map_or(0, |alone| {
        [alone.before, alone.between, alone.after]
            .iter()
            .flatten()
            .map(|part| part.wall_ns)
            .sum()
    });
    let lived = helper.task.looked_ns.max(1) as f64;
    let before = lived - (team_ns as f64).min(lived);
    let ran = (helper.ran() * lived - before) / (lived - before).max(1.0);
    ran.min(helper.ran() - alone_ns as f64 / lived)
}

/// Verdict: threads of the program that come to no barrier take the CPUs.
pub fn threads(case: &Case<'_>) -> Option<VerdictReport> {
    let cpus = case.team.cpus.clone()?;
    let members = case.team.members.len();
    let mut helpers: Vec<&Member<'_>> = case.team.helpers.iter().collect();
    let lived = case.team.members.iter().map(|member| member.task.looked_ns);
    let mut lived: Vec<u64> = lived.collect();
    lived.sort_unstable_by(|a, b| b.cmp(a));
    let (least_ns, of_two_ns) = (*lived.last()? as f64, *lived.get(1)?);
    helpers.retain(|helper| {
        helper.task.looked_ns as f64 >= ALL_ALONG * least_ns
            && beside(case.report, helper, of_two_ns) >= TAKES
            && !helper.allowed.is_disjoint(&cpus)
    });
    helpers.sort_by(|a, b| b.ran().total_cmp(&a.ran()));
    // With more threads that meet than CPUs, those lack CPUs without the helpers too.
    if helpers.is_empty() || members > cpus.len() || members + helpers.len() <= cpus.len() {
        return None;
    }
    let wanted = helpers
        .iter()
        .filter_map(|helper| helper.task.wanted())
        .sum::<f64>();
    let used: f64 = helpers.iter().map(|helper| helper.ran()).sum();
    let names: Vec<String> = helpers
        .iter()
        .map(|helper| helper.called(case.report))
        .collect();
    let (comes, wants) = if names.len() == 1 {
        ("comes", "wants")
    } else {
        ("come", "want")
    };
    let text = format!(
        "own threads take the CPUs: {} of this program {comes} to no barrier and {wants} \
         {wanted:.1} CPUs; with the {members} threads that meet, {} busy threads share {}, and those \
         that meet are ready without a CPU for {:.0} % of their time{}. Start fewer threads that \
         meet, or let {}.",
        list(&names),
        members + helpers.len(),
        cpus_called(&cpus),
        case.lack.ready_pct,
        others::too(case.report),
        if names.len() == 1 {
            "that thread sleep when it has nothing to do"
        } else {
            "those threads sleep when they have nothing to do"
        },
    );
    Some(case.lack.verdict(
        VerdictKind::OwnThreadsTakeCpus,
        None,
        text,
        &[
            ("threads", Figure::Whole(members as u64)),
            ("cpus", Figure::Whole(cpus.len() as u64)),
            ("taken_cpus", Figure::Real(used)),
        ],
    ))
}
