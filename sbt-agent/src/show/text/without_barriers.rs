//! The report of a program in which no barrier was seen.

use super::{
    super::table::{Style, duration},
    line, paragraph, plural, spins, verdicts, waits, wrapped,
};
use sbt_engine::report::{Report, elsewhere::elsewhere};

/// What a report without barriers says: what was seen of the threads instead, and what was looked for.
pub fn nothing_found(out: &mut String, report: &Report, style: Style) {
    let wall = duration(Some(report.run.wall_ns), style);
    let mut text = match &report.run.none_found_because {
        _ if !report.is_complete() => {
            format!("No barrier was seen in the recorded {wall}.")
        }
        Some(because) => {
            format!("No barrier was found in {wall}: {because}.")
        }
        // The lost events may include barriers.
        None if report.lost_events > 0 => format!(
            "No barrier was seen in {wall}, but {} {} lost.",
            plural(report.lost_events, "event"),
            if report.lost_events == 1 {
                "was"
            } else {
                "were"
            }
        ),
        None => format!("No barrier was seen in {wall}."),
    };
    let sees_children = several_processes(report);
    if let Some(elsewhere) = elsewhere(&report.run.command, sees_children) {
        text = format!("{text} {elsewhere}.");
    }
    if report.run.had_children == Some(true) && !report.run.children {
        text.push_str(
            " The program started other processes, which are not watched: put sbt in front of the \
            process that has the threads.",
        );
    }
    for part in wrapped(&text, style.width) {
        line(out, &part);
    }
    if report.verdicts.is_some() || report.has_looks_without_barriers() {
        verdicts::verdicts(out, report, style);
        line(out, "");
    }
    waits::alone(out, report, style);
    spins(out, report, style);
    line(out, "");
    watched_for(out, report, style);
}

/// Whether threads of several processes were looked at.
fn several_processes(report: &Report) -> bool {
    let looks = report.waits.iter();
    let mut processes = looks.flat_map(|looks| looks.threads.iter().map(|thread| thread.pid));
    let first = processes.next();
    processes.any(|process| Some(process) != first)
}

/// The barriers that sbt would have recognised.
fn watched_for(out: &mut String, report: &Report, style: Style) {
    let barriers = if report.run.backend == "inject" {
        "pthread_barrier_wait of glibc and the barriers of GNU OpenMP"
    } else {
        "pthread_barrier_wait of glibc and musl, barriers made from their condition variables, the \
         barriers of GNU and LLVM OpenMP, of C++, of Rust and of MPI"
    };
    let mut text = format!("sbt watched for: {barriers}");
    if report.run.is_by_ebpf() {
        text.push_str(
            ", and, while system calls are watched (--futex), barriers made from futexes",
        );
    }
    text.push_str(", in the program and in every library it mapped");
    if ["inject", "perf"].contains(&&*report.run.backend) {
        text.push_str(" (without what a note below names as not watched)");
    }
    text.push(',');
    text.push_str(if report.run.children {
        " and in the processes that it started."
    } else {
        " but not in child processes."
    });
    text.push_str(if report.spin_suspects.is_some() {
        " It also looked for loops in which threads only spin."
    } else {
        " It did not look for barriers that only spin: name their function with --barrier."
    });
    text.push_str(
        " sbt does not recognise the barriers of Python, Java and Go: their threads are seen as \
        asleep.",
    );
    paragraph(out, &text, style);
}
