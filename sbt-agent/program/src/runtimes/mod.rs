//! The runtimes whose barriers are known: one file for each, with a [`Runtime`] that says what is to
//! know of it. Barriers that no exported function marks are found in the code of the runtime, in a
//! program or in a library.

pub(crate) mod c11;
mod frames;
pub mod glibc;
pub mod gomp;
pub(crate) mod ident;
mod kmp;
mod language;
mod libcxx;
mod libstdcxx;
pub mod mpi;
mod musl;
pub mod python;
pub(crate) mod regions;
mod rust;
pub mod teams;
pub mod waits;

use object::{LittleEndian, Object as _, ObjectSection as _, read::elf::ElfFile64};

use sbt_common::layout;
use sbt_engine::event::Kind;

use crate::{
    arch::{
        Code, Stubs,
        prologue::{self, Stand, is_emulated},
    },
    elf::{Segment, names},
    point::{Function, Point},
};
use frames::Frames;

pub use kmp::JOIN as KMP_JOIN;
use language::Language;
use waits::Wants;

/// The part that a runtime has in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A C library.
    CLibrary,
    /// A runtime of OpenMP.
    OpenMp,
    /// The library of a language, which may be compiled into the program.
    Language,
    /// A library of MPI.
    Mpi,
}

/// The facts about a runtime with barriers.
///
/// Two things are not here: the functions that give its points ([`points`]), and whether departures can
/// be watched and what the runtime cannot tell, which the comment on each runtime says.
pub struct Runtime {
    /// The name of the runtime for users.
    pub name: &'static str,
    /// How reports call its barriers.
    pub kind: Kind,
    /// The part of the runtime in a program.
    pub role: Role,
    /// The runtime's barriers in words; `None` if the name of the function that waits says enough.
    pub barriers: Option<&'static str>,
    /// The layouts of its objects: of [`sbt_common::layout`].
    pub layouts: &'static [u8],
    /// Whether its barriers lie in a library of its own, and not in each program.
    pub is_library: bool,
    /// How the names of its libraries begin, wherever they are installed.
    pub libraries: &'static [&'static str],
    /// Exported functions that lead to barriers which are not exported; for a runtime of OpenMP,
    /// the function of an explicit barrier comes first.
    pub ways: &'static [&'static str],
    /// How the names of its own functions begin when it is linked into a program. Programs may not
    /// use such names.
    pub prefix: Option<&'static str>,
    /// What the first words of an object say; `None` if they are not read.
    pub object: Option<fn([u32; 4]) -> Object>,
    /// How many rounds an object has completed, by its count (not 0) and its word for rounds;
    /// `None` if its memory does not tell.
    pub rounds: Option<fn(count: u32, round: u32) -> u32>,
    /// How its barriers are found, if it is the library of a language.
    language: Option<Language>,
    /// Whether a function, by its name and its source file, is part of a wait at one of its
    /// barriers. Not used for exported functions of a C library.
    is_barrier: fn(&str, Option<&str>) -> bool,
    /// The purpose of a wait in a function of the runtime, by the function's name.
    waits: fn(&str) -> Option<Wants>,
}

/// What the memory of a barrier says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// How many threads take part; 0 if not known.
    pub count: u32,
    /// The word for rounds; see [`Runtime::rounds`].
    pub round: u32,
    /// The word for arrivals.
    pub arrived: u32,
    /// Whether several processes may use it.
    pub shared: bool,
}

/// The state of a barrier at which threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How many threads it waits for.
    pub count: u32,
    /// How many threads have arrived.
    pub arrived: u32,
    /// Whether several processes may use it.
    pub shared: bool,
}

/// All runtimes. Functions are recognised in this order.
pub static ALL: [&Runtime; 8] = [
    &glibc::RUNTIME,
    &musl::RUNTIME,
    &gomp::RUNTIME,
    &kmp::RUNTIME,
    &libcxx::RUNTIME,
    &libstdcxx::RUNTIME,
    &rust::RUNTIME,
    &mpi::RUNTIME,
];

/// The runtime whose objects have a layout; `None` for objects of which nothing is known.
pub fn of(layout: u8) -> Option<&'static Runtime> {
    let mut all = ALL.into_iter();
    all.find(|runtime| runtime.layouts.contains(&layout))
}

/// The layout of the object of a function in which threads spin. The probes treat it as
/// [`layout::USER`]: they pass the number on, and know nothing about the object.
pub const SPIN: u8 = 100;

/// The kind of a barrier at which a thread arrives: by the layout of its object, and by whether the
/// record says that a parallel region ends there. An inlined barrier ends none: if it says so, it is
/// one that spins, inside of a larger function.
pub fn kind_of_arrival(layout: u8, ends: bool) -> Kind {
    if is_inside(layout, ends) {
        Kind::Spin
    } else {
        kind(layout)
    }
}

