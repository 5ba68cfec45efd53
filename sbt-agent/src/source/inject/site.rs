//! Chooses the instruction at which a jump stands for a point, and what is noted there. Pure.

use sbt_common::layout;

use crate::source::{ebpf::points::cookie, twin::Program};
use sbt_engine::place::printable;
use sbt_program::{
    arch::{
        displaced::{LONGEST, decode},
        prologue::choose_lone,
        trampoline::{Capture, is_replaceable},
    },
    files::ProbedFile,
    point::{Function, Point},
};

/// How much code of a function is looked at for jumps back into its beginning, bytes.
const LOOKED_AT: usize = 1024;

/// The arguments of a function that are in registers.
const IN_REGISTERS: u8 = 6;

/// An instruction of a file that a jump replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// What is noted there.
    pub capture: Capture,
    /// The program that makes records of a hit, with its cookie.
    pub program: (Program, u64),
    /// The function, as in the symbol table; not yet made safe to print.
    pub symbol: String,
    /// The file's bytes from there on.
    pub code: [u8; LONGEST],
}

/// The sites of a file, and what cannot be watched in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// At most one for each instruction.
    pub found: Vec<Site>,
    /// The names of functions that the program uses and that have no site.
    pub unwatched: Vec<String>,
    /// The numbers of marks.
    pub marks: Vec<u8>,
    /// Whether the program uses condition variables of this file.
    pub condvars: bool,
    /// Whether barriers of this file are not watched because the user has named others.
    pub other: bool,
}

/// Chooses the sites of files, of which a process may map some.
pub fn sites(files: &[&ProbedFile]) -> Vec<Sites> {
    let of_file = |(index, file): (usize, &&ProbedFile)| {
        of_file(file, |symbol| ProbedFile::is_used(files, index, symbol))
    };
    let mut all: Vec<Sites> = files.iter().enumerate().map(of_file).collect();
    if all.iter().any(|file| file.found.iter().any(is_named)) {
        for file in &mut all {
            let before = file.found.len();
            file.found.retain(is_named);
            file.other = file.found.len() < before;
        }
    }
    all
}

/// Whether the user has named the function as a barrier. It may be built on other barriers, which do
/// not count inside of it; since its end is not seen, no others are watched then.
fn is_named(site: &Site) -> bool {
    site.program.0 == Program::Call
}

fn of_file(file: &ProbedFile, is_used: impl Fn(&str) -> bool) -> Sites {
    let mut found = Sites::default();
    for point in &file.points {
        if let Some(site) = site(file.image(), point) {
            // Two points at one instruction would need two jumps.
            if found.found.iter().all(|other| other.offset != site.offset) {
                found.found.push(site);
            }
            continue;
        }
        let name = match point.function {
            Function::Mark(number) => {
                found.marks.push(number);
                continue;
            }
            Function::CondWait | Function::CondWake { .. } => {
                found.condvars |= is_used(&point.symbol);
                continue;
            }
            Function::BarrierWait | Function::Call { .. } if is_used(&point.symbol) => {
                printable(&point.symbol)
            }
            Function::Team(_) | Function::Kmp(_) => {
                let name = printable(&point.symbol);
                format!("{name} in {}", printable(&file.shown.to_string_lossy()))
            }
            _ => continue,
        };
        if !found.unwatched.contains(&name) {
            found.unwatched.push(name);
        }
    }
    found
}

/// The site of a point in a file's bytes. `None` if it has none, or if it cannot be watched this way.
fn site(image: &[u8], point: &Point) -> Option<Site> {
    let (offset, stack_moved) = match point.function {
        Function::BarrierWait | Function::BarrierInit | Function::Call { .. } => {
            // There the return address is on top of the stack.
            let start = point.return_offset;
            let code = bytes(image, start, LOOKED_AT)?;
            let place = choose_lone(code, point.function.arguments())?;
            (start + u64::from(place.offset), place.stack_moved)
        }
        // Amid a function: only this very instruction.
        Function::Team(_) => {
            let code = bytes(image, point.entry_offset, LONGEST)?;
            let instruction = decode(code, point.entry_offset)?;
            is_replaceable(&instruction).then_some((point.entry_offset, point.stack_moved))?
        }
        _ => return None,
    };
    let [program] = Program::of(point.function) else {
        return None;
    };
    let mut code = [0; LONGEST];
    let there = bytes(image, offset, LONGEST)?;
    code[..there.len()].copy_from_slice(there);
    Some(Site {
        offset,
        capture: Capture {
            stack_moved,
            ..capture(point)?
        },
        program: (*program, cookie(point, stack_moved, (false, 0), |_| None)),
        symbol: point.symbol.clone(),
        code,
    })
}

