//! Which of the functions of condition variables to probe: of those that go on
//! to each other only one, or a call would count twice.

use super::{Found, Function, MAX_CODE, NAMES, Segment, code_at};
use crate::prologue;

impl Found {
    fn function(&self) -> Function {
        NAMES[self.name].1
    }

    fn is_of_condvars(&self) -> bool {
        matches!(
            self.function(),
            Function::CondWait | Function::CondWake { .. }
        )
    }
}

/// Takes those away that a library has without being the thread library, by what
/// it exports: glibc's libc.so.6 before 2.34, which hands them on to
/// libpthread.so.0.
pub(super) fn without_those_for_others(exported: &mut Vec<Found>) {
    let has_threads = exported
        .iter()
        .any(|found| found.function() == Function::BarrierWait);
    if !has_threads {
        exported.retain(|found| !found.is_of_condvars());
    }
}

/// Takes those away that go on to another of their kind: glibc's first versions,
/// which put a condition variable of the present kind in the place of an old
/// one, and musl's wait, which is its timed wait without a limit.
pub(super) fn without_repeated(found: &mut Vec<Found>, image: &[u8], segments: &[Segment]) {
    let condvars: Vec<Found> = found
        .iter()
        .filter(|found| found.is_of_condvars())
        .copied()
        .collect();
    found.retain(|one| {
        if !one.is_of_condvars() {
            return true;
        }
        let size = one.size.min(MAX_CODE);
        let Some(code) = code_at(image, segments, one.vaddr, size) else {
            return true;
        };
        let goes_on = |to: u64| {
            condvars.iter().any(|other| {
                other.vaddr == to && other.vaddr != one.vaddr && other.function() == one.function()
            })
        };
        !prologue::ways_out(code.bytes, one.vaddr).any(goes_on)
    });
}
