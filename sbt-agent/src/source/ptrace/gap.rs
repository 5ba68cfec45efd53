//! Finds free pages in a process's memory.

use super::space::PAGE;
use sbt_program::process::Occupied;

/// The lowest address considered, whatever `vm.mmap_min_addr` is (65536 by default): nothing is
/// mapped below.
const LOWEST: u64 = 1 << 16;

/// The free page nearest to `address`, directly below a mapping but for one free page between them.
/// `None` if there is none within `reach` bytes.
pub fn near(address: u64, all: &[Occupied], reach: u64) -> Option<u64> {
    pages_near(address, all, reach, PAGE)
}

/// As [`near`], for free pages of `length` bytes.
///
/// The heap grows upwards into its gap, so the pages are at the gap's upper end. Mappings that grow
/// downwards get no such pages.
pub fn pages_near(address: u64, all: &[Occupied], reach: u64, length: u64) -> Option<u64> {
    let mut end = LOWEST;
    let mut best: Option<u64> = None;
    for one in all {
        let page = one.start.saturating_sub(length + PAGE);
        let is_nearer = best.is_none_or(|best| page.abs_diff(address) < best.abs_diff(address));
        if page >= end.saturating_add(PAGE) && !one.grows_down && is_nearer {
            best = Some(page);
        }
        end = end.max(one.end);
    }
    best.filter(|page| page.abs_diff(address) < reach)
}

/// Where the pages begin that [`pages_far`] gives, and how far from what comes behind them they end: code is
/// elsewhere as a rule, and pages near code are for what must be there.
const FAR: u64 = 1 << 36;
const APART: u64 = 1 << 32;

/// Free pages of `length` bytes far from everything but other such pages, in address order of `all`. `None`
/// if there are none.
pub fn pages_far(all: &[Occupied], length: u64) -> Option<u64> {
    const END: u64 = 1 << 46;
    let mut at = FAR;
    for one in all.iter().filter(|one| one.end > FAR) {
        if one.start >= at.saturating_add(length).saturating_add(APART) {
            break;
        }
        at = at.max(one.end);
    }
    (at.saturating_add(length) < END).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: u64 = 1 << 30;

    fn occupied(all: &[(u64, u64)]) -> Vec<Occupied> {
        let one = |&(start, end)| Occupied {
            start,
            end,
            grows_down: false,
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_static_program_has_it_below_its_code() {
        let all = occupied(&[(0x40_0000, 0x4c_0000), (0x6c_0000, 0x70_0000)]);
        assert_eq!(near(0x40_1000, &all, REACH), Some(0x3f_e000));
    }

    #[test]
    fn what_may_lie_anywhere_lies_far_from_code() {
        let libraries = 0x7f00_0000_0000;
        let mut all = occupied(&[(0x40_0000, 0x4c_0000), (libraries, libraries + PAGE)]);
        assert_eq!(pages_far(&all, PAGE), Some(FAR));
        all.insert(1, occupied(&[(FAR, FAR + PAGE)])[0]);
        assert_eq!(pages_far(&all, PAGE), Some(FAR + PAGE));
        // Something else is too near.
        all.insert(2, occupied(&[(FAR + APART, FAR + APART + PAGE)])[0]);
        assert_eq!(pages_far(&all, PAGE), Some(FAR + APART + PAGE));
        let full = occupied(&[(0, u64::MAX)]);
        assert_eq!(pages_far(&full, PAGE), None);
    }

    #[test]
    fn what_was_taken_before_is_not_taken_again() {
        let mut all = occupied(&[(0x5555_5555_4000, 0x5555_5555_9000)]);
        for page in [0x5555_5555_2000, 0x5555_5555_0000, 0x5555_5554_e000] {
            assert_eq!(near(0x5555_5555_5000, &all, REACH), Some(page));
            all.insert(0, occupied(&[(page, page + PAGE)])[0]);
        }
    }

    #[test]
    fn neither_the_stack_nor_what_is_far_away_has_it() {
        let mut all = occupied(&[(0x7fff_0000_0000, 0x7fff_0010_0000)]);
        assert!(near(0x7fff_0000_0000, &all, REACH).is_some());
        all[0].grows_down = true;
        assert_eq!(near(0x7fff_0000_0000, &all, REACH), None);
        let all = occupied(&[(0x5555_5555_4000, 0x5555_5555_9000)]);
        assert_eq!(near(0x7fff_0000_0000, &all, REACH), None);
        assert_eq!(near(0, &[], REACH), None);
    }

    #[test]
    fn where_there_is_hardly_a_gap_it_is_elsewhere() {
        // One gap has a single page, and another is at the lowest address.
        let all = occupied(&[
            (0x1_1000, 0x40_0000),
            (0x40_1000, 0x50_0000),
            (0x60_0000, 0x70_0000),
        ]);
        assert_eq!(near(0x40_0000, &all, REACH), Some(0x5f_e000));
    }

    #[test]
    fn several_pages_need_a_gap_that_is_wide_enough() {
        let all = occupied(&[
            (0x1_0000, 0x40_0000),
            (0x40_4000, 0x50_0000),
            (0x60_0000, 0x70_0000),
        ]);
        let pages = |count| pages_near(0x40_4000, &all, REACH, count * PAGE);
        assert_eq!(pages(2), Some(0x40_1000));
        assert_eq!(pages(3), Some(0x5f_c000));
    }
}
