//! Judges a scene: reports the worst thing that stands still.

use std::collections::BTreeSet;

use super::{
    absent::Absent,
    chain,
    end::{End, Grade, end},
    finding::Finding,
    graph::{Graph, Need},
    names::{Names, View},
    quiet::{self, is_outside, quiet},
    scene::{Doing, Scene, WaitFor},
    sentence, signals, spinners, team, threads,
};
use crate::{
    event::Kind,
    report::{HangAlsoReport, HangCause, HangReport},
};

/// What stands still in a scene; `None` if no thread waits at a barrier, and no threads wait for
/// each other. Merely slow barriers are reported too: see [`HangReport::kind`].
pub fn judge(scene: &Scene) -> Option<HangReport> {
    judge_as(scene, &Names::default())
}

/// As [`judge`], with the names that a report gives to its threads and barriers.
pub fn judge_as(scene: &Scene, names: &Names) -> Option<HangReport> {
    let view = View::new(scene, names);
    let graph = Graph::new(&view);
    let mut found: Vec<Finding> = (0..scene.barriers.len())
        .filter_map(|at| at_barrier(&graph, at))
        .collect();
    found.extend(locks(&graph));
    found.sort_by_key(|finding| {
        let waiting = finding
            .barrier
            .map_or(0, |at| graph.absent[at].waiting.len());
        (
            std::cmp::Reverse(finding.grade),
            finding.barrier.is_none(),
            finding.elsewhere,
            std::cmp::Reverse(waiting),
        )
    });
    let mut found = found.into_iter();
    let first = found.next()?;
    let also = found
        .filter_map(|other| also(&graph, &first, &other))
        .collect();
    Some(report(&graph, &first, also))
}

/// What a program waits for all of whose threads sleep, if [`judge_as`] finds nothing: something
/// outside of the program, or not known. `None` if a thread does something.
pub fn asleep_as(scene: &Scene, names: &Names) -> Option<HangReport> {
    let view = View::new(scene, names);
    let graph = Graph::new(&view);
    spinners::ranks(&graph)
        .or_else(|| spinners::at_locks(&graph))
        .or_else(|| quiet(&graph))
        .map(|finding| report(&graph, &finding, Vec::new()))
}

/// The report on a program that uses CPUs although its threads do nothing but wait, if [`judge_as`]
/// finds nothing: whether the wait ends is not known. `None` if a thread does something.
pub fn spinning_as(scene: &Scene, names: &Names) -> Option<HangReport> {
    let view = View::new(scene, names);
    let graph = Graph::new(&view);
    spinners::ranks(&graph)
        .filter(|finding| spinners::all_wait(&graph, finding))
        .or_else(|| spinners::at_locks(&graph).filter(|found| spinners::is_obscure(&graph, found)))
        .or_else(|| quiet(&graph).filter(|_| quiet::has_loops(&graph)))
        .map(|finding| report(&graph, &finding, Vec::new()))
}

fn at_barrier(graph: &Graph, at: usize) -> Option<Finding> {
    let absent = &graph.absent[at];
    if absent.waiting.is_empty() {
        return None;
    }
    let finding = Finding {
        barrier: Some(at),
        grade: Grade::Stuck,
        because: None,
        for_ever: false,
        lead: None,
        elsewhere: false,
        who: absent.who.clone(),
        outside: false,
    };
    if team::is_apart(graph, at) {
        return Some(Finding {
            grade: Grade::Lost,
            because: Some(HangCause::Apart),
            for_ever: true,
            who: Vec::new(),
            ..finding
        });
    }
    if team::is_of_parent(graph, at) {
        return Some(Finding {
            grade: Grade::Lost,
            because: Some(HangCause::ForkedTeam),
            for_ever: true,
            who: Vec::new(),
            ..finding
        });
    }
    if absent.count.is_some_and(|count| count <= 0) {
        return all_there(graph, at, absent, finding);
    }
    let for_ever = !graph.can_complete(at);
    if absent.twice.is_some_and(|twice| graph.stays(twice)) {
        return Some(Finding {
            grade: Grade::Lost,
            because: Some(HangCause::WaitsTwice),
            lead: absent.twice,
            for_ever,
            ..finding
        });
    }
    let mut ends: Vec<(usize, End)> = absent
        .who
        .iter()
        .map(|thread| (*thread, end(graph, *thread, Some(at))))
        .collect();
    let mut grades: Vec<Grade> = ends.iter().map(|(_, end)| end.grade).collect();
    grades.extend(absent.gone.iter().map(|_| Grade::Lost));
    grades.sort();
    // If there are more candidates than missing threads, those that are best off may be enough.
    let wanted = absent
        .count
        .map_or(grades.len(), |count| usize::try_from(count).unwrap_or(0));
    let grade = grades
        .get(wanted.min(grades.len()).wrapping_sub(1))
        .copied();
    let (grade, because) = match grade {
        None if !absent.later.is_empty() || graph.view.has_strangers(at) => (Grade::Unclear, None),
        None if for_ever || absent.count.is_some() => (Grade::Lost, Some(too_few(graph, at))),
        None => (Grade::Unclear, None),
        Some(grade) => (grade, None),
    };
    // If the waiting threads may have gone on, only threads that are certainly missing are.
    let named = ends.iter().any(|(_, end)| end.grade >= grade);
    let (grade, because) = if graph.stands(at) || named && absent.certain {
        (grade, because)
    } else {
        (grade.min(Grade::Unclear), None)
    };
    // A thread that is the cause itself comes before threads that wait for it.
    ends.sort_by_key(|(thread, end)| {
        (std::cmp::Reverse(end.grade.min(grade)), end.root != *thread)
    });
    let lead = ends.iter().find(|(_, end)| end.grade >= grade);
    let because = because.or(match lead {
        Some((_, end)) => end.because,
        None if !absent.gone.is_empty() => Some(HangCause::MemberGone),
        None => None,
    });
    let because = because.filter(|_| grade >= Grade::Stuck);
    let outside = grade == Grade::Stuck
        && because.is_none()
        && lead.is_some_and(|(_, end)| is_outside(graph, end.root));
    Some(Finding {
        grade,
        because,
        for_ever,
        outside,
        lead: lead.map(|(thread, _)| *thread),
        elsewhere: lead.is_some_and(|(_, end)| end.elsewhere),
        who: ends.iter().map(|(thread, _)| *thread).collect(),
        ..finding
    })
}

