//! bpf-linker, which joins the compiler's bitcode into one BPF object and writes BTF.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{debian, process};

const VERSION: &str = "0.13.0";

/// The major versions of LLVM with which this bpf-linker can be built.
const LLVM: std::ops::RangeInclusive<u32> = 21..=23;

/// A bpf-linker that reads the compiler's bitcode.
pub struct Linker {
    pub path: PathBuf,
    /// Version with LLVM's, as recorded beside the object. `None` if the version of LLVM is
    /// unknown: then it is not known whether two builds used the same one.
    pub llvm: Option<String>,
    /// The version that the program prints.
    pub version: String,
}

impl Linker {
    /// The text recorded beside the object.
    pub fn identity(&self) -> String {
        let llvm = self.llvm.as_deref().unwrap_or("unknown");
        format!("{}, LLVM {llvm}", self.version)
    }

    /// The bpf-linker on PATH.
    pub fn on_path() -> Option<Self> {
        let path = process::on_path("bpf-linker")?;
        let version = version(&path, None).ok()?;
        Some(Self {
            path,
            llvm: None,
            version,
        })
    }

    /// Builds bpf-linker under `dir` unless an earlier run did. `llvm`: the LLVM version of the
    /// compiler, such as 22.1.8. `libraries`: a folder with the compiler's own LLVM, used instead
    /// of the system's.
    pub fn build(dir: &Path, llvm: &str, libraries: Option<&Path>) -> Result<Self> {
        let major = major(llvm)?;
        if !LLVM.contains(&major) {
            bail!(
                "bpf-linker {VERSION} cannot be built with LLVM {major} of this rustc: put a bpf-linker for LLVM {major} on PATH, or choose another --toolchain"
            );
        }
        let prefix = PathBuf::from(format!("/usr/lib/llvm-{major}"));
        let root = dir.join(format!("bpf-linker-{VERSION}-llvm-{major}"));
        let path = root.join("bin/bpf-linker");
        if !path.exists() {
            install(dir, &root, &prefix, major)?;
        }
        let version = version(&path, libraries)?;
        let llvm = if libraries.is_some() {
            llvm.to_owned()
        } else {
            process::read(process::command(prefix.join("bin/llvm-config")).arg("--version"))?
                .trim()
                .to_owned()
        };
        Ok(Self {
            path,
            llvm: Some(llvm),
            version,
        })
    }
}

fn install(dir: &Path, root: &Path, prefix: &Path, major: u32) -> Result<()> {
    let packages = [
        format!("llvm-{major}-dev"),
        format!("libpolly-{major}-dev"),
        "zlib1g-dev".to_owned(),
        "libzstd-dev".to_owned(),
    ];
    debian::require(&packages).with_context(|| {
        format!(
            "bpf-linker for LLVM {major} of this rustc cannot be built (one on PATH serves a nightly; or choose another --toolchain)"
        )
    })?;
    eprintln!("building bpf-linker {VERSION} with LLVM {major}: once, about a minute");
    let scratch = dir.join("bpf-linker-build");
    process::run(
        process::command(process::cargo())
            .args(["install", "bpf-linker", "--version", VERSION, "--locked"])
            .args(["--no-default-features", "--features"])
            .arg(format!("llvm-{major}"))
            .arg("--root")
            .arg(root)
            .arg("--target-dir")
            .arg(&scratch)
            // LLVM does the work, so the rest need not be fast.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            // The first variable names LLVM for the bindings, the second for linking.
            .env(format!("LLVM_SYS_{major}1_PREFIX"), prefix)
            .env("LLVM_PREFIX", prefix)
            .current_dir(dir),
    )?;
    fs::remove_dir_all(scratch)?;
    Ok(())
}

fn version(path: &Path, libraries: Option<&Path>) -> Result<String> {
    let mut command = process::command(path);
    command.arg("--version");
    if let Some(libraries) = libraries {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    Ok(process::read(&mut command)?.trim().to_owned())
}

fn major(llvm: &str) -> Result<u32> {
    llvm.split('.')
        .next()
        .and_then(|major| major.parse().ok())
        .with_context(|| format!("{llvm:?} is no version of LLVM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_llvm_is_said_to_be_unknown() {
        let mut linker = Linker {
            path: PathBuf::new(),
            llvm: None,
            version: "bpf-linker 0.13.0".into(),
        };
        assert_eq!(linker.identity(), "bpf-linker 0.13.0, LLVM unknown");
        linker.llvm = Some("22.1.8".into());
        assert_eq!(linker.identity(), "bpf-linker 0.13.0, LLVM 22.1.8");
    }

    #[test]
    fn the_major_of_llvm() {
        assert_eq!(major("22.1.8").unwrap(), 22);
        assert!(major("").is_err());
    }
}
