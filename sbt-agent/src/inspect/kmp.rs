//! The team that a thread of LLVM's OpenMP waits for: see `target/runtimes/kmp.rs` for what
//! lies where.

use sbt_program::memory::Memory;

/// More threads than these are not looked through.
const MAX_THREADS: usize = 4096;

/// So many empty places in a row are taken for the end of the array.
const MAX_EMPTY: u32 = 256;

/// What belongs to a thread lies so close behind the beginning of its `kmp_info_t`, bytes.
const NEAR: u64 = 16 << 10;

/// Where teams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The address of `__kmp_threads`.
    pub threads: u64,
    /// See [`sbt_common::Kmp::team`].
    pub team: u32,
    /// See [`sbt_common::Kmp::count`].
    pub count: u32,
}

/// The addresses of the `kmp_info_t` of all threads of a process, in order. `threads`:
/// see [`Way::threads`].
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

/// The team of a thread, its address and how many it has, by something that the thread
/// holds: the address of something in its `kmp_info_t`. The first that is one counts.
/// `infos`: see [`infos`].
pub fn team(memory: Memory, way: Way, infos: &[u64], held: &[u64]) -> Option<(u64, u32)> {
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
        // Threads, each with its team behind one word; the team has its count first.
        let teams = [[3_u64, 0], [0, 0]];
        let address = |it: &[u64]| it.as_ptr().expose_provenance() as u64;
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
        let way = Way {
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
