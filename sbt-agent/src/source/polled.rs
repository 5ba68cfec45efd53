//! The common part of the sources perf and inject, which look at rings from time to time. A thread
//! of sbt decodes the records that `twin/` makes of what is found there.

use std::{
    collections::BTreeSet,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    Baselines, Batch, Measurement, Sink, Source, Totals,
    abilities::{Callers, Condvars},
    ebpf::{decode::Decoder, drain::hand_over_above, raw::Raw},
    load,
    outside::Outside,
    ptrace::stop::Stop,
    twin,
};
use sbt_engine::{choices::States, counters::Plan};
use sbt_program::{files::ProbedFile, process};

/// What was found in the rings.
pub struct Look {
    /// Records as of the BPF programs.
    pub bytes: Vec<u8>,
    /// Events lost so far.
    pub lost: u64,
    /// Processes that have executed a program and are not followed yet.
    pub executed: Vec<u32>,
    /// Descriptors that become readable when the rings should be read.
    pub descriptors: Vec<i32>,
    /// The longest time until the next look.
    pub pause: Duration,
}

/// The state of watching one target, from which a [`Polled`] makes a source.
pub trait Polling: Send + Sized + 'static {
    /// As [`Source::name`].
    const NAME: &'static str;

    /// As [`Source::method`].
    const METHOD: &'static str;

    /// The number of events that may wait for the reader while more are read.
    const MOST_HELD: usize;

    /// Begins to report events from `time_ns` on. `baselines`: what the existing threads have used
    /// by then.
    fn begin(&mut self, time_ns: u64, baselines: &Baselines);

    /// Takes what has happened. With `last` everything, at the end of watching.
    fn look(&mut self, last: bool) -> Look;

    /// Watches more files.
    fn attach(watch: &Mutex<Self>, files: &[Arc<ProbedFile>]) -> anyhow::Result<()>;

    /// Watches a descendant of the target.
    fn follow(&mut self, _process: u32) {}

    /// Pauses or resumes watching.
    fn pause(&mut self, paused: bool);

    /// Leaves the target alone for good. What has happened until now is still to be taken.
    fn leave(watch: &Mutex<Self>);

    /// Gives back what is not needed after everything was taken. Returns sentences for the user.
    fn end(&mut self) -> Vec<String>;

    /// As [`Source::unseen_marks`].
    fn unseen_marks(&self) -> BTreeSet<u8>;

    /// As [`Source::condvars`].
    fn condvars(_source: &mut Polled<Self>) -> Option<&mut dyn Condvars> {
        None
    }

    /// As [`Source::callers`].
    fn callers(_source: &mut Polled<Self>) -> Option<&mut dyn Callers> {
        None
    }

    /// The notes for the user.
    fn notes(&mut self) -> &mut Vec<String>;

    /// Adds a note for the user, unless it was given before.
    fn note(&mut self, note: &str) {
        let notes = self.notes();
        if !notes.iter().any(|known| known == note) {
            notes.push(note.to_owned());
        }
    }

    /// Watches a process that is stopped at the beginning of its program. Returns whether it is
    /// stopped there: another thread may have executed a program meanwhile, which is followed next.
    fn begin_program(&mut self, process: u32, stop: &Stop) -> bool;

    /// Watches what the dynamic linker has mapped by a system call, at which the process is stopped:
    /// at the call's end if `has_ended`. Returns the stop, unless the process has ended.
    fn called(&mut self, process: u32, stop: Stop, has_ended: bool) -> Option<Stop>;

    /// Lets go a process that is stopped in its own program, outside of the dynamic linker.
    fn let_run(&mut self, process: u32, stop: Stop);

    /// The program is loaded, or cannot be followed.
    fn is_loaded(&mut self) {}

    /// A process that has executed a program could not be followed.
    fn not_followed(&mut self, process: u32, error: &io::Error);
}

/// A source that looks at rings.
pub struct Polled<W: Polling> {
    outside: Outside,
    watch: Arc<Mutex<W>>,
    stopping: Arc<AtomicBool>,
}

impl<W: Polling> Polled<W> {
    /// Begins to watch a process. `runs`: whether it runs its own program already.
    ///
    /// # Errors
    /// The process may not be traced.
    pub fn new(outside: Outside, watch: W, pid: u32, runs: bool) -> anyhow::Result<Self> {
        let this = Self {
            outside,
            watch: Arc::new(Mutex::new(watch)),
            stopping: Arc::default(),
        };
        if !runs {
            load::follow(pid, true, Arc::clone(&this.watch))
                .map_err(|error| super::refused::explain(pid, &error.into()))?;
        }
        Ok(this)
    }

