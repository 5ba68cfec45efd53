//! What sbt keeps of its privileges, and what it gives up for good.
//!
//! Capabilities belong to threads: they are given up while there is one, and those that it
//! starts have no more. The program has been forked by then, and keeps what it has.

use std::{fs, io, os::unix::fs::MetadataExt as _};

use rustix::thread::{
    CapabilitySet as Set, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::access;

/// To load programs, to put probes on and to open counters, also later: libraries come,
/// probes that were off go on again.
const WATCHING: Set = Set::BPF.union(Set::PERFMON);

/// To look into processes, at any time.
const LOOKING: Set = Set::SYS_PTRACE
    // Their files, which may be for their user's eyes only.
    .union(Set::DAC_READ_SEARCH)
    // /proc/PID/map_files.
    .union(Set::CHECKPOINT_RESTORE)
    // The buffers of samples of many threads.
    .union(Set::IPC_LOCK);

/// To hand signals on to a program that runs as another user.
const SIGNALLING: Set = Set::KILL;

/// To write files into folders of whoever has called sudo, and to give them to that user.
/// In effect only while a file is written: see [`Writing`].
const WRITING: Set = OPENING.union(Set::CHOWN).union(Set::FOWNER);

/// To open what belongs to another user, as the memory of a process of theirs does.
const OPENING: Set = Set::DAC_OVERRIDE;

/// What this thread lacks to look at processes of other users, by name. The second is for
/// what /proc shows to the owner of a process alone.
pub fn missing_to_look() -> Vec<&'static str> {
    missing_in(capabilities(None).map_or(Set::empty(), |have| have.effective))
}

/// What the first user namespace is called by the kernel (`PROC_USER_INIT_INO`).
const FIRST_USER_NAMESPACE: u64 = 0xefff_fffd;

