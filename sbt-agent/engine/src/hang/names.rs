//! Names of threads, places and barriers.

use std::collections::HashMap;

use super::{
    calls, idle,
    scene::{
        BarrierSeen, CallSeen, Doing, ProcessSeen, Scene, Section, ThreadId, ThreadSeen, WaitFor,
    },
};
use crate::{
    event::Kind,
    place::{REGION, printable, short, written_by_user},
};

/// The names that a report gives to its threads and barriers; empty if there is no report.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Ids and labels (`T3`) of threads.
    pub threads: HashMap<ThreadId, (u32, String)>,
    /// Ids of barriers, by process and address.
    pub barriers: HashMap<(u32, u64), u32>,
}

/// A scene with indices for look-ups. Threads and barriers are indices into the scene.
pub struct View<'a> {
    pub scene: &'a Scene,
    pub names: &'a Names,
    by_id: HashMap<ThreadId, usize>,
    /// Number of threads with each name.
    called: HashMap<String, usize>,
    /// Indexed by thread: see [`View::is_idle`].
    idle: Vec<bool>,
}

impl<'a> View<'a> {
    pub fn new(scene: &'a Scene, names: &'a Names) -> Self {
        let all = || scene.threads.iter().enumerate();
        let by_id: HashMap<ThreadId, usize> = all().map(|(at, thread)| (thread.id, at)).collect();
        let mut called: HashMap<String, usize> = HashMap::new();
        for (_, thread) in all() {
            *called.entry(printable(&thread.name)).or_default() += 1;
        }
        let pasts = scene
            .barriers
            .iter()
            .filter_map(|barrier| barrier.past.as_ref());
        let mut gone: HashMap<ThreadId, &str> = HashMap::new();
        for member in pasts.flat_map(|past| &past.members) {
            if !by_id.contains_key(&member.id) {
                gone.insert(member.id, &member.name);
            }
        }
        for name in gone.values() {
            *called.entry(printable(name)).or_default() += 1;
        }
        Self {
            scene,
            names,
            by_id,
            called,
            idle: idle::idle(scene),
        }
    }

    /// Whether it is known that a runtime of OpenMP keeps a thread for the next parallel region, and that none
    /// has begun.
    pub fn is_idle(&self, at: usize) -> bool {
        self.idle[at]
    }

    /// The index of the thread with this id.
    pub fn index(&self, id: ThreadId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The index of the thread with this number in the same process as thread `of`.
    pub fn neighbour(&self, of: usize, thread: u32) -> Option<usize> {
        let process = self.scene.threads[of].id.process;
        self.index(ThreadId { process, thread })
    }

    pub fn thread(&self, at: usize) -> &'a ThreadSeen {
        &self.scene.threads[at]
    }

    /// The thread that may be in the critical section for which a thread waits: the only one of its process
    /// that does not wait for it, waits at a barrier, and was called by the function that enters the section.
    pub fn may_be_inside(&self, at: usize) -> Option<usize> {
        let of = |at: usize| match &self.scene.threads[at].doing {
            Doing::Waiting(WaitFor::Section {
                section: Section::Critical,
                address,
                ..
            }) => Some(*address),
            _ => None,
        };
        let section = of(at)?;
        let thread = self.thread(at);
        let enters = thread.stack.iter().find(|call| !call.of_system)?;
        let is_other = |other: &usize| {
            let seen = &self.scene.threads[*other];
            let is_here = seen.id.process == thread.id.process && seen.doing != Doing::Ended;
            is_here && of(*other) != Some(section)
        };
        let mut others = (0..self.scene.threads.len()).filter(is_other);
        let one = others
            .next()
            .filter(|one| self.barrier_of(*one).is_some())?;
        let mut calls = self.scene.threads[one].stack.iter();
        let is_in = calls.any(|call| call.function.is_some() && call.function == enters.function);
        (is_in && others.next().is_none()).then_some(one)
    }

