//! Which processes have a piece of shared memory.

use std::collections::HashSet;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};

use super::{all, folder, is_forked, parent};

/// How the kernel marks files that have no name any more, and memory that never had one.
const NAMELESS: &str = " (deleted)";

/// Device and inode of the file behind memory at an address, if the memory is shared and no process
/// can get it any more by the name of the file. Descriptors of it may still be passed on.
pub fn closed(pid: u32, address: u64) -> Option<(u64, u64)> {
    let maps = Process::new_with_root(folder(pid)).ok()?.maps().ok()?;
    let holds = |map: &MemoryMap| (map.address.0..map.address.1).contains(&address);
    let map = maps.into_iter().find(holds)?;
    // Segments of System V have numbers by which others get them.
    let is_nameless = match &map.pathname {
        MMapPath::Path(path) => path.to_string_lossy().ends_with(NAMELESS),
        _ => false,
    };
    let is_shared = map.perms.contains(MMPermissions::SHARED);
    (is_shared && is_nameless).then(|| file(&map))
}

/// The processes that have shared memory of a file; `None` if others may have inherited it, into which
/// sbt may not look: those that descend from one of these, the parent of which one is a copy, or copies
/// with the name of one.
pub fn with(wanted: (u64, u64)) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    let mut hidden = HashSet::new();
    for pid in all() {
        let maps = Process::new_with_root(folder(pid)).and_then(|process| process.maps());
        match maps {
            Ok(maps) => {
                let has = maps.iter().any(|map| file(map) == wanted);
                found.extend(has.then_some(pid));
            }
            Err(procfs::ProcError::NotFound(_)) => {}
            Err(_) => {
                hidden.insert(pid);
            }
        }
    }
    let ancestors: HashSet<u32> = hidden.iter().copied().flat_map(ancestors).collect();
    let may_be_copy =
        |pid: &u32| is_forked(*pid) && parent(*pid).is_some_and(|of| hidden.contains(&of));
    // A copy whose parent has ended tells nothing of where it comes from but its name.
    let copies = hidden.iter().filter(|pid| is_forked(**pid));
    let copies: HashSet<Vec<u8>> = copies.filter_map(|pid| name(*pid)).collect();
    let has_copies = |pid: &u32| name(*pid).is_none_or(|name| copies.contains(&name));
    let is_known = |pid: &u32| !ancestors.contains(pid) && !may_be_copy(pid) && !has_copies(pid);
    found.iter().all(is_known).then_some(found)
}

fn name(pid: u32) -> Option<Vec<u8>> {
    std::fs::read(folder(pid).join("comm")).ok()
}

fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(parent(pid), |pid| parent(*pid)).take_while(|pid| *pid != 0)
}

fn file(map: &MemoryMap) -> (u64, u64) {
    let (major, minor) = map.dev;
    let device = u64::from(major.cast_unsigned()) << 32 | u64::from(minor.cast_unsigned());
    (device, map.inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_one_process_is_known_to_be_so() {
        let map = |flags| {
            // SAFETY: new memory, which is never freed.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    4096,
                    libc::PROT_READ | libc::PROT_WRITE,
                    flags | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(at, libc::MAP_FAILED);
            at.addr() as u64
        };
        let own = std::process::id();
        let file = closed(own, map(libc::MAP_SHARED)).unwrap();
        // A process that another test begins shares it until it executes its program.
        let is_alone = || with(file) == Some(vec![own]);
        let is_once_alone = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            is_alone()
        });
        assert!(is_once_alone, "{:?}", with(file));
        assert_eq!(closed(own, map(libc::MAP_PRIVATE)), None);
        assert_eq!(closed(own, 0), None);
    }
}
