//! Pictures of the live screen, docs/screen/*.svg: the real binary in a
//! terminal of our own, with the built-in demo programs, its keys pressed as a
//! user would. What a document shows is then what the program does.

mod svg;
mod tty;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use vt100::Screen;

use crate::machine;
use crate::process;
use crate::workspace::Workspace;
use tty::Tty;

/// Options of `cargo xtask pictures`.
#[derive(clap::Args)]
pub struct Args {
    /// Only the pictures of this run; `cargo xtask pictures --only list` names them
    #[arg(long)]
    only: Option<String>,
}

/// A run of sbt of which pictures are taken.
struct Run {
    name: &'static str,
    /// Columns and rows.
    size: (u16, u16),
    arguments: &'static str,
    /// Variable and value.
    environment: Option<(&'static str, &'static str)>,
    play: fn(&mut Stage) -> Result<()>,
}

/// Threads that differ in their work, the last of which has the most.
const WATER: &str = "demo water --scale 40";
/// Long enough to fill a page, not too large for one.
const SIZE: (u16, u16) = (100, 30);

const RUNS: [Run; 7] = [
    Run {
        name: "tabs",
        size: SIZE,
        arguments: "demo water --scale 40 --watch reduce_forces",
        environment: None,
        play: tabs,
    },
    Run {
        name: "gap",
        size: SIZE,
        arguments: WATER,
        environment: None,
        play: gap,
    },
    Run {
        name: "output",
        size: (100, 15),
        arguments: WATER,
        environment: None,
        play: output,
    },
    Run {
        name: "small",
        size: (60, 15),
        arguments: WATER,
        environment: None,
        play: |stage| stage.barriers("small", "The first tab, 60 columns and 15 rows"),
    },
    Run {
        name: "no-color",
        size: (80, 24),
        arguments: WATER,
        environment: Some(("NO_COLOR", "1")),
        play: |stage| stage.barriers("no-color", "The first tab without colours"),
    },
    Run {
        name: "ascii",
        size: (80, 24),
        arguments: WATER,
        environment: Some(("LC_ALL", "C")),
        play: |stage| stage.barriers("ascii", "The first tab in ASCII"),
    },
    Run {
        name: "hang",
        size: (100, 24),
        arguments: "demo deadlock",
        environment: None,
        play: hang,
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
        anyhow::bail!("there are: {}", names.join(", "));
    }
    let workspace = Workspace::locate()?;
    let sbt = machine::release_build(&workspace)?;
    let folder = workspace.root.join("docs/screen");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for run in wanted {
        let mut stage = Stage {
            tty: Tty::start(&mut command(&sbt, &workspace, run), run.size)?,
            folder: folder.clone(),
        };
        (run.play)(&mut stage).with_context(|| format!("the run {}", run.name))?;
    }
    Ok(())
}

fn command(sbt: &Path, workspace: &Workspace, run: &Run) -> Command {
    let mut command = process::command(sbt);
    command
        .args(run.arguments.split(' '))
        // Where no sbt.toml is in the way.
        .current_dir(&workspace.target)
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8");
    for name in ["LC_ALL", "LC_CTYPE", "NO_COLOR", "COLORTERM"] {
        command.env_remove(name);
    }
    command.envs(run.environment);
    command
}

/// A run under way.
struct Stage {
    tty: Tty,
    folder: PathBuf,
}

impl Stage {
    fn press(&mut self, keys: &str) -> Result<()> {
        self.tty.press(keys)
    }

    /// Waits for a text to be on the screen.
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

    /// The first tab, when there is something to tell.
    fn barriers(&mut self, name: &str, title: &str) -> Result<()> {
        let screen = self.tty.wait_for("steady state", is_steady)?;
        self.save(name, title, &screen)
    }
}

/// Bytes of a picture.
const MOST: usize = 60_000;

/// Seconds after which the figures are no longer those of the start.
const STEADY: u32 = 8;

/// Whether the run is old enough, and its lanes in sight are all known.
fn is_steady(screen: &Screen) -> bool {
    seconds(screen).is_some_and(|seconds| seconds >= STEADY) && lanes_are_lively(screen)
}

