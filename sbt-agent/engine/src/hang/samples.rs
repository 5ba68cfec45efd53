//! Made-up programs that stand still.

use super::{
    judge,
    scene::{
        Again, BarrierSeen, CallSeen, Doing, Holder, Member, MutexKind, Past, ProcessSeen, Scene,
        ThreadId, ThreadSeen, WaitFor, Withheld,
    },
};
use crate::{
    event::Kind,
    report::{HangCause, HangKind, HangReport},
};

/// A millisecond, in ns.
pub const MS: u64 = 1_000_000;
/// The process id.
pub const PROCESS: u32 = 100;

/// The id of the thread with this number; 0 is the main thread.
pub fn id(number: u32) -> ThreadId {
    ThreadId {
        process: PROCESS,
        thread: PROCESS + number,
    }
}

/// A process without timers and handlers of signals.
pub fn process(process: u32) -> ProcessSeen {
    ProcessSeen {
        process,
        parent: None,
        forked: false,
        has_timers: false,
        rank: None,
        ranks: None,
        has_handlers: false,
        may_be_told: false,
        handles_none: false,
        has_lost_threads: None,
        has_tasks: false,
        language: None,
    }
}

/// A stack in the notation `update hangs.c:52 < worker hangs.c:38`, the innermost call first. `*`
/// marks a call of the system, `!` a call that a signal interrupted.
pub fn stack(text: &str) -> Vec<CallSeen> {
    let call = |text: &str| {
        let signal = text.strip_prefix('!');
        let text = signal.unwrap_or(text);
        let own = text.strip_prefix('*');
        let bare = own.unwrap_or(text);
        let (function, at) = bare.split_once(' ').unwrap_or((bare, ""));
        let line = at.split_once(':');
        CallSeen {
            function: Some(function.into()),
            file: line.map(|(file, _)| format!("/home/me/{file}")),
            line: line.map(|(_, line)| line.parse().unwrap()),
            binary: "/home/me/hangs".into(),
            offset: 0x1000,
            begins: None,
            calls_back: false,
            enters: None,
            message: None,
            of_system: own.is_some(),
            after_signal: signal.is_some(),
        }
    };
    text.split(" < ")
        .filter(|part| !part.is_empty())
        .map(call)
        .collect()
}

/// The thread waits for a mutex that thread number `holder` holds.
pub fn mutex(address: u64, holder: u32) -> Doing {
    held(address, Holder::Thread(id(holder)))
}

/// The thread waits for a mutex with this holder.
pub fn held(address: u64, holder: Holder) -> Doing {
    Doing::Waiting(WaitFor::Mutex {
        address,
        kind: Some(MutexKind {
            again: Again::Hangs,
            robust: false,
            inherits: false,
        }),
        holder,
    })
}

/// The thread is in the system call `name`, for `what`.
pub fn call(name: &str, what: &str) -> Doing {
    Doing::Call {
        name: name.into(),
        what: (!what.is_empty()).then(|| what.into()),
    }
}

/// The thread waits for a condition variable.
pub fn condvar() -> Doing {
    Doing::Waiting(WaitFor::Condvar {
        address: 0x5000,
        shared: false,
    })
}

/// The thread waits for the end of another thread.
pub fn joins(number: u32) -> Doing {
    Doing::Waiting(WaitFor::Join {
        thread: Some(PROCESS + number),
    })
}

/// A program that was looked at.
pub struct Seen(pub Scene);

impl Seen {
    /// A program whose main thread waits for the end of worker-1; five looks in 200 ms.
    pub fn new() -> Self {
        let mut seen = Self(Scene {
            looks: 5,
            looked_ns: 200 * MS,
            ..Scene::default()
        });
        seen.thread(0, "main", joins(1), "main hangs.c:90");
        seen
    }

    /// Adds a thread with its name, what it does, and its calls: see [`stack`].
    pub fn thread(&mut self, number: u32, name: &str, doing: Doing, calls: &str) -> &mut Self {
        let ran_ns = Some(if doing == Doing::Running { 198 * MS } else { 0 });
        let slept = !matches!(doing, Doing::Running | Doing::Ended | Doing::Unknown);
        self.0.threads.push(ThreadSeen {
            id: id(number),
            name: name.into(),
            doing,
            timed: false,
            withheld: Withheld::default(),
            stack: stack(calls),
            is_whole: true,
            also_at: Vec::new(),
            went_on: false,
            ran_ns,
            ready_ns: None,
            slept,
            sharers: None,
            own_request: false,
            ran_lately: false,
        });
        self
    }

    /// Adds the thread `worker-1`, …, which began in the function `worker`.
    pub fn worker(&mut self, number: u32, doing: Doing, calls: &str) -> &mut Self {
        let calls = format!("{calls} < worker hangs.c:30");
        self.thread(number, &format!("worker-{number}"), doing, &calls)
    }

    /// Adds a barrier for `count` threads, and workers that wait at it.
    pub fn barrier(&mut self, count: u32, line: u32, workers: &[u32]) -> &mut Self {
        let at = self.0.barriers.len();
        self.0.barriers.push(BarrierSeen {
            process: PROCESS,
            address: 0x7000 + at as u64 * 0x100,
            kind: Kind::Pthread,
            participants: Some(count),
            arrived: Some(u32::try_from(workers.len()).unwrap()),
            waiting: workers.iter().map(|number| id(*number)).collect(),
            past_end: Vec::new(),
            at_end: None,
            shared: false,
            past: None,
        });
        for number in workers {
            let at_it = Doing::Waiting(WaitFor::Barrier(at));
            self.worker(*number, at_it, &format!("meet hangs.c:{line}"));
        }
        self
    }

    /// Makes the last barrier one that was watched from the start, with the workers of these
    /// numbers as members.
    pub fn watched(&mut self, episodes: u64, workers: &[u32]) -> &mut Self {
        let barrier = self.0.barriers.last_mut().unwrap();
        let threads = &self.0.threads;
        let member = |number: &u32| {
            let inside = barrier.waiting.contains(&id(*number));
            Member {
                id: id(*number),
                name: format!("worker-{number}"),
                arrived_ns_ago: inside.then_some(12_000 * MS + u64::from(*number)),
                site: Some("meet hangs.c:40".into()),
                ended: threads.iter().all(|thread| thread.id != id(*number)),
            }
        };
        barrier.past = Some(Past {
            episodes,
            members: workers.iter().map(member).collect(),
            still_ns: 12_000 * MS,
            unsure: false,
        });
        self
    }

    /// A thread was also seen running elsewhere.
    pub fn moves(&mut self, number: u32, calls: &str) -> &mut Self {
        self.of(number).also_at = stack(calls);
        self
    }

    /// Marks threads as having been on a CPU since the first look.
    pub fn restless(&mut self, numbers: &[u32]) -> &mut Self {
        for number in numbers {
            self.of(*number).slept = false;
        }
        self
    }

    /// The thread with this number.
    pub fn of(&mut self, number: u32) -> &mut ThreadSeen {
        let mut threads = self.0.threads.iter_mut();
        threads.find(|thread| thread.id == id(number)).unwrap()
    }

    /// The report on the hang in the scene.
    pub fn hang(&self) -> HangReport {
        judge(&self.0).expect("something stands still")
    }

    /// Asserts that something stands still, of this kind, for this reason, with this sentence.
    #[track_caller]
    pub fn is(&self, kind: HangKind, because: Option<HangCause>, text: &str) -> HangReport {
        let hang = self.hang();
        assert_eq!(hang.text, text);
        assert_eq!((hang.kind, hang.because), (kind, because), "{}", hang.text);
        hang
    }
}
