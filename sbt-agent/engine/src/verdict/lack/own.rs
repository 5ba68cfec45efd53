//! Busy threads of the program that come to no barrier, and take the CPUs of those that do.

use super::{Case, cpus_called, list, others, team::Member};
use crate::report::{Figure, VerdictKind, VerdictReport};

/// A thread takes a CPU if it is on one for this fraction of the time.
const TAKES: f64 = 0.1;

/// For which fraction of the time a thread was on a CPU while there were other threads: the first
/// thread works alone before these begin and after they have ended.
fn ran_beside(case: &Case<'_>, helper: &Member<'_>) -> f64 {
    let (run, task) = (&case.report.run, helper.task);
    let first = run.first_thread.filter(|_| task.tid == run.pid);
    let alone = first.map_or(0, |first| {
        let times = [first.before, first.between, first.after];
        times.iter().flatten().map(|alone| alone.running_ns).sum()
    });
    helper.ran() - alone as f64 / task.looked_ns.max(1) as f64
}

/// Verdict: threads of the program that come to no barrier take the CPUs.
pub fn threads(case: &Case<'_>) -> Option<VerdictReport> {
    let cpus = case.team.cpus.clone()?;
    let members = case.team.members.len();
    let mut helpers: Vec<&Member<'_>> = case.team.helpers.iter().collect();
    helpers
        .retain(|helper| ran_beside(case, helper) >= TAKES && !helper.allowed.is_disjoint(&cpus));
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
         meet, or let the others sleep when they have nothing to do",
        list(&names),
        members + helpers.len(),
        cpus_called(&cpus),
        case.lack.ready_pct,
        others::too(case.report),
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
