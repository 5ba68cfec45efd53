//! Debian packages: installed, or unpacked into the target folder as the compiler is.
//!
//! Debian's newest rustc is packaged for building browsers, and conflicts with rustup. Unpacking
//! needs no root, and nothing has to be removed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process;

/// Unpacks the compiler under `dir`, unless an earlier run did, and returns its prefix (the folder
/// with `bin` and `lib`).
pub fn unpack(dir: &Path) -> Result<PathBuf> {
    let root = dir.join("debian");
    let prefix = root.join("usr");
    // This file is written last, so it is missing after an interrupted run.
    let complete = root.join("packages.txt");
    if complete.exists() {
        return Ok(prefix);
    }
    for tool in ["apt-get", "apt-cache", "dpkg"] {
        if process::on_path(tool).is_none() {
            bail!(
                "no {tool} here, so no Debian packages: run `rustup toolchain install nightly --component rust-src`"
            );
        }
    }
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let packages = compiler_packages()?;
    download_and_extract(&packages, &root)?;
    fs::write(complete, packages.join("\n") + "\n")?;
    Ok(prefix)
}

/// Downloads packages and unpacks them under `root`.
pub fn download_and_extract(packages: &[String], root: &Path) -> Result<()> {
    let archives = root.join("archives");
    fs::create_dir_all(&archives)
        .with_context(|| format!("cannot create {}", archives.display()))?;
    eprintln!("downloading {}", packages.join(" "));
    let mut download = process::command("apt-get");
    download
        .arg("-q")
        .arg("download")
        .args(packages)
        .current_dir(&archives);
    if is_root() {
        // Otherwise apt's own user would need write access to the target folder.
        download.args(["-o", "APT::Sandbox::User=root"]);
    }
    process::run(&mut download).context("is the package list old? run `apt-get update`")?;
    for archive in fs::read_dir(&archives)? {
        extract(&archive?.path(), root)?;
    }
    fs::remove_dir_all(&archives)?;
    Ok(())
}

/// Unpacks a package under `root`.
pub fn extract(archive: &Path, root: &Path) -> Result<()> {
    process::run(process::command("dpkg").arg("-x").arg(archive).arg(root))
}

/// The package that `package` depends on and whose name begins with `start`.
pub fn depends(package: &str, start: &str) -> Result<String> {
    let about = show(package)?;
    let name = field(&about, "Depends").and_then(|depends| dependency(depends, start));
    name.map(str::to_owned)
        .with_context(|| format!("{package} depends on no {start}…: run `apt-get update`"))
}

/// The folder under `prefix` with the shared libraries of the compiler and of LLVM.
pub fn library_dir(prefix: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(prefix.join("lib"))? {
        let dir = entry?.path();
        if !dir.is_dir() {
            continue;
        }
        for file in fs::read_dir(&dir)? {
            if file?
                .file_name()
                .to_string_lossy()
                .starts_with("librustc_driver")
            {
                return Ok(dir);
            }
        }
    }
    bail!(
        "{} holds no compiler: remove it and try again",
        prefix.display()
    )
}

/// Installs the missing ones of `packages` with apt-get. Without root, the error says how to
/// install them.
pub fn require(packages: &[String]) -> Result<()> {
    if process::on_path("dpkg-query").is_none() {
        // Not Debian: the build will name what is missing.
        return Ok(());
    }
    let missing: Vec<&String> = packages.iter().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing
        .iter()
        .map(|name| name.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    if !is_root() {
        bail!("packages are missing: run `sudo apt-get install {names}`");
    }
    if missing.iter().any(|name| show(name).is_err()) {
        update()?;
    }
    for name in &missing {
        show(name)?;
    }
    eprintln!("installing {names}");
    let install = || {
        process::run(
            process::command("apt-get")
                .args(["-q", "-y", "--no-install-recommends", "install"])
                .args(&missing)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
    };
    // Old package lists may name versions that no longer exist.
    install().or_else(|_| update().and_then(|()| install()))
}

/// The compiler's packages. Two names contain versions: the standard library's follows from the
/// compiler's version, and LLVM's is among its dependencies.
fn compiler_packages() -> Result<Vec<String>> {
    // Old package lists may have an old compiler that fits no linker here.
    if is_root() {
        update()?;
    }
    let rustc = show("rustc-web").context(
        "this Debian has no rustc-web: run `apt-get update` as root, or `rustup toolchain install \
         nightly --component rust-src`",
    )?;
    let version = field(&rustc, "Version").context("rustc-web has no version")?;
    let std = format!("libstd-rust-web-{}", major_minor(version));
    let about_std = show(&std)?;
    let llvm = field(&about_std, "Depends")
        .and_then(|depends| dependency(depends, "libllvm"))
        .with_context(|| format!("{std} does not say which LLVM it needs"))?;
    let names = [
        "rustc-web",
        "rust-web-src",
        "libstd-rust-web-dev",
        &std,
        llvm,
    ];
    Ok(names.map(str::to_owned).to_vec())
}

/// The entry in the package lists for the version of `package` that would be installed.
fn show(package: &str) -> Result<String> {
    let text =
        process::read(process::command("apt-cache").args(["show", "--no-all-versions", package]));
    match text {
        Ok(text) if !text.trim().is_empty() => Ok(text),
        _ => bail!("there is no package {package}"),
    }
}

fn update() -> Result<()> {
    process::run(process::command("apt-get").args(["-q", "update"]))
}

fn is_installed(package: &str) -> bool {
    process::read(process::command("dpkg-query").args([
        "--show",
        "--showformat=${db:Status-Status}\\n",
        package,
    ]))
    .is_ok_and(|status| status.lines().any(|line| line == "installed"))
}

fn is_root() -> bool {
    process::read(process::command("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    paragraph
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns `1.96` for `1.96.0+dfsg1-1`.
fn major_minor(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Returns `libllvm22` for `libc6 (>= 2.34), libllvm22 (>= 1:22), libstdc++6` and `libllvm`.
fn dependency<'a>(depends: &'a str, start: &str) -> Option<&'a str> {
    depends
        .split(',')
        .filter_map(|dependency| dependency.split_whitespace().next())
        .find(|name| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_follow_from_the_lists() {
        let paragraph = "Package: x\nVersion: 1.96.0+dfsg1-1\nDepends: libc6 (>= 2.34), libllvm22 (>= 1:22), libz1\n";
        assert_eq!(field(paragraph, "Version"), Some("1.96.0+dfsg1-1"));
        assert_eq!(field(paragraph, "Vers"), None);
        assert_eq!(major_minor("1.96.0+dfsg1-1"), "1.96");
        assert_eq!(
            field(paragraph, "Depends").and_then(|depends| dependency(depends, "libllvm")),
            Some("libllvm22")
        );
        assert_eq!(dependency("libc6", "libllvm"), None);
    }
}
