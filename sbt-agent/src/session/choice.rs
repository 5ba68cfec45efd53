//! Which source watches a target: the best that this user may use.

use super::{Departures, privilege};
use crate::{
    settings::Settings,
    source::{
        Backend, Source,
        ebpf::{Ebpf, loader::LoadError},
        ptrace::Ptrace,
    },
};

/// A source, and what the user should know of its choice at once.
pub type Chosen = (Box<dyn Source>, Option<String>);

/// Gets the source ready that the settings ask for. `runs`: the target runs its own program
/// already; `children`: those that it starts are watched too.
///
/// # Errors
/// It may not be used, or there is none: the line says what would help.
pub fn source(pid: u32, runs: bool, settings: &Settings, children: bool) -> anyhow::Result<Chosen> {
    let departures = settings.departures != Departures::Off;
    let traced = || -> anyhow::Result<Box<dyn Source>> {
        let source = Ptrace::begin(pid, runs, departures, children, settings)?;
        Ok(Box::new(source))
    };
    match settings.backend {
        Backend::Ptrace => return Ok((traced()?, None)),
        Backend::Perf => anyhow::bail!("--backend perf is not there yet; --backend ptrace is"),
        Backend::Auto | Backend::Ebpf => {}
    }
    match Ebpf::load(pid, departures, children, settings.states, &settings.events) {
        Ok(source) => Ok((Box::new(source), None)),
        Err(error @ LoadError::Privilege(_)) if settings.backend == Backend::Auto => {
            let why = privilege::explain(error);
            let source = traced().map_err(|error| anyhow::anyhow!("{why}; {error:#}"))?;
            let line = format!("{why}; using ptrace instead (slower)");
            Ok((source, Some(line)))
        }
        Err(error) => Err(privilege::explain(error)),
    }
}
