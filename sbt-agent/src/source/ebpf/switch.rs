//! Switches what is watched while the target runs, and on which processes.

use anyhow::Context as _;

use super::{Ebpf, attach::detach};
use crate::kernel::bpf;
use crate::source::abilities::Scope;

impl Ebpf {
    /// Widens the probes to all processes when the target starts its first child.
    pub fn widen_for_children(&mut self) -> anyhow::Result<()> {
        if self.scope == Scope::Everyone {
            return Ok(());
        }
        self.scope = Scope::Everyone;
        if self.files.watched.iter().all(|file| file.is_static()) {
            // Probes of static files are on every process already.
            return Ok(());
        }
        self.renew()?;
        self.notes.push(
            "the program started a process unexpectedly: sbt set the probes in that process a \
             moment after its start"
                .into(),
        );
        Ok(())
    }

    /// Replaces the probes by probes on every process that maps the files.
    pub fn widen(&mut self) -> anyhow::Result<()> {
        if self.scope == Scope::Everyone {
            return Ok(());
        }
        self.scope = Scope::Everyone;
        if self.has_children() && self.files.watched.iter().all(|file| file.is_static()) {
            // Probes of static files are on every process already.
            return Ok(());
        }
        self.renew()?;
        self.notes.push(
            "the program's first thread ended before the others: from then on the probes slowed \
             every process that uses the same C library"
                .into(),
        );
        Ok(())
    }

    /// Puts on a second set of probes, lets it take over, and takes the first set off. No event is
    /// missed or counted twice.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        if self.paused {
            return Ok(());
        }
        let old = self.take_links();
        let result = self.attach_again();
        detach(old);
        result
    }

    /// Takes the probes off, so that the target runs as if not watched. Starts and ends of threads
    /// are still reported.
    pub fn pause(&mut self) {
        self.paused = true;
        let mut links = self.take_costly_links();
        links.append(&mut self.futexes);
        links.extend(self.switches.take());
        detach(links);
    }

    /// Puts the probes on again. What was known of barriers is kept.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        if !self.paused {
            return Ok(());
        }
        self.paused = false;
        self.watch_switches();
        let old = self.take_links();
        let result = self.attach_again();
        detach(old);
        if self.watch_futexes {
            self.attach_futexes()?;
        }
        result
    }

    /// Puts probes on condition variables, or takes them off.
    pub fn set_condvars(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.watch_condvars {
            return Ok(());
        }
        self.watch_condvars = on;
        if self.paused {
            // `resume` attaches them with the other probes.
        } else if on {
            for file in self.files.watched.clone() {
                self.attach_condvars(&file)?;
            }
        } else {
            detach(std::mem::take(&mut self.condvars));
        }
        Ok(())
    }

    /// Starts or stops watching the system calls of futexes. While watched, the programs run at
    /// each system call of every process.
    pub fn set_futexes(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.watch_futexes {
            return Ok(());
        }
        if self.paused {
            // `resume` attaches them with the other probes.
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
            .context("telling the BPF programs when the watching of futexes began")?;
        // Waits from before the last detaching have no end: how they ended was not seen.
        self.clear_locks(None).context("forgetting locks")?;
        // Attached in this order, so that no beginning of a wait is seen without its end.
        for tracepoint in [c"sys_exit", c"sys_enter"] {
            let program = self.loaded.program(tracepoint.to_str()?)?;
            let link = bpf::attach_raw_tracepoint(program, &tracepoint.to_owned()).context(
                "cannot watch the system calls of futexes; --futex off does not watch them",
            )?;
            self.futexes.push(link);
        }
        Ok(())
    }

    /// Starts or stops reporting departures.
    pub fn set_departures(&mut self, on: bool) -> anyhow::Result<()> {
        if on == self.departures {
            return Ok(());
        }
        if self.paused {
            // `resume` attaches them with the other probes.
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
