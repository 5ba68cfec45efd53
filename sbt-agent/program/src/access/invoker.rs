//! The user who has started sbt through sudo, doas or pkexec.

use std::{
    ffi::{CString, OsString},
    io,
};

use nix::unistd::{Gid, Uid, User};

/// The user who has started sbt through sudo: programs are started as this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoker {
    /// User id.
    pub uid: Uid,
    /// Id of the primary group.
    pub gid: Gid,
    pub(crate) name: CString,
    pub(crate) home: Option<OsString>,
}

impl Invoker {
    /// The user who has called sudo, doas or pkexec; `None` if sbt does not run as root under one
    /// of them.
    pub fn from_sudo() -> Option<Self> {
        if !Uid::effective().is_root() {
            return None;
        }
        let by_name = |name: &str| User::from_name(name).ok().flatten();
        let by_id = |id: u32| User::from_uid(Uid::from_raw(id)).ok().flatten();
        let who = Caller::of(|name| std::env::var(name).ok())?;
        let (ids, user) = match who {
            Caller::Ids(uid, gid) => (Some((uid, gid)), by_id(uid)),
            Caller::Id(uid) => (None, by_id(uid)),
            Caller::Name(name) => (None, by_name(&name)),
        };
        let of_user = user
            .as_ref()
            .map(|user| (user.uid.as_raw(), user.gid.as_raw()));
        let (uid, gid) = ids.or(of_user)?;
        if uid == 0 {
            return None;
        }
        Some(Self {
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            name: user
                .as_ref()
                .and_then(|user| CString::new(user.name.clone()).ok())
                .unwrap_or_default(),
            home: user.map(|user| user.dir.into_os_string()),
        })
    }

    /// The user's name, or the user id if the user has no name.
    pub fn shown(&self) -> String {
        if self.name.is_empty() {
            return format!("user {}", self.uid);
        }
        self.name.to_string_lossy().into_owned()
    }

    /// Ids of all groups of this user.
    pub fn groups(&self) -> Vec<Gid> {
        let all = if self.name.is_empty() {
            None
        } else {
            nix::unistd::getgrouplist(&self.name, self.gid).ok()
        };
        all.unwrap_or_else(|| vec![self.gid])
    }

    /// Becomes this user for good. To be called between fork and exec only.
    pub(crate) fn become_user(&self) -> io::Result<()> {
        // Groups come first: after `setuid` the process may no longer change them.
        if self.name.is_empty() {
            nix::unistd::setgroups(&[self.gid])?;
        } else {
            nix::unistd::initgroups(&self.name, self.gid)?;
        }
        nix::unistd::setgid(self.gid)?;
        nix::unistd::setuid(self.uid)?;
        Ok(())
    }
}

/// Environment variables by which sudo (and `run0`), doas and pkexec name the user who has called
/// them. They are removed from the program's environment: the program runs as if that user had
/// started it.
pub(crate) const TOLD: [&str; 6] = [
    "SUDO_UID",
    "SUDO_GID",
    "SUDO_USER",
    "SUDO_COMMAND",
    "DOAS_USER",
    "PKEXEC_UID",
];

/// The user who has called sudo, doas or pkexec, as the environment names them.
#[derive(Debug, PartialEq, Eq)]
enum Caller {
    /// User id and group id.
    Ids(u32, u32),
    Id(u32),
    Name(String),
}

impl Caller {
    /// `variable` reads an environment variable. A user id without its group id is not accepted for
    /// sudo: the group is not guessed.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let id = |name| variable(name)?.parse().ok();
        match (id("SUDO_UID"), id("SUDO_GID"), id("PKEXEC_UID")) {
            (Some(uid), Some(gid), _) => Some(Self::Ids(uid, gid)),
            (.., Some(uid)) => Some(Self::Id(uid)),
            _ => variable("DOAS_USER").map(Self::Name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_called_is_told_by_the_environment() {
        let who = |variables: &[(&str, &str)]| {
            Caller::of(|name| {
                let found = variables.iter().find(|(is, _)| *is == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let sudo = [("SUDO_UID", "1000"), ("SUDO_GID", "100")];
        assert_eq!(who(&sudo), Some(Caller::Ids(1000, 100)));
        assert_eq!(who(&sudo[..1]), None);
        assert_eq!(who(&[("PKEXEC_UID", "7")]), Some(Caller::Id(7)));
        let doas = [("DOAS_USER", "ann")];
        assert_eq!(who(&doas), Some(Caller::Name("ann".into())));
        assert_eq!(who(&[("SUDO_UID", "-1"), ("SUDO_GID", "x")]), None);
        assert_eq!(who(&[]), None);
    }
}
