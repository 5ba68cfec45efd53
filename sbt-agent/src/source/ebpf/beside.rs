//! Other tools that change the target's code while sbt watches it.
//!
//! A probe of the kernel and a debugger's breakpoint on the same instruction are the same byte in
//! the program's memory. The kernel does not write the byte if it is there already, and serves it.
//! Whichever of the two is removed first takes the byte away from the other.
//!
//! A probe on a jump of the inject backend takes arrivals away from that sbt. When the probe goes, the
//! kernel writes the first byte of the *file's* instruction: before a jump that begins with another
//! byte, it would kill the program.

use std::{collections::HashSet, fs::File, os::unix::fs::FileExt as _};

use super::{
    Ebpf,
    points::{ProbeEnd, is_wait},
};
use crate::source::jumps::{Jump, RINGS, jump_at};
use sbt_engine::place::printable;
use sbt_program::{
    arch::BREAKPOINT,
    files::ProbedFile,
    memory::Memory,
    process::{self, Mapping},
    trace,
};

impl Ebpf {
    /// Notes it if a debugger traces the target, since it may take probes away unknowingly. Another
    /// sbt is not noted: it takes care.
    pub(super) fn note_tracer(&mut self) {
        let Some(tracer) = process::tracer(self.pid, self.pid) else {
            return;
        };
        if trace::is_server(tracer) {
            return;
        }
        let name = process::text(format!("/proc/{tracer}/comm")).unwrap_or_default();
        let note = format!(
            "process {tracer} ({}) traces the program: if it removes a breakpoint at a barrier, \
             the probe of sbt goes too, and sbt does not see what threads do there; end process \
             {tracer} first",
            printable(name.trim_end())
        );
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Looks for jumps of another sbt at the places of these files: no probe may be put there.
    pub(super) fn look_for_jumps(&mut self) {
        self.jumps.clear();
        if !process::maps_memory(self.pid, RINGS) {
            return;
        }
        let memory = Memory { thread: self.pid };
        let read = |at: u64, bytes: &mut [u8]| {
            let length = bytes.len();
            memory.fill(at, bytes).is_ok_and(|count| count == length)
        };
        let mut jumps = HashSet::new();
        let mut notes = Vec::new();
        for code in self.watched_code() {
            for point in &code.file.points {
                let name = printable(&point.symbol);
                for offset in [point.entry_offset, point.return_offset] {
                    let at = code.mapping.address_of(offset);
                    let Some((at, jump)) = at.and_then(|at| Some((at, jump_at(at, read)?))) else {
                        continue;
                    };
                    let first = code.original(offset);
                    let keeps_first = first.is_some() && memory.bytes(at) == first;
                    if (jump.lives || !keeps_first) && jumps.insert((code.file.id, offset)) {
                        notes.push(note(&jump, &name));
                    }
                }
            }
        }
        self.jumps = jumps;
        notes.retain(|note| !self.notes.contains(note));
        notes.dedup();
        self.notes.extend(notes);
    }

    /// How many probes of barriers of C libraries are no longer in the target's memory, although
    /// sbt has not removed them. 0 if the target has ended.
    pub(super) fn taken_away(&self) -> u64 {
        if self.paused || self.entries.is_empty() {
            return 0;
        }
        let memory = Memory { thread: self.pid };
        let mut gone = 0;
        for code in self.watched_code() {
            // The program `arrive` is always loaded, so these probes were attached.
            for point in self.points(code.file, is_wait, ProbeEnd::Entry) {
                let original = code.original(point.offset);
                let there = code.mapping.address_of(point.offset);
                let there = there.and_then(|at| memory.bytes(at));
                let is_original = original.is_some() && there == original;
                gone += u64::from(is_original && original != Some([BREAKPOINT]));
            }
        }
        gone
    }

    /// The mappings of watched files whose original bytes can be read.
    fn watched_code(&self) -> impl Iterator<Item = Code<'_>> {
        process::mappings(self.pid)
            .into_iter()
            .filter_map(|mapping| {
                let mut watched = self.files.watched.iter();
                let file = watched.find(|file| mapping.is_of(file.id))?;
                Some(Code {
                    file,
                    originals: mapping.file(self.pid).ok()?,
                    mapping,
                })
            })
    }
}

/// A mapping of a watched file.
struct Code<'a> {
    file: &'a ProbedFile,
    mapping: Mapping,
    originals: File,
}

impl Code<'_> {
    /// The byte of the file at an offset; `None` if it cannot be read.
    fn original(&self, offset: u64) -> Option<[u8; 1]> {
        let mut byte = [0];
        let read = self.originals.read_exact_at(&mut byte, offset);
        read.is_ok().then_some(byte)
    }
}

fn note(jump: &Jump, name: &str) -> String {
    let Jump { owner, lives, .. } = jump;
    if *lives {
        return format!(
            "another sbt, process {owner}, watches {name} with --backend inject: this one does not \
             watch it; end process {owner} first"
        );
    }
    format!(
        "an sbt that was killed has left its jump in {name}, and a kernel probe there would harm the \
         program: it is not watched; --backend inject watches it, and takes the jump out at its end"
    )
}