/// What is noted at a point; `None` if more is needed than a record has room for.
fn capture(point: &Point) -> Option<Capture> {
    let none = Capture::default();
    Some(match point.function {
        Function::BarrierWait => Capture {
            object: 1,
            // Both layouts are longer than what is copied; of others nothing is known.
            memory: matches!(point.layout, layout::GLIBC | layout::MUSL).then_some(0),
            ..none
        },
        Function::BarrierInit => Capture {
            object: 1,
            count: 3,
            ..none
        },
        Function::Call { object, count }
            if point.layout == layout::USER && object.max(count) <= IN_REGISTERS =>
        {
            Capture {
                object,
                count,
                ..none
            }
        }
        Function::Team(team) if point.layout == layout::GOMP && team.spilled.is_none() => Capture {
            object: (1..=15).contains(&team.register).then_some(team.register)?,
            memory: team.has_count.then_some(team.displacement),
            ..none
        },
        _ => return None,
    })
}

fn bytes(image: &[u8], offset: u64, most: usize) -> Option<&[u8]> {
    let from = image.get(usize::try_from(offset).ok()?..)?;
    (!from.is_empty()).then(|| &from[..from.len().min(most)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_program::point::Team;

    /// glibc 2.36 of Debian 12: `pthread_barrier_wait`.
    const WAIT: [u8; 40] = [
        0x41, 0x55, 0x49, 0x89, 0xf8, 0x41, 0xbd, 0xff, 0xff, 0xff, 0x7f, 0x41, 0x54, 0x55, 0xbd,
        0xca, 0, 0, 0, 0x53, 0x48, 0x83, 0xec, 8, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x41, 0xb9, 1,
        0, 0, 0, 0xf0, 0x45,
    ];

    fn point(function: Function, layout: u8, entry_offset: u64) -> Point {
        Point {
            function,
            symbol: "f".into(),
            entry_offset,
            stack_moved: 0,
            return_offset: 0,
            entry_emulated: true,
            layout,
        }
    }

    #[test]
    fn a_barrier_of_glibc_is_noted_behind_its_first_instructions() {
        let point = point(Function::BarrierWait, layout::GLIBC, 0);
        let site = site(&WAIT, &point).unwrap();
        assert_eq!(site.offset, 5);
        let expected = Capture {
            object: 1,
            memory: Some(0),
            count: 0,
            stack_moved: 8,
        };
        assert_eq!((site.capture, site.program.0), (expected, Program::Arrive));
        assert_eq!(site.code[..6], WAIT[5..11]);
    }

    #[test]
    fn amid_a_function_only_the_very_instruction_will_do() {
        let team = Team {
            register: 1,
            spilled: None,
            displacement: 0,
            has_count: true,
            ends: false,
        };
        let of = |bytes: &[u8], team| {
            let mut image = vec![0x90; 32];
            image[7..7 + bytes.len()].copy_from_slice(bytes);
            site(&image, &point(Function::Team(team), layout::GOMP, 7))
        };
        let call = of(&[0xe8, 1, 0, 0, 0], team).unwrap();
        assert_eq!((call.offset, call.capture.object), (7, 1));
        assert_eq!(call.capture.memory, Some(0));
        assert_eq!(of(&[0xeb, 1], team), None, "too short");
        let spilled = Team {
            spilled: Some(8),
            ..team
        };
        assert_eq!(of(&[0xe8, 1, 0, 0, 0], spilled), None);
    }

    #[test]
    fn where_nothing_is_there_is_no_site() {
        for offset in [0, 39, 40, u64::MAX] {
            for function in [Function::CondWait, Function::TeamEnd, Function::Region] {
                assert_eq!(site(&WAIT, &point(function, layout::OPAQUE, offset)), None);
            }
        }
        let mut cut = point(Function::BarrierWait, layout::GLIBC, 0);
        assert_eq!(site(&WAIT[..7], &cut), None);
        cut.return_offset = u64::MAX;
        assert_eq!(site(&WAIT, &cut), None);
        let arguments = Function::Call {
            object: 7,
            count: 0,
        };
        assert_eq!(site(&WAIT, &point(arguments, layout::USER, 0)), None);
    }
}
