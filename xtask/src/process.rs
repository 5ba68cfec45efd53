//! Child processes: their environment and errors.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Settings of cargo that say where things come from, and do not change the result.
const KEPT: [&str; 7] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
    "CARGO_TERM_",
];

/// Variables that change what a compiler does, or that `cargo run` set for us.
const DROPPED: [&str; 10] = [
    "AYA_",
    "CARGO",
    "LD_LIBRARY_PATH",
    "LLVM_",
    "OUT_DIR",
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
    "SOURCE_DATE_EPOCH",
    "__CARGO",
];

/// A command without the settings of the cargo that runs us: they would reach compilers that are
/// not part of this build.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_dropped) {
            command.env_remove(name);
        }
    }
    command
}

fn is_dropped(name: &str) -> bool {
    let starts_with_any =
        |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    starts_with_any(&DROPPED) && !starts_with_any(&KEPT)
}

/// Runs `command`; its output goes to our standard error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("cannot run {}", name(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// Runs `command` and returns its standard output.
pub fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", name(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} failed ({}): {}",
            line(command),
            output.status,
            said.trim()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed no text", name(command)))
}

/// Finds the program `name` on PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// The cargo that runs us, or the one on PATH.
pub fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn line(command: &Command) -> String {
    let mut line = name(command);
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::is_dropped;

    #[test]
    fn only_what_steers_a_compiler_is_dropped() {
        for name in [
            "CARGO",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_PKG_NAME",
            "CARGO_TARGET_DIR",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "LD_LIBRARY_PATH",
        ] {
            assert!(is_dropped(name), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "RUSTUP_HOME",
            "RUSTUP_TOOLCHAIN",
            "PATH",
        ] {
            assert!(!is_dropped(name), "{name}");
        }
    }
}
