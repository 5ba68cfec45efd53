//! What sbt keeps of its privileges, and what it gives up for good.
//!
//! Capabilities belong to threads: they are given up while there is one, and those that it
//! starts have no more. The program has been forked by then, and keeps what it has.

use std::io;

use rustix::thread::{
    CapabilitySet as Set, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

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
const WRITING: Set = Set::DAC_OVERRIDE.union(Set::CHOWN).union(Set::FOWNER);

/// What this thread lacks to look at processes of other users, by name. The second is for
/// what /proc shows to the owner of a process alone.
pub fn missing_to_look() -> Vec<&'static str> {
    missing_in(capabilities(None).map_or(Set::empty(), |have| have.effective))
}

fn missing_in(effective: Set) -> Vec<&'static str> {
    let needed = [
        (Set::SYS_PTRACE, "CAP_SYS_PTRACE"),
        (Set::DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
    ];
    let missing = needed
        .into_iter()
        .filter(|(set, _)| !effective.contains(*set));
    missing.map(|(_, name)| name).collect()
}

/// To ask a program's dynamic linker, as the user who has called sudo, what it will load; and
/// to give up the rest afterwards.
const SETTING_UP: Set = Set::SETUID.union(Set::SETGID).union(Set::SETPCAP);

/// What a process with these capabilities keeps, with what `more` there is a need for.
fn kept(permitted: Set, more: Set) -> CapabilitySets {
    let mut always = WATCHING | LOOKING | SIGNALLING | more;
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

/// Kernels before 6.6 ask for `CAP_SYS_ADMIN` whenever a probe is put on.
fn for_probes(admin: bool) -> Set {
    if admin { Set::SYS_ADMIN } else { Set::empty() }
}

/// Gives up all privileges that watching does not need, for this thread and those that it
/// will start: for good, since nothing that they execute gets any more either. To be called
/// while there is only one thread, and when the program has been forked. `admin`: whether
/// the kernel asks for `CAP_SYS_ADMIN` to put probes on, as before 6.6.
///
/// # Errors
/// The kernel refuses; which it does nowhere.
pub fn limit(admin: bool) -> io::Result<()> {
    empty_bounding_set()?;
    keep(|permitted| kept(permitted, for_probes(admin)))
}

/// The same as far as it can be done before a program is set up: what others have written is
/// read to do so.
///
/// # Errors
/// As above.
pub fn limit_to_set_up(admin: bool) -> io::Result<()> {
    keep(|permitted| kept(permitted, for_probes(admin) | SETTING_UP))
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
    fn what_a_look_at_others_lacks_is_named() {
        assert_eq!(missing_in(Set::SYS_PTRACE), ["CAP_DAC_READ_SEARCH"]);
        let both = ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"];
        assert_eq!(missing_in(WATCHING), both);
        assert!(missing_in(LOOKING).is_empty());
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
            limit_to_set_up(false).unwrap();
            limit(false).unwrap();
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
