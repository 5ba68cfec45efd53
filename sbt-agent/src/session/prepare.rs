//! Prepares a target: finds it or holds it before its start, and puts the probes on.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    choice::{self, Chosen, Helper},
    start,
};
use crate::kernel::privilege;
use crate::signals;
use crate::{
    settings::Settings,
    source::{Source, abilities::Scope},
};
use sbt_program::{
    access::Invoker,
    executes,
    files::ProbedFile,
    gain::Credentials,
    launch::{self, Held},
    libraries::{self, WillMap},
    process,
    pty::Pty,
    sites::{self, Resolver},
    wanted::{Purpose, Wanted, Wish},
};

/// A target that is ready to be watched, with its probes in place.
pub struct Prepared {
    pub pid: u32,
    pub command: Vec<String>,
    pub held: Option<Held>,
    pub source: Box<dyn Source>,
    pub resolver: Resolver,
    /// The lines to print at once.
    pub lines: Vec<String>,
}

impl Prepared {
    /// Holds a program before its start and puts the probes on. `pty`: the program's terminal, if
    /// it is not to use sbt's terminal.
    pub fn run(
        command: &[OsString],
        invoker: Option<&Invoker>,
        pty: Option<&Pty>,
        shown: Option<Vec<String>>,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let program = command
            .first()
            .and_then(|name| libraries::find_program(name, std::env::var_os("PATH").as_deref()));
        let held = launch::hold(command, program.as_deref(), invoker, pty)?;
        let pid = held.pid();
        let helper = choice::helper(pid, settings)?;
        // The program has been forked with the privileges it should have.
        privilege::limit_to_set_up(pid)?;
        let wanted = Arc::new(wanted(settings));
        let arguments = &command[1.min(command.len())..];
        let as_whom = (program, invoker);
        match attach_to_program(pid, as_whom, arguments, settings, wanted, helper) {
            Ok(((source, lines), resolver)) => Ok(Self {
                pid,
                command: shown.unwrap_or_else(|| {
                    command
                        .iter()
                        .map(|argument| argument.to_string_lossy().into_owned())
                        .collect()
                }),
                held: Some(held),
                source,
                resolver,
                lines,
            }),
            Err(error) => {
                held.abandon();
                Err(error)
            }
        }
    }

    /// Puts probes on a process that runs. `helper`: from [`choice::helper`].
    pub fn attach(pid: u32, settings: &Settings, helper: Option<Helper>) -> anyhow::Result<Self> {
        let found = process::find(pid)?;
        privilege::check_process(found.pid, settings.backend)?;
        let children = settings.children.unwrap_or(false);
        let scope = if children || process::first_thread_has_ended(found.pid) {
            Scope::Everyone
        } else {
            Scope::Target
        };
        let wanted = Arc::new(wanted(settings));
        let mut resolver = Resolver::new(found.pid, None, Arc::clone(&wanted));
        let (loaded, ()) = while_loading(found.pid, true, settings, children, helper, || {
            resolver.refresh();
        });
        let (mut source, line) = loaded?;
        if let Some(scoping) = source.scoping() {
            scoping.set_scope(scope);
        }
        // From here on events report changes; before, the process may have executed another
        // program.
        resolver.refresh();
        let files = resolver.new_files();
        check_wanted(&wanted, None, &files)?;
        learn(source.as_mut(), &mut resolver)?;
        source.attach(&files)?;
        if source.has_children() {
            for child in follow(source.as_mut(), found.pid)? {
                resolver.turn_to(child);
                resolver.refresh();
            }
            resolver.turn_to(found.pid);
            source.attach(&resolver.new_files())?;
        }
        while resolver.catch_up() {
            source.attach(&resolver.new_files())?;
        }
        Ok(Self {
            pid: found.pid,
            command: found.command,
            held: None,
            source,
            resolver,
            lines: line.into_iter().collect(),
        })
    }
}

/// A source, and the lines to print at once.
type Told = (Box<dyn Source>, Vec<String>);

