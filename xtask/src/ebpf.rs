//! `cargo xtask ebpf`: builds or checks the committed BPF object.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::object;
use crate::record::{Record, hash, hash_sources};
use crate::toolchain::{Choice, Toolchain};
use crate::verifier;
use crate::workspace::Workspace;

/// Options of `cargo xtask ebpf`.
#[derive(clap::Args)]
pub struct Args {
    /// Rebuild into the target folder and compare with the committed object
    #[arg(long, conflicts_with = "hash_only")]
    check: bool,

    /// Compare the sources with the recorded hash; needs no toolchain
    #[arg(long, conflicts_with = "toolchain")]
    hash_only: bool,

    /// Ask the kernel how much of each program of the committed object it looks at to
    /// accept it: an error if that is too much
    #[arg(long, conflicts_with_all = ["check", "hash_only", "toolchain"])]
    verifier: bool,

    /// The compiler
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    toolchain: Choice,
}

/// Does what `args` ask for.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    if args.verifier {
        verifier::run(&workspace)
    } else if args.hash_only {
        check_hashes(&workspace)?;
        println!("the sources and the committed object have the recorded hashes");
        Ok(())
    } else if args.check {
        check(&workspace, args.toolchain)
    } else {
        write(&workspace, args.toolchain)
    }
}

fn write(workspace: &Workspace, choice: Choice) -> Result<()> {
    let toolchain = Toolchain::prepare(choice, workspace)?;
    // The hash is taken before the build, so that sources edited during the build do not count as
    // built.
    let sources = hash_sources(&workspace.root)?;
    let bytes = object::build(&toolchain, workspace)?;
    let record = Record {
        rustc: toolchain.compiler,
        linker: toolchain.linker.identity(),
        sources,
        object: hash(&bytes),
    };
    replace(&workspace.object(), &bytes)?;
    replace(&workspace.record(), record.to_text()?.as_bytes())?;
    println!(
        "wrote {} ({} bytes, sha256 {})",
        workspace.relative(&workspace.object()).display(),
        bytes.len(),
        record.object
    );
    Ok(())
}

fn check(workspace: &Workspace, choice: Choice) -> Result<()> {
    let record = check_hashes(workspace)?;
    let toolchain = Toolchain::prepare(choice, workspace)?;
    let bytes = object::build(&toolchain, workspace)?;
    let rebuilt = workspace.build().join("sbt.bpf.o");
    replace(&rebuilt, &bytes)?;

    let linker = toolchain.linker.identity();
    let comparable = toolchain.linker.llvm.is_some()
        && (&record.rustc, &record.linker) == (&toolchain.compiler, &linker);
    if !comparable {
        println!(
            "compared the hash of the sources only, and they build: made with {} and {}, here are {} and {linker}",
            record.rustc, record.linker, toolchain.compiler
        );
    } else if hash(&bytes) == record.object {
        println!("the committed object is what the sources give, byte for byte");
    } else {
        bail!(
            "committed object is not what the sources give: run `cargo xtask ebpf` and commit (rebuilt: {})",
            rebuilt.display()
        );
    }
    Ok(())
}

/// Compares the sources and the committed object with the record.
fn check_hashes(workspace: &Workspace) -> Result<Record> {
    let record = Record::read(&workspace.record())?;
    let path = workspace.object();
    let committed = fs::read(&path).with_context(|| {
        format!(
            "cannot read {}: run `cargo xtask ebpf` and commit",
            path.display()
        )
    })?;
    if hash(&committed) != record.object {
        bail!(
            "committed object is not the recorded one: run `cargo xtask ebpf` and commit both files"
        );
    }
    if hash_sources(&workspace.root)? != record.sources {
        bail!(
            "the sources have changed since the object was built: run `cargo xtask ebpf` and commit"
        );
    }
    Ok(record)
}

/// Replaces `path` in one step: a concurrent build sees either the old or the new content.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(cannot)?;
    }
    let new = path.with_extension("new");
    fs::write(&new, bytes).with_context(cannot)?;
    fs::rename(&new, path).with_context(cannot)
}
