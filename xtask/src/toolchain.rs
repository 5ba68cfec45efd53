//! The compiler of the object, which must be able to build `core` from source for BPF.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::linker::Linker;
use crate::workspace::Workspace;
use crate::{debian, process};

/// The choice of a compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// A nightly with rust-src where rustup has one, else Debian's packages
    Auto,
    /// rustup's nightly, with the component rust-src
    Nightly,
    /// Debian's packages, unpacked into the target folder
    Debian,
}

/// A compiler, a cargo that drives it, and a linker that reads its bitcode.
pub struct Toolchain {
    /// cargo of any version; a stable one needs `RUSTC_BOOTSTRAP`.
    pub cargo: PathBuf,
    pub rustc: PathBuf,
    /// Folder of rustc's shared libraries, if rustc does not find them itself.
    pub libraries: Option<PathBuf>,
    pub linker: Linker,
    /// Versions of rustc and its LLVM, as recorded beside the object.
    pub compiler: String,
}

impl Toolchain {
    /// Finds or downloads the compiler.
    pub fn prepare(choice: Choice, workspace: &Workspace) -> Result<Self> {
        let dir = workspace.toolchains();
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        match (choice, nightly_sysroot()) {
            (Choice::Debian, _) | (Choice::Auto, None) => Self::debian(&dir),
            (_, Some(sysroot)) => Self::nightly(&dir, &sysroot),
            (Choice::Nightly, None) => bail!(
                "no nightly with rust-src: run `rustup toolchain install nightly --component rust-src`, or use --toolchain debian"
            ),
        }
    }

    fn nightly(dir: &Path, sysroot: &Path) -> Result<Self> {
        let rustc = sysroot.join("bin/rustc");
        let version = Version::of(&rustc, None)?;
        let linker = match Linker::on_path() {
            Some(linker) => linker,
            None => Linker::build(dir, &version.llvm, None)?,
        };
        Ok(Self {
            cargo: sysroot.join("bin/cargo"),
            rustc,
            libraries: None,
            linker,
            compiler: version.to_string(),
        })
    }

    fn debian(dir: &Path) -> Result<Self> {
        let prefix = debian::unpack(dir)?;
        let libraries = debian::library_dir(&prefix)?;
        let rustc = prefix.join("bin/rustc");
        let version = Version::of(&rustc, Some(&libraries))?;
        let linker = Linker::build(dir, &version.llvm, Some(&libraries))?;
        Ok(Self {
            cargo: process::cargo(),
            rustc,
            libraries: Some(libraries),
            linker,
            compiler: version.to_string(),
        })
    }
}

/// The folder of rustup's nightly, if it has the source of `core`.
fn nightly_sysroot() -> Option<PathBuf> {
    let printed = process::read(
        process::command("rustup").args(["run", "nightly", "rustc", "--print", "sysroot"]),
    )
    .ok()?;
    let sysroot = PathBuf::from(printed.trim());
    sysroot
        .join("lib/rustlib/src/rust/library/core")
        .is_dir()
        .then_some(sysroot)
}

/// The versions that `rustc -vV` prints.
struct Version {
    rustc: String,
    llvm: String,
}

impl Version {
    fn of(rustc: &Path, libraries: Option<&Path>) -> Result<Self> {
        let mut command = process::command(rustc);
        command.arg("-vV");
        if let Some(libraries) = libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let text = process::read(&mut command)?;
        Self::parse(&text).with_context(|| format!("{} names no LLVM", rustc.display()))
    }

    fn parse(text: &str) -> Option<Self> {
        let rustc = text.lines().next()?.to_owned();
        let llvm = text
            .lines()
            .find_map(|line| line.strip_prefix("LLVM version: "))?
            .to_owned();
        Some(Self { rustc, llvm })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, LLVM {}", self.rustc, self.llvm)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn the_version_names_llvm_too() {
        let text = "rustc 1.96.0 (ac68faa20 2026-05-25)\nbinary: rustc\nLLVM version: 22.1.8\n";
        let version = Version::parse(text).unwrap().to_string();
        assert_eq!(version, "rustc 1.96.0 (ac68faa20 2026-05-25), LLVM 22.1.8");
        assert!(Version::parse("rustc 1.96.0").is_none());
    }
}
