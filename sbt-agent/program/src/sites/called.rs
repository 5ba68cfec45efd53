//! Facts about one of the calls that a thread is in.

use std::sync::Arc;

use sbt_common::layout;

use super::{Module, Resolver, stacks::Code, system::WAITING};
use crate::{
    arch::{ARGUMENTS, Handed, address_handed, decode, handed, transfer},
    criticals,
    elf::code_at,
    point::{Function, Point},
    runtimes::{KMP_JOIN, mpi::messages},
    syscalls,
    walks::Owner,
};
use sbt_engine::place::{Frame, short};

/// The longest call instruction, bytes.
const LONGEST_CALL: u64 = 7;

/// The longest jump to another function, bytes.
const LONGEST_JUMP: u64 = 5;

/// How the names of LLVM's functions begin that enter a critical section: its lock is the third
/// argument.
const KMP_CRITICAL: &str = "__kmpc_critical";

/// The environment variable that glibc reads when a program starts.
const TUNABLES: &[u8] = b"GLIBC_TUNABLES";

/// A call that a thread is in.
#[derive(Clone, Debug)]
pub struct Called {
    /// The functions, the innermost first, inlined ones included. Empty if no function is known.
    pub frames: Vec<Frame>,
    /// The program or library: the last component of its path.
    pub binary: String,
    /// Where the thread is, or will return to, in that file's own numbering.
    pub offset: u64,
    /// Whether the code belongs to the C library.
    pub is_c: bool,
    /// Whether the code belongs to a library of the system or of a language, or to the C library.
    pub is_system: bool,
    /// The function of another file that is called there, if the code tells.
    pub calls: Option<String>,
    /// Whether a library calls there a function which other code has given to it.
    pub calls_back: bool,
    /// The name of the critical section of OpenMP that the call enters, if it has one and the code tells
    /// it for every thread: see [`Self::section`].
    pub enters: Option<String>,
    /// The arguments of the function that is called there: where they are found. Those of functions that
    /// exchange messages or wait for all ranks ([`messages::arguments`]), and the lock of a critical
    /// section that the code does not tell.
    pub hands: Vec<Option<Handed>>,
    /// Where the function begins, in the file's own numbering, if the tables for unwinding tell.
    pub begins: Option<u64>,
    /// The role of the code in a runtime's barriers, if it has one.
    pub runtime: Option<InRuntime>,
}

impl Called {
    /// The name of the critical section of OpenMP that a thread enters by the call. `given`: the values
    /// of [`Self::hands`].
    pub fn section(&self, process: Option<u32>, given: &[Option<u64>]) -> Option<String> {
        let of_thread = || match given {
            [Some(lock)] if self.is_of_section() => criticals::name(process?, *lock),
            _ => None,
        };
        self.enters.clone().or_else(of_thread)
    }

    /// Whether the call enters a critical section of LLVM's OpenMP.
    pub fn is_of_section(&self) -> bool {
        self.calls.as_deref().is_some_and(is_critical)
    }
}

fn is_critical(name: &str) -> bool {
    name.starts_with(KMP_CRITICAL)
}

/// The role of code in the barriers of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InRuntime {
    /// The function of GNU's OpenMP in which the threads of a team wait.
    Gomp,
    /// Another function of GNU's OpenMP.
    OfGomp,
    /// The call of a function of LLVM's OpenMP in which threads wait.
    Kmp {
        /// Distance from the return address of the call to the variable that points to the array of
        /// the runtime's threads, bytes.
        threads: i64,
        /// The value for [`sbt_common::Kmp::team`].
        team: u32,
        /// The value for [`sbt_common::Kmp::count`].
        count: u32,
        /// Whether a parallel region ends there.
        ends: bool,
    },
    /// Another function of LLVM's OpenMP.
    OfKmp,
    /// `Barrier::wait` of Rust.
    Rust,
}

/// The C library of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CLibrary {
    /// GNU's, with its version if the file tells.
    Glibc(Option<(u32, u32)>),
    /// musl.
    Musl,
    /// Another C library, or one whose file proves nothing.
    Unknown,
}

