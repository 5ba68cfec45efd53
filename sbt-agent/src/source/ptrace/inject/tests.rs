use std::{
    arch::asm,
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    super::stop::{News, wait_for},
    *,
};

/// Longer than any of these tests takes.
const LIMIT: Duration = Duration::from_mins(1);

/// Set in a process that is only there to be traced: the file for its result.
const IS_TARGET: &str = "SBT_TEST_HAS_REGISTERS";

/// Set in a process that traces such a target.
const IS_TRACER: &str = "SBT_TEST_CALLS";

/// The target's result if nothing has changed.
const FINE: &str = "fine";

#[test]
fn only_none_and_as_many_filters_as_ours_are_harmless() {
    for (theirs, ours, expected) in [
        (Some(0), Some(0), false),
        (Some(0), Some(2), false),
        (Some(2), Some(2), false),
        (Some(1), Some(0), true),
        // Fewer filters than sbt has cannot be the same filters.
        (Some(1), Some(2), true),
        (Some(3), Some(2), true),
        // The thread has ended, or all descriptors are in use.
        (None, Some(0), true),
        (None, None, true),
        (Some(1), None, true),
    ] {
        assert_eq!(is_foreign(theirs, ours), expected, "{theirs:?} {ours:?}");
    }
}

#[test]
fn a_filter_is_that_of_its_thread() {
    let tid = nix::unistd::gettid().as_raw();
    assert!(!is_forbidden(tid));
    let allow_all = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let filtered = move || {
        let mut all = [allow_all];
        let program = libc::sock_fprog {
            len: 1,
            filter: all.as_mut_ptr(),
        };
        // SAFETY: a program of one instruction, which the kernel copies.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(
                libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
                0
            );
        }
        is_forbidden(nix::unistd::gettid().as_raw())
    };
    assert!(std::thread::spawn(filtered).join().unwrap());
    assert!(!is_forbidden(tid));
}

/// Another process of this test program, which runs a single test.
fn only(test: &str, variable: &str, file: &Path) -> Command {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", &format!("{module}::{test}")])
        .env(variable, file)
        .stderr(Stdio::null());
    command
}

/// The file by which a target is told to leave its loop.
fn word_of(file: &Path) -> PathBuf {
    file.with_extension("word")
}

/// Makes a target leave its loop.
fn release(file: &Path) {
    let word = File::options().write(true).open(word_of(file)).unwrap();
    word.write_all_at(&[1], 0).unwrap();
}

/// Loops with known values in the registers and below the stack until `word` is not 0. Returns
/// whether all values are unchanged then.
fn keeps_its_registers(word: *const u8) -> bool {
    let changed: u64;
    // SAFETY: what is pushed is popped, and all changes are declared.
    unsafe {
        asm!(
            "push rbx", "push rbp",
            "mov rax, 0x1112131415161718",
            "mov [rsp - 8], rax", "mov [rsp - 128], rax",
            "lea rbx, [rax + 1]", "lea rbp, [rax + 2]", "lea r12, [rax + 3]",
            "lea r13, [rax + 4]", "lea r14, [rax + 5]", "lea r15, [rax + 6]",
            "lea rdx, [rax + 7]", "lea rsi, [rax + 8]", "lea rdi, [rax + 9]",
            "lea r8, [rax + 10]", "lea r9, [rax + 11]", "lea r10, [rax + 12]",
            "lea r11, [rax + 13]",
            "movq xmm0, rax", "vinsertf128 ymm15, ymm15, xmm0, 1", "vmovapd ymm7, ymm15",
            "fldpi",
            "2:", "cmp dword ptr [rcx], 0", "je 2b",
            "sub rbx, 1", "sub rbp, 2", "sub r12, 3", "sub r13, 4", "sub r14, 5", "sub r15, 6",
            "sub rdx, 7", "sub rsi, 8", "sub rdi, 9", "sub r8, 10", "sub r9, 11", "sub r10, 12",
            "sub r11, 13",
            "vextractf128 xmm1, ymm15, 1", "movq rcx, xmm1", "xor rcx, rax",
            "vextractf128 xmm1, ymm7, 1", "movq r15, xmm1",
            "fldpi", "fcompp", "fnstsw ax", "and eax, 0x4500", "xor eax, 0x4000",
            "or rcx, rax",
            "mov rax, 0x1112131415161718",
            "xor rbx, rax", "xor rbp, rax", "xor r12, rax", "xor r13, rax", "xor r14, rax",
            "xor r15, rax", "xor rdx, rax", "xor rsi, rax", "xor rdi, rax", "xor r8, rax",
            "xor r9, rax", "xor r10, rax", "xor r11, rax",
            "or rcx, rbx", "or rcx, rbp", "or rcx, r12", "or rcx, r13", "or rcx, r14",
            "or rcx, r15", "or rcx, rdx", "or rcx, rsi", "or rcx, rdi", "or rcx, r8",
            "or rcx, r9", "or rcx, r10", "or rcx, r11",
            "mov rbx, [rsp - 8]", "xor rbx, rax", "or rcx, rbx",
            "mov rbx, [rsp - 128]", "xor rbx, rax", "or rcx, rbx",
            "pop rbp", "pop rbx",
            inout("rcx") word => changed,
            out("rax") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _,
            out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            out("xmm0") _, out("xmm1") _, out("xmm7") _, out("xmm15") _,
        );
    }
    changed == 0
}

