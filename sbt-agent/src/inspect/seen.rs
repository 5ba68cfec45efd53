//! Facts about a thread after several looks.

use std::{collections::BTreeSet, time::Instant};

use super::{
    call::Call,
    calls::{called_function, is_library, is_of_library, told, told_of},
    futex::Futex,
    limits,
    loops::{self, Looping},
    thread::{self, Glance},
    variables::Variables,
};
use sbt_engine::hang::scene::{CallSeen, Doing, ThreadId, ThreadSeen, WaitFor, Withheld};
use sbt_program::{
    arch::Registers,
    memory::{Memory, Stack},
    process,
    sites::{CallAt, Ends, Resolver, Stacks, Standing},
    spin::forever::Forever,
};

/// The calls that a thread was in at one look.
#[derive(Clone)]
pub struct Followed {
    /// The calls, the innermost first.
    pub calls: Vec<CallAt>,
    /// How far out the calls are known.
    pub ends: Ends,
    /// The thread's registers, if the thread was stopped for them.
    pub registers: Option<Box<Registers>>,
    /// The top of the thread's stack in words, if the thread was stopped: as much as is searched for
    /// barriers.
    pub top: Vec<u64>,
    /// The variables of the program's functions where they have called a library, if the thread was
    /// stopped.
    pub variables: Option<Variables>,
}

impl Followed {
    /// Follows the calls from where a thread stands.
    pub fn of(
        standing: Standing,
        stack: &Stack,
        registers: Option<Box<Registers>>,
        resolver: &mut Resolver,
        stacks: &mut Stacks,
    ) -> Self {
        let word = |address| stack.word(address);
        let (calls, ends) = stacks.calls(standing, &word, resolver);
        Self {
            variables: registers
                .as_ref()
                .and_then(|_| Variables::of(&calls, is_library)),
            calls,
            ends,
            top: registers
                .as_ref()
                .map_or_else(Vec::new, |_| stack.top(WORDS)),
            registers,
        }
    }

    /// The calls inside of a signal handler, if one runs: calls that it has interrupted do not go
    /// on.
    fn latest(&self) -> &[CallAt] {
        let until = self.calls.iter().position(|call| call.after_signal);
        &self.calls[..until.unwrap_or(self.calls.len())]
    }

    /// The libraries of the innermost calls, up to the program's own code. The C library is in most
    /// of all calls.
    fn libraries(&self) -> impl Iterator<Item = String> {
        let inner = self.calls.iter().take_while(|call| call.called.is_system);
        let inner = inner.filter(|call| !call.called.is_c);
        inner.map(|call| call.called.binary.clone())
    }

    /// The innermost call of the program's own code.
    fn own(&self) -> Option<CallSeen> {
        told(&self.calls, None)
            .into_iter()
            .find(|call| !call.of_system)
    }
}

/// A thread with the facts from several looks.
pub struct InspectedThread {
    pub id: ThreadId,
    /// The thread's name in the kernel.
    name: String,
    /// CPU time used at the first look, ns.
    first_ns: Option<u64>,
    /// Time without a CPU at the first look, ns.
    first_ready_ns: Option<u64>,
    /// The time at which the thread was looked at first.
    first_at: Instant,
    /// Whether the thread slept at some time since.
    has_slept_once: bool,
    /// The thread's state at the last look.
    pub glance: Glance,
    /// Number of the last look.
    pub turn: u32,
    /// The calls that the thread was in at the last look.
    pub followed: Option<Followed>,
    /// The calls at an earlier look, if the thread ran then and runs now.
    pub before: Option<Followed>,
    /// The calls at the last look at which they led to the program's own code, if the thread ran
    /// then.
    known: Option<Followed>,
    /// The libraries in which the thread ran at looks at which it was in that place of its own code.
    libraries: BTreeSet<String>,
    /// The loop in which the thread goes round, if it was found to be in one.
    looping: Option<Looping>,
    /// The sleep for a time in which the thread is, in words. Read before the thread is stopped, because
    /// the kernel writes over the time then.
    nap: Option<(String, Option<String>)>,
    /// Number of the look at which it was last stopped.
    pub stopped: Option<u32>,
    /// Number of the look since which it has slept in the same system call, without a CPU.
    asleep_since: u32,
    /// Calls of the program's own code in which it was at earlier looks.
    places: Vec<CallSeen>,
    /// The variables of its own functions at the last look at which they were read.
    variables: Option<Variables>,
    /// Whether these were others at one look than at the next, at the same place.
    went_on: bool,
}

