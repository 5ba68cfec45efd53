//! Paths of the checkout and the target folder.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folders on which all other paths are based; all absolute.
pub struct Workspace {
    /// The checkout.
    pub root: PathBuf,
    /// Cargo's target folder; respects `CARGO_TARGET_DIR`.
    pub target: PathBuf,
}

impl Workspace {
    /// Finds the checkout from which this program was started.
    pub fn locate() -> Result<Self> {
        // The environment variable comes first, because two checkouts may share a target folder and
        // so this binary.
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .parent()
            .context("xtask is not inside the checkout")?
            .to_path_buf();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(dir) if !dir.is_empty() => std::path::absolute(dir)?,
            _ => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// The crate of the BPF programs.
    pub fn ebpf(&self) -> PathBuf {
        self.root.join("sbt-ebpf")
    }

    /// The committed BPF object.
    pub fn object(&self) -> PathBuf {
        self.ebpf().join("object/sbt.bpf.o")
    }

    /// The record beside the committed object.
    pub fn record(&self) -> PathBuf {
        self.ebpf().join("object/sbt.bpf.toml")
    }

    /// Compilers and linkers that were downloaded or built for the object.
    pub fn toolchains(&self) -> PathBuf {
        self.target.join("bpf-toolchain")
    }

    /// Folder for building the object.
    pub fn build(&self) -> PathBuf {
        self.target.join("bpf")
    }

    /// `path` relative to the checkout, for messages.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}
