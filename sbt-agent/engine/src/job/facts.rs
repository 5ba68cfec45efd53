//! The facts of a job, from the facts of its recordings.

use crate::{
    choices::States,
    origin::Origin,
    report::{
        BlockedOn, Facts, HangWho, IncompleteKind, IncompleteReport, JobReport, Run,
        StandstillReport,
    },
    total::total,
    words::ranges,
};

/// A recording of the job.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it was made.
    pub origin: Origin,
    /// The facts, with times of the job.
    pub facts: Facts,
    /// Why the recording is not complete; `None` if it is.
    pub missing: Option<IncompleteReport>,
}

/// The same answer of all parts; `None` if the answers differ, or if there are none.
fn same<T: PartialEq>(mut answers: impl Iterator<Item = T>) -> Option<T> {
    let first = answers.next()?;
    answers.all(|answer| answer == first).then_some(first)
}

/// Whether something holds for any part; `None` if no part says so and some part does not know.
fn any(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut is_known = true;
    for answer in answers {
        if answer == Some(true) {
            return answer;
        }
        is_known &= answer.is_some();
    }
    is_known.then_some(false)
}

/// The longest of some times, ns; `None` if one is not known.
fn longest(times: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    times.reduce(|one, other| Some(one?.max(other?))).flatten()
}

/// The worst that stood still in a part, with the name of the part. Threads have other numbers in the job,
/// and are told by their names.
fn worst_standstill(parts: &[Part]) -> Option<StandstillReport> {
    let found = parts.iter().filter_map(|part| {
        let hang = part.facts.run.hang.as_ref()?;
        Some((part, hang))
    });
    let (part, worst) =
        found.max_by_key(|(_, hang)| (hang.is_alarming(), hang.is_hang(), hang.lasted_ns))?;
    let forget = |who: &mut HangWho, blocked_on: Option<&mut BlockedOn>| {
        who.thread = None;
        if let Some(holder) = blocked_on.and_then(|on| on.holder.as_mut()) {
            holder.thread = None;
        }
    };
    let mut worst = worst.clone();
    worst.found.text = format!("{}: {}", part.origin.called(), worst.found.text);
    if let Some(barrier) = &mut worst.found.barrier {
        barrier.id = None;
    }
    let found = &mut worst.found;
    let threads = [&mut found.arrived, &mut found.missing, &mut found.others];
    for thread in threads.into_iter().flatten() {
        forget(&mut thread.who, thread.blocked_on.as_mut());
    }
    for link in found.cycle.iter_mut().flatten() {
        forget(&mut link.who, Some(&mut link.blocked_on));
    }
    for other in &mut found.also {
        other.barrier.id = None;
    }
    Some(worst)
}

