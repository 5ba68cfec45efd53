//! Runs with a time limit.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::read;

/// The result of a run.
pub enum Ran {
    /// The run ended by itself.
    Ended(Times),
    /// The run was cut off.
    Cut,
}

/// Times of a run that ended by itself.
pub struct Times {
    /// Time by the program's own clock, s.
    pub own: f64,
    /// Time of the whole command, s.
    pub wall: f64,
    /// Standard output.
    pub output: String,
}

/// Runs `command` and all processes that it starts for at most `limit`.
///
/// # Errors
/// If the command cannot be run or fails; the error contains its output.
pub fn limited(command: &mut Command, limit: Duration) -> Result<Ran> {
    let name = command.get_program().to_string_lossy().into_owned();
    let begin = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A process group, so that all its processes can be killed together.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let group = Pid::from_raw(child.id().cast_signed());
    let (send, receive) = mpsc::channel();
    let reader = thread::spawn(move || {
        let output = child.wait_with_output();
        // The receiver may have given up.
        let _gone = send.send(output);
    });
    let Ok(output) = receive.recv_timeout(limit) else {
        // The process group may have ended by itself at this moment.
        let _gone = killpg(group, Signal::SIGKILL);
        let _joined = reader.join();
        return Ok(Ran::Cut);
    };
    let wall = begin.elapsed().as_secs_f64();
    let output = output.with_context(|| format!("cannot run {name}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", read::reason(&said, &output.status.to_string()));
    }
    let own = read::own_time(&stdout)
        .with_context(|| format!("the program did not say how long it took: {stdout:?}"))?;
    Ok(Ran::Ended(Times {
        own,
        wall,
        output: stdout,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_takes_too_long_is_cut_off_with_all_that_it_started() {
        let ran = limited(
            &mut shell("sleep 600 & sleep 600"),
            Duration::from_millis(50),
        );
        assert!(matches!(ran, Ok(Ran::Cut)));
    }

    #[test]
    fn what_ends_tells_its_own_time() {
        let limit = Duration::from_mins(1);
        let Ok(Ran::Ended(times)) = limited(&mut shell("echo seconds 1.5"), limit) else {
            panic!("it did not end");
        };
        assert!((times.own - 1.5).abs() < 1e-9);
        let error = limited(&mut shell("echo it is broken >&2; exit 3"), limit).err();
        assert_eq!(error.unwrap().to_string(), "it is broken");
        assert!(limited(&mut shell("echo nothing"), limit).is_err());
    }
}
