//! `sbt hang` at programs that hang, each in its own way: the sentence that says why.

use serde_json::Value;

use crate::{
    harness::{LIMIT, command, eventually, start},
    look::{look, stuck},
    programs::{Build, line},
};

/// A sentence without what differs from run to run: addresses, and numbers of threads.
fn plain(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let hex = |c: char| c == 'x' || c.is_ascii_hexdigit();
        let inner = word.trim_start_matches('(');
        let begin = &word[..word.len() - inner.len()];
        let (bare, end) = match inner.find(|c: char| !hex(c)) {
            Some(at) => inner.split_at(at),
            None => (inner, ""),
        };
        let is_number = bare.len() > 2 && bare.bytes().all(|it| it.is_ascii_digit());
        match bare {
            _ if bare.starts_with("0x") => format!("{begin}0x…{end}"),
            _ if is_number => format!("{begin}N{end}"),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The verdict on a case of `hangs.c`: kind, reason, sentence, and the whole.
#[track_caller]
fn said(build: Build, case: &str) -> (String, Option<String>, String, Value) {
    let target = stuck(build, case);
    let report = look(target.pid(), &["--children"]);
    let hang = &report["hang"];
    let kind = hang["kind"]
        .as_str()
        .unwrap_or_else(|| panic!("{report:#}"));
    let because = hang["because"].as_str().map(str::to_owned);
    assert_eq!(hang["text"], report["text"]);
    let text = plain(report["text"].as_str().unwrap());
    (kind.to_owned(), because, text, report)
}

#[track_caller]
fn is(case: &str, kind: &str, because: Option<&str>, sentence: &str) -> Value {
    let found = said(Build::of("hangs.c"), case);
    let (found_kind, found_because, text, report) = found;
    let at = format!("the barrier at hangs.c:{}", line("hangs.c", "SITE meet"));
    let take = format!("take() hangs.c:{}", line("hangs.c", "SITE take"));
    let sentence = sentence.replace("BARRIER", &at).replace("TAKE", &take);
    assert_eq!(text, sentence, "{case}: {report:#}");
    assert_eq!(
        (&*found_kind, found_because.as_deref()),
        (kind, because),
        "{case}: {report:#}"
    );
    report
}

#[test]
fn a_lock_is_held_across_the_barrier() {
    crate::harness::needs_nothing!(breakpoints);
    for case in ["lock", "recursive", "errorcheck", "robust", "inherits"] {
        let report = is(
            case,
            "never",
            Some("cycle"),
            "wanter is missing at BARRIER (1 of 2 is there): it waits for the mutex mutex \
             (0x…) that holder holds, which waits at this barrier: they wait for each other for ever",
        );
        let hang = &report["hang"];
        assert_eq!(hang["participants"], 2);
        assert_eq!(hang["barrier"]["kind"], "pthread");
        assert_eq!(hang["arrived"][0]["name"], "holder");
        let missing = &hang["missing"][0];
        assert_eq!(missing["blocked_on"]["kind"], "mutex");
        assert_eq!(missing["blocked_on"]["holder"]["name"], "holder");
        assert_eq!(hang["cycle"].as_array().unwrap().len(), 2);
    }
    is(
        "rdlock",
        "never",
        Some("cycle"),
        "wanter is missing at BARRIER (1 of 2 is there): it waits for the read-write lock \
         rwlock (0x…) to read that holder holds, which waits at this barrier: they wait for each other for ever",
    );
}

#[test]
fn threads_have_ended_or_never_were() {
    crate::harness::needs_nothing!(breakpoints);
    let ended = "a thread has ended without coming, or the count is too large";
    let none_ended = "the count is too large: no thread of the process has ended";
    for (case, count, there, why) in [
        ("return", 3, "2 are", ended),
        ("exit", 3, "2 are", ended),
        ("count", 4, "3 are", none_ended),
    ] {
        let sentence = format!(
            "BARRIER can never complete: it waits for {count} threads, {there} there, and no other \
             can come (hangs waits for the end of one, which waits at this barrier): {why}"
        );
        is(case, "never", Some("fewer-alive"), &sentence);
    }
}

#[test]
fn two_barriers_in_opposite_order() {
    crate::harness::needs_nothing!(breakpoints);
    let (kind, because, text, report) = said(Build::of("hangs.c"), "order");
    assert_eq!(
        (&*kind, because.as_deref()),
        ("never", Some("cycle")),
        "{report:#}"
    );
    assert!(
        text.ends_with("they wait for each other for ever"),
        "{text}"
    );
    assert!(text.contains("first") && text.contains("second"), "{text}");
}

#[test]
fn locks_that_nobody_lets_go() {
    crate::harness::needs_nothing!(breakpoints);
    is(
        "orphan",
        "never",
        Some("holder-gone"),
        "probably wanter is missing at BARRIER (1 of 2 is there): it waits in TAKE for the mutex \
         mutex (0x…), whose holder (thread N) has ended without letting go, and nobody will unlock it",
    );
    is(
        "twice",
        "never",
        Some("own-lock"),
        "probably wanter is missing at BARRIER (1 of 2 is there): it waits for the mutex mutex \
         (0x…) that it holds itself, in TAKE, for ever",
    );
    is(
        "cycle",
        "never",
        Some("cycle"),
        "probably one is missing at BARRIER (1 of 3 is there): it waits for the mutex other_mutex \
         (0x…) that two holds, which waits for the mutex mutex (0x…) that one holds: they wait for each other for ever; \
         two is missing too",
    );
    is(
        "heir",
        "never",
        Some("holder-gone"),
        "hangs waits in TAKE for the mutex 0x…, whose holder (thread N) has ended without letting \
         go, and nobody will unlock it",
    );
}

#[test]
fn wakes_that_nobody_makes() {
    crate::harness::needs_nothing!(breakpoints);
    let await_line = line("hangs.c", "SITE await");
    let sentence = format!(
        "probably waiter is missing at BARRIER (1 of 2 is there): it waits for the condition \
         variable condvar (0x…), in await() hangs.c:{await_line}, and no thread is left that could wake it"
    );
    is("missed", "stuck", Some("nobody-wakes"), &sentence);
    let semaphore = line("hangs.c", "SITE semaphore");
    let sentence = format!(
        "probably wanter is missing at BARRIER (1 of 2 is there): it waits for the semaphore \
         semaphore (0x…), in wants_a_unit() hangs.c:{semaphore}, and no thread is left that could wake it"
    );
    is("semaphore", "stuck", Some("nobody-wakes"), &sentence);
    // The flag says that processes share it, but no other process has its memory.
    is("shared", "stuck", Some("nobody-wakes"), &sentence);
}

#[test]
fn a_program_that_does_not_hang() {
    crate::harness::needs_nothing!(breakpoints);
    for case in ["mutex", "barrier", "heirs"] {
        let mut target = start(command(Build::of("contended.c").path(), &[case]));
        target.wait_for("ready");
        for _ in 0..4 {
            let report = look(target.pid(), &[]);
            let kind = report["hang"]["kind"].as_str();
            assert!(!matches!(kind, Some("never" | "stuck")), "{report:#}");
        }
    }
}

#[test]
fn threads_that_read_or_run() {
    crate::harness::needs_nothing!(breakpoints);
    let (kind, because, text, report) = said(Build::of("hangs.c"), "read");
    let because = because.as_deref();
    assert_eq!(
        (&*kind, because),
        ("stuck", Some("nobody-wakes")),
        "{report:#}"
    );
    let fetch = line("hangs.c", "SITE fetch");
    assert!(text.contains("probably reader is missing at"), "{text}");
    assert!(text.contains("it waits in read() for pipe:["), "{text}");
    assert!(
        text.ends_with(&format!(
            "in fetch() hangs.c:{fetch}, and only its own process holds the other end, where no \
             thread goes on"
        )),
        "{text}"
    );

    let (kind, _, text, report) = said(Build::of("hangs.c"), "spin");
    assert_eq!(kind, "unclear", "{report:#}");
    assert!(text.contains("probably spinner is missing at"), "{text}");
    assert!(text.contains("it runs in spin() hangs.c:"), "{text}");

    // On a busy machine they may not get on while they are looked at.
    let target = stuck(Build::of("hangs.c"), "spin");
    let ran = eventually(LIMIT, || {
        let report = look(target.pid(), &[]);
        let share = report["hang"]["missing"][0]["cpu_pct"].as_f64();
        (share > Some(1.0)).then_some(())
    });
    ran.unwrap();
    let target = stuck(Build::of("hangs.c"), "long");
    let slow = eventually(LIMIT, || {
        let report = look(target.pid(), &[]);
        (report["hang"]["kind"] == "slow").then_some(report)
    });
    let text = slow.unwrap()["text"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("slow, not stuck: probably worker is missing at"),
        "{text}"
    );
}

#[test]
fn processes_that_share_a_barrier() {
    crate::harness::needs_nothing!(breakpoints);
    let (kind, _, text, report) = said(Build::of("hangs.c"), "stopped");
    assert_eq!(kind, "outside", "{report:#}");
    assert!(
        text.contains("is missing at the barrier at hangs.c:"),
        "{text}"
    );
    assert!(
        text.contains("it was stopped by a signal, in family() hangs.c:"),
        "{text}"
    );
    assert_eq!(report["hang"]["barrier"]["shared"], true);

    let (kind, because, text, report) = said(Build::of("hangs.c"), "killed");
    // Who else has that memory is not looked for.
    assert_eq!(
        (&*kind, because.as_deref()),
        ("unclear", None),
        "{report:#}"
    );
    assert!(
        text.starts_with("1 of 2 threads is missing at the barrier at hangs.c:"),
        "{text}"
    );
    let end = "no thread of the processes that were looked at can come; one of another process is \
               to come, which may have ended";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn however_it_was_built_and_by_whichever_runtime() {
    crate::harness::needs_nothing!(breakpoints);
    for build in [
        Build::of("hangs.c").flags(&["-O0"]),
        Build::of("hangs.c").flags(&["-static"]),
        Build::of("hangs.c").stripped(),
        Build::of("hangs.c").compiler("clang"),
    ] {
        let (kind, because, text, report) = said(build, "lock");
        assert_eq!(
            (&*kind, because.as_deref()),
            ("never", Some("cycle")),
            "{report:#}"
        );
        assert!(text.starts_with("wanter is missing at "), "{text}");
    }
    for (build, kind) in [
        (Build::of("openmp_hangs.c").flags(&["-fopenmp"]), "gomp"),
        (
            Build::of("openmp_hangs.c")
                .compiler("clang")
                .flags(&["-fopenmp"]),
            "kmp",
        ),
    ] {
        let target = stuck(build, "barrier");
        // On a busy machine they take their time to come there.
        let report = eventually(LIMIT, || {
            let report = look(target.pid(), &[]);
            let there = report["hang"]["arrived"].as_array().map_or(0, Vec::len);
            (there == 3).then_some(report)
        });
        let report = report.unwrap();
        assert_eq!(report["hang"]["barrier"]["kind"], kind, "{report:#}");
        let text = report["text"].as_str().unwrap();
        assert!(text.contains("it waits in read() for pipe:["), "{text}");
    }
    let cpp = Build::of("hangs.cpp")
        .compiler("g++")
        .flags(&["-std=c++20"]);
    let rust = Build::of("hangs.rs").compiler("rustc");
    for (build, kind) in [(cpp, "std::barrier"), (rust, "rust")] {
        let mut target = start(command(build.path(), &[""; 0]));
        target.wait_for("stuck");
        // As above.
        let report = eventually(LIMIT, || {
            let report = look(target.pid(), &[]);
            let there = report["hang"]["arrived"].as_array().map_or(0, Vec::len);
            (there >= 2).then_some(report)
        });
        let report = report.unwrap();
        let hang = &report["hang"];
        assert_eq!(hang["barrier"]["kind"], kind, "{report:#}");
        assert_eq!(hang["arrived"].as_array().unwrap().len(), 2, "{report:#}");
    }
}