/// Whether this is a user namespace of its own, so that capabilities are not those of the
/// machine.
pub fn in_user_namespace() -> bool {
    fs::metadata("/proc/self/ns/user").is_ok_and(|it| it.ino() != FIRST_USER_NAMESPACE)
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

/// To open files as the user who has called sudo, or as whom the target runs. In effect only meanwhile: see
/// [`access::Scope`].
const BECOMING: Set = Set::SETUID.union(Set::SETGID);

/// To open the program's files as the user who has called sudo, and to give up the rest afterwards.
const SETTING_UP: Set = BECOMING.union(Set::SETPCAP);

/// What stays for the sake of the processes that are looked into. The kernel lets nobody look
/// into one with capabilities that they have not themselves, unless they have
/// `CAP_SYS_PTRACE` (`cap_ptrace_access_check`): in effect for its files in /proc, permitted for
/// the rest. `theirs`: what each of them has. For one that has more than we have nothing helps.
fn to_match(permitted: Set, theirs: &[Set]) -> Set {
    if permitted.contains(Set::SYS_PTRACE) {
        return Set::empty();
    }
    let within = theirs.iter().filter(|set| permitted.contains(**set));
    within.fold(Set::empty(), |all, set| all | *set)
}

/// Whether what is kept depends on what is looked into: see [`limit`].
pub fn depend_on_others() -> bool {
    capabilities(None)
        .is_ok_and(|have| !have.permitted.is_empty() && !have.permitted.contains(Set::SYS_PTRACE))
}

/// What a process with these capabilities keeps, with what `more` there is a need for.
fn kept(permitted: Set, more: Set) -> CapabilitySets {
    let mut always = WATCHING | looking(permitted) | SIGNALLING | more;
    // Where somebody has given that alone, as of old, it stands for them.
    if !permitted.contains(WATCHING) {
        always |= Set::SYS_ADMIN;
    }
    CapabilitySets {
        effective: permitted & always,
        permitted: permitted & (always | WRITING),
        inheritable: Set::empty(),
    }
}

/// To look into processes, with what there is: root in a container may mostly read what is
/// others' because it may write it too.
fn looking(permitted: Set) -> Set {
    let reads = permitted.contains(Set::DAC_READ_SEARCH) || !permitted.contains(Set::SYS_PTRACE);
    LOOKING | if reads { Set::empty() } else { OPENING }
}

/// The same with what it takes to open files as another user. `permitted`: what there is.
fn able_to_become(sets: CapabilitySets, permitted: Set) -> CapabilitySets {
    CapabilitySets {
        permitted: sets.permitted | (permitted & BECOMING),
        ..sets
    }
}

/// What the process keeps that traces: it loads no programs, writes no files but memory of the
/// target, and opens counters only if some are asked for (`counts`).
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

/// What each thread of some processes may do: a set of capabilities as bits.
fn sets(theirs: &[u64]) -> Vec<Set> {
    let sets = theirs.iter().map(|bits| Set::from_bits_retain(*bits));
    sets.collect()
}

/// Gives up all privileges that watching does not need, for this thread and those that it
/// will start: for good, since nothing that they execute gets any more either. To be called
/// while there is only one thread, and when the program has been forked. `admin`: whether
/// the kernel asks for `CAP_SYS_ADMIN` to put probes on, as before 6.6; `theirs`: the
/// capabilities that whoever is looked into is permitted, as bits.
///
/// # Errors
/// The kernel refuses; which it does nowhere.
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

/// The same as far as it can be done before a program is set up: what others have written is
/// read to do so.
///
/// # Errors
/// As above.
pub fn limit_to_set_up(admin: bool, theirs: &[u64]) -> io::Result<()> {
    keep(|permitted| {
        let more = for_probes(admin) | to_match(permitted, &sets(theirs));
        kept(permitted, more | SETTING_UP)
    })
}

/// The same for the process that traces. `counts`: whether it opens counters.
///
/// # Errors
/// As above.
pub fn limit_to_trace(theirs: &[u64], counts: bool) -> io::Result<()> {
    empty_bounding_set()?;
    keep(|permitted| kept_to_trace(permitted, &sets(theirs), counts))
}

/// The same, and keeps nothing but what signals to other users' processes need.
///
/// # Errors
/// As above.
pub fn keep_signalling() -> io::Result<()> {
    empty_bounding_set()?;
    keep(|permitted| CapabilitySets {
        effective: permitted & SIGNALLING,
        permitted: permitted & SIGNALLING,
        inheritable: Set::empty(),
    })
}

/// What this thread executes from now on has what it has itself, also where an ordinary user
/// has that from whoever has started us: an `exec` keeps only what is ambient, and nothing is
/// any more as soon as something has been given up. For a thread that does nothing else.
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
        // Whoever has forbidden it has it that way.
        let _forbidden = configure_capability_in_ambient_set(one, true);
    }
}

/// As root: what is executed gets none of them back.
fn empty_bounding_set() -> io::Result<()> {
    if capabilities(None)?.effective.contains(Set::SETPCAP) {
        for number in 0..u64::BITS {
            // The kernel does not know so many.
            let _unknown = remove_capability_from_bounding_set(Set::from_bits_retain(1 << number));
        }
    }
    Ok(())
}

fn keep(which: impl FnOnce(Set) -> CapabilitySets) -> io::Result<()> {
    let have = capabilities(None)?;
    set_no_new_privs(true)?;
    // What is not inheritable cannot be ambient either.
    set_capabilities(None, which(have.permitted))?;
    Ok(())
}

/// As long as there is one, this thread may write where root may: a report under sudo goes
/// to the folder of another user.
#[derive(Debug)]
pub struct Writing {
    /// What it was before, if that is to come back.
    before: Option<CapabilitySets>,
}

impl Writing {
    /// Begins. Who has no such privilege gets none.
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
            // Fewer are never refused.
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
        // As docker gives it.
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
            // Into that one nobody looks, whatever they keep; into the other they do.
            (docker, &[all, Set::NET_RAW], Set::NET_RAW),
            (docker, &[docker | Set::BPF], none),
            (ambient, &[ambient], ambient),
            (none, &[none, docker], none),
            // It stands for all of them.
            (all, &[all, docker], none),
            (Set::SYS_PTRACE | Set::NET_RAW, &[Set::NET_RAW], none),
        ] {
            assert_eq!(to_match(permitted, theirs), expected, "{theirs:?}");
            let traces = kept_to_trace(permitted, theirs, false);
            for sets in [kept(permitted, expected), traces] {
                // What the kernel asks for.
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
        // Of a thread of its own, since nothing of it comes back.
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