    /// The name of a thread in sentences: that of a rank of MPI, or else the thread's own.
    pub fn name(&self, at: usize) -> String {
        if let Some(rank) = self.rank(at) {
            return format!("rank {rank}");
        }
        let thread = self.thread(at);
        self.called(thread.id, &thread.name)
    }

    /// The rank whose first thread this is; `None` for other threads. A launcher gives a rank to a script, and with it to
    /// what the script starts: which of these is the rank is known if it waits in MPI, or if there is only
    /// one, beside other ranks.
    pub fn rank(&self, at: usize) -> Option<u32> {
        let id = self.thread(at).id;
        let own = self.process(id.process)?.rank;
        let rank = own.filter(|_| id.thread == id.process)?;
        let others = || {
            let all = self.scene.processes.iter();
            all.filter(|other| other.process != id.process)
                .filter_map(|other| other.rank)
        };
        let is_only = others().next().is_some() && others().all(|other| other != rank);
        let waits = || calls::wait(self.thread(at)).is_some_and(|wait| wait.is_mpi);
        (is_only || waits()).then_some(rank)
    }

    /// The name in sentences of a thread that may have ended.
    pub fn called(&self, id: ThreadId, name: &str) -> String {
        let name = printable(name);
        if let Some((_, label)) = self.names.threads.get(&id) {
            return format!("{} {name}", printable(label)).trim_end().to_owned();
        }
        if name.is_empty() {
            return format!("thread {}", id.thread);
        }
        match self.called.get(&name) {
            Some(0 | 1) | None => name,
            Some(_) => format!("{name} {}", id.thread),
        }
    }

    /// The name of a barrier in sentences: `the barrier at lu.c:120`.
    pub fn barrier(&self, at: usize, waiting: &[usize]) -> String {
        let sites = self.sites(at, waiting);
        let address = self.scene.barriers[at].address;
        let others = self.scene.barriers.iter().enumerate();
        let is_shared = others
            .filter(|(other, _)| *other != at)
            .any(|(other, barrier)| {
                let there: Vec<usize> = barrier
                    .waiting
                    .iter()
                    .filter_map(|id| self.index(*id))
                    .collect();
                let there = self.sites(other, &there);
                sites.iter().any(|site| there.contains(site))
            });
        let the = if is_shared {
            format!("the barrier {address:#x}")
        } else {
            "the barrier".into()
        };
        match sites.as_slice() {
            [] => format!("the barrier {address:#x}"),
            [one] => format!("{the} at {one}"),
            [one, two] => format!("{the} at {one} and {two}"),
            [one, rest @ ..] => format!("{the} at {one} and {} other places", rest.len()),
        }
    }

    /// From where threads wait at a barrier, the most frequent place first. Threads that execute no
    /// code of the user, such as those that a runtime keeps for its regions, count only if there
    /// are no others.
    pub fn sites(&self, at: usize, waiting: &[usize]) -> Vec<String> {
        let is_own = |index: &&usize| {
            let stack = &self.thread(**index).stack;
            stack.iter().any(|call| !call.of_system)
        };
        let any_own = waiting.iter().any(|index| is_own(&index));
        let waiting = waiting.iter().filter(|index| !any_own || is_own(index));
        let mut sites: Vec<(String, usize)> = Vec::new();
        for index in waiting {
            let Some(site) = self.site(&self.scene.barriers[at], *index) else {
                continue;
            };
            match sites.iter_mut().find(|(known, _)| *known == site) {
                Some((_, times)) => *times += 1,
                None => sites.push((site, 1)),
            }
        }
        // Where a library begins a thread is no place of the program.
        sites.retain(|(site, _)| !self.is_bare(site));
        // Where a runtime has called its barrier by itself says nothing, next to the user's places.
        let is_openmp = matches!(self.scene.barriers[at].kind, Kind::Gomp | Kind::Kmp);
        let of_library = |(site, _): &(String, usize)| site.contains(".so");
        if is_openmp && !sites.iter().all(of_library) {
            sites.retain(|site| !of_library(site));
        }
        sites.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        sites.into_iter().map(|(site, _)| site).collect()
    }

