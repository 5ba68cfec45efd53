//! Files of which it is made sure that they can be written, before anything is in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::rights::Writing;

/// Files that are not there yet. When this goes away, those of them that are empty are
/// removed: nothing was run, and so nothing was written.
pub struct Fresh(Vec<PathBuf>);

impl Fresh {
    /// Of files that may be there already; those stay.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let new = paths.into_iter().filter(|path| !path.exists());
        Self(new.map(Path::to_owned).collect())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _as_root = Writing::begin();
        for path in &self.0 {
            if fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.len() == 0) {
                let _stays_empty = fs::remove_file(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stayed_empty_is_removed_if_it_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let (old, new, written) = (path("old"), path("new"), path("written"));
        fs::write(&old, "").unwrap();
        let none = path("none");
        let fresh = Fresh::of([&*old, &new, &written, &none]);
        fs::write(&new, "").unwrap();
        fs::write(&written, "report").unwrap();
        assert!(new.exists());
        drop(fresh);
        assert!(old.exists() && !new.exists() && written.exists() && !none.exists());
    }
}
