//! Chooses the source for a target: the best source that the user may use.

use crate::kernel::privilege;
use crate::{
    kernel::LoadError,
    settings::Settings,
    source::{
        Source,
        ebpf::Ebpf,
        inject::{Inject, Keeper},
        perf::Hardware,
        ptrace::{self, Ptrace},
    },
};
use sbt_engine::choices::Backend;
use sbt_engine::choices::Departures;
use sbt_program::access::rights;

/// A source, and a line on the choice for the user.
pub type Chosen = (Box<dyn Source>, Option<String>);

/// A process that some sources need beside sbt.
pub enum Helper {
    Tracer(ptrace::Process),
    Keeper(Keeper),
}

/// Starts the helper of the source for `pid`, if the settings or missing privileges make a source with one
/// likely. Call this while sbt still has its privileges: the helper gives them up for itself.
pub fn helper(pid: u32, settings: &Settings) -> anyhow::Result<Option<Helper>> {
    let tracer = || Ok(Some(Helper::Tracer(ptrace::Process::start(pid, settings)?)));
    match settings.backend {
        Backend::Ptrace => tracer(),
        Backend::Auto
            if !privilege::missing(privilege::effective()).is_empty()
                || rights::in_user_namespace() =>
        {
            tracer()
        }
        Backend::Inject => Ok(Some(Helper::Keeper(Keeper::start(pid)?))),
        Backend::Auto | Backend::Ebpf | Backend::Perf => Ok(None),
    }
}

/// Prepares the source that the settings ask for. Hardware breakpoints are used only on request:
/// there are few of them, the number a program needs is unknown before it runs, and they show less
/// than ptrace does.
///
/// `runs`: the target already runs its own program; `children`: processes that the target starts
/// are watched too; `helper`: from [`helper`].
///
/// # Errors
/// The user may not use the source, or no source is available: the message says what would
/// help.
pub fn source(
    pid: u32,
    runs: bool,
    settings: &Settings,
    children: bool,
    helper: Option<Helper>,
) -> anyhow::Result<Chosen> {
    let (tracer, keeper) = match helper {
        Some(Helper::Tracer(tracer)) => (Some(tracer), None),
        Some(Helper::Keeper(keeper)) => (None, Some(keeper)),
        None => (None, None),
    };
    let departures = settings.departures != Departures::Off;
    let by_stopping = || -> anyhow::Result<Box<dyn Source>> {
        let tracer = tracer.map_or_else(|| ptrace::Process::start(pid, settings), Ok)?;
        let source = Ptrace::begin(tracer, pid, runs, departures, children, settings)?;
        Ok(Box::new(source))
    };
    match settings.backend {
        Backend::Ptrace => return Ok((by_stopping()?, None)),
        Backend::Perf => {
            let source = Hardware::begin(pid, runs, children, settings)?;
            return Ok((Box::new(source), None));
        }
        Backend::Inject => {
            let keeper = keeper.map_or_else(|| Keeper::start(pid), Ok)?;
            let source = Inject::begin(pid, runs, settings, keeper)?;
            return Ok((Box::new(source), None));
        }
        Backend::Auto | Backend::Ebpf => {}
    }
    let counters = (&settings.events[..], settings.may_choose);
    let why = match Ebpf::load(pid, departures, children, settings.states, counters) {
        // With two capabilities these kernels load the BPF programs but allow no probes.
        Ok(source) if settings.backend == Backend::Auto && !source.may_probe() => {
            anyhow::anyhow!("before Linux 6.6 probes need root")
        }
        Ok(source) => return Ok((Box::new(source), None)),
        Err(error @ LoadError::Privilege(_)) if settings.backend == Backend::Auto => {
            privilege::explain(error)
        }
        Err(error) => return Err(privilege::explain(error)),
    };
    let source = by_stopping().map_err(|error| anyhow::anyhow!("{why}; {error:#}"))?;
    Ok((
        source,
        Some(format!("{why}; using ptrace instead (slower)")),
    ))
}