    /// From where a thread waits at a barrier: in the words of the report if it has any, else the
    /// line.
    fn site(&self, barrier: &BarrierSeen, thread: usize) -> Option<String> {
        let known = self.site_of_events(barrier, thread);
        known.or_else(|| self.at(thread).map(line))
    }

    /// Whether a site is no more than an offset in a library, `libstdc++.so.6+0xd44a3`, of which no code is
    /// known to be the user's.
    fn is_bare(&self, site: &str) -> bool {
        let Some((binary, offset)) = site.rsplit_once("+0x") else {
            return false;
        };
        let is_offset = offset.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_own = || {
            let mut calls = self.scene.threads.iter().flat_map(|thread| &thread.stack);
            calls.any(|call| !call.of_system && printable(short(&call.binary)) == binary)
        };
        binary.contains(".so") && is_offset && !is_own()
    }

    /// From where a thread came to a barrier, as events tell.
    fn site_of_events(&self, barrier: &BarrierSeen, thread: usize) -> Option<String> {
        let id = self.thread(thread).id;
        let members = barrier.past.iter().flat_map(|past| &past.members);
        let mut known = members.filter(|member| member.id == id);
        known
            .find_map(|member| member.site.as_deref())
            .map(printable)
    }

    /// From where a thread came to a barrier, if events tell.
    pub fn known_site(&self, at: usize, thread: usize) -> Option<String> {
        self.site_of_events(&self.scene.barriers[at], thread)
    }

    /// The innermost call of the user's own code on a thread's stack. Without such code, the
    /// innermost call of the outermost library: this is a runtime's call, not a call that the
    /// runtime makes in the C library. `None` if that is where the library calls the user's code, which has
    /// gone on by a jump.
    pub fn at(&self, thread: usize) -> Option<&'a CallSeen> {
        let stack = &self.thread(thread).stack;
        let own = stack.iter().find(|call| !call.of_system);
        let outer = || {
            stack
                .iter()
                .find(|call| Some(&call.binary) == stack.last().map(|outermost| &outermost.binary))
                .filter(|call| !call.calls_back)
        };
        own.or_else(outer)
    }

    /// The barrier at which a thread waits, if any. If the thread waits at two, this is the one in
    /// which it sleeps.
    pub fn barrier_of(&self, thread: usize) -> Option<usize> {
        let seen = self.thread(thread);
        if let Doing::Waiting(WaitFor::Barrier(at)) = seen.doing
            && at < self.scene.barriers.len()
        {
            return Some(at);
        }
        if seen.doing == Doing::Ended {
            return None;
        }
        let barriers = &self.scene.barriers;
        barriers
            .iter()
            .position(|barrier| barrier.waiting.contains(&seen.id))
    }

    /// Whether it is certain that a thread did not go on while the scene was read, so that all that
    /// was read fits together: the thread slept throughout, was kept from going on, or, as events
    /// show, has not left its barrier.
    pub fn stays(&self, thread: usize) -> bool {
        let seen = self.thread(thread);
        let is_known = |at: usize| {
            let past = self.scene.barriers[at].past.as_ref();
            let past = past.filter(|past| !past.unsure);
            let mut members = past.into_iter().flat_map(|past| &past.members);
            members.any(|member| member.id == seen.id && member.arrived_ns_ago.is_some())
        };
        match seen.doing {
            Doing::Stopped | Doing::Frozen | Doing::Traced { .. } | Doing::Ended => true,
            _ => seen.slept || self.barrier_of(thread).is_some_and(is_known),
        }
    }

    /// Whether threads of processes that nobody has looked at may come to a barrier.
    pub fn has_strangers(&self, barrier: usize) -> bool {
        let mut processes = self.scene.threads.iter().map(|thread| thread.id.process);
        let first = processes.next();
        let alone = processes.all(|process| Some(process) == first);
        self.scene.barriers[barrier].shared && (alone || self.scene.partial)
    }

    /// CPU time that a thread used between the first look and the last, in percent of one CPU;
    /// `None` if unknown.
    pub fn cpu_pct(&self, thread: usize) -> Option<f64> {
        let ran_ns = self.thread(thread).ran_ns?;
        (self.scene.looked_ns > 0).then(|| ran_ns as f64 * 100.0 / self.scene.looked_ns as f64)
    }

    /// Whether a thread runs that was ready without a CPU for most of the time between the looks.
    pub fn lacks_cpu(&self, thread: usize) -> bool {
        /// The share of the time, in percent.
        const MOST_PCT: u64 = 85;
        let seen = self.thread(thread);
        let limit_ns = self.scene.looked_ns / 100 * MOST_PCT;
        let yields = |call: &CallSeen| call.function.as_deref() == Some("sched_yield");
        // A thread that gives its CPU away does not lack it.
        !seen.stack.iter().any(yields)
            && seen.doing == Doing::Running
            && limit_ns > 0
            && seen.ready_ns.is_some_and(|ready_ns| ready_ns >= limit_ns)
    }

    /// The reason why a thread is ready without a CPU most of the time.
    pub const fn without_cpu(&self) -> &'static str {
        if self.scene.throttled {
            "the CPU quota of its control group is used up most of the time"
        } else {
            "it gets hardly any CPU time"
        }
    }

    /// The process as a look saw it.
    pub fn process(&self, process: u32) -> Option<&'a ProcessSeen> {
        let mut all = self.scene.processes.iter();
        all.find(|seen| seen.process == process)
    }

    /// Whether a process was made by `fork` and has executed no program since.
    pub fn is_forked(&self, process: u32) -> bool {
        self.process(process).is_some_and(|seen| seen.forked)
    }

    /// Whether a thread runs, or went on between the looks.
    pub fn moves(&self) -> bool {
        let mut all = self.scene.threads.iter();
        all.any(|thread| match thread.doing {
            Doing::Running => true,
            Doing::Waiting(_) | Doing::Call { .. } => !thread.slept && self.scene.looks > 1,
            _ => false,
        })
    }

    /// Remarks for the user, safe to print.
    pub fn notes(&self) -> Vec<String> {
        self.scene
            .notes
            .iter()
            .map(|note| printable(note))
            .collect()
    }
}

