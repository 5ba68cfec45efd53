//! What sbt itself uses for programs with much code: a JVM, a Python with many libraries, and a
//! program that waits and wakes at many places.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::figures::median;
use crate::workspace::Workspace;
use crate::{debian, process, python};

/// CPU time that sbt may use for each, ms.
const BAR_MS: u32 = 150;

/// Places at which the last program comes to its barrier.
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

/// Measures it, and writes a table.
pub fn programs(workspace: &Workspace, sbt: &Path, runs: usize, out: &mut String) -> Result<()> {
    let folder = workspace.target.join("bench");
    fs::create_dir_all(&folder).context("making a folder for the programs")?;
    let has_java = process::on_path("javac").is_some() && process::on_path("java").is_some();
    if !has_java {
        debian::require(&["default-jdk-headless".to_owned()])?;
    }
    let mut javac = process::command("javac");
    javac.arg("-d").arg(&folder);
    process::run(javac.arg(workspace.root.join("bench/Threads.java")))?;
    let python = python::prepare(workspace)?;
    let source = folder.join("places.c");
    fs::write(&source, places())?;
    let program = folder.join("places");
    let mut compiler = process::command("cc");
    compiler.args(["-O1", "-g", "-pthread", "-o"]).arg(&program);
    process::run(compiler.arg(&source))?;

    let mut java = Command::new("java");
    java.arg("-cp").arg(&folder).arg("Threads");
    let mut many = Command::new(&python);
    many.args(["-c", IMPORTS]);
    let libraries = process::read(&mut many)?;
    let [java_ms, python_ms, places_ms] = [&java, &many, &Command::new(&program)].map(|command| {
        (0..runs)
            .map(|_| used_ms(sbt, command, &folder))
            .collect::<Result<Vec<f64>>>()
    });
    writeln!(
        out,
        "\n## sbt itself, for programs with much code\n\n\
         CPU time of sbt from its start to the report (user and system, without the program's own), \
         default options.\n\n\
         | program | bar, ms | median | all |\n|---|---|---|---|"
    )?;
    for (what, ms) in [
        ("a JVM, [Threads.java](Threads.java)", java_ms?),
        (
            &*format!("a Python that has loaded {} libraries", libraries.trim()),
            python_ms?,
        ),
        (
            &*format!("a barrier made of a condition variable, inlined at {PLACES} places"),
            places_ms?,
        ),
    ] {
        let all: Vec<_> = ms.iter().map(|ms| format!("{ms:.0}")).collect();
        writeln!(
            out,
            "| {what} | ≤ {BAR_MS} | **{:.0}** | {} |",
            median(&ms),
            all.join(", ")
        )?;
    }
    Ok(())
}

/// CPU time that sbt says to have used, ms.
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

/// A program that comes to one barrier at many places, some of them in one function.
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
