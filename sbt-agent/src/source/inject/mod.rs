//! The inject backend: threads of the target note their arrivals themselves, in memory that they share
//! with sbt. No thread stops, the kernel is not entered, and no privilege is needed as long as the
//! process is the user's own.
//!
//! For a moment all threads stand (`remote.rs`), and one of them maps rings and a page of code for sbt
//! (`space.rs`). At each place, one instruction is replaced by a jump to that code
//! ([`trampoline`](sbt_program::arch::trampoline)), which notes the time, the thread, the barrier and
//! the caller in the thread's own ring. A moment later, sbt makes of this the records that the BPF
//! programs would have made (`twin/`). Departures, condition variables, futexes, counters, and whether
//! threads run are not seen.
//!
//! If sbt is killed, the program goes on writing into its rings, and is otherwise as without sbt.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{anyhow, bail};

mod calibrate;
mod clock;
mod lives;
mod load;
mod remote;
mod ring;
mod site;
mod space;
mod watch;

use lives::Lives;
use watch::{NEXT, Watch};

use super::{
    BATCH, Baselines, Batch, Measurement, Sink, Source, Totals,
    ebpf::{decode::Decoder, drain::hand_over, raw::Raw},
    outside::Outside,
    twin,
};
use crate::settings::Settings;
use sbt_engine::{
    choices::{Departures, States},
    counters::Plan,
};
use sbt_program::{files::ProbedFile, process};

/// Pause between two looks at the rings: the first after many records, the last after none. Rings of
/// busy threads overflow if the pause is long, and each look costs.
const PAUSES: [Duration; 3] = [
    Duration::from_micros(500),
    Duration::from_millis(2),
    Duration::from_millis(5),
];

/// With so many records in a look, the next look comes soon.
const MANY: usize = 2_000;

/// The inject source of one target.
pub struct Inject {
    outside: Outside,
    watch: Arc<Mutex<Watch>>,
    stopping: Arc<AtomicBool>,
}

impl Inject {
    /// Begins to watch a process. `runs`: whether it runs its own program already.
    ///
    /// # Errors
    /// The process may not be watched this way: the error says why, and what would help.
    pub fn begin(pid: u32, runs: bool, settings: &Settings) -> anyhow::Result<Self> {
        if !clock::is_counter() {
            bail!(
                "cannot watch from inside of the program: this machine's kernel does not take the \
                 time from the processor (the clocksource is not tsc); {NEXT}"
            );
        }
        if let Some(tracer) = process::tracer(pid, pid).filter(|tracer| *tracer != 0) {
            let error = anyhow!("process {tracer} traces it");
            return Err(super::refused::explain(pid, &error));
        }
        super::allow_files();
        let mut outside = Outside::new(pid, false, settings);
        // The clocks of threads are not read.
        outside.states = States::Off;
        outside.costs(calibrate::hit_ns());
        outside.notes.extend(without(settings));
        let lives = Lives::of(pid);
        if !lives.are_exact() {
            outside.notes.push(
                "this user may not have perf events (kernel.perf_event_paranoid): when threads \
                 begin and end is known to some 10 ms only"
                    .into(),
            );
        }
        let watch = Arc::new(Mutex::new(Watch::new(pid, runs, lives)));
        if !runs {
            load::follow(pid, true, Arc::clone(&watch))
                .map_err(|error| super::refused::explain(pid, &error.into()))?;
        }
        Ok(Self {
            outside,
            watch,
            stopping: Arc::default(),
        })
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        lock(&self.watch)
    }

    /// Ends watching. What was noted until now is still to be read.
    fn leave(&self) {
        traced(|| self.watch().leave());
        self.stopping.store(true, Ordering::Release);
    }
}

/// Runs something on a thread of its own: what that thread traces is let go when it ends.
fn traced<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("sbt-inject".into());
        let thread = thread.spawn_scoped(scope, run);
        thread.ok().and_then(|thread| thread.join().ok())
    })
}

