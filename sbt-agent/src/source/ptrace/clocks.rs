//! CPU times and names of threads, from /proc.

use std::{collections::HashMap, fs::File, os::unix::fs::FileExt as _};

use procfs::process::Process;
use sbt_common::{Clocks, UNKNOWN};

use crate::source::twin::Announcement;
use sbt_program::{clock, process, trace::Id};

/// The largest number of files that are kept open.
const MOST_OPEN: usize = 512;

/// The open `schedstat` files of threads.
#[derive(Debug, Default)]
pub struct Usage {
    open: HashMap<Id, File>,
}

impl Usage {
    /// The clocks of a thread that has stopped at `time_ns`.
    pub fn at(&mut self, process: u32, id: Id, time_ns: u64) -> Clocks {
        let (run_ns, delay_ns) = self.read(process, id).unwrap_or((UNKNOWN, UNKNOWN));
        Clocks {
            time_ns,
            run_ns,
            delay_ns,
        }
    }

    fn read(&mut self, process: u32, id: Id) -> Option<(u64, u64)> {
        if !self.open.contains_key(&id) {
            let path = format!("/proc/{process}/task/{id}/schedstat");
            if self.open.len() >= MOST_OPEN {
                self.close();
            }
            self.open.insert(id, File::open(path).ok()?);
        }
        let file = self.open.get(&id)?;
        let mut text = [0; 80];
        let length = file.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    }

    /// Closes all files, to leave descriptors for other uses. They are opened again when needed.
    pub fn close(&mut self) {
        self.open.clear();
    }

    /// Forgets a thread that has ended: another one may get its number.
    pub fn forget(&mut self, id: Id) {
        self.open.remove(&id);
    }
}

/// The name of a thread and the start of its program's code.
pub fn told(process: u32, tid: u32) -> Announcement {
    let mut told = Announcement::default();
    if let Ok(name) = std::fs::read(format!("/proc/{process}/task/{tid}/comm")) {
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        let mut bytes = [0; 16];
        let length = name.len().min(15);
        bytes[..length].copy_from_slice(&name[..length]);
        let [first, second] = bytes.as_chunks::<8>().0 else {
            return told;
        };
        told.comm = [first, second].map(|half| u64::from_ne_bytes(*half));
    }
    let stat = Process::new_with_root(process::folder(process)).and_then(|process| process.stat());
    if let Ok(stat) = stat {
        told.start_code = stat.startcode;
    }
    told
}

/// The time now, ns.
pub fn now_ns() -> u64 {
    clock::now_ns()
}
