//! Files that are replaced as a whole: whoever reads one has what was there before, or all of
//! what is there then, whatever happens to us or to the machine meanwhile.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufWriter, Write},
    os::{
        fd::AsRawFd as _,
        unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context as _;
use nix::fcntl::AtFlags;

use crate::{place::printable, target::launch::Invoker};

/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

/// A file that is being written, and takes its place when it is whole.
pub struct Replacement {
    out: BufWriter<File>,
    form: Form,
    path: PathBuf,
}

/// What is written to.
enum Form {
    /// A file of the same folder without a name: if we are killed, nothing is left of it.
    Nameless,
    /// One with a name, where the file system has no others.
    Named(PathBuf),
    /// What is there itself: a pipe or a device, which cannot be replaced.
    Itself,
}

/// Names are not used twice.
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Replacement {
    /// Begins one for a file, which may be there already or not.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(path: &Path) -> anyhow::Result<Self> {
        Self::open(path).with_context(|| cannot(path))
    }

    fn open(path: &Path) -> io::Result<Self> {
        // What a link points to is replaced, and not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Ok(there) = fs::metadata(&path) {
            // Whether it may be written decides its owner, and not that of the folder.
            let file = OpenOptions::new().write(true).open(&path)?;
            if !there.is_file() {
                return Ok(Self {
                    out: BufWriter::with_capacity(BUFFER, file),
                    form: Form::Itself,
                    path,
                });
            }
        }
        let mut options = OpenOptions::new();
        options.write(true).mode(0o666);
        let nameless = options
            .clone()
            .custom_flags(libc::O_TMPFILE)
            .open(folder(&path));
        let (file, form) = match nameless {
            Ok(file) => (file, Form::Nameless),
            // So kernels and file systems answer that have none.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)
                ) =>
            {
                let name = beside(&path);
                (options.create_new(true).open(&name)?, Form::Named(name))
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            out: BufWriter::with_capacity(BUFFER, file),
            form,
            path,
        })
    }

    /// Puts what was written in its place. Without this nothing changes.
    ///
    /// # Errors
    /// It cannot be written, or not be put there.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.settle().with_context(|| cannot(&self.path))
    }

    fn settle(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let file = self.out.get_ref();
        if matches!(self.form, Form::Itself) {
            return Ok(());
        }
        own(file, &self.path)?;
        file.sync_all()?;
        if matches!(self.form, Form::Nameless) {
            let name = beside(&self.path);
            let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
            nix::unistd::linkat(
                nix::fcntl::AT_FDCWD,
                itself.as_str(),
                nix::fcntl::AT_FDCWD,
                &name,
                AtFlags::AT_SYMLINK_FOLLOW,
            )?;
            self.form = Form::Named(name);
        }
        if let Form::Named(name) = &self.form {
            fs::rename(name, &self.path)?;
        }
        self.form = Form::Itself;
        // The name is on the disk as well then. Some file systems know no such thing.
        if let Ok(folder) = File::open(folder(&self.path)) {
            let _unknown = folder.sync_all();
        }
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Form::Named(name) = &self.form {
            let _gone = fs::remove_file(name);
        }
    }
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", printable(&path.to_string_lossy()))
}

fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A name in the same folder that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    // Names have 255 bytes at most.
    let stem = path.file_name().filter(|name| name.len() < 200);
    name.push(stem.unwrap_or("sbt".as_ref()));
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    folder(path).join(name)
}

/// Whose it is, and who may read it: as of the file that it replaces; of a new one, whoever
/// called sudo.
fn own(file: &File, path: &Path) -> io::Result<()> {
    if let Ok(there) = fs::metadata(path) {
        let mine = file.metadata()?;
        if (mine.uid(), mine.gid()) != (there.uid(), there.gid()) {
            fchown(file, Some(there.uid()), Some(there.gid()))?;
        }
        return file.set_permissions(Permissions::from_mode(there.mode() & 0o7777));
    }
    if let Some(invoker) = Invoker::from_sudo() {
        fchown(file, Some(invoker.uid.as_raw()), Some(invoker.gid.as_raw()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let all = fs::read_dir(folder).unwrap();
        all.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn what_is_there_stays_until_all_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut file = Replacement::begin(&path).unwrap();
        file.write_all(b"new and longer").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new and longer");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["a.html"]);
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let mut file = Replacement::begin(&path).unwrap();
        file.write_all(&vec![7; 2 * BUFFER]).unwrap();
        drop(file);
        // The same where files need names.
        let name = beside(&path);
        let out = File::create_new(&name).unwrap();
        drop(Replacement {
            out: BufWriter::new(out),
            form: Form::Named(name),
            path,
        });
        assert_eq!(names(folder.path()), Vec::<OsString>::new());
    }

    #[test]
    fn a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink("a", &link).unwrap();
        let mut file = Replacement::begin(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("none/a"), folder.path().to_owned()] {
            let error = Replacement::begin(&path).err().unwrap().to_string();
            assert!(error.starts_with("cannot write /"), "{error}");
        }
    }
}
