//! Privileges that sbt keeps, and those that it gives up for good.
//!
//! Capabilities belong to threads: sbt gives them up while it has one thread, and the threads that
//! it starts have no more. The program has been forked by then, and keeps its capabilities.

use std::{fs, io, os::unix::fs::MetadataExt as _};

use rustix::thread::{
    CapabilitySet as Set, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::access;

/// To load programs, to put probes on and to open counters. Also needed later: libraries come, and
/// probes that were off go on again.
const WATCHING: Set = Set::BPF.union(Set::PERFMON);

/// To look into processes, at any time.
const LOOKING: Set = Set::SYS_PTRACE
    // For files of processes that only their user may read.
    .union(Set::DAC_READ_SEARCH)
    // /proc/PID/map_files.
    .union(Set::CHECKPOINT_RESTORE)
    // The values of System V semaphores, and who used them last.
    .union(Set::IPC_OWNER)
    // The buffers of samples of many threads.
    .union(Set::IPC_LOCK);

/// To pass signals on to a program that runs as another user.
const SIGNALLING: Set = Set::KILL;

/// To write files into folders of the user who has called sudo, and to give the files to that user.
/// In effect only while a file is written: see [`Writing`].
const WRITING: Set = OPENING.union(Set::CHOWN).union(Set::FOWNER);

/// To open files of another user, such as the memory of their process.
const OPENING: Set = Set::DAC_OVERRIDE;

/// Names of the capabilities that this thread lacks to look at processes of other users. The second
/// is for files in /proc that only the owner of a process may read.
pub fn missing_to_look() -> Vec<&'static str> {
    missing_in(capabilities(None).map_or(Set::empty(), |have| have.effective))
}

/// The inode of the first user namespace (`PROC_USER_INIT_INO`).
const FIRST_USER_NAMESPACE: u64 = 0xefff_fffd;

/// Whether sbt runs in a user namespace of its own, where capabilities do not count for the whole
/// machine.
pub fn in_user_namespace() -> bool {
    fs::metadata("/proc/self/ns/user")
        .is_ok_and(|namespace| namespace.ino() != FIRST_USER_NAMESPACE)
}

/// Whether this thread may look into every process.
pub fn may_look_at_all() -> bool {
    capabilities(None).is_ok_and(|have| have.effective.contains(Set::SYS_PTRACE))
}

fn missing_in(effective: Set) -> Vec<&'static str> {
    let needed = [
        (Set::SYS_PTRACE, "CAP_SYS_PTRACE"),
        (
            Set::DAC_READ_SEARCH | Set::DAC_OVERRIDE,
            "CAP_DAC_READ_SEARCH",
        ),
    ];
    let missing = needed
        .into_iter()
        .filter(|(set, _)| !effective.intersects(*set));
    missing.map(|(_, name)| name).collect()
}

/// To open files as the user who has called sudo, or as the user that the target runs as. In effect
/// only meanwhile: see [`access::Scope`].
const BECOMING: Set = Set::SETUID.union(Set::SETGID);

/// To open the program's files as the user who has called sudo, and to give up the rest afterwards.
const SETTING_UP: Set = BECOMING.union(Set::SETPCAP);

/// The capabilities that sbt keeps in order to look into the processes of `theirs`, the permitted
/// capabilities of each. To look into a process that has a capability, the kernel demands the same
/// capability or `CAP_SYS_PTRACE` (`cap_ptrace_access_check`): in effect for the process's files in
/// /proc, permitted for the rest. A process that has more capabilities than sbt is out of reach,
/// and is ignored here.
fn to_match(permitted: Set, theirs: &[Set]) -> Set {
    if permitted.contains(Set::SYS_PTRACE) {
        return Set::empty();
    }
    let within = theirs.iter().filter(|set| permitted.contains(**set));
    within.fold(Set::empty(), |all, set| all | *set)
}

/// Whether the capabilities that sbt keeps depend on the processes that it looks into: see
/// [`limit`].
pub fn depend_on_others() -> bool {
    capabilities(None)
        .is_ok_and(|have| !have.permitted.is_empty() && !have.permitted.contains(Set::SYS_PTRACE))
}

