//! Looks at processes that stand still: what each of their threads does, what it waits for, and
//! which thread holds that. The rights of a debugger are enough, and the target goes on.
//!
//! Sleeping threads are looked at from outside: /proc tells their system calls and the places of
//! their stacks, and the rest is read from memory. A thread is stopped, mostly for microseconds,
//! only if it runs, or if its callers cannot be followed otherwise and its system call restarts by
//! itself (`stop.rs`).
//!
//! Threads are looked at one after another, and objects last, so the result is no picture of one
//! moment. For threads that slept all the time it is one
//! ([`sbt_engine::hang::scene::ThreadSeen::slept`]).

mod barriers;
mod call;
mod calls;
mod ends;
mod file_locks;
mod futex;
mod holder;
mod kept_back;
mod limits;
mod loops;
mod musl;
mod objects;
mod origin;
mod peers;
mod permission;
mod seen;
mod sharers;
pub mod sleepers;
mod stop;
mod system_v;
mod teams;
mod thread;
mod variables;
mod wait;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use sbt_engine::{
    event::Kind,
    hang::scene::{Scene, ThreadId, ThreadSeen},
};
use sbt_program::{
    memory::{Memory, STACK, Stack},
    process::{self, job},
    sites::{CallAt, Ends, Resolver, Stacks, Standing},
    stopped::{NotStopped, Stopped, Tracer},
    wanted::Wanted,
};

use call::Call;
use seen::{Followed, InspectedThread, library_calls};
use sharers::Sharers;
use thread::Glance;

/// How long to wait until stopped threads are back in their system calls, and the pause between two
/// checks of that.
const PATIENCE: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_micros(100);

/// How many pauses to wait until a thread that sleeps again and again sleeps.
const MOMENTS: u32 = 5;

/// How many times as many looks there are at most if threads do not stop in time.
const MOST_TIMES: u32 = 2;

/// How to look.
#[derive(Clone)]
pub struct Looks {
    /// How many times, at least once.
    pub times: u32,
    /// Time from one look to the next.
    pub apart: Duration,
    /// Condition variables and futexes that are known to be barriers.
    pub barriers: Vec<KnownBarrier>,
    /// The tracer that traces threads for sbt itself, if there is one.
    pub tracer: Option<Arc<dyn Tracer>>,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            times: 5,
            apart: Duration::from_millis(100),
            barriers: Vec::new(),
            tracer: None,
        }
    }
}

/// A condition variable or futex that is known to be a barrier, from watching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownBarrier {
    /// The process in which the barrier was seen.
    pub process: u32,
    /// Address of the barrier in that process.
    pub address: u64,
    /// The kind of barrier, as in [`sbt_engine::hang::scene::BarrierSeen::kind`].
    pub kind: Kind,
}

/// A process and all of its descendants.
pub fn family(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    all.extend(process::descendants(process));
    all
}

/// The processes that have to be looked at together with one that hangs: its descendants, where a
/// thread of it waits for a child, or for what a child may send.
pub fn concerned(process: u32) -> Vec<u32> {
    /// The most descendants that are looked at unasked.
    const MOST: usize = 32;
    let waits = process::thread_ids(process).any(|thread| {
        let call = call::Call::of(ThreadId { process, thread });
        call.is_for_others()
    });
    let mut all = vec![process];
    // Ranks of one program have one launcher.
    if job::rank(process).is_some()
        && let Some(launcher) = process::parent(process)
    {
        let ranks = process::children(launcher).into_iter();
        let ranks = ranks.filter(|other| job::rank(*other).is_some());
        all.extend(ranks.take(MOST));
    }
    if waits {
        all.extend(process::descendants(process).into_iter().take(MOST));
    }
    all
}

