//! Starts or joins programs, and watches them.

use std::{ffi::OsString, time::Duration};

use anyhow::Context as _;

use super::chosen::{
    fresh, guard_watching, into_folder, invoker, look, narration, recording, settings, wish,
};
use crate::{
    cli::Options,
    demo,
    output::{self, guard::PROGRAM},
    session::{self, Target},
    usage::Usage,
};
use sbt_program::{access, launch, libraries, process};

/// Joins a process.
pub fn attach(options: &Options, pid: u32) -> anyhow::Result<u8> {
    let Some(effective) = settings(options, None)? else {
        anyhow::bail!("SBT_NO_DEBUG=1 forbids watching; unset it to attach to a process");
    };
    let program = process::folder(pid).join("exe");
    guard_watching(options, &effective, &[(PROGRAM, Some(&program))], &[])?;
    let _fresh = fresh(options);
    access::target::is_process(pid);
    let settings = effective.settings;
    let wish = wish(options, true)?;
    let record = recording(options)?;
    let target = Target::Attach { pid };
    let narration = narration(options, &settings);
    let look = look(options)?;
    session::watch(&target, settings, narration, record, look, |report| {
        output::deliver(report, &wish)
    })?;
    Ok(0)
}

/// Starts a demo program of sbt, which does a fixed amount of work or runs for a given time.
pub fn demo(
    name: &str,
    threads: Option<u32>,
    (scale, time): (Option<f64>, Option<Duration>),
    as_root: bool,
    options: &Options,
) -> anyhow::Result<u8> {
    if name == "list" {
        for (name, what) in demo::NAMES {
            output::print(&format!("{name:<12} {what}\n"))?;
        }
        return Ok(0);
    }
    demo::check(name).map_err(|error| Usage(format!("{error:#}")))?;
    // More threads than CPUs would be the first thing to say of each program.
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = threads.unwrap_or(u32::try_from(cpus.clamp(2, 4))?);
    let size = demo::Size::chosen(scale, time);
    let scale = size.factor();
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(Usage(format!(
            "--scale {scale}: expected a number above 0, such as 0.5"
        ))
        .into());
    }
    let binary = std::env::current_exe().context("cannot find sbt's own binary")?;
    let hangs = name == demo::DEADLOCK;
    let mut program = vec![
        binary.into_os_string(),
        "__demo".into(),
        name.into(),
        threads.to_string().into(),
        scale.to_string().into(),
    ];
    if let demo::Size::Time(time) = size {
        program.push(format!("--seconds={}", time.as_secs_f64()).into());
    }
    if hangs && look(options)?.is_some() {
        // Leave the user time to read the screen.
        program.push("--patient".into());
    }
    let shown = vec!["sbt".into(), "demo".into(), name.to_owned()];
    let hang_time = hangs.then_some(demo::HANG_TIME);
    run(program, Some(shown), as_root, options, hang_time)
}

/// Starts a program. `shown`: the command to show instead of the real one; `hang_time`: a hang time
/// that suits the program, unless the user has set one.
pub fn run(
    command: Vec<OsString>,
    shown: Option<Vec<String>>,
    as_root: bool,
    options: &Options,
    hang_time: Option<Duration>,
) -> anyhow::Result<u8> {
    let invoker = invoker(as_root);
    let path = command
        .first()
        .and_then(|name| libraries::find_program(name, std::env::var_os("PATH").as_deref()));
    let Some(effective) = settings(options, hang_time)? else {
        return Err(launch::become_program(
            &command,
            path.as_deref(),
            invoker.as_ref(),
        ));
    };
    let of_rank = into_folder(options)?;
    let options = of_rank.as_ref().unwrap_or(options);
    guard_watching(options, &effective, &[(PROGRAM, path.as_deref())], &[])?;
    let mut settings = effective.settings;
    if shown.is_some() {
        // A demo starts no processes.
        settings.children.get_or_insert(false);
    }
    let _fresh = fresh(options);
    let wish = wish(options, false)?;
    let record = recording(options)?;
    let target = Target::Run {
        command,
        invoker,
        shown,
    };
    let narration = narration(options, &settings);
    let look = look(options)?;
    let status = session::watch(&target, settings, narration, record, look, |report| {
        output::deliver(report, &wish)
    })?;
    Ok(status.unwrap_or(0))
}
