//! GNU OpenMP (libgomp): all barriers of a team are one object, of type `gomp_barrier_t`
//! (libgomp/config/linux/bar.h), which begins with the number of threads.
//!
//! The functions that wait in it are not exported. They are found from `GOMP_barrier`, which ends
//! by going to `gomp_team_barrier_wait` (libgomp/barrier.c); that function counts the thread and
//! goes to `gomp_team_barrier_wait_end` (libgomp/config/linux/bar.c). Every function that goes to
//! the latter after counting is a barrier: also `gomp_team_barrier_wait_final`, which ends parallel
//! regions. A caller of such a barrier has the object's address in the first argument's register,
//! and a call is an instruction that the kernel emulates: so the probes go to these calls, before
//! the thread is counted. Code that counts and waits by itself (`gomp_work_share_end`,
//! libgomp/work.c: the end of loops and sections) gets its probe between loading the object's
//! address and counting.

use object::{LittleEndian, read::elf::ElfFile64};
use sbt_common::layout;
use sbt_engine::event::Kind;

use super::{
    MAX_THREADS, Object, Role, Runtime, Waiting,
    frames::Frames,
    leaves, number as number_at, point,
    waits::{NO_BARRIER, NO_WAITS},
};
use crate::{
    arch::{ARGUMENTS, Code, Instruction, number, prologue::is_emulated, transfer},
    elf::{Segment, names},
    point::{Function, Point, Team},
};

/// How much one round adds to the word after the number of threads (`BAR_INCR` in
/// libgomp/config/linux/bar.h, since GCC 4.9).
const ROUND: u32 = 8;

/// Departures are told by the return of the function that waits. A library of another compiler or
/// version is left alone; its name in notes is that of its file.
pub static RUNTIME: Runtime = Runtime {
    name: "libgomp",
    kind: Kind::Gomp,
    role: Role::OpenMp,
    barriers: Some("the barriers of OpenMP"),
    layouts: &[layout::GOMP],
    is_library: true,
    libraries: &["libgomp"],
    ways: &["GOMP_barrier", "GOMP_parallel", "GOMP_parallel_start"],
    prefix: Some("gomp_"),
    object: Some(|[count, round, _, _]| Object {
        count,
        round,
        ..Object::default()
    }),
    rounds: Some(|_, round| round / ROUND),
    language: None,
    is_barrier: NO_BARRIER,
    waits: NO_WAITS,
};

/// Offset of `awaited` in `gomp_barrier_t`, bytes. The final barrier counts in the word after it.
const AWAITED: u64 = 64;
const AWAITED_FINAL: u64 = AWAITED + 4;

/// The most instructions that are searched in a function that counts and goes on.
const SHORT: usize = 64;

/// Where the search starts: addresses of exported functions.
pub struct Start {
    barriers: Vec<u64>,
}

impl Start {
    /// `None` if the file does not define these functions.
    pub fn of(file: &ElfFile64<'_, LittleEndian>) -> Option<Self> {
        if !names::may_hold(file, b"GOMP_barrier") {
            return None;
        }
        let barriers: Vec<u64> = names::defined(file)
            .filter(|symbol| matches!(symbol.name, b"GOMP_barrier" | b"GOMP_barrier_cancel"))
            .map(|symbol| symbol.address())
            .collect();
        (!barriers.is_empty()).then_some(Self { barriers })
    }
}

/// Finds the function that counts the thread, on the path from `function`. Returns its start, and
/// the address to which it goes after counting.
fn waits_at(code: &Code<'_>, frames: &Frames<'_>, function: u64) -> Option<(u64, u64)> {
    let mut function = function;
    // GOMP_barrier, gomp_team_barrier_wait.
    for _ in 0..3 {
        let (start, end) = frames.function(function)?;
        let mut counted = false;
        let mut next = None;
        for instruction in code.instructions(start, end).take(SHORT) {
            counted |= instruction.counts().is_some();
            if let Some(go) = transfer(&instruction).filter(|go| !(start..end).contains(&go.to)) {
                next = Some(go.to);
                break;
            }
        }
        if counted {
            return Some((start, next?));
        }
        function = next?;
    }
    None
}

