//! MPI by several libraries: which communicators the ranks have made, how many ranks these have, and
//! who comes last, compared with what the program itself has noted.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    harness::{
        LIMIT, Report, attach, command, eventually, needs_root, number, run, sbt_with, start,
        watch_with,
    },
    programs::{Build, line, source},
    turns::skipped,
};

const RANKS: usize = 4;

/// A library of MPI, with what compiles and starts its programs.
pub struct Mpi {
    compiler: &'static str,
    flags: &'static [&'static str],
    pub start: Vec<String>,
    /// The Python of the library's virtual environment, if it has one.
    python: Option<PathBuf>,
}

impl Mpi {
    /// A library of MPI from a package of Debian.
    fn of_debian(compiler: &'static str, start: &[&str]) -> Self {
        Self {
            compiler,
            flags: &[],
            start: start.iter().map(|word| (*word).to_owned()).collect(),
            python: None,
        }
    }

    pub fn open_mpi_4() -> Self {
        let start = [
            "/usr/bin/mpirun.openmpi",
            "--allow-run-as-root",
            "--oversubscribe",
        ];
        Self::of_debian("mpicc.openmpi", &start)
    }

    pub fn mpich() -> Self {
        Self::of_debian("mpicc.mpich", &["/usr/bin/mpiexec.hydra"])
    }

    /// A library of MPI that `cargo xtask test` has prepared; `None` if it has not.
    fn prepared(library: &str) -> Option<Self> {
        let Some(all) = std::env::var_os("SBT_MPI") else {
            skipped("needs the MPIs that `cargo xtask test` prepares", library);
            return None;
        };
        let all = Path::new(&all);
        let folder = all.join(library);
        let text = |path: PathBuf| -> &'static str {
            Box::leak(path.to_string_lossy().into_owned().into_boxed_str())
        };
        let launcher = folder.join("bin/mpiexec").to_string_lossy().into_owned();
        let (compiler, flags, options): (_, Vec<&'static str>, &[&str]) = match library {
            "mpich" => (text(folder.join("bin/mpicc")), Vec::new(), &[]),
            "openmpi" => {
                let options = &["--allow-run-as-root", "--oversubscribe"];
                (text(folder.join("bin/mpicc")), Vec::new(), options)
            }
            // Programs for MPICH also run with Intel's library, which has no headers here.
            _ => {
                let headers = format!("-I{}", all.join("mpich/include").display());
                let folders = format!("-Wl,-rpath,{}", folder.join("lib").display());
                let flags = vec![
                    text(headers.into()),
                    text(folder.join("lib/libmpi.so.12")),
                    text(folders.into()),
                ];
                ("gcc", flags, &["-genv", "I_MPI_FABRICS", "shm"])
            }
        };
        let options = options.iter().map(|option| (*option).to_owned());
        Some(Self {
            compiler,
            flags: Box::leak(flags.into_boxed_slice()),
            start: std::iter::once(launcher).chain(options).collect(),
            python: Some(folder.join("bin/python")),
        })
    }

    pub fn build(&self, file: &'static str) -> PathBuf {
        Build::of(file)
            .compiler(self.compiler)
            .flags(self.flags)
            .path()
    }

    /// Watches four ranks of a program. Returns what the program has printed, and the report.
    fn watch(&self, options: &[&str], program: &[&str]) -> (String, Report) {
        self.watch_ranks("4", options, program)
    }

    fn watch_ranks(&self, ranks: &str, options: &[&str], program: &[&str]) -> (String, Report) {
        let mut words: Vec<&str> = self.start.iter().map(String::as_str).collect();
        words.extend(["-n", ranks]);
        words.extend(program);
        let (finished, report) = watch_with(options, Path::new(words[0]), &words[1..]);
        let printed = String::from_utf8_lossy(&finished.stdout).into_owned();
        finished.expect(0);
        (printed, report)
    }
}

/// What a program has noted of its meetings at one place.
#[derive(Debug, Default)]
struct Noted {
    /// How many ranks its largest communicator has.
    ranks: u64,
    /// How often each rank came last.
    last: [u64; RANKS],
}

/// What the program `mpi_made.c` has printed, by place.
fn noted(printed: &str) -> BTreeMap<String, Noted> {
    let mut all = BTreeMap::<String, Noted>::new();
    for line in printed.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default().to_owned();
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        let [_, ranks, last @ ..] = &numbers[..] else {
            continue;
        };
        let noted = all.entry(name).or_default();
        noted.ranks = *ranks;
        for (sum, times) in noted.last.iter_mut().zip(last) {
            *sum += times;
        }
    }
    all
}

/// The lines of `mpi_made.c` at which ranks meet, by name.
fn lines() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(source("mpi_made.c")).unwrap();
    let names = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let (_, name) = line.split_once("// SITE ")?;
        Some((name.to_owned(), number))
    });
    names.collect()
}

/// How many participants the barriers of a site have.
fn participants(report: &Report, site: &Value) -> Vec<Option<u64>> {
    let numbers = site["barriers"].as_array().unwrap();
    let barriers = report.list("barriers").iter();
    barriers
        .filter(|barrier| numbers.contains(&barrier["id"]))
        .map(|barrier| barrier["participants"].as_u64())
        .collect()
}

