//! Programs that hang, or only seem to, in `tests/hangs`: each says in its head what a look must say
//! of it and what it must never say. All run at once, since they sleep.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use serde_json::Value;

use crate::{
    harness::{Started, command, folder, is_root, needs_root, pause, run, sbt, sbt_with, start},
    look::{as_nobody, open},
};

/// How many looks there are at a time, and how many compilers.
const LOOKS: usize = 12;
const COMPILERS: usize = 4;

/// A program with one of its builds.
#[derive(Clone)]
struct Case {
    source: PathBuf,
    build: String,
    /// Whether threads of it spin, so that it needs CPUs.
    is_busy: bool,
    outcome: String,
    must: Vec<String>,
    never: Vec<String>,
}

/// The cases of a source: its head has a line for each way to build it, with the compiler and its
/// flags; and lines with what has to be found. `{site}` stands for the line with `SITE site`.
fn cases(source: &Path) -> Vec<Case> {
    let text = fs::read_to_string(source).unwrap();
    let of = |key: &str| -> Vec<String> {
        let marks = ["//", "#", "!"].map(|mark| format!("{mark} {key}: "));
        let lines = text.lines();
        let found = lines.filter_map(|line| {
            let mut marks = marks.iter();
            marks.find_map(|mark| line.strip_prefix(mark.as_str()))
        });
        found.map(|line| with_lines(line, &text)).collect()
    };
    let outcome = of("outcome").first().cloned().unwrap_or_default();
    assert!(!outcome.is_empty(), "{}", source.display());
    let builds = of("build").into_iter();
    builds
        .map(|build| Case {
            source: source.to_owned(),
            build,
            is_busy: !of("busy").is_empty(),
            outcome: outcome.clone(),
            must: of("must"),
            never: of("never"),
        })
        .collect()
}

fn with_lines(text: &str, source: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else {
        return text.to_owned();
    };
    let (site, after) = rest.split_once('}').unwrap();
    let mark = format!("SITE {site}");
    let line = source.lines().position(|line| line.ends_with(&mark));
    let line = line.unwrap_or_else(|| panic!("no {mark}")) + 1;
    format!("{before}{line}{}", with_lines(after, source))
}

fn all() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hangs");
    let mut sources: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    sources.sort();
    sources.iter().flat_map(|source| cases(source)).collect()
}

impl Case {
    fn called(&self) -> String {
        format!("{} [{}]", self.source.display(), self.build)
    }

    /// The command that runs it, built into a folder. `None` if the compiler is not installed.
    fn built(&self, folder: &Path, number: usize) -> Option<Vec<PathBuf>> {
        let mut words = self.build.split(' ');
        let compiler = words.next().unwrap();
        if compiler == "python3" {
            let copy = folder.join(self.source.file_name().unwrap());
            fs::copy(&self.source, &copy).unwrap();
            // The first `python3` in the path may not be executable for other users.
            let usual = Path::new("/usr/bin/python3");
            let python = if usual.exists() {
                usual
            } else {
                Path::new(compiler)
            };
            return Some(vec![python.to_owned(), copy]);
        }
        let stem = self.source.file_stem().unwrap().to_string_lossy();
        let path = folder.join(format!("{stem}-{number}"));
        if compiler == "javac" {
            let class = words.next().unwrap();
            let mut compile = Command::new(compiler);
            self.compiled(compile.arg("-d").arg(&path).arg(&self.source))?;
            return Some(vec!["java".into(), "-cp".into(), path, class.into()]);
        }
        let mut command = if compiler == "rustc" {
            Command::new(Path::new(env!("CARGO")).with_file_name(compiler))
        } else {
            Command::new(compiler)
        };
        if compiler == "go" {
            let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache");
            command.env("GOCACHE", cache).env("GO111MODULE", "off");
            command.arg("build").arg("-o").arg(&path).arg(&self.source);
        } else {
            command.arg("-o").arg(&path).arg(&self.source).args(words);
        }
        self.compiled(&mut command)?;
        Some(vec![path])
    }

