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
    harness::{Started, command, folder, is_root, pause, run, sbt, start},
    look::{as_nobody, open},
};

/// How many looks there are at a time, and how many compilers.
const LOOKS: usize = 6;
const COMPILERS: usize = 4;

/// A program with one of its builds.
struct Case {
    source: PathBuf,
    build: String,
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
            return Some(vec![compiler.into(), copy]);
        }
        let stem = self.source.file_stem().unwrap().to_string_lossy();
        let path = folder.join(format!("{stem}-{number}"));
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
        let output = match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            output => output.unwrap(),
        };
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", self.called());
        Some(vec![path])
    }

    /// What is wrong with what a look says; `None` if nothing is.
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

/// Does something with each of several things, a few at a time.
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
    let finished = run(command).expect(0);
    serde_json::from_slice(&finished.stdout).unwrap()
}

/// Looks at all cases, as root or as a user without any privilege.
fn all_are_right(is_nobody: bool) {
    let folder = folder();
    let sbt = if is_nobody {
        open(folder.path(), sbt())
    } else {
        sbt().to_owned()
    };
    let cases = all();
    let built = each(&cases, COMPILERS, |number, case| {
        case.built(folder.path(), number)
    });
    let begin = |words: Vec<PathBuf>| -> Started {
        let mut command = if is_nobody {
            as_nobody(&words[0])
        } else {
            command(&words[0], &[""; 0])
        };
        command.args(&words[1..]);
        start(command)
    };
    let started: Vec<Option<Started>> = built.into_iter().map(|words| words.map(begin)).collect();
    // On a busy machine they take their time to come where they hang.
    let wrong = |tries: u32| -> Vec<String> {
        pause(1500 * u64::from(tries));
        let pids: Vec<Option<u32>> = started
            .iter()
            .map(|one| one.as_ref().map(Started::pid))
            .collect();
        let found = each(&pids, LOOKS, |number, pid| {
            let report = pid.map(|pid| look(pid, &sbt, is_nobody));
            report.and_then(|report| cases[number].wrong(&report))
        });
        found.into_iter().flatten().collect()
    };
    let mut left = Vec::new();
    for tries in 1..=3 {
        left = wrong(tries);
        if left.is_empty() {
            break;
        }
    }
    // Children of the programs end with them: pipes break, and parents are gone.
    for one in started.iter().flatten() {
        one.signal_all(libc::SIGKILL);
    }
    assert!(left.is_empty(), "{}", left.join("\n"));
}

#[test]
fn each_is_told_as_it_says_itself() {
    crate::harness::needs_nothing!();
    all_are_right(false);
}

#[test]
fn the_user_is_told_the_same() {
    crate::harness::needs_nothing!();
    if is_root() {
        all_are_right(true);
    }
}
