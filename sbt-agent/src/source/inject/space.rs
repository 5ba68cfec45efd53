//! The memory of the target: rings, code for threads, and the jumps to it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::SealFlags;

use super::{
    armed::{Armed, Fate},
    keeper::{Keeper, Word},
    remote::Caller,
    ring::Words,
    site::Site,
};
use crate::{
    kernel::counting,
    source::{
        jumps::{RINGS, TAG, jump_at, tag},
        ptrace::{gap, inject, stop::Stop},
    },
};
use sbt_program::{
    access::rights::Writing,
    arch::{
        displaced::{LONGEST, decode},
        trampoline::{LONGEST_ENTRY, LOOKS, ROOM, Rings, Trampoline, entry},
    },
    process, trace,
};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Bytes for the code of one place, with the words before it that tell whose it is.
const SLOT: u64 = TAG + ROOM as u64;

/// Bytes of an area of code. The page with the control word follows.
const AREA: u64 = 16 * PAGE;

/// How far code may lie from the place that jumps to it, bytes: jumps reach twice as far.
const NEAR: u64 = 1 << 30;

/// Records of a ring, as a power of two: two MiB.
const RECORDS: u32 = 15;

/// The fewest and the most rings that threads look at first, as powers of two.
const FEWEST: u32 = 6;
const MOST: u32 = 8;

/// `MFD_CLOEXEC | MFD_ALLOW_SEALING`, `MADV_DONTFORK`, `MADV_DONTDUMP` and `MADV_WIPEONFORK` as arguments
/// of system calls.
const SEALABLE: u64 = 1 | 2;
const DONT_FORK: u64 = 10;
const DONT_DUMP: u64 = 16;
const WIPE_ON_FORK: u64 = 18;

/// `PR_GET_TSC`, and the answer that the thread may read the time stamp.
const GET_STAMP: u64 = 25;
const MAY_READ: u32 = 1;

/// Code for threads, near the places where they come from.
#[derive(Debug)]
struct Area {
    start: u64,
    taken: u64,
}

impl Area {
    const fn control(&self) -> u64 {
        self.start + AREA
    }
}

/// The memory of one process, as far as sbt has changed it.
#[derive(Debug)]
pub struct Space {
    process: u32,
    memory: File,
    rings: Rings,
    /// Where the rings lie in the target.
    base: u64,
    own: Arc<Own>,
    areas: Vec<Area>,
    armed: Vec<Armed>,
    keeper: Arc<Keeper>,
    on: bool,
}

/// sbt's own mapping of the rings.
#[derive(Debug)]
pub struct Own {
    map: MmapRaw,
    file: File,
}

impl Words for Own {
    fn word(&self, offset: u64) -> u64 {
        let Ok(offset) = usize::try_from(offset) else {
            return 0;
        };
        if !offset.is_multiple_of(8) || offset.saturating_add(8) > self.map.len() {
            return 0;
        }
        #[allow(
            clippy::cast_ptr_alignment,
            reason = "the mapping begins with a page, and the offset is a multiple of 8"
        )]
        // SAFETY: inside of the mapping and aligned. The target changes the memory meanwhile: it is
        // only read as atomic words.
        let word = unsafe { &*self.map.as_ptr().add(offset).cast::<AtomicU64>() };
        word.load(Ordering::Acquire)
    }
}

/// Why a place is not watched, or the program as a whole cannot be.
pub type Why = String;

impl Space {
    /// Puts what threads need into the memory of a process all of whose threads stand, without a place
    /// that uses it. `near`: where such places lie; `number`: see [`Rings::number`]. `keeper` is told of
    /// all changes.
    ///
    /// # Errors
    /// The reason. The program is as before, but for pages that nothing refers to.
    pub fn begin(
        process: u32,
        stops: &mut Vec<Stop>,
        near: u64,
        number: u32,
        keeper: &Arc<Keeper>,
    ) -> Result<Self, Why> {
        keeper.tell(&Word::NewMemory);
        let memory = memory_of(process).map_err(|error| format!("its memory: {error}"))?;
        let ways = inject::ways(process, &memory, near, |_, _| true);
        if ways.call.is_none() || ways.back.is_none() {
            return Err(inject::NO_WAYS.into());
        }
        // A program that has just begun will have about as many threads as there are CPUs.
        let cpus = counting::online().len() as u64 * 2;
        let threads = process::threads(process).saturating_mul(4);
        let rings = threads.max(cpus).next_power_of_two().trailing_zeros();
        let rings = Rings {
            control: 0,
            rings: rings.clamp(FEWEST, MOST),
            records: RECORDS,
            number,
        };
        let mut caller = Caller::choose(stops, &memory, ways)?;
        let made = Self::make(process, &memory, rings, near, &mut caller);
        caller.end(stops);
        let (area, base, own) = made?;
        keeper.tell(&Word::Control(area.control()));
        Ok(Self {
            process,
            memory,
            rings,
            base,
            own: Arc::new(own),
            areas: vec![area],
            armed: Vec::new(),
            keeper: Arc::clone(keeper),
            on: false,
        })
    }