/// The capabilities that a process with `permitted` keeps, including `more`.
fn kept(permitted: Set, more: Set) -> CapabilitySets {
    let mut always = WATCHING | looking(permitted) | SIGNALLING | more;
    // If `CAP_SYS_ADMIN` was granted instead of `WATCHING`, as was usual in the past, it stands for
    // them.
    if !permitted.contains(WATCHING) {
        always |= Set::SYS_ADMIN;
    }
    CapabilitySets {
        effective: permitted & always,
        permitted: permitted & (always | WRITING),
        inheritable: Set::empty(),
    }
}

/// The capabilities to look into processes, chosen from what is permitted: root in a container can
/// mostly read other users' files only because it may also write them.
fn looking(permitted: Set) -> Set {
    let reads = permitted.contains(Set::DAC_READ_SEARCH) || !permitted.contains(Set::SYS_PTRACE);
    LOOKING | if reads { Set::empty() } else { OPENING }
}

/// The sets, with the capabilities to open files as another user where `permitted` has them.
fn able_to_become(sets: CapabilitySets, permitted: Set) -> CapabilitySets {
    CapabilitySets {
        permitted: sets.permitted | (permitted & BECOMING),
        ..sets
    }
}

/// The capabilities that the tracing process keeps: it loads no programs, writes no files but the
/// memory of the target, and opens counters only if `counts` is true.
fn kept_to_trace(permitted: Set, theirs: &[Set], counts: bool) -> CapabilitySets {
    let counting = match (counts, permitted.contains(Set::PERFMON)) {
        (false, _) => Set::empty(),
        (true, true) => Set::PERFMON,
        (true, false) => Set::SYS_ADMIN,
    };
    let looking = looking(permitted) - Set::IPC_LOCK;
    let always = looking | SIGNALLING | counting | to_match(permitted, theirs);
    CapabilitySets {
        effective: permitted & always,
        permitted: permitted & (always | OPENING),
        inheritable: Set::empty(),
    }
}

/// Kernels before 6.6 ask for `CAP_SYS_ADMIN` whenever a probe is put on.
fn for_probes(admin: bool) -> Set {
    if admin { Set::SYS_ADMIN } else { Set::empty() }
}

/// Capabilities of threads, converted from bits.
fn sets(theirs: &[u64]) -> Vec<Set> {
    let sets = theirs.iter().map(|bits| Set::from_bits_retain(*bits));
    sets.collect()
}

/// Gives up all privileges that watching does not need, for this thread and those that it will
/// start. Final, since no program that they execute gets any more either. To be called while there
/// is only one thread, and when the program has been forked. `admin`: whether the kernel asks for
/// `CAP_SYS_ADMIN` to put probes on, as before 6.6; `theirs`: the permitted capabilities of the
/// processes that sbt looks into, as bits.
///
/// # Errors
/// The kernel refuses, which no known kernel does.
pub fn limit(admin: bool, theirs: &[u64]) -> io::Result<()> {
    empty_bounding_set()?;
    keep(|permitted| {
        let more = for_probes(admin) | to_match(permitted, &sets(theirs));
        let kept = kept(permitted, more);
        if access::changes_user() {
            able_to_become(kept, permitted)
        } else {
            kept
        }
    })
}

/// Like [`limit`], as far as possible before a program is set up: setting up reads what others have
/// written.
///
/// # Errors
/// The kernel refuses, which no known kernel does.
pub fn limit_to_set_up(admin: bool, theirs: &[u64]) -> io::Result<()> {
    keep(|permitted| {
        let more = for_probes(admin) | to_match(permitted, &sets(theirs));
        kept(permitted, more | SETTING_UP)
    })
}

/// Like [`limit`], for the process that traces. `counts`: whether it opens counters.
///
/// # Errors
/// The kernel refuses, which no known kernel does.
pub fn limit_to_trace(theirs: &[u64], counts: bool) -> io::Result<()> {
    empty_bounding_set()?;
    keep(|permitted| kept_to_trace(permitted, &sets(theirs), counts))
}

/// Like [`limit`], but keeps only the capability to send signals to other users' processes.
///
/// # Errors
/// The kernel refuses, which no known kernel does.
pub fn keep_signalling() -> io::Result<()> {
    empty_bounding_set()?;
    keep(|permitted| CapabilitySets {
        effective: permitted & SIGNALLING,
        permitted: permitted & SIGNALLING,
        inheritable: Set::empty(),
    })
}

