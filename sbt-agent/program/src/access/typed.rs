//! Files that the user has typed on the command line.
//!
//! They are opened as the caller would open them. Under sudo, where the caller may not, they are opened as root: that is
//! what sudo was typed for. But a program that the caller watches can put other things in the place of folders and
//! files, to have root write elsewhere. So root's rights are used only along a way on which every link is root's own, and
//! on no file that somebody else may have given one more name.

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

use super::{
    below::remove_if_empty as remove_empty,
    user::{Scope, User, caller, is_scoped},
};
use crate::rights::Writing;

/// Links that are followed, at most; as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Permission bits of a folder.
const STICKY: u32 = 0o1000;
const OF_OTHERS: u32 = 0o022;

/// What to say of a link.
const IS_LINK: &str = "it is a link, which is not followed under sudo: name the file itself";

/// What to say of a link on the way.
const LINK_ON_THE_WAY: &str = "a link on the way is not root's, and is not followed with root's \
    rights under sudo: name the file without the link";

/// What to say of a file that is.
const IS_PLANTED: &str = "somebody else has put it there, in a folder for everybody";

/// What to say of a file that has more than one name.
const HAS_NAMES: &str = "it has another name as well, and is not opened with root's rights under \
    sudo: name another file";

/// With whose rights something in a folder is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    /// The caller's.
    Callers,
    /// Root's, of what the caller may not do.
    Roots,
}

/// The rights in effect for this thread as long as there is one.
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

/// A name in a folder that is open: whatever becomes of the way there, it stays this folder.
#[derive(Clone, Debug)]
pub struct Place {
    folder: Arc<OwnedFd>,
    name: OsString,
    rights: Rights,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        let of =
            |place: &Self| rustix::fs::fstat(&*place.folder).map(|stat| (stat.st_dev, stat.st_ino));
        let are_one = of(self).is_ok() && of(self) == of(other);
        are_one && (&self.name, self.rights) == (&other.name, other.rights)
    }
}

impl Eq for Place {}

/// Does something at a path, with the caller's rights and, under sudo, with root's if those do not do.
///
/// # Errors
/// Those of `act`; or the way there may not be gone.
pub fn at<T>(path: &Path, act: impl Fn(&Place) -> io::Result<T>) -> io::Result<T> {
    let tried = with(Rights::Callers, path, &act);
    match tried {
        Err(error) if caller().is_some() && !is_scoped() && may_be_for_root(&error) => {
            with(Rights::Roots, path, &act)
        }
        tried => tried,
    }
}

/// Whether root may do what was refused; `ELOOP` tells of a link that may be root's own, as /dev/stdout is.
fn may_be_for_root(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [Some(libc::EACCES), Some(libc::EPERM), Some(libc::ELOOP)].contains(&number)
}

fn with<T>(rights: Rights, path: &Path, act: &impl Fn(&Place) -> io::Result<T>) -> io::Result<T> {
    let _held = rights.begin()?;
    act(&Place::of(path, rights)?)
}

impl Place {
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

    /// What a place is called in its folder.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Another name in the same folder, to be used with the same rights.
    #[must_use]
    pub fn beside(&self, name: OsString) -> Self {
        Self {
            name,
            ..self.clone()
        }
    }

    /// Does something with the rights that this place is used with.
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

    /// Makes a new file.
    ///
    /// # Errors
    /// There is something, or it may not be made.
    pub fn create_new(&self) -> io::Result<File> {
        let file = self.open_as(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        self.give(&file)?;
        Ok(file)
    }

    /// Makes a file without a name in the same folder.
    ///
    /// # Errors
    /// It may not be made, or the file system has none.
    pub fn create_nameless(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = File::from(rustix::fs::openat(&*self.folder, ".", flags, mode)?);
        self.give(&file)?;
        Ok(file)
    }

    /// What root makes under sudo belongs to the caller, as what the caller makes does.
    fn give(&self, file: &File) -> io::Result<()> {
        match caller() {
            Some(user) if self.rights == Rights::Roots => {
                fchown(file, Some(user.uid), Some(user.gid))
            }
            _ => Ok(()),
        }
    }

    /// Opens what is there for writing, or makes a new file. Under sudo a link is followed only if it is root's.
    ///
    /// # Errors
    /// It may not be written, or is not what the user can have meant.
    pub fn write(&self) -> io::Result<File> {
        match self.create_new() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.write_there(),
            made => made,
        }
    }

