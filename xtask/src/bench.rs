//! Measures what sbt costs, as ratios within one run, and writes `bench/RESULTS.md`.
//!
//! Timings drift on shared machines. So everything is measured in pairs, with and without sbt in
//! turn, and the median of the pairs' ratios counts.

mod backends;
mod counters;
pub mod figures;
mod large;
mod look;
mod peers;
mod recording;
mod sampling;
mod screen;
mod sections;
mod series;
mod slowdown;
mod states;
mod thinned;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::builder::PossibleValuesParser;
use serde::Deserialize;

use crate::machine;
use crate::process;
use crate::workspace::Workspace;
use figures::{median, pairs, percent, percents};
use series::Bench;
use slowdown::Cost;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Pairs of runs; the bars ask for at least 7
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Size of the demo programs; without it, so that each runs for 10 s
    #[arg(long)]
    scale: Option<f64>,
    /// Without the demo programs and the peers: a minute instead of many
    #[arg(long)]
    quick: bool,
    /// Without the peers, of which the former figures stay
    #[arg(long)]
    no_peers: bool,
    /// A binary that was built before, instead of a release build
    #[arg(long, value_name = "FILE")]
    sbt: Option<PathBuf>,
    /// Only this part, printed instead of written
    #[arg(long, value_name = "NAME", conflicts_with_all = ["quick", "no_peers"],
          value_parser = PossibleValuesParser::new(PARTS.map(|(name, _)| name)))]
    only: Option<String>,
    /// With --only: write the section into bench/RESULTS.md all the same
    #[arg(long, requires = "only")]
    write: bool,
}

/// Measures a part and writes its section. Returns a line for each bar that was missed.
type Part = fn(&Bench, &mut String) -> Result<Vec<String>>;

/// The parts that can be measured alone.
const PARTS: [(&str, Part); 11] = [
    ("start", slowdown::start_up),
    ("own", screen::share),
    ("large", large::programs),
    ("look", look::stops),
    ("states", states::levels),
    ("sampling", sampling::cost),
    ("counters", counters::cost),
    ("recording", recording::cost),
    ("backends", backends::rungs),
    ("thinned", thinned::compare),
    (PEERS, peers::compare),
];

/// The part that comes last and takes longest.
const PEERS: &str = "peers";

#[derive(Deserialize)]
struct ProbePair {
    call: f64,
    empty: f64,
    arrival: f64,
    empty_pair: f64,
    both: f64,
}

#[derive(Deserialize)]
struct Engine {
    threads: u32,
    sites: u32,
    ns_per_event: f64,
    million_per_second: f64,
    rss_mib: f64,
}

/// Measures everything, or one part, and writes the results.
///
/// # Errors
/// If something cannot be measured, or a bar was missed.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let sbt = match &args.sbt {
        Some(file) => std::path::absolute(file)?,
        None => machine::release_build(&workspace)?,
    };
    let path = workspace.root.join("bench/RESULTS.md");
    let former = fs::read_to_string(&path).or_else(|_| header())?;
    let bench = Bench {
        workspace,
        sbt,
        pairs: args.pairs,
    };
    let (text, missed) = match &args.only {
        Some(only) => {
            let mut out = String::new();
            let missed = parts(&bench, |name| name == only, &mut out)?;
            if !args.write {
                print!("{out}");
            }
            (sections::put_each(&former, &out), missed)
        }
        None => all(args, &bench, &former)?,
    };
    if args.only.is_none() || args.write {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote bench/RESULTS.md");
    }
    ensure!(
        missed.is_empty(),
        "bars were missed:\n{}",
        missed.join("\n")
    );
    Ok(())
}

/// Measures the parts with these names.
fn parts(bench: &Bench, is_meant: impl Fn(&str) -> bool, out: &mut String) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    for (_, part) in PARTS.iter().filter(|(name, _)| is_meant(name)) {
        missed.extend(part(bench, out)?);
    }
    Ok(missed)
}

/// Measures everything. `former`: the results before.
fn all(args: &Args, bench: &Bench, former: &str) -> Result<(String, Vec<String>)> {
    let mut out = header()?;
    let cost = probes(&bench.workspace, bench.pairs.max(7), &mut out)?;
    engine(&bench.workspace, &mut out)?;
    memory(&bench.workspace, &mut out)?;
    let mut missed = parts(bench, |name| name != PEERS, &mut out)?;
    if !args.quick {
        slowdown::demos(bench, args.scale, cost, &mut out)?;
    }
    if !args.quick && !args.no_peers {
        missed.extend(peers::compare(bench, &mut out)?);
    } else if let Some(section) = sections::find(former, peers::HEADING) {
        out = sections::put(&out, peers::HEADING, section);
    }
    Ok((out, missed))
}

fn header() -> Result<String> {
    Ok(format!(
        "# What sbt costs\n\n\
         Written by `cargo xtask bench`. Every figure is a ratio of two measurements taken in turns \
         within one run; absolute times only show the size of things.\n\n\
         {}\n",
        machine::line()?
    ))
}

fn bench(workspace: &Workspace, name: &str, arguments: &[String]) -> Result<String> {
    eprintln!("measuring: {name}");
    process::read(
        process::command(process::cargo())
            .args([
                "bench",
                "--quiet",
                "--package",
                "sbt-agent",
                "--bench",
                name,
                "--",
            ])
            .args(arguments)
            .current_dir(&workspace.root)
            .env("CARGO_TARGET_DIR", &workspace.target),
    )
}

