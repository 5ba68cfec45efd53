//! Which source watches a target: the best that this user may use.

use crate::kernel::privilege;
use crate::{
    kernel::LoadError,
    settings::Settings,
    source::{
        Source,
        ebpf::Ebpf,
        perf::Hardware,
        ptrace::{self, Ptrace},
    },
};
use sbt_engine::choices::Backend;
use sbt_engine::choices::Departures;
use sbt_program::access::rights;

/// A source, and what the user should know of its choice at once.
pub type Chosen = (Box<dyn Source>, Option<String>);

/// What is to be started while sbt has its privileges still: the process that traces `pid`, if
/// it will be wanted.
pub fn tracer(pid: u32, settings: &Settings) -> anyhow::Result<Option<ptrace::Process>> {
    let wanted = match settings.backend {
        Backend::Ptrace => true,
        Backend::Auto => {
            !privilege::missing(privilege::effective()).is_empty() || rights::in_user_namespace()
        }
        Backend::Ebpf | Backend::Perf => false,
    };
    wanted
        .then(|| ptrace::Process::start(pid, settings))
        .transpose()
}

/// Gets the source ready that the settings ask for. Breakpoints of the processor are only for
/// those who ask for them: they are few, nobody knows before a program runs how many it would
/// need, and they show less than threads that stop do.
///
/// `runs`: the target runs its own program already; `children`: those that it starts are
/// watched too; `tracer`: see [`tracer`].
///
/// # Errors
/// It may not be used, or there is none: the line says what would help.
pub fn source(
    pid: u32,
    runs: bool,
    settings: &Settings,
    children: bool,
    tracer: Option<ptrace::Process>,
) -> anyhow::Result<Chosen> {
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
        Backend::Auto | Backend::Ebpf => {}
    }
    let counters = (&settings.events[..], settings.may_choose);
    let why = match Ebpf::load(pid, departures, children, settings.states, counters) {
        // With two capabilities the programs can be loaded there, and nothing be probed.
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
