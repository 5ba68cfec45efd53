//! Threads that end while a thread of their process is made to run one instruction.

use std::{
    env,
    io::{BufRead as _, Write as _, stdin},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::mpsc,
};

use super::*;

/// Longer than any of these tests takes.
const LIMIT: Duration = Duration::from_mins(1);

/// Set in a process that is only there to be traced.
const IS_TARGET: &str = "SBT_TEST_IS_TARGET";

/// The other thread of a target waits here until it is told to execute another program; the first
/// thread waits for it.
#[test]
fn target() {
    if env::var_os(IS_TARGET).is_none() {
        return;
    }
    let told = stdin().lock().lines().next();
    assert!(told.is_none(), "{}", Command::new("sleep").arg("60").exec());
}

/// A target process, the stop of its first thread, and its other thread.
fn traced() -> (Child, Stop, Id) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::target"), "--test-threads=2"])
        .env(IS_TARGET, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    while process::threads(pid) < 2 {
        thread::sleep(LOOK_AFTER[0]);
    }
    let other = process::thread_ids(pid).find(|tid| *tid != pid).unwrap();
    let (first, other) = (pid.cast_signed(), other.cast_signed());
    for id in [first, other] {
        let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEEXEC;
        trace::seize(id, options).unwrap();
    }
    trace::interrupt(first).unwrap();
    let Ok(News::Stopped(stop)) = wait_for(first) else {
        panic!("it has ended");
    };
    (child, stop, other)
}

fn stands_for_its_end(id: Id) {
    let (_, status) = wait(id, libc::WSTOPPED | libc::WNOWAIT).unwrap().unwrap();
    assert_eq!(why(id, status), StopReason::Ends);
}

/// A step would wait for ever if it waited for something that only its caller can do.
fn within_the_limit(test: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let test = thread::spawn(move || {
        test();
        tell.send(()).unwrap();
    });
    let late = Err(mpsc::RecvTimeoutError::Timeout);
    assert_ne!(told.recv_timeout(LIMIT), late, "it waits for ever");
    test.join().unwrap();
}

fn has_gone(stop: Stop) {
    let error = stop.step().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
}

/// All changes, one after the other; each stopped thread goes on.
fn all_news() -> impl Iterator<Item = (Id, Option<StopReason>)> {
    std::iter::from_fn(|| match news(None, 0).ok()?? {
        News::Stopped(stop) => Some((stop.id(), Some(stop.why()))),
        News::Ended(id) => Some((id, None)),
    })
}

#[test]
fn a_first_thread_that_is_killed_is_not_waited_for_until_others_have_ended() {
    within_the_limit(|| {
        let (mut child, stop, other) = traced();
        let first = stop.id();
        child.kill().unwrap();
        stands_for_its_end(first);
        stands_for_its_end(other);
        has_gone(stop);
        let news: Vec<(Id, Option<StopReason>)> = all_news().collect();
        assert_eq!(
            news,
            [
                (other, Some(StopReason::Ends)),
                (other, None),
                (first, None)
            ]
        );
    });
}

#[test]
fn the_program_that_another_thread_executes_makes_no_step() {
    within_the_limit(|| {
        let (mut child, stop, other) = traced();
        let first = stop.id();
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        stands_for_its_end(first);
        has_gone(stop);
        let mut news = all_news();
        assert_eq!(
            news.next(),
            Some((first, Some(StopReason::Executed(other))))
        );
        child.kill().unwrap();
        assert_eq!(news.next(), Some((first, Some(StopReason::Ends))));
        assert_eq!(news.next(), Some((first, None)));
    });
}
