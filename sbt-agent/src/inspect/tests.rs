//! Looks at programs that hang, with the rights of an ordinary debugger.

mod healthy;

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock},
};

use tempfile::TempDir;

use super::*;
use sbt_engine::hang::scene::{Again, BarrierSeen, Doing, Holder, MutexKind, ThreadSeen, WaitFor};

const FEW: u32 = 3;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/programs")
        .join(name)
}

/// Builds a program with these options, once.
fn built(name: &str, options: &'static [&'static str]) -> PathBuf {
    type ExpectedCalls = Vec<(String, &'static [&'static str], PathBuf)>;
    static BUILT: OnceLock<(TempDir, Mutex<ExpectedCalls>)> = OnceLock::new();
    let (folder, known) = BUILT.get_or_init(|| (TempDir::new().unwrap(), Mutex::default()));
    let mut known = known.lock().unwrap();
    let found = known
        .iter()
        .find(|known| (&*known.0, known.1) == (name, options));
    if let Some((_, _, path)) = found {
        return path.clone();
    }
    let path = folder
        .path()
        .join(format!("{}{}", known.len(), name.replace('.', "-")));
    let compiler = match name.rsplit_once('.') {
        Some((_, "cpp")) => "g++",
        Some((_, "rs")) => "rustc",
        _ => "gcc",
    };
    let usual: &[&str] = match compiler {
        "rustc" => &["-O", "-g"],
        "g++" => &["-O2", "-g", "-pthread", "-std=c++20"],
        _ => &["-O2", "-g", "-pthread"],
    };
    let compiler = options
        .first()
        .filter(|option| !option.starts_with('-'))
        .unwrap_or(&compiler);
    let mut command = Command::new(compiler);
    command.args(usual).arg("-o").arg(&path).arg(source(name));
    command.args(options.iter().filter(|option| option.starts_with('-')));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    known.push((name.into(), options, path.clone()));
    path
}

/// A program that has printed that it is stuck.
struct Stuck {
    child: Child,
}

impl Stuck {
    fn new(program: &Path, case: &str) -> Self {
        Self::start(Command::new(program).arg(case))
    }

    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert!(
            line.starts_with("stuck") || line.starts_with("ready"),
            "{line}"
        );
        // The program prints a moment before it is really stuck.
        sleep(Duration::from_millis(50));
        Self { child }
    }

    fn scene(&self) -> Scene {
        let how = Looks {
            times: FEW,
            apart: Duration::from_millis(30),
            ..Looks::default()
        };
        at(&family(self.child.id()), &how).unwrap()
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        for process in family(self.child.id()) {
            let pid = nix::unistd::Pid::from_raw(process.cast_signed());
            let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        let _status = self.child.wait();
    }
}

fn hangs(case: &str) -> (Stuck, Scene) {
    let stuck = Stuck::new(&built("hangs.c", &[]), case);
    let scene = stuck.scene();
    (stuck, scene)
}

fn thread<'a>(scene: &'a Scene, name: &str) -> &'a ThreadSeen {
    let found = scene.threads.iter().find(|thread| thread.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {scene:#?}"))
}

/// The barrier at which a thread waits.
fn barrier<'a>(scene: &'a Scene, name: &str) -> &'a BarrierSeen {
    match thread(scene, name).doing {
        Doing::Waiting(WaitFor::Barrier(index)) => &scene.barriers[index],
        ref other => panic!("{name}: {other:?}"),
    }
}

fn functions(seen: &ThreadSeen) -> Vec<&str> {
    let names = seen.stack.iter();
    names
        .map(|call| call.function.as_deref().unwrap_or("?"))
        .collect()
}

#[track_caller]
fn counts(barrier: &BarrierSeen, participants: u32, arrived: u32) {
    let found = (barrier.participants, barrier.arrived);
    assert_eq!(found, (Some(participants), Some(arrived)), "{barrier:?}");
    assert_eq!(barrier.waiting.len(), arrived as usize, "{barrier:?}");
    assert_eq!(barrier.kind, Kind::Pthread);
}

