//! The known threads of the target, and the places in its memory. Turns what threads have noted, and
//! what the kernel reports of their lives, into the records that the BPF programs make.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use sbt_common::{Clocks, UNKNOWN, kind};

use super::{
    clock::{Pair, Stamps},
    lives::Lives,
    remote::{SLEEP, at_end_of_call, let_all_go, stop_all},
    ring::{Noted, Reader},
    site::{Site, Sites, sites},
    space::{Own, Space, Why},
};
use crate::source::{
    Files,
    perf::record::{Record, ThreadEvent},
    ptrace::{clocks::told, inject::NO_WAYS, stop::Stop},
    twin::{self, Announcement, Hit, Machine, Program, Programs, Records, Slot},
};
use sbt_program::{
    arch::{Registers, trampoline::Capture},
    files::{FileId, ProbedFile},
    process,
};

/// The most records that one look takes from the rings.
const MOST: usize = 65_536;

/// How long after its time stamp a record may become readable, ns. Records wait for that long, so that
/// earlier ones come first.
const LATE_NS: u64 = 2_000_000;

/// How far apart the writing of a stamp and of the record's number may appear to another CPU, ns.
const APART_NS: u64 = 10_000;

/// How long the last look waits for threads that are in the middle of noting something.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// How long the last look reads while there is more.
const LAST_READ: Duration = Duration::from_secs(2);

/// The most records that wait for earlier ones: the target may write any stamps.
const MOST_WAITING: usize = 1 << 20;

/// How often rings are read that nobody writes any more: more than all of them hold.
const MOST_LOOKS: usize = 256;

/// How often sbt tries to find a thread that does system calls for it, and the pause between two tries.
const TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// The most threads that are remembered: the target may write any numbers into its rings.
const MOST_THREADS: usize = 65_536;

/// What all messages of this backend end with.
pub const NEXT: &str = "--backend ptrace watches in another way";

/// The note on children.
const CHILDREN: &str = "child processes are not watched with --backend inject; --backend ptrace \
    watches them";

/// A place at which a jump stands, or stood.
#[derive(Debug)]
struct Place {
    at: u64,
    capture: Capture,
    program: (Program, u64),
}

/// Something that has happened to a thread.
#[derive(Debug)]
enum Item {
    Noted(Noted),
    Life(Record),
}

/// The memory of the target, and the reader of its rings.
struct Inside {
    space: Space,
    reader: Reader,
    own: Arc<Own>,
}

/// The state of watching one target.
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Watch {
    target: u32,
    /// `None` once watching has ended.
    lives: Option<Lives>,
    files: Files,
    /// The sites of the watched files, in their order.
    sites: Vec<Sites>,
    /// Indexes of files of which the user has been told what is not watched in them.
    told_of: BTreeSet<usize>,
    inside: Option<Inside>,
    places: Vec<Place>,
    /// Addresses that cannot be watched, of which the user has been told.
    failed: BTreeSet<u64>,
    /// Why nothing of the program can be watched.
    refused: Option<Why>,
    /// Distance from a thread's pointer to its number; `None` if the C library does not tell.
    number_at: Option<u32>,
    /// Whether the target has not begun its program yet, or loads it.
    loads: bool,
    paused: bool,
    has_left: bool,
    programs: Programs,
    threads: HashMap<u32, Slot>,
    numbers: Numbers,
    /// Number of the present memory.
    space: u32,
    stamps: Stamps,
    /// What has happened and may still have something before it.
    waiting: Vec<(u64, Item)>,
    /// The time of the last record that was made, ns.
    last_ns: u64,
    /// Records that programs made of hits.
    pub out: Records,
    /// Records that were lost.
    pub lost: u64,
    /// Sentences for the user.
    pub notes: Vec<String>,
    /// Numbers of marks that are not watched.
    pub marks: BTreeSet<u8>,
    /// Whether the target has executed a program that is not followed yet.
    pub executed: bool,
}