impl InspectedThread {
    /// A thread that was not looked at before.
    pub fn new(id: ThreadId) -> Self {
        Self {
            id,
            name: String::new(),
            first_ns: None,
            first_ready_ns: None,
            first_at: Instant::now(),
            has_slept_once: false,
            glance: Glance {
                state: '?',
                tracer: 0,
                own_number: id.thread,
                switches: 0,
                sleeps: 0,
                ran_ns: None,
                ready_ns: None,
                withheld: Withheld::default(),
                call: Call::Unknown,
            },
            turn: 0,
            followed: None,
            before: None,
            known: None,
            libraries: BTreeSet::new(),
            looping: None,
            nap: None,
            stopped: None,
            asleep_since: 0,
            places: Vec::new(),
            variables: None,
            went_on: false,
        }
    }

    /// Takes the calls that it is in now.
    pub fn follow(&mut self, mut followed: Followed) {
        if let Some(now) = followed.variables.take()
            && let Some(before) = self.variables.replace(now)
        {
            self.went_on |= self
                .variables
                .as_ref()
                .is_some_and(|now| now.follow(&before));
        }
        self.followed = Some(followed);
    }

    /// Whether its calls cannot be told without its registers, for which it did not stop in time.
    fn lacks_registers(&self) -> bool {
        let followed = self.followed.as_ref();
        followed.is_some_and(|seen| seen.ends == Ends::WantsBp && seen.registers.is_none())
    }

    /// Takes in a look. Returns whether its calls must be followed anew. `may_try`: whether a thread
    /// that did not stop for its registers before may be asked again.
    pub fn take(&mut self, mut glance: Glance, turn: u32, may_try: bool) -> bool {
        self.turn = turn;
        glance.call = glance.call.or_begun(self.glance.call);
        if let Some(name) = thread::name(self.id) {
            self.name = name;
        }
        self.first_ns = self.first_ns.or(glance.ran_ns);
        self.first_ready_ns = self.first_ready_ns.or(glance.ready_ns);
        self.has_slept_once |= turn > 0 && glance.sleeps != self.glance.sleeps;
        // A thread that was stopped for its registers has restarted its system call since.
        let again = turn > 0 && self.stopped == Some(turn - 1) && glance.sleeps_again(&self.glance);
        let slept = glance.sleeps_since(&self.glance);
        if !slept {
            self.asleep_since = turn;
        }
        let is_enough = !(may_try && self.lacks_registers());
        let same = (again || slept) && self.followed.is_some() && is_enough;
        if !again && !slept {
            let nap = glance.call.is_nap().then_some(glance.call);
            self.nap = nap.and_then(|call| call.described(self.id.thread));
        }
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
        let is_running = glance.call == Call::Running;
        if !is_running && !glance.call.is_nap() {
            self.looping = None;
        }
        self.check_loop();
        let before = before.filter(|followed| followed.registers.is_some() && is_running);
        if let Some(before) = &before
            && let Some(own) = before.own()
        {
            let known = self.known.as_ref().and_then(Followed::own);
            if known.as_ref() != Some(&own) {
                self.libraries.clear();
            }
            self.libraries.extend(before.libraries());
            self.known = Some(before.clone());
        }
        self.before = before;
        true
    }

    /// A thread that was stopped for its registers leaves the CPU once more because of that, which
    /// must not count. Returns whether it sleeps again where it did.
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

    /// Takes the loop that was found in the thread's code, or that none was.
    pub fn take_loop(&mut self, found: Option<Forever>) {
        let before = self.looping.take();
        self.looping = found.map(|found| Looping::of(found, self.turn, before.as_ref()));
    }

    /// The loop in which the thread has gone round since a look before the last, `turn`, as far as its
    /// memory was the same whenever it was read.
    pub fn lasting_loop(&self, turn: u32) -> Option<&Looping> {
        let looping = self.looping.as_ref();
        looping.filter(|looping| looping.lasts(turn))
    }

