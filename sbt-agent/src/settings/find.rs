//! Finds the `sbt.toml` that applies: the nearest one upwards from a folder, if it can be trusted.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use sbt_program::access;

/// The name of the settings file.
pub const NAME: &str = "sbt.toml";
/// The largest size of a settings file.
const MAX_BYTES: u64 = 1 << 20;

/// The file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// The path; the bare name if the file lies in the working directory.
    pub shown: String,
    /// The text; `None` if the file is not trusted.
    pub text: Option<String>,
    /// A line for the user.
    pub note: Option<String>,
}

/// The users whose settings files sbt trusts, root aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The effective user of sbt.
    pub user: u32,
    /// The user who called sudo, if sbt runs as root through sudo.
    pub invoker: Option<u32>,
}

impl Trust {
    /// The users of this process.
    pub fn of_this_process() -> Self {
        Self {
            user: nix::unistd::Uid::effective().as_raw(),
            invoker: access::caller().map(|caller| caller.uid),
        }
    }

    /// Why a file with this `owner` and `mode` is not trusted, and what to do about it. Any user
    /// who can write the file could otherwise control a privileged sbt.
    fn objection(self, owner: u32, mode: u32) -> Option<(String, &'static str)> {
        let known = owner == self.user || owner == 0 || self.invoker == Some(owner);
        if !known {
            let why = format!("it belongs to user {owner}, neither you nor root");
            Some((why, "chown it or copy it"))
        } else if mode & 0o002 != 0 {
            Some(("everybody may write to it".into(), "chmod o-w it"))
        } else {
            None
        }
    }
}

/// Finds the file in `folder` or in the nearest folder above. `None` if there is no such file. The
/// file is read with the rights of the caller: a link of that name may lead anywhere.
///
/// # Errors
/// One line: the nearest file cannot be read.
pub fn nearest(folder: &Path, trust: Trust) -> Result<Option<SettingsFile>, String> {
    access::as_caller(|| find(folder, trust)).map_err(|error| error.to_string())?
}

fn find(folder: &Path, trust: Trust) -> Result<Option<SettingsFile>, String> {
    for above in folder.ancestors() {
        let path = above.join(NAME);
        let shown = if above == folder {
            PathBuf::from(NAME)
        } else {
            path.clone()
        };
        let shown = shown.display().to_string();
        let found = read(&path, trust).map_err(|error| {
            format!("cannot read {shown}: {error}; correct that, or remove or rename the file")
        })?;
        match found {
            Read::Missing => {}
            Read::Text(text) => {
                return Ok(Some(SettingsFile {
                    shown,
                    text: Some(text),
                    note: None,
                }));
            }
            Read::Refused((why, remedy)) => {
                let note = format!("{shown} is ignored: {why}; to use it, {remedy}");
                return Ok(Some(SettingsFile {
                    shown,
                    text: None,
                    note: Some(note),
                }));
            }
        }
    }
    Ok(None)
}

enum Read {
    Missing,
    Refused((String, &'static str)),
    Text(String),
}

fn read(path: &Path, trust: Trust) -> Result<Read, String> {
    let say = |error: io::Error| match nix::errno::Errno::try_from(error) {
        Ok(errno) => errno.desc().to_owned(),
        Err(error) => error.to_string(),
    };
    // Check before opening: an untrusted file, such as a pipe, must not block sbt.
    let before = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            return match error.kind() {
                // A folder that the caller may not search counts as a folder without the file.
                io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::PermissionDenied => Ok(Read::Missing),
                _ => Err(say(error)),
            };
        }
    };
    if let Some(objection) = objection(&before, trust) {
        return Ok(Read::Refused(objection));
    }
    if !before.is_file() {
        return Err("it is not a file".into());
    }
    // If the file has become a pipe meanwhile, opening it must not block.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(say)?;
    // Check again what was really opened.
    let metadata = file.metadata().map_err(say)?;
    if let Some(objection) = objection(&metadata, trust) {
        return Ok(Read::Refused(objection));
    }
    text(file).map(Read::Text)
}

fn objection(metadata: &Metadata, trust: Trust) -> Option<(String, &'static str)> {
    trust.objection(metadata.uid(), metadata.mode())
}

fn text(file: File) -> Result<String, String> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("it is larger than 1 MiB".into());
    }
    String::from_utf8(bytes).map_err(|_| "it is not a text in UTF-8".into())
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
