//! The known threads of the target, and the places in its memory.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::anyhow;

use super::{
    clock::{Pair, Stamps},
    keeper::Keeper,
    lives::Lives,
    ready::Ready,
    remote::traced,
    ring::{Noted, Reader},
    site::Sites,
    space::{Own, Space, Why},
};
use crate::source::{
    BATCH, Baselines, Files,
    perf::{record::Record, run::Run},
    polled::{Look, Polling, lock},
    ptrace::{
        clocks::{Usage, told},
        stop::{Stop, StopReason},
    },
    twin::{Program, Programs, Records, Slot},
};
use sbt_program::{arch::trampoline::Capture, files::ProbedFile, process};

use numbers::Numbers;

mod came;
mod delays;
mod numbers;
mod placing;
mod taking;

/// Pause between two looks at the rings: the first after many records, the last after none. Rings of
/// busy threads overflow if the pause is long, and each look costs.
const PAUSES: [Duration; 3] = [
    Duration::from_micros(500),
    Duration::from_millis(2),
    Duration::from_millis(5),
];

/// With so many records in a look, the next look comes soon.
const MANY: usize = 2_000;

/// How often rings are read that nobody writes any more: more than all of them hold.
const MOST_LOOKS: usize = 256;

/// What all messages of this backend end with.
pub const NEXT: &str = "--backend ptrace watches in another way";

/// A place at which a jump stands, or stood.
#[derive(Debug)]
struct Place {
    at: u64,
    /// The function, safe to print.
    name: String,
    capture: Capture,
    program: (Program, u64),
}

/// Something that has happened to a thread.
#[derive(Debug)]
enum Item {
    Noted(Noted),
    Life(Record),
    /// A thread, and for how long it has run, ns.
    Ran(u32, u64),
}

/// A thread of the target.
#[derive(Debug)]
struct Member {
    slot: Slot,
    run: Run,
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
    keeper: Arc<Keeper>,
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
    threads: HashMap<u32, Member>,
    numbers: Numbers,
    /// Number of the present memory.
    space: u32,
    stamps: Stamps,
    /// What has happened and may still have something before it.
    waiting: Vec<(u64, Item)>,
    /// The callers at the beginning of a page, which may be code of the kernel.
    pages: HashSet<u64>,
    /// The time of the last record that was made, ns.
    last_ns: u64,
    /// When watching began, ns.
    begun_ns: u64,
    /// How long threads have run, to be read again after switches were lost.
    usage: Usage,
    /// How long threads were ready; `None` where their switches are not told.
    ready: Option<Ready>,
    /// The time up to which `ready` is settled, ns.
    ready_until_ns: u64,
    /// When run delays were last read.
    delays_read: Instant,
    /// When switches were last lost, if run times are still to be read again.
    unknown_since: Option<Instant>,
    /// Records that programs made of hits.
    out: Records,
    /// Records that were lost.
    lost: u64,
    /// Sentences for the user.
    notes: Vec<String>,
    /// Numbers of marks that are not watched.
    marks: BTreeSet<u8>,
    /// Whether the target has executed a program that is not followed yet.
    executed: bool,
    /// When sbt last looked for probes of other tools.
    looked: Instant,
    /// Whether other tools have taken a place away.
    has_lost_place: bool,
}

impl Watch {
    /// For a process, with nothing watched yet. `runs`: whether it runs its own program already.
    pub fn new(target: u32, runs: bool, lives: Lives, keeper: Keeper) -> Self {
        let mut stamps = Stamps::default();
        stamps.add(Pair::now());
        let mut this = Self {
            target,
            keeper: Arc::new(keeper),
            ready: lives.tell_switches().then(Ready::default),
            ready_until_ns: 0,
            delays_read: Instant::now(),
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
            pages: HashSet::new(),
            last_ns: 0,
            begun_ns: 0,
            usage: Usage::default(),
            unknown_since: None,
            out: Records::default(),
            lost: 0,
            notes: Vec::new(),
            marks: BTreeSet::new(),
            executed: false,
            looked: Instant::now(),
            has_lost_place: false,
        };
        for thread in process::thread_ids(target) {
            this.enlist(thread, (0, Run::UNKNOWN), told(target, thread));
        }
        this
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
        self.has_lost_place = false;
    }
}

