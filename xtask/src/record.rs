//! The record of the committed object: its sources and the tools that built it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Everything that the object is built from, except the dependencies, which `Cargo.lock` pins by
/// hash.
const SOURCES: [&str; 5] = [
    "sbt-common/Cargo.toml",
    "sbt-common/src",
    "sbt-ebpf/Cargo.lock",
    "sbt-ebpf/Cargo.toml",
    "sbt-ebpf/src",
];

/// The content of the file beside the committed object.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version line of the compiler, with its LLVM.
    pub rustc: String,
    /// Version of the linker, with its LLVM.
    pub linker: String,
    /// SHA-256 of the sources, see [`hash_sources`]; hexadecimal.
    pub sources: String,
    /// SHA-256 of the object; hexadecimal.
    pub object: String,
}

impl Record {
    /// Reads the record at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| {
            format!(
                "cannot read {}: run `cargo xtask ebpf` and commit",
                path.display()
            )
        })?;
        toml::from_str(&text).with_context(|| format!("{} is no record", path.display()))
    }

    /// The text of the record's file.
    pub fn to_text(&self) -> Result<String> {
        let body = toml::to_string(self)?;
        Ok(format!("# Written by `cargo xtask ebpf`.\n{body}"))
    }
}

/// SHA-256 of `bytes`, hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of the sources under the checkout `root`, hexadecimal. For every file, in the order of
/// the paths, the hash covers the lengths (64 bits, little endian) and the bytes of path and
/// content. It does not depend on where the checkout lies.
pub fn hash_sources(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&root.join(source), &mut files)?;
    }
    let mut named = Vec::with_capacity(files.len());
    for file in files {
        let relative = file.strip_prefix(root)?.to_str();
        let relative = relative.with_context(|| format!("{} is no UTF-8 name", file.display()))?;
        named.push((relative.replace('\\', "/"), file));
    }
    named.sort();
    let mut hasher = Sha256::new();
    for (name, file) in named {
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for part in [name.as_bytes(), &content] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(hex(&hasher.finalize()))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = || format!("cannot read {}", path.display());
    if fs::metadata(path).with_context(unreadable)?.is_dir() {
        for entry in fs::read_dir(path).with_context(unreadable)? {
            collect(&entry?.path(), files)?;
        }
    } else {
        files.push(path.to_path_buf());
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout(dir: &Path, main: &str) {
        for source in SOURCES {
            let path = dir.join(source);
            let file = if source.ends_with("src") {
                path.join("main.rs")
            } else {
                path
            };
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, main).unwrap();
        }
    }

    #[test]
    fn the_folder_does_not_enter_the_hash_but_content_and_names_do() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        checkout(a.path(), "x");
        checkout(b.path(), "x");
        let first = hash_sources(a.path()).unwrap();
        assert_eq!(first, hash_sources(b.path()).unwrap());

        fs::rename(
            b.path().join("sbt-ebpf/src/main.rs"),
            b.path().join("sbt-ebpf/src/other.rs"),
        )
        .unwrap();
        assert_ne!(first, hash_sources(b.path()).unwrap());

        checkout(a.path(), "y");
        assert_ne!(first, hash_sources(a.path()).unwrap());
    }

    #[test]
    fn a_missing_source_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(hash_sources(dir.path()).is_err());
    }

    #[test]
    fn the_record_survives_its_file() {
        let record = Record {
            rustc: "rustc 1.0 \"quoted\", LLVM 1.2.3".into(),
            linker: "bpf-linker 0.1.0, LLVM 1.2.3".into(),
            sources: hash(b"sources"),
            object: hash(b"object"),
        };
        let text = record.to_text().unwrap();
        assert_eq!(toml::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn the_hash_is_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash(b""), empty);
    }
}
