//! Files that the user has typed on the command line.
//!
//! They are opened with the caller's rights. Under sudo, files that the caller may not open are
//! opened as root: that is what sudo was typed for. But a program that the caller watches can
//! replace folders and files to make root write elsewhere. So root's rights are used only along a
//! path on which every link is root's own, and never on a file to which somebody else may have
//! given an additional name (hard link).

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::fchown},
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::rights::Writing;
use super::user::{Scope, User, caller, is_scoped};

/// The most links that are followed in a path; as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Permission bits of a folder: the sticky bit, and the right of group or others to write.
const STICKY: u32 = 0o1000;
const OF_OTHERS: u32 = 0o022;

/// Message for a link in the place of the file.
const IS_LINK: &str =
    "it is a symbolic link, and sbt under sudo follows none: name the file itself";

/// Message for a link on the way to the file.
const LINK_ON_THE_WAY: &str = "the path contains a symbolic link that root does not own, and sbt \
    under sudo does not follow it with root's rights: name the file without the link";

/// Message for a file that another user has put into a folder for everybody.
const IS_PLANTED: &str = "another user created the file, in a folder that everybody may write to";

/// Message for a file that has more than one name.
const HAS_NAMES: &str = "the file has a second name (hard link), and sbt under sudo does not open \
    such a file with root's rights: name another file";

/// With whose rights sbt works in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    /// The caller's rights.
    Callers,
    /// Root's rights, where the caller's are not enough.
    Roots,
}

/// Keeps rights in effect for this thread until it is dropped.
struct Held {
    _callers: Option<Scope>,
    _roots: Option<Writing>,
}

impl Rights {
    fn begin(self) -> io::Result<Held> {
        let user = caller();
        let is_root = nix::unistd::Uid::effective().is_root() && !is_scoped();
        let takes_roots = match self {
            Self::Roots => true,
            Self::Callers => user.is_none() && is_root,
        };
        Ok(if takes_roots {
            Held {
                _callers: None,
                _roots: Some(Writing::begin()),
            }
        } else {
            Held {
                _callers: Some(Scope::begin(user)?),
                _roots: None,
            }
        })
    }
}

/// A name in an open folder: the place stays in this folder even if the path to the folder changes.
#[derive(Clone, Debug)]
pub struct FolderEntry {
    folder: Arc<OwnedFd>,
    name: OsString,
    rights: Rights,
}

impl PartialEq for FolderEntry {
    fn eq(&self, other: &Self) -> bool {
        let of =
            |place: &Self| rustix::fs::fstat(&*place.folder).map(|stat| (stat.st_dev, stat.st_ino));
        let are_one = of(self).is_ok() && of(self) == of(other);
        are_one && (&self.name, self.rights) == (&other.name, other.rights)
    }
}

impl Eq for FolderEntry {}

/// Calls `act` at a path with the caller's rights and, under sudo, again with root's rights if the
/// caller's are not enough.
///
/// # Errors
/// Those of `act`, or the path may not be followed.
pub fn at<T>(path: &Path, act: impl Fn(&FolderEntry) -> io::Result<T>) -> io::Result<T> {
    let tried = with(Rights::Callers, path, &act);
    match tried {
        Err(error) if caller().is_some() && !is_scoped() && may_be_for_root(&error) => {
            with(Rights::Roots, path, &act)
        }
        tried => tried,
    }
}

/// Whether a refused action may succeed as root. `ELOOP` means a link, which may be root's own as
/// /dev/stdout is.
fn may_be_for_root(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [Some(libc::EACCES), Some(libc::EPERM), Some(libc::ELOOP)].contains(&number)
}

fn with<T>(
    rights: Rights,
    path: &Path,
    act: &impl Fn(&FolderEntry) -> io::Result<T>,
) -> io::Result<T> {
    let _held = rights.begin()?;
    act(&FolderEntry::of(path, rights)?)
}