    /// The state of watching.
    pub fn watch(&self) -> MutexGuard<'_, W> {
        lock(&self.watch)
    }

    fn leave(&self) {
        W::leave(&self.watch);
        self.stopping.store(true, Ordering::Release);
    }
}

/// Locks the state of watching.
pub fn lock<W>(watch: &Mutex<W>) -> MutexGuard<'_, W> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: Polling> Source for Polled<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn method(&self) -> String {
        W::METHOD.into()
    }

    fn traces_the_start(&self) -> bool {
        true
    }

    fn unseen_marks(&self) -> BTreeSet<u8> {
        self.watch().unseen_marks()
    }

    fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()> {
        self.watch().begin(time_ns, &baselines);
        let drain = Drain {
            watch: Arc::clone(&self.watch),
            decoder: Decoder::new(self.outside.start(time_ns, baselines)),
            sink,
            lost: Arc::clone(&self.outside.lost),
            stopping: Arc::clone(&self.stopping),
        };
        self.outside.drain(move || drain.run())
    }

    fn stop(&mut self) -> anyhow::Result<Totals> {
        self.leave();
        self.outside.end()?;
        let mut totals = self.outside.totals();
        totals.notes.append(&mut self.watch().end());
        Ok(totals)
    }

    fn lost(&self) -> u64 {
        self.outside.lost()
    }

    fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        W::attach(&self.watch, files)
    }

    fn measure_costs(&self) -> Measurement {
        self.outside.measure_costs()
    }

    fn states(&self) -> States {
        self.outside.states
    }

    fn counters(&self) -> &Plan {
        &self.outside.counters
    }

    fn has_children(&self) -> bool {
        self.outside.children
    }

    fn follow(&mut self, process: u32) -> anyhow::Result<()> {
        self.watch().follow(process);
        Ok(())
    }

    fn pause(&mut self) {
        self.watch().pause(true);
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.watch().pause(false);
        Ok(())
    }

    fn condvars(&mut self) -> Option<&mut dyn Condvars> {
        W::condvars(self)
    }

    fn callers(&mut self) -> Option<&mut dyn Callers> {
        W::callers(self)
    }
}

impl<W: Polling> Drop for Polled<W> {
    fn drop(&mut self) {
        // The source may not have been stopped in order.
        self.leave();
        let _failed = self.outside.end();
        let _unread = self.watch().end();
    }
}

/// The thread that reads the rings.
struct Drain<W> {
    watch: Arc<Mutex<W>>,
    decoder: Decoder,
    sink: Sink,
    lost: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
}

impl<W: Polling> Drain<W> {
    /// Reads until told to stop, then what is left. Returns a remark for the user, if there is one.
    fn run(mut self) -> Option<String> {
        let mut batch = Batch::new();
        loop {
            let last = self.stopping.load(Ordering::Acquire);
            let look = lock(&self.watch).look(last);
            self.lost.store(look.lost, Ordering::Relaxed);
            // A process that executes a program waits to be followed; at the end it is let go.
            for process in look.executed.into_iter().filter(|_| !last) {
                self.follow(process);
            }
            twin::each(&look.bytes, |record| {
                if let Some(raw) = Raw::parse(record) {
                    self.decoder.decode(&raw, &mut batch);
                }
                if batch.len() >= W::MOST_HELD {
                    hand_over_above(W::MOST_HELD, &self.sink, &mut batch, false);
                }
            });
            hand_over_above(W::MOST_HELD, &self.sink, &mut batch, last);
            if last {
                return self.decoder.note();
            }
            sleep(&look.descriptors, look.pause);
        }
    }

    /// Watches a process that has executed a program.
    fn follow(&self, process: u32) {
        let Err(error) = load::follow(process, false, Arc::clone(&self.watch)) else {
            return;
        };
        let tracer = process::tracer(process, process).and_then(process::of_thread);
        // Otherwise it is followed already, and has executed another program meanwhile.
        if tracer != Some(std::process::id()) {
            lock(&self.watch).not_followed(process, &error);
        }
    }
}

/// Sleeps until `time` is over, at most a second, or a ring of the kernel asks to be read.
fn sleep(descriptors: &[i32], time: Duration) {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|fd| libc::pollfd {
            fd: *fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    let count = polls.len() as libc::nfds_t;
    // SAFETY: `polls` is an array of `count` initialised elements, and the time is a local value. An
    // error (a signal) only ends the sleep early.
    unsafe { libc::ppoll(polls.as_mut_ptr(), count, &raw const time, std::ptr::null()) };
}
