//! The initramfs of the machine: busybox, sbt, programs, and their libraries.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::stages;
use crate::process;
use crate::workspace::Workspace;

/// The commands that the machine's script uses.
const APPLETS: [&str; 12] = [
    "cat", "chmod", "dmesg", "echo", "mkdir", "mount", "reboot", "rm", "sh", "sleep", "sync",
    "uname",
];

/// Builds the initramfs under `folder` and returns its path.
pub fn build(workspace: &Workspace, folder: &Path, sbt: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for dir in ["bin", "dev", "proc", "sys", "tmp"] {
        fs::create_dir_all(root.join(dir))
            .with_context(|| format!("cannot create {}", root.display()))?;
    }
    let busybox = process::on_path("busybox").context("no busybox here")?;
    let mut programs = vec![busybox];
    fs::copy(sbt, root.join("bin/sbt")).with_context(|| format!("no {}", sbt.display()))?;
    fs::copy(&programs[0], root.join("bin/busybox"))?;
    for applet in APPLETS {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    programs.push(sbt.to_path_buf());
    let setpriv = process::on_path("setpriv").context("no setpriv here")?;
    fs::copy(&setpriv, root.join("bin/setpriv"))?;
    programs.push(setpriv);
    for (source, flags) in stages::SOURCES {
        let source = workspace.root.join("tests/programs").join(source);
        let name = source.file_stem().context("a source without a name")?;
        let program = root.join("bin").join(name);
        process::run(
            process::command("gcc")
                .args(["-O2", "-g", "-pthread"])
                .args(*flags)
                .arg("-o")
                .arg(&program)
                .arg(&source),
        )?;
        programs.push(program);
    }
    for library in libraries(&programs)? {
        let to = root.join(library.strip_prefix("/")?);
        fs::create_dir_all(to.parent().context("a library without a folder")?)?;
        fs::copy(&library, &to).with_context(|| format!("no {}", library.display()))?;
    }
    let init = root.join("init");
    fs::write(&init, stages::script())?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    pack(&root, &folder.join("initramfs"))
}

/// The shared libraries of programs, and the dynamic linker.
fn libraries(programs: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let mut libraries = BTreeSet::new();
    for program in programs {
        // `ldd` fails for a static program, which has no libraries.
        let output = process::command("ldd").arg(program).output();
        let output = output.context("cannot run ldd")?;
        let text = String::from_utf8_lossy(&output.stdout);
        libraries.extend(text.lines().filter_map(library).map(PathBuf::from));
    }
    Ok(libraries)
}

/// Returns `/lib/libc.so.6` for `libc.so.6 => /lib/libc.so.6 (0x00007f…)`.
fn library(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| word.starts_with('/'))
}

fn pack(root: &Path, to: &Path) -> Result<PathBuf> {
    // Folders come before their contents, because the kernel creates entries in order.
    let paths = process::read(process::command("find").arg(".").current_dir(root))?;
    let list = root.with_extension("list");
    fs::write(&list, paths)?;
    let status = process::command("cpio")
        .args(["--create", "--format=newc", "--quiet", "--owner=+0:+0"])
        .current_dir(root)
        .stdin(fs::File::open(&list)?)
        .stdout(fs::File::create(to)?)
        .status()
        .context("cannot run cpio")?;
    anyhow::ensure!(status.success(), "cpio failed ({status})");
    Ok(to.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_in_what_ldd_prints() {
        for (line, found) in [
            ("\tlinux-vdso.so.1 (0x00007ffd)", None),
            (
                "\tlibc.so.6 => /lib/libc.so.6 (0x00007f1)",
                Some("/lib/libc.so.6"),
            ),
            (
                "\t/lib64/ld-linux-x86-64.so.2 (0x00007f1)",
                Some("/lib64/ld-linux-x86-64.so.2"),
            ),
            ("\tnot a dynamic executable", None),
        ] {
            assert_eq!(library(line), found);
        }
    }
}
