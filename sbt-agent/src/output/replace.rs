//! Files that are replaced atomically: a reader finds either the old content or the complete new
//! content, even after a crash of sbt or of the machine.

use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context as _;

use sbt_engine::place::printable;
use sbt_program::access::{
    caller,
    typed::{self, FolderEntry},
};

/// Size of the write buffer, bytes.
const BUFFER: usize = 1 << 18;

/// Maximum number of links that are followed, which is Linux' own limit.
const MOST_LINKS: usize = 40;

/// A file that is being written, and replaces the old file when it is complete.
pub struct Replacement {
    out: BufWriter<File>,
    form: Form,
    path: PathBuf,
    place: FolderEntry,
    /// The existing file, if any.
    old: Option<File>,
}

/// The file that is written to.
enum Form {
    /// A nameless file in the same folder: if sbt is killed, nothing remains.
    Nameless,
    /// A temporary file with a name, for file systems without nameless files.
    Named(FolderEntry),
    /// The existing pipe or device itself, which cannot be replaced.
    Itself,
}

/// Counter that makes temporary names unique.
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Replacement {
    /// Starts replacing a file, which may not exist yet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(path: &Path) -> anyhow::Result<Self> {
        Self::open(path).with_context(|| cannot(path))
    }

    fn open(path: &Path) -> io::Result<Self> {
        // The target of a link is replaced, not the link itself. Under sudo links are not followed
        // here: the recorded program runs as the user, and may have left a link.
        let path = match caller() {
            None => behind_links(path)?,
            Some(_) => path.to_owned(),
        };
        Self::through(&path)
    }

    fn through(path: &Path) -> io::Result<Self> {
        typed::at(path, |place| Self::at(path, place))
    }

    fn at(path: &Path, place: &FolderEntry) -> io::Result<Self> {
        let with = |file, form, old| Self {
            out: BufWriter::with_capacity(BUFFER, file),
            form,
            path: path.to_owned(),
            place: place.clone(),
            old,
        };
        // Whether replacing is allowed depends on the file's permissions, not only on the folder's.
        let old = match place.existing()? {
            Some(file) if !file.metadata()?.is_file() => {
                return Ok(with(file, Form::Itself, None));
            }
            old => old,
        };
        if caller().is_some() && place.is_link() {
            // This link belongs to root; other links are refused before.
            return Self::through(&behind_links(path)?);
        }
        let (new, form) = Self::begun(place)?;
        Ok(with(new, form, old))
    }

    /// Creates the file that receives the new content.
    fn begun(place: &FolderEntry) -> io::Result<(File, Form)> {
        match place.create_nameless() {
            // A nameless file gets its name through /proc.
            Ok(file) if Path::new("/proc/self/fd").exists() => return Ok((file, Form::Nameless)),
            // Kernels and file systems without nameless files return these errors.
            Err(error)
                if !matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)
                ) =>
            {
                return Err(error);
            }
            _ => {}
        }
        let named = beside(place);
        Ok((named.create_new()?, Form::Named(named)))
    }

    /// Puts all new files in place. If one of them cannot be written completely, nothing changes.
    ///
    /// # Errors
    /// A file cannot be written, or cannot be put in place.
    pub fn finish_all(all: impl IntoIterator<Item = Self>) -> anyhow::Result<()> {
        let mut all: Vec<Self> = all.into_iter().collect();
        for file in &mut all {
            file.settle().with_context(|| cannot(&file.path))?;
        }
        for file in &mut all {
            file.put().with_context(|| cannot(&file.path))?;
        }
        Ok(())
    }

    /// Writes the new content to disk, and copies owner and permissions of the old file.
    fn settle(&mut self) -> io::Result<()> {
        self.out.flush()?;
        if matches!(self.form, Form::Itself) {
            return Ok(());
        }
        let file = self.out.get_ref();
        let (place, old) = (&self.place, &self.old);
        let named = place.act(|place| {
            if let Some(old) = old {
                be_like(file, old)?;
            }
            file.sync_all()?;
            let named = beside(place);
            if matches!(self.form, Form::Nameless) {
                named.link(file)?;
            }
            io::Result::Ok(named)
        })?;
        if matches!(self.form, Form::Nameless) {
            self.form = Form::Named(named);
        }
        Ok(())
    }

    fn put(&mut self) -> io::Result<()> {
        let Form::Named(named) = &self.form else {
            return Ok(());
        };
        self.place.act(|place| {
            named.replace(place)?;
            // Makes the new name durable. Some file systems do not support syncing a folder.
            if let Ok(folder) = place.folder() {
                let _unknown = folder.sync_all();
            }
            io::Result::Ok(())
        })?;
        self.form = Form::Itself;
        Ok(())
    }

    /// Adds the file's name to an error.
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", cannot(&self.path)))
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        written.map_err(|error| self.named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        flushed.map_err(|error| self.named(&error))
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Form::Named(named) = &self.form {
            let _gone = named.act(FolderEntry::remove);
        }
    }
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", printable(&path.to_string_lossy()))
}

/// The file that a path leads to through links, whether or not it exists.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(whole) = fs::canonicalize(&path) {
            return Ok(whole);
        }
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            Err(_no_link) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn folder(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// An unused temporary name in the same folder.
fn beside(place: &FolderEntry) -> FolderEntry {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    // File names have at most 255 bytes.
    let stem = Some(place.name()).filter(|name| name.len() < 200);
    name.push(stem.unwrap_or("sbt".as_ref()));
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    place.beside(name)
}

/// Gives a new file the owner and permissions of the old file.
fn be_like(file: &File, old: &File) -> io::Result<()> {
    let (mine, there) = (file.metadata()?, old.metadata()?);
    if (mine.uid(), mine.gid()) != (there.uid(), there.gid()) {
        fchown(file, Some(there.uid()), Some(there.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(there.mode() & 0o7777))
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
        Replacement::finish_all([file]).unwrap();
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
        // The same for file systems without nameless files.
        typed::at(&path, |place| {
            let named = beside(place);
            let out = named.create_new()?;
            drop(Replacement {
                out: BufWriter::new(out),
                form: Form::Named(named),
                path: path.clone(),
                place: place.clone(),
                old: None,
            });
            Ok(())
        })
        .unwrap();
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
        Replacement::finish_all([file]).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn a_link_to_what_is_not_there_yet_stays_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("b", at("a")).unwrap();
        std::os::unix::fs::symlink(at("c"), at("b")).unwrap();
        let mut file = Replacement::begin(&at("a")).unwrap();
        file.write_all(b"new").unwrap();
        Replacement::finish_all([file]).unwrap();
        assert!(fs::symlink_metadata(at("a")).unwrap().is_symlink());
        assert!(fs::symlink_metadata(at("b")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(at("c")).unwrap(), "new");
        // A link to itself leads nowhere.
        std::os::unix::fs::symlink("d", at("d")).unwrap();
        assert!(Replacement::begin(&at("d")).is_err());
        assert!(fs::symlink_metadata(at("d")).unwrap().is_symlink());
    }

    #[test]
    fn none_is_replaced_if_one_cannot_be_written_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let mut file = Replacement::begin(&path).unwrap();
        file.write_all(b"new").unwrap();
        let mut full = Replacement::begin(Path::new("/dev/full")).unwrap();
        full.write_all(b"new").unwrap();
        let error = Replacement::finish_all([file, full]).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["a"]);
        // An error in the middle of writing names the file as well.
        let mut full = Replacement::begin(Path::new("/dev/full")).unwrap();
        let error = full.write_all(&vec![7; 2 * BUFFER]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot write /dev/full: No space")
        );
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
