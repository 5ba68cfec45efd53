//! Adds a name to the settings file and leaves everything else in the file unchanged.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, fchown},
    path::{Path, PathBuf},
};

use toml_edit::{DocumentMut, Item, Table, value};

use super::{
    SiteName,
    find::{self, NAME, Trust},
    spec,
};
use sbt_program::access;

/// Names a site in the nearest `sbt.toml` from `folder` upwards, or in a new one in `folder`.
/// Returns the name as it will be read, and the file.
///
/// # Errors
/// One line: the name is not valid, or the file cannot be changed.
pub fn add_name(
    folder: Option<&Path>,
    site: &str,
    name: &str,
) -> Result<(SiteName, PathBuf), String> {
    let named = spec::named(&format!("{site}={name}"))?;
    let folder = folder.ok_or("the working directory is gone")?;
    let found = find::nearest(folder, Trust::of_this_process())?;
    let (path, text) = match found {
        Some(found) => {
            let text = found.text.ok_or_else(|| {
                found
                    .note
                    .unwrap_or_else(|| format!("{} is not to be trusted", found.shown))
            })?;
            (folder.join(found.shown), text)
        }
        None => (folder.join(NAME), String::new()),
    };
    let text = with_name(&text, site, name)?;
    write(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok((named, path))
}

fn with_name(text: &str, site: &str, name: &str) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error| format!("the settings file is damaged: {error}"))?;
    let names = document
        .entry("names")
        .or_insert(Item::Table(Table::new()))
        .as_table_like_mut()
        .ok_or("`names` is not a table in the settings file")?;
    names.insert(site, value(name));
    Ok(document.to_string())
}

/// Replaces the file by a new one, so that it is never half written. The new file is made with the
/// rights of the caller, who owns the folder.
fn write(path: &Path, text: &str) -> io::Result<()> {
    access::as_caller(|| replace(path, text))?
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension(format!("toml.{}", std::process::id()));
    let old = fs::metadata(path).ok();
    // Another user with write access to the folder may have put a link there.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&new)?;
    let result = file.write_all(text.as_bytes()).and_then(|()| {
        if let Some(old) = &old {
            let mine = file.metadata()?;
            if (mine.uid(), mine.gid()) != (old.uid(), old.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(old.permissions())?;
        }
        fs::rename(&new, path)
    });
    if result.is_err() {
        let _not_there = fs::remove_file(&new);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_else_stays_as_it_is() {
        let text = "# mine\nwatch = [\"a.c:1\"] # this\n\n[names]\n\"a.c:1\" = \"first\"\n";
        let new = with_name(text, "b.c:2", "second").unwrap();
        assert_eq!(new, format!("{text}\"b.c:2\" = \"second\"\n"));
        let changed = with_name(&new, "a.c:1", "other").unwrap();
        assert!(changed.contains("\"a.c:1\" = \"other\"") && changed.starts_with("# mine\n"));
        assert_eq!(with_name("", "f", "x").unwrap(), "[names]\nf = \"x\"\n");
        assert!(with_name("names = 3", "f", "x").is_err());
        assert!(with_name("[", "f", "x").is_err());
    }

    #[test]
    fn the_file_is_found_upwards_or_made() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        let (named, path) = add_name(Some(&below), "lu.c:7", "pivot").unwrap();
        assert_eq!((named.name.as_str(), path), ("pivot", below.join(NAME)));
        fs::rename(below.join(NAME), folder.path().join(NAME)).unwrap();
        let (_, path) = add_name(Some(&below), "lu.c:9", "update").unwrap();
        assert_eq!(path, folder.path().join(NAME));
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(
            text,
            "[names]\n\"lu.c:7\" = \"pivot\"\n\"lu.c:9\" = \"update\"\n"
        );
    }
}