fn lines<T: for<'a> Deserialize<'a>>(text: &str) -> Vec<T> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn probes(workspace: &Workspace, count: usize, out: &mut String) -> Result<Cost> {
    let text = bench(workspace, "probes", &[count.to_string()])?;
    let rows: Vec<ProbePair> = lines(&text);
    let of = |f: &dyn Fn(&ProbePair) -> f64| -> Vec<f64> { rows.iter().map(f).collect() };
    let arrival = of(&|row| row.arrival / row.empty);
    let both = of(&|row| row.both / row.empty_pair);
    writeln!(
        out,
        "\n## One watched call\n\n\
         A program passes a barrier of one in a loop ({:.0} ns a call without probes). U: an empty \
         program at the same place, {:.0} ns here; with a return probe {:.0} ns.\n\n\
         | | bar | median | pairs |\n|---|---|---|---|\n\
         | arrival / empty uprobe | ≤ 1.35 | **{:.2}** | {} |\n\
         | arrival + departure / empty uprobe + empty uretprobe | ≤ 1.30 | **{:.2}** | {} |",
        median(&of(&|row| row.call)),
        median(&of(&|row| row.empty)),
        median(&of(&|row| row.empty_pair)),
        median(&arrival),
        pairs(&arrival),
        median(&both),
        pairs(&both),
    )?;
    system_calls(&lines(&text), out)?;
    let arrival = median(&of(&|row| row.arrival));
    Ok(Cost {
        arrival,
        departure: median(&of(&|row| row.both)) - arrival,
    })
}

/// Times of a system call with and without the tracepoints of futexes, ns.
#[derive(Deserialize)]
struct SystemCallPair {
    system_call: String,
    of_target: bool,
    plain: f64,
    watched: f64,
}

/// Writes what `--futex on` costs.
fn system_calls(rows: &[SystemCallPair], out: &mut String) -> Result<()> {
    writeln!(
        out,
        "\n## System calls while those of futexes are watched\n\n\
         `--futex` is for every process of the machine. A futex that nobody waits on is woken.\n\n\
         | | without, ns | with / without | pairs |\n|---|---|---|---|"
    )?;
    for (call, of_target, what) in [
        ("futex", true, "`futex` of the target"),
        ("getppid", true, "`getppid` of the target"),
        ("getppid", false, "`getppid` of another process"),
    ] {
        let mine = || {
            let is_it =
                |row: &&SystemCallPair| row.system_call == call && row.of_target == of_target;
            rows.iter().filter(is_it)
        };
        let plain: Vec<f64> = mine().map(|row| row.plain).collect();
        let ratios: Vec<f64> = mine().map(|row| row.watched / row.plain).collect();
        writeln!(
            out,
            "| {what} | {:.0} | **{:.2}** | {} |",
            median(&plain),
            median(&ratios),
            pairs(&ratios)
        )?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Memory {
    events: u64,
    rss_mib: f64,
}

/// Threads, sites and millions of events for which the memory is reported.
const MEMORY: [(u32, u32, u32); 2] = [(8, 64, 100), (256, 64, 100)];

/// Writes how much memory the model uses as a run goes on.
fn memory(workspace: &Workspace, out: &mut String) -> Result<()> {
    writeln!(
        out,
        "\n## Memory of the model\n\n\
         Resident memory of the same, after the first million of events and at the end. Bars: at \
         most 1.1 × as much at the end, and 64 MiB for 256 threads at 64 sites.\n\n\
         | threads | sites | after 10⁶ events, MiB | after 10⁸ events, MiB | ratio |\n\
         |---|---|---|---|---|"
    )?;
    for (threads, sites, millions) in MEMORY {
        let numbers = [threads, sites, millions].map(|number| number.to_string());
        let mut arguments = vec!["memory".to_owned()];
        arguments.extend(numbers);
        let text = bench(workspace, "engine", &arguments)?;
        let rows: Vec<Memory> = lines(&text);
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            bail!("the engine did not tell its memory: {text:?}");
        };
        ensure!(last.events >= u64::from(millions) * 1_000_000);
        writeln!(
            out,
            "| {threads} | {sites} | {:.1} | {:.1} | **{:.2}** |",
            first.rss_mib,
            last.rss_mib,
            last.rss_mib / first.rss_mib
        )?;
    }
    Ok(())
}

fn engine(workspace: &Workspace, out: &mut String) -> Result<()> {
    let text = bench(workspace, "engine", &[])?;
    let rows: Vec<Engine> = lines(&text);
    writeln!(
        out,
        "\n## From the ring to the model\n\n\
         Records decoded and taken into the model on one core; bar: ≥ 1 million events a second, \
         and a cost that does not grow with threads or sites.\n\n\
         | threads | sites | ns an event | million events/s | memory MiB |\n|---|---|---|---|---|"
    )?;
    for row in rows {
        writeln!(
            out,
            "| {} | {} | {:.0} | **{:.1}** | {:.1} |",
            row.threads, row.sites, row.ns_per_event, row.million_per_second, row.rss_mib
        )?;
    }
    Ok(())
}

/// Writes a line of a table: subject, bar, median, pairs.
fn row(out: &mut String, what: &str, bar: &str, ratios: &[f64]) -> Result<()> {
    writeln!(
        out,
        "| {what} | {bar} | **{}** | {} |",
        percent(median(ratios)),
        percents(ratios)
    )?;
    Ok(())
}
