//! Privileges that a file gives to a user who executes it. The kernel withholds them when a tracer
//! without these privileges traces the program.

use std::{
    fs::{self, Metadata},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use nix::unistd::{Gid, Group, Uid, User};

use super::{capabilities, elf, status::Status};
use crate::access::rights;
use sbt_engine::place::printable;

/// The facts about a file that decide.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// The mode, as in `st_mode`.
    mode: u32,
    /// Id of the owner.
    user: u32,
    /// Id of the group.
    group: u32,
    /// The permitted capabilities of the file, as bits.
    capabilities: u64,
    /// Whether the file system ignores set-user-id bits and capabilities (`nosuid`).
    nosuid: bool,
    /// Whether the file is a script: the privileges of its interpreter's file count then.
    is_script: bool,
}

/// The credentials of the process that executes a file, or has executed it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials {
    /// Effective user id.
    pub user: u32,
    /// Effective group id.
    pub group: u32,
    permitted: u64,
    /// The most capabilities that the process can have, as bits.
    bounding: u64,
    no_new_privs: bool,
}

/// A privilege that a file gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gain {
    User(u32),
    Group(u32),
    Capabilities,
}

/// The bit of `CAP_SETUID`.
const SETUID: u64 = 1 << 7;

/// The privileges that an untraced process gains by executing a file, and a traced process does not
/// (`bprm_fill_uid` and `cap_bprm_creds_from_file` of the kernel).
fn gains(file: &Facts, credentials: &Credentials) -> Vec<Gain> {
    if file.nosuid || file.is_script || credentials.no_new_privs {
        return Vec::new();
    }
    let is_set = |bits| file.mode & bits == bits;
    // A process that may become any user gets the ids even when it is traced.
    let ids = credentials.permitted & SETUID == 0;
    let user = ids && is_set(libc::S_ISUID) && file.user != credentials.user;
    let group = ids && is_set(libc::S_ISGID | libc::S_IXGRP) && file.group != credentials.group;
    let capabilities = file.capabilities & credentials.bounding & !credentials.permitted != 0;
    [
        user.then_some(Gain::User(file.user)),
        group.then_some(Gain::Group(file.group)),
        capabilities.then_some(Gain::Capabilities),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Credentials {
    /// The credentials of a process.
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(&Status::of(pid)?)
    }

    fn read(status: &Status) -> Option<Self> {
        let in_effect = |name| status.numbers(name)?.get(1).copied();
        Some(Self {
            user: in_effect("Uid")?,
            group: in_effect("Gid")?,
            permitted: status.bits("CapPrm")?,
            bounding: status.bits("CapBnd")?,
            no_new_privs: status.field("NoNewPrivs") == Some("1"),
        })
    }

    /// The same credentials after the process has become an ordinary user.
    #[must_use]
    pub fn become_user(self, (user, group): (u32, u32)) -> Self {
        Self {
            user,
            group,
            permitted: 0,
            ..self
        }
    }
}

/// The privileges that a file gives to an untraced process, in words; `None` if it gives none. For
/// a program that already runs under a tracer, by its link in /proc: the privileges that it did not
/// get.
pub fn of_file(path: &Path, credentials: &Credentials) -> Option<String> {
    // In a user namespace the owners of files are not the users that they seem to be.
    if rights::in_user_namespace() {
        return None;
    }
    let meta = fs::metadata(path).ok()?;
    let gains = gains(&facts(path, &meta), credentials);
    let words: Vec<_> = gains.into_iter().map(words).collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

fn facts(path: &Path, meta: &Metadata) -> Facts {
    let is_script = || {
        let mut start = [0; 2];
        let read = elf::open_regular(path).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && start == *b"#!"
    };
    let has_bits = meta.mode() & (libc::S_ISUID | libc::S_ISGID) != 0;
    let capabilities = capabilities::of_file(path).map_or(0, |(permitted, _)| permitted);
    Facts {
        mode: meta.mode(),
        user: meta.uid(),
        group: meta.gid(),
        capabilities,
        nosuid: capabilities::is_nosuid(path),
        is_script: (has_bits || capabilities != 0) && is_script(),
    }
}

fn words(gain: Gain) -> String {
    match gain {
        Gain::User(id) => {
            let user = User::from_uid(Uid::from_raw(id)).ok().flatten();
            let name = user.map_or_else(|| id.to_string(), |user| printable(&user.name));
            format!("those of user {name} (set-user-id)")
        }
        Gain::Group(id) => {
            let group = Group::from_gid(Gid::from_raw(id)).ok().flatten();
            let name = group.map_or_else(|| id.to_string(), |group| printable(&group.name));
            format!("those of group {name} (set-group-id)")
        }
        Gain::Capabilities => "capabilities of its file".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET_USER: u32 = 0o104_755;
    const SET_GROUP: u32 = 0o102_755;
    const NET_RAW: u64 = 1 << 13;

    /// A file of user 0 and group 42.
    const fn file(mode: u32, capabilities: u64) -> Facts {
        Facts {
            mode,
            user: 0,
            group: 42,
            capabilities,
            nosuid: false,
            is_script: false,
        }
    }

    const ANN: Credentials = Credentials {
        user: 1000,
        group: 1000,
        permitted: 0,
        bounding: u64::MAX,
        no_new_privs: false,
    };

    const TO_ROOT: Gain = Gain::User(0);

    #[test]
    fn what_a_file_gives_is_told_as_the_kernel_decides() {
        let (user, group) = (Gain::User(0), Gain::Group(42));
        for (mode, capabilities, expected) in [
            (0o100_755, 0, &[][..]),
            (SET_USER, 0, &[user]),
            (SET_GROUP, 0, &[group]),
            (0o100_755, NET_RAW, &[Gain::Capabilities]),
            (
                SET_USER | SET_GROUP,
                NET_RAW,
                &[user, group, Gain::Capabilities],
            ),
            // If the group may not execute the file, the set-group-id bit means something else.
            (0o102_745, 0, &[]),
        ] {
            assert_eq!(gains(&file(mode, capabilities), &ANN), expected, "{mode:o}");
        }
    }

    #[test]
    fn nobody_gains_what_they_have_may_become_or_can_never_have() {
        let permitted = |permitted| Credentials { permitted, ..ANN };
        let root = Credentials {
            user: 0,
            group: 42,
            ..permitted(u64::MAX)
        };
        let all = file(SET_USER | SET_GROUP, NET_RAW);
        let capable = file(0o100_755, NET_RAW);
        let of_ann = Facts {
            user: 1000,
            ..file(SET_USER, 0)
        };
        let bounded = Credentials { bounding: 1, ..ANN };
        for (file, credentials, expected) in [
            (all, root, &[][..]),
            (of_ann, ANN, &[]),
            (capable, permitted(NET_RAW), &[]),
            (all, permitted(SETUID), &[Gain::Capabilities]),
            (capable, bounded, &[]),
            (file(SET_USER, NET_RAW), bounded, &[TO_ROOT]),
        ] {
            assert_eq!(
                gains(&file, &credentials),
                expected,
                "{file:?} {credentials:?}"
            );
        }
    }

    #[test]
    fn nothing_is_gained_where_nobody_gains_anything() {
        let all = file(SET_USER | SET_GROUP, NET_RAW);
        let nosuid = Facts {
            nosuid: true,
            ..all
        };
        let script = Facts {
            is_script: true,
            ..all
        };
        let held = Credentials {
            no_new_privs: true,
            ..ANN
        };
        for (file, credentials) in [(nosuid, ANN), (script, ANN), (all, held)] {
            assert_eq!(gains(&file, &credentials), [], "{file:?} {credentials:?}");
        }
    }

    #[test]
    fn who_executes_is_told_by_the_status() {
        let status = "Name:\tx\nUid:\t1000\t1001\t1000\t1000\nGid:\t5\t6\t5\t5\nCapPrm:\t2000\n\
                      CapBnd:\tffff\nNoNewPrivs:\t1\n";
        let credentials = Credentials::read(&status.into()).unwrap();
        assert_eq!((credentials.user, credentials.group), (1001, 6));
        assert_eq!(
            (credentials.permitted, credentials.bounding),
            (NET_RAW, 0xffff)
        );
        assert!(credentials.no_new_privs);
        assert!(Credentials::read(&"Uid:\t1\n".into()).is_none());
        let other = credentials.become_user((7, 8));
        assert_eq!((other.user, other.group, other.permitted), (7, 8, 0));
    }

    #[test]
    fn gains_are_told_in_words() {
        assert_eq!(words(Gain::User(0)), "those of user root (set-user-id)");
        assert!(words(Gain::Group(u32::MAX - 1)).contains("(set-group-id)"));
        // Nothing is gained by an ordinary file.
        let credentials = Credentials::of(std::process::id()).unwrap();
        assert_eq!(of_file(Path::new("/proc/self/exe"), &credentials), None);
    }
}
