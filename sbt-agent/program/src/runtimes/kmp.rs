//! LLVM's OpenMP (libomp, also as libiomp5): a thread has a number, and
//! `__kmp_threads[number]->th.th_team` is its team, which holds the number of its threads
//! (`openmp/runtime/src/kmp.h`).
//!
//! `__kmpc_bound_num_threads` is exported and returns just that number, so its last instructions
//! tell the variable and the offsets. `__kmpc_barrier(loc, number)` calls
//! `__kmp_barrier(bs_plain_barrier, number, FALSE, 0, NULL, NULL)`, in which all explicit barriers,
//! reductions and the like wait: every call of that function is an arrival (`kmp_barrier.cpp`).
//! `__kmpc_fork_call`, which is a parallel region, ends with `__kmp_join_call(loc, number,
//! fork_context_intel, FALSE)`: there the thread that began the region comes to its end.
//! `__kmp_join_call` calls, also through another function, `__kmp_join_barrier(number)`. The other
//! threads of the team call that in their loop, `__kmp_launch_thread`, after they have called the
//! region's code by a pointer (`kmp_runtime.cpp`).
//!
//! Such calls are instructions that the kernel emulates.

use std::collections::BTreeSet;

use object::{LittleEndian, read::elf::ElfFile64};
use sbt_common::{
    MAX_OUTER, Outer,
    kmp::{HELD, SAVED},
    layout,
};
use sbt_engine::event::Kind;

use super::{
    Role, Runtime,
    frames::{Caller, Frames, Saved},
    leaves, point,
    waits::{NO_BARRIER, NO_WAITS},
};
use crate::{
    arch::{
        ARGUMENTS, Code, Flow, Instruction, RESULT, Register, Stubs, Transfer, transfer,
        values::{Value, Values},
    },
    elf::{Segment, names},
    point::{Function, Kmp, Point},
};

/// Departures are told by the return of the function that waits; at the end of a region only for
/// the thread that began the region. A library that is not understood is left alone. An object is
/// the team, whose memory `teams.rs` reads, and whose rounds `sbt_common::kmp` counts.
pub static RUNTIME: Runtime = Runtime {
    name: "libomp",
    kind: Kind::Kmp,
    role: Role::OpenMp,
    barriers: Some("the barriers of OpenMP"),
    layouts: &[layout::KMP],
    is_library: true,
    libraries: &["libomp", "libiomp"],
    ways: &["__kmpc_barrier", "__kmpc_fork_call"],
    prefix: Some("__kmp"),
    object: None,
    rounds: None,
    language: None,
    is_barrier: NO_BARRIER,
    waits: NO_WAITS,
};

/// The first instructions of a function in which it must look its thread up.
const BEGINNING: usize = 64;

/// The most points; more than any version has.
const MAX_CALLS: usize = 96;

/// The function in which the thread that began a parallel region waits for its end.
pub const JOIN: &str = "__kmp_join_call";

/// Where the search starts: addresses of exported functions.
pub struct Start {
    barrier: u64,
    fork: u64,
    count: u64,
    /// `__kmp_fork_call`, which `__kmpc_fork_call` calls with similar arguments, but first.
    begin: Option<u64>,
}

/// The function of LLVM's runtime at which all threads of a team wait.
const BARRIER: &[u8] = b"__kmpc_barrier";

/// Whether the file defines the barrier of LLVM's runtime, of whatever version.
pub fn has_barrier(file: &ElfFile64<'_, LittleEndian>) -> bool {
    names::may_hold(file, BARRIER) && names::defined(file).any(|symbol| symbol.name == BARRIER)
}

impl Start {
    /// `None` if the file does not define these functions.
    pub fn of(file: &ElfFile64<'_, LittleEndian>) -> Option<Self> {
        if !names::may_hold(file, BARRIER) {
            return None;
        }
        let address = |name: &str| {
            names::defined(file)
                .find(|symbol| symbol.name == name.as_bytes())
                .map(|symbol| symbol.address())
        };
        Some(Self {
            barrier: address("__kmpc_barrier")?,
            fork: address("__kmpc_fork_call")?,
            count: address("__kmpc_bound_num_threads")?,
            begin: address("__kmp_fork_call"),
        })
    }
}

/// Where a thread's team is: the address of `__kmp_threads`, and the offsets of the team and of its
/// number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TeamOffsets {
    threads: u64,
    team: u32,
    count: u32,
}

/// The code of the library, and where its functions are.
struct Library<'a> {
    code: &'a Code<'a>,
    frames: &'a Frames<'a>,
    transfers: Vec<Transfer>,
    way: TeamOffsets,
}