impl Watch {
    /// For a process, with nothing watched yet. `runs`: whether it runs its own program already.
    pub fn new(target: u32, runs: bool, lives: Lives) -> Self {
        let mut stamps = Stamps::default();
        stamps.add(Pair::now());
        let mut this = Self {
            target,
            lives: Some(lives),
            files: Files::default(),
            sites: Vec::new(),
            told_of: BTreeSet::new(),
            inside: None,
            places: Vec::new(),
            failed: BTreeSet::new(),
            refused: None,
            number_at: None,
            loads: !runs,
            // Until `begin`, since nobody takes records before.
            paused: true,
            has_left: false,
            programs: Programs::default(),
            threads: HashMap::new(),
            numbers: Numbers::of(target),
            space: 1,
            stamps,
            waiting: Vec::new(),
            last_ns: 0,
            out: Records::default(),
            lost: 0,
            notes: Vec::new(),
            marks: BTreeSet::new(),
            executed: false,
        };
        for thread in process::thread_ids(target) {
            this.enlist(thread, 0, told(target, thread));
        }
        this
    }

    /// Begins to report.
    pub fn begin(&mut self) {
        self.pause(false);
    }

    /// Pauses or resumes noting. No thread stops for that.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
        if let Some(inside) = &mut self.inside {
            inside.space.switch(!paused);
        }
        if !paused {
            self.threads.values_mut().for_each(Slot::begin_anew);
        }
    }

    /// Watches more files.
    ///
    /// # Errors
    /// The program runs, and cannot be watched: the reason.
    pub fn attach(&mut self, files: &[Arc<ProbedFile>]) -> Result<(), Why> {
        let (new, notes) = self.files.take(files);
        self.notes.extend(notes);
        // A library may have been mapped again.
        if new.is_empty() && (self.loads || self.wanted().is_empty()) {
            return Ok(());
        }
        let all: Vec<&ProbedFile> = self.files.watched.iter().map(|file| &**file).collect();
        self.number_at = all.iter().find_map(|file| file.thread_number());
        self.sites = sites(&all);
        let is_static = all.iter().zip(&self.sites);
        let is_static = is_static
            .into_iter()
            .any(|(file, sites)| file.is_static() && !sites.found.is_empty());
        if is_static {
            return Err("the program is linked statically".into());
        }
        if self.loads {
            return Ok(());
        }
        if process::is_stopped(self.target) {
            return Err("it is stopped by a signal; continue it first (kill -CONT)".into());
        }
        for _ in 1..TRIES {
            let placed = self.place(Vec::new());
            if !placed.as_ref().is_err_and(|why| why == SLEEP) {
                return placed;
            }
            let stops = at_end_of_call(self.target).into_iter().collect();
            let placed = self.place(stops);
            if !placed.as_ref().is_err_and(|why| why == SLEEP) {
                return placed;
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
        self.place(Vec::new())
    }

    /// Puts jumps on all wanted places, for which all threads stand for a moment. `stops`: threads that
    /// the calling thread has stopped already. Must be called on a thread of its own: see
    /// [`super::remote`].
    ///
    /// # Errors
    /// The program cannot be watched: the reason.
    pub fn place(&mut self, stops: Vec<Stop>) -> Result<(), Why> {
        let mut result = Ok(());
        if self.wanted().is_empty() {
            let_all_go(stops);
            return self.refused.clone().map_or(Ok(()), Err);
        }
        match stop_all(self.target, stops) {
            Ok(stops) => let_all_go(self.place_standing(stops)),
            Err(error) => {
                result = Err(match error.kind() {
                    io::ErrorKind::TimedOut => "its threads do not stop".into(),
                    _ => format!("its threads may not be traced ({error})"),
                });
            }
        }
        result?;
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// The addresses that lack a jump, with their sites.
    fn wanted(&mut self) -> Vec<(u64, Site)> {
        let mut wanted = Vec::new();
        if self.files.watched.is_empty() || self.has_left {
            return wanted;
        }
        for mapping in process::mappings(self.target) {
            let id = mapping.file(self.target).ok();
            let Some(id) = id.and_then(|file| FileId::of(&file).ok()) else {
                continue;
            };
            let Some(index) = self.files.watched.iter().position(|file| file.id == id) else {
                continue;
            };
            self.tell_of(index);
            let sites = self.sites.get(index).map(|sites| &sites.found);
            for site in sites.into_iter().flatten() {
                let at = site.offset.checked_sub(mapping.offset);
                let at = at.and_then(|above| mapping.start.checked_add(above));
                let Some(at) = at.filter(|at| *at < mapping.end) else {
                    continue;
                };
                let inside = self.inside.as_ref();
                let has = inside.is_some_and(|inside| inside.space.has(at));
                if !has && !self.failed.contains(&at) {
                    wanted.push((at, site.clone()));
                }
            }
        }
        wanted
    }

    /// Tells the user what is not watched in a file that is mapped.
    fn tell_of(&mut self, index: usize) {
        let Some(sites) = self.sites.get(index) else {
            return;
        };
        if !self.told_of.insert(index) {
            return;
        }
        let names = sites.unwatched.join(", ");
        let (marks, condvars, other) = (!sites.marks.is_empty(), sites.condvars, sites.other);
        self.marks.extend(&sites.marks);
        if !names.is_empty() {
            self.note(&format!(
                "no instruction that a jump could replace was found for: {names}; not watched; {NEXT}"
            ));
        }
        if other {
            self.note(&format!(
                "with --backend inject only the functions of --barrier are watched, if there are any; \
                 {NEXT}"
            ));
        }
        if marks {
            self.note(&format!(
                "marks are not watched with --backend inject; {NEXT}"
            ));
        }
        if condvars {
            self.note(&format!(
                "condition variables, and barriers made of them, are not watched with --backend \
                 inject; {NEXT}"
            ));
        }
    }

    /// As [`Watch::place`], where all threads stand already, and still stand then.
    pub fn place_standing(&mut self, mut stops: Vec<Stop>) -> Vec<Stop> {
        let wanted = self.wanted();
        let Some((near, _)) = wanted.first() else {
            return stops;
        };
        // Of an earlier try.
        self.refused = None;
        if self.inside.is_none() {
            let made = self.number_at.ok_or_else(|| {
                "its C library does not tell where it keeps the numbers of threads".to_owned()
            });
            let made = made.and_then(|number| Space::begin(self.target, &mut stops, *near, number));
            match made {
                Ok(space) => {
                    self.inside = Some(Inside {
                        reader: Reader::new(space.rings()),
                        own: space.own(),
                        space,
                    });
                }
                // The C library is yet to be loaded.
                Err(why) if self.loads && why == NO_WAYS => return stops,
                Err(why) if why == SLEEP => {
                    self.refused = Some(why);
                    return stops;
                }
                Err(why) => {
                    self.note(&format!("nothing is watched: {why}; {NEXT}"));
                    self.failed.extend(wanted.iter().map(|(at, _)| *at));
                    self.refused = Some(why);
                    return stops;
                }
            }
        }
        for (at, site) in wanted {
            let Some(inside) = &mut self.inside else {
                return stops;
            };
            let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
            match inside.space.arm(&mut stops, at, &site, place) {
                Ok(()) => self.places.push(Place {
                    at,
                    capture: site.capture,
                    program: site.program,
                }),
                Err(why) => {
                    self.failed.insert(at);
                    let name = sbt_engine::place::printable(&site.symbol);
                    self.note(&format!("{name} is not watched: {why}; {NEXT}"));
                    self.refused.get_or_insert(format!("{name}: {why}"));
                }
            }
        }
        if !self.places.is_empty() {
            self.refused = None;
        }
        let on = !self.paused;
        if let Some(inside) = &mut self.inside {
            inside.space.switch(on);
        }
        stops
    }

    /// The target begins to load its program: it has a new memory.
    pub fn begin_program(&mut self) {
        self.loads = true;
        self.executed = false;
        self.forget_memory();
        for thread in process::thread_ids(self.target) {
            if !self.threads.contains_key(&thread) {
                self.enlist(thread, 0, told(self.target, thread));
            }
        }
    }

    /// The target has executed a program, which is about to be followed. Returns the target.
    pub const fn begin_new_program(&mut self) -> u32 {
        self.loads = true;
        self.target
    }

    /// The target has loaded its program.
    pub const fn is_loaded(&mut self) {
        self.loads = false;
    }

    /// Reads what is left in the rings of a memory that is gone, and forgets the memory.
    fn forget_memory(&mut self) {
        if self.inside.is_some() {
            // Nobody writes there any more, as a rule.
            for _ in 0..MOST_LOOKS {
                if self.read_rings().0 == 0 {
                    break;
                }
            }
            self.lose_rest();
            self.inside = None;
            self.programs.walks.renew();
        }
        self.failed.clear();
    }

    /// What is still in the rings is not read any more: it is lost.
    fn lose_rest(&mut self) {
        if let Some(inside) = &self.inside {
            let left = inside.reader.left(&*inside.own);
            self.lost = self.lost.saturating_add(left);
        }
    }

    /// Takes the program's jumps out again, for which all threads stand for a moment. What was noted
    /// until now is still to be taken. Must be called on a thread of its own, as [`Watch::place`].
    pub fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        let Some(inside) = &mut self.inside else {
            return;
        };
        inside.space.switch(false);
        if !inside.space.is_there() {
            return;
        }
        match stop_all(self.target, Vec::new()) {
            Ok(stops) => {
                let others = inside.space.restore();
                let_all_go(stops);
                if !others.is_empty() {
                    self.note(
                        "another program has changed the code at a place that sbt watched; sbt \
                         has left it as it is",
                    );
                }
            }
            Err(error) => self.note(&format!(
                "sbt could not stop the program to take out what it had put in ({error}); it is \
                 switched off, and remains without effect until the program ends"
            )),
        }
    }

    /// Gives the memory of the rings back to the system, after everything was taken.
    pub fn empty(&mut self) {
        if let Some(inside) = self.inside.take() {
            inside.space.empty();
        }
        self.lives = None;
    }

    /// Descriptors that become readable when the rings should be read.
    pub fn descriptors(&self) -> Vec<i32> {
        self.lives
            .as_ref()
            .map_or_else(Vec::new, Lives::descriptors)
    }

    /// Takes what has happened. With `last` everything, at the end of watching. Returns how many
    /// records were noted.
    pub fn pass(&mut self, last: bool) -> usize {
        let begin = Instant::now();
        let mut taken = 0;
        loop {
            let (count, until_ns, is_complete) = self.read(last);
            taken += count;
            let longest = if count > 0 { LAST_READ } else { LAST_WAIT };
            let waits = last && !is_complete && begin.elapsed() < longest;
            self.tell(if last && !waits { u64::MAX } else { until_ns });
            if !waits {
                if last {
                    self.lose_rest();
                }
                return taken;
            }
            std::thread::yield_now();
        }
    }

    /// Reads everything that has happened. Returns how many records were noted; the time before which
    /// nothing more can come, ns; and whether no thread is in the middle of noting something.
    fn read(&mut self, last: bool) -> (usize, u64, bool) {
        let lives = self.lives.as_mut();
        let lives = lives.map(|lives| lives.take(last)).unwrap_or_default();
        for record in lives {
            self.look_at(&record);
            self.waiting.push((record.time_ns, Item::Life(record)));
        }
        let (count, until, is_complete) = self.read_rings();
        (count, until, is_complete)
    }

    /// Reads the rings.
    fn read_rings(&mut self) -> (usize, u64, bool) {
        let now = Pair::now();
        self.stamps.add(now);
        let until = now.time_ns.saturating_sub(LATE_NS);
        let Some(inside) = &mut self.inside else {
            return (0, until, true);
        };
        let found = inside.reader.read(&*inside.own, now.time_ns, MOST);
        // No stamp that was read is later, and pairs between which times were interpolated stay: so all
        // times are in the order of the stamps.
        let after = Pair::now();
        self.stamps.add(after);
        for lost in &found.lost {
            self.lost = self.lost.saturating_add(lost.count);
            let number = self.numbers.get(self.target, lost.thread);
            if let Some(slot) = self.threads.get_mut(&number) {
                (0..lost.count.min(1 << 16)).for_each(|_| slot.miss());
            }
        }
        let count = found.records.len();
        for noted in found.records {
            let time_ns = self.stamps.time_ns(noted.stamp);
            // The target may have written any stamp.
            let time_ns = time_ns.unwrap_or(after.time_ns).min(after.time_ns);
            self.waiting.push((time_ns, Item::Noted(noted)));
        }
        let apart = self.stamps.stamps_in(APART_NS);
        let unfinished = found.unfinished.map(|stamp| {
            let stamp = stamp.saturating_sub(apart);
            self.stamps.time_ns(stamp).unwrap_or(0)
        });
        let is_full = self.waiting.len() > MOST_WAITING;
        let until = until.min(unfinished.filter(|_| !is_full).unwrap_or(u64::MAX));
        (count, until, found.unfinished.is_none())
    }

    /// Makes records of what has happened before a time, in the order of the times.
    fn tell(&mut self, until_ns: u64) {
        // Those of each ring are sorted already; this sort is fast then.
        self.waiting.sort_by_key(|(time_ns, _)| *time_ns);
        let ready = self
            .waiting
            .partition_point(|(time_ns, _)| *time_ns < until_ns);
        let ready: Vec<_> = self.waiting.drain(..ready).collect();
        for (time_ns, item) in ready {
            // What comes too late counts as of now.
            self.last_ns = self.last_ns.max(time_ns);
            match item {
                Item::Noted(noted) => self.noted(&noted, self.last_ns),
                Item::Life(record) => self.hear(&record, self.last_ns),
            }
        }
    }

    /// Adds a note for the user, unless it was given before.
    pub fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    fn enlist(&mut self, tid: u32, born_ns: u64, known: Announcement) {
        if self.threads.len() >= MOST_THREADS {
            return;
        }
        let mut slot = Slot::new((self.target, tid, self.space), born_ns, told);
        slot.known = known;
        self.threads.insert(tid, slot);
    }

    /// Looks at a record as soon as it comes, whatever may come before it: a new program must be
    /// watched soon.
    fn look_at(&mut self, record: &Record) {
        if let ThreadEvent::Named { executed: true, .. } = record.what
            && record.process == self.target
            && !self.loads
        {
            self.executed = true;
        }
    }

    fn noted(&mut self, noted: &Noted, time_ns: u64) {
        let Some(place) = self.places.get(noted.place as usize) else {
            // The target has written there.
            self.lost += 1;
            return;
        };
        let (at, capture, program) = (place.at, place.capture, place.program);
        let number = self.numbers.get(self.target, noted.thread);
        if number == 0 {
            self.lost += 1;
            return;
        }
        if !self.threads.contains_key(&number) {
            // Its beginning was not seen.
            self.enlist(number, 0, Announcement::default());
        }
        let Some(slot) = self.threads.get_mut(&number) else {
            self.lost += 1;
            return;
        };
        let mut registers = Registers::none();
        registers.set_at(at);
        registers.set_stack(noted.stack);
        for (number, value) in [
            (capture.object, noted.object),
            (capture.count, noted.count.into()),
        ] {
            if number != 0 {
                registers.set_numbered(number, value);
            }
        }
        let machine = Came {
            registers,
            noted,
            capture,
        };
        let hit = &mut Hit {
            machine: &machine,
            slot,
            now: now(time_ns),
            out: &mut self.out,
        };
        self.programs.run(program, hit);
    }

    fn hear(&mut self, record: &Record, time_ns: u64) {
        let (process, tid) = (record.process, record.thread);
        if process == 0 || tid == 0 {
            // The thread has ended meanwhile, or is in another pid namespace.
            return;
        }
        match record.what {
            ThreadEvent::Started { process, thread } if process == self.target => {
                if !self.threads.contains_key(&thread) {
                    let known = self.threads.get(&tid).map(|slot| slot.known);
                    self.enlist(thread, time_ns, known.unwrap_or_default());
                }
            }
            ThreadEvent::Started { .. } => self.note(CHILDREN),
            ThreadEvent::Ended => self.ended(tid, time_ns),
            ThreadEvent::Named { comm, executed } => {
                if let Some(slot) = self.threads.get_mut(&tid) {
                    slot.known.comm = comm;
                }
                if executed && process == self.target {
                    self.has_executed(tid, time_ns);
                }
            }
            ThreadEvent::Mapped => {
                if let Some(slot) = self.threads.get(&tid) {
                    let now = now(time_ns);
                    twin::tell_mapping(kind::MAPPED, false, 0, slot, now, &mut self.out);
                }
            }
            ThreadEvent::Lost(count) => self.lost += count,
            ThreadEvent::Hit(_) | ThreadEvent::Switched { .. } => {}
        }
    }

    fn ended(&mut self, tid: u32, time_ns: u64) {
        let Some(mut slot) = self.threads.remove(&tid) else {
            return;
        };
        self.numbers.forget(tid);
        twin::tell_end(&mut Hit {
            machine: &Gone(Registers::none()),
            slot: &mut slot,
            now: now(time_ns),
            out: &mut self.out,
        });
    }

    fn has_executed(&mut self, tid: u32, time_ns: u64) {
        self.threads.retain(|other, _| *other == tid);
        self.space += 1;
        if let Some(slot) = self.threads.get_mut(&tid) {
            slot.space = self.space;
            slot.begin_anew();
            let now = now(time_ns);
            twin::tell_mapping(kind::EXEC, false, 0, slot, now, &mut self.out);
        }
    }
}

/// The numbers of threads in sbt's own pid namespace, by their numbers in that of the target. `None`
/// where both are the same.
#[derive(Debug)]
struct Numbers(Option<HashMap<u32, u32>>);

impl Numbers {
    fn of(target: u32) -> Self {
        Self(process::has_other_numbers(target).then(HashMap::new))
    }

    /// 0 if the thread has ended before it was known.
    fn get(&mut self, target: u32, thread: u32) -> u32 {
        let Self(Some(known)) = self else {
            return thread;
        };
        if let Some(number) = known.get(&thread) {
            return *number;
        }
        let own = |tid: u32| Some((process::innermost_number(tid)?, tid));
        *known = process::thread_ids(target).filter_map(own).collect();
        known.get(&thread).copied().unwrap_or(0)
    }

    /// A thread has ended: another may get its number.
    fn forget(&mut self, number: u32) {
        if let Self(Some(known)) = self {
            known.retain(|_, known| *known != number);
        }
    }
}

/// The clocks of a record. How long a thread has run or was ready is not known here.
const fn now(time_ns: u64) -> Clocks {
    Clocks {
        time_ns,
        run_ns: UNKNOWN,
        delay_ns: UNKNOWN,
    }
}

/// A thread that has come to a place: registers and memory as it has noted them. Other memory is not
/// read: it may be another by now.
struct Came<'a> {
    registers: Registers,
    noted: &'a Noted,
    capture: Capture,
}

