//! Files that are replaced as a whole: whoever reads one has what was there before, or all of
//! what is there then, whatever happens to us or to the machine meanwhile.

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
    typed::{self, Place},
};

/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

/// Links that are followed, at most; as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// A file that is being written, and takes its place when it is whole.
pub struct Replacement {
    out: BufWriter<File>,
    form: Form,
    path: PathBuf,
    place: Place,
    /// What is there already.
    old: Option<File>,
}

/// What is written to.
enum Form {
    /// A file of the same folder without a name: if we are killed, nothing is left of it.
    Nameless,
    /// One with a name, where the file system has no others.
    Named(Place),
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
        // What a link points to is replaced, and not the link. Under sudo the program that was
        // recorded is the user's, and may have left one.
        let path = match caller() {
            None => behind_links(path)?,
            Some(_) => path.to_owned(),
        };
        Self::through(&path)
    }

    fn through(path: &Path) -> io::Result<Self> {
        typed::at(path, |place| Self::at(path, place))
    }

    fn at(path: &Path, place: &Place) -> io::Result<Self> {
        let with = |file, form, old| Self {
            out: BufWriter::with_capacity(BUFFER, file),
            form,
            path: path.to_owned(),
            place: place.clone(),
            old,
        };
        // Whether it may be written decides its owner, and not that of the folder.
        let old = match place.existing()? {
            Some(file) if !file.metadata()?.is_file() => {
                return Ok(with(file, Form::Itself, None));
            }
            old => old,
        };
        if caller().is_some() && place.is_link() {
            // One of root's own, or it would not have been followed.
            return Self::through(&behind_links(path)?);
        }
        let (new, form) = Self::begun(place)?;
        Ok(with(new, form, old))
    }

    /// The file that will be put there.
    fn begun(place: &Place) -> io::Result<(File, Form)> {
        match place.create_nameless() {
            // A nameless file gets its name by /proc.
            Ok(file) if Path::new("/proc/self/fd").exists() => return Ok((file, Form::Nameless)),
            // Kernels and file systems without nameless files answer with these.
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

    /// Puts all that was written in its place. Without this nothing changes, and nothing
    /// does either if one of them cannot be written to its end.
    ///
    /// # Errors
    /// One cannot be written, or not be put there.
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

    /// All of it is on the disk then, beside what it replaces, and is like that.
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
            // The name is on the disk as well then. Some file systems know no such thing.
            if let Ok(folder) = place.folder() {
                let _unknown = folder.sync_all();
            }
            io::Result::Ok(())
        })?;
        self.form = Form::Itself;
        Ok(())
    }

    /// Says which file it was.
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
            let _gone = named.act(Place::remove);
        }
    }
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", printable(&path.to_string_lossy()))
}

/// What a path leads to, also if that is not there yet.
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
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A name in the same folder that nobody else uses.
fn beside(place: &Place) -> Place {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    // Names have 255 bytes at most.
    let stem = Some(place.name()).filter(|name| name.len() < 200);
    name.push(stem.unwrap_or("sbt".as_ref()));
    name.push(format!(".{}-{number}.tmp", std::process::id()));
    place.beside(name)
}

/// Makes a new file belong to whom the old one does, with the same permissions.
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
        // The same where files need names.
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
        // One that leads to itself leads nowhere.
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
        // It is named where the room ends before the end as well.
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