/// The seconds of the clock `00:12.4` in the first row.
fn seconds(screen: &Screen) -> Option<u32> {
    let contents = screen.contents();
    contents.lines().next()?.split([' ', '|']).find_map(|word| {
        let (minutes, rest) = word.split_once(':')?;
        let (seconds, _) = rest.split_once('.')?;
        Some(60 * minutes.parse::<u32>().ok()? + seconds.parse::<u32>().ok()?)
    })
}

/// Columns of the longest name of a thread, with the blanks around it.
const NAME: usize = " T1 water-1 ".len();

/// Whether it is a moment at which something can be seen: of every lane in
/// sight what it did is known, and that it worked; and one waited.
fn lanes_are_lively(screen: &Screen) -> bool {
    let contents = screen.contents();
    let is_lane = |line: &&str| line.starts_with(" T");
    let lanes: Vec<&str> = contents
        .lines()
        .skip_while(|line| !is_lane(line))
        .take_while(|line| !line.starts_with(['─', '-']))
        .filter(is_lane)
        .collect();
    let has = |lane: &str, glyphs: [&str; 2], times| {
        glyphs
            .iter()
            .any(|glyph| lane.matches(glyph).count() >= times)
    };
    let works = |lane: &&str| {
        let pieces: String = lane.chars().skip(NAME).collect();
        has(lane, ["█", "#"], 4) && !pieces.contains("    ")
    };
    lanes.len() >= 2
        && lanes.iter().all(works)
        && lanes.iter().any(|lane| has(lane, ["░", "."], 16))
}

/// One run through all tabs.
fn tabs(stage: &mut Stage) -> Result<()> {
    stage.barriers("barriers", "The tab Barriers")?;
    stage.press("\r")?;
    let screen = stage.see("who comes last")?;
    stage.save("site", "One site closer", &screen)?;
    stage.press("\x1b")?;
    stage.see("Enter details")?;
    stage.press("2")?;
    let screen = stage.see("over the whole run")?;
    stage.save("threads", "The tab Threads", &screen)?;
    stage.press("3")?;
    let screen = stage.tty.wait_for("timeline", |screen| {
        screen.contents().contains("as it happens") && lanes_are_lively(screen)
    })?;
    stage.save("timeline", "The tab Timeline", &screen)?;
    stage.press("4")?;
    let screen = stage.see("the most time first")?;
    stage.save("phases", "The tab Phases", &screen)?;
    stage.press("6")?;
    let screen = stage.see("reduce_forces water.rs:176, episode")?;
    stage.save("log", "The tab Log", &screen)?;
    stage.press("7")?;
    let screen = stage.see("as without sbt")?;
    stage.save("help", "The tab Help", &screen)
}

/// Probes off for a while.
fn gap(stage: &mut Stage) -> Result<()> {
    stage.press("3")?;
    // Longer pieces: the gap and what is around it fit into the window.
    stage.see("as it happens")?;
    stage.press("--")?;
    stage.see("67 ms a character")?;
    stage
        .tty
        .wait_for("some time", |screen| seconds(screen) >= Some(5))?;
    stage.press(" ")?;
    stage.see("not watching for 2")?;
    stage.press(" ")?;
    let screen = stage.tty.wait_for("time behind the gap", |screen| {
        seconds(screen) >= Some(10) && screen.contents().contains("////")
    })?;
    stage.save("gap", "The tab Timeline with a gap", &screen)
}

/// What the program writes, and its keyboard.
fn output(stage: &mut Stage) -> Result<()> {
    stage.press("5")?;
    stage.see("time steps")?;
    stage
        .tty
        .wait_for("some time", |screen| seconds(screen) >= Some(3))?;
    // Its terminal echoes what it is typed.
    stage.press("i")?;
    stage.see("HAS THE KEYBOARD")?;
    stage.press("go on\r")?;
    let screen = stage.see("go on")?;
    stage.save(
        "output",
        "The tab Output, with the keyboard given to the program",
        &screen,
    )
}

/// A program that does not go on.
fn hang(stage: &mut Stage) -> Result<()> {
    let screen = stage.see("no episode for 3")?;
    stage.save("hang", "A program that hangs", &screen)
}