    /// Forgets the thread's loop if the memory that it reads has changed.
    pub fn check_loop(&mut self) {
        let looping = self.looping.take();
        self.looping = looping.filter(|looping| loops::is_same(self, looping));
    }

    /// The [`Call::described`] of the call in which the thread was at the last look.
    pub fn described(&self) -> Option<(String, Option<String>)> {
        let nap = self.nap.clone().filter(|_| self.glance.call.is_nap());
        nap.or_else(|| self.glance.call.described(self.id.thread))
    }

    /// Whether it has slept in the same place, or gone round in the same loop, from the look before
    /// the last until now. Must be
    /// called after all memory was read that the result describes.
    pub fn has_slept(&self) -> bool {
        if let Some(looping) = self.lasting_loop(self.turn) {
            return loops::is_same(self, looping);
        }
        let until_last = self.asleep_since < self.turn;
        until_last && self.now().is_some_and(|now| now.sleeps_since(&self.glance))
    }

    fn now(&self) -> Option<Glance> {
        let mut now = Glance::at(self.id)?;
        now.call = now.call.or_begun(self.glance.call);
        Some(now)
    }

    /// The calls that it was in at the last look, with the functions inlined into them, the innermost
    /// first.
    pub fn latest_calls(&self) -> Vec<CallSeen> {
        let followed = self.followed.as_ref();
        told(followed.map_or(&[][..], Followed::latest), None)
    }

    /// The calls at the last look that are not the C library's.
    pub fn calls_of_libraries(&self) -> Vec<CallSeen> {
        let latest = self.followed.as_ref().map_or(&[][..], Followed::latest);
        let outside = latest.iter().filter(|call| !call.called.is_c);
        outside.flat_map(|call| told_of(call, None)).collect()
    }

    /// Whether a return probe on a function that the thread is in hides the callers.
    pub fn is_hidden(&self) -> bool {
        self.followed
            .as_ref()
            .is_some_and(|followed| match followed.ends {
                Ends::Nowhere(at) => process::is_of_return_probe(self.id.process, at),
                _ => false,
            })
    }

    /// If a running thread's calls could not be followed to the program's own code at the last look,
    /// and could at an earlier one in the same library, takes those for what it is in.
    pub fn remember(&mut self) {
        let Some(latest) = &self.followed else {
            return;
        };
        let inner = |followed: &Followed| {
            let first = followed.calls.first()?;
            Some(first.called.binary.clone())
        };
        let is_lost = self.glance.call == Call::Running && latest.own().is_none();
        let is_same = inner(latest).is_some_and(|library| self.libraries.contains(&library));
        if let Some(known) = self.known.take()
            && is_lost
            && is_same
        {
            // The stack and the registers of an earlier look say nothing of the present ones.
            self.followed = Some(Followed {
                registers: None,
                top: Vec::new(),
                ..known
            });
        }
    }

    /// The time that the thread ran, and the time that it was ready and had no CPU, between the first
    /// look and the last, ns.
    fn times(&self) -> (Option<u64>, Option<u64>) {
        let since = |last: Option<u64>, first: Option<u64>| Some(last?.saturating_sub(first?));
        let ran_ns = since(self.glance.ran_ns, self.first_ns);
        let told_ns = since(self.glance.ready_ns, self.first_ready_ns);
        // The kernel adds a wait for a CPU when it is over.
        let never_slept = !self.has_slept_once && self.glance.call == Call::Running;
        let ready_ns = match ran_ns {
            Some(ran_ns) if never_slept => {
                let all_ns = u64::try_from(self.first_at.elapsed().as_nanos()).unwrap_or(u64::MAX);
                Some(all_ns.saturating_sub(ran_ns))
            }
            _ => told_ns,
        };
        (ran_ns, ready_ns)
    }

    /// Whether the thread was ready without a CPU for most of the time between the looks.
    pub fn lacks_cpu(&self) -> bool {
        let (ran_ns, ready_ns) = self.times();
        let most = ran_ns
            .zip(ready_ns)
            .is_some_and(|(ran, ready)| ready > 2 * ran);
        self.glance.call == Call::Running && most
    }

    /// The name of the thread, or its number if it has none.
    pub fn called(&self) -> String {
        if self.name.is_empty() {
            return format!("thread {}", self.id.thread);
        }
        self.name.clone()
    }