/// Looks at processes. Blocks as long as the looks take. Children that are gone meanwhile are left
/// out.
///
/// # Errors
/// The first process does not exist, or may not be looked into: the error says what would help.
pub fn at(processes: &[u32], how: &Looks) -> anyhow::Result<Scene> {
    let mut looker = Looker::new(processes)?;
    looker.times = how.times.max(1);
    looker.tracer.clone_from(&how.tracer);
    let most = looker.times.saturating_mul(MOST_TIMES);
    let begun = Instant::now();
    let mut last = begun;
    let mut turn = 0;
    while turn < looker.times {
        let due = how.apart.saturating_mul(turn);
        sleep(due.saturating_sub(begun.elapsed()));
        last = Instant::now();
        let before = looker.unstopped;
        looker.look(turn);
        // A thread without a CPU does not stop in time. Known is only where a thread stopped twice.
        let is_late = looker.unstopped > before;
        if is_late && turn + 2 >= looker.times && looker.times < most {
            looker.times += 1;
        }
        turn += 1;
    }
    let span = last.duration_since(begun);
    let looks = looker.times;
    let mut scene = looker.scene(&how.barriers);
    scene.looks = looks;
    scene.looked_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Ok(scene)
}

/// The state kept between looks.
struct Looker {
    processes: Vec<u32>,
    resolver: Resolver,
    stacks: Stacks,
    /// The threads, by the index of the process in `processes` and the thread's number.
    threads: BTreeMap<(usize, u32), InspectedThread>,
    kept: kept_back::Kept,
    turn: u32,
    /// The number of looks.
    times: u32,
    /// The number of times that a thread could not be stopped.
    unstopped: u32,
    /// The tracer that traces threads for sbt itself: see [`Looks::tracer`].
    tracer: Option<Arc<dyn Tracer>>,
    notes: Vec<String>,
    /// Whether some processes may not be looked at.
    partial: bool,
    /// How long each thread was held.
    #[cfg(test)]
    held: Vec<Duration>,
}

impl Looker {
    fn new(processes: &[u32]) -> anyhow::Result<Self> {
        let first = *processes.first().context("no process to look at")?;
        let first = process::find(first)?.pid;
        permission::check(first)?;
        let mut this = Self {
            processes: vec![first],
            resolver: Resolver::new(first, None, Wanted::default().into()),
            stacks: Stacks::default(),
            threads: BTreeMap::new(),
            kept: kept_back::Kept::new(&[]),
            turn: 0,
            times: 1,
            unstopped: 0,
            tracer: None,
            notes: Vec::new(),
            partial: false,
            #[cfg(test)]
            held: Vec::new(),
        };
        for &other in &processes[1..] {
            if this.processes.contains(&other) || process::find(other).is_err() {
                continue;
            }
            match permission::check(other) {
                Ok(()) => this.processes.push(other),
                Err(error) => {
                    this.notes.push(error.to_string());
                    this.partial = true;
                }
            }
        }
        this.kept = kept_back::Kept::new(&this.processes);
        for process in this.processes.clone() {
            this.resolver.turn_to(process);
            this.resolver.refresh();
        }
        Ok(this)
    }