/// Whether a barrier that spins is meant, inside of a larger function: see [`kind_of_arrival`].
pub const fn is_inside(layout: u8, ends: bool) -> bool {
    layout == layout::STD_INLINED && ends
}

/// The kind of a barrier, by the layout of its object.
pub fn kind(layout: u8) -> Kind {
    match of(layout) {
        Some(runtime) => runtime.kind,
        None if layout == layout::USER => Kind::User,
        None if layout == SPIN => Kind::Spin,
        None => Kind::Pthread,
    }
}

impl Point {
    /// The runtime to which the point belongs, if its layout tells.
    pub fn runtime(&self) -> Option<&'static Runtime> {
        of(self.layout)
    }

    /// Whether the point is a barrier of a language's own library.
    pub fn is_of_language(&self) -> bool {
        self.runtime()
            .is_some_and(|runtime| runtime.role == Role::Language)
    }
}

/// Larger numbers of threads are taken for garbage.
const MAX_THREADS: u32 = 1 << 22;

/// The 32-bit number at an offset.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The addresses of the functions of C++'s library that were compiled into a file.
pub fn functions_of_libraries(image: &[u8]) -> Vec<u64> {
    const PREFIXES: [&[u8]; 3] = [b"_ZNSt", b"_ZNKSt", b"_ZSt"];
    let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
        return Vec::new();
    };
    let functions = names::full(&file).filter(|symbol| {
        let is = |name: &[u8]| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        symbol.is_function() && symbol.is_definition() && is(symbol.name)
    });
    functions.map(|symbol| symbol.address()).collect()
}

/// Where to put probes for the barriers of the runtimes in a file, and whether the file defines the
/// barriers of OpenMP. No points for a file without a runtime, or with a runtime that is not
/// recognised.
pub fn points(image: &[u8], segments: &[Segment]) -> (Vec<Point>, bool) {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(image) else {
        return (Vec::new(), false);
    };
    let text = file.section_by_name(".text");
    let Some(text) = text.and_then(|section| Some((section.address(), section.data().ok()?)))
    else {
        return (Vec::new(), false);
    };
    let text = Code::new(text.0, text.1);
    let mut points = language::points(&file, image, segments, &text);
    let (gomp, kmp) = (gomp::Start::of(&file), kmp::Start::of(&file));
    if gomp.is_none() && kmp.is_none() {
        return (points, kmp::has_barrier(&file));
    }
    let Some(frames) = Frames::of(&file) else {
        return (points, true);
    };
    let mut barriers = Vec::new();
    // LLVM's runtime also has GNU's functions, for programs built by gcc.
    if let Some(start) = kmp {
        let stubs = Stubs::of(&file);
        let found = kmp::points(&start, &text, &frames, &stubs, segments);
        barriers.extend(found.unwrap_or_default());
    } else if let Some(start) = gomp {
        barriers.extend(gomp::points(&start, &text, &frames, segments));
    }
    if !barriers.is_empty() {
        points.append(&mut barriers);
        points.extend(regions::points(&file, image, segments));
    }
    (points, true)
}

/// The end of a function that waits: where to put a return probe.
fn leaves(
    symbol: &str,
    function: u64,
    code: &Code<'_>,
    frames: &Frames<'_>,
    segments: &[Segment],
) -> Option<Point> {
    let (start, end) = frames.function(function)?;
    // The first instruction that is emulated; the stack pointer must not have moved there.
    let at = code
        .instructions(start, end)
        .take(4)
        .find(|instruction| is_emulated(code.bytes_of(instruction)))?
        .at();
    if frames.stack_moved(at) != Some(0) {
        return None;
    }
    point(Function::TeamEnd, symbol, (code, at), 0, segments)
}

/// A point at an instruction, if a probe may stand there.
fn point(
    function: Function,
    symbol: &str,
    (code, vaddr): (&Code<'_>, u64),
    stack_moved: u16,
    segments: &[Segment],
) -> Option<Point> {
    let stand = prologue::stand(code.from(vaddr)).ok()?;
    let offset = segments
        .iter()
        .find_map(|segment| segment.file_offset(vaddr))?;
    Some(Point {
        function,
        symbol: symbol.to_owned(),
        entry_offset: offset,
        stack_moved,
        return_offset: offset,
        entry_emulated: stand == Stand::Emulated,
        layout: match function {
            Function::Team(_) => layout::GOMP,
            Function::Kmp(_) => layout::KMP,
            _ => layout::OPAQUE,
        },
    })
}

/// Whether a point stands on an instruction of an image that the kernel emulates.
#[cfg(test)]
fn stands_on_emulated(image: &[u8], point: &Point) -> bool {
    let at = usize::try_from(point.entry_offset).unwrap_or(usize::MAX);
    let code = Code::new(0, image.get(at..).unwrap_or_default());
    let first = code.all().next();
    first.is_some_and(|first| is_emulated(code.bytes_of(&first)))
}
