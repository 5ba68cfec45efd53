//! Makes what users get (manual pages, completions, and a Debian package) in `target/package`, and
//! tests it.

mod cargo_deb;
mod checks;
mod glibc;
mod manual;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::machine::release_build;
use crate::process;
use crate::test::require_tools;
use crate::workspace::Workspace;

/// Options of `cargo xtask package`.
#[derive(clap::Args)]
pub struct Args {
    /// A binary that was built before, instead of a release build
    #[arg(long, value_name = "FILE")]
    sbt: Option<PathBuf>,
    /// The person who answers for the package: `NAME <MAIL>`
    #[arg(long)]
    maintainer: Option<String>,
}

/// Tools that are used here, and their Debian packages.
const TOOLS: [(&str, &str); 9] = [
    ("gzip", "gzip"),
    ("dpkg-deb", "dpkg"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("objcopy", "binutils"),
    ("getcap", "libcap2-bin"),
    ("groff", "groff-base"),
    ("mandoc", "mandoc"),
    ("lintian", "lintian"),
    ("xz", "xz-utils"),
];

/// Shells, and the names of their completion files.
const SHELLS: [(&str, &str); 3] = [("bash", "sbt.bash"), ("zsh", "_sbt"), ("fish", "sbt.fish")];

/// Makes and tests everything.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    require_tools(&TOOLS)?;
    let sbt = match &args.sbt {
        Some(file) => std::path::absolute(file)?,
        None => release_build(&workspace)?,
    };
    let folder = workspace.target.join("package");
    let needs = glibc::check(&sbt)?;
    let stage = stage(&workspace, &sbt, &folder)?;
    manual::check(&stage.join("man"))?;
    copy(&stage.join("man-gz"), &folder.join("man"))?;
    copy(&stage.join("completions"), &folder.join("completions"))?;
    let deb = build(&workspace, &folder, args.maintainer.as_deref())?;
    checks::check(&deb, &folder.join("root"), needs)?;
    println!(
        "man pages:   {}\ncompletions: {}\npackage:     {}\nneeds glibc {needs} or later",
        folder.join("man").display(),
        folder.join("completions").display(),
        deb.display()
    );
    Ok(())
}

/// Puts the binary and the files that it writes where cargo would build them, so that the package's
/// list of files finds them.
fn stage(workspace: &Workspace, sbt: &Path, folder: &Path) -> Result<PathBuf> {
    let stage = folder.join("build/release");
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    let completions = stage.join("completions");
    fs::create_dir_all(&completions)?;
    let binary = stage.join("sbt");
    fs::copy(sbt, &binary).with_context(|| format!("cannot read {}", sbt.display()))?;
    process::run(process::command(&binary).arg("man").arg(stage.join("man")))?;
    for (shell, name) in SHELLS {
        let script = process::read(process::command(&binary).args(["completions", shell]))?;
        fs::write(completions.join(name), script)?;
    }
    let changes = stage.join("changelog.Debian");
    fs::write(&changes, changelog(workspace)?)?;
    compress(&changes)?;
    let pages = stage.join("man-gz");
    copy(&stage.join("man"), &pages)?;
    for entry in fs::read_dir(&pages)? {
        compress(&entry?.path())?;
    }
    Ok(stage)
}

/// The changelog in Debian's format: one entry that refers to the project's changelog.
fn changelog(workspace: &Workspace) -> Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let mut git = process::command("git");
    git.args(["log", "-1", "--format=%cD"])
        .current_dir(&workspace.root);
    // In a checkout without history, the date is that of today.
    let date =
        process::read(&mut git).or_else(|_| process::read(process::command("date").arg("-R")))?;
    Ok(format!(
        "sbt-agent ({version}-1) unstable; urgency=medium\n\n  \
         * See CHANGELOG.md of the project.\n\n \
         -- The sbt authors <sbt@example.org>  {}\n",
        date.trim()
    ))
}

/// Copies the files of a folder; the target folder is emptied before.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let file = entry?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}

/// Compresses a file as `man` and Debian expect it.
fn compress(file: &Path) -> Result<()> {
    process::run(process::command("gzip").arg("-9n").arg(file))
}

fn build(workspace: &Workspace, folder: &Path, maintainer: Option<&str>) -> Result<PathBuf> {
    let tool = cargo_deb::prepare(folder)?;
    let debs = folder.join("deb");
    if debs.exists() {
        fs::remove_dir_all(&debs)?;
    }
    fs::create_dir_all(&debs)?;
    let mut command = process::command(tool);
    command
        .args([
            "--package",
            "sbt-agent",
            "--no-build",
            "--locked",
            "--output",
        ])
        .arg(&debs)
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", folder.join("build"));
    if let Some(maintainer) = maintainer {
        command.args(["--maintainer", maintainer]);
    }
    process::run(&mut command)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&debs)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            found.push(path);
        }
    }
    match found.as_slice() {
        [deb] => Ok(deb.clone()),
        _ => bail!(
            "cargo-deb left {} packages in {}",
            found.len(),
            debs.display()
        ),
    }
}
