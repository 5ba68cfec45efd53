//! Puts probes on files, and takes them off.

use std::{
    ffi::CString,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use sbt_common::MAX_KMP;

use super::{
    Ebpf, loader, perf_uprobe,
    points::{ATTACHED, CONDVARS, MAKERS, ProbeEnd, is_left, is_rare, is_region},
    refused,
};
use crate::kernel::{
    LoadError,
    bpf::{self, ProbePoint, ProgramKind},
};
use crate::source::abilities::Scope;
use sbt_engine::place::printable;
use sbt_program::{files::ProbedFile, point::Function};

impl Ebpf {
    /// Puts probes on the functions of these files. Files that have their probes already are
    /// skipped.
    pub fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        let (new, notes) = self.files.take(files);
        self.notes.extend(notes);
        if new.iter().any(|file| !file.points.is_empty()) {
            self.look_for_jumps();
        }
        for file in &new {
            self.learn_ways(file)?;
            if self.paused {
                continue;
            }
            if let Err(error) = self.attach_file(file) {
                let errno = error.downcast_ref().and_then(io::Error::raw_os_error);
                if errno == Some(libc::ESRCH) {
                    bail!(
                        "process {} ended while sbt set the probes: nothing is left to watch",
                        self.pid
                    );
                }
                return Err(error.context(probing(file)));
            }
        }
        Ok(())
    }

    /// Stores the ways to teams that the file's probes need in the map of their program.
    fn learn_ways(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        for point in &file.points {
            let Function::Kmp(place) = point.function else {
                continue;
            };
            // If the map is full, the program finds no team and does nothing.
            if self.way(&place.way).is_none() && self.kmp.len() < MAX_KMP as usize {
                self.kmp.push(place.way);
                let index = u16::try_from(self.kmp.len() - 1)?;
                self.loaded
                    .maps
                    .set_kmp(index, place.way)
                    .context("telling the probes where LLVM's OpenMP keeps its teams")?;
            }
        }
        Ok(())
    }

    fn attach_file(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        for (is, program) in MAKERS {
            let points = self.points(file, is, ProbeEnd::Entry);
            let links = self.attach_points(file, program, &points, false)?;
            self.makers.extend(links);
        }
        // Probes that invalidate a reading come before probes that rely on it.
        for (is, program) in ATTACHED {
            let points = self.points(file, is, ProbeEnd::Entry);
            let links = self.attach_points(file, program, &points, false)?;
            self.entries.extend(links);
        }
        if self.generation == 0 {
            let watched = file.points.iter().filter(|point| !is_rare(point.function));
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
        for (is, program) in CONDVARS {
            let points = self.points(file, is, ProbeEnd::Entry);
            let links = self.attach_points(file, program, &points, false)?;
            self.condvars.extend(links);
        }
        Ok(())
    }

    pub(super) fn attach_returns(&mut self, file: &ProbedFile) -> anyhow::Result<()> {
        let points = self.points(file, is_left, ProbeEnd::Return);
        let links = self.attach_points(file, "depart", &points, true)?;
        self.returns.extend(links);
        let points = self.points(file, is_region, ProbeEnd::Entry);
        let links = self.attach_points(file, "mark", &points, false)?;
        self.returns.extend(links);
        Ok(())
    }

    fn attach_points(
        &mut self,
        file: &ProbedFile,
        program: &str,
        points: &[ProbePoint],
        returns: bool,
    ) -> anyhow::Result<Vec<OwnedFd>> {
        let is_free = |point: &&ProbePoint| !self.jumps.contains(&(file.id, point.offset));
        let points: Vec<_> = points.iter().filter(is_free).copied().collect();
        if points.is_empty() {
            return Ok(Vec::new());
        }
        let loaded = match self.loaded.program(program) {
            Ok(loaded) => loaded,
            // The kernel accepts the essential programs, so watching goes on without this one.
            Err(why @ LoadError::Kernel { .. }) if !loader::NEEDED.contains(&program) => {
                let note = refused::note(program, &why.to_string());
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                return Ok(Vec::new());
            }
            Err(error) => return Err(error.into()),
        };
        // Few other processes execute a static program. Probes for all processes are on its
        // children from their beginning.
        let for_all = self.scope == Scope::Everyone || file.is_static() && self.has_children();
        let pid = (!for_all).then_some(self.pid);
        let path = CString::new(file.open_path().into_os_string().into_encoded_bytes())
            .context("a path with a NUL in it")?;
        put(self.loaded.uprobes, loaded, &path, &points, returns, pid)
    }

    /// Puts on a second set of probes, which counts from now on instead of the first. If some
    /// probes of a file cannot be attached, the new set counts all the same, and the error is
    /// returned.
    pub(super) fn attach_again(&mut self) -> anyhow::Result<()> {
        self.generation = self.generation.wrapping_add(1);
        self.look_for_jumps();
        let mut result = Ok(());
        for file in self.files.watched.clone() {
            let attached = self.attach_file(&file);
            result = result.and(attached.with_context(|| probing(&file)));
        }
        self.loaded
            .maps
            .set_generation(self.generation)
            .context("switching to another set of probes")?;
        result
    }

    /// Takes the probes of a file off that was added: all others are put on again before.
    pub(super) fn withdraw(&mut self, file: &Arc<ProbedFile>) -> anyhow::Result<()> {
        self.files.watched.retain(|known| !Arc::ptr_eq(known, file));
        if self.paused {
            return Ok(());
        }
        self.renew()
    }

    /// Takes the links of all probes on the target.
    pub(super) fn take_links(&mut self) -> Vec<OwnedFd> {
        let mut links = self.take_costly_links();
        links.append(&mut self.makers);
        links
    }

    /// Takes the links of the probes on the target, except those that stay when others go.
    pub(super) fn take_costly_links(&mut self) -> Vec<OwnedFd> {
        let mut links = std::mem::take(&mut self.entries);
        links.append(&mut self.returns);
        links.append(&mut self.condvars);
        links
    }
}

fn probing(file: &ProbedFile) -> String {
    format!("probing {}", printable(&file.shown.to_string_lossy()))
}

/// Attaches a program to points of one file, for one process (`pid`) or for everyone. Closing the
/// descriptors detaches.
pub(super) fn put(
    uprobes: ProgramKind,
    program: BorrowedFd<'_>,
    path: &CString,
    points: &[ProbePoint],
    returns: bool,
    pid: Option<u32>,
) -> anyhow::Result<Vec<OwnedFd>> {
    if uprobes == ProgramKind::UprobeMulti {
        let pid = pid.unwrap_or(0);
        let link = bpf::attach_uprobe_multi(program, path, points, returns, pid)?;
        return Ok(vec![link]);
    }
    let links = points
        .iter()
        .map(|point| perf_uprobe::attach(program, path, *point, returns, pid))
        // A process that is gone needs no probes.
        .filter(|link| {
            let error = link.as_ref().err().and_then(io::Error::raw_os_error);
            error != Some(libc::ESRCH)
        })
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                anyhow::anyhow!("before Linux 6.6 probes need root: run sbt with sudo")
            }
            _ => error.into(),
        })?;
    Ok(links.into_iter().flatten().collect())
}

/// Closes links. Each closing waits until no CPU can be in the program any more, which takes tens
/// of milliseconds; so all are closed in parallel.
pub(super) fn detach(links: Vec<OwnedFd>) {
    std::thread::scope(|scope| {
        for link in links {
            scope.spawn(move || drop(link));
        }
    });
}