/// A note for each wish that this backend cannot fulfil.
fn without(settings: &Settings) -> Vec<String> {
    let mut notes = vec![
        "with --backend inject it is not known how long threads were running, ready or blocked"
            .into(),
    ];
    if !settings.events.is_empty() {
        notes.push("counters need --backend ebpf or ptrace: sbt reads no counters".into());
    }
    if settings.departures == Departures::On {
        notes.push("departures need --backend ebpf or ptrace: sbt sees arrivals only".into());
    }
    notes
}

fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source for Inject {
    fn name(&self) -> &'static str {
        "inject"
    }

    fn method(&self) -> String {
        "jumps to code that notes arrivals".into()
    }

    fn traces_the_start(&self) -> bool {
        true
    }

    fn unseen_marks(&self) -> BTreeSet<u8> {
        self.watch().marks.clone()
    }

    fn start(&mut self, sink: Sink, time_ns: u64, baselines: Baselines) -> anyhow::Result<()> {
        self.watch().begin();
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
        let mut watch = self.watch();
        watch.empty();
        totals.notes.append(&mut watch.notes);
        Ok(totals)
    }

    fn lost(&self) -> u64 {
        self.outside.lost()
    }

    fn attach(&mut self, files: &[Arc<ProbedFile>]) -> anyhow::Result<()> {
        let watch = &self.watch;
        let attached = traced(|| lock(watch).attach(files));
        match attached {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(anyhow!(
                "cannot watch from inside of the program: {why}; {NEXT}"
            )),
            None => Err(anyhow!("no thread to put probes in with")),
        }
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
        false
    }

    fn follow(&mut self, _process: u32) -> anyhow::Result<()> {
        Ok(())
    }

    fn pause(&mut self) {
        self.watch().pause(true);
    }

    fn resume(&mut self) -> anyhow::Result<()> {
        self.watch().pause(false);
        Ok(())
    }
}

impl Drop for Inject {
    fn drop(&mut self) {
        // The source may not have been stopped in order.
        self.leave();
        let _failed = self.outside.end();
        self.watch().empty();
    }
}

/// The thread that reads the rings.
struct Drain {
    watch: Arc<Mutex<Watch>>,
    decoder: Decoder,
    sink: Sink,
    lost: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
}

impl Drain {
    /// Reads until told to stop, then what is left. Returns a remark for the user, if there is one.
    fn run(mut self) -> Option<String> {
        let mut batch = Batch::new();
        loop {
            let last = self.stopping.load(Ordering::Acquire);
            let (bytes, taken, executed, descriptors) = self.pass(last);
            if executed && !last {
                self.follow();
            }
            twin::each(&bytes, |record| {
                if let Some(raw) = Raw::parse(record) {
                    self.decoder.decode(&raw, &mut batch);
                }
                if batch.len() >= BATCH {
                    hand_over(&self.sink, &mut batch, false);
                }
            });
            hand_over(&self.sink, &mut batch, last);
            if last {
                return self.decoder.note();
            }
            let [soon, later, seldom] = PAUSES;
            sleep(
                &descriptors,
                match taken {
                    MANY.. => soon,
                    1.. => later,
                    0 => seldom,
                },
            );
        }
    }

    fn pass(&self, last: bool) -> (Vec<u8>, usize, bool, Vec<i32>) {
        let mut watch = lock(&self.watch);
        let taken = watch.pass(last);
        self.lost.store(watch.lost, Ordering::Relaxed);
        (
            std::mem::take(&mut watch.out.bytes),
            taken,
            std::mem::take(&mut watch.executed),
            watch.descriptors(),
        )
    }

    /// Watches the program that the target has executed.
    fn follow(&self) {
        let target = lock(&self.watch).begin_new_program();
        let Err(error) = load::follow(target, false, Arc::clone(&self.watch)) else {
            return;
        };
        let tracer = process::tracer(target, target).and_then(process::of_thread);
        if tracer == Some(std::process::id()) || error.raw_os_error() == Some(libc::ESRCH) {
            // The process is followed already, or has ended.
            return;
        }
        lock(&self.watch).note(&format!(
            "sbt could not stop a newly executed program while it was loaded ({error}): it is not \
             watched; {NEXT}"
        ));
    }
}

/// Sleeps until `time` is over or a ring of the kernel asks to be read.
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