impl FolderEntry {
    fn of(path: &Path, rights: Rights) -> io::Result<Self> {
        let (folder, name) = split(path)?;
        let folder = match rights {
            Rights::Callers => open_folder(CWD, folder.as_os_str())?,
            Rights::Roots => roots_way(folder)?,
        };
        Ok(Self {
            folder: Arc::new(folder),
            name: name.to_owned(),
            rights,
        })
    }

    /// The name of the file in its folder.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Another name in the same folder, used with the same rights.
    #[must_use]
    pub fn beside(&self, name: OsString) -> Self {
        Self {
            name,
            ..self.clone()
        }
    }

    /// Calls `act` with the rights of this place.
    ///
    /// # Errors
    /// Those of `act`, or this thread cannot take these rights.
    pub fn act<T, E: From<io::Error>>(
        &self,
        act: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let _held = self.rights.begin()?;
        act(self)
    }

    fn open_as(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = rustix::fs::openat(&*self.folder, &*self.name, flags, mode)?;
        Ok(File::from(file))
    }

    /// Creates a new file.
    ///
    /// # Errors
    /// The file exists, or it may not be created.
    pub fn create_new(&self) -> io::Result<File> {
        let file = self.open_as(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        self.give(&file)?;
        Ok(file)
    }

    /// Creates a nameless file (`O_TMPFILE`) in the same folder.
    ///
    /// # Errors
    /// The file may not be created, or the file system has no nameless files.
    pub fn create_nameless(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = File::from(rustix::fs::openat(&*self.folder, ".", flags, mode)?);
        self.give(&file)?;
        Ok(file)
    }

    /// Gives a file that root has created under sudo to the caller.
    fn give(&self, file: &File) -> io::Result<()> {
        match caller() {
            Some(user) if self.rights == Rights::Roots => {
                fchown(file, Some(user.uid), Some(user.gid))
            }
            _ => Ok(()),
        }
    }

    /// Opens an existing file for writing, or creates a new file. Under sudo a link is followed
    /// only if root owns it.
    ///
    /// # Errors
    /// The file may not be written, or is not what the user can have meant.
    pub fn write(&self) -> io::Result<File> {
        match self.create_new() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.write_there(),
            made => made,
        }
    }

    fn write_there(&self) -> io::Result<File> {
        let Some(user) = caller() else {
            // `CREATE`: a dangling link creates the file that it points to.
            return self.open_as(OFlags::WRONLY | OFlags::CREATE);
        };
        let file = self.open_there(OFlags::WRONLY)?;
        self.check_planted(&rustix::fs::fstat(&file)?, user)?;
        Ok(file)
    }

    /// Opens an existing file under sudo; a link is followed only if root has made it.
    fn open_there(&self, flags: OFlags) -> io::Result<File> {
        match self.open_as(flags | OFlags::NOFOLLOW) {
            Err(error)
                if error.raw_os_error() == Some(libc::ELOOP) && self.rights == Rights::Roots =>
            {
                if is_roots_link(&self.folder, &self.stat()?)? {
                    return self.open_as(flags);
                }
                Err(io::Error::other(IS_LINK))
            }
            opened => opened,
        }
    }

    /// Opens an existing file for reading, without waiting for the other end of a pipe.
    fn read(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        if self.rights == Rights::Callers {
            return self.open_as(flags);
        }
        let file = self.open_there(flags)?;
        self.check_names(&rustix::fs::fstat(&file)?)?;
        Ok(file)
    }

    /// Refuses a file that another user has put into a folder for everybody: the rule of the
    /// kernel's `fs.protected_regular`.
    fn check_planted(&self, file: &Stat, user: &User) -> io::Result<()> {
        let folder = rustix::fs::fstat(&*self.folder)?;
        let is_for_all = folder.st_mode & STICKY != 0 && folder.st_mode & OF_OTHERS != 0;
        let is_ours = [0, user.uid].contains(&file.st_uid);
        let kind = FileType::from_raw_mode(file.st_mode);
        if is_for_all && !is_ours && matches!(kind, FileType::RegularFile | FileType::Fifo) {
            return Err(io::Error::other(IS_PLANTED));
        }
        self.check_names(file)
    }