/// Lets programs that this thread executes keep its capabilities, even if an ordinary user has got
/// them from the process that started sbt. An `exec` keeps only ambient capabilities, and none is
/// ambient any more as soon as one has been given up. To be called on a thread that does nothing
/// else.
pub fn hand_on() {
    let Ok(have) = capabilities(None) else {
        return;
    };
    let heritable = CapabilitySets {
        inheritable: have.permitted,
        ..have
    };
    if set_capabilities(None, heritable).is_err() {
        return;
    }
    for one in have.permitted.iter() {
        // Setting this fails if it is forbidden by securebits, which is then respected.
        let _forbidden = configure_capability_in_ambient_set(one, true);
    }
}

/// As root: empties the bounding set, so that executed programs get no capability back.
fn empty_bounding_set() -> io::Result<()> {
    if capabilities(None)?.effective.contains(Set::SETPCAP) {
        for number in 0..u64::BITS {
            // The kernel knows fewer capabilities than that.
            let _unknown = remove_capability_from_bounding_set(Set::from_bits_retain(1 << number));
        }
    }
    Ok(())
}

fn keep(which: impl FnOnce(Set) -> CapabilitySets) -> io::Result<()> {
    let have = capabilities(None)?;
    set_no_new_privs(true)?;
    // A capability that is not inheritable cannot be ambient either.
    set_capabilities(None, which(have.permitted))?;
    Ok(())
}

/// While one exists, this thread may write where root may: a report under sudo goes to the folder
/// of another user.
#[derive(Debug)]
pub struct Writing {
    /// The former sets, if they are to be restored.
    before: Option<CapabilitySets>,
}

