//! Users whose rights a thread takes for a while.

use std::{
    cell::Cell,
    io::{self, ErrorKind},
    sync::OnceLock,
};

use rustix::thread::{
    CapabilitySet as Set, CapabilitySets, Gid, capabilities, set_capabilities, set_thread_groups,
};

use crate::{access::Invoker, status::Status};

/// Capabilities by which a thread overrides the permissions of files.
const OVER_FILES: Set = Set::CHOWN
    .union(Set::DAC_OVERRIDE)
    .union(Set::DAC_READ_SEARCH)
    .union(Set::FOWNER)
    .union(Set::FSETID)
    .union(Set::MKNOD);

/// Capabilities by which a thread takes the rights of another user.
const BECOMING: Set = Set::SETUID.union(Set::SETGID);

/// A user, as the ids that decide which files may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Ids of all groups.
    groups: Vec<u32>,
}

/// The user who has called sudo, doas or pkexec. `None` without these: the caller is then the user
/// who runs sbt.
pub fn caller() -> Option<&'static User> {
    static CALLER: OnceLock<Option<User>> = OnceLock::new();
    let caller = CALLER.get_or_init(|| {
        let invoker = Invoker::from_sudo()?;
        Some(User {
            uid: invoker.uid.as_raw(),
            gid: invoker.gid.as_raw(),
            groups: invoker.groups().iter().map(|gid| gid.as_raw()).collect(),
        })
    });
    caller.as_ref()
}

/// Whether sbt takes the rights of another user, for which it keeps some capabilities.
pub fn changes_user() -> bool {
    caller().is_some() || super::target::user().is_some()
}

impl User {
    /// The user that a process runs as; `None` if that is root, or unknown.
    pub fn of_process(pid: u32) -> Option<Self> {
        Self::read(&Status::of(pid)?).filter(|user| user.uid != 0)
    }

    fn read(status: &Status) -> Option<Self> {
        // The four ids on a line: real, effective, saved, file system.
        Some(Self {
            uid: *status.numbers("Uid")?.get(3)?,
            gid: *status.numbers("Gid")?.get(3)?,
            groups: status.numbers("Groups")?,
        })
    }

    fn groups(&self) -> Vec<Gid> {
        self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect()
    }
}

thread_local! {
    static IS_SCOPED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a [`Scope`] is in effect on this thread. The thread must not raise its rights meanwhile.
pub fn is_scoped() -> bool {
    IS_SCOPED.get()
}

/// While a scope exists, its thread opens files with the rights of a user and without the
/// capabilities that override permissions. The thread keeps the capabilities to look into
/// processes.
#[derive(Debug)]
#[must_use]
pub struct Scope {
    before: Option<Before>,
}

/// The rights of a thread before a scope.
#[derive(Debug)]
struct Before {
    capabilities: CapabilitySets,
    user: Option<User>,
}

impl Scope {
    /// Takes the rights of `user`. Without a user, an ordinary user who runs sbt only puts the
    /// capabilities aside, and root keeps all rights. Within another scope nothing changes.
    ///
    /// # Errors
    /// The kernel does not let this thread become that user.
    pub fn begin(user: Option<&User>) -> io::Result<Self> {
        let nothing = Self { before: None };
        if is_scoped() {
            return Ok(nothing);
        }
        let is_root = nix::unistd::Uid::effective().is_root();
        if is_root && user.is_none() {
            return Ok(nothing);
        }
        let have = capabilities(None)?;
        let lowered = CapabilitySets {
            effective: have.effective - OVER_FILES,
            ..have
        };
        let Some(user) = user.filter(|_| is_root) else {
            // An ordinary user: the capabilities, if any, come from the file of sbt.
            if lowered == have {
                return Ok(nothing);
            }
            set_capabilities(None, lowered)?;
            return Ok(Self::since(have, None));
        };
        let before = User {
            uid: file_user(None),
            gid: file_group(None),
            groups: own_groups()?,
        };
        let able = CapabilitySets {
            effective: have.effective | (have.permitted & BECOMING),
            ..have
        };
        set_capabilities(None, able)?;
        // From here on, dropping `scope` restores the former rights.
        let scope = Self::since(have, Some(before));
        set_thread_groups(&user.groups())?;
        file_group(Some(user.gid));
        file_user(Some(user.uid));
        if (file_user(None), file_group(None)) != (user.uid, user.gid) {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                format!(
                    "sbt may not open files as user {} (missing CAP_SETUID and CAP_SETGID)",
                    user.uid
                ),
            ));
        }
        set_capabilities(
            None,
            CapabilitySets {
                effective: able.effective - OVER_FILES,
                ..able
            },
        )?;
        Ok(scope)
    }

    fn since(capabilities: CapabilitySets, user: Option<User>) -> Self {
        IS_SCOPED.set(true);
        let before = Some(Before { capabilities, user });
        Self { before }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let Some(Before { capabilities, user }) = self.before.take() else {
            return;
        };
        if let Some(user) = user {
            // The user comes first: a thread may return to its own user without a capability.
            file_user(Some(user.uid));
            file_group(Some(user.gid));
            // Fails only where taking the user's groups has failed.
            let _unchanged = set_thread_groups(&user.groups());
        }
        // The kernel raises the effective capabilities when the user is root again.
        let _lowered = set_capabilities(None, capabilities);
        IS_SCOPED.set(false);
    }
}

