//! A thread over several looks.

use super::{
    call::Call,
    futex::Futex,
    thread::{self, Glance},
};
use sbt_engine::{
    hang::scene::{CallSeen, Doing, ThreadId, ThreadSeen},
    place::Frame,
};
use sbt_program::{
    memory::{Memory, Stack},
    process,
    sites::{CallAt, Called, Ends, Resolver, Stacks, Standing},
};

/// The calls that a thread was in at one look.
pub struct Followed {
    /// The innermost first.
    pub calls: Vec<CallAt>,
    /// How far they are known.
    pub ends: Ends,
    /// Its registers, if it was stopped for them.
    pub registers: Option<Box<libc::user_regs_struct>>,
    /// What lay on top of its stack, if it was stopped: so much as is looked through.
    pub top: Vec<u64>,
}

impl Followed {
    /// From where a thread stands.
    pub fn of(
        standing: Standing,
        stack: &Stack,
        registers: Option<Box<libc::user_regs_struct>>,
        resolver: &mut Resolver,
        stacks: &mut Stacks,
    ) -> Self {
        let word = |address| stack.word(address);
        let (calls, ends) = stacks.calls(standing, &word, resolver);
        Self {
            calls,
            ends,
            top: registers
                .as_ref()
                .map_or_else(Vec::new, |_| stack.top(WORDS)),
            registers,
        }
    }

    /// Those since a signal came, if one did: what it has interrupted does not go on.
    fn latest(&self) -> &[CallAt] {
        let until = self.calls.iter().position(|it| it.after_signal);
        &self.calls[..until.unwrap_or(self.calls.len())]
    }

    /// The innermost function that is the program's own.
    fn own(&self) -> Option<CallSeen> {
        told(&self.calls).into_iter().find(|call| !call.of_system)
    }
}

/// A thread.
pub struct Seen {
    /// Which.
    pub id: ThreadId,
    /// Its name in the kernel.
    name: String,
    /// The CPU time that it had used at the first look, ns.
    first_ns: Option<u64>,
    /// The last look.
    pub glance: Glance,
    /// Which look that was.
    pub turn: u32,
    /// The calls that it was in at the last look.
    pub followed: Option<Followed>,
    /// Those of an earlier look, of a thread that ran then and runs now.
    pub before: Option<Followed>,
    /// At which look it was stopped last.
    pub stopped: Option<u32>,
    /// Since which look it has slept in the same system call, without a CPU.
    asleep_since: u32,
    /// Where its innermost own function was at looks before.
    places: Vec<CallSeen>,
}

impl Seen {
    /// A thread that was not seen before.
    pub fn new(id: ThreadId) -> Self {
        Self {
            id,
            name: String::new(),
            first_ns: None,
            glance: Glance {
                state: '?',
                tracer: 0,
                own_number: id.thread,
                switches: 0,
                ran_ns: None,
                call: Call::Unknown,
            },
            turn: 0,
            followed: None,
            before: None,
            stopped: None,
            asleep_since: 0,
            places: Vec::new(),
        }
    }

    /// Takes another look in; whether its calls are to be followed anew.
    pub fn take(&mut self, mut glance: Glance, turn: u32) -> bool {
        self.turn = turn;
        glance.call = glance.call.or_begun(self.glance.call);
        if let Some(name) = thread::name(self.id) {
            self.name = name;
        }
        self.first_ns = self.first_ns.or(glance.ran_ns);
        // Who was stopped for its registers has begun its system call again since.
        let again = turn > 0 && self.stopped == Some(turn - 1) && glance.sleeps_again(&self.glance);
        let slept = glance.sleeps_since(&self.glance);
        if !slept {
            self.asleep_since = turn;
        }
        let same = (again || slept) && self.followed.is_some();
        self.glance = glance;
        if same {
            return false;
        }
        let before = self.followed.take();
        let place = before.as_ref().and_then(Followed::own);
        if let Some(place) = place
            && !self.places.contains(&place)
        {
            self.places.push(place);
        }
        self.before = before.filter(|it| it.registers.is_some() && glance.call == Call::Running);
        true
    }

    /// Who was stopped for its registers has left the CPU once more because of that, which
    /// does not count. Whether it sleeps again where it did: not yet, or not any more.
    pub fn settle(&mut self) -> bool {
        let Some(now) = self.now() else {
            return false;
        };
        let is_back = now.sleeps_again(&self.glance);
        if is_back {
            self.glance.switches = now.switches;
            self.asleep_since = self.turn;
        }
        is_back
    }

    /// Whether it has slept where it does from the look before the last until now. To be
    /// asked when all memory was read that anything is said of.
    pub fn has_slept(&self) -> bool {
        let until_last = self.asleep_since < self.turn;
        until_last && self.now().is_some_and(|it| it.sleeps_since(&self.glance))
    }

    fn now(&self) -> Option<Glance> {
        let mut now = Glance::at(self.id)?;
        now.call = now.call.or_begun(self.glance.call);
        Some(now)
    }

