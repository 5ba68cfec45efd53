//! Finds pages in the target's memory for copies of instructions.

use super::{
    super::{
        gap,
        inject::{self, Failed},
        stop::Stop,
    },
    PAGE, Space,
};
use sbt_program::{
    arch::{InjectionCode, Registers, displaced::ROOM},
    process,
};

/// How many pages a program gets at most.
const MOST_PAGES: usize = 256;

/// How far a copy may lie from its instruction, bytes: an instruction refers to addresses by 32
/// bits.
const NEAR: u64 = 1 << 30;

impl Space {
    /// Makes a thread, which is in its own code, map a page near an address.
    pub(super) fn make_room(
        &mut self,
        stop: Stop,
        registers: &Registers,
        near: u64,
    ) -> Result<Stop, Failed> {
        if self.room_for(near).is_some() || self.no_page || self.pages.len() == MOST_PAGES {
            return Ok(stop);
        }
        // Another thread may be able to.
        if inject::is_forbidden(stop.id()) {
            self.no_room = Some(
                "the program filters its system calls (seccomp), so sbt maps no memory there"
                    .into(),
            );
            return Ok(stop);
        }
        let wish = gap::near(near, &process::occupied(self.process), NEAR);
        let ways = self.finds_ways(near);
        let Some(wish) = wish else {
            self.no_page = true;
            return Ok(stop);
        };
        if ways.call.is_none() || ways.back.is_none() {
            self.no_room = Some(inject::NO_WAYS.into());
            self.no_page = true;
            return Ok(stop);
        }
        let arguments = [
            wish,
            PAGE,
            (libc::PROT_READ | libc::PROT_EXEC) as u64,
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
            u64::MAX,
            0,
        ];
        let call = (libc::SYS_mmap, arguments);
        let (stop, page) = match inject::call(stop, registers, &self.memory, ways, call) {
            Ok(called) => called,
            // Another thread may be able to.
            Err((Some(stop), why)) => {
                self.no_room = Some(why);
                return Ok(stop);
            }
            Err(gone) => return Err(gone),
        };
        // Errors of the kernel are numbers in the last page.
        if page == 0 || page % PAGE != 0 || page > u64::MAX - PAGE {
            self.no_page = true;
        } else {
            self.pages.push((page, 0));
        }
        Ok(stop)
    }

    /// The index of a page that has room for an instruction and is near enough to it.
    pub(super) fn room_for(&self, at: u64) -> Option<usize> {
        let fits =
            |(page, taken): &(u64, u64)| taken + ROOM as u64 <= PAGE && page.abs_diff(at) < NEAR;
        self.pages.iter().position(fits)
    }

    /// Finds code by which a thread can make a system call and get back.
    fn finds_ways(&self, near: u64) -> InjectionCode {
        let is_clean = |at: u64, length: usize| {
            let points = self.points.range(at..at.saturating_add(length as u64));
            points.into_iter().next().is_none()
        };
        inject::ways(self.process, &self.memory, near, is_clean)
    }
}
