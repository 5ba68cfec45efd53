//! The functions of condition variables to probe. Of functions that call each other only one is
//! probed, or a call would count twice.

use super::{FoundSymbol, MAX_CODE, NAMES, Segment, code_at};
use crate::arch::prologue;
use crate::point::Function;

impl FoundSymbol {
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

/// Removes the functions of condition variables from a library that is not the thread library, as
/// its exports show: glibc's libc.so.6 before 2.34 passes these calls on to libpthread.so.0.
pub(super) fn without_those_for_others(exported: &mut Vec<FoundSymbol>) {
    let has_threads = exported
        .iter()
        .any(|found| found.function() == Function::BarrierWait);
    if !has_threads {
        exported.retain(|found| !found.is_of_condvars());
    }
}

/// Removes functions that go on to another function of their kind: glibc's first versions, which
/// replace an old condition variable by one of the present kind, and musl's wait, which is its
/// timed wait without a limit.
pub(super) fn without_repeated(found: &mut Vec<FoundSymbol>, image: &[u8], segments: &[Segment]) {
    let condvars: Vec<FoundSymbol> = found
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