    fn write_there(&self) -> io::Result<File> {
        let Some(user) = caller() else {
            // A link that leads nowhere yet makes what it points to.
            return self.open_as(OFlags::WRONLY | OFlags::CREATE);
        };
        let file = self.open_there(OFlags::WRONLY)?;
        self.check_planted(&rustix::fs::fstat(&file)?, user)?;
        Ok(file)
    }

    /// Under sudo: opens what is there, which is no link unless root has made it.
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

    /// Opens what is there for reading, without waiting for the other end of a pipe.
    fn read(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        if self.rights == Rights::Callers {
            return self.open_as(flags);
        }
        let file = self.open_there(flags)?;
        self.check_names(&rustix::fs::fstat(&file)?)?;
        Ok(file)
    }

    /// As the kernel has it of files that are opened to be made (`fs.protected_regular`).
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

    /// A file that the caller may not open and that has several names may have got this one from anybody.
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

    /// Makes sure that what is there may be replaced under sudo, and opens it for writing; `None` if nothing is there.
    ///
    /// # Errors
    /// As of [`Self::write`].
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

    /// What is there, which may be a link.
    ///
    /// # Errors
    /// Nothing is there, or it may not be looked at.
    pub fn stat(&self) -> io::Result<Stat> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::statat(&*self.folder, &*self.name, flags)?)
    }

    /// Whether a link is there.
    pub fn is_link(&self) -> bool {
        let stat = self.stat();
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    /// Gives a file without a name this one.
    ///
    /// # Errors
    /// There is something, or it may not be made.
    pub fn link(&self, file: &File) -> io::Result<()> {
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, itself, &*self.folder, &*self.name, flags)?;
        Ok(())
    }

    /// Puts what is here in the place of `other`, of the same folder.
    ///
    /// # Errors
    /// It may not be.
    pub fn replace(&self, other: &Self) -> io::Result<()> {
        rustix::fs::renameat(&*self.folder, &*self.name, &*other.folder, &*other.name)?;
        Ok(())
    }

    /// Removes what is here.
    ///
    /// # Errors
    /// It may not be.
    pub fn remove(&self) -> io::Result<()> {
        rustix::fs::unlinkat(&*self.folder, &*self.name, AtFlags::empty())?;
        Ok(())
    }

    /// The folder, open for reading.
    ///
    /// # Errors
    /// It may not be read.
    pub fn folder(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&*self.folder, ".", flags, Mode::empty())?;
        Ok(File::from(folder))
    }
}

/// Opens a file for writing, or makes a new one, and leaves what is in it.
///
/// # Errors
/// It may not be written; or, under sudo, is not what the user can have meant.
pub fn write(path: &Path) -> io::Result<File> {
    at(path, Place::write)
}

/// Makes a new file.
///
/// # Errors
/// There is something, or it may not be made.
pub fn create_new(path: &Path) -> io::Result<File> {
    at(path, Place::create_new)
}

/// Opens a file for reading, which may be anything: a pipe is not waited for.
///
/// # Errors
/// It may not be read.
pub fn read(path: &Path) -> io::Result<File> {
    at(path, Place::read)
}

/// Removes a file if nothing is in it.
///
/// # Errors
/// It may not be removed.
pub fn remove_if_empty(path: &Path) -> io::Result<()> {
    at(path, |place| Ok(remove_empty(&place.folder, &place.name)?))
}

/// Makes a folder, and those on the way that are not there.
///
/// # Errors
/// One may not be made.
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

/// The folder of a path, and what the file is called in it.
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

/// Whether nobody but root may change a folder.
fn is_roots(folder: &Stat) -> bool {
    folder.st_uid == 0 && folder.st_mode & OF_OTHERS == 0
}

/// Whether nobody but root can have made a link, or can change it.
fn is_roots_link(folder: &OwnedFd, link: &Stat) -> io::Result<bool> {
    Ok(link.st_uid == 0 && is_roots(&rustix::fs::fstat(folder)?))
}

/// Opens a folder along a way on which every link is root's.
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
            // What is no folder fails at the next step.
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
