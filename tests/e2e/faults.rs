//! Programs with one fault each, and healthy ones: sbt names the fault first, and accuses nobody who
//! is healthy. The programs are in `tests/faults`; the head of each says how it is run, and what
//! the first verdict must say and what no verdict may say.
//!
//! Lines of the head, each after the comment sign of the language:
//!
//! - `build: COMPILER FLAGS`, unless the ending of the name says the compiler;
//! - `run: NAME=VALUE … --option … mpirun …`: environment, options of sbt, and what starts the program;
//! - `healthy`: no thread, line or process may be blamed;
//! - `must: TEXT`: the first verdict has this text, or one of several: `TEXT | TEXT`;
//! - `never: TEXT`: no verdict has this text.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    harness::{Report, best_of_five, folder, needs_root, run, sbt_with},
    programs::execute,
};

/// One test for each program, and a list of them all.
macro_rules! faults {
    ($($name:ident: $file:literal,)*) => {
        $(
            #[test]
            fn $name() {
                needs_root!(alone);
                check($file);
            }
        )*

        const ALL: &[&str] = &[$($file,)*];
    };
}

faults! {
    acquire: "acquire.c",
    allocate: "allocate.c",
    amdahl_once: "amdahl_once.c",
    assemble: "assemble.c",
    assemble_clang: "assemble_clang.c",
    bank_mutex: "bank_mutex.rs",
    big_blocks: "big_blocks.cpp",
    blur_poller: "blur_poller.c",
    bound_pool: "bound_pool.c",
    checkpoint: "checkpoint.c",
    cond_queue: "cond_queue.c",
    convoy_log: "convoy_log.c",
    cpulimit: "cpulimit.c",
    critical: "critical.c",
    encode: "encode.c",
    energy_critical: "energy_critical.c",
    equations: "equations.c",
    even_pages: "even_pages.c",
    feed_net: "feed_net.rs",
    fft_idle_class: "fft_idle_class.c",
    fresh_pages: "fresh_pages.c",
    front: "front.c",
    generate: "generate.c",
    healthy_dynamic: "healthy_dynamic.c",
    healthy_even: "healthy_even.c",
    healthy_fine: "healthy_fine.c",
    healthy_fortran: "healthy_fortran.f90",
    healthy_jitter: "healthy_jitter.c",
    healthy_joins: "healthy_joins.c",
    healthy_long: "healthy_long.c",
    healthy_mpi: "healthy_mpi.c",
    healthy_openmp: "healthy_openmp.c",
    healthy_openmp_clang: "healthy_openmp_clang.c",
    healthy_queue: "healthy_queue.c",
    healthy_rust: "healthy_rust.rs",
    healthy_std: "healthy_std.cpp",
    healthy_stencil: "healthy_stencil.c",
    heat: "heat.f90",
    heat_bound: "heat_bound.c",
    histo_rwlock: "histo_rwlock.c",
    histogram: "histogram.rs",
    jacobi_rows: "jacobi_rows.c",
    log_lock: "log_lock.c",
    mpi_domain: "mpi_domain.c",
    mpi_output: "mpi_output.c",
    nbody_nice: "nbody_nice.rs",
    omp_ordered: "omp_ordered.c",
    omp_pinned: "omp_pinned.c",
    omp_taskwait: "omp_taskwait.c",
    particles: "particles.c",
    pipe_feed: "pipe_feed.c",
    poll_device: "poll_device.c",
    random_costs: "random_costs.c",
    read_input: "read_input.c",
    red_black: "red_black.c",
    render_logger: "render_logger.cpp",
    results: "results.rs",
    rotate_log: "rotate_log.c",
    scratch: "scratch.c",
    search: "search.rs",
    sensors: "sensors.c",
    serial_sum: "serial_sum.c",
    single: "single.c",
    slow_stage: "slow_stage.c",
    sort_crowd: "sort_crowd.cpp",
    sort_result: "sort_result.c",
    spin_queue: "spin_queue.c",
    split_arrive: "split_arrive.cpp",
    std_barrier: "std_barrier.cpp",
    sync_each: "sync_each.c",
    tally: "tally.c",
    tasks_tail: "tasks_tail.c",
    teams: "teams.c",
    three_steps: "three_steps.c",
    tiny_grid: "tiny_grid.c",
    tiny_grid_budget: "tiny_grid_budget.c",
    tiny_regions: "tiny_regions.c",
    triangular: "triangular.c",
    triangular_clang: "triangular_clang.c",
    two_places: "two_places.cpp",
    word_counts: "word_counts.cpp",
    wordcount: "wordcount.c",
}

