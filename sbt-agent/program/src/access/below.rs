//! New files that a settings file (`sbt.toml`) asks sbt to write; they must lie below the folder of
//! that settings file.
//!
//! A cloned repository's `sbt.toml` belongs to the user, and so does an `sbt.toml` that a hostile
//! program has left behind. Without this rule either file could make sbt overwrite `~/.bashrc` with
//! nothing but the user's own rights.

use std::{
    env,
    ffi::OsStr,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::as_caller;
use sbt_engine::place::printable;

/// A file that a settings file asks sbt to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// The folder of the settings file, absolute.
    folder: PathBuf,
    /// The path of the file, relative to `folder`.
    inside: PathBuf,
    /// The path as it is written in the settings.
    written: PathBuf,
    /// The line of the settings that names the file: `sbt.toml:3`.
    line: String,
    /// The command line option that the user can type instead.
    option: &'static str,
}

impl Below {
    /// Checks the path `written`, which stands on the line `line` of the file `settings`. A
    /// relative path is taken from the working directory.
    ///
    /// # Errors
    /// The path leads out of the folder of the settings.
    pub(super) fn new(
        settings: &Path,
        line: &str,
        written: &Path,
        option: &'static str,
    ) -> anyhow::Result<Self> {
        let here = env::current_dir()?;
        let settings = here.join(settings);
        let folder = settings.parent().unwrap_or(Path::new("/")).to_owned();
        let this = |inside| Self {
            folder: folder.clone(),
            inside,
            written: written.to_owned(),
            line: line.to_owned(),
            option,
        };
        match inside(&folder, &here, written) {
            Some(inside) => Ok(this(inside)),
            None => Err(this(PathBuf::new()).refuses(&format!(
                "a settings file may only name new files below its own folder, {}",
                shown(&folder)
            ))),
        }
    }

    /// Creates the file, with the rights of the caller.
    ///
    /// # Errors
    /// The file exists, a symbolic link lies on the way, or the caller may not create the file.
    pub fn create(&self) -> anyhow::Result<File> {
        let made = as_caller(|| {
            let folder = self.open_folder()?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o666);
            rustix::fs::openat2(folder, &self.inside, flags, mode, RESOLVE)
        });
        match made.map_err(|error| self.refuses(&error.to_string()))? {
            Ok(file) => Ok(File::from(file)),
            Err(Errno::EXIST) => {
                Err(self.refuses("the file exists, and a settings file may only name new files"))
            }
            Err(Errno::LOOP | Errno::XDEV) => Err(self.refuses(
                "the path contains a link, and sbt follows no link in a path from a settings file",
            )),
            Err(errno) => Err(self.refuses(&io::Error::from(errno).to_string())),
        }
    }

    /// The whole path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.inside)
    }

    /// Removes the file if it is empty.
    pub fn remove_if_empty(&self) {
        let removed = as_caller(|| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = self.open_folder()?;
            let parent = self
                .inside
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            let parent = rustix::fs::openat2(folder, parent, flags, Mode::empty(), RESOLVE)?;
            let name = self.inside.file_name().unwrap_or_default();
            remove_if_empty(&parent, name)
        });
        // After a failure the empty file stays.
        drop(removed);
    }

    fn open_folder(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.folder, flags, Mode::empty())
    }

    fn refuses(&self, why: &str) -> anyhow::Error {
        let written = shown(&self.written);
        anyhow::anyhow!(
            "cannot write {written}, which {} names: {why}; name the file on the command line \
             instead: {} {written}",
            printable(&self.line),
            self.option
        )
    }
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// Removes a file of a folder if it is a regular file and empty.
pub(super) fn remove_if_empty(folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file && stat.st_size == 0 {
        rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
    }
    Ok(())
}

