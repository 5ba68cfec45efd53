//! Debuggers that trace the target while sbt watches it.
//!
//! A probe of the kernel and a debugger's breakpoint on the same instruction are the same byte in
//! the program's memory. The kernel does not write the byte if it is there already, and serves it.
//! Whichever of the two is removed first takes the byte away from the other.

use std::os::unix::fs::FileExt as _;

use super::{
    Ebpf,
    points::{ProbeEnd, is_wait},
};
use sbt_engine::place::printable;
use sbt_program::{arch::BREAKPOINT, memory::Memory, process, trace};

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
