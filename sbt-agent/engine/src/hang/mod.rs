//! Hangs: which barrier no thread leaves, which threads are missing there, and what these wait for.
//! A pure function from a [`Scene`], which is seen elsewhere, to a report.
//!
//! `absent` finds the threads that are missing at each barrier, `graph` who waits for whom and
//! which threads can go on at all. `judge` draws the conclusion, `words` and `threads` put it in
//! words.

use crate::report::{HangKind, LookOutcome, LookReport};

mod absent;
mod calls;
mod chain;
mod end;
mod finding;
mod graph;
mod idle;
mod judge;
mod languages;
mod messages;
mod names;
mod nothing;
mod once;
mod quiet;
#[cfg(any(test, feature = "samples"))]
#[allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    clippy::must_use_candidate,
    reason = "for tests alone"
)]
pub mod samples;
pub mod scene;
mod sentence;
mod signals;
mod spinners;
mod story;
mod team;
#[cfg(test)]
mod tests;
mod threads;
mod unwoken;
mod words;

pub use judge::{asleep_as, judge, judge_as, spinning_as};
pub use names::Names;
pub use scene::Scene;

use names::View;

/// The report of `sbt hang` on a process.
pub fn report(scene: &Scene, pid: u32) -> LookReport {
    let names = Names::default();
    let view = View::new(scene, &names);
    let mut hang = judge(scene).or_else(|| asleep_as(scene, &names));
    let hidden = words::hidden(scene.hidden);
    if let Some(hang) = &mut hang {
        hang.notes.extend(hidden.clone());
    }
    let text = hang
        .as_ref()
        .map_or_else(|| nothing::text(&view), |hang| hang.text.clone());
    let outcome = match hang.as_ref().map(|hang| hang.kind) {
        Some(HangKind::Never | HangKind::Stuck) => LookOutcome::Hung,
        Some(HangKind::Outside) => LookOutcome::Outside,
        Some(HangKind::Slow) => LookOutcome::Moves,
        None if view.moves() => LookOutcome::Moves,
        Some(HangKind::Unclear | HangKind::Other) | None => LookOutcome::Unknown,
    };
    // A program that only waits, as a server does, does not stand still.
    let is_of_threads = hang.as_ref().is_some_and(|hang| {
        hang.barrier.is_some() || !matches!(hang.kind, HangKind::Outside | HangKind::Unclear)
    });
    let hang = hang.filter(|_| is_of_threads);
    let mut notes = view.notes();
    notes.extend(hidden);
    LookReport {
        looks: (scene.looks > 0).then_some(scene.looks),
        looked_ns: scene.looked_ns,
        text,
        outcome: Some(outcome),
        hang,
        threads: threads::all(&view),
        notes,
        ..LookReport::new(pid)
    }
}
