//! Gets a target ready: found or held before its start, probed.

use std::{ffi::OsString, path::Path, sync::Arc};

use super::{Departures, privilege};
use crate::{
    settings::Settings,
    source::ebpf::{Ebpf, Scope},
    target::{
        files::ProbedFile,
        launch::{self, Held, Invoker},
        libraries::{self, WillMap},
        process,
        sites::{self, Resolver},
        wanted::{Purpose, Wanted, Wish},
    },
};

/// A target that is ready to be watched, with its probes in place.
pub struct Prepared {
    pub pid: u32,
    pub command: Vec<String>,
    pub held: Option<Held>,
    pub source: Ebpf,
    pub resolver: Resolver,
}

impl Prepared {
    /// Holds a program before its start, with its probes in place.
    pub fn run(
        command: &[OsString],
        invoker: Option<&Invoker>,
        shown: Option<Vec<String>>,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let program = command
            .first()
            .and_then(|name| libraries::find_program(name, std::env::var_os("PATH").as_deref()));
        let held = launch::hold(command, program.as_deref(), invoker)?;
        let pid = held.pid();
        let wanted = Arc::new(wanted(settings));
        match attach_to_program(pid, program.as_deref(), invoker, settings, &wanted) {
            Ok((source, files)) => Ok(Self {
                pid,
                command: shown.unwrap_or_else(|| {
                    command
                        .iter()
                        .map(|argument| argument.to_string_lossy().into_owned())
                        .collect()
                }),
                held: Some(held),
                source,
                resolver: {
                    let mut resolver = Resolver::new(pid, program, wanted);
                    resolver.know(&files);
                    resolver
                },
            }),
            Err(error) => {
                held.abandon();
                Err(error)
            }
        }
    }

    /// Probes a process that runs.
    pub fn attach(pid: u32, settings: &Settings) -> anyhow::Result<Self> {
        let found = process::find(pid)?;
        privilege::check_process(found.pid)?;
        let scope = if process::first_thread_has_ended(found.pid) {
            Scope::Everyone
        } else {
            Scope::Target
        };
        let mut source = load(found.pid, scope, settings)?;
        let wanted = Arc::new(wanted(settings));
        let mut resolver = Resolver::new(found.pid, None, Arc::clone(&wanted));
        resolver.refresh();
        let files = resolver.new_files();
        check_wanted(&wanted, None, &files)?;
        source.attach(&files)?;
        Ok(Self {
            pid: found.pid,
            command: found.command,
            held: None,
            source,
            resolver,
        })
    }
}

fn attach_to_program(
    pid: u32,
    program: Option<&Path>,
    invoker: Option<&Invoker>,
    settings: &Settings,
    wanted: &Wanted,
) -> anyhow::Result<(Ebpf, Vec<Arc<ProbedFile>>)> {
    let mut source = load(pid, Scope::Target, settings)?;
    let user = invoker.map(|invoker| (invoker.uid.as_raw(), invoker.gid.as_raw()));
    // A program that is not there fails at its exec, with the right message.
    let paths = program.map_or_else(WillMap::default, |path| libraries::will_map(path, user));
    let mut files = sites::open_all(&paths.certain, wanted);
    check_wanted(wanted, program, &files)?;
    files.extend(sites::open_all(&paths.possible, wanted));
    source.attach(&files)?;
    Ok((source, files))
}

/// The probes of the user's own that the settings ask for.
fn wanted(settings: &Settings) -> Wanted {
    let barriers = settings.barriers.iter().map(|barrier| Wish {
        at: barrier.function.clone(),
        purpose: Purpose::Barrier {
            object: barrier.object,
            count: barrier.count,
        },
    });
    let marks = (0_u8..=u8::MAX).zip(&settings.marks);
    let marks = marks.map(|(number, mark)| Wish {
        at: mark.at.clone(),
        purpose: Purpose::Mark(number),
    });
    Wanted(barriers.chain(marks).collect())
}

/// Nothing to put a probe on is an error now, and not an empty report later.
fn check_wanted(
    wanted: &Wanted,
    program: Option<&Path>,
    files: &[Arc<ProbedFile>],
) -> anyhow::Result<()> {
    // What is not there fails at its exec, with the right message.
    if program.is_some() || !files.is_empty() {
        let missing = wanted.missing(files);
        anyhow::ensure!(missing.is_empty(), "{}", missing.join("\n"));
    }
    Ok(())
}

fn load(pid: u32, scope: Scope, settings: &Settings) -> anyhow::Result<Ebpf> {
    Ebpf::load(pid, scope, settings.departures != Departures::Off).map_err(privilege::explain)
}