#[test]
fn who_waits_at_a_barrier_is_there_and_who_has_left_is_not() {
    for case in ["return", "exit"] {
        let (_stuck, scene) = hangs(case);
        counts(barrier(&scene, "one"), 3, 2);
        counts(barrier(&scene, "two"), 3, 2);
        assert_eq!(scene.barriers.len(), 1);
        assert_eq!(scene.threads.len(), 3, "{scene:#?}");
        let one = thread(&scene, "one");
        assert_eq!(functions(one), ["meet", "arrives"], "{one:#?}");
        assert!(one.is_whole);
        assert!(
            one.stack
                .iter()
                .all(|call| !call.of_system && call.line.is_some())
        );
        assert_eq!(one.ran_ns, Some(0));
        assert!(scene.threads.iter().all(|seen| seen.slept), "{scene:#?}");
    }
    let (_stuck, scene) = hangs("count");
    counts(barrier(&scene, "three"), 4, 3);
    let main = &scene.threads[0];
    let join = WaitFor::Join {
        thread: Some(thread(&scene, "one").id.thread),
    };
    assert_eq!(main.doing, Doing::Waiting(join));
    assert_eq!(functions(main), ["main"]);
    assert_eq!(scene.notes, [""; 0]);
}

#[test]
fn calls_are_followed_through_a_signal() {
    let (_stuck, scene) = hangs("handler");
    counts(barrier(&scene, "interrupted"), 2, 1);
    let seen = thread(&scene, "interrupted");
    let functions = functions(seen);
    assert_eq!(functions[..2], ["meet", "on_signal"], "{functions:?}");
    assert_eq!(functions.last(), Some(&"is_interrupted"), "{functions:?}");
    assert!(seen.is_whole);
    let after = |seen: &ThreadSeen| -> Vec<bool> {
        let calls = seen.stack.iter();
        calls.map(|call| call.after_signal).collect()
    };
    assert_eq!(after(seen)[..3], [false, false, true], "{functions:?}");
    assert_eq!(after(seen).last(), Some(&true));

    // The thread waited at a barrier when the signal came.
    let (_stuck, scene) = hangs("again");
    let seen = thread(&scene, "interrupted");
    let waits = seen.stack.iter().find(|call| {
        let name = call.function.as_deref().unwrap_or_default();
        call.of_system && name.contains("pthread_barrier_wait")
    });
    assert!(waits.is_some_and(|call| call.after_signal), "{seen:#?}");
    assert_eq!(after(seen)[..2], [false, false], "{seen:#?}");
    assert_eq!(after(seen).last(), Some(&true), "{seen:#?}");
    let (_stuck, scene) = hangs("lock");
    let mut threads = scene.threads.iter();
    assert!(
        threads.all(|seen| !after(seen).contains(&true)),
        "{scene:#?}"
    );
}

#[test]
fn two_barriers_are_two() {
    let (_stuck, scene) = hangs("order");
    counts(barrier(&scene, "first"), 2, 1);
    counts(barrier(&scene, "second"), 2, 1);
    assert_eq!(scene.barriers.len(), 2);
    assert_ne!(scene.barriers[0].address, scene.barriers[1].address);
}

#[test]
fn mutexes_have_kinds_and_holders() {
    use Again::{Counts, Fails, Hangs};
    for (case, again, robust, inherits) in [
        ("lock", Hangs, false, false),
        ("recursive", Counts, false, false),
        ("errorcheck", Fails, false, false),
        ("robust", Hangs, true, false),
        ("inherits", Hangs, false, true),
    ] {
        let (_stuck, scene) = hangs(case);
        counts(barrier(&scene, "holder"), 2, 1);
        let Doing::Waiting(WaitFor::Mutex { kind, holder, .. }) = thread(&scene, "wanter").doing
        else {
            panic!("{case}: {scene:#?}");
        };
        let expected = MutexKind {
            again,
            robust,
            inherits,
        };
        assert_eq!(kind, Some(expected), "{case}");
        assert_eq!(
            holder,
            Holder::Thread(thread(&scene, "holder").id),
            "{case}"
        );
        assert_eq!(
            functions(thread(&scene, "wanter")),
            ["take", "wants"],
            "{case}"
        );
    }
}