/// The signals that the caller blocks, and its alternate signal stack.
fn signals() -> (Vec<bool>, usize, usize) {
    // SAFETY: structures of numbers, for which zeros are valid, and which the kernel fills.
    let (mask, stack) = unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut mask);
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut stack);
        (mask, stack)
    };
    // SAFETY: the set has been filled.
    let held = (1..64).map(|number| unsafe { libc::sigismember(&raw const mask, number) == 1 });
    (held.collect(), stack.ss_sp.addr(), stack.ss_size)
}

/// Does something only in a process of its own.
#[test]
fn target() {
    let Some(file) = env::var_os(IS_TARGET) else {
        return;
    };
    let before = signals();
    let file = Path::new(&file);
    let word = File::open(word_of(file)).unwrap();
    // SAFETY: the file is never made shorter.
    let word = unsafe { memmap2::Mmap::map(&word) }.unwrap();
    println!("\nready");
    let is_fine = keeps_its_registers(word.as_ptr()) && signals() == before;
    let part = file.with_extension("part");
    fs::write(&part, if is_fine { FINE } else { "changed" }).unwrap();
    fs::rename(part, file).unwrap();
}

/// Starts a target. `threads`: 1 to loop in its first thread, 2 in another one.
fn spinning(file: &Path, threads: u32) -> Child {
    fs::write(word_of(file), [0; 8]).unwrap();
    let mut child = only("target", IS_TARGET, file)
        .arg(format!("--test-threads={threads}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    child
}

/// The looping thread, stopped, and its registers.
fn standing(child: &Child) -> (Stop, Registers) {
    let mut all = process::thread_ids(child.id());
    let busy = all.find(|tid| *tid != child.id()).unwrap_or(child.id());
    let busy = busy.cast_signed();
    trace::seize(busy, libc::PTRACE_O_TRACESYSGOOD).unwrap();
    loop {
        trace::interrupt(busy).unwrap();
        let Ok(News::Stopped(stop)) = wait_for(busy) else {
            panic!("it has ended");
        };
        let registers = stop.registers().unwrap();
        if registers.numbered(1) == 0x1112_1314_1516_1718 + 9 {
            return (stop, registers);
        }
        stop.begin_call_again();
        stop.resume();
        thread::sleep(Duration::from_millis(1));
    }
}

fn memory_of(child: &Child) -> File {
    let path = process::folder(child.id()).join("mem");
    File::options().read(true).write(true).open(path).unwrap()
}

fn ways_of(child: &Child, memory: &File) -> InjectionCode {
    let mut ways = InjectionCode::default();
    for mapping in process::mappings(child.id()) {
        let mut code = vec![0; usize::try_from(mapping.end - mapping.start).unwrap()];
        let count = memory.read_at(&mut code, mapping.start).unwrap_or(0);
        ways.add(&code[..count], mapping.start, |_, _| true);
    }
    ways
}

/// Everything that must be the same before and after a call.
fn all_of(stop: &Stop, memory: &File) -> (Vec<u64>, Vec<u8>, u64, Vec<u8>) {
    let id = stop.id();
    let registers = stop.registers().unwrap();
    let mut below = vec![0; 16 << 10];
    let from = registers.stack() - below.len() as u64;
    memory.read_exact_at(&mut below, from).unwrap();
    (
        registers.words().to_vec(),
        trace::extended_registers(id).unwrap(),
        trace::mask(id).unwrap(),
        below,
    )
}

const NUMBER_OF_PROCESS: Call = (libc::SYS_getpid, [1, 2, 3, 4, 5, 6]);

/// Makes the target do a call. Runs only in a process of its own, which is killed on the way.
#[test]
fn tracer() {
    let Some(file) = env::var_os(IS_TRACER) else {
        return;
    };
    let mut child = spinning(Path::new(&file), 2);
    let memory = memory_of(&child);
    let (stop, registers) = standing(&child);
    let ways = ways_of(&child, &memory);
    #[cfg(debug_assertions)]
    trace::fault::arm();
    let (stop, told) = call(stop, &registers, &memory, ways, NUMBER_OF_PROCESS).unwrap();
    assert_eq!(told, u64::from(child.id()));
    stop.let_go(true);
    release(Path::new(&file));
    child.wait().unwrap();
}

fn said(file: &Path) -> Option<String> {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        if let Ok(said) = fs::read_to_string(file) {
            return Some(said);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

#[test]
fn a_call_changes_nothing_of_the_thread_that_makes_it() {
    let folder = tempfile::tempdir().unwrap();
    for threads in [1, 2] {
        let file = folder.path().join(threads.to_string());
        let mut child = spinning(&file, threads);
        let memory = memory_of(&child);
        let (mut stop, registers) = standing(&child);
        let ways = ways_of(&child, &memory);
        let before = all_of(&stop, &memory);
        for _ in 0..3 {
            let (after, told) = call(stop, &registers, &memory, ways, NUMBER_OF_PROCESS).unwrap();
            assert_eq!(told, u64::from(child.id()));
            assert_eq!(all_of(&after, &memory), before);
            stop = after;
        }
        // A thread in a system call; then a program without the code.
        let mut in_call = registers;
        in_call.set_system_call(202, registers.result());
        for (registers, ways) in [(in_call, ways), (registers, InjectionCode::default())] {
            let refused = call(stop, &registers, &memory, ways, NUMBER_OF_PROCESS);
            let Err((Some(after), why)) = refused else {
                panic!("it has made a call");
            };
            assert!(why.contains("thread"), "{why}");
            assert_eq!(all_of(&after, &memory), before);
            stop = after;
        }
        stop.let_go(true);
        release(&file);
        assert_eq!(said(&file).as_deref(), Some(FINE));
        assert!(child.wait().unwrap().success());
    }
}

/// The tracer is killed after each step in turn.
#[cfg(debug_assertions)]
#[test]
fn a_thread_that_nobody_leads_back_finds_its_way() {
    use std::os::unix::process::ExitStatusExt as _;

    let folder = tempfile::tempdir().unwrap();
    for step in 1.. {
        let file = folder.path().join(step.to_string());
        let status = only("tracer", IS_TRACER, &file)
            .env("SBT_TEST_KILL", format!("self:{step}"))
            .stdout(Stdio::null())
            .status()
            .unwrap();
        release(&file);
        assert_eq!(said(&file).as_deref(), Some(FINE), "step {step}");
        if status.success() {
            assert!(step > 10, "{step}");
            break;
        }
        assert_eq!(status.signal(), Some(libc::SIGKILL), "step {step}");
    }
}
