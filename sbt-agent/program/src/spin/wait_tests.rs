//! Functions compiled for these tests, each with a certain kind of loop.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::HashMap, fs, path::Path, process::Command};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use super::{
    meeting::{Counter, Meeting, meetings},
    wait::{Callee, Purpose, Target, Waiting, recognise},
};

const SOURCE: &str = include_str!("../../../../tests/programs/spins.c");

/// The functions of an object file.
struct Built {
    start: u64,
    text: Vec<u8>,
    functions: HashMap<String, (u64, u64)>,
}

fn build(compiler: &str, optimise: &str) -> Built {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("spins.c");
    fs::write(&source, SOURCE).unwrap();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let program = folder.path().join("spins");
    let output = Command::new(compiler)
        .args([optimise, "-g", "-pthread", "-I"])
        .arg(programs)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{output:?}");
    let image = fs::read(program).unwrap();
    let file = object::File::parse(&*image).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let functions = file.symbols().filter(|symbol| symbol.size() > 0);
    Built {
        start: text.address(),
        text: text.data().unwrap().to_vec(),
        functions: functions
            .map(|symbol| {
                let place = (symbol.address(), symbol.size());
                (symbol.name().unwrap().to_owned(), place)
            })
            .collect(),
    }
}

impl Built {
    fn code(&self, start: u64, size: u64) -> Option<&[u8]> {
        let from = usize::try_from(start.checked_sub(self.start)?).ok()?;
        self.text.get(from..from + usize::try_from(size).ok()?)
    }

    /// The barriers inside of a function.
    fn meetings(&self, name: &str) -> Vec<Meeting> {
        let (start, size) = self.functions[name];
        let code = self.code(start, size).unwrap();
        meetings(code, start, &|_| Callee::Unknown)
    }

    /// The waiting loops that are recognised at any instruction of a function.
    fn waiting(&self, name: &str) -> Vec<Waiting> {
        let (start, size) = self.functions[name];
        let code = self.code(start, size).unwrap();
        let callee = |target| {
            let Target::At(to) = target else {
                return Callee::Unknown;
            };
            let function = self.functions.values().find(|function| function.0 == to);
            match function.and_then(|function| self.code(to, function.1)) {
                Some(code) => Callee::Code(to, code.to_vec()),
                // All other code is stubs, which the barriers need only for `sched_yield`.
                None if name.ends_with("_wait") => Callee::GivesWay,
                None => Callee::Unknown,
            }
        };
        let mut found: Vec<Waiting> = Vec::new();
        for address in start..start + size {
            let waiting = recognise(code, start, address, &callee);
            if let Some(waiting) = waiting.filter(|new| !found.contains(new)) {
                found.push(waiting);
            }
        }
        found
    }
}

fn all() -> impl Iterator<Item = (String, Built)> {
    let compilers = ["gcc", "clang"].into_iter();
    compilers.flat_map(|compiler| {
        ["-O0", "-O1", "-O2", "-O3"].map(|optimise| {
            let built = build(compiler, optimise);
            (format!("{compiler} {optimise}"), built)
        })
    })
}

#[test]
fn loops_that_only_wait_are_told_from_those_that_compute() {
    for (how, built) in all() {
        for name in [
            "sense_wait",
            "yield_wait",
            "ticket_wait",
            "count_wait",
            "patient_wait",
            "relaxed_wait",
        ] {
            let found = built.waiting(name);
            assert!(!found.is_empty(), "{how}: {name}");
            for waiting in &found {
                assert_eq!(
                    waiting.purpose,
                    Purpose::Barrier,
                    "{how}: {name} {found:x?}"
                );
                assert!(!waiting.is_nested, "{how}: {name} {found:x?}");
                assert!(waiting.is_plain, "{how}: {name} {found:x?}");
                assert!(waiting.has_pointer, "{how}: {name} {found:x?}");
            }
        }
        let computing = [
            "scan",
            "sum",
            "search",
            "chase",
            "count_until",
            "delay",
            "poll_clock",
            "digest",
            "mix_until",
            "store_until",
        ];
        for name in computing {
            assert_eq!(built.waiting(name), [], "{how}: {name}");
        }
    }
}