    /// The public form. `slept`: as in [`ThreadSeen::slept`].
    pub fn told(self, doing: Doing, slept: bool) -> ThreadSeen {
        let (ran_ns, ready_ns) = self.times();
        let calls = self
            .followed
            .as_ref()
            .map_or(&[][..], |followed| &followed.calls);
        let latest = self.followed.as_ref().map_or(&[][..], Followed::latest);
        let sleeps = self.glance.call.standing().is_some();
        // The C library's functions in which it sleeps are left out: `doing` tells them.
        let inner = latest.iter().take_while(|call| sleeps && call.called.is_c);
        let inner = inner.count();
        let mut stack = told(&calls[inner..], Some(self.id.process));
        // Nothing but the function that the program has called tells such a wait.
        if matches!(doing, Doing::Waiting(WaitFor::Futex { .. }))
            && let Some(call) = calls.get(inner)
            && let Some(before) = inner.checked_sub(1).and_then(|before| calls.get(before))
            && let Some(called) = called_function(before, call)
        {
            stack.insert(0, called);
        }
        let here = stack.iter().find(|call| !call.of_system);
        let also_at = self
            .places
            .into_iter()
            .filter(|place| Some(place) != here)
            .collect();
        let memory = Memory {
            thread: self.id.thread,
        };
        let futex = Futex::of(self.glance.call, memory);
        ThreadSeen {
            id: self.id,
            name: self.name,
            doing,
            timed: futex.is_some_and(|futex| futex.timed)
                || limits::gives_up(self.id.process, self.glance.call),
            withheld: self.glance.withheld,
            is_whole: self
                .followed
                .as_ref()
                .is_some_and(|followed| followed.ends == Ends::Whole),
            stack,
            also_at,
            went_on: self.went_on,
            ran_ns,
            ready_ns,
            slept,
            sharers: None,
            own_request: false,
            ran_lately: false,
        }
    }
}

/// The number of words of a running thread's stack that are searched for the barrier at which it
/// spins.
const WORDS: usize = 64;

/// The values in a stopped thread's registers and on top of its stack.
pub fn held(seen: &InspectedThread) -> Vec<u64> {
    let Some(followed) = &seen.followed else {
        return Vec::new();
    };
    let Some(registers) = &followed.registers else {
        return Vec::new();
    };
    let mut held = registers.held().to_vec();
    held.extend(&followed.top);
    held
}

/// The innermost calls, as long as they are of library code.
pub fn library_calls(seen: &InspectedThread) -> impl Iterator<Item = &CallAt> {
    let calls = seen.followed.as_ref().map_or(&[][..], Followed::latest);
    calls.iter().take_while(|call| is_library(&call.called))
}

/// The library functions that a thread is in, the innermost first: name, file, and whether it is
/// the C library's.
pub fn functions(seen: &InspectedThread) -> Vec<(&str, Option<&str>, bool)> {
    let calls = seen.followed.as_ref().map_or(&[][..], Followed::latest);
    let mut functions = Vec::new();
    for CallAt { called, .. } in calls {
        let library = is_library(called);
        // In the program's own code only the library functions that are inlined into a function count,
        // and not the functions into which that one is inlined.
        let frames = called.frames.iter();
        let frames = frames.take_while(|frame| called.is_system || is_of_library(frame));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_did_not_stop_is_asked_again() {
        let own = std::process::id();
        let id = ThreadId {
            process: own,
            thread: own,
        };
        let mut seen = InspectedThread::new(id);
        let asleep = Glance {
            state: 'S',
            call: Call::Outside { sp: 1, at: 2 },
            ..seen.glance
        };
        let followed = |ends| Followed {
            calls: Vec::new(),
            ends,
            registers: None,
            top: Vec::new(),
            variables: None,
        };
        assert!(seen.take(asleep, 0, true));
        seen.followed = Some(followed(Ends::WantsBp));
        assert!(seen.take(asleep, 1, true), "its callers are not known");
        seen.followed = Some(followed(Ends::WantsBp));
        assert!(!seen.take(asleep, 2, false), "the last look");
        seen.followed = Some(followed(Ends::Whole));
        assert!(!seen.take(asleep, 3, true), "all is known");
    }
}
