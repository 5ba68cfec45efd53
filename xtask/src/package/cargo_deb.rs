//! cargo-deb, which makes a Debian package from the settings in Cargo.toml.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process;

const VERSION: &str = "3.8.0";

/// Builds cargo-deb under `folder` unless an earlier run did, and returns its path.
pub fn prepare(folder: &Path) -> Result<PathBuf> {
    let root = folder.join(format!("cargo-deb-{VERSION}"));
    let path = root.join("bin/cargo-deb");
    if path.exists() {
        return Ok(path);
    }
    fs::create_dir_all(folder)?;
    eprintln!("building cargo-deb {VERSION}: once, about two minutes");
    let scratch = folder.join("cargo-deb-build");
    process::run(
        process::command(process::cargo())
            .args(["install", "cargo-deb", "--version", VERSION, "--locked"])
            .arg("--root")
            .arg(&root)
            .arg("--target-dir")
            .arg(&scratch)
            // cargo-deb runs once, so it need not be fast.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .current_dir(folder),
    )?;
    fs::remove_dir_all(scratch)?;
    Ok(path)
}