/// The points of the runtime in this code; empty if the code is not recognised.
pub fn points(
    start: &Start,
    code: &Code<'_>,
    frames: &Frames<'_>,
    segments: &[Segment],
) -> Vec<Point> {
    let (mut waits, mut ends) = (Vec::new(), Vec::new());
    for barrier in &start.barriers {
        if let Some((wait, end)) = waits_at(code, frames, *barrier) {
            waits.push((wait, false));
            ends.push(end);
        }
    }
    ends.sort_unstable();
    ends.dedup();
    let mut points = Vec::new();
    // Finds the functions that go to where threads wait.
    for instruction in code.all() {
        let Some(go) = transfer(&instruction).filter(|go| ends.contains(&go.to)) else {
            continue;
        };
        let Some(function) = frames.function(go.at) else {
            continue;
        };
        match counted_in(code, function, go.at) {
            // The first argument is the barrier: the calls of this function are probed.
            Some(Counted::Argument { last }) => waits.push((function.0, last)),
            Some(Counted::Here { team, at }) => {
                let moved = frames.stack_moved(at);
                points.extend(moved.and_then(|moved| {
                    point(
                        Function::Team(team),
                        "gomp_work_share_end",
                        (code, at),
                        moved,
                        segments,
                    )
                }));
            }
            None => {}
        }
    }
    waits.sort_unstable();
    waits.dedup();
    for instruction in code.all() {
        let Some(go) = transfer(&instruction) else {
            continue;
        };
        let Some((_, ends)) = waits.iter().find(|(wait, _)| *wait == go.to) else {
            continue;
        };
        let team = Team {
            register: 1,
            spilled: None,
            displacement: 0,
            has_count: true,
            ends: *ends,
        };
        if let Some(moved) = frames.stack_moved(go.at) {
            let symbol = "gomp_team_barrier_wait";
            let at = (code, go.at);
            points.extend(point(Function::Team(team), symbol, at, moved, segments));
        }
    }
    if points.is_empty() {
        return points;
    }
    for end in ends {
        let symbol = "gomp_team_barrier_wait_end";
        match leaves(symbol, end, code, frames, segments) {
            Some(leaves) => points.push(leaves),
            None => points.extend(callers_leave(symbol, end, code, frames, segments)),
        }
    }
    points
}

/// Where to put return probes for the function that waits if none may stand at its beginning, as in the
/// library of GCC 16: on the jumps that lead to it, which return where it returns; and on functions that
/// call it, which have little to do afterwards.
fn callers_leave(
    symbol: &str,
    end: u64,
    code: &Code<'_>,
    frames: &Frames<'_>,
    segments: &[Segment],
) -> Vec<Point> {
    let all = code.all().filter_map(|instruction| transfer(&instruction));
    let leaves = all.filter(|go| go.to == end).filter_map(|go| {
        let (caller, _) = frames.function(go.at).filter(|(start, _)| *start != end)?;
        if go.returns.is_some() {
            return leaves(symbol, caller, code, frames, segments);
        }
        let returns = frames.stack_moved(go.at) == Some(0);
        let at = (code, go.at);
        returns.then(|| point(Function::TeamEnd, symbol, at, 0, segments))?
    });
    leaves.collect()
}

/// How a function has counted its thread before it goes to where threads wait.
enum Counted {
    /// In the object that is the function's first argument; `last`: the thread has come to the end
    /// of a region.
    Argument { last: bool },
    /// In an object whose address the function has loaded; `at`: where to put the probe.
    Here { team: Team, at: u64 },
}

