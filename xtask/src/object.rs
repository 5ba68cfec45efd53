//! Builds the BPF object, with the same bytes wherever the checkout lies.

use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use object::build::elf::{Builder, SectionData};
use object::elf;

use crate::process;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

const TARGET: &str = "bpfel-unknown-none";

/// The architecture of the probed programs, which determines how a probe finds arguments. The
/// default would be that of the building machine.
const PROBED: &str = "x86_64";

const WRAPPER: &str = include_str!("wrapper.sh");

/// Builds the object and returns its bytes, stripped of DWARF.
pub fn build(toolchain: &Toolchain, workspace: &Workspace) -> Result<Vec<u8>> {
    let flags = [
        format!("-Clinker={}", text(&toolchain.linker.path)?),
        "-Clink-arg=--btf".to_owned(),
        "-Cdebuginfo=2".to_owned(),
        format!("--cfg=bpf_target_arch=\"{PROBED}\""),
    ];
    let dir = workspace.build();
    // cargo notices neither another linker behind the same path nor another wrapper.
    start_afresh_if_new(
        &dir,
        &[
            &toolchain.compiler,
            &toolchain.linker.identity(),
            &flags.join(" "),
            WRAPPER,
        ],
    )?;
    let wrapper = dir.join("wrapper.sh");
    fs::write(&wrapper, WRAPPER)?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;

    let mut cargo = process::command(&toolchain.cargo);
    cargo
        .args(["build", "--release", "--locked", "-Zbuild-std=core"])
        .args(["--target", TARGET, "--target-dir"])
        .arg(&dir)
        .current_dir(workspace.ebpf())
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC_WRAPPER", &wrapper)
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        // This separator allows blanks in paths.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    if let Some(libraries) = &toolchain.libraries {
        cargo.env("LD_LIBRARY_PATH", libraries);
    }
    process::run(&mut cargo)?;

    let built = dir.join(TARGET).join("release/sbt");
    let bytes = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    let bytes = strip(&bytes).context("cannot strip the object")?;
    check(&bytes)?;
    let mut folders = vec![workspace.root.clone(), workspace.target.clone()];
    // The folder above the compiler's `bin`.
    folders.extend(toolchain.rustc.ancestors().nth(2).map(Path::to_path_buf));
    folders.extend(cargo_home());
    check_folders(&bytes, &folders)?;
    Ok(bytes)
}

/// Empties `dir` unless it was last used with the same `recipe`.
fn start_afresh_if_new(dir: &Path, recipe: &[&str]) -> Result<()> {
    let recipe = recipe.join("\n");
    let file = dir.join("recipe.txt");
    if fs::read_to_string(&file).is_ok_and(|former| former == recipe) {
        return Ok(());
    }
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    fs::write(file, recipe)?;
    Ok(())
}

/// Removes DWARF: BTF was made from it, and nothing else reads it.
fn strip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(bytes)?;
    for section in &mut builder.sections {
        let name = section.name.as_slice();
        section.delete = name.starts_with(b".debug_") || name.starts_with(b".rel.debug_");
    }
    // LLVM keeps the names of sections and symbols in one table, this writer in two.
    let names = builder.sections.add();
    names.name = ".shstrtab".into();
    names.sh_type = elf::SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

/// Checks what the loader relies on.
fn check(bytes: &[u8]) -> Result<()> {
    let builder = Builder::read(bytes)?;
    let has = |wanted: &str| {
        builder
            .sections
            .iter()
            .any(|section| section.name.as_slice() == wanted.as_bytes())
    };
    for wanted in [".BTF", ".BTF.ext", "license"] {
        ensure!(has(wanted), "the object has no section {wanted}");
    }
    let parsed = aya_obj::Object::parse(bytes).context("aya cannot parse the object")?;
    ensure!(!parsed.programs.is_empty(), "the object has no program");
    Ok(())
}

/// Fails if the bytes contain the name of a folder, since they would differ between machines.
fn check_folders(bytes: &[u8], folders: &[PathBuf]) -> Result<()> {
    for folder in folders {
        let name = folder.as_os_str().as_bytes();
        if name.len() > 1 && bytes.windows(name.len()).any(|window| window == name) {
            bail!("the object names the folder {}", folder.display());
        }
    }
    Ok(())
}

fn cargo_home() -> Option<PathBuf> {
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is no UTF-8 name", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_is_found() {
        let folders = [PathBuf::from("/"), PathBuf::from("/some/where")];
        assert!(check_folders(b"..../some/where/src/main.rs", &folders).is_err());
        assert!(check_folders(b"..../sbt-0.1.0/src/main.rs", &folders).is_ok());
        assert!(check_folders(b"", &folders).is_ok());
    }

    #[test]
    fn another_recipe_starts_afresh() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("bpf");
        let kept = dir.join("kept");
        start_afresh_if_new(&dir, &["a", "b"]).unwrap();
        fs::write(&kept, "").unwrap();
        start_afresh_if_new(&dir, &["a", "b"]).unwrap();
        assert!(kept.exists());
        start_afresh_if_new(&dir, &["a", "c"]).unwrap();
        assert!(!kept.exists());
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert!(strip(b"no object").is_err());
        assert!(check(b"no object").is_err());
    }
}