/// Compares what the program has noted with what sbt has seen.
pub fn is_as_noted(printed: &str, report: &Report) {
    let noted = noted(printed);
    let names: Vec<&str> = noted.keys().map(String::as_str).collect();
    names_are_as_noted(printed, report, &names);
}

/// For each of these names, what was not seen as a whole is called incomplete.
pub fn nothing_is_left_out(printed: &str, report: &Report, names: &[&str]) {
    let (noted, lines) = (noted(printed), lines());
    for name in names {
        let site = report.site_at(u32::try_from(lines[*name]).unwrap());
        let meetings: u64 = noted[*name].last.iter().sum();
        let [whole, rest] = ["episodes", "incomplete"].map(|field| number(site, field));
        assert!(whole <= meetings, "{name}: {report}");
        assert_eq!(whole == meetings, rest == 0, "{name}: {report}");
    }
}

/// As [`is_as_noted`], for some of the names.
pub fn names_are_as_noted(printed: &str, report: &Report, names: &[&str]) {
    let noted = noted(printed);
    let lines = lines();
    assert_eq!(noted.len(), lines.len(), "{printed}");
    for name in names {
        let noted = &noted[*name];
        let line = u32::try_from(lines[*name]).unwrap();
        let site = report.site_at(line);
        let meetings: u64 = noted.last.iter().sum();
        assert_eq!(site["kind"], "mpi", "{name}: {report}");
        assert_eq!(number(site, "episodes"), meetings, "{name}: {report}");
        assert_eq!(number(site, "incomplete"), 0, "{name}: {report}");
        let most = participants(report, site).into_iter().max().flatten();
        assert_eq!(most, Some(noted.ranks), "{name}: {report}");
        // Two ranks that come at the same moment may have come in another order by the clock that the
        // program reads before it calls.
        let straggler = &site["straggler"];
        let thread = number(straggler, "thread");
        let threads = report.threads().iter();
        let mut label = threads.filter(|one| one["id"] == thread);
        let label = label.next().and_then(|one| one["label"].as_str()).unwrap();
        let rank: usize = label.split_once('.').unwrap().0.parse().unwrap();
        let share = straggler["share_pct"].as_f64().unwrap() / 100.0;
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let (meetings, last) = (meetings as f64, noted.last[rank] as f64);
        let difference = (share * meetings - last).abs();
        assert!(
            difference <= meetings / 4.0,
            "{name}: rank {rank} last {last} times: {report}"
        );
    }
}

/// Watches the program that makes communicators in all ways.
fn makes_all(mpi: &Mpi) {
    makes_all_with(mpi, &[]);
}

fn makes_all_with(mpi: &Mpi, options: &[&str]) {
    let program = mpi.build("mpi_made.c");
    let (printed, report) = mpi.watch(options, &[program.to_str().unwrap()]);
    is_as_noted(&printed, &report);
}

#[test]
fn communicators_of_mpich_4() {
    needs_root!();
    makes_all(&Mpi::mpich());
}

#[test]
fn communicators_of_mpich_4_by_breakpoints() {
    needs_root!(breakpoints);
    makes_all_with(&Mpi::mpich(), &["--backend=ptrace"]);
}

#[test]
fn communicators_of_open_mpi_4() {
    needs_root!();
    makes_all(&Mpi::open_mpi_4());
}

/// Open MPI 4 has them in memory in a form that sbt can read, if they are not freed soon.
#[test]
fn communicators_of_open_mpi_4_that_functions_of_other_kinds_make() {
    needs_root!();
    let mpi = Mpi::open_mpi_4();
    let program = mpi.build("mpi_merged.c");
    let (_, report) = mpi.watch(&[], &[program.to_str().unwrap()]);
    let site = report.site_at(line("mpi_merged.c", "SITE merged"));
    assert_eq!(number(site, "episodes"), 50, "{report}");
    assert_eq!(report.number("incomplete_episodes"), 0, "{report}");
    assert_eq!(participants(&report, site), [Some(4)], "{report}");
}

#[test]
fn communicators_of_mpich_5() {
    needs_root!();
    if let Some(mpi) = Mpi::prepared("mpich") {
        makes_all(&mpi);
    }
}

#[test]
fn communicators_of_the_standard_binary_interface() {
    needs_root!();
    if let Some(mut mpi) = Mpi::prepared("mpich") {
        mpi.compiler = Box::leak(format!("{}_abi", mpi.compiler).into_boxed_str());
        makes_all(&mpi);
    }
}

#[test]
fn communicators_of_open_mpi_5() {
    needs_root!();
    if let Some(mpi) = Mpi::prepared("openmpi") {
        makes_all(&mpi);
    }
}

#[test]
fn communicators_of_intel_mpi() {
    needs_root!();
    if let Some(mpi) = Mpi::prepared("impi-rt") {
        makes_all(&mpi);
    }
}