#[test]
fn locks_form_cycles() {
    let holder = |scene: &Scene, name: &str| match thread(scene, name).doing {
        Doing::Waiting(WaitFor::Mutex { holder, .. }) => holder,
        ref other => panic!("{name}: {other:?}"),
    };
    let (_stuck, scene) = hangs("cycle");
    assert_eq!(
        holder(&scene, "one"),
        Holder::Thread(thread(&scene, "two").id)
    );
    assert_eq!(
        holder(&scene, "two"),
        Holder::Thread(thread(&scene, "one").id)
    );
    let (_stuck, scene) = hangs("twice");
    assert_eq!(
        holder(&scene, "wanter"),
        Holder::Thread(thread(&scene, "wanter").id)
    );
    let (_stuck, scene) = hangs("orphan");
    assert!(matches!(holder(&scene, "wanter"), Holder::Gone { .. }));
    let (_stuck, scene) = hangs("heir");
    assert!(matches!(
        holder(&scene, &scene.threads[0].name),
        Holder::Gone { .. }
    ));
}

#[test]
fn other_objects_are_known_by_the_function_that_waits() {
    for (case, wants_to_write, has_writer) in [
        ("rdlock", false, true),
        ("wrlock", true, false),
        ("writers", true, true),
    ] {
        let (_stuck, scene) = hangs(case);
        let Doing::Waiting(WaitFor::RwLock {
            writes,
            writer,
            readers,
            ..
        }) = thread(&scene, "wanter").doing
        else {
            panic!("{case}: {scene:#?}");
        };
        let holder = Holder::Thread(thread(&scene, "holder").id);
        let expected = if has_writer { holder } else { Holder::Nobody };
        assert_eq!((writes, writer), (Some(wants_to_write), expected), "{case}");
        assert_eq!(readers, Some(u32::from(!has_writer)), "{case}");
    }
    // Both lie in memory of the process's own, whatever the flag of the second says.
    for case in ["semaphore", "shared"] {
        let (_stuck, scene) = hangs(case);
        let doing = &thread(&scene, "wanter").doing;
        let Doing::Waiting(WaitFor::Semaphore { shared, .. }) = doing else {
            panic!("{case}: {doing:?}");
        };
        assert!(!shared, "{case}");
    }
    let (_stuck, scene) = hangs("limited");
    let locks = thread(&scene, "wanter");
    let is_lock = matches!(locks.doing, Doing::Waiting(WaitFor::Mutex { .. }));
    assert!(is_lock && locks.timed, "{locks:?}");
    let third = thread(&scene, "third");
    let is_semaphore = matches!(third.doing, Doing::Waiting(WaitFor::Semaphore { .. }));
    assert!(is_semaphore && third.timed, "{third:?}");
    let (_stuck, scene) = hangs("missed");
    let waiter = thread(&scene, "waiter");
    let Doing::Waiting(WaitFor::Condvar { address, shared }) = &waiter.doing else {
        panic!("{waiter:?}");
    };
    assert!(
        !waiter.timed && !shared && address.is_multiple_of(16),
        "{address:#x}"
    );
    let (_stuck, scene) = hangs("join");
    let join = WaitFor::Join {
        thread: Some(thread(&scene, "one").id.thread),
    };
    assert_eq!(thread(&scene, "joiner").doing, Doing::Waiting(join));
}

#[test]
fn a_condition_variable_that_is_a_barrier_is_one() {
    let (stuck, scene) = hangs("missed");
    let Doing::Waiting(WaitFor::Condvar { address, .. }) = thread(&scene, "waiter").doing else {
        panic!("{scene:#?}");
    };
    let how = Looks {
        times: 1,
        barriers: vec![KnownBarrier {
            process: stuck.child.id(),
            address,
            kind: Kind::Condvar,
        }],
        ..Looks::default()
    };
    let scene = at(&[stuck.child.id()], &how).unwrap();
    let found = barrier(&scene, "waiter");
    assert_eq!((found.kind, found.address), (Kind::Condvar, address));
    assert_eq!((found.participants, found.waiting.len()), (None, 1));
}

#[test]
fn threads_that_run_say_where() {
    for (case, name, function) in [
        ("spin", "spinner", "spin"),
        ("long", "worker", "takes_long"),
    ] {
        let (_stuck, scene) = hangs(case);
        let seen = thread(&scene, name);
        assert_eq!(seen.doing, Doing::Running);
        assert!(functions(seen).contains(&function), "{seen:#?}");
        assert!(seen.ran_ns.unwrap() > 0, "{seen:#?}");
        assert!(seen.is_whole && !seen.slept, "{seen:#?}");
        assert!(thread(&scene, "one").slept, "{scene:#?}");
        counts(barrier(&scene, "one"), 2, 1);
    }
}

