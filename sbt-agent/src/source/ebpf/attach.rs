//! Probes are put on files, and taken off.

use std::{ffi::CString, io, os::fd::OwnedFd, sync::Arc};

use anyhow::{Context as _, bail};
use sbt_common::{MAX_KMP, layout};

use super::{
    Ebpf, Scope,
    bpf::{self, ProbePoint, ProgramKind},
    perf_uprobe,
    points::{ATTACHED, At, CONDVARS, is_init, is_left, is_mapped, is_region},
};
use crate::{
    place::printable,
    target::{elf::Function, files::ProbedFile},
};

impl Ebpf {
    /// Puts probes on what files have to offer; those known are passed over.
    pub fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        // A pthread_barrier_wait of nobody knows whom, in front of a C
        // library's own, passes the call on: to watch both would count twice.
        let is_known = |file: &ProbedFile| {
            file.points.iter().any(|point| {
                point.function == Function::BarrierWait && point.layout != layout::OPAQUE
            })
        };
        let has_known = files.iter().chain(&self.files).any(|file| is_known(file));
        for file in files {
            let mut seen = self.files.iter().chain(&self.passed_over);
            if seen.any(|known| known.id == file.id) {
                continue;
            }
            if has_known && !is_known(file) && file.has(Function::BarrierWait) {
                self.notes.push(format!(
                    "{} has a pthread_barrier_wait of its own, which is taken to call the C \
                     library's: only that is watched",
                    printable(&file.shown.to_string_lossy())
                ));
                self.passed_over.push(Arc::clone(file));
                continue;
            }
            self.files.push(Arc::clone(file));
            self.learn_ways(file)?;
            if self.paused {
                continue;
            }
            if let Err(error) = self.attach_file(file) {
                let errno = error.downcast_ref().and_then(io::Error::raw_os_error);
                if errno == Some(libc::ESRCH) {
                    bail!(
                        "process {} ended while the probes were put on it: nothing is left to \
                         watch",
                        self.pid
                    );
                }
                let shown = file.shown.to_string_lossy();
                return Err(error.context(format!("probing {}", printable(&shown))));
            }
        }
        Ok(())
    }

    /// Hands the ways to teams that a file's probes need to their program.
    fn learn_ways(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        for point in &file.points {
            let Function::Kmp(place) = point.function else {
                continue;
            };
            // Beyond the map the program finds none, and does nothing.
            if self.way(&place.way).is_none() && self.kmp.len() < MAX_KMP as usize {
                self.kmp.push(place.way);
                let index = u16::try_from(self.kmp.len() - 1)?;
                self.loaded
                    .set_kmp(index, place.way)
                    .context("telling the probes where LLVM's OpenMP keeps its teams")?;
            }
        }
        Ok(())
    }

    fn attach_file(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        let path = CString::new(file.open_path().into_os_string().into_encoded_bytes())
            .context("a path with a NUL in it")?;
        // What invalidates a reading is watched before what relies on it.
        for (is, program) in ATTACHED {
            let points = self.points(file, is, At::Entry);
            let links = self.attach_points(program, &path, &points, false)?;
            self.entries.extend(links);
        }
        if self.generation == 0 {
            let watched = file
                .points
                .iter()
                .filter(|point| !is_mapped(point.function) && !is_init(point.function));
            self.placement.probes += watched.clone().count();
            self.placement.slow += watched.filter(|point| self.is_stepped(point)).count();
        }
        if self.departures {
            self.attach_returns(file)?;
        }
        if self.watch_condvars {
            self.attach_condvars(file)?;
        }
        Ok(())
    }

    pub(super) fn attach_condvars(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        let path = CString::new(file.open_path().into_os_string().into_encoded_bytes())
            .context("a path with a NUL in it")?;
        for (is, program) in CONDVARS {
            let points = self.points(file, is, At::Entry);
            let links = self.attach_points(program, &path, &points, false)?;
            self.condvars.extend(links);
        }
        Ok(())
    }

    pub(super) fn attach_returns(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        let path = CString::new(file.open_path().into_os_string().into_encoded_bytes())
            .context("a path with a NUL in it")?;
        let points = self.points(file, is_left, At::Return);
        let links = self.attach_points("depart", &path, &points, true)?;
        self.returns.extend(links);
        let points = self.points(file, is_region, At::Entry);
        let links = self.attach_points("mark", &path, &points, false)?;
        self.returns.extend(links);
        Ok(())
    }

    fn attach_points(
        &self,
        program: &str,
        path: &CString,
        points: &[ProbePoint],
        returns: bool,
    ) -> anyhow::Result<Vec<OwnedFd>> {
        if points.is_empty() {
            return Ok(Vec::new());
        }
        let program = self.loaded.program(program)?;
        match self.loaded.uprobes {
            ProgramKind::UprobeMulti => {
                let pid = match self.scope {
                    Scope::Target => self.pid,
                    Scope::Everyone => 0,
                };
                let link = bpf::attach_uprobe_multi(program, path, points, returns, pid)?;
                Ok(vec![link])
            }
            _ => points
                .iter()
                .map(|point| perf_uprobe::attach(program, path, *point, returns, self.pid))
                .collect::<io::Result<Vec<_>>>()
                .map(|links| links.into_iter().flatten().collect())
                .map_err(Into::into),
        }
    }

    /// Puts another set of probes on, which counts in the place of any before.
    pub(super) fn attach_again(&mut self) -> anyhow::Result<()> {
        self.generation = self.generation.wrapping_add(1);
        for file in self.files.clone() {
            self.attach_file(&file)?;
        }
        self.loaded
            .set_generation(self.generation)
            .context("switching to another set of probes")
    }

    /// Of all probes on the target.
    pub(super) fn take_links(&mut self) -> Vec<OwnedFd> {
        let mut links = std::mem::take(&mut self.entries);
        links.append(&mut self.returns);
        links.append(&mut self.condvars);
        links
    }
}

/// Closes links. Each waits until no CPU can be in its program any more, which
/// takes tens of milliseconds; so they all wait at once.
pub(super) fn detach(links: Vec<OwnedFd>) {
    std::thread::scope(|scope| {
        for link in links {
            scope.spawn(move || drop(link));
        }
    });
}
