//! The kernel to boot: from a Debian package, or a file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::process;

/// The package that depends on Debian's own current kernel.
const CURRENT: &str = "linux-image-amd64";

/// Finds the kernel that `wanted` names: a package, a `.deb`, or a kernel image. By default, it is
/// Debian's current kernel. Packages are unpacked under `dir`.
pub fn find(wanted: Option<&str>, dir: &Path) -> Result<PathBuf> {
    let Some(wanted) = wanted else {
        return of_package(&debian::depends(CURRENT, "linux-image-")?, dir);
    };
    let file = Path::new(wanted);
    if !file.is_file() {
        return of_package(wanted, dir);
    }
    let is_package = file.extension().is_some_and(|extension| extension == "deb");
    if !is_package {
        return Ok(file.to_path_buf());
    }
    let name = file.file_stem().context("a package without a name")?;
    unpacked(&dir.join(name), |root| debian::extract(file, root))
}

fn of_package(package: &str, dir: &Path) -> Result<PathBuf> {
    unpacked(&dir.join(package), |root| {
        debian::download_and_extract(&[package.to_owned()], root)
    })
}

/// The kernel from `unpack`, kept as `kernel`. Everything else in the package is removed: the
/// modules are large and not needed.
fn unpacked(kernel: &Path, unpack: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if kernel.is_file() {
        return Ok(kernel.to_path_buf());
    }
    let mut root = kernel.as_os_str().to_owned();
    root.push(".unpacked");
    let root = PathBuf::from(root);
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
    unpack(&root)?;
    let found = image(&root)?;
    fs::rename(&found, kernel)?;
    fs::remove_dir_all(&root)?;
    Ok(kernel.to_path_buf())
}

/// The kernel in an unpacked package.
fn image(root: &Path) -> Result<PathBuf> {
    let paths = process::read(
        process::command("find")
            .arg(root)
            .args(["-type", "f", "-name", "vmlinuz*"]),
    )?;
    match paths.lines().next() {
        Some(path) => Ok(PathBuf::from(path)),
        None => bail!(
            "the package holds no kernel: name the one that does (`apt-cache depends` of this one \
             names it, such as linux-image-6.1.0-56-amd64 or linux-binary-7.3.4+deb13-amd64)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernel_is_kept_of_a_package() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("linux-image-1");
        let unpack = |root: &Path| {
            fs::create_dir_all(root.join("boot"))?;
            fs::write(root.join("boot/vmlinuz-1"), "kernel")?;
            fs::write(root.join("boot/config-1"), "else")?;
            Ok(())
        };
        let found = unpacked(&kernel, unpack).unwrap();
        assert_eq!(fs::read_to_string(&found).unwrap(), "kernel");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // The second call must not unpack anything.
        unpacked(&kernel, |_| bail!("unpacked again")).unwrap();
    }

    #[test]
    fn a_package_without_a_kernel_says_what_to_name() {
        let dir = tempfile::tempdir().unwrap();
        let error = unpacked(&dir.path().join("meta"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("linux-binary-"), "{error}");
    }
}