#[test]
fn system_calls_say_for_what() {
    let (_stuck, scene) = hangs("read");
    let seen = thread(&scene, "reader");
    let Doing::Waiting(WaitFor::Data {
        call,
        what,
        processes,
    }) = &seen.doing
    else {
        panic!("{seen:?}");
    };
    assert_eq!(call, "read");
    assert!(what.starts_with("pipe:["), "{what:?}");
    // The program holds the other end itself.
    assert_eq!(processes, &[seen.id.process]);
    assert_eq!(functions(seen), ["fetch", "reads"]);
    let (_stuck, scene) = hangs("sleep");
    let Doing::Call { name, what } = &thread(&scene, "sleeper").doing else {
        panic!("{scene:#?}");
    };
    assert_eq!(
        (&**name, what.as_deref()),
        ("clock_nanosleep", Some("1000 s"))
    );
}

#[test]
fn processes_share_a_barrier() {
    let (stuck, scene) = hangs("stopped");
    let found = &scene.barriers[0];
    counts(found, 2, 1);
    assert!(found.shared);
    let [parent, child] = &scene.threads[..] else {
        panic!("{scene:#?}");
    };
    assert_eq!(child.doing, Doing::Stopped);
    assert_eq!(found.waiting, [parent.id]);
    // The child stays stopped.
    let state = Glance::at(child.id).unwrap().state;
    assert_eq!(state, 'T');
    let pid = nix::unistd::Pid::from_raw(child.id.process.cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
    drop(stuck);
    let (_stuck, scene) = hangs("killed");
    counts(&scene.barriers[0], 2, 1);
    assert_eq!(scene.threads.len(), 1);
}

#[test]
fn however_it_was_built() {
    for options in [
        &["-O0"][..],
        &["-O3", "-fomit-frame-pointer"],
        &["-fno-omit-frame-pointer"],
        &["-static"],
        &["-static", "-O0"],
        &["clang"],
    ] {
        let program = built("hangs.c", options);
        let stuck = Stuck::new(&program, "lock");
        let scene = stuck.scene();
        counts(barrier(&scene, "holder"), 2, 1);
        let seen = thread(&scene, "wanter");
        let is_mutex = matches!(seen.doing, Doing::Waiting(WaitFor::Mutex { holder, .. })
            if holder == Holder::Thread(thread(&scene, "holder").id));
        assert!(is_mutex, "{options:?}: {scene:#?}");
        assert_eq!(functions(seen), ["take", "wants"], "{options:?}");
        assert!(seen.is_whole, "{options:?}: {scene:#?}");
        // Although some threads had to be stopped for their registers.
        assert!(
            scene.threads.iter().all(|thread| thread.slept),
            "{scene:#?}"
        );
        let stuck = Stuck::new(&program, "spin");
        let scene = stuck.scene();
        let seen = thread(&scene, "spinner");
        assert_eq!(functions(seen), ["spin", "spins"], "{options:?}");
    }
    // Without symbols the program's functions have no names, but those of the C library have.
    let stuck = Stuck::new(&built("hangs.c", &["-s"]), "lock");
    let scene = stuck.scene();
    counts(barrier(&scene, "holder"), 2, 1);
    let seen = thread(&scene, "wanter");
    assert!(
        matches!(seen.doing, Doing::Waiting(WaitFor::Mutex { .. })),
        "{scene:#?}"
    );
    assert_eq!(functions(seen), ["?", "?"]);
}

#[test]
fn nobody_is_disturbed() {
    let program = built("undisturbed.c", &[]);
    let mut stuck = Stuck::start(Command::new(program).arg("ms=3000"));
    let mut looker = Looker::new(&[stuck.child.id()]).unwrap();
    for turn in 0..200 {
        looker.look(turn);
        sleep(Duration::from_millis(4));
    }
    let mut held = looker.held;
    held.sort_unstable();
    eprintln!(
        "{} stops, median {:?}, longest {:?}",
        held.len(),
        held[held.len() / 2],
        held.last().unwrap()
    );
    assert!(held.len() >= 100, "{}", held.len());
    let out = stuck.child.stdout.take().unwrap();
    let lines: Vec<String> = BufReader::new(out).lines().map(Result::unwrap).collect();
    for line in &lines[..6] {
        let numbers: Vec<u32> = line
            .split(' ')
            .map(|number| number.parse().unwrap())
            .collect();
        assert_eq!(numbers[1], 0, "disturbed: {lines:?}");
        assert!(numbers[2] > 20, "did not go on: {lines:?}");
    }
    assert!(stuck.child.wait().unwrap().success());
}

/// A team of four threads, three of which wait for the fourth.
fn team(options: &'static [&'static str], case: &str, policy: &str) -> (Stuck, Scene) {
    let program = built("openmp_hangs.c", options);
    let mut command = Command::new(program);
    let command = command.arg(case).env("OMP_WAIT_POLICY", policy);
    let stuck = Stuck::start(command.env(
        "KMP_BLOCKTIME",
        if policy == "active" { "infinite" } else { "0" },
    ));
    // On a busy machine the threads take a while to get there.
    let there = |scene: &Scene| {
        scene
            .barriers
            .iter()
            .map(|barrier| barrier.waiting.len())
            .sum::<usize>()
    };
    let mut scene = stuck.scene();
    for _ in 0..50 {
        if there(&scene) == 3 {
            break;
        }
        scene = stuck.scene();
    }
    (stuck, scene)
}