/// Names in a sentence: the first ones, and how many more.
fn listed(names: &[String]) -> String {
    const MOST: usize = 8;
    let first = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The facts of a job. `parts`: by rank, at least one.
pub fn merged(parts: &[Part], job: JobReport) -> Facts {
    let all = || parts.iter().map(|part| &part.facts);
    let runs = || parts.iter().map(|part| &part.facts.run);
    let start_ns = runs().map(|run| run.start_ns).min().unwrap_or(0);
    let ends = runs().map(|run| run.start_ns.saturating_add(run.wall_ns));
    let end_ns = ends.max().unwrap_or(start_ns);
    let Some(first) = parts.first().map(|part| &part.facts) else {
        return Facts::default();
    };
    let before_ns = first.run.start_ns - start_ns;
    let statuses: Option<Vec<u8>> = runs().map(|run| run.exit_status).collect();
    let words = |word: fn(&Run) -> &str| same(runs().map(word)).unwrap_or("various").to_owned();
    let left: Option<Vec<u64>> = runs().map(|run| run.left_processes).collect();
    let missing = &job.missing_ranks;
    let unrecorded = (!missing.is_empty()).then(|| IncompleteReport {
        kind: IncompleteKind::NoRecording,
        text: format!(
            "there is no recording of {} of the {} ranks of the job: {}; no episode with them is \
             complete",
            missing.len(),
            job.ranks.unwrap_or(0),
            ranges(missing)
        ),
    });
    let cut = parts.iter().filter_map(|part| part.missing.clone());
    let incomplete = unrecorded.into_iter().chain(cut).collect();
    let run = Run {
        backend: words(|run| &run.backend),
        method: words(|run| &run.method),
        command: first.run.command.clone(),
        pid: first.run.pid,
        start_ns,
        start_unix_ns: first.run.start_unix_ns.saturating_sub(before_ns),
        wall_ns: end_ns - start_ns,
        job: Some(job),
        ended: runs().all(|run| run.ended),
        exit_status: statuses.and_then(|all| {
            let failed = all.iter().find(|status| **status != 0);
            failed.or(all.first()).copied()
        }),
        started: same(runs().map(|run| run.started)).flatten(),
        left_processes: left.map(total),
        ended_by_sbt: runs().any(|run| run.ended_by_sbt),
        children: runs().any(|run| run.children),
        departures: same(runs().map(|run| run.departures)).flatten(),
        had_children: any(runs().map(|run| run.had_children)),
        openmp_tasks: any(runs().map(|run| run.openmp_tasks)),
        hang: worst_standstill(parts),
        // What was not looked for in one part was not looked for in the job.
        hang_time_ns: longest(runs().map(|run| run.hang_time_ns)),
        hang_unwatched_ns: longest(runs().map(|run| run.hang_unwatched_ns)),
        ..Run::default()
    };
    Facts {
        run,
        lost: total(all().map(|facts| facts.lost)),
        conceptual: first.conceptual.clone(),
        marks: first.marks.clone(),
        unseen_marks: all().flat_map(|facts| facts.unseen_marks.clone()).collect(),
        incomplete,
        notes: notes(parts),
        counters: first.counters.clone(),
        states: same(all().map(|facts| facts.states)).unwrap_or(States::Off),
        cost_unknown_because: Some(
            "the recordings of a job hold the cost of a hit each for itself".into(),
        ),
        own_cpu_ns: total(all().map(|facts| facts.own_cpu_ns)),
        ..Facts::default()
    }
}

/// The notes of all recordings, each once, and what the job's report leaves out.
fn notes(parts: &[Part]) -> Vec<String> {
    let mut all: Vec<(&str, Vec<String>)> = Vec::new();
    for part in parts {
        for note in &part.facts.notes {
            match all.iter_mut().find(|(known, _)| known == note) {
                Some((_, names)) => names.push(part.origin.called()),
                None => all.push((note, vec![part.origin.called()])),
            }
        }
    }
    let told = all.into_iter().map(|(note, names)| {
        if names.len() == parts.len() {
            note.to_owned()
        } else {
            format!("{}: {note}", listed(&names))
        }
    });
    let hung = parts.iter().filter(|part| {
        let hang = part.facts.run.hang.as_ref();
        hang.is_some_and(StandstillReport::is_hang)
    });
    let hung: Vec<String> = hung.map(|part| part.origin.called()).collect();
    let hung = (!hung.is_empty()).then(|| {
        format!(
            "threads stood still for longer than --hang-time in {}: the recording of each tells \
             why (`sbt report FILE`), as far as that is known there",
            listed(&hung)
        )
    });
    told.chain(hung).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(rank: u32, start_ns: u64, wall_ns: u64, status: u8, notes: &[&str]) -> Part {
        Part {
            origin: Origin {
                rank: Some(rank),
                ..Origin::default()
            },
            facts: Facts {
                run: Run {
                    pid: 100 + rank,
                    start_ns,
                    start_unix_ns: 1_000_000 + start_ns,
                    wall_ns,
                    exit_status: Some(status),
                    ended: true,
                    ..Run::default()
                },
                lost: 1,
                notes: notes.iter().map(|note| (*note).to_owned()).collect(),
                ..Facts::default()
            },
            missing: None,
        }
    }

    fn job() -> JobReport {
        JobReport {
            recordings: 2,
            ranks: Some(2),
            missing_ranks: Vec::new(),
            hosts: Vec::new(),
            clocks: None,
        }
    }

    #[test]
    fn a_job_lasts_from_the_first_start_to_the_last_end() {
        let parts = [part(0, 500, 100, 0, &[]), part(1, 300, 900, 7, &[])];
        let facts = merged(&parts, job());
        let run = &facts.run;
        assert_eq!((run.start_ns, run.wall_ns), (300, 900));
        assert_eq!(run.start_unix_ns, 1_000_300);
        assert_eq!((run.pid, run.exit_status, facts.lost), (100, Some(7), 2));
    }

    #[test]
    fn a_note_is_told_once_and_says_of_which_ranks_it_is() {
        let parts = [
            part(0, 0, 1, 0, &["of all", "of one"]),
            part(1, 0, 1, 0, &["of all"]),
        ];
        let notes = merged(&parts, job()).notes;
        assert_eq!(notes, ["of all", "rank 0: of one"]);
    }

    #[test]
    fn what_stood_still_in_one_part_stands_in_the_job() {
        let mut parts = [part(0, 0, 9, 0, &[]), part(1, 0, 9, 0, &[])];
        parts[0].facts.run.hang_time_ns = Some(3);
        assert_eq!(merged(&parts, job()).run.hang_time_ns, None);
        parts[1].facts.run.hang_time_ns = Some(5);
        parts[1].facts.run.hang = crate::samples::hung().report.run.hang;
        let run = merged(&parts, job()).run;
        assert_eq!(run.hang_time_ns, Some(5));
        let hang = run.hang.unwrap();
        assert!(hang.is_alarming());
        assert!(hang.found.text.starts_with("rank 1: T3 worker is missing"));
        assert!(
            hang.found
                .missing
                .iter()
                .all(|row| row.who.thread.is_none())
        );
    }

    #[test]
    fn what_is_unknown_of_one_part_is_unknown_unless_another_one_says_yes() {
        assert_eq!(any([Some(false), None].into_iter()), None);
        assert_eq!(any([None, Some(true), None].into_iter()), Some(true));
        assert_eq!(any([Some(false); 2].into_iter()), Some(false));
    }
}