    /// Runs a compiler. `None` if it is not installed.
    fn compiled(&self, command: &mut Command) -> Option<()> {
        let output = match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            output => output.unwrap(),
        };
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", self.called());
        Some(())
    }

    /// The case without symbols: sbt must still tell whether the program hangs, and tell nothing false.
    fn without_symbols(&self) -> Self {
        Self {
            build: format!("{}, stripped", self.build),
            must: Vec::new(),
            ..self.clone()
        }
    }

    /// The fault in a look's report; `None` if there is none.
    fn wrong(&self, report: &Value) -> Option<String> {
        let said = report.to_string();
        let lacks = self.must.iter().filter(|text| !said.contains(*text));
        let has = self.never.iter().filter(|text| said.contains(*text));
        let mut wrong: Vec<String> = lacks.map(|text| format!("lacks {text:?}")).collect();
        wrong.extend(has.map(|text| format!("has {text:?}")));
        if self.outcome != "any" && report["outcome"] != self.outcome.as_str() {
            wrong.push(format!("is not {}", self.outcome));
        }
        let text = wrong.join(", ");
        (!wrong.is_empty()).then(|| format!("{}: {text}\n{report:#}\n", self.called()))
    }
}

/// A copy of a program without its symbols.
fn stripped(program: &Path) -> PathBuf {
    let copy = program.with_extension("stripped");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&copy).arg(program);
    assert!(strip.status().unwrap().success(), "{}", program.display());
    copy
}

/// Calls a function for each element, for a few elements at a time.
fn each<T: Sync, R: Send>(
    all: &[T],
    at_a_time: usize,
    with: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let with = &with;
    let mut results = Vec::new();
    for (turn, chunk) in all.chunks(at_a_time).enumerate() {
        let done: Vec<R> = thread::scope(|scope| {
            let begun: Vec<_> = (turn * at_a_time..)
                .zip(chunk)
                .map(|(number, one)| scope.spawn(move || with(number, one)))
                .collect();
            begun.into_iter().map(|one| one.join().unwrap()).collect()
        });
        results.extend(done);
    }
    results
}

fn look(pid: u32, sbt: &Path, is_nobody: bool) -> Value {
    let mut command = if is_nobody {
        as_nobody(sbt)
    } else {
        command(sbt, &[""; 0])
    };
    command.args(["hang", "--json", &pid.to_string()]);
    let finished = run(command);
    // The program may have ended, which is wrong as well.
    let report = serde_json::from_slice(&finished.stdout);
    report.unwrap_or(Value::String(finished.stderr))
}

/// A case that runs.
struct Running<'a> {
    case: &'a Case,
    started: Started,
    /// Whether the process belongs to a user without any privilege, who looks at it as well.
    is_nobody: bool,
}

fn begin<'a>(case: &'a Case, words: &[PathBuf], is_nobody: bool) -> Running<'a> {
    let mut command = if is_nobody {
        as_nobody(&words[0])
    } else {
        command(&words[0], &[""; 0])
    };
    command.args(&words[1..]);
    Running {
        case,
        started: start(command),
        is_nobody,
    }
}

/// The faults in the reports on programs.
fn wrong(running: &[Running], sbts: [&Path; 2]) -> Vec<String> {
    let asked: Vec<(&Case, u32, bool)> = running
        .iter()
        .map(|one| (one.case, one.started.pid(), one.is_nobody))
        .collect();
    let found = each(&asked, LOOKS, |_, (case, pid, is_nobody)| {
        let sbt = sbts[usize::from(*is_nobody)];
        case.wrong(&look(*pid, sbt, *is_nobody))
    });
    found.into_iter().flatten().collect()
}

#[test]
fn each_is_told_as_it_says_itself() {
    crate::harness::needs_nothing!(alone);
    let folder = folder();
    let copy = open(folder.path(), sbt());
    let cases: Vec<Case> = all().into_iter().filter(|case| !case.is_busy).collect();
    let built = each(&cases, COMPILERS, |number, case| {
        case.built(folder.path(), number)
    });
    let bare: Vec<Case> = cases.iter().map(Case::without_symbols).collect();
    let mut running = Vec::new();
    let mut last = None;
    for ((case, bare), words) in cases.iter().zip(&bare).zip(&built) {
        let Some(words) = words else {
            continue;
        };
        running.push(begin(case, words, false));
        if is_root() {
            running.push(begin(case, words, true));
        }
        // One build of each source is enough for this.
        if last.replace(&case.source) != Some(&case.source) && words.len() == 1 {
            running.push(begin(bare, &[stripped(&words[0])], false));
        }
    }
    // On a busy machine they take their time to come where they hang.
    let mut left = Vec::new();
    for tries in 1..=3 {
        pause(1500 * tries);
        left = wrong(&running, [sbt(), &copy]);
        if left.is_empty() {
            return;
        }
    }
    panic!("{} of {}: {}", left.len(), running.len(), left.join("\n"));
}

