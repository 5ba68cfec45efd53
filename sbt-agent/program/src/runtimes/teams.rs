//! The teams of LLVM's OpenMP in memory: finds the team that a thread waits for. `kmp.rs` explains
//! the layout.

use crate::memory::Memory;

/// How many entries of the array of threads are read.
const MAX_THREADS: usize = 4096;

/// After so many empty entries in a row the array is taken to end.
const MAX_EMPTY: u32 = 256;

/// How far after the beginning of a thread's `kmp_info_t` an address belongs to that thread, bytes.
const NEAR: u64 = 16 << 10;

/// How to find the team of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TeamOffsets {
    /// The address of `__kmp_threads`.
    pub threads: u64,
    /// Offset of the team's address in `kmp_info_t`; see [`sbt_common::Kmp::team`].
    pub team: u32,
    /// Offset of the number of threads in a team; see [`sbt_common::Kmp::count`].
    pub count: u32,
}

/// Addresses of the `kmp_info_t` of all threads of a process, sorted. `threads`: the address of
/// `__kmp_threads`.
pub fn infos(memory: Memory, threads: u64) -> Vec<u64> {
    let Some(array) = memory.word(threads) else {
        return Vec::new();
    };
    let mut infos = Vec::new();
    let mut empty = 0;
    let bytes = memory.read(array, 8 * MAX_THREADS);
    for info in bytes.as_chunks::<8>().0 {
        match u64::from_ne_bytes(*info) {
            0 if empty == MAX_EMPTY => break,
            0 => empty += 1,
            info => {
                infos.push(info);
                empty = 0;
            }
        }
    }
    infos.sort_unstable();
    infos
}

/// A thread's team: its address, and its number of threads. `held`: values that the thread holds,
/// one of which may be an address in its `kmp_info_t`; the first that leads to a team counts.
/// `infos`: from [`infos`].
pub fn team(memory: Memory, way: TeamOffsets, infos: &[u64], held: &[u64]) -> Option<(u64, u32)> {
    held.iter().find_map(|held| {
        let after = infos.partition_point(|info| info <= held);
        let info = infos[..after].last().filter(|info| held - *info < NEAR)?;
        let team = memory.word(info.checked_add(way.team.into())?)?;
        let count = memory.bytes(team.checked_add(way.count.into())?)?;
        let count = u32::from_ne_bytes(count);
        (team != 0 && (1..=1 << 20).contains(&count)).then_some((team, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_by_what_it_holds() {
        // Each thread has its team in its second word; a team has its count in the first.
        let teams = [[3_u64, 0], [0, 0]];
        let address = |words: &[u64]| words.as_ptr().expose_provenance() as u64;
        let infos = [
            vec![0, address(&teams[0]), 0, 0],
            vec![0, address(&teams[1]), 0, 0],
        ];
        let array: Vec<u64> = infos
            .iter()
            .map(|info| address(info))
            .chain([0; 300])
            .collect();
        let threads = [address(&array)];
        let way = TeamOffsets {
            threads: address(&threads),
            team: 8,
            count: 0,
        };
        let memory = Memory {
            thread: std::process::id(),
        };
        let found = super::infos(memory, way.threads);
        let mut expected: Vec<u64> = infos.iter().map(|info| address(info)).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
        let team = |held: &[u64]| team(memory, way, &found, held);
        let held = address(&infos[0]) + 16;
        let expected = Some((address(&teams[0]), 3));
        assert_eq!(team(&[5, held]), expected);
        assert_eq!(team(&[address(&infos[1])]), None, "a count of 0");
        assert_eq!(team(&[]), None);
        assert_eq!(super::infos(memory, 8), [0; 0]);
        assert_eq!(super::team(memory, way, &[], &[held]), None);
    }
}