impl Resolver {
    /// The C library of the process that [`Self::turn_to`] has chosen last.
    pub fn c_library(&self) -> CLibrary {
        let mut layout = layout::OPAQUE;
        let mut version = None;
        let mut is_linked = false;
        let mut numbers: Vec<usize> = self.space.modules().collect();
        numbers.dedup();
        for number in numbers {
            let Module { file, owner, .. } = &self.modules[number];
            let is_wait = |point: &&Point| point.function == Function::BarrierWait;
            let wait = file.points.iter().find(is_wait).map(|point| point.layout);
            if wait.is_none() && *owner != Owner::C && !file.is_static() {
                continue;
            }
            layout = wait
                .filter(|known| *known != layout::OPAQUE)
                .unwrap_or(layout);
            let image = file.image();
            version = version.or_else(|| greeting(image));
            is_linked |= file.is_static() && memchr::memmem::find(image, TUNABLES).is_some();
        }
        match layout {
            layout::GLIBC => CLibrary::Glibc(version),
            layout::MUSL => CLibrary::Musl,
            _ if version.is_some() || is_linked => CLibrary::Glibc(version),
            _ => CLibrary::Unknown,
        }
    }

    /// The facts about code that a thread is in. `is_call`: the code is a call, and `vaddr` is the
    /// return address - 1.
    pub(super) fn called(&mut self, (module, vaddr): Code, is_call: bool) -> Called {
        let frames = if is_call {
            self.frames_of_call(module, vaddr)
        } else {
            self.frames(module, vaddr)
        };
        let file = Arc::clone(&self.modules[module].file);
        let name = frames.last().and_then(|frame| frame.function.as_deref());
        let owner = self.modules[module].owner.of_function(name);
        let is_linked = |name: &str| {
            WAITING.iter().any(|begin| name.starts_with(begin)) || syscalls::is_wrapper(name)
        };
        let is_c = owner == Owner::C
            || owner == Owner::User && name.is_some_and(|name| is_linked(name) && file.is_static());
        let is_of_runtime =
            file.is_runtime() && !is_c || name.is_some_and(|name| file.is_of_runtime(name));
        let offset = vaddr + u64::from(is_call);
        let calls = is_call
            .then(|| self.modules[module].called_by(offset))
            .flatten();
        let begins = self.begins(module, vaddr);
        let code = || {
            let start = begins?;
            Some((start, file.unwind()?.code(start)?.to_vec()))
        };
        let mut enters = None;
        let hands = if calls.as_deref().is_some_and(is_critical) {
            let lock = ARGUMENTS[2];
            let code = code();
            let code = code.as_ref();
            let address = code.and_then(|(start, code)| address_handed(code, *start, offset, lock));
            enters = address.and_then(|lock| criticals::name_in(file.image(), lock));
            let unknown = code.filter(|_| address.is_none());
            let of_thread = unknown.and_then(|(start, code)| handed(code, *start, offset, lock));
            Vec::from_iter(of_thread.map(Some))
        } else if let Some(numbers) = calls.as_deref().and_then(messages::arguments) {
            let code = code();
            let of = |number: usize| {
                let (start, code) = code.as_ref()?;
                handed(code, *start, offset, ARGUMENTS[number])
            };
            numbers.into_iter().map(of).collect()
        } else {
            Vec::new()
        };
        Called {
            enters,
            binary: short(&file.shown.to_string_lossy()).to_owned(),
            offset,
            is_c,
            hands,
            is_system: owner != Owner::User || is_c || is_of_runtime,
            calls_back: is_call && self.modules[module].calls_back(offset),
            calls,
            begins,
            runtime: self.runtime(module, vaddr, offset),
            frames,
        }
    }

    fn begins(&mut self, module: usize, vaddr: u64) -> Option<u64> {
        let file = Arc::clone(&self.modules[module].file);
        let unwind = file.unwind()?;
        unwind.function(vaddr).map(|function| function.start)
    }