/// No user or group has this id: the kernel answers with the present id.
const NONE: u32 = u32::MAX;

/// Sets this thread's user id for files to `user`, if given, and returns the former id.
fn file_user(user: Option<u32>) -> u32 {
    // SAFETY: passes a number only. The call changes this thread alone, not the process.
    unsafe { libc::setfsuid(user.unwrap_or(NONE)) }.cast_unsigned()
}

/// Sets this thread's group id for files to `group`, if given, and returns the former id.
fn file_group(group: Option<u32>) -> u32 {
    // SAFETY: passes a number only. The call changes this thread alone, not the process.
    unsafe { libc::setfsgid(group.unwrap_or(NONE)) }.cast_unsigned()
}

fn own_groups() -> io::Result<Vec<u32>> {
    let groups = nix::unistd::getgroups()?;
    Ok(groups.iter().map(|gid| gid.as_raw()).collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use super::*;

    const NOBODY: u32 = 65534;

    fn nobody() -> User {
        User {
            uid: NOBODY,
            gid: NOBODY,
            groups: vec![NOBODY],
        }
    }

    fn state() -> (CapabilitySets, u32, u32, Vec<u32>) {
        let groups = own_groups().unwrap();
        (
            capabilities(None).unwrap(),
            file_user(None),
            file_group(None),
            groups,
        )
    }

    #[test]
    fn the_user_of_a_process_is_the_one_that_opens_its_files() {
        let status =
            "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \nVmPeak:\t1 kB\n";
        let expected = User {
            uid: 4,
            gid: 8,
            groups: vec![9, 10],
        };
        assert_eq!(User::read(&status.into()), Some(expected));
        assert_eq!(User::read(&"Uid:\t1\t2\t3\n".into()), None);
        assert_eq!(User::read(&"".into()), None);
    }

    #[test]
    fn a_scope_has_the_rights_of_the_user_and_leaves_no_trace() {
        if !nix::unistd::Uid::effective().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| fs::File::open(path).map(drop).map_err(|error| error.kind());
        let (roots, everybodys) = (folder.path().join("a"), folder.path().join("b"));
        for (path, mode) in [(&roots, 0o600), (&everybodys, 0o644)] {
            fs::write(path, "x").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let before = state();
        let user = nobody();
        let scope = Scope::begin(Some(&user)).unwrap();
        assert!(is_scoped());
        assert_eq!(open(&roots), Err(ErrorKind::PermissionDenied));
        assert_eq!(open(&everybodys), Ok(()));
        // The end of an inner scope does not end the outer one.
        drop(Scope::begin(None).unwrap());
        assert_eq!(open(&roots), Err(ErrorKind::PermissionDenied));
        drop(scope);
        assert!(!is_scoped());
        assert_eq!(open(&roots), Ok(()));
        assert_eq!(state(), before);
    }

    #[test]
    fn without_the_capability_nothing_is_opened_as_if_it_were_the_user() {
        if !nix::unistd::Uid::effective().is_root() {
            return;
        }
        // On a thread of its own: dropped capabilities do not come back.
        std::thread::spawn(|| {
            let have = capabilities(None).unwrap();
            let without = CapabilitySets {
                effective: have.effective - BECOMING,
                permitted: have.permitted - BECOMING,
                inheritable: Set::empty(),
            };
            set_capabilities(None, without).unwrap();
            let before = state();
            assert!(Scope::begin(Some(&nobody())).is_err());
            assert!(!is_scoped());
            assert_eq!(state(), before);
        })
        .join()
        .unwrap();
    }
}