fn counted_in(code: &Code<'_>, (start, _): (u64, u64), until: u64) -> Option<Counted> {
    let instructions: Vec<Instruction> = code.instructions(start, until).collect();
    let (index, base, displacement) =
        instructions
            .iter()
            .enumerate()
            .find_map(|(index, instruction)| {
                let (base, displacement) = instruction.counts()?;
                Some((index, base, displacement))
            })?;
    let writes = |instruction: &Instruction| instruction.writes(base);
    let Some(written) = instructions[..index].iter().rposition(writes) else {
        let last = displacement == AWAITED_FINAL;
        return (base == ARGUMENTS[0]).then_some(Counted::Argument { last });
    };
    let team = Team {
        register: number(base)?,
        spilled: None,
        displacement: i32::from(i16::try_from(displacement.checked_sub(AWAITED)?).ok()?),
        has_count: true,
        ends: false,
    };
    // The probe stands before the thread is counted, or else right after.
    let stands = |instruction: &&Instruction| is_emulated(code.bytes_of(instruction));
    let before = instructions[written + 1..index].iter().find(stands);
    let mut kept = instructions[index + 1..]
        .iter()
        .take_while(|instruction| !writes(instruction));
    let at = before.or_else(|| kept.find(stands))?.at();
    Some(Counted::Here { team, at })
}

/// The length of a libgomp barrier, bytes.
pub const LENGTH: usize = 72;

/// Parses `gomp_barrier_t`: `total`, `generation`, and at offset 64 `awaited` and `awaited_final`,
/// which count down. Until GCC 9 the structure is aligned less than its type asks for, so that an
/// address which is not known to be one of a barrier proves less: `is_exact` says that it is known.
pub fn waiting(bytes: &[u8], address: u64, is_exact: bool) -> Option<Waiting> {
    let (total, awaited) = (number_at(bytes, 0)?, number_at(bytes, 64)?);
    let last = number_at(bytes, 68)?;
    let alignment = if is_exact { 8 } else { 64 };
    let fits = address.is_multiple_of(alignment)
        && (1..=MAX_THREADS).contains(&total)
        && (1..=total).contains(&awaited)
        && (1..=total).contains(&last);
    fits.then(|| Waiting {
        count: total,
        arrived: (total - awaited).max(total - last),
        shared: false,
    })
}

/// How many threads wait at a barrier for the end of a parallel region. Threads that wait for the
/// next region wait at barriers of the same form, and count like those inside of a region.
pub fn at_end(bytes: &[u8]) -> Option<u32> {
    number_at(bytes, 0)?.checked_sub(number_at(bytes, 68)?)
}

/// What a function that a program calls in an OpenMP runtime waits for, by its name: of GNU's or of
/// LLVM's runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Construct {
    /// All threads of the team.
    Barrier,
    /// The end of a `critical` section of another thread.
    Critical,
    /// The turn of this thread in an `ordered` section.
    Ordered,
}