    /// A probe on the return of a function that it is in hides the callers.
    pub fn is_hidden(&self) -> bool {
        self.followed.as_ref().is_some_and(|it| match it.ends {
            Ends::Nowhere(at) => process::is_of_return_probe(self.id.process, at),
            _ => false,
        })
    }

    /// For others. `slept`: see [`ThreadSeen::slept`].
    pub fn told(self, doing: Doing, slept: bool) -> ThreadSeen {
        let calls = self.followed.as_ref().map_or(&[][..], |it| &it.calls);
        let latest = self.followed.as_ref().map_or(&[][..], Followed::latest);
        let sleeps = self.glance.call.standing().is_some();
        // What it sleeps in is told by `doing`.
        let inner = latest.iter().take_while(|it| sleeps && it.called.is_c);
        let inner = inner.count();
        let stack = told(&calls[inner..]);
        let here = stack.iter().find(|call| !call.of_system);
        let also_at = self
            .places
            .into_iter()
            .filter(|place| Some(place) != here)
            .collect();
        let ran_ns = self.glance.ran_ns.zip(self.first_ns);
        let memory = Memory {
            thread: self.id.thread,
        };
        let futex = Futex::of(self.glance.call, memory);
        ThreadSeen {
            id: self.id,
            name: self.name,
            doing,
            timed: futex.is_some_and(|futex| futex.timed),
            is_whole: self
                .followed
                .as_ref()
                .is_some_and(|followed| followed.ends == Ends::Whole),
            stack,
            also_at,
            ran_ns: ran_ns.map(|(last, first)| last.saturating_sub(first)),
            slept,
        }
    }
}

/// Whether a function came with the compiler, by its file, or by its name where that is
/// not known.
pub fn is_of_library(frame: &Frame) -> bool {
    const NAMES: [&str; 7] = [
        "std::",
        "core::",
        "alloc::",
        "<std::",
        "<core::",
        "<alloc::",
        "__gnu_cxx::",
    ];
    let name = frame.function.as_deref().unwrap_or_default();
    frame.is_of_library() || frame.file.is_none() && NAMES.iter().any(|it| name.starts_with(it))
}

/// Calls with those that were inlined.
fn told(calls: &[CallAt]) -> Vec<CallSeen> {
    let of_call = |call: &CallAt| -> Vec<CallSeen> {
        let called = &call.called;
        let unnamed = CallSeen {
            binary: called.binary.clone(),
            offset: called.offset,
            of_system: called.is_system,
            after_signal: call.after_signal,
            ..CallSeen::default()
        };
        if called.frames.is_empty() {
            return vec![unnamed];
        }
        let frames = called.frames.iter().map(|frame| CallSeen {
            function: frame.function.clone(),
            file: frame.file.clone(),
            line: frame.line,
            of_system: called.is_system || is_of_library(frame),
            ..unnamed.clone()
        });
        frames.collect()
    };
    calls.iter().flat_map(of_call).collect()
}

/// So many words of the stack of a thread that runs may say which barrier it spins at.
const WORDS: usize = 64;

/// What a thread that was stopped had in its registers and on top of its stack.
pub fn held(seen: &Seen) -> Vec<u64> {
    let Some(followed) = &seen.followed else {
        return Vec::new();
    };
    let Some(registers) = &followed.registers else {
        return Vec::new();
    };
    let r = registers;
    let mut held = vec![
        r.rdi, r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15, r.rsi, r.rdx, r.rcx, r.r8, r.r9, r.rax,
        r.r10, r.r11,
    ];
    held.extend(&followed.top);
    held
}

/// Whether a call is one of a library only.
fn is_library(called: &Called) -> bool {
    let frames = &called.frames;
    called.is_system || !frames.is_empty() && frames.iter().all(is_of_library)
}

/// The innermost calls, up to the program's own code.
pub fn library_calls(seen: &Seen) -> impl Iterator<Item = &CallAt> {
    let calls = seen.followed.as_ref().map_or(&[][..], Followed::latest);
    calls.iter().take_while(|it| is_library(&it.called))
}

/// The functions of libraries that a thread is in, the innermost first: name, file, and
/// whether it is the C library's.
pub fn functions(seen: &Seen) -> Vec<(&str, Option<&str>, bool)> {
    let calls = seen.followed.as_ref().map_or(&[][..], Followed::latest);
    let mut functions = Vec::new();
    for CallAt { called, .. } in calls {
        let library = is_library(called);
        // Of the program's own code, what was inlined into it.
        let frames = called.frames.iter();
        let frames = frames.filter(|frame| called.is_system || is_of_library(frame));
        functions.extend(frames.filter_map(|frame| {
            let name = frame.function.as_deref()?;
            Some((name, frame.file.as_deref(), called.is_c))
        }));
        functions.extend(called.calls.as_deref().map(|name| (name, None, true)));
        if !library {
            break;
        }
    }
    functions
}
