//! The scenes of each run: presses keys as a user would, and takes pictures when the screen shows
//! what they are about.

use anyhow::Result;
use vt100::Screen;

use super::Stage;

/// The first tab, in steady state.
pub fn barriers(stage: &mut Stage, name: &str, title: &str) -> Result<()> {
    let screen = stage.tty.wait_for("steady state", is_steady)?;
    stage.save(name, title, &screen)
}

/// The first tab of a program that mostly sleeps, in steady state.
pub fn counters(stage: &mut Stage) -> Result<()> {
    let is_old = |screen: &Screen| seconds(screen).is_some_and(|seconds| seconds >= STEADY);
    let screen = stage.tty.wait_for("steady state", is_old)?;
    let title = "Counters: one thread touches new pages in one phase";
    stage.save("counters", title, &screen)
}

/// Seconds after which the figures are no longer dominated by the start.
const STEADY: u32 = 8;

/// Whether the run is old enough and all lanes in sight are completely known.
fn is_steady(screen: &Screen) -> bool {
    seconds(screen).is_some_and(|seconds| seconds >= STEADY) && lanes_are_lively(screen)
}

/// The seconds of the clock in the first row, such as `00:12.4`.
fn seconds(screen: &Screen) -> Option<u32> {
    let contents = screen.contents();
    contents.lines().next()?.split([' ', '|']).find_map(|word| {
        let (minutes, rest) = word.split_once(':')?;
        let (seconds, _) = rest.split_once('.')?;
        Some(60 * minutes.parse::<u32>().ok()? + seconds.parse::<u32>().ok()?)
    })
}

/// Columns of the longest thread name with the blanks around it.
const NAME: usize = " T1 water-1 ".len();

/// Whether the lanes show something: each lane in sight is completely known and shows work, and one
/// shows waiting.
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

/// All tabs in one run.
pub fn tabs(stage: &mut Stage) -> Result<()> {
    barriers(stage, "barriers", "The tab Barriers")?;
    stage.press("\r")?;
    let screen = stage.see("who comes last")?;
    stage.save("site", "One site closer", &screen)?;
    stage.press("\x1b")?;
    stage.see("Enter details")?;
    stage.press("2")?;
    let screen = stage.see("where their time went")?;
    stage.save("threads", "The tab Threads", &screen)?;
    stage.press("3")?;
    let screen = stage.tty.wait_for("timeline", |screen| {
        screen.contents().contains("as it happens") && lanes_are_lively(screen)
    })?;
    stage.save("timeline", "The tab Timeline", &screen)?;
    stage.press("4")?;
    let screen = stage.see("longest total time first")?;
    stage.save("phases", "The tab Phases", &screen)?;
    stage.press("6")?;
    let screen = stage.see("reduce_forces water.rs:176 from water.rs:110, episode")?;
    stage.save("log", "The tab Log", &screen)?;
    stage.press("8")?;
    let screen = stage.see("on average")?;
    stage.save("parallelism", "The tab Parallelism", &screen)?;
    stage.press("9")?;
    let screen = stage.see("if work were balanced")?;
    stage.save("path", "The tab Path", &screen)?;
    stage.press("0")?;
    let screen = stage.see("as without sbt")?;
    stage.save("help", "The tab Help", &screen)
}

/// Probes that are off for a while.
pub fn gap(stage: &mut Stage) -> Result<()> {
    stage.press("3")?;
    // With longer pieces, the gap and its surroundings fit into the window.
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

/// The program's output and its keyboard.
pub fn output(stage: &mut Stage) -> Result<()> {
    stage.press("5")?;
    stage.see("time steps")?;
    stage
        .tty
        .wait_for("some time", |screen| seconds(screen) >= Some(3))?;
    // The terminal echoes the typed text.
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

/// A program that hangs.
pub fn hang(stage: &mut Stage) -> Result<()> {
    stage.see("HANG for 3")?;
    stage.press("!")?;
    let screen = stage.see("all others")?;
    stage.save("hang", "A program that hangs, and who is missing", &screen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(rows: &[&str]) -> Screen {
        let mut parser = vt100::Parser::new(10, 40, 0);
        parser.process(rows.join("\r\n").as_bytes());
        parser.screen().clone()
    }

    #[test]
    fn the_clock_is_read() {
        let at = |row| seconds(&screen(&[row]));
        assert_eq!(at(" ▶ moving  a:b · 01:02.9 · 3 episodes"), Some(62));
        assert_eq!(at(" > moving  a | 00:08.1 | lost 0"), Some(8));
        assert_eq!(at(" ◌ no episode yet"), None);
    }

    #[test]
    fn a_moment_without_holes_is_waited_for() {
        let idle = " T0 sbt     █████░░░░░░░░░░░░░░░░░  80 %";
        let work = " T1 water-1 █▒█▒█▒█▒██████████████   0 %";
        let hole = " T1 water-1 █▒█▒█▒█▒     █████████   0 %";
        assert!(lanes_are_lively(&screen(&[
            "",
            idle,
            "",
            work,
            "── sites",
            " T2 x  1"
        ])));
        assert!(!lanes_are_lively(&screen(&[idle, hole])));
        assert!(!lanes_are_lively(&screen(&[work, work])), "nobody waits");
        assert!(!lanes_are_lively(&screen(&[idle])));
    }
}
