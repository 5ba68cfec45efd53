//! CPU time of sbt itself for programs with much code: two JVMs, a Python with many libraries, and
//! a program that waits and wakes at many places.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::figures::median;
use super::series::Bench;
use crate::{debian, process, python};

/// CPU time that sbt may use for each program, ms.
const BAR_MS: u32 = 150;

/// Places from which the last program calls its barrier.
const PLACES: u32 = 1000;

const IMPORTS: &str = "import pandas, pyarrow.dataset, pyarrow.compute\n\
    maps = open('/proc/self/maps').read().splitlines()\n\
    print(len({line.split()[-1] for line in maps if '.so' in line}))\n";

/// Measures the programs and writes a table. Returns a line for each program above the bar.
///
/// # Errors
/// If a program cannot be built or run.
pub fn programs(bench: &Bench, out: &mut String) -> Result<Vec<String>> {
    let folder = bench.folder()?;
    let has_java = process::on_path("javac").is_some() && process::on_path("java").is_some();
    if !has_java {
        debian::require(&["default-jdk-headless".to_owned()])?;
    }
    let source = bench.workspace.root.join("bench/Threads.java");
    let mut javac = process::command("javac");
    javac.arg("-d").arg(&folder).arg(&source);
    process::run(&mut javac)?;
    let python = python::prepare(&bench.workspace)?;
    let text = folder.join("places.c");
    fs::write(&text, places())?;
    let program = bench.compile(&text.to_string_lossy(), &["-O1", "-g", "-pthread"])?;

    let mut java = Command::new("java");
    java.arg("-cp").arg(&folder).arg("Threads");
    let mut many = Command::new(&python);
    many.args(["-c", IMPORTS]);
    let libraries = process::read(&mut many)?;
    let subjects = [
        ("nothing: `true`".to_owned(), Command::new("true")),
        ("a JVM, [Threads.java](Threads.java)".to_owned(), java),
        ("`javac` of that file".to_owned(), javac),
        (
            format!("a Python that has loaded {} libraries", libraries.trim()),
            many,
        ),
        (
            format!("a barrier made of a condition variable, inlined at {PLACES} places"),
            Command::new(&program),
        ),
    ];
    let mut measured = Vec::new();
    for (name, command) in subjects {
        eprintln!("measuring: {name}");
        let ms = (0..bench.pairs)
            .map(|_| used_ms(bench, &command))
            .collect::<Result<Vec<f64>>>()
            .with_context(|| format!("watching {name}"))?;
        measured.push(Subject { name, ms });
    }
    out.push_str(&table(&measured));
    Ok(above(&measured))
}

/// A program, and sbt's CPU time in each run, ms.
struct Subject {
    name: String,
    ms: Vec<f64>,
}

fn table(subjects: &[Subject]) -> String {
    let mut out = "\n## sbt itself, for programs with much code\n\n\
         CPU time of sbt from its start to the report (user and system, all threads, without the \
         program's own), default options. `true` shows what does not depend on the program: BPF \
         programs are checked and probes are measured.\n\n\
         | program | bar, ms | median | all |\n|---|---|---|---|\n"
        .to_owned();
    for Subject { name, ms } in subjects {
        let all: Vec<_> = ms.iter().map(|ms| format!("{ms:.0}")).collect();
        let (all, median) = (all.join(", "), median(ms));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {name} | ≤ {BAR_MS} | **{median:.0}** | {all} |");
    }
    out
}

/// A line for each program for which sbt used more than the bar.
fn above(subjects: &[Subject]) -> Vec<String> {
    let above = subjects.iter().filter_map(|Subject { name, ms }| {
        let median = median(ms);
        (median > f64::from(BAR_MS))
            .then(|| format!("{name}: sbt used {median:.0} ms of CPU time, more than {BAR_MS} ms"))
    });
    above.collect()
}

/// sbt's CPU time according to its report, ms.
fn used_ms(bench: &Bench, program: &Command) -> Result<f64> {
    let report = format!("--output={}", bench.folder()?.join("large.json").display());
    let mut command = bench.watching(&["--json", &report], program.get_program());
    process::read(command.args(program.get_args()).stderr(Stdio::inherit()))?;
    let cpu_ns = bench.report("large.json")?["own_cost"]["cpu_ns"].as_f64();
    Ok(cpu_ns.context("no CPU time of sbt")? / 1e6)
}

/// Source of a program that calls one barrier from many places, several of them in the same
/// function.
fn places() -> String {
    const IN_ONE: u32 = 10;
    let mut text = String::from(
        "#include <pthread.h>\n\
         enum { THREADS = 3 };\n\
         static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;\n\
         static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;\n\
         static int here, round_now;\n\
         static volatile int sink;\n\
         static void work(void) { for (int i = 0; i < 2000; i++) sink++; }\n\
         #define MEET do { \\\n\
         \x20   pthread_mutex_lock(&mutex); \\\n\
         \x20   int mine = round_now; \\\n\
         \x20   if (++here == THREADS) { here = 0; round_now++; pthread_cond_broadcast(&changed); } \\\n\
         \x20   else while (mine == round_now) pthread_cond_wait(&changed, &mutex); \\\n\
         \x20   pthread_mutex_unlock(&mutex); \\\n\
         } while (0)\n",
    );
    let functions = PLACES / IN_ONE;
    let body = "    work(); MEET;\n".repeat(IN_ONE as usize);
    let mut calls = String::new();
    for function in 0..functions {
        let head = format!("__attribute__((noinline)) static void f{function}(void)");
        text.extend([&head, "\n{\n", &body, "}\n"]);
        calls.extend(["        f", &function.to_string(), "();\n"]);
    }
    text + &format!(
        "static void *run(void *argument)\n{{\n    for (int i = 0; i < 3; i++) {{\n{calls}    }}\n    return argument;\n}}\n\
         int main(void)\n{{\n    pthread_t all[THREADS];\n\
         \x20   for (int i = 0; i < THREADS; i++) pthread_create(&all[i], 0, run, 0);\n\
         \x20   for (int i = 0; i < THREADS; i++) pthread_join(all[i], 0);\n    return 0;\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_above_the_bar_is_named() {
        let subject = |name: &str, ms: [f64; 3]| Subject {
            name: name.to_owned(),
            ms: ms.to_vec(),
        };
        let good = subject("one", [150.0, 150.0, 900.0]);
        let bad = |name| subject(name, [151.0, 151.0, 1.0]);
        assert!(above(std::slice::from_ref(&good)).is_empty());
        assert_eq!(
            above(&[bad("two"), good, bad("three")]),
            [
                "two: sbt used 151 ms of CPU time, more than 150 ms",
                "three: sbt used 151 ms of CPU time, more than 150 ms",
            ]
        );
        let table = table(&[bad("two")]);
        assert!(table.ends_with("| two | ≤ 150 | **151** | 151, 151, 1 |\n"));
    }
}