fn attach_to_program(
    pid: u32,
    (program, invoker): (Option<PathBuf>, Option<&Invoker>),
    arguments: &[OsString],
    settings: &Settings,
    wanted: Arc<Wanted>,
    helper: Option<Helper>,
) -> anyhow::Result<(Told, Resolver)> {
    let children = settings.children.unwrap_or(true);
    let user = invoker.map(|invoker| (invoker.uid.as_raw(), invoker.gid.as_raw()));
    let (loaded, (mut files, possible, has_children)) =
        while_loading(pid, false, settings, children, helper, || {
            // A missing program fails at its exec, with the right message.
            let paths = program.as_deref();
            let paths = paths.map_or_else(WillMap::default, libraries::will_map);
            let mut files = sites::open_all(&paths.certain, &wanted);
            // Child processes may start at any time and then run at once, so prepare their files
            // now.
            if executes::execute_others(&files) {
                let path = std::env::var_os("PATH");
                let named = program.as_deref().unwrap_or_else(|| Path::new(""));
                for program in executes::programs_named(named, arguments, path.as_deref()) {
                    let paths = libraries::will_map(&program);
                    let known = |file: &Arc<ProbedFile>| files.iter().any(|old| old.id == file.id);
                    let mut new = sites::open_all(&paths.certain, &wanted);
                    new.retain(|file| !known(file));
                    files.extend(new);
                }
            }
            let are_expected = settings.children.is_some();
            let has_children = children && (are_expected || executes::start_processes(&files));
            (files, paths.possible, has_children)
        });
    let (mut source, line) = loaded?;
    if let Some(invoker) = invoker.filter(|_| source.traces_the_start()) {
        privilege::check_user(&invoker.shown())?;
    }
    let who = Credentials::of(pid).map(|who| user.map_or(who, |user| who.become_user(user)));
    let told = program.as_deref().zip(who.as_ref());
    let told = told.and_then(|(program, who)| start::line(source.as_ref(), program, who));
    let lines = line.into_iter().chain(told).collect();
    if let Some(scoping) = source.scoping() {
        scoping.set_scope(if has_children {
            Scope::Everyone
        } else {
            Scope::Target
        });
    }
    check_wanted(&wanted, program.as_deref(), &files)?;
    files.extend(sites::open_all(&possible, &wanted));
    let mut resolver = Resolver::new(pid, program, wanted);
    resolver.know(&files);
    learn(source.as_mut(), &mut resolver)?;
    source.attach(&files)?;
    Ok(((source, lines), resolver))
}

/// Tells the source which callers to find, and how.
fn learn(source: &mut dyn Source, resolver: &mut Resolver) -> anyhow::Result<()> {
    match (resolver.new_rules(), source.callers()) {
        (Some(rules), Some(callers)) => callers.learn(&rules),
        _ => Ok(()),
    }
}

/// The user's own probes from the settings.
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

/// Fails if there is no place for one of the user's probes: an error now is better than an empty
/// report later.
fn check_wanted(
    wanted: &Wanted,
    program: Option<&Path>,
    files: &[Arc<ProbedFile>],
) -> anyhow::Result<()> {
    // A missing program fails at its exec, with the right message.
    if program.is_some() || !files.is_empty() {
        let missing = wanted.missing(files);
        anyhow::ensure!(missing.is_empty(), "{}", missing.join("\n"));
    }
    Ok(())
}

/// Prepares the source, which takes tens of milliseconds, and runs `work` meanwhile. `runs`: as in
/// [`choice::source`].
fn while_loading<T>(
    pid: u32,
    runs: bool,
    settings: &Settings,
    children: bool,
    helper: Option<Helper>,
    work: impl FnOnce() -> T,
) -> (anyhow::Result<Chosen>, T) {
    std::thread::scope(|scope| {
        let load = move || choice::source(pid, runs, settings, children, helper);
        let loading = signals::apart(|| scope.spawn(load));
        let done = work();
        let loaded = loading.join().unwrap_or_else(|panic| resume_unwind(panic));
        (loaded, done)
    })
}

/// The most passes over the descendants, to find processes forked during the pass before.
const MOST_LOOKS: usize = 16;

/// Watches the descendants of a process that already run, and returns their ids.
fn follow(source: &mut dyn Source, target: u32) -> anyhow::Result<BTreeSet<u32>> {
    let mut followed = BTreeSet::new();
    // The source follows the children of followed processes by itself.
    for _ in 0..MOST_LOOKS {
        let before = followed.len();
        for child in process::descendants(target) {
            if !followed.insert(child) {
                continue;
            }
            if let Err(error) = source.follow(child) {
                // The process has ended meanwhile.
                if process::find(child).is_err() {
                    continue;
                }
                return Err(error.context(format!("cannot watch process {child}")));
            }
        }
        if followed.len() == before {
            break;
        }
    }
    Ok(followed)
}
