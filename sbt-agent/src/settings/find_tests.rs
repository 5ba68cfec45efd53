use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

const ME: u32 = 1000;
const OTHER: u32 = 1001;

#[test]
fn whose_file_is_obeyed() {
    let plain = Trust {
        user: ME,
        invoker: None,
    };
    let root = Trust {
        user: 0,
        invoker: None,
    };
    let sudo = Trust {
        user: 0,
        invoker: Some(ME),
    };
    for (trust, owner, mode, obeyed) in [
        (plain, ME, 0o644, true),
        (plain, ME, 0o664, true),
        (plain, 0, 0o644, true),
        (plain, OTHER, 0o644, false),
        (plain, ME, 0o666, false),
        (plain, 0, 0o666, false),
        (root, 0, 0o644, true),
        (root, ME, 0o644, false),
        (root, 0, 0o602, false),
        (sudo, ME, 0o664, true),
        (sudo, 0, 0o644, true),
        (sudo, OTHER, 0o600, false),
        (sudo, ME, 0o646, false),
    ] {
        let objection = trust.objection(owner, mode);
        assert_eq!(objection.is_none(), obeyed, "{trust:?} {owner} {mode:o}");
    }
}

fn trust() -> Trust {
    Trust::of_this_process()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn the_nearest_one_upwards_counts() {
    let folder = folder();
    let top = folder.path();
    let inner = top.join("a/b");
    fs::create_dir_all(&inner).unwrap();
    // This assumes that there is no sbt.toml in / or in the temporary folder.
    assert_eq!(nearest(&inner, trust()), Ok(None));
    fs::write(top.join(NAME), "top").unwrap();
    let found = nearest(&inner, trust()).unwrap().unwrap();
    assert_eq!(found.shown, top.join(NAME).display().to_string());
    assert_eq!(found.text.as_deref(), Some("top"));
    fs::write(inner.join(NAME), "inner").unwrap();
    let found = nearest(&inner, trust()).unwrap().unwrap();
    assert_eq!(
        (found.shown.as_str(), found.text.as_deref()),
        (NAME, Some("inner"))
    );
}

#[test]
fn one_that_anybody_may_write_is_ignored_in_a_line() {
    let folder = folder();
    let path = folder.path().join(NAME);
    fs::write(&path, "watch-all = true").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let found = nearest(folder.path(), trust()).unwrap().unwrap();
    assert_eq!(found.text, None);
    let note = found.note.unwrap();
    assert!(
        note.contains("sbt.toml is ignored") && note.contains("chmod"),
        "{note}"
    );
    assert_eq!(note.lines().count(), 1);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let error = |make: &dyn Fn(&Path)| {
        let folder = folder();
        make(&folder.path().join(NAME));
        nearest(folder.path(), trust()).unwrap_err()
    };
    let is_folder = error(&|path| fs::create_dir(path).unwrap());
    assert!(is_folder.contains("not a file"), "{is_folder}");
    let pipe = error(&|path| {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    });
    assert!(pipe.contains("not a file"), "{pipe}");
    let large = error(&|path| {
        File::create(path).unwrap().set_len(MAX_BYTES + 1).unwrap();
    });
    assert!(large.contains("1 MiB"), "{large}");
    let binary = error(&|path| fs::write(path, [0xff, 0xfe]).unwrap());
    assert!(binary.contains("UTF-8"), "{binary}");
    let circle = error(&|path| symlink(NAME, path).unwrap());
    for line in [is_folder, pipe, large, binary, circle] {
        assert!(line.starts_with("cannot read sbt.toml: "), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn a_link_to_nowhere_is_no_file() {
    let folder = folder();
    symlink("nowhere", folder.path().join(NAME)).unwrap();
    assert_eq!(nearest(folder.path(), trust()), Ok(None));
}

#[test]
fn the_largest_is_read() {
    let folder = folder();
    let text = "#".repeat(1 << 20);
    fs::write(folder.path().join(NAME), &text).unwrap();
    let found = nearest(folder.path(), trust()).unwrap().unwrap();
    assert_eq!(found.text.map(|text| text.len()), Some(1 << 20));
}