/// 50 rounds of all ranks, of both halves, and of a copy of each.
fn is_of_halves(report: &Report) {
    report.is_exactly(4 * 3 * 50, 5 * 50);
    let mut sizes: Vec<_> = report
        .list("barriers")
        .iter()
        .map(|barrier| (number(barrier, "participants"), number(barrier, "episodes")))
        .collect();
    sizes.sort_unstable();
    let halves = [(2, 50); 4];
    assert_eq!(sizes, [&halves[..], &[(4, 50)]].concat(), "{report}");
}

#[test]
fn communicators_of_fortran_and_mpich() {
    needs_root!();
    let program = Build::of("mpi_halves.f90").compiler("mpifort.mpich").path();
    let (_, report) = Mpi::mpich().watch(&[], &[program.to_str().unwrap()]);
    is_of_halves(&report);
}

/// Python loads MPI's library when the script asks for it.
#[test]
fn communicators_of_python() {
    needs_root!();
    let script = source("mpi_python.py");
    for library in ["mpich", "openmpi", "impi-rt"] {
        let Some(mpi) = Mpi::prepared(library) else {
            return;
        };
        let python = mpi.python.clone().unwrap();
        let words = [&python, &script].map(|path| path.to_str().unwrap());
        let (_, report) = mpi.watch(&[], &words);
        is_of_halves(&report);
    }
}

/// Attaches to the ranks of the program that makes communicators in all ways, after some were made.
fn attached(mpi: &Mpi) -> Report {
    let program = mpi.build("mpi_made.c");
    let words: Vec<&str> = mpi.start[1..].iter().map(String::as_str).collect();
    let mut launcher = command(Path::new(&mpi.start[0]), &words);
    launcher.args(["-n", "4"]).arg(program).arg("pause=3");
    let ranks = start(launcher);
    eventually(LIMIT, || ranks.out().contains("ready").then_some(())).expect("ready");
    attach(ranks.pid(), &["--children"]).report()
}

#[test]
fn communicators_of_open_mpi_4_that_were_made_before_attaching_are_known() {
    needs_root!();
    let report = attached(&Mpi::open_mpi_4());
    let mut seen = 0;
    for line in lines().values() {
        let mut sites = report.sites().iter();
        if let Some(site) = sites.find(|site| site["line"] == *line) {
            seen += number(site, "episodes");
            let counts = participants(&report, site);
            assert!(counts.iter().all(Option::is_some), "{report}");
        }
    }
    assert!(seen > 0, "{report}");
}

/// An sbt that attaches does not know which communicators were made before.
#[test]
fn communicators_that_were_made_before_attaching_are_unknown() {
    needs_root!();
    let report = attached(&Mpi::mpich());
    let known = ["world", "self"];
    let lines = lines();
    let mut unknown = 0;
    for (name, line) in &lines {
        let mut sites = report.sites().iter();
        let Some(site) = sites.find(|site| site["line"] == *line) else {
            continue;
        };
        let counts = participants(&report, site);
        if known.contains(&name.as_str()) {
            assert!(counts.iter().all(Option::is_some), "{name}: {report}");
            continue;
        }
        unknown += 1;
        assert_eq!(number(site, "episodes"), 0, "{name}: {report}");
        assert!(number(site, "incomplete") > 0, "{name}: {report}");
        assert!(counts.iter().all(Option::is_none), "{name}: {report}");
    }
    assert!(unknown > 0, "{report}");
    assert!(report.is_noted("were on communicators that"), "{report}");
}

/// One rank works for 3 ms before each message, while the other one spins for it.
#[test]
fn ranks_that_spin_for_one_that_sends_late() {
    needs_root!(alone);
    for mpi in [Mpi::open_mpi_4(), Mpi::mpich()] {
        let program = mpi.build("mpi_root.c");
        for (how, call) in [("bcast", "MPI_Bcast"), ("recv", "MPI_Recv")] {
            let words = [program.to_str().unwrap(), how];
            let (_, report) = mpi.watch_ranks("2", &[], &words);
            let mut verdicts = report.list("verdicts").iter();
            let verdict = verdicts.find(|verdict| verdict["kind"] == "waits-for-ranks");
            let text = verdict.and_then(|verdict| verdict["text"].as_str());
            let text = text.unwrap_or_else(|| panic!("{report}"));
            let line = line("mpi_root.c", &format!("SITE {how}"));
            let place = format!("in {call} at main mpi_root.c:{line} threads wait");
            assert!(text.contains(&place), "{place}: {report}");
        }
    }
}

/// Where not all ranks wait for each other, or nobody knows which ranks do, episodes of single ranks
/// would say nothing.
#[test]
fn other_functions_of_mpi_are_refused_as_barriers() {
    needs_root!();
    let mpi = Mpi::mpich();
    let mut command = sbt_with(&["run", "--barrier=MPI_Bcast", "--", &mpi.start[0], "-n", "2"]);
    command.arg(mpi.build("mpi_made.c"));
    let finished = run(command).expect(125);
    let refused = "cannot probe MPI_Bcast: it is a function of MPI";
    assert!(finished.stderr.contains(refused), "{finished}");
}