/// Runs the programs one at a time: on a machine of two CPUs, many threads that spin keep each other from
/// the CPUs.
#[test]
fn threads_that_spin_are_told_as_they_say_themselves() {
    crate::harness::needs_nothing!(alone);
    let folder = folder();
    let cases: Vec<Case> = all().into_iter().filter(|case| case.is_busy).collect();
    let built = each(&cases, COMPILERS, |number, case| {
        case.built(folder.path(), number)
    });
    for (case, words) in cases.iter().zip(&built) {
        let Some(words) = words else {
            continue;
        };
        let running = [begin(case, words, false)];
        let mut left = Vec::new();
        for tries in 1..=4 {
            pause(100 * tries);
            left = wrong(&running, [sbt(), sbt()]);
            if left.is_empty() {
                break;
            }
        }
        assert!(left.is_empty(), "{}", left.join("\n"));
    }
}

/// What a check of a program without a barrier ends with.
#[test]
fn a_check_fails_where_a_program_hangs_and_nowhere_else() {
    needs_root!(alone);
    let folder = folder();
    let all = all();
    let may_build = |name: &str| {
        let case = all.iter().find(|case| case.source.ends_with(name)).unwrap();
        let built = case.built(folder.path(), 0);
        built.map(|mut words| words.remove(0))
    };
    let path = |name: &str| may_build(name).unwrap();
    let check_by = |backend: &str, limit: &str, program: &Path, arguments: &[&str], status: i32| {
        let mut command = sbt_with(&["check", "--backend", backend, "--no-hang", limit, "--"]);
        command.arg(program).args(arguments);
        let finished = run(command).expect(status);
        finished.out() + &finished.stderr
    };
    let check = |limit: &str, program: &Path, arguments: &[&str], status: i32| {
        check_by("auto", limit, program, arguments, status)
    };
    let [lost, forked, spins] = ["lost_wakeup.c", "forked_team.c", "spin_flag.c"].map(path);
    let [beats, fed] = ["heartbeat.c", "fed_by_timer.c"].map(path);
    let leak = may_build("go_leak.go");
    let sleep = Path::new("sleep");
    thread::scope(|scope| {
        scope.spawn(|| {
            let said = check("1s", &beats, &[], 3);
            assert!(said.contains("no thread of the process is left"), "{said}");
        });
        scope.spawn(|| {
            let said = check("1s", &lost, &[], 3);
            assert!(said.contains("no thread of the process is left"), "{said}");
            assert!(!said.contains("is over"), "{said}");
        });
        scope.spawn(|| {
            let said = check("1s", &spins, &[], 3);
            assert!(said.contains("left that could change it"), "{said}");
        });
        scope.spawn(|| {
            let said = check("1s", &forked, &[], 3);
            assert!(said.contains("exists only in the parent"), "{said}");
        });
        scope.spawn(|| {
            let said = check("1s", sleep, &["2.5"], 0);
            assert!(said.contains("waits for something outside of it"), "{said}");
        });
        scope.spawn(|| check("1s,strict", sleep, &["2.5"], 3));
    });
    // What is not known never passes: sbt ends such a program after twice the time.
    let in_one_line = |said: String| said.split_whitespace().collect::<Vec<_>>().join(" ");
    thread::scope(|scope| {
        scope.spawn(|| {
            let said = in_one_line(check("1s", &fed, &[], 5));
            assert!(
                said.contains("and what it does after that is not known"),
                "{said}"
            );
        });
        if let Some(leak) = &leak {
            scope.spawn(|| {
                let said = in_one_line(check("1s", leak, &[], 5));
                assert!(said.contains("which goroutines wait"), "{said}");
            });
        }
    });
    // Where sbt itself traces the threads, its looks stop them all the same.
    let said = check_by("ptrace", "1s", &spins, &[], 3);
    assert!(said.contains("left that could change it"), "{said}");
}