impl Machine for Came<'_> {
    fn registers(&self) -> &Registers {
        &self.registers
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let Self { noted, capture, .. } = self;
        let mut object = [0; 16];
        for (to, word) in object.chunks_exact_mut(8).zip(noted.memory) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let object_at = capture
            .memory
            .map(|above| noted.object.wrapping_add_signed(above.into()));
        let caller_at = noted.stack.wrapping_add(capture.stack_moved.into());
        let caller = noted.caller.to_le_bytes();
        copied(object_at, &object, address, bytes)
            || copied(Some(caller_at), &caller, address, bytes)
    }
}

/// Copies from bytes that were noted from the address `from` on. False if they do not hold all that is
/// asked for.
fn copied(from: Option<u64>, noted: &[u8], address: u64, bytes: &mut [u8]) -> bool {
    let part = || {
        let above = usize::try_from(address.checked_sub(from?)?).ok()?;
        noted.get(above..above.checked_add(bytes.len())?)
    };
    match part() {
        Some(part) => {
            bytes.copy_from_slice(part);
            true
        }
        None => false,
    }
}

/// A thread that has ended. What its barriers held then is not known.
struct Gone(Registers);

impl Machine for Gone {
    fn registers(&self) -> &Registers {
        &self.0
    }

    fn read(&self, _address: u64, _bytes: &mut [u8]) -> bool {
        false
    }
}
