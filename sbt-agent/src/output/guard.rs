//! Makes sure that no input is overwritten, and that no two outputs go to the same file.
//!
//! Every command declares its inputs and outputs here before it opens any of them, since opening a
//! file for writing may already destroy its content.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use sbt_engine::place::printable;

/// Maximum length of a chain of links, which is Linux' own limit.
const MOST_LINKS: u32 = 40;

/// Name of an input file in messages: the file to be shown, judged or compared.
pub const READ: &str = "the input file";
/// Name of the target's executable in messages.
pub const PROGRAM: &str = "the program to be watched";

/// A file with its name in messages; `None` if the file is not used.
pub type LabelledFile<'a> = (&'a str, Option<&'a Path>);

/// Checks that each output file differs from all inputs and from the other outputs. Inputs are
/// named by [`READ`] or [`PROGRAM`], outputs by their options. Files are compared by identity, not
/// by path. Devices and pipes are exempt, since nothing there is overwritten.
///
/// # Errors
/// Two files are the same.
pub fn check(read: &[LabelledFile<'_>], written: &[LabelledFile<'_>]) -> anyhow::Result<()> {
    let all = |named: &[LabelledFile<'_>]| -> Vec<(String, PathBuf, Identity)> {
        let named = named.iter();
        named
            .filter_map(|(what, path)| {
                let path = (*path)?;
                Some(((*what).to_owned(), path.to_owned(), Identity::of(path)?))
            })
            .collect()
    };
    let (read, written) = (all(read), all(written));
    for (at, (option, path, identity)) in written.iter().enumerate() {
        let shown = printable(&path.to_string_lossy());
        if let Some((what, ..)) = read.iter().find(|(.., it)| it == identity) {
            anyhow::bail!("cannot write {option} {shown}: it is {what}; name another file");
        }
        if let Some((other, ..)) = written[..at].iter().find(|(.., it)| it == identity) {
            anyhow::bail!("{other} and {option} name the same file, {shown}; name another");
        }
    }
    Ok(())
}

/// The identity of a file.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// An existing file, by device and inode: it may have several names.
    There(u64, u64),
    /// A file that will be created at this path.
    New(PathBuf),
}

impl Identity {
    /// The identity; `None` for devices, pipes and folders, which are never replaced.
    fn of(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(file) if file.is_file() => Some(Self::There(file.dev(), file.ino())),
            Ok(_) => None,
            Err(_) => Some(Self::New(made(path, MOST_LINKS))),
        }
    }
}

/// The path of the file that would be created for a path without a file. A dangling link creates
/// the file that it points to.
fn made(path: &Path, links: u32) -> PathBuf {
    let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else {
        return path.to_owned();
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let path = folder.join(name);
    match fs::read_link(&path) {
        Ok(target) if links > 0 => made(&folder.join(target), links - 1),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refusal(read: &[LabelledFile<'_>], written: &[LabelledFile<'_>]) -> String {
        check(read, written).unwrap_err().to_string()
    }

    #[test]
    fn what_is_read_is_not_written_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let file = at("run.sbt");
        fs::write(&file, "x").unwrap();
        fs::hard_link(&file, at("hard")).unwrap();
        symlink("run.sbt", at("soft")).unwrap();
        fs::create_dir(at("sub")).unwrap();
        for name in ["run.sbt", "hard", "soft", "./sub/../run.sbt"] {
            let path = at(name);
            let refused = refusal(&[(READ, Some(&file))], &[("--output", Some(&path))]);
            assert_eq!(
                refused,
                format!(
                    "cannot write --output {}: it is the input file; name another file",
                    path.display()
                )
            );
        }
        fs::write(at("other"), "x").unwrap();
        for name in ["other", "new", "sub/run.sbt"] {
            let path = at(name);
            check(&[(READ, Some(&file))], &[("--output", Some(&path))]).unwrap();
        }
    }

    #[test]
    fn no_two_things_go_to_one_file_that_is_there_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), "x").unwrap();
        fs::hard_link(at("a"), at("b")).unwrap();
        fs::create_dir(at("sub")).unwrap();
        symlink("new", at("to-new")).unwrap();
        symlink("to-new", at("to-that")).unwrap();
        for (one, other) in [
            ("a", "a"),
            ("a", "b"),
            ("new", "new"),
            ("new", "sub/../new"),
            ("new", "to-new"),
            ("to-that", "new"),
        ] {
            let (one, other) = (at(one), at(other));
            let written = [
                ("--html", Some(one.as_path())),
                ("-o", None),
                ("--output", Some(other.as_path())),
            ];
            let refused = refusal(&[], &written);
            let begin = "--html and --output name the same file, ";
            assert!(refused.starts_with(begin), "{refused}");
        }
        let (one, other) = (at("new"), at("sub/new"));
        check(&[], &[("--html", Some(&one)), ("--csv", Some(&other))]).unwrap();
        // Links in a circle lead nowhere; following them has to end.
        symlink("one", at("other")).unwrap();
        symlink("other", at("one")).unwrap();
        check(&[], &[("--html", Some(&at("one")))]).unwrap();
    }

    #[test]
    fn names_of_the_working_folder_are_names_like_others() {
        let here = fs::canonicalize(".").unwrap().join("surely-not-there");
        let refused = refusal(
            &[],
            &[
                ("--html", Some(&here)),
                ("--csv", Some(Path::new("surely-not-there"))),
            ],
        );
        assert!(refused.contains("the same file"), "{refused}");
    }

    #[test]
    fn devices_take_all_that_is_written_to_them() {
        let null = Some(Path::new("/dev/null"));
        check(&[(READ, null)], &[("--html", null), ("--output", null)]).unwrap();
    }

    #[test]
    fn names_drive_no_terminal() {
        let path = Some(Path::new("/nowhere/\u{1b}[2J"));
        let refused = refusal(&[(PROGRAM, path)], &[("-o", path)]);
        assert!(!refused.contains('\u{1b}'), "{refused}");
        assert!(refused.contains("the program to be watched"));
    }
}