#[test]
fn locks_are_told_from_barriers_where_the_code_tells() {
    for (how, built) in all() {
        for waiting in ["lock_by_test", "lock_by_compare", "add_by_ticket"]
            .into_iter()
            .flat_map(|name| built.waiting(name))
        {
            assert_eq!(waiting.purpose, Purpose::Lock, "{how}: {waiting:x?}");
        }
        assert!(built.waiting("lock_by_exchange").is_empty(), "{how}");
        for name in ["lock_by_ticket", "lock_by_queue", "turn_wait"] {
            let found = built.waiting(name);
            assert!(!found.is_empty(), "{how}: {name}");
            for waiting in found {
                assert_eq!(
                    waiting.purpose,
                    Purpose::Unclear,
                    "{how}: {name} {waiting:x?}"
                );
            }
        }
    }
}

#[test]
fn a_wait_inside_of_the_programs_own_loop_is_nested() {
    for (how, built) in all() {
        let found = built.waiting("inlined_rounds");
        assert!(!found.is_empty(), "{how}");
        let is_part = |waiting: &Waiting| waiting.is_nested && waiting.works_between;
        assert!(found.iter().all(is_part), "{how}: {found:x?}");
        let found = built.waiting("global_wait");
        assert!(!found.is_empty(), "{how}");
        assert!(
            found.iter().all(|waiting| !waiting.has_pointer),
            "{how}: {found:x?}"
        );
    }
}

#[test]
fn barriers_inside_of_functions_are_found_with_all_their_places() {
    for (how, built) in all() {
        let [one] = &built.meetings("inlined_rounds")[..] else {
            panic!("{how}: {:x?}", built.meetings("inlined_rounds"));
        };
        assert!(
            built.waiting("inlined_rounds").iter().all(|waiting| {
                waiting.purpose == Purpose::Barrier && waiting.meeting.as_ref() == Some(one)
            }),
            "{how}"
        );
        let [first, second] = &built.meetings("macro_rounds")[..] else {
            panic!("{how}: {:x?}", built.meetings("macro_rounds"));
        };
        assert!(matches!(first.counter, Counter::Fixed(_)), "{how}");
        assert_eq!(first.counter, second.counter, "{how}");
        for meeting in [one, first, second] {
            assert!(
                meeting.arrives.at < meeting.counts_at,
                "{how}: {meeting:x?}"
            );
            assert!(!meeting.leaves.is_empty(), "{how}: {meeting:x?}");
        }
    }
}

#[test]
fn locks_and_queues_are_no_barriers_inside_of_functions() {
    for (how, built) in all() {
        for name in [
            "lock_by_test",
            "lock_by_compare",
            "lock_by_exchange",
            "lock_by_ticket",
            "lock_by_queue",
            "unlock_queue",
            "add_by_ticket",
            "turn_wait",
            "count_until",
        ] {
            if built.functions.contains_key(name) {
                assert_eq!(built.meetings(name), [], "{how}: {name}");
            }
        }
    }
}

#[test]
fn code_may_be_anything() {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for _ in 0..200 {
        let code: Vec<u8> = (0..200).map(|_| next()).collect();
        for address in (0..200).step_by(7) {
            let callee = |_| Callee::Code(0, code.clone());
            let _any = recognise(&code, 0, address, &callee);
            let _any = meetings(&code, address, &callee);
        }
    }
    assert_eq!(recognise(&[], 0, 0, &|_| Callee::Unknown), None);
    // At the end of all addresses.
    let end = recognise(&[0xeb, 0xfe], u64::MAX - 1, u64::MAX - 1, &|_| {
        Callee::Unknown
    });
    assert_eq!(end, None);
}