/// What a thread waits for in a function of an OpenMP runtime that a program calls.
pub fn construct(name: &str) -> Option<Construct> {
    const BARRIERS: [&str; 12] = [
        "GOMP_barrier",
        "GOMP_parallel",
        "GOMP_loop_end",
        "GOMP_sections_end",
        "GOMP_workshare",
        "GOMP_single_copy",
        "GOMP_teams",
        "gomp_team_barrier_wait",
        "__kmpc_barrier",
        "__kmpc_fork_call",
        "__kmpc_reduce",
        "__kmpc_copyprivate",
    ];
    let is = |begin: &&str| name.starts_with(*begin);
    if name.starts_with("GOMP_critical") || name.starts_with("__kmpc_critical") {
        Some(Construct::Critical)
    } else if name.starts_with("GOMP_ordered")
        || name.starts_with("GOMP_doacross_wait")
        || name.starts_with("__kmpc_ordered")
        || name.starts_with("__kmpc_doacross_wait")
    {
        Some(Construct::Ordered)
    } else if BARRIERS.iter().any(is) && !name.contains("nowait") {
        Some(Construct::Barrier)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use crate::{elf::load_segments, point::Function, runtimes};

    /// The library of the compiler that builds the test programs.
    #[test]
    fn the_barriers_of_this_machines_library_are_found() {
        let output = Command::new("gcc")
            .arg("-print-file-name=libgomp.so.1")
            .output()
            .unwrap();
        let path = String::from_utf8(output.stdout).unwrap();
        let image = fs::read(path.trim_end()).unwrap();
        let points = runtimes::points(&image, &load_segments(&image).unwrap()).0;
        let teams: Vec<_> = points
            .iter()
            .filter(|point| matches!(point.function, Function::Team(_)))
            .collect();
        // GOMP_barrier, the two ends of a region, and the end of loops.
        assert!(teams.len() >= 4, "{points:#?}");
        let is_argument = |function| matches!(function, Function::Team(team) if team.register == 1);
        assert!(teams.iter().any(|point| is_argument(point.function)));
        assert!(teams.iter().any(|point| !is_argument(point.function)));
        // The thread that began a region and the others come to its end.
        let ends = |function| matches!(function, Function::Team(team) if team.ends);
        assert!(teams.iter().filter(|point| ends(point.function)).count() >= 2);
        let begins: Vec<_> = points
            .iter()
            .filter(|point| point.function == Function::Region)
            .collect();
        assert!(begins.iter().any(|point| point.symbol == "GOMP_parallel"));
        let leaves = points
            .iter()
            .filter(|point| point.function == Function::TeamEnd);
        assert!(leaves.count() >= 1, "{points:#?}");
        for point in &points {
            assert!(runtimes::stands_on_emulated(&image, point), "{point:?}");
        }
    }

    /// The functions of libgomp 16.1 that count and wait, as far as they matter here: no probe may stand
    /// at the beginning of the function that waits.
    #[test]
    fn where_threads_leave_the_barriers_of_gcc_16() {
        let folder = tempfile::tempdir().unwrap();
        let (source, path) = (folder.path().join("a.s"), folder.path().join("a.so"));
        fs::write(&source, include_str!("gomp/gcc16.s")).unwrap();
        let mut compiler = Command::new("gcc");
        compiler.args(["-shared", "-nostdlib", "-o"]);
        let status = compiler.arg(&path).arg(&source).status();
        assert!(status.unwrap().success());
        let image = fs::read(&path).unwrap();
        let points = runtimes::points(&image, &load_segments(&image).unwrap()).0;
        let leaves: Vec<_> = points
            .iter()
            .filter(|point| point.function == Function::TeamEnd)
            .map(|point| image[usize::try_from(point.entry_offset).unwrap()])
            .collect();
        // push %rbx in gomp_work_share_end, and the jump of each function that counts.
        assert_eq!(leaves, [0x53, 0xe9, 0xe9], "{points:#?}");
        for point in &points {
            assert!(runtimes::stands_on_emulated(&image, point), "{point:?}");
        }
    }

    #[test]
    fn what_is_not_understood_has_no_points() {
        let image = fs::read(std::env::current_exe().unwrap()).unwrap();
        let segments = load_segments(&image).unwrap();
        assert!(runtimes::points(&image, &segments).0.is_empty());
        assert!(runtimes::points(b"\x7fELF", &[]).0.is_empty());
    }

    #[test]
    fn teams_count_down() {
        let object = |words: &[(usize, u32)]| {
            let mut bytes = vec![0; super::LENGTH];
            for (at, word) in words {
                bytes[*at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            bytes
        };
        let of = |total, awaited, last, address| {
            let bytes = object(&[(0, total), (4, 0x10), (64, awaited), (68, last)]);
            super::waiting(&bytes, address, false).map(|barrier| (barrier.count, barrier.arrived))
        };
        assert_eq!(of(4, 1, 4, 0x1000), Some((4, 3)));
        assert_eq!(of(4, 4, 2, 0x1000), Some((4, 2)));
        assert_eq!(of(4, 1, 4, 0x1004), None);
        assert_eq!(of(4, 5, 4, 0x1000), None);
        assert_eq!(of(0, 0, 0, 0x1000), None);
        assert_eq!(super::waiting(&[0; 8], 0, true), None);
        let bytes = object(&[(0, 4), (64, 1), (68, 4)]);
        assert!(super::waiting(&bytes, 0x1010, true).is_some());
    }
}
