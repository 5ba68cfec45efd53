//! Other tools that change the target's code while sbt watches it.
//!
//! A probe of the kernel and a debugger's breakpoint on the same instruction are the same byte in
//! the program's memory. The kernel does not write the byte if it is there already, and serves it.
//! Whichever of the two is removed first takes the byte away from the other.
//!
//! A probe on a jump of the inject backend takes arrivals away from that sbt. When the probe goes, the
//! kernel writes the first byte of the *file's* instruction: before a jump that begins with another
//! byte, it would kill the program.

use std::{collections::HashSet, os::unix::fs::FileExt as _};

use super::{
    Ebpf,
    points::{ProbeEnd, is_wait},
};
use crate::source::jumps::{Jump, RINGS, jump_at};
use sbt_engine::place::printable;
use sbt_program::{arch::BREAKPOINT, files::ProbedFile, memory::Memory, process, trace};

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
        let mut notes = Vec::new();
        for mapping in process::mappings(self.pid) {
            let mut watched = self.files.watched.iter();
            let Some(file) = watched.find(|file| mapping.is_of(file.id)) else {
                continue;
            };
            let Ok(original) = mapping.file(self.pid) else {
                continue;
            };
            for (at, offset, name) in places(file, mapping.start, mapping.offset, mapping.end) {
                let Some(jump) = jump_at(at, read) else {
                    continue;
                };
                let bytes = [memory.bytes::<1>(at), {
                    let mut byte = [0];
                    let is_read = original.read_exact_at(&mut byte, offset).is_ok();
                    is_read.then_some(byte)
                }];
                let keeps_first = bytes[0].is_some() && bytes[0] == bytes[1];
                if jump.lives || !keeps_first {
                    self.jumps.insert((file.id, offset));
                    notes.push(note(&jump, &printable(name)));
                }
            }
        }
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
        for mapping in process::mappings(self.pid) {
            let mut watched = self.files.watched.iter();
            let Some(file) = watched.find(|file| mapping.is_of(file.id)) else {
                continue;
            };
            let Ok(original) = mapping.file(self.pid) else {
                continue;
            };
            // The program `arrive` is always loaded, so these probes were attached.
            for point in self.points(file, is_wait, ProbeEnd::Entry) {
                let at = point.offset.checked_sub(mapping.offset);
                let at = at.and_then(|above| mapping.start.checked_add(above));
                let Some(at) = at.filter(|at| *at < mapping.end) else {
                    continue;
                };
                let mut byte = [0];
                let is_read = original.read_exact_at(&mut byte, point.offset).is_ok();
                let is_original = is_read && memory.bytes(at) == Some(byte);
                gone += u64::from(is_original && byte != [BREAKPOINT]);
            }
        }
        gone
    }
}

/// The places of a file that a mapping holds: their addresses, offsets in the file, and functions.
fn places(
    file: &ProbedFile,
    start: u64,
    offset: u64,
    end: u64,
) -> impl Iterator<Item = (u64, u64, &str)> {
    let all = file.points.iter().flat_map(|point| {
        let both = HashSet::from([point.entry_offset, point.return_offset]);
        both.into_iter().map(|at| (at, point.symbol.as_str()))
    });
    all.filter_map(move |(place, name)| {
        let at = start.checked_add(place.checked_sub(offset)?)?;
        (at < end).then_some((at, place, name))
    })
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