    fn make(
        process: u32,
        memory: &File,
        rings: Rings,
        near: u64,
        caller: &mut Caller<'_>,
    ) -> Result<(Area, u64, Own), Why> {
        let area = area(process, near, caller)?;
        let made = Self::make_rings(process, memory, rings, &area, caller);
        if made.is_err() {
            let _unused = caller.call(libc::SYS_munmap, [area.start, AREA + PAGE, 0, 0, 0, 0]);
        }
        let (base, own) = made?;
        Ok((area, base, own))
    }

    fn make_rings(
        process: u32,
        memory: &File,
        rings: Rings,
        area: &Area,
        caller: &mut Caller<'_>,
    ) -> Result<(u64, Own), Why> {
        trace::write(memory, format!("{RINGS}\0").as_bytes(), area.start)
            .map_err(|error| format!("its memory cannot be written ({error})"))?;
        let named = [area.start, SEALABLE, 0, 0, 0, 0];
        let file = caller.call(libc::SYS_memfd_create, named)?;
        let length = rings.total().next_multiple_of(PAGE);
        let made = Own::open(process, file, length).and_then(|own| {
            let may = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            // A wish: pages near code are left to jumps.
            let wish = gap::pages_far(&process::occupied(process), length).unwrap_or(0);
            let map = [wish, length, may, libc::MAP_SHARED as u64, file, 0];
            let base = caller.call(libc::SYS_mmap, map)?;
            let advice = |advice| [base, length, advice, 0, 0, 0];
            let may_read = [GET_STAMP, base, 0, 0, 0, 0];
            let asked = caller
                .call(libc::SYS_madvise, advice(DONT_FORK))
                .and_then(|_| caller.call(libc::SYS_madvise, advice(DONT_DUMP)))
                .and_then(|_| caller.call(libc::SYS_prctl, may_read));
            let checked = asked.and_then(|_| {
                let mut answer = [0; 4];
                let read = memory.read_exact_at(&mut answer, base);
                if read.is_ok() && u32::from_le_bytes(answer) == MAY_READ {
                    return trace::write(memory, &[0; 8], base).map_err(|error| error.to_string());
                }
                Err("the program forbids itself to read the time stamp".into())
            });
            if let Err(why) = checked {
                let _unused = caller.call(libc::SYS_munmap, [base, length, 0, 0, 0, 0]);
                return Err(why);
            }
            Ok((base, own))
        });
        let _closed = caller.call(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
        made
    }

    /// How the rings are laid out.
    pub const fn rings(&self) -> Rings {
        self.rings
    }

    /// sbt's own mapping of the rings.
    pub fn own(&self) -> Arc<Own> {
        Arc::clone(&self.own)
    }

    /// Whether a jump stands at an address. A library may have been unmapped, and mapped there again.
    pub fn has(&self, at: u64) -> bool {
        let mut here = self.armed.iter().filter(|armed| armed.at() == at);
        here.any(|armed| armed.is_there(&self.memory))
    }

    /// Whether something of another tool hid arrivals at the last look.
    pub fn is_hidden(&self) -> bool {
        self.armed.iter().any(Armed::is_covered)
    }

    /// Looks at all places, and returns what other tools have done there since the last look.
    pub fn look_for_probes(&mut self) -> Vec<(u64, Fate)> {
        let (memory, process) = (&self.memory, self.process);
        let mut fates = Vec::new();
        self.armed.retain_mut(|armed| {
            let is_traced = || process::is_traced(process);
            let (fate, stays) = armed.look_for_probe(memory, is_traced);
            fates.extend(fate.map(|fate| (armed.at(), fate)));
            stays
        });
        fates
    }

    /// Whether the memory is still that of the process: it is gone if the process has executed another
    /// program or has ended.
    pub fn is_there(&self) -> bool {
        let mut byte = [0];
        let start = self.areas.first().map_or(0, |area| area.start);
        self.memory
            .read_at(&mut byte, start)
            .is_ok_and(|count| count == 1)
    }

    /// Puts a jump at an address, whose hits are noted under the number `place`. All threads stand.
    ///
    /// # Errors
    /// Why this place cannot be watched. Nothing has changed there then.
    pub fn arm(
        &mut self,
        stops: &mut Vec<Stop>,
        at: u64,
        site: &Site,
        place: u32,
    ) -> Result<(), Why> {
        let displaced = decode(&site.code, at).ok_or("not an instruction")?;
        let room = displaced.length().min(LONGEST_ENTRY) as u64;
        if at % PAGE + room > PAGE {
            return Err("the instruction lies on two pages".into());
        }
        let inside = |stop: &Stop| {
            let registers = stop.registers();
            let changed = at + 1..at + room;
            registers.is_ok_and(|registers| changed.contains(&registers.at()))
        };
        if stops.iter().any(inside) {
            return Err("a thread stands amid the instruction".into());
        }
        let mut there = [0; LONGEST];
        self.memory
            .read_exact_at(&mut there, at)
            .map_err(|error| format!("its code cannot be read ({error})"))?;
        let length = displaced.length();
        if there[..length] != site.code[..length] {
            self.takes_over(at, &there, &site.code[..length])?;
        }
        let index = self.room_near(at, stops)?;
        let Some(area) = self.areas.get_mut(index) else {
            return Err("no room for code".into());
        };
        let slot = area.start + area.taken;
        let rings = Rings {
            control: area.control(),
            ..self.rings
        };
        let code = Trampoline {
            displaced: &displaced,
            place,
            capture: site.capture,
            rings,
        };
        let code = code.code(slot + TAG);
        let jump = entry(&site.code, at, slot + TAG);
        let (code, jump) = code.zip(jump).ok_or(FAR)?;
        let mut bytes = tag(area.control());
        bytes.extend(code);
        let failed = |error: io::Error| format!("its memory cannot be written ({error})");
        trace::write(&self.memory, &bytes, slot).map_err(failed)?;
        let mut written = vec![0; bytes.len()];
        self.memory
            .read_exact_at(&mut written, slot)
            .map_err(failed)?;
        if written != bytes {
            return Err("its memory does not keep what is written".into());
        }
        area.taken += SLOT;
        let armed = Armed::new(at, &site.code, jump);
        self.keeper.tell(&Word::Jump(&armed));
        armed.put(&self.memory).map_err(failed)?;
        // One of a mapping that is gone.
        self.armed.retain(|armed| armed.at() != at);
        self.armed.push(armed);
        Ok(())
    }

    /// Accepts other bytes than those of the file if they are the jump of an sbt that is gone.
    fn takes_over(&self, at: u64, there: &[u8], original: &[u8]) -> Result<(), Why> {
        let read = |at, bytes: &mut [u8]| self.memory.read_exact_at(bytes, at).is_ok();
        let found = jump_at(at, read).filter(|_| {
            // All bytes behind the jump are the program's.
            let behind = LONGEST_ENTRY.min(original.len());
            there[behind..original.len()] == original[behind..]
        });
        let found = found.ok_or(
            "other bytes than those of its file stand there, as a breakpoint of a debugger or a \
             kernel probe",
        )?;
        if found.owner != std::process::id() && found.lives {
            return Err(format!("another sbt, process {}, watches it", found.owner));
        }
        // The code of the sbt that is gone must not write any more.
        let off = trace::write(&self.memory, &[0; 8], found.control);
        off.map_err(|error| error.to_string())
    }

    /// The index of an area with room near an address.
    fn room_near(&mut self, at: u64, stops: &mut Vec<Stop>) -> Result<usize, Why> {
        let fits = |area: &Area| area.taken + SLOT <= AREA && area.start.abs_diff(at) < NEAR;
        if let Some(index) = self.areas.iter().position(fits) {
            return Ok(index);
        }
        let ways = inject::ways(self.process, &self.memory, at, |at, length| {
            let end = at + length as u64;
            !self.armed.iter().any(|armed| armed.touches(&(at..end)))
        });
        let mut caller = Caller::choose(stops, &self.memory, ways)?;
        let made = area(self.process, at, &mut caller);
        caller.end(stops);
        let made = made?;
        self.keeper.tell(&Word::Control(made.control()));
        self.areas.push(made);
        if self.on {
            self.switch(true);
        }
        Ok(self.areas.len() - 1)
    }

    /// Switches noting on or off, without stopping a thread: data changes, not code.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
        let word = if on { self.base } else { 0 };
        for area in &self.areas {
            // The process may be gone.
            let _gone = trace::write(&self.memory, &word.to_le_bytes(), area.control());
        }
    }

