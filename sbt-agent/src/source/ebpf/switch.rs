//! What is watched while the target runs, and by probes on whom.

use anyhow::Context as _;

use super::{Ebpf, attach::detach};
use crate::kernel::bpf;
use crate::source::Scope;

impl Ebpf {
    /// The target has a first child: its probes must be on others too.
    pub fn widen_for_children(&mut self) -> anyhow::Result<()> {
        if self.scope == Scope::Everyone {
            return Ok(());
        }
        self.scope = Scope::Everyone;
        if self.files.watched.iter().all(|file| file.is_static()) {
            // Their probes are for everyone already.
            return Ok(());
        }
        self.renew()?;
        self.notes.push(
            "the program started a process, which was not expected of it: the probes came on that \
             one a moment after its start"
                .into(),
        );
        Ok(())
    }

    /// Goes over to probes for everyone.
    pub fn widen(&mut self) -> anyhow::Result<()> {
        if self.scope == Scope::Everyone {
            return Ok(());
        }
        self.scope = Scope::Everyone;
        if self.has_children() && self.files.watched.iter().all(|file| file.is_static()) {
            // Its probes are for everyone already.
            return Ok(());
        }
        self.renew()?;
        self.notes.push(
            "the target's first thread ended before the others: from then on every process that \
             uses the same C library paid for the probes"
                .into(),
        );
        Ok(())
    }

    /// Puts a second set of probes on, lets it take over, and takes the first
    /// one off: nothing is missed or counted twice.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        let old = self.take_links();
        let result = if self.paused {
            Ok(())
        } else {
            self.attach_again()
        };
        detach(old);
        result
    }

    /// Takes the probes off the target: it is as without us. What tells of the
    /// lives of threads stays.
    pub fn pause(&mut self) {
        self.paused = true;
        let mut links = self.take_links();
        links.append(&mut self.futexes);
        links.extend(self.switches.take());
        detach(links);
    }

    /// Puts them on again. What is known of barriers is from before.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        if !self.paused {
            return Ok(());
        }
        self.paused = false;
        self.watch_switches();
        let result = self.attach_again();
        if self.watch_futexes {
            self.attach_futexes()?;
        }
        result
    }

    /// Puts the probes of condition variables on, or takes them off.
    pub fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.watch_condvars {
            return Ok(());
        }
        self.watch_condvars = on;
        if self.paused {
            // With the others, when they come.
        } else if on {
            for file in self.files.watched.clone() {
                self.attach_condvars(&file)?;
            }
        } else {
            detach(std::mem::take(&mut self.condvars));
        }
        Ok(())
    }

    /// Starts or stops to watch the system calls of futexes. While they are, the
    /// programs run at each system call of every process.
    pub fn set_futexes(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.watch_futexes {
            return Ok(());
        }
        if self.paused {
            // With the others, when they come.
        } else if on {
            self.attach_futexes()?;
        } else {
            detach(std::mem::take(&mut self.futexes));
        }
        self.watch_futexes = on;
        Ok(())
    }

    fn attach_futexes(&mut self) -> anyhow::Result<()> {
        self.loaded
            .maps
            .begin_futexes()
            .context("telling the programs since when futexes are watched")?;
        // Who waited when they came off has not been seen to go on.
        self.clear_locks(None).context("forgetting locks")?;
        // The end of a wait is seen before its beginning is.
        for tracepoint in [c"sys_exit", c"sys_enter"] {
            let program = self.loaded.program(tracepoint.to_str()?)?;
            let link = bpf::attach_raw_tracepoint(program, &tracepoint.to_owned())
                .context("cannot watch the system calls of futexes; --futex off does without")?;
            self.futexes.push(link);
        }
        Ok(())
    }

    /// Starts or stops to report departures.
    pub fn set_departures(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.departures {
            return Ok(());
        }
        if self.paused {
            // With the others, when they come.
        } else if on {
            for file in self.files.watched.clone() {
                self.attach_returns(&file)?;
            }
        } else {
            detach(std::mem::take(&mut self.returns));
        }
        self.departures = on;
        Ok(())
    }
}
