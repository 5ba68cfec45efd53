//! The cost of a probe to the target: `probes [PAIRS]`.
//!
//! A child calls `pthread_barrier_wait` on a barrier of one in a loop, so that
//! every call passes at once, and tells how long a call took. The probes under
//! test are put on and taken off around it, in turns, many times; what a call
//! costs without any is subtracted. Prints one line of JSON a measurement.
//!
//! The same for system calls, with and without the tracepoints by which futexes
//! are watched: these are not for one process, so one of another is measured too.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on should stop and say where"
)]

use std::{
    env,
    ffi::CString,
    io::{BufRead as _, BufReader, Write as _},
    os::fd::OwnedFd,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use sbt::{
    demo::barrier::Barrier,
    kernel::bpf,
    source::ebpf::{
        PROGRAMS,
        configure::configure,
        loader::{self, Loaded},
        raw::Raw,
        ring::Rings,
    },
};
use sbt_program::{
    clock,
    files::ProbedFile,
    point::{Function, Point},
    process,
};

const CALLS: u64 = 40_000;

/// How often each variant is measured for one pair; the shortest counts, since
/// whatever else the machine does only adds.
const TRIES: usize = 5;

/// The programs attached during a measurement, each with `true` if to the return: none, an empty
/// program, the arrival, both empty ones, arrival and departure.
const VARIANTS: [&[(&str, bool)]; 5] = [
    &[],
    &[("empty", false)],
    &[("arrive", false)],
    &[("empty", false), ("empty_return", true)],
    &[("arrive", false), ("depart", true)],
];

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if arguments.get(1).is_some_and(|argument| argument == "child") {
        return child();
    }
    let pairs: usize = arguments
        .iter()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(9);
    let mut target = Target::start();
    let config = configure(target.pid(), false);
    let mut wanted = PROGRAMS.to_vec();
    wanted.extend(["empty", "empty_return"]);
    let mut loaded = loader::load(config, bpf::ProgramKind::UprobeMulti, &wanted).unwrap();
    let rings = Rings::new(std::mem::take(&mut loaded.rings)).unwrap();
    let (file, point) = target.barrier_wait();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| drain(rings, &stop));
        target.measure();
        for pair in 0..pairs {
            let mut round = [f64::INFINITY; VARIANTS.len()];
            for _ in 0..TRIES {
                for (best, programs) in round.iter_mut().zip(VARIANTS) {
                    let links = attach(&loaded, &file, &point, programs, target.pid());
                    *best = best.min(target.measure());
                    drop(links);
                }
            }
            let none = round[0];
            println!(
                "{{\"pair\":{pair},\"call\":{none:.1},\"empty\":{:.1},\"arrival\":{:.1},\"empty_pair\":{:.1},\"both\":{:.1}}}",
                round[1] - none,
                round[2] - none,
                round[3] - none,
                round[4] - none,
            );
        }
        for pair in 0..pairs {
            system_calls(&loaded, &mut target, pair);
        }
        stop.store(true, Ordering::Release);
    });
    println!("{{\"lost\":{}}}", loaded.maps.lost().unwrap());
}

/// System calls of the child, and the last one of ourselves.
const SYSTEM_CALLS: [(&str, bool); 3] = [("futex", true), ("getppid", true), ("getppid", false)];

/// The time of a system call without the tracepoints and with them.
fn system_calls(loaded: &Loaded, target: &mut Target, pair: usize) {
    let mut best = [[f64::INFINITY; 2]; SYSTEM_CALLS.len()];
    for _ in 0..TRIES {
        for watched in [false, true] {
            let links: Vec<OwnedFd> = [c"sys_exit", c"sys_enter"]
                .iter()
                .filter(|_| watched)
                .map(|name| {
                    let program = loaded.program(name.to_str().unwrap()).unwrap();
                    bpf::attach_raw_tracepoint(program, &(*name).to_owned()).unwrap()
                })
                .collect();
            for (best, (call, of_target)) in best.iter_mut().zip(SYSTEM_CALLS) {
                let ns = if of_target {
                    target.measure_call(call)
                } else {
                    time_calls(call)
                };
                let best = &mut best[usize::from(watched)];
                *best = best.min(ns);
            }
            drop(links);
        }
    }
    for ([plain, watched], (call, of_target)) in best.iter().zip(SYSTEM_CALLS) {
        println!(
            "{{\"pair\":{pair},\"system_call\":\"{call}\",\"of_target\":{of_target},\"plain\":{plain:.1},\"watched\":{watched:.1}}}"
        );
    }
}

/// ns a call, here.
fn time_calls(call: &str) -> f64 {
    let word = 0u32;
    let start = clock::now_ns();
    for _ in 0..CALLS {
        // SAFETY: the one has no arguments, the other wakes who waits on a word of
        // ours: nobody.
        unsafe {
            match call {
                "futex" => libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAKE, 1),
                _ => libc::syscall(libc::SYS_getppid),
            };
        }
    }
    (clock::now_ns() - start) as f64 / CALLS as f64
}

fn attach(
    loaded: &Loaded,
    file: &ProbedFile,
    point: &Point,
    programs: &[(&str, bool)],
    pid: u32,
) -> Vec<OwnedFd> {
    let path = CString::new(file.open_path().into_os_string().into_encoded_bytes()).unwrap();
    programs
        .iter()
        .map(|(name, returns)| {
            let place = bpf::ProbePoint {
                offset: if *returns {
                    point.return_offset
                } else {
                    point.entry_offset
                },
                cookie: sbt_common::Cookie {
                    stepped: false,
                    layout: point.layout,
                    object: 0,
                    count: 0,
                    stack_moved: point.stack_moved,
                    displacement: 0,
                    generation: 0,
                }
                .pack(),
            };
            let program = loaded.program(name).unwrap();
            bpf::attach_uprobe_multi(program, &path, &[place], *returns, pid).unwrap()
        })
        .collect()
}

/// Reads the rings as sbt does, and forgets what it reads.
fn drain(mut rings: Rings, stop: &AtomicBool) {
    let mut out: Vec<Raw> = Vec::new();
    while !stop.load(Ordering::Acquire) {
        rings.drain(clock::now_ns(), &mut out);
        out.clear();
        std::thread::sleep(Duration::from_millis(3));
    }
}

struct Target {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Target {
    fn start() -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .arg("child")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self {
            child,
            stdin,
            stdout,
        };
        this.measure();
        this
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// ns a call of the barrier.
    fn measure(&mut self) -> f64 {
        self.measure_call("barrier")
    }

    /// ns a call.
    fn measure_call(&mut self, call: &str) -> f64 {
        writeln!(self.stdin, "{call}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    fn barrier_wait(&self) -> (ProbedFile, Point) {
        process::mappings(self.pid())
            .iter()
            .filter_map(|mapping| ProbedFile::of_mapping(mapping, self.pid()).ok())
            .find_map(|file| {
                let point = file
                    .points
                    .iter()
                    .find(|point| point.function == Function::BarrierWait)?
                    .clone();
                Some((file, point))
            })
            .unwrap_or_else(|| panic!("the child has no barrier"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The target: for each line read, the time of so many calls.
fn child() {
    let barrier = Barrier::new(1).unwrap();
    for line in std::io::stdin().lines() {
        let call = line.unwrap();
        if call != "barrier" {
            println!("{}", time_calls(&call));
            continue;
        }
        let start = clock::now_ns();
        for _ in 0..CALLS {
            barrier.wait();
        }
        let ns = (clock::now_ns() - start) as f64 / CALLS as f64;
        println!("{ns}");
    }
}