/// A function's name without what the compiler appended, safe to print.
fn named(function: &str) -> String {
    printable(written_by_user(function))
}

/// A call by its line, or else by what is known: `lu.c:120`.
pub fn line(call: &CallSeen) -> String {
    match (&call.file, call.line, &call.function) {
        (Some(file), Some(line), _) => format!("{}:{line}", printable(short(file))),
        (_, _, Some(function)) => named(function),
        _ => address(call),
    }
}

/// A call by function and line: `solve lu.c:120`.
pub fn place(call: &CallSeen) -> String {
    match (&call.file, call.line, &call.function) {
        (Some(file), Some(line), Some(function)) => {
            format!("{} {}:{line}", named(function), printable(short(file)))
        }
        _ => line(call),
    }
}

/// A call by function and line, as in sentences: `solve() lu.c:120`.
pub fn spoken(call: &CallSeen) -> String {
    let Some(function) = &call.function else {
        return line(call);
    };
    let function = named(function);
    let function = if function == REGION {
        format!("the {REGION}")
    } else if function.contains('(') {
        function
    } else {
        format!("{function}()")
    };
    match (&call.file, call.line) {
        (Some(file), Some(line)) => {
            format!("{function} {}:{line}", printable(short(file)))
        }
        _ => function,
    }
}

fn address(call: &CallSeen) -> String {
    format!("{}+{:#x}", printable(short(&call.binary)), call.offset)
}

/// Names separated by commas; if there are many, only the first: `a, b and 3 more`.
pub fn list(names: &[String], most: usize) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if names.len() <= most => format!("{} and {last}", first.join(", ")),
        _ => format!(
            "{} and {} more",
            names[..most - 1].join(", "),
            names.len() - (most - 1)
        ),
    }
}