    /// Looks once at all threads.
    fn look(&mut self, turn: u32) {
        self.turn = turn;
        let all: Vec<(usize, ThreadId)> = (0..)
            .zip(&self.processes)
            .flat_map(|(number, &process)| {
                process::thread_ids(process)
                    .map(move |thread| (number, ThreadId { process, thread }))
            })
            .collect();
        let mut to_stop = Vec::new();
        let begun = Instant::now();
        for (number, id) in all {
            let Some(mut glance) = Glance::at(id) else {
                continue;
            };
            let seen = self.threads.entry((number, id.thread));
            let seen = seen.or_insert_with(|| InspectedThread::new(id));
            // One that sleeps again and again is awake for a moment.
            let was_nap = seen.glance.call.is_nap();
            for _ in 0..MOMENTS {
                if !was_nap || glance.call != Call::Running || begun.elapsed() > PATIENCE {
                    break;
                }
                sleep(PAUSE);
                glance = Glance::at(id).unwrap_or(glance);
            }
            // A thread that is stopped at the last look would not be known to have slept.
            let may_try = turn + 1 < self.times;
            if !seen.take(glance, turn, may_try) || glance.has_ended() {
                continue;
            }
            let (followed, may_stop) = match glance.call.standing() {
                Some((sp, at)) => {
                    let memory = Memory { thread: id.thread };
                    let stack = Stack {
                        from: sp,
                        bytes: memory.read(sp, STACK),
                        beyond: Some(memory),
                    };
                    let standing = Standing {
                        process: id.process,
                        at,
                        sp,
                        bp: None,
                        kept: None,
                    };
                    let (resolver, stacks) = (&mut self.resolver, &mut self.stacks);
                    let followed = Followed::of(standing, &stack, None, resolver, stacks);
                    // Whether a thread that only sleeps for a time looks for something after it, or does
                    // nothing but sleep again, is told by its registers: its code is followed from here.
                    let stops = (followed.ends == Ends::WantsBp || glance.call.is_nap())
                        && glance.call.may_be_interrupted(id.thread);
                    (Some(followed), stops)
                }
                None => (None, glance.state == 'R'),
            };
            seen.followed = followed;
            if may_stop && (glance.tracer == 0 || self.is_ours(glance.tracer)) {
                to_stop.push((number, id));
            }
        }
        // There may be no time for all: threads that were not stopped lately come first.
        to_stop.sort_by_key(|(number, id)| {
            let seen = self.threads.get(&(*number, id.thread));
            seen.and_then(|seen| seen.stopped)
        });
        self.stop(&to_stop);
    }

    /// Whether a tracer of threads is sbt's own.
    fn is_ours(&self, tracer: u32) -> bool {
        let ours = self.tracer.as_ref();
        ours.is_some_and(|ours| ours.process() == tracer)
    }

    fn stop(&mut self, threads: &[(usize, ThreadId)]) {
        let is_traced = |(number, id): &&(usize, ThreadId)| {
            let seen = self.threads.get(&(*number, id.thread));
            seen.is_some_and(|seen| seen.glance.tracer != 0)
        };
        let (traced, others): (Vec<_>, Vec<_>) =
            threads.iter().copied().partition(|of| is_traced(&of));
        let ids =
            |of: &[(usize, ThreadId)]| -> Vec<ThreadId> { of.iter().map(|of| of.1).collect() };
        let mut stopped = stop::all(&ids(&others));
        if let Some(tracer) = self.tracer.as_deref().filter(|_| !traced.is_empty()) {
            stopped.extend(stop::traced(&ids(&traced), tracer));
        }
        self.take(others.iter().chain(&traced).zip(stopped));
        self.settle(threads);
    }

    /// Takes how threads stood.
    fn take<'a>(
        &mut self,
        stopped: impl Iterator<Item = (&'a (usize, ThreadId), Result<Stopped, NotStopped>)>,
    ) {
        let mut loops = Duration::ZERO;
        for ((number, id), result) in stopped {
            let Some(seen) = self.threads.get_mut(&(*number, id.thread)) else {
                continue;
            };
            let stopped = match result {
                Ok(stopped) => stopped,
                Err(why) => {
                    self.unstopped += u32::from(why != NotStopped::Left);
                    // Without a CPU it has not moved far since the last look.
                    if why == NotStopped::Late && seen.followed.is_none() {
                        seen.followed = seen.before.take();
                    }
                    continue;
                }
            };
            #[cfg(test)]
            self.held.push(stopped.held);
            let standing = Standing {
                process: id.process,
                at: stopped.registers.at(),
                sp: stopped.registers.stack(),
                bp: Some(stopped.registers.frame()),
                kept: Some(stopped.registers.kept()),
            };
            let (resolver, stacks) = (&mut self.resolver, &mut self.stacks);
            let may_loop = seen.glance.call == Call::Running || seen.glance.call.is_nap();
            let found = (loops < loops::PATIENCE && may_loop).then(|| {
                let before = Instant::now();
                let memory = Memory { thread: id.thread };
                resolver.turn_to(id.process);
                let naps = seen.glance.call.is_nap();
                // A library that spins for a lock looks at the program's word.
                let is_own = |at| !naps || resolver.is_own(at);
                let found = loops::found(&stopped.registers, memory, is_own, naps);
                loops += before.elapsed();
                found
            });
            let registers = Some(Box::new(stopped.registers));
            let followed = Followed::of(standing, &stopped.stack, registers, resolver, stacks);
            seen.follow(followed);
            if let Some(found) = found {
                // Where a runtime waits is told by what it keeps of its barriers.
                let of_runtime = library_calls(seen)
                    .any(|CallAt { called, .. }| called.is_system && !called.is_c);
                seen.take_loop(found.filter(|_| !of_runtime));
            }
            seen.stopped = Some(self.turn);
        }
    }

