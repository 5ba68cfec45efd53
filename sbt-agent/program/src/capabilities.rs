//! The capabilities of processes and of files.

use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

use super::{process, status::Status};

/// The extended attribute that holds a file's capabilities.
const ATTRIBUTE: &str = "security.capability";

/// The permitted capabilities of each thread of a process, as bits (linux/capability.h); empty if
/// the process is gone.
pub fn of(pid: u32) -> Vec<u64> {
    let threads = process::thread_ids(pid);
    threads
        .filter_map(|thread| permitted_in(&Status::of(thread)?))
        .collect()
}

fn permitted_in(status: &Status) -> Option<u64> {
    status.bits("CapPrm")
}

/// The capabilities that executing a file permits, as bits, and whether they are in effect from the
/// start; `None` if the file has none.
pub fn of_file(path: &Path) -> Option<(u64, bool)> {
    let mut bytes = [0; 64];
    let length = rustix::fs::getxattr(path, ATTRIBUTE, &mut bytes).ok()?;
    decode(bytes.get(..length)?)
}

/// Whether a file lies on a file system (`nosuid`) that ignores the capabilities of files.
pub fn is_nosuid(path: &Path) -> bool {
    statvfs(path).is_ok_and(|filesystem| filesystem.flags().contains(FsFlags::ST_NOSUID))
}

/// Decodes `struct vfs_cap_data` of linux/capability.h: a word with the flag for "in effect", then
/// for each half of the bits the permitted and the inheritable ones.
fn decode(bytes: &[u8]) -> Option<(u64, bool)> {
    let (words, _) = bytes.as_chunks::<4>();
    let word = |index: usize| words.get(index).map(|word| u32::from_le_bytes(*word));
    let low = u64::from(word(1)?);
    let high = word(3).map_or(0, u64::from);
    Some((high << 32 | low, word(0)? & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_what_is_permitted() {
        let status = "Name:\tCapPrm: 3\nCapInh:\t0000000000000001\n\
                      CapPrm:\t000000c000000000\nCapEff:\t0000000000000000\n";
        assert_eq!(permitted_in(&status.into()), Some(1 << 39 | 1 << 38));
        assert_eq!(permitted_in(&"CapPrm:\tall\n".into()), None);
        assert_eq!(permitted_in(&"".into()), None);
        assert!(!of(std::process::id()).is_empty());
    }

    #[test]
    fn what_setcap_writes_is_read() {
        // cap_bpf,cap_perfmon,cap_sys_ptrace+ep
        let bytes = [
            1, 0, 0, 2, 0, 0, 8, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let three = 1 << 39 | 1 << 38 | 1 << 19;
        assert_eq!(decode(&bytes), Some((three, true)));
        assert_eq!(decode(&bytes[..3]), None);
        assert_eq!(decode(&[]), None);
    }
}