impl Writing {
    /// Raises the thread's rights. A thread without these permitted capabilities gets none.
    pub fn begin() -> Self {
        let before = capabilities(None).ok().filter(|have| {
            let more = have.permitted & WRITING;
            let raised = CapabilitySets {
                effective: have.effective | more,
                ..*have
            };
            raised != *have && set_capabilities(None, raised).is_ok()
        });
        Self { before }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Lowering capabilities is never refused.
            let _lowered = set_capabilities(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_keeps_what_watching_and_its_files_need() {
        let all = Set::from_bits_retain((1 << 41) - 1);
        let sets = kept(all, for_probes(false));
        assert!(sets.effective.contains(WATCHING | LOOKING | SIGNALLING));
        assert!(!sets.effective.intersects(WRITING));
        assert!(sets.permitted.contains(WRITING));
        let given_up = [
            Set::SYS_ADMIN,
            Set::SETUID,
            Set::SETGID,
            Set::SETPCAP,
            Set::SYS_MODULE,
            Set::SYS_RAWIO,
            Set::NET_ADMIN,
            Set::MKNOD,
            Set::SETFCAP,
        ];
        for set in given_up {
            assert!(!sets.permitted.intersects(set), "{set:?}");
        }
        assert!(sets.inheritable.is_empty());
        let old = kept(all, for_probes(true));
        assert_eq!(old.effective - sets.effective, Set::SYS_ADMIN);
        let alone = kept(all - Set::BPF, for_probes(false));
        assert!(alone.effective.contains(Set::SYS_ADMIN));
    }

    #[test]
    fn who_opens_files_as_another_user_may_become_one_and_is_not_yet() {
        let all = Set::from_bits_retain((1 << 41) - 1);
        let sets = able_to_become(kept(all, Set::empty()), all);
        assert!(sets.permitted.contains(BECOMING));
        assert!(!sets.effective.intersects(BECOMING));
        let none = able_to_become(kept(WATCHING, Set::empty()), WATCHING);
        assert_eq!(none.permitted, WATCHING);
    }

    #[test]
    fn who_lacks_ptrace_keeps_what_the_target_has_and_nobody_else_does() {
        // The capabilities that docker gives.
        let docker = Set::CHOWN
            | WRITING
            | Set::FSETID
            | Set::KILL
            | Set::SETUID
            | Set::SETGID
            | Set::SETPCAP
            | Set::NET_BIND_SERVICE
            | Set::NET_RAW
            | Set::SYS_CHROOT
            | Set::MKNOD
            | Set::AUDIT_WRITE
            | Set::SETFCAP;
        let (none, all) = (Set::empty(), Set::from_bits_retain((1 << 41) - 1));
        let ambient = WATCHING | Set::NET_RAW;
        for (permitted, theirs, expected) in [
            (docker, &[docker][..], docker),
            (
                docker,
                &[Set::NET_RAW, Set::MKNOD],
                Set::NET_RAW | Set::MKNOD,
            ),
            (docker, &[none], none),
            (docker, &[], none),
            // Nobody can look into the first process, whatever is kept; the second can be looked
            // into.
            (docker, &[all, Set::NET_RAW], Set::NET_RAW),
            (docker, &[docker | Set::BPF], none),
            (ambient, &[ambient], ambient),
            (none, &[none, docker], none),
            // `CAP_SYS_PTRACE` stands for all of them.
            (all, &[all, docker], none),
            (Set::SYS_PTRACE | Set::NET_RAW, &[Set::NET_RAW], none),
        ] {
            assert_eq!(to_match(permitted, theirs), expected, "{theirs:?}");
            let traces = kept_to_trace(permitted, theirs, false);
            for sets in [kept(permitted, expected), traces] {
                // The sets that the kernel checks.
                assert!(sets.effective.contains(expected), "{sets:?}");
                assert!(sets.permitted.contains(expected), "{sets:?}");
            }
        }
    }

    #[test]
    fn who_traces_keeps_less() {
        let all = Set::from_bits_retain((1 << 41) - 1);
        let looking = (LOOKING - Set::IPC_LOCK) | SIGNALLING;
        let three = WATCHING | Set::SYS_PTRACE;
        let old = Set::SYS_ADMIN | Set::SYS_PTRACE;
        for (permitted, counts, effective) in [
            (all, false, looking),
            (all, true, looking | Set::PERFMON),
            (three, false, Set::SYS_PTRACE),
            (three, true, Set::SYS_PTRACE | Set::PERFMON),
            (old, false, Set::SYS_PTRACE),
            (old, true, old),
        ] {
            let sets = kept_to_trace(permitted, &[], counts);
            assert_eq!(sets.effective, effective, "{permitted:?}");
            assert_eq!(sets.permitted, effective | permitted & OPENING);
        }
    }

    #[test]
    fn what_a_look_at_others_lacks_is_named() {
        assert_eq!(missing_in(Set::SYS_PTRACE), ["CAP_DAC_READ_SEARCH"]);
        let both = ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"];
        assert_eq!(missing_in(WATCHING), both);
        assert!(missing_in(LOOKING).is_empty());
        assert!(missing_in(Set::SYS_PTRACE | OPENING).is_empty());
        assert_eq!(missing_in(OPENING), ["CAP_SYS_PTRACE"]);
    }

    #[test]
    fn who_may_read_only_because_they_may_write_does_so() {
        for (permitted, in_effect) in [
            (Set::SYS_PTRACE | OPENING, true),
            (Set::SYS_PTRACE | OPENING | Set::DAC_READ_SEARCH, false),
            (OPENING, false),
        ] {
            let sets = kept(permitted, Set::empty());
            assert_eq!(sets.effective.contains(OPENING), in_effect, "{permitted:?}");
            assert!(sets.permitted.contains(OPENING));
        }
    }

    #[test]
    fn nobody_gets_more_than_they_have() {
        for have in [Set::empty(), WATCHING, WATCHING | Set::SYS_PTRACE] {
            let sets = kept(have, for_probes(true) | SETTING_UP);
            assert_eq!((sets.effective, sets.permitted), (have, have));
        }
    }

    #[test]
    fn what_is_given_up_stays_so_and_is_missed_only_where_it_should() {
        // On a thread of its own, since its capabilities do not come back.
        let result = std::thread::spawn(|| {
            let before = capabilities(None).unwrap();
            limit_to_set_up(false, &[]).unwrap();
            limit(false, &[]).unwrap();
            let after = capabilities(None).unwrap();
            let writing = Writing::begin();
            let meanwhile = capabilities(None).unwrap();
            drop(writing);
            (before, after, meanwhile, capabilities(None).unwrap())
        });
        let (before, after, meanwhile, end) = result.join().unwrap();
        assert_eq!(after, kept(before.permitted, Set::empty()));
        assert_eq!(
            meanwhile.effective,
            after.effective | after.permitted & WRITING
        );
        assert_eq!(end, after);
        assert!(
            set_capabilities(None, before).is_ok(),
            "another thread's are its own"
        );
    }
}