    /// Waits until the threads that were stopped in their sleep sleep again.
    fn settle(&mut self, threads: &[(usize, ThreadId)]) {
        let begun = Instant::now();
        for (number, id) in threads {
            let Some(seen) = self.threads.get_mut(&(*number, id.thread)) else {
                continue;
            };
            let was_woken =
                seen.stopped == Some(self.turn) && seen.glance.call.standing().is_some();
            while was_woken && !seen.settle() && begun.elapsed() < PATIENCE {
                sleep(PAUSE);
            }
        }
    }

    /// The result of all looks.
    fn scene(mut self, known: &[KnownBarrier]) -> Scene {
        let turn = self.turn;
        self.threads.retain(|_, seen| seen.turn == turn);
        let mut traced: Vec<(u32, u32)> = self
            .threads
            .values()
            .filter(|seen| seen.glance.tracer != 0 && !self.is_ours(seen.glance.tracer))
            .map(|seen| (seen.id.process, seen.glance.tracer))
            .collect();
        traced.dedup();
        let traced = traced.into_iter();
        self.notes
            .extend(traced.map(|(process, by)| permission::traced(process, by)));
        if self.unstopped > 0 {
            self.notes.push(format!(
                "{} times a thread did not stop when sbt looked at it: where it was then is \
                 unknown",
                self.unstopped
            ));
        }
        self.notes.extend(self.kept.quotas());
        let throttled = self.processes.len() == 1 && self.kept.is_throttled();
        self.notes
            .extend(kept_back::ended_children(&self.processes));
        let frozen = self.kept.frozen(&self.processes);
        self.notes.extend(
            frozen.iter().map(|(process, group)| {
                format!("process {process} is frozen: control group {group}")
            }),
        );
        let mut threads: Vec<InspectedThread> = self.threads.into_values().collect();
        for seen in &mut threads {
            seen.remember();
            let low = seen.lacks_cpu().then(|| kept_back::low_priority(seen.id));
            self.notes.extend(low.flatten().map(|low| {
                format!(
                    "{} {low}: other threads on its CPUs come first",
                    seen.called()
                )
            }));
        }
        loops::watch(&mut threads, turn);
        let hidden = threads.iter().filter(|seen| seen.is_hidden()).count();
        let (doings, barriers) = wait::all(&threads, &mut self.resolver, known, |process| {
            frozen.contains_key(&process)
        });
        let waiting = threads.iter().map(|seen| seen.id.process).zip(&doings);
        let variables = objects::of(waiting);
        let mut sharers = Sharers::default();
        let looked_at: Vec<u32> = self.processes.clone();
        let tell = |(seen, doing): (InspectedThread, _)| {
            let slept = seen.has_slept();
            let sharers = sharers.of(seen.id.process, &doing, &looked_at);
            let own_request = ends::is_own_request(seen.id.process, &doing, &looked_at);
            ThreadSeen {
                sharers,
                own_request,
                ..seen.told(doing, slept)
            }
        };
        Scene {
            threads: threads.into_iter().zip(doings).map(tell).collect(),
            barriers,
            looks: turn + 1,
            looked_ns: 0,
            notes: self.notes,
            partial: self.partial,
            throttled,
            hidden: u32::try_from(hidden).unwrap_or(u32::MAX),
            processes: self.processes.iter().map(|of| origin::of(*of)).collect(),
            variables,
        }
    }
}