    fn runtime(&mut self, module: usize, vaddr: u64, offset: u64) -> Option<InRuntime> {
        let file = Arc::clone(&self.modules[module].file);
        let unwind = file.unwind()?;
        let function = unwind
            .function(vaddr)
            .map(|function| function.start..function.end)?;
        let place = |offset: u64| self.modules[module].vaddr(offset);
        let is_inside =
            |point: &&Point| place(point.entry_offset).is_some_and(|at| function.contains(&at));
        // The jump to the function that waits may have the probe instead of that function.
        let goes_there = |point: &&Point| {
            let at = place(point.entry_offset)?;
            let code = code_at(unwind.image(), unwind.segments(), at, LONGEST_JUMP)?;
            let jump = decode(code.bytes, at).next()?;
            let go = transfer(&jump).filter(|go| go.returns.is_none())?;
            (go.to == function.start).then_some(())
        };
        let waits = file.points.iter().find(|point| {
            point.function == Function::TeamEnd && (is_inside(point) || goes_there(point).is_some())
        });
        let of = |kind: fn(&Point) -> bool| file.points.iter().filter(move |point| kind(point));
        let mut kmp = of(|point| matches!(point.function, Function::Kmp(_))).filter_map(|point| {
            let Function::Kmp(kmp) = point.function else {
                return None;
            };
            let behind = offset.cast_signed() - place(point.entry_offset)?.cast_signed();
            let threads = i64::from(kmp.way.threads) - behind;
            Some((kmp, behind, threads))
        });
        let is_kmp = kmp.clone().next().is_some();
        // Each call of interest has a probe of its own. A probe on the return of the function may
        // hide the callers, so that the function is looked at first.
        let found = match waits {
            Some(waits) => kmp
                .next()
                .map(|(call, _, threads)| (call, waits.symbol == KMP_JOIN, threads)),
            None => kmp
                .find(|(_, behind, _)| (1..=LONGEST_CALL.cast_signed()).contains(behind))
                .map(|(call, _, threads)| (call, call.ends, threads)),
        };
        if let Some((kmp, ends, threads)) = found {
            return Some(InRuntime::Kmp {
                threads,
                team: kmp.way.team,
                count: kmp.way.count,
                ends,
            });
        }
        if of(|point| point.layout == layout::RUST).any(|point| is_inside(&point)) {
            return Some(InRuntime::Rust);
        }
        if waits.is_some() {
            return Some(InRuntime::Gomp);
        }
        let is_user = self.modules[module].owner == Owner::User;
        if is_user || !file.has_openmp() {
            // A version whose code is not understood.
            return of_unknown_version(short(&file.shown.to_string_lossy()));
        }
        Some(if is_kmp {
            InRuntime::OfKmp
        } else {
            InRuntime::OfGomp
        })
    }
}

/// The runtime of OpenMP that a library is by its name.
fn of_unknown_version(name: &str) -> Option<InRuntime> {
    if name.starts_with("libgomp") {
        Some(InRuntime::OfGomp)
    } else if name.starts_with("libomp.")
        || name.starts_with("libomp-")
        || name.starts_with("libiomp5")
    {
        Some(InRuntime::OfKmp)
    } else {
        None
    }
}

/// The version in a C library's own greeting: "… release version 2.36.".
fn greeting(image: &[u8]) -> Option<(u32, u32)> {
    const GREETING: &[u8] = b"GNU C Library";
    const BEFORE: &[u8] = b"release version ";
    memchr::memmem::find_iter(image, GREETING).find_map(|at| {
        let line = image.get(at..)?;
        let line = &line[..line.len().min(160)];
        let line = line.split(|byte| *byte == b'\n' || *byte == 0).next()?;
        let behind = memchr::memmem::find(line, BEFORE)? + BEFORE.len();
        let text = std::str::from_utf8(line.get(behind..)?).ok()?;
        let mut parts = text.split('.');
        let mut next = || parts.next()?.parse().ok();
        Some((next()?, next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_libraries_tell_their_greeting() {
        let debian = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopy";
        assert_eq!(greeting(debian), Some((2, 36)));
        let new = b"GNU C Library (GNU libc) development release version 2.41.9000.\n";
        assert_eq!(greeting(new), Some((2, 41)));
        for other in [
            &b"GNU C Library"[..],
            b"GNU C Library release version two.\n",
            b"release version 2.36.\n",
            b"",
        ] {
            assert_eq!(greeting(other), None);
        }
    }
}