/// A barrier at which all threads have arrived: it is about to release them. A finding only if they
/// all slept nevertheless.
fn all_there(graph: &Graph, at: usize, absent: &Absent, finding: Finding) -> Option<Finding> {
    let seen = &graph.view.scene.barriers[at];
    let count = seen.participants? as usize;
    // The barrier's memory was read later than the threads were looked at.
    let slept = absent
        .waiting
        .iter()
        .all(|thread| graph.view.thread(*thread).slept);
    let inside = absent.waiting.len();
    let too_many = inside > count;
    (inside >= count && slept).then_some(Finding {
        because: too_many.then_some(HangCause::TooMany),
        ..finding
    })
}

fn too_few(graph: &Graph, at: usize) -> HangCause {
    let seen = &graph.view.scene.barriers[at];
    let ever = seen.past.as_ref().map(|past| past.members.len());
    match (ever, seen.participants) {
        // The runtime itself says how many threads meet there.
        _ if matches!(seen.kind, Kind::Gomp | Kind::Kmp) => HangCause::FewerAlive,
        (Some(ever), Some(count)) if ever < count as usize => HangCause::CountTooLarge,
        _ => HangCause::FewerAlive,
    }
}

/// Threads that wait for each other, or for something that no thread will do, without a barrier.
fn locks(graph: &Graph) -> Option<Finding> {
    let threads = || 0..graph.view.scene.threads.len();
    let alone = |at: &usize| {
        let need = graph.need(*at);
        let is_alone = !matches!(
            need,
            Need::Barrier(_) | Need::Never | Need::NoEnd | Need::NoHandler
        ) && !graph.view.is_idle(*at);
        !graph.can_go(*at) && is_alone
    };
    // A thread that only waits until a signal ends the program, and what waits for its end, is no hang.
    let is_kept = |at: usize, end: &End| {
        let for_lock = matches!(
            graph.view.thread(at).doing,
            Doing::Waiting(WaitFor::Mutex { .. } | WaitFor::RwLock { .. })
        );
        for_lock || graph.need(end.root) != Need::NoHandler
    };
    let all: Vec<(usize, End)> = threads()
        .filter(alone)
        .map(|at| (at, end(graph, at, None)))
        .filter(|(_, end)| !end.elsewhere && end.because.is_some())
        .filter(|(_, end)| !matches!(graph.need(end.root), Need::Barrier(_) | Need::Never))
        .filter(|(at, end)| is_kept(*at, end))
        .collect();
    // The first of the worst, if possible one that is the cause itself, and for which the program's
    // first thread waits. Who holds the other end of a pipe is known, and who would change a word of
    // memory is not.
    let awaited = threads().next().map(|first| end(graph, first, None).root);
    let (first, worst) = *all.iter().min_by_key(|(at, end)| {
        let is_root = end.root == *at;
        let names_others = graph.need(*at) == Need::AnyOf;
        // A parent says less than what its children wait for.
        let doing = &graph.view.thread(*at).doing;
        let is_parent = matches!(doing, Doing::Waiting(WaitFor::Child { .. }));
        (
            std::cmp::Reverse(end.grade),
            !is_root,
            is_parent,
            !names_others,
            awaited != Some(*at),
        )
    })?;
    // All threads that are in the circle, or that wait for it. Of threads that sleep, each stands
    // for itself.
    let is_deaf = |end: &End| graph.need(end.root) == Need::NoHandler;
    let is_of_it = |at: usize, end: &End| {
        let is_so = end.because == worst.because && is_deaf(end) == is_deaf(&worst);
        is_so && (end.grade == Grade::Lost || end.root == at)
    };
    let mut who: Vec<usize> = all
        .iter()
        .filter(|(at, end)| is_of_it(*at, end))
        .map(|(at, _)| *at)
        .collect();
    // Of a thread that waits for a signal, the lock that it holds is told by those that wait for it.
    let lead = if is_deaf(&worst) { first } else { worst.root };
    who.sort_by_key(|at| *at != lead);
    Some(Finding {
        barrier: None,
        grade: worst.grade,
        because: worst.because,
        for_ever: worst.grade == Grade::Lost,
        lead: Some(lead),
        elsewhere: false,
        who,
        outside: false,
    })
}