/// Kinds of verdicts that blame no thread, line or process.
const OF_NOBODY: [&str; 7] = [
    "no-problem",
    "more-threads-than-cpus",
    "spinning-while-others-lack-cpus",
    "cpu-quota",
    "others-take-cpus",
    "program-stopped",
    "slow-cpu",
];

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("faults")
}

/// The head of a program.
#[derive(Default)]
struct Head {
    build: Option<String>,
    run: String,
    healthy: bool,
    must: Vec<String>,
    never: Vec<String>,
}

impl Head {
    fn of(file: &str) -> Self {
        let text = fs::read_to_string(programs().join(file)).unwrap();
        let mut head = Self::default();
        let comments = text.lines().map_while(|line| {
            let begins = ["//", "!", "#"]
                .iter()
                .find_map(|sign| line.strip_prefix(sign));
            begins.map(str::trim)
        });
        for line in comments {
            match line.split_once(": ") {
                _ if line == "healthy" => head.healthy = true,
                Some(("build", words)) => head.build = Some(words.into()),
                Some(("run", words)) => head.run = words.into(),
                Some(("must", text)) => head.must.push(text.into()),
                Some(("never", text)) => head.never.push(text.into()),
                _ => {}
            }
        }
        assert!(head.healthy || !head.must.is_empty(), "{file} has no must");
        head
    }

    /// The program, built on first use.
    fn build(&self, file: &str) -> PathBuf {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
        fs::create_dir_all(&built).unwrap();
        let path = built.join(file.replace('.', "-"));
        let source = programs().join(file);
        let time = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
        if time(&path) > time(&source) {
            return path;
        }
        let usual = match source.extension().and_then(|ending| ending.to_str()) {
            Some("rs") => "rustc -O -g",
            Some("cpp") => "g++ -O2 -g -pthread",
            _ => "gcc -O2 -g -pthread",
        };
        let words = self
            .build
            .as_deref()
            .map_or(usual.to_owned(), |words| format!("{words} -O2 -g -pthread"));
        let mut words = words.split_whitespace();
        let compiler = words.next().unwrap();
        let mut command = if compiler == "rustc" {
            Command::new(Path::new(env!("CARGO")).with_file_name(compiler))
        } else {
            Command::new(compiler)
        };
        // Under a name of this process: another run of the tests may be using the program.
        let fresh = built.join(format!("{}-{}", std::process::id(), file.replace('.', "-")));
        command.arg("-o").arg(&fresh).arg(&source).args(words);
        execute(command);
        fs::rename(&fresh, &path).unwrap();
        path
    }

    /// The report on the program.
    fn report(&self, program: &Path) -> Report {
        let folder = folder();
        let json = folder.path().join("report.json");
        let mut command = sbt_with(&["run", "--json", "--output"]);
        command.arg(&json);
        let mut before: Vec<OsString> = Vec::new();
        for word in self.run.split_whitespace() {
            match word.split_once('=') {
                _ if word == "mpirun" => before.extend(
                    ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
                        .map(OsString::from),
                ),
                _ if !before.is_empty() => before.push(word.into()),
                Some((name, value)) if !word.starts_with('-') => {
                    command.env(name, value);
                }
                _ => {
                    command.arg(word);
                }
            }
        }
        command.arg("--").args(before).arg(program);
        run(command).expect(0);
        Report::read(&json)
    }
}

/// Fails unless the first verdict on a program is as its head says: for a fault in one of five
/// attempts, since other programs may have the CPUs. What may never be said is never said.
#[track_caller]
fn check(file: &str) {
    let head = Head::of(file);
    let program = head.build(file);
    best_of_five(|| {
        let report = head.report(&program);
        let verdicts = report.0["verdicts"].as_array().cloned().unwrap_or_default();
        let text = |verdict: &serde_json::Value| verdict["text"].as_str().unwrap().to_owned();
        let texts: Vec<String> = verdicts.iter().map(text).collect();
        let shown = format!("{file}: {texts:#?} {}", report.0["no_verdict_because"]);
        for never in &head.never {
            assert!(
                !texts.iter().any(|text| text.contains(never)),
                "{never:?} in {shown}"
            );
        }
        if head.healthy {
            for verdict in &verdicts {
                let is_of_nobody = OF_NOBODY.contains(&verdict["kind"].as_str().unwrap());
                assert!(is_of_nobody, "somebody is blamed: {shown}");
            }
        }
        let first = texts.first().map_or("", String::as_str);
        let lacks = |must: &&String| !must.split(" | ").any(|text| first.contains(text.trim()));
        head.must
            .iter()
            .find(lacks)
            .map_or(Ok(()), |must| Err(format!("{must:?} is not in {shown}")))
    });
}

#[test]
fn each_program_is_run() {
    for entry in fs::read_dir(programs()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(ALL.contains(&name.as_str()), "{name} is in no test");
    }
}