    /// Refuses a file that the caller may not open and that has several names: anybody may have
    /// added this name.
    fn check_names(&self, file: &Stat) -> io::Result<()> {
        let is_file = FileType::from_raw_mode(file.st_mode) == FileType::RegularFile;
        if self.rights == Rights::Roots
            && is_file
            && file.st_nlink > 1
            && !is_roots(&rustix::fs::fstat(&*self.folder)?)
        {
            return Err(io::Error::other(HAS_NAMES));
        }
        Ok(())
    }

    /// Checks that an existing file may be replaced under sudo, and opens it for writing; `None` if
    /// no file exists.
    ///
    /// # Errors
    /// The file may not be written, or is not what the user can have meant.
    pub fn existing(&self) -> io::Result<Option<File>> {
        let file = match caller() {
            Some(user) => self.open_there(OFlags::WRONLY).and_then(|file| {
                self.check_planted(&rustix::fs::fstat(&file)?, user)?;
                Ok(file)
            }),
            None => self.open_as(OFlags::WRONLY),
        };
        match file {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        }
    }

    /// The status of the file, or of the link in its place.
    ///
    /// # Errors
    /// No file exists, or its status may not be read.
    pub fn stat(&self) -> io::Result<Stat> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::statat(&*self.folder, &*self.name, flags)?)
    }

    /// Whether the file is a symbolic link.
    pub fn is_link(&self) -> bool {
        let stat = self.stat();
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    /// Gives this name to a nameless file.
    ///
    /// # Errors
    /// The name exists, or it may not be created.
    pub fn link(&self, file: &File) -> io::Result<()> {
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, itself, &*self.folder, &*self.name, flags)?;
        Ok(())
    }

    /// Renames this file to `other`, a name in the same folder, and replaces any file there.
    ///
    /// # Errors
    /// The file may not be renamed.
    pub fn replace(&self, other: &Self) -> io::Result<()> {
        rustix::fs::renameat(&*self.folder, &*self.name, &*other.folder, &*other.name)?;
        Ok(())
    }

    /// Removes this file.
    ///
    /// # Errors
    /// The file may not be removed.
    pub fn remove(&self) -> io::Result<()> {
        rustix::fs::unlinkat(&*self.folder, &*self.name, AtFlags::empty())?;
        Ok(())
    }

    /// The folder, opened for reading.
    ///
    /// # Errors
    /// The folder may not be read.
    pub fn folder(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&*self.folder, ".", flags, Mode::empty())?;
        Ok(File::from(folder))
    }
}

/// Opens a file for writing, or creates a new file; existing content stays.
///
/// # Errors
/// The file may not be written or, under sudo, is not what the user can have meant.
pub fn write(path: &Path) -> io::Result<File> {
    at(path, FolderEntry::write)
}

/// Creates a new file.
///
/// # Errors
/// The file exists, or it may not be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    at(path, FolderEntry::create_new)
}

/// Opens a file of any kind for reading, without waiting for the other end of a pipe.
///
/// # Errors
/// The file may not be read.
pub fn read(path: &Path) -> io::Result<File> {
    at(path, FolderEntry::read)
}

/// Removes a file if it is regular and empty.
///
/// # Errors
/// The file may not be removed.
pub fn remove_if_empty(path: &Path) -> io::Result<()> {
    at(path, |place| {
        let stat = place.stat()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && stat.st_size == 0 {
            place.remove()?;
        }
        Ok(())
    })
}

/// Creates a folder and its missing parents.
///
/// # Errors
/// One of the folders may not be created.
pub fn make_folders(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        make_folders(above)?;
    }
    at(path, |place| {
        let mode = Mode::from_raw_mode(0o777);
        match rustix::fs::mkdirat(&*place.folder, &*place.name, mode) {
            Err(Errno::EXIST) if path.is_dir() => Ok(()),
            result => Ok(result?),
        }
    })
}

/// Splits a path into the folder and the name of the file.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let ends_as_folder = [&b"/"[..], b"/."]
        .iter()
        .any(|end| path.as_os_str().as_bytes().ends_with(end));
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if !ends_as_folder => Ok((
            if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            },
            name,
        )),
        _ if path.as_os_str().is_empty() => Err(Errno::NOENT.into()),
        _ => Err(Errno::ISDIR.into()),
    }
}