/// The points of the runtime in this code; `None` if the code is not recognised.
pub fn points(
    start: &Start,
    code: &Code<'_>,
    frames: &Frames<'_>,
    stubs: &Stubs,
    segments: &[Segment],
) -> Option<Vec<Point>> {
    let library = Library {
        code,
        frames,
        transfers: code
            .all()
            .filter_map(|instruction| transfer(&instruction))
            .map(|go| Transfer {
                to: stubs.behind(go.to),
                ..go
            })
            .collect(),
        way: way(code, frames, start.count)?,
    };
    let barrier = library.barrier(start.barrier)?;
    let join = library.join(start)?;
    let workers = library.workers_join(join)?;

    let (number, first) = (ARGUMENTS[1], ARGUMENTS[0]);
    let mut points = Vec::new();
    for at in library.calls_of(barrier) {
        points.extend(library.point("__kmp_barrier", at, number, (false, false), segments));
    }
    for at in library.calls_of(join) {
        // With this argument, the call is the other way in which a league of teams ends, without a
        // barrier.
        if library.at(at)?.of(ARGUMENTS[3]) != Some(Value::Number(1)) {
            points.extend(library.point(JOIN, at, number, (false, true), segments));
        }
    }
    points.extend(library.point("__kmp_join_barrier", workers, first, (true, true), segments));
    if points.len() > MAX_CALLS {
        return None;
    }
    for (symbol, function) in [("__kmp_barrier", barrier), (JOIN, join)] {
        points.extend(leaves(symbol, function, code, frames, segments));
    }
    Some(points)
}

/// Finds the team's place from the code of `__kmpc_bound_num_threads`.
fn way(code: &Code<'_>, frames: &Frames<'_>, function: u64) -> Option<TeamOffsets> {
    let (start, end) = frames.function(function)?;
    let mut values = Values::at_entry();
    for instruction in code.instructions(start, end) {
        if instruction.flow() == Flow::Return
            && let Some(Value::Leaf {
                variable,
                offset,
                last,
            }) = values.of(RESULT)
        {
            return Some(TeamOffsets {
                threads: variable,
                team: offset,
                count: last,
            });
        }
        values.step(&instruction);
    }
    None
}