/// The report on a further barrier.
fn also(graph: &Graph, first: &Finding, other: &Finding) -> Option<HangAlsoReport> {
    let at = other.barrier?;
    let absent = &graph.absent[at];
    let circle = |finding: &Finding| {
        let (path, begins) = graph.circle(finding.lead?)?;
        Some(path[begins..].iter().copied().collect::<BTreeSet<_>>())
    };
    let in_circle = circle(first).is_some_and(|links| Some(links) == circle(other));
    Some(HangAlsoReport {
        barrier: threads::barrier(graph.view, at),
        site: site(graph, at),
        participants: graph.view.scene.barriers[at].participants,
        waiting: u32::try_from(absent.waiting.len()).unwrap_or(u32::MAX),
        text: if in_circle {
            sentence::in_circle(graph, at, absent)
        } else {
            sentence::text(graph, other)
        },
    })
}

fn site(graph: &Graph, at: usize) -> Option<String> {
    let sites = graph.view.sites(at, &graph.absent[at].waiting);
    (!sites.is_empty()).then(|| sites.join(" | "))
}

fn report(graph: &Graph, finding: &Finding, also: Vec<HangAlsoReport>) -> HangReport {
    let view = graph.view;
    let scene = view.scene;
    let seen = finding.barrier.map(|at| &scene.barriers[at]);
    let absent = finding.barrier.map(|at| &graph.absent[at]);
    let arrived = absent.map_or(&finding.who, |absent| &absent.waiting);
    let missing: &[usize] = absent.map_or(&[], |_| &finding.who);
    let rows = |threads: &[usize]| {
        threads
            .iter()
            .map(|at| threads::thread(view, *at))
            .collect()
    };
    let others: Vec<usize> = (0..scene.threads.len())
        .filter(|at| !arrived.contains(at) && !missing.contains(at))
        .filter(|at| {
            // Ended members are listed among the missing.
            let gone = absent.into_iter().flat_map(|absent| &absent.gone);
            let id = view.thread(*at).id;
            gone.into_iter().all(|member| member.id != id)
        })
        .collect();
    let others = threads::helpers_last(view, others);
    let mut missing: Vec<_> = rows(missing);
    if let (Some(seen), Some(absent)) = (seen, absent) {
        let gone = absent.gone.iter();
        missing.extend(gone.map(|member| threads::gone(view, seen, member)));
    }
    let mut from: Vec<usize> = finding.lead.into_iter().collect();
    from.extend(finding.who.iter().filter(|at| Some(**at) != finding.lead));
    let waits_for_them = |at: &usize| {
        let path = graph.next(*at);
        !graph.may_go(*at) && !path.is_empty() && !from.contains(at)
    };
    // The first thread of each process is what users know: how it comes to wait is told, too.
    let firsts: Vec<usize> = (0..scene.threads.len())
        .filter(|at| scene.threads[*at].id.process == scene.threads[*at].id.thread)
        .filter(|_| finding.barrier.is_none() || scene.processes.len() > 1)
        .filter(waits_for_them)
        .collect();
    from.extend(firsts);
    let mut chain = chain::lines(graph, &from);
    if chain.is_empty()
        && finding.because.is_some()
        && let Some(absent) = absent
    {
        // The threads that cannot come, and why.
        let joins = absent.spare.iter().filter(|at| !graph.may_go(**at));
        chain = chain::lines(graph, &joins.copied().collect::<Vec<_>>());
    }
    let circles = from.iter().find_map(|at| chain::circle(graph, *at));
    let mut notes = view.notes();
    notes.extend(signals::notes(view));
    notes.extend(
        finding
            .barrier
            .into_iter()
            .flat_map(|at| sentence::notes(graph, at)),
    );
    HangReport {
        kind: finding.kind(),
        because: finding.because,
        text: sentence::text(graph, finding),
        barrier: finding.barrier.map(|at| threads::barrier(view, at)),
        site: finding.barrier.and_then(|at| site(graph, at)),
        participants: seen.and_then(|seen| seen.participants),
        arrived: rows(arrived),
        missing,
        missing_count: absent.and_then(|absent| u32::try_from(absent.count?.max(0)).ok()),
        certain: absent.is_some_and(|absent| absent.certain),
        others: rows(&others),
        cycle: circles.filter(|links| !links.is_empty()),
        chain,
        also,
        looks: (scene.looks > 0).then_some(scene.looks),
        looked_ns: scene.looked_ns,
        still_ns: seen.and_then(|seen| Some(seen.past.as_ref()?.still_ns)),
        notes,
    }
}