fn open_folder(at: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Whether only root may change a folder.
fn is_roots(folder: &Stat) -> bool {
    folder.st_uid == 0 && folder.st_mode & OF_OTHERS == 0
}

/// Whether only root can have made a link or can change it.
fn is_roots_link(folder: &OwnedFd, link: &Stat) -> io::Result<bool> {
    Ok(link.st_uid == 0 && is_roots(&rustix::fs::fstat(folder)?))
}

/// Opens a folder along a path on which every link is root's.
fn roots_way(path: &Path) -> io::Result<OwnedFd> {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().filter(|part| *part != Component::RootDir);
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let begin =
        |path: &Path| open_folder(CWD, OsStr::new(if path.is_absolute() { "/" } else { "." }));
    let mut folder = begin(path)?;
    let mut rest = VecDeque::from(parts(path));
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(&folder, &*name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&next)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            // If `next` is not a folder, the next step fails.
            folder = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        if !is_roots_link(&folder, &stat)? {
            return Err(io::Error::other(LINK_ON_THE_WAY));
        }
        let leads = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let leads = PathBuf::from(OsStr::from_bytes(leads.as_bytes()));
        if leads.is_absolute() {
            folder = begin(&leads)?;
        }
        for part in parts(&leads).into_iter().rev() {
            rest.push_front(part);
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, symlink},
    };

    use super::*;

    #[test]
    fn a_path_is_a_folder_and_a_name() {
        for (path, expected) in [
            ("a", Some((".", "a"))),
            ("./a", Some((".", "a"))),
            ("/a", Some(("/", "a"))),
            ("a/b", Some(("a", "b"))),
            ("a/../b", Some(("a/..", "b"))),
            ("a/", None),
            ("a/.", None),
            ("..", None),
            ("/", None),
            ("", None),
        ] {
            let found = split(Path::new(path)).ok();
            let expected = expected.map(|(folder, name)| (Path::new(folder), OsStr::new(name)));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn the_way_of_root_follows_roots_links_alone() {
        if !nix::unistd::Uid::effective().is_root() {
            return;
        }
        let all = tempfile::tempdir().unwrap();
        let at = |name: &str| all.path().join(name);
        for folder in ["root", "root/inner", "users"] {
            fs::create_dir(at(folder)).unwrap();
        }
        let id = |path: &Path| fs::metadata(path).map(|meta| meta.ino()).unwrap();
        symlink(at("root/inner"), at("root/absolute")).unwrap();
        symlink("../root/inner", at("users/by-root")).unwrap();
        symlink("absolute", at("root/twice")).unwrap();
        symlink("loop", at("root/loop")).unwrap();
        symlink(at("root"), at("users/by-user")).unwrap();
        std::os::unix::fs::lchown(at("users/by-user"), Some(65534), None).unwrap();
        std::os::unix::fs::chown(at("users"), Some(65534), None).unwrap();
        for (path, leads) in [
            ("root/inner", Some("root/inner")),
            ("root/absolute", Some("root/inner")),
            ("root/twice", Some("root/inner")),
            ("users", Some("users")),
            ("users/../root", Some("root")),
            // Made by root, in a folder where the user can change it.
            ("users/by-root", None),
            ("users/by-user", None),
            ("users/by-user/inner", None),
            ("root/loop", None),
            ("root/none", None),
        ] {
            let found = roots_way(&at(path)).ok();
            let found = found.map(|folder| rustix::fs::fstat(folder).unwrap().st_ino);
            assert_eq!(found, leads.map(|name| id(&at(name))), "{path}");
        }
    }

    #[test]
    fn folders_are_made_as_far_as_they_are_missing() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("a/b/c");
        make_folders(&folder).unwrap();
        make_folders(&folder).unwrap();
        assert!(folder.is_dir());
        fs::write(all.path().join("file"), "").unwrap();
        assert!(make_folders(&all.path().join("file/d")).is_err());
    }
}