impl Library<'_> {
    /// `__kmp_barrier`, as `__kmpc_barrier` calls it.
    fn barrier(&self, function: u64) -> Option<u64> {
        let zeros = [0, 2, 3, 4, 5].map(|argument| ARGUMENTS[argument]);
        self.called(function, ARGUMENTS[1], |_, values| {
            zeros
                .iter()
                .all(|register| values.of(*register) == Some(Value::Number(0)))
        })
    }

    /// `__kmp_join_call`, as `__kmpc_fork_call` calls it. Only some versions have the last
    /// argument, which is zero here.
    fn join(&self, start: &Start) -> Option<u64> {
        let also = |value| matches!(value, None | Some(Value::Number(0)));
        self.called(start.fork, ARGUMENTS[1], |to, values| {
            Some(to) != start.begin
                && values.of(ARGUMENTS[2]) == Some(Value::Number(1))
                && also(values.of(ARGUMENTS[3]))
        })
    }

    /// The only function that `function` calls with values accepted by `so`, and that takes the
    /// number of a thread in the register `number`.
    fn called(
        &self,
        function: u64,
        number: Register,
        so: impl Fn(u64, &Values) -> bool,
    ) -> Option<u64> {
        let (start, end) = self.frames.function(function)?;
        let mut values = Values::at_entry();
        let mut found = BTreeSet::new();
        for instruction in self.code.instructions(start, end) {
            if let Some(go) = transfer(&instruction)
                && !(start..end).contains(&go.to)
                && so(go.to, &values)
                && self.takes_number(go.to, number)
            {
                found.insert(go.to);
            }
            values.step(&instruction);
        }
        (found.len() == 1).then(|| found.first().copied())?
    }

    /// Whether a function, or the function to which it jumps, looks up the thread whose number this
    /// argument is.
    fn takes_number(&self, function: u64, number: Register) -> bool {
        let wanted = Value::Element {
            variable: self.way.threads,
            number: Some(number),
        };
        let mut values = Values::at_entry();
        let mut function = Some(function);
        for _ in 0..2 {
            let Some((start, end)) = function.take().and_then(|at| self.frames.function(at)) else {
                return false;
            };
            for instruction in self.code.instructions(start, end).take(BEGINNING) {
                values.step(&instruction);
                if values.of(instruction.destination()) == Some(wanted) {
                    return true;
                }
                if matches!(instruction.flow(), Flow::Jump(_)) {
                    function = transfer(&instruction).map(|go| go.to);
                    function = function.filter(|to| !(start..end).contains(to));
                    if function.is_some() {
                        break;
                    }
                }
            }
        }
        false
    }

    /// Where `__kmp_launch_thread` calls `__kmp_join_barrier`, which otherwise is only called on
    /// behalf of `__kmp_join_call`.
    fn workers_join(&self, join: u64) -> Option<u64> {
        let near = self.callees(join);
        let mut behind: BTreeSet<u64> = near.iter().copied().collect();
        for function in &near {
            behind.extend(self.callees(*function));
        }
        let mut found = BTreeSet::new();
        for candidate in behind {
            if !self.takes_number(candidate, ARGUMENTS[0]) {
                continue;
            }
            let calls = self.calls_of(candidate);
            let own = |at: &u64| {
                let holder = self.frames.function(*at).map(|(start, _)| start);
                holder.is_some_and(|holder| holder == join || near.contains(&holder))
            };
            let (own, others): (Vec<u64>, Vec<u64>) = calls.into_iter().partition(own);
            if let [other] = others[..]
                && !own.is_empty()
                && self.calls_region(other)
            {
                found.insert(other);
            }
        }
        (found.len() == 1).then(|| found.first().copied())?
    }

    /// The functions that a function calls.
    fn callees(&self, function: u64) -> BTreeSet<u64> {
        let Some((start, end)) = self.frames.function(function) else {
            return BTreeSet::new();
        };
        let all = self.transfers.iter();
        all.filter(|go| (start..end).contains(&go.at) && !(start..end).contains(&go.to))
            .map(|go| go.to)
            .collect()
    }

    /// Whether the function that holds this call of `__kmp_join_barrier(number)` also calls
    /// `team->t.t_invoke(number)`.
    fn calls_region(&self, join: u64) -> bool {
        let Some((start, end)) = self.frames.function(join) else {
            return false;
        };
        let instructions: Vec<Instruction> = self.code.instructions(start, end).collect();
        // What the last instruction before a call that writes to the first argument puts there.
        let number = |index: usize| {
            let recent = instructions[index.saturating_sub(3)..index].iter();
            let last = recent
                .rev()
                .find(|instruction| instruction.writes(ARGUMENTS[0]))?;
            last.moved()
        };
        let joins = instructions
            .iter()
            .position(|instruction| instruction.at() == join);
        let Some(joins) = joins.and_then(number) else {
            return false;
        };
        let mut all = instructions.iter().enumerate();
        all.any(|(index, instruction)| instruction.calls_member() && number(index) == Some(joins))
    }

    fn calls_of(&self, function: u64) -> Vec<u64> {
        let all = self.transfers.iter();
        all.filter(|go| go.to == function).map(|go| go.at).collect()
    }

    /// What registers hold before an instruction.
    fn at(&self, vaddr: u64) -> Option<Values> {
        let (start, _) = self.frames.function(vaddr)?;
        let mut values = Values::at_entry();
        for instruction in self.code.instructions(start, vaddr) {
            values.step(&instruction);
        }
        Some(values)
    }

    /// The calls, elsewhere in the library, of the function in which a probe is. Functions that go
    /// on to it by a jump have the program's return address on the stack.
    fn outer(&self, at: u64) -> [Outer; MAX_OUTER] {
        let mut outer = [Outer::default(); MAX_OUTER];
        let Some((start, _)) = self.frames.function(at) else {
            return outer;
        };
        let calls = self.transfers.iter().filter(|go| go.to == start);
        let known = calls.filter_map(|go| {
            let above = match self.frames.caller(go.at)? {
                // Below the program's return address lies the other return address.
                Caller::AboveStack(above) => u32::from(above) + 8,
                Caller::AboveFrame(8) => match self.frames.callers_frame(at)? {
                    Saved::Below => SAVED,
                    Saved::Held => HELD,
                },
                Caller::AboveFrame(_) => return None,
            };
            let returns = go.returns?.wrapping_sub(at).cast_signed();
            let returns = i32::try_from(returns).ok()?;
            Some(Outer { returns, above })
        });
        for (place, known) in outer.iter_mut().zip(known) {
            *place = known;
        }
        outer
    }

    fn point(
        &self,
        symbol: &str,
        at: u64,
        number: Register,
        (passes, ends): (bool, bool),
        segments: &[Segment],
    ) -> Option<Point> {
        let (from_frame, above) = match self.frames.caller(at)? {
            Caller::AboveStack(above) => (false, above),
            Caller::AboveFrame(above) => (true, above),
        };
        let threads = self.way.threads.wrapping_sub(at).cast_signed();
        let kmp = Kmp {
            register: if number == ARGUMENTS[0] { 1 } else { 2 },
            from_frame,
            passes,
            ends,
            way: sbt_common::Kmp {
                threads: i32::try_from(threads).ok()?,
                team: self.way.team,
                count: self.way.count,
                reserved: 0,
                outer: self.outer(at),
            },
        };
        let at = (self.code, at);
        point(Function::Kmp(kmp), symbol, at, above, segments)
    }
}

#[cfg(test)]
#[path = "kmp_tests.rs"]
mod tests;