/// The path relative to `folder` of a path that settings in `folder` name. `None` if the path leads
/// out of the folder, or names no file. `here`: the working directory, at which relative paths
/// begin. Pure: links are refused when the file is opened.
fn inside(folder: &Path, here: &Path, written: &Path) -> Option<PathBuf> {
    if written.as_os_str().is_empty() || written.as_os_str().as_bytes().ends_with(b"/") {
        return None;
    }
    let mut whole = PathBuf::new();
    for part in here.join(written).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    let last = written.components().next_back();
    let is_name = matches!(last, Some(Component::Normal(_)));
    let inside = whole.strip_prefix(folder).ok().filter(|_| is_name)?;
    (!inside.as_os_str().is_empty()).then(|| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn only_paths_below_the_folder_of_the_settings_are_inside() {
        for (here, written, expected) in [
            ("/a/b", "x", Some("x")),
            ("/a/b", "./x", Some("x")),
            ("/a/b", "c/x", Some("c/x")),
            ("/a/b", "c/../x", Some("x")),
            ("/a/b", "c/./d//x", Some("c/d/x")),
            ("/a/b", "/a/b/x", Some("x")),
            ("/a/b", "/a/b/../b/x", Some("x")),
            ("/a/b", "...", Some("...")),
            ("/a/b", "..x", Some("..x")),
            // sbt finds a settings file in a parent of the working directory, too.
            ("/a/b/c", "x", Some("c/x")),
            ("/a/b/c", "../x", Some("x")),
            ("/a/b/c", "../../x", None),
            ("/a/b/c", "../../b/x", Some("x")),
            ("/a/b", "../x", None),
            ("/a/b", "..", None),
            ("/a/b", ".", None),
            ("/a/b", "", None),
            ("/a/b", "c/..", None),
            ("/a/b", "c/.", Some("c")),
            ("/a/b", "c/", None),
            ("/a/b", "/", None),
            ("/a/b", "/a/b", None),
            ("/a/b", "/a/bc", None),
            ("/a/b", "/a/b/../bc", None),
            ("/a/b", "/a/x", None),
            ("/a/b", "/x", None),
            ("/a/b", "/etc/profile.d/x.sh", None),
            ("/a/b", "c/../../x", None),
            ("/a/b", "../../../../a/b/x", Some("x")),
            ("/a/b", "../../../../etc/x", None),
            ("/a/b", "//etc/x", None),
            ("/a/b", "~/x", Some("~/x")),
            ("/a/b", "/proc/self/cwd/x", None),
            ("/a/b", "/dev/stdout", None),
        ] {
            let found = inside(Path::new("/a/b"), Path::new(here), Path::new(written));
            assert_eq!(
                found.as_deref(),
                expected.map(Path::new),
                "{written} from {here}"
            );
        }
        let of_root = inside(Path::new("/"), Path::new("/a"), Path::new("../x"));
        assert_eq!(of_root.as_deref(), Some(Path::new("x")));
    }

    /// A file that settings in `folder` name.
    fn below(folder: &Path, inside: &str) -> Below {
        Below {
            folder: folder.to_owned(),
            inside: inside.into(),
            written: inside.into(),
            line: "sbt.toml:1".into(),
            option: "--folded",
        }
    }

    #[test]
    fn nothing_that_exists_is_opened_and_no_link_is_followed() {
        let all = tempfile::tempdir().unwrap();
        let (folder, outside) = (all.path().join("in"), all.path().join("out"));
        for new in [&folder, &outside, &folder.join("sub")] {
            fs::create_dir(new).unwrap();
        }
        fs::write(folder.join("file"), "kept").unwrap();
        fs::hard_link(folder.join("file"), folder.join("hard")).unwrap();
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
        nix::unistd::mkfifo(&folder.join("pipe"), mode).unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        symlink("../out", folder.join("sub/link")).unwrap();
        symlink(outside.join("new"), folder.join("to-new")).unwrap();
        symlink("/proc/self/cwd", folder.join("magic")).unwrap();
        for (inside, why) in [
            ("file", "the file exists"),
            ("hard", "the file exists"),
            ("pipe", "the file exists"),
            ("sub", "the file exists"),
            ("to-new", "the file exists"),
            ("link", "the file exists"),
            ("link/new", "the path contains a link"),
            ("sub/link/new", "the path contains a link"),
            ("magic/new", "the path contains a link"),
            ("none/new", "No such file"),
            ("file/new", "Not a directory"),
        ] {
            let error = below(&folder, inside).create().unwrap_err().to_string();
            assert!(error.contains(why), "{inside}: {error}");
            let remedy = format!("name the file on the command line instead: --folded {inside}");
            assert!(error.ends_with(&remedy), "{error}");
        }
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "kept");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        for inside in ["new", "sub/new"] {
            let file = below(&folder, inside);
            file.create().unwrap();
            assert!(file.create().is_err(), "it exists now");
            file.remove_if_empty();
            assert!(!folder.join(inside).exists());
        }
        // Neither files behind a link nor files with content are removed.
        fs::write(outside.join("empty"), "").unwrap();
        below(&folder, "link/empty").remove_if_empty();
        below(&folder, "file").remove_if_empty();
        assert!(outside.join("empty").exists() && folder.join("file").exists());
    }

    #[test]
    fn what_leads_elsewhere_names_the_line_and_the_remedy() {
        let refused = Below::new(
            Path::new("/a/sbt.toml"),
            "/a/sbt.toml:3",
            Path::new("/etc/x"),
            "--folded",
        );
        assert_eq!(
            refused.unwrap_err().to_string(),
            "cannot write /etc/x, which /a/sbt.toml:3 names: a settings file may only name new \
             files below its own folder, /a; name the file on the command line instead: --folded \
             /etc/x"
        );
    }
}
