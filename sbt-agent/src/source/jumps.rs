//! The jumps that the inject backend puts into programs, as another sbt finds them.
//!
//! Before the code that a jump leads to stand words that tell whose it is.

use procfs::process::Process;
use sbt_program::{
    arch::trampoline::{LONGEST_ENTRY, target},
    process,
};

/// The name of the memory with the rings, in which a program notes for sbt.
pub const RINGS: &str = "sbt-rings";

/// Length of those words: [`MAGIC`], address of the control word, process of sbt, and when that began.
pub const TAG: u64 = 8 * WORDS as u64;
const WORDS: usize = 4;

/// Begins the code of each place.
const MAGIC: u64 = u64::from_le_bytes(*b"sbtnotes");

/// A jump of some sbt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Address of the word that switches its code on and off.
    pub control: u64,
    /// The process of sbt.
    pub owner: u32,
    /// Whether that process still runs.
    pub lives: bool,
}

/// The words before code of this process with the control word at an address.
pub fn tag(control: u64) -> Vec<u8> {
    let this = std::process::id();
    let words = [MAGIC, control, u64::from(this), started(this).unwrap_or(0)];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The jump of an sbt at an address, `None` if something else is there. `read` fills its bytes from an
/// address on, and tells whether it could.
pub fn jump_at(at: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> Option<Jump> {
    let mut there = [0; LONGEST_ENTRY];
    let mut tag = [0; WORDS * 8];
    if !read(at, &mut there) || !read(target(&there, at)?.checked_sub(TAG)?, &mut tag) {
        return None;
    }
    let (words, _) = tag.as_chunks::<8>();
    let [magic, control, owner, since] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
    // The words lie in memory of the program, which may write anything there.
    let owner = u32::try_from(owner).unwrap_or(0);
    (magic == MAGIC).then(|| Jump {
        control,
        owner,
        lives: owner != 0 && started(owner) == Some(since),
    })
}

/// When a process began, in ticks since the system did; `None` if there is no such process, or if it has
/// ended and its parent does not know yet.
fn started(process: u32) -> Option<u64> {
    let process = Process::new_with_root(process::folder(process)).ok()?;
    let stat = process.stat().ok()?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.starttime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_program::arch::trampoline::entry;

    const CODE: u64 = 0x5000;

    /// Memory with an instruction at 0x1000 that leads to code with a tag.
    fn memory(tag: &[u8]) -> Vec<u8> {
        let mut memory = vec![0x90; 0x6000];
        let moves = [0x48, 0x81, 0xec, 8, 1, 0, 0];
        let entry = entry(&moves, 0x1000, CODE).unwrap();
        memory[0x1000..][..entry.len()].copy_from_slice(&entry);
        memory[0x5000 - tag.len()..0x5000].copy_from_slice(tag);
        memory
    }

    fn found(memory: &[u8]) -> Option<Jump> {
        jump_at(0x1000, |at, bytes| {
            let from = usize::try_from(at).unwrap();
            let there = memory.get(from..from + bytes.len());
            there.is_some_and(|there| {
                bytes.copy_from_slice(there);
                true
            })
        })
    }

    #[test]
    fn a_jump_tells_whose_it_is_and_whether_that_sbt_lives() {
        let own = std::process::id();
        let expected = Jump {
            control: 0x77,
            owner: own,
            lives: true,
        };
        assert_eq!(found(&memory(&tag(0x77))), Some(expected));
        // Of an earlier process with this number.
        let mut of_another = tag(0x77);
        of_another[24] ^= 1;
        let gone = Jump {
            lives: false,
            ..expected
        };
        assert_eq!(found(&memory(&of_another)), Some(gone));
    }

    #[test]
    fn other_code_is_no_jump_of_sbt() {
        let mut other = tag(0x77);
        other[0] ^= 1;
        assert_eq!(found(&memory(&other)), None);
        assert_eq!(found(&[0x90; 0x1100]), None);
        assert_eq!(found(&[]), None);
    }
}
