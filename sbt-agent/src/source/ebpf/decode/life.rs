//! The life of processes: records of their forks, of programs that they execute, of libraries that they
//! map, and of their ends.

use sbt_common::{Mapping, kind};

use super::Decoder;
use sbt_engine::event::{Clocks, Event, Tid};

impl Decoder {
    /// Forgets the addresses of an address space: from now on they have other meanings.
    fn forget(&mut self, space: u16) {
        let gone = self.callers.extract_if(|(of, ..), _| *of == space);
        self.free.extend(gone.map(|(_, id)| id));
        self.communicators.forget(space);
        self.team_rounds.forget(space);
        self.team_sizes.forget(space);
    }

    /// Ends a process, and all of its threads that are still known.
    fn end(&mut self, process: u32, time_ns: u64, out: &mut Vec<Event>) {
        if [0, self.start.pid].contains(&process) {
            return;
        }
        let space = self.spaces.ended(process);
        if let Some(space) = space {
            self.forget(space);
            // If threads end together, the kernel reports one of them, and records of the ends of
            // others may have been lost.
            let gone = self
                .threads
                .extract_if(|_, thread| thread.process == process);
            let mut gone: Vec<Tid> = gone.map(|(tid, _)| tid).collect();
            gone.sort_unstable();
            self.late.end(process, &gone, time_ns);
            out.extend(gone.into_iter().map(|tid| Event::Exit {
                tid,
                clocks: Clocks::at(time_ns),
            }));
            let threads = &self.threads;
            self.counting.retain(|tid| threads.contains_key(&tid));
            self.switches.retain(|tid| threads.contains_key(&tid));
        }
        out.push(Event::Ended {
            time_ns,
            process,
            space,
        });
    }

    /// Takes a record of a process that begins, executes a program, maps or unmaps a library, or ends.
    pub(super) fn mapping(&mut self, record: &Mapping, out: &mut Vec<Event>) {
        let time_ns = record.time_ns;
        let process = record.ns_tgid;
        if record.head.kind == kind::END {
            self.end(process, time_ns, out);
            return;
        }
        if record.child != 0 {
            // The process that had this pid before may have ended unseen, its record lost.
            self.end(record.child, time_ns, out);
            self.late.begin(record.child);
            self.spaces.forked(process, record.child);
        }
        out.push(match record.head.kind {
            kind::EXEC => {
                // The addresses of the old program mean nothing in the new one.
                let space = self.spaces.of(process);
                self.forget(space);
                self.spaces.executed(space, process);
                if [0, self.start.pid].contains(&process) && self.threads.is_empty() {
                    // The program that sbt has started begins here, with its first thread.
                    self.start.time_ns = self.start.time_ns.max(time_ns);
                    self.counting.begin_at(self.start.time_ns);
                }
                Event::Exec {
                    time_ns,
                    process,
                    space,
                    replaced: record.head.layout != 0,
                }
            }
            kind::FORK => Event::Forked {
                time_ns,
                process,
                child: (record.child != 0).then_some(record.child),
                followed: record.head.layout == 0,
            },
            _ => Event::Mapped { time_ns, process },
        });
    }
}
