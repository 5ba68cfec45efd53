//! Makes the pictures of the live screen, docs/screen/*.svg: runs the real binary with the built-in
//! demo programs in a terminal of our own, and presses its keys as a user would. So the documents
//! show what the program does.

mod scenes;
mod shapes;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use vt100::Screen;

use crate::idle::Moment;
use crate::machine;
use crate::process;
use crate::tty::Tty;
use crate::workspace::Workspace;

/// Options of `cargo xtask pictures`.
#[derive(clap::Args)]
pub struct Args {
    /// Only the pictures of this run; `cargo xtask pictures --only list` names them
    #[arg(long)]
    only: Option<String>,
    /// A binary that was built before, instead of a release build
    #[arg(long, value_name = "FILE")]
    sbt: Option<PathBuf>,
    /// Take pictures also while others use the CPUs; without it they are waited for
    #[arg(long)]
    busy: bool,
}

/// A run of sbt in which pictures are taken.
struct Run {
    name: &'static str,
    /// Columns and rows of the terminal.
    size: (u16, u16),
    arguments: &'static str,
    /// An environment variable and its value.
    environment: Option<(&'static str, &'static str)>,
    play: fn(&mut Stage) -> Result<()>,
}

/// Threads with different amounts of work; the last thread has the most.
const WATER: &str = "demo water --scale 40";
/// Columns and rows: enough to fill a page without being too large.
const SIZE: (u16, u16) = (100, 30);

const RUNS: [Run; 8] = [
    Run {
        name: "tabs",
        size: SIZE,
        arguments: "demo water --scale 40 --watch reduce_forces",
        environment: None,
        play: scenes::tabs,
    },
    Run {
        name: "counters",
        size: (80, 24),
        arguments: "run -e page-faults,context-switches -- ./faults rounds=100000",
        environment: None,
        play: scenes::counters,
    },
    Run {
        name: "gap",
        size: SIZE,
        arguments: WATER,
        environment: None,
        play: scenes::gap,
    },
    Run {
        name: "output",
        size: (100, 15),
        arguments: WATER,
        environment: None,
        play: scenes::output,
    },
    Run {
        name: "small",
        size: (60, 15),
        arguments: WATER,
        environment: None,
        play: |stage| scenes::barriers(stage, "small", "The first tab, 60 columns and 15 rows"),
    },
    Run {
        name: "no-color",
        size: (80, 24),
        arguments: WATER,
        environment: Some(("NO_COLOR", "1")),
        play: |stage| scenes::barriers(stage, "no-color", "The first tab without colours"),
    },
    Run {
        name: "ascii",
        size: (80, 24),
        arguments: WATER,
        environment: Some(("LC_ALL", "C")),
        play: |stage| scenes::barriers(stage, "ascii", "The first tab in ASCII"),
    },
    Run {
        name: "hang",
        size: (100, 24),
        arguments: "demo deadlock",
        environment: None,
        play: scenes::hang,
    },
];

/// Takes all pictures.
pub fn run(args: &Args) -> Result<()> {
    let wanted: Vec<&Run> = RUNS
        .iter()
        .filter(|run| args.only.as_ref().is_none_or(|only| only == run.name))
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
        bail!("there are: {}", names.join(", "));
    }
    let workspace = Workspace::locate()?;
    let sbt = match &args.sbt {
        Some(file) => std::path::absolute(file)?,
        None => machine::release_build(&workspace)?,
    };
    let folder = workspace.root.join("docs/screen");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let faults = workspace.target.join("faults");
    let mut compiler = process::command("cc");
    compiler.args(["-O1", "-g", "-pthread", "-o"]).arg(&faults);
    process::run(compiler.arg(workspace.root.join("tests/programs/faults.c")))?;
    for run in wanted {
        if !args.busy {
            wait_for_quiet()?;
        }
        let mut stage = Stage {
            tty: Tty::start(&mut command(&sbt, &workspace, run), run.size)?,
            folder: folder.clone(),
        };
        (run.play)(&mut stage).with_context(|| format!("the run {}", run.name))?;
    }
    Ok(())
}

/// Fraction of the CPUs that other programs may use when a run begins, since the pictures should
/// not show threads that wait for them.
const OTHERS: f64 = 0.1;
/// Looks at the use of the CPUs, at most.
const ATTEMPTS: u32 = 300;

fn wait_for_quiet() -> Result<()> {
    for attempt in 0..ATTEMPTS {
        let begin = Moment::now()?;
        thread::sleep(Duration::from_secs(1));
        if begin.others_since()? < OTHERS {
            return Ok(());
        }
        if attempt == 0 {
            eprintln!("waiting until others no longer use the CPUs");
        }
    }
    bail!("others use the CPUs: stop them, or say --busy")
}

fn command(sbt: &Path, workspace: &Workspace, run: &Run) -> Command {
    let mut command = process::command(sbt);
    command
        .args(run.arguments.split(' '))
        // A folder without a sbt.toml.
        .current_dir(&workspace.target)
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8");
    for name in ["LC_ALL", "LC_CTYPE", "NO_COLOR", "COLORTERM"] {
        command.env_remove(name);
    }
    command.envs(run.environment);
    command
}

/// A run in progress.
struct Stage {
    tty: Tty,
    folder: PathBuf,
}

impl Stage {
    fn press(&mut self, keys: &str) -> Result<()> {
        self.tty.press(keys)
    }

    /// Waits until a text is on the screen.
    fn see(&mut self, text: &str) -> Result<Screen> {
        self.tty
            .wait_for(text, |screen| screen.contents().contains(text))
    }

    fn save(&self, name: &str, title: &str, screen: &Screen) -> Result<()> {
        let path = self.folder.join(format!("{name}.svg"));
        let picture = svg::draw(screen, title);
        ensure!(
            picture.len() < MOST,
            "{name} is too large: {}",
            picture.len()
        );
        fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("wrote docs/screen/{name}.svg");
        Ok(())
    }
}

/// Size of a picture, at most, bytes.
const MOST: usize = 60_000;