impl Polling for Watch {
    const NAME: &'static str = "inject";
    const METHOD: &'static str = "jumps to code that notes arrivals";
    const MOST_HELD: usize = BATCH;

    fn begin(&mut self, time_ns: u64, baselines: &Baselines) {
        self.begun_ns = time_ns;
        self.pause(false);
        for (tid, member) in &mut self.threads {
            let (run_ns, delay_ns) = baselines.get(tid).copied().unwrap_or_default();
            if member.run.is_unknown() {
                member.run = Run::existing(run_ns, time_ns);
            }
            if let Some(ready) = &mut self.ready {
                ready.exists(*tid, delay_ns, time_ns);
            }
        }
    }

    fn look(&mut self, last: bool) -> Look {
        self.look_for_probes();
        let taken = self.pass(last);
        let executed = std::mem::take(&mut self.executed);
        // The new program is about to be followed.
        self.loads |= executed && !last;
        let [soon, later, seldom] = PAUSES;
        Look {
            bytes: std::mem::take(&mut self.out.bytes),
            lost: self.lost,
            executed: executed.then_some(self.target).into_iter().collect(),
            descriptors: self
                .lives
                .as_ref()
                .map_or_else(Vec::new, Lives::descriptors),
            pause: match taken {
                MANY.. => soon,
                1.. => later,
                0 => seldom,
            },
        }
    }

    fn attach(watch: &Mutex<Self>, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        match traced(|| lock(watch).watch_files(files)) {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(anyhow!(
                "cannot watch from inside of the program: {why}; {NEXT}"
            )),
            None => Err(anyhow!("no thread to put probes in with")),
        }
    }

    /// No thread stops for that.
    fn pause(&mut self, paused: bool) {
        self.paused = paused;
        if let Some(inside) = &mut self.inside {
            inside.space.switch(!paused);
        }
        if !paused {
            let members = self.threads.values_mut();
            members.for_each(|member| member.slot.begin_anew());
        }
    }

    fn leave(watch: &Mutex<Self>) {
        traced(|| lock(watch).take_out());
    }

    fn end(&mut self) -> Vec<String> {
        if let Some(inside) = self.inside.take() {
            inside.space.empty();
        }
        self.lives = None;
        std::mem::take(&mut self.notes)
    }

    fn unseen_marks(&self) -> BTreeSet<u8> {
        self.marks.clone()
    }

    fn notes(&mut self) -> &mut Vec<String> {
        &mut self.notes
    }

    fn begin_program(&mut self, _process: u32, _stop: &Stop) -> bool {
        // The new program has a new memory.
        self.loads = true;
        self.executed = false;
        self.forget_memory();
        for thread in process::thread_ids(self.target) {
            let known = told(self.target, thread);
            match self.threads.get_mut(&thread) {
                // The process may end before its thread is announced.
                Some(member) => member.slot.known = known,
                None => self.enlist(thread, (0, Run::UNKNOWN), known),
            }
        }
        true
    }

    fn called(&mut self, _process: u32, stop: Stop, has_ended: bool) -> Option<Stop> {
        let registers = stop.registers();
        let maps = registers.is_ok_and(|registers| registers.system_call() != libc::SYS_read);
        if has_ended && maps {
            return self.place_standing(vec![stop]).pop();
        }
        Some(stop)
    }

    fn let_run(&mut self, _process: u32, stop: Stop) {
        if stop.why() == StopReason::Asked {
            let _rest = self.place(vec![stop]);
        } else {
            stop.let_go(true);
        }
    }

    fn is_loaded(&mut self) {
        self.loads = false;
    }

    fn not_followed(&mut self, _process: u32, error: &io::Error) {
        if error.raw_os_error() != Some(libc::ESRCH) {
            self.note(&format!(
                "sbt could not stop a newly executed program while it was loaded ({error}): it is \
                 not watched; {NEXT}"
            ));
        }
    }
}
