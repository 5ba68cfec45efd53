//! New files that are created early to check that they can be written.

use std::path::{Path, PathBuf};

use sbt_program::access::typed;

/// Files that did not exist before. Dropping this removes those that are still empty: nothing was
/// run, so nothing was written.
pub struct Fresh(Vec<PathBuf>);

impl Fresh {
    /// Tracks the files that do not exist yet; existing files are never removed.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let new = paths.into_iter().filter(|path| !path.exists());
        Self(new.map(Path::to_owned).collect())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        for path in &self.0 {
            let _stays_empty = typed::remove_if_empty(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
