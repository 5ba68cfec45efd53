//! Tests the package in a root of its own, where it can do no harm: no file is setuid or has
//! capabilities, the binary needs the promised glibc, it runs, and the package can be removed
//! again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::glibc::Version;
use crate::process;

/// Files that must be in the package.
const FILES: [&str; 7] = [
    "usr/bin/sbt",
    "usr/share/man/man1/sbt.1.gz",
    "usr/share/man/man1/sbt-run.1.gz",
    "usr/share/bash-completion/completions/sbt",
    "usr/share/zsh/vendor-completions/_sbt",
    "usr/share/fish/vendor_completions.d/sbt.fish",
    "usr/share/doc/sbt-agent/README.Debian",
];

/// Findings of lintian that are intended. The publisher of the package fills in the address and the
/// report that asks for the package; and the binary contains names and lines because of the demo
/// programs.
const MEANT: [&str; 3] = [
    "bogus-mail-host",
    "initial-upload-closes-no-bugs",
    "debug-suffix-not-dbg",
];

/// Tests the package `deb`, whose binary needs glibc `needs`, in the folder `root`.
pub fn check(deb: &Path, root: &Path, needs: Version) -> Result<()> {
    let contents = process::read(process::command("dpkg-deb").arg("--contents").arg(deb))?;
    let odd = odd(&contents);
    ensure!(
        odd.is_empty(),
        "odd files in the package:\n{}",
        odd.join("\n")
    );
    scripts(deb)?;
    let depends = field(deb, "Depends")?;
    ensure!(
        depends_on_glibc(&depends, needs),
        "the binary needs glibc {needs}, and the package depends on {depends:?}"
    );
    install(deb, root)?;
    for file in FILES {
        ensure!(root.join(file).is_file(), "{file} is not in the package");
    }
    privileges(root)?;
    let binary = root.join("usr/bin/sbt");
    let said = process::read(process::command(&binary).arg("--version"))?;
    ensure!(said.contains(env!("CARGO_PKG_VERSION")), "{said:?}");
    remove(root)?;
    lintian(deb)
}

/// Lines of the list of files that do not belong to root or have a mode bit that gives rights.
fn odd(contents: &str) -> Vec<&str> {
    contents
        .lines()
        .filter(|line| {
            let mode = line.split_whitespace().next().unwrap_or_default();
            let gives = mode.contains(['s', 'S', 't', 'T']);
            let writable = mode.as_bytes().get(8) == Some(&b'w') && !mode.starts_with('l');
            // By number, where the archive has no names.
            let of_root = [" root/root ", " 0/0 "]
                .iter()
                .any(|owner| line.contains(owner));
            gives || writable || !of_root
        })
        .collect()
}

/// Checks that the package runs nothing when it is installed, so that only files can change.
fn scripts(deb: &Path) -> Result<()> {
    for name in ["preinst", "postinst", "prerm", "postrm"] {
        let mut command = process::command("dpkg-deb");
        let has = command.arg("--info").arg(deb).arg(name).output()?;
        ensure!(!has.status.success(), "the package has a script {name}");
    }
    Ok(())
}

fn field(deb: &Path, name: &str) -> Result<String> {
    process::read(
        process::command("dpkg-deb")
            .arg("--field")
            .arg(deb)
            .arg(name),
    )
}

/// Whether a dependency list has the C library in this version or a newer one.
fn depends_on_glibc(depends: &str, needs: Version) -> bool {
    depends.split(',').any(|package| {
        package
            .trim()
            .strip_prefix("libc6 (>= ")
            .and_then(|rest| Version::parse(rest.strip_suffix(')')?))
            .is_some_and(|version| version >= needs)
    })
}

/// Installs the package into an empty root. Without root rights, it is only unpacked.
fn install(deb: &Path, root: &Path) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    let admin = root.join("var/lib/dpkg");
    for folder in ["info", "updates"] {
        fs::create_dir_all(admin.join(folder))?;
    }
    for file in ["status", "available"] {
        fs::write(admin.join(file), "")?;
    }
    if nix::unistd::geteuid().is_root() {
        // The packages that it depends on are not in there.
        process::run(dpkg(root).args(["--force-depends", "--install"]).arg(deb))
    } else {
        process::run(process::command("dpkg-deb").arg("-x").arg(deb).arg(root))
    }
}

fn remove(root: &Path) -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        process::run(dpkg(root).args(["--purge", "sbt-agent"]))?;
        ensure!(
            !root.join("usr/bin/sbt").exists(),
            "it is still there after it was removed"
        );
    }
    fs::remove_dir_all(root)?;
    Ok(())
}

fn dpkg(root: &Path) -> std::process::Command {
    let mut command = process::command("dpkg");
    command.arg("--root").arg(root);
    command
}

/// Checks that no file gives rights to those who execute it.
fn privileges(root: &Path) -> Result<()> {
    for file in files(root)? {
        let mode = fs::symlink_metadata(&file)?.permissions().mode();
        ensure!(mode & 0o7000 == 0, "{} has mode {mode:o}", file.display());
    }
    let found = process::read(process::command("getcap").arg("-r").arg(root))?;
    ensure!(found.trim().is_empty(), "files have capabilities: {found}");
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(files(&path)?);
        }
        all.push(path);
    }
    Ok(all)
}

/// Checks that lintian, Debian's checker, finds nothing else.
fn lintian(deb: &Path) -> Result<()> {
    let output = process::command("lintian")
        .args([
            "--allow-root",
            "--fail-on",
            "error,warning",
            "--suppress-tags",
        ])
        .arg(MEANT.join(","))
        .arg(deb)
        .output()
        .context("cannot run lintian")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("lintian finds:\n{said}");
    }
    eprint!("{said}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_give_rights_are_odd() {
        let listing = "drwxr-xr-x root/root         0 2026-01-01 00:00 ./\n\
                       -rwxr-xr-x 0/0  14330816 2026-01-01 00:00 ./usr/bin/sbt\n\
                       lrwxrwxrwx root/root         0 2026-01-01 00:00 ./usr/bin/link -> sbt\n";
        assert!(odd(listing).is_empty());
        for line in [
            "-rwsr-xr-x root/root  1 2026-01-01 00:00 ./usr/bin/sbt",
            "-rwxr-sr-x root/root  1 2026-01-01 00:00 ./usr/bin/sbt",
            "-rwxr-xrwx root/root  1 2026-01-01 00:00 ./usr/bin/sbt",
            "-rwxr-xr-x user/user  1 2026-01-01 00:00 ./usr/bin/sbt",
        ] {
            assert_eq!(odd(line), [line]);
        }
    }

    #[test]
    fn the_c_library_must_be_new_enough() {
        let needs = Version::parse("2.34").unwrap();
        for (depends, enough) in [
            ("libc6 (>= 2.34), libgcc-s1 (>= 4.2)", true),
            ("libgcc-s1 (>= 4.2), libc6 (>= 2.36)", true),
            ("libc6 (>= 2.9)", false),
            ("libc6", false),
            ("libc6-dev (>= 2.34)", false),
            ("", false),
        ] {
            assert_eq!(depends_on_glibc(depends, needs), enough, "{depends}");
        }
    }
}
