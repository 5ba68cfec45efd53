//! CPU time of sbt itself for programs with much code: two JVMs, a Python with many libraries, and
//! a program that waits and wakes at many places.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::figures::median;
use crate::workspace::Workspace;
use crate::{debian, process, python};

/// CPU time that sbt may use for each program, ms.
const BAR_MS: u32 = 150;

/// Places from which the last program calls its barrier.
const PLACES: u32 = 1000;

const IMPORTS: &str = "import pandas, pyarrow.dataset, pyarrow.compute\n\
    maps = open('/proc/self/maps').read().splitlines()\n\
    print(len({line.split()[-1] for line in maps if '.so' in line}))\n";

#[derive(Deserialize)]
struct Report {
    own_cost: Cost,
}

#[derive(Deserialize)]
struct Cost {
    cpu_ns: f64,
}

/// Measures the programs and writes a table.
///
/// # Errors
/// If a program cannot be built or run.
pub fn programs(
    workspace: &Workspace,
    sbt: &Path,
    runs: usize,
    out: &mut String,
) -> Result<Vec<Subject>> {
    let folder = workspace.target.join("bench");
    fs::create_dir_all(&folder).context("making a folder for the programs")?;
    let has_java = process::on_path("javac").is_some() && process::on_path("java").is_some();
    if !has_java {
        debian::require(&["default-jdk-headless".to_owned()])?;
    }
    let source = workspace.root.join("bench/Threads.java");
    let mut javac = process::command("javac");
    javac.arg("-d").arg(&folder).arg(&source);
    process::run(&mut javac)?;
    let python = python::prepare(workspace)?;
    let text = folder.join("places.c");
    fs::write(&text, places())?;
    let program = folder.join("places");
    let mut compiler = process::command("cc");
    compiler.args(["-O1", "-g", "-pthread", "-o"]).arg(&program);
    process::run(compiler.arg(&text))?;

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
        let ms = (0..runs)
            .map(|_| used_ms(sbt, &command, &folder))
            .collect::<Result<Vec<f64>>>()
            .with_context(|| format!("watching {name}"))?;
        measured.push(Subject { name, ms });
    }
    out.push_str(&table(&measured));
    Ok(measured)
}

/// A program, and sbt's CPU time in each run, ms.
pub struct Subject {
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

/// Checks sbt's CPU time for each program.
///
/// # Errors
/// If sbt used more than the bar: one line for each such program.
pub fn check(subjects: &[Subject]) -> Result<()> {
    let above = subjects.iter().filter_map(|Subject { name, ms }| {
        let median = median(ms);
        (median > f64::from(BAR_MS))
            .then(|| format!("{name}: sbt used {median:.0} ms of CPU time, more than {BAR_MS} ms"))
    });
    let above: Vec<String> = above.collect();
    ensure!(above.is_empty(), "{}", above.join("\n"));
    Ok(())
}

/// sbt's CPU time according to its report, ms.
fn used_ms(sbt: &Path, program: &Command, folder: &Path) -> Result<f64> {
    let report = folder.join("large.json");
    let mut command = process::command(sbt);
    command.args(["run", "--json", "--output"]).arg(&report);
    command.arg("--").arg(program.get_program());
    command.args(program.get_args()).stderr(Stdio::inherit());
    process::read(&mut command)?;
    let report: Report = serde_json::from_slice(&fs::read(&report)?)?;
    Ok(report.own_cost.cpu_ns / 1e6)
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
        assert!(check(std::slice::from_ref(&good)).is_ok());
        let said = check(&[bad("two"), good, bad("three")]).unwrap_err();
        let said: Vec<String> = said.to_string().lines().map(str::to_owned).collect();
        assert_eq!(
            said,
            [
                "two: sbt used 151 ms of CPU time, more than 150 ms",
                "three: sbt used 151 ms of CPU time, more than 150 ms",
            ]
        );
        let table = table(&[bad("two")]);
        assert!(table.ends_with("| two | ≤ 150 | **151** | 151, 151, 1 |\n"));
    }
}