#[test]
fn teams_of_openmp_wait_at_one_barrier() {
    for (options, kind) in [
        (&["-fopenmp"][..], Kind::Gomp),
        (&["-fopenmp", "-static"], Kind::Gomp),
        (&["clang", "-fopenmp"], Kind::Kmp),
    ] {
        for case in ["barrier", "loop", "region"] {
            for policy in ["passive", "active"] {
                let (_stuck, scene) = team(options, case, policy);
                let what = format!("{options:?} {case} {policy}: {scene:#?}");
                let [found] = &scene.barriers[..] else {
                    panic!("{what}");
                };
                assert_eq!((found.kind, found.participants), (kind, Some(4)), "{what}");
                assert_eq!(found.waiting.len(), 3, "{what}");
                let arrived = (kind == Kind::Gomp).then_some(3);
                assert_eq!(found.arrived, arrived, "{what}");
                let mut reading = scene.threads.iter().filter(|seen| {
                    matches!(&seen.doing, Doing::Waiting(WaitFor::Data { call, .. }) if call == "read")
                });
                let reader = reading.next().unwrap_or_else(|| panic!("{what}"));
                assert_eq!(functions(reader)[0], "fetch", "{what}");
            }
        }
    }
}

#[test]
fn barriers_of_languages_are_known() {
    let stuck = Stuck::start(&mut Command::new(built("hangs.cpp", &[])));
    let scene = stuck.scene();
    let found = barrier(&scene, "one");
    assert_eq!((found.kind, found.waiting.len()), (Kind::Std, 2));
    let own = |name: &str| {
        let mut calls = thread(&scene, name).stack.iter();
        let own = calls.find(|call| !call.of_system).unwrap();
        own.function.clone().unwrap()
    };
    assert_eq!(own("one"), "meet");
    assert_eq!(own("wanter"), "take");
    let is_held = matches!(thread(&scene, "wanter").doing, Doing::Waiting(WaitFor::Mutex { holder, .. })
        if holder == Holder::Thread(thread(&scene, "holder").id));
    assert!(is_held, "{scene:#?}");

    let stuck = Stuck::start(&mut Command::new(built("hangs.rs", &[])));
    let scene = stuck.scene();
    let found = barrier(&scene, "one");
    assert_eq!((found.kind, found.waiting.len()), (Kind::Rust, 2));
    let seen = thread(&scene, "wanter");
    assert!(
        matches!(seen.doing, Doing::Waiting(WaitFor::Mutex { .. })),
        "{seen:#?}"
    );
    assert!(
        functions(seen).iter().any(|name| name.ends_with("take")),
        "{seen:#?}"
    );
    let seen = thread(&scene, "receiver");
    assert!(
        matches!(seen.doing, Doing::Waiting(WaitFor::Futex { .. })),
        "{seen:#?}"
    );
}

#[test]
fn errors_name_the_remedy() {
    let error = at(&[u32::MAX / 2], &Looks::default()).unwrap_err();
    assert!(error.to_string().contains("no process"), "{error}");
}