    /// Puts the program's own bytes back where sbt's jumps stand; all threads stand. The code and the
    /// rings stay mapped, since a signal handler may have to return there. Returns the places at which
    /// something else stood.
    pub fn restore(&mut self) -> Vec<u64> {
        let armed = std::mem::take(&mut self.armed);
        let failed = |armed: &Armed| armed.restore(&self.memory).is_err();
        let others = armed.iter().filter(|armed| failed(armed));
        let others: Vec<u64> = others.map(Armed::at).collect();
        if others.is_empty() {
            self.keeper.tell(&Word::Done);
        }
        others
    }

    /// Gives the memory of the rings back to the system.
    pub fn empty(&self) {
        let length = libc::off_t::try_from(self.own.map.len()).unwrap_or(0);
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let file = std::os::fd::AsRawFd::as_raw_fd(&self.own.file);
        // SAFETY: numbers only. Both sides read zeros there from then on; an error leaves all as it is.
        let _kept = unsafe { libc::fallocate(file, how, 0, length) };
    }
}

const FOREIGN: &str = "another process has changed its new file";
const FAR: &str = "no free memory near enough to its code";

/// Makes a thread map an area near an address.
fn area(process: u32, near: u64, caller: &mut Caller<'_>) -> Result<Area, Why> {
    let length = AREA + PAGE;
    let wish = gap::pages_near(near, &process::occupied(process), NEAR, length).ok_or(FAR)?;
    let may = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let start = caller.call(libc::SYS_mmap, [wish, length, may, how, u64::MAX, 0])?;
    let area = Area { start, taken: SLOT };
    let is_near = start % PAGE == 0 && start.abs_diff(near) < NEAR;
    let control = area.control();
    let only_read = libc::PROT_READ as u64;
    let made = if is_near {
        let protect = [control, PAGE, only_read, 0, 0, 0];
        let advice = [control, PAGE, WIPE_ON_FORK, 0, 0, 0];
        caller
            .call(libc::SYS_mprotect, protect)
            .and_then(|_| caller.call(libc::SYS_madvise, advice))
    } else {
        Err(FAR.into())
    };
    if let Err(why) = made {
        let _unused = caller.call(libc::SYS_munmap, [start, length, 0, 0, 0, 0]);
        return Err(why);
    }
    Ok(area)
}

