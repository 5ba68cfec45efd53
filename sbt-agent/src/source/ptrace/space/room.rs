//! Pages in the target's memory for instructions in whose place breakpoints stand.

use std::os::unix::fs::FileExt as _;

use super::{
    super::{
        displaced::ROOM,
        gap,
        inject::{self, Failed},
        stop::Stop,
    },
    PAGE, Space,
};
use crate::target::{process, trace::Registers};

/// Code that is looked through for an instruction that calls the kernel, bytes.
const SEARCHED: u64 = 4 << 20;

/// More of them no program needs.
const MOST_PAGES: usize = 256;

/// An instruction may mean something so far away from where it is, and so must lie near to
/// where it was, bytes: addresses in it are 32 bits.
const NEAR: u64 = 1 << 30;

impl Space {
    /// Has a thread, which is in its own code, map a page near an address.
    pub(super) fn make_room(
        &mut self,
        stop: Stop,
        registers: &Registers,
        near: u64,
    ) -> Result<Stop, Failed> {
        if self.room_for(near).is_some() || self.no_page || self.pages.len() == MOST_PAGES {
            return Ok(stop);
        }
        // Another thread of it may be able to.
        if inject::is_forbidden(stop.id()) {
            return Ok(stop);
        }
        let wish = gap::near(near, &process::occupied(self.process), NEAR);
        let Some((call, wish)) = self.finds_call(near).zip(wish) else {
            self.no_page = true;
            return Ok(stop);
        };
        let arguments = [
            wish,
            PAGE,
            (libc::PROT_READ | libc::PROT_EXEC) as u64,
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
            u64::MAX,
            0,
        ];
        let (stop, page) = inject::call(stop, registers, call, (libc::SYS_mmap, arguments))?;
        // The kernel's errors are the last page.
        if page == 0 || page % PAGE != 0 || page > u64::MAX - PAGE {
            self.no_page = true;
        } else {
            self.pages.push((page, 0));
        }
        Ok(stop)
    }

    /// Which page has room for an instruction, and is near enough to it.
    pub(super) fn room_for(&self, at: u64) -> Option<usize> {
        let fits =
            |(page, taken): &(u64, u64)| taken + ROOM as u64 <= PAGE && page.abs_diff(at) < NEAR;
        self.pages.iter().position(fits)
    }

    /// Where an instruction lies that calls the kernel.
    fn finds_call(&self, near: u64) -> Option<u64> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let mut mappings = process::mappings(self.process);
        // The C library's own code has some, and so has mostly what is watched.
        mappings.sort_by_key(|mapping| !(mapping.start..mapping.end).contains(&near));
        mappings.iter().find_map(|mapping| {
            let length = (mapping.end - mapping.start).min(SEARCHED);
            let mut code = vec![0; usize::try_from(length).ok()?];
            let count = self.memory.read_at(&mut code, mapping.start).ok()?;
            let found = memchr::memmem::find(&code[..count], &SYSCALL)?;
            let at = mapping.start + found as u64;
            // Not one of which the first byte is a breakpoint.
            self.points.range(at..at + 2).next().is_none().then_some(at)
        })
    }
}
