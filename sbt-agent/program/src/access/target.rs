//! Files that the target names.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};

use super::user::{Scope, User, caller};
use crate::folders::folder;

static USER: OnceLock<Option<User>> = OnceLock::new();

/// The root directory of a process, kept open: files below it can be opened when the process has
/// ended.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// Keeps the directory in existence for `path`.
    _open: Option<OwnedFd>,
}

impl Root {
    /// The root of a process; sbt's own root if the process is gone, or sbt may not look into it.
    pub fn of(process: u32) -> Self {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let open = rustix::fs::open(link(process), flags, Mode::empty()).ok();
        Self {
            path: open
                .as_ref()
                .map_or_else(|| PathBuf::from("/"), |open| of_descriptor(open).into()),
            _open: open,
        }
    }

    /// As [`Self::of`], by a path that leads nowhere when the process has ended.
    pub fn path_of(process: u32) -> PathBuf {
        let path = link(process);
        // The root exists, and sbt may look into it.
        if path.join(".").exists() {
            path
        } else {
            PathBuf::from("/")
        }
    }

    /// A path to the directory, valid as long as `self` exists.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The kernel's link to the root of a process.
fn link(process: u32) -> PathBuf {
    folder(process).join("root")
}

/// Declares that the target runs with all rights of sbt, as with `--as-root`. Must be called once,
/// before any file of the target is opened.
pub fn runs_as_sbt() {
    let _known = USER.set(None);
}

/// Declares that the target is a process that already runs: its files are opened as the user of
/// that process. Must be called once, before any file of the target is opened.
pub fn is_process(pid: u32) {
    let is_root = nix::unistd::Uid::effective().is_root();
    if is_root && caller().is_none() {
        let _known = USER.set(User::of_process(pid));
    }
}

/// The user with whose rights the target's files are opened: the caller, unless [`runs_as_sbt`] or
/// [`is_process`] have said otherwise. `None`: the user who runs sbt.
pub fn user() -> Option<&'static User> {
    USER.get().map_or_else(caller, Option::as_ref)
}

/// Calls `act` with the rights of the target's user ([`user`]).
///
/// # Errors
/// This thread cannot take these rights.
pub fn act<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    let _scope = Scope::begin(user())?;
    Ok(act())
}

/// Opens a regular file that the target names, for reading. Anything but a regular file is not
/// opened at all: opening a device may have side effects.
///
/// # Errors
/// The target's user may neither read nor execute the file, or the file is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    readable(|| {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?)
    })
}

/// Opens a regular file that the target names, below another root directory: links in the path are
/// resolved within that root.
///
/// # Errors
/// The target's user may neither read nor execute the file, or the file is not a regular file.
pub fn open_below(root: &Path, path: &Path) -> io::Result<File> {
    // Below `/` the path needs no `openat2`, which some seccomp filters do not know.
    if root == Path::new("/") {
        return open(path);
    }
    // `root` is the kernel's link to the root of a process; the kernel decides whether sbt may look
    // into it.
    let root = rustix::fs::open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    readable(|| {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = rustix::fs::openat2(&root, path, flags, Mode::empty(), IN_ROOT);
        Ok(found?)
    })
}

/// Opens a regular file with the rights of sbt, if `is_it` accepts its device and inode. Any other
/// file at that path is not opened. `root`: where the path begins, if that is not sbt's own root.
///
/// # Errors
/// The file cannot be opened, or `is_it` rejects it.
pub fn open_known(
    root: Option<&Path>,
    path: &Path,
    is_it: impl Fn(u64, u64) -> bool,
) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = match root {
        Some(root) => {
            let root = rustix::fs::open(root, flags, Mode::empty())?;
            rustix::fs::openat2(root, path, flags, Mode::empty(), IN_ROOT)?
        }
        None => rustix::fs::open(path, flags, Mode::empty())?,
    };
    only_regular(&found)?;
    let stat = rustix::fs::fstat(&found)?;
    if !is_it(stat.st_dev, stat.st_ino) {
        return Err(ErrorKind::NotFound.into());
    }
    reopen(&found)
}

const IN_ROOT: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);

/// Finds a file with the rights of the target's user, and opens it.
fn readable(find: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<File> {
    let found = {
        let _scope = Scope::begin(user())?;
        let found = find()?;
        only_regular(&found)?;
        match reopen(&found) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                // The memory of the user's processes holds the content of an executable that the
                // user may not read, so sbt gives nothing away by reading the file.
                let path = of_descriptor(&found);
                rustix::fs::accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS)
                    .map_err(|_| error)?;
                found
            }
            done => return done,
        }
    };
    reopen(&found)
}

/// Fails if a descriptor is not of a regular file.
fn only_regular(found: &OwnedFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(found)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        "not a regular file",
    ))
}

fn of_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Opens the file of an `O_PATH` descriptor for reading.
fn reopen(found: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(of_descriptor(found), flags, Mode::empty())?;
    Ok(File::from(file))
}

/// Opens a regular file through a link of the kernel or of sbt itself, with the rights of sbt.
///
/// # Errors
/// The file cannot be opened, or is not a regular file.
pub fn open_as_sbt(path: &Path) -> io::Result<File> {
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    only_regular(&found)?;
    reopen(&found)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn pipes_devices_and_folders_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        symlink("/dev/ptmx", at("device")).unwrap();
        // Opening the pipe for writing fails because no reader was left by the calls below.
        let write = rustix::fs::open(at("pipe"), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
        assert!(write.is_err());
        for path in [at("pipe"), at("device"), folder.path().to_owned()] {
            let begin = Instant::now();
            for error in [
                open(&path).unwrap_err(),
                open_as_sbt(&path).unwrap_err(),
                open_below(folder.path(), path.strip_prefix(folder.path()).unwrap()).unwrap_err(),
            ] {
                let kinds = [ErrorKind::InvalidInput, ErrorKind::NotFound];
                assert!(kinds.contains(&error.kind()), "{path:?} {error}");
            }
            assert!(begin.elapsed() < Duration::from_mins(1));
        }
    }

    #[test]
    fn links_below_another_root_stay_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("outside"), "outside").unwrap();
        fs::create_dir(at("root")).unwrap();
        symlink(at("outside"), at("root/absolute")).unwrap();
        symlink("../outside", at("root/up")).unwrap();
        fs::write(at("root/inside"), "inside").unwrap();
        symlink("/inside", at("root/link")).unwrap();
        let open = |name: &str| open_below(&at("root"), Path::new(name));
        assert!(open("/absolute").is_err() && open("up").is_err() && open("../outside").is_err());
        for name in ["inside", "/inside", "../../inside", "link"] {
            let file = open(name).unwrap();
            assert_eq!(io::read_to_string(file).unwrap(), "inside", "{name}");
        }
    }

    #[test]
    fn the_root_of_a_process_outlives_it() {
        let mut sleep = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let root = Root::of(sleep.id());
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "text").unwrap();
        let file = open_below(root.path(), &path).unwrap();
        assert_eq!(io::read_to_string(file).unwrap(), "text");
        assert_eq!(Root::of(sleep.id()).path(), Path::new("/"));
    }

    #[test]
    fn what_may_be_read_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "text").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(io::read_to_string(open(&path).unwrap()).unwrap(), "text");
        assert_eq!(
            io::read_to_string(open_as_sbt(&path).unwrap()).unwrap(),
            "text"
        );
    }
}