impl Own {
    /// Opens the file of the rings that the target has made, and maps it. Another process may share the
    /// target's descriptors and put another file in its place: nothing is done to a file that is not a new
    /// one in memory. Its length is sealed, since a shorter one would end sbt when it reads.
    fn open(process: u32, file: u64, length: u64) -> Result<Self, Why> {
        let failed = |error: io::Error| format!("its new file cannot be opened ({error})");
        let path = format!("/proc/{process}/fd/{file}");
        let named = fs::read_link(&path).map_err(failed)?;
        if !named
            .as_os_str()
            .as_encoded_bytes()
            .starts_with(format!("/memfd:{RINGS}").as_bytes())
        {
            return Err(FOREIGN.into());
        }
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        let is_new = found.is_file() && found.len() == 0 && found.nlink() == 0;
        if !is_new || rustix::fs::fcntl_get_seals(&file).is_err() {
            return Err(FOREIGN.into());
        }
        file.set_len(length).map_err(failed)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(|error| failed(error.into()))?;
        let length = usize::try_from(length)
            .map_err(io::Error::other)
            .map_err(failed)?;
        let map = MmapOptions::new()
            .len(length)
            .map_raw(&file)
            .map_err(failed)?;
        Ok(Self { map, file })
    }
}

/// The memory of a process, to be read and written.
///
/// # Errors
/// The process may not be traced, or is gone.
pub fn memory_of(process: u32) -> io::Result<File> {
    let _writing = Writing::begin();
    let path = format!("/proc/{process}/mem");
    OpenOptions::new().read(true).write(true).open(path)
}

const _: () = assert!(LOOKS > 0 && TAG.is_multiple_of(8) && SLOT.is_multiple_of(8));
