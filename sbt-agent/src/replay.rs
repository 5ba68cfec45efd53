//! Replays a recording in the live screen: events enter a model at the recording's own pace, and
//! the screen shows this model like that of a running program.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::{
    sync::{mpsc::unbounded_channel, watch},
    time::{Instant, sleep_until},
};

use crate::{
    output,
    record::{ReadError, Replay, Rest},
    screen::{Handle, Look, Screen},
    session::observer::Observer,
    signals::Signals,
    terminal::stop_ourselves,
};
use sbt_engine::{
    live::{
        Play, Playing, Replaying, Request, Snapshot,
        pace::{Pace, Speed},
    },
    place::{Place, printable},
    report::{Facts, Run},
    words::without_codes,
};
use sbt_program::clock;

/// Minimum time between two snapshots.
const PERIOD: Duration = Duration::from_millis(100);
/// Interval of checking whether the terminal is available again.
const CALM: Duration = Duration::from_secs(1);
/// Snapshots may take at most 1/`SPARED` of the time.
const SPARED: u32 = 4;
/// Number of rows to read before handling keys again; takes a few milliseconds.
const SLICE: usize = 10_000;

/// Replays a recording until the user leaves. `look` describes the terminal; `None` if there is no
/// terminal.
///
/// # Errors
/// There is no terminal, or the file is no recording that can be replayed; see [`ReadError`].
pub fn show(path: &Path, speed: Speed, look: Option<Look>) -> anyhow::Result<()> {
    let player = Player::open(path, speed)?;
    let shown = printable(&path.to_string_lossy());
    let look = look.with_context(|| {
        format!("there is no terminal for the live screen; `sbt report {shown}` writes the report")
    })?;
    let signals = Signals::block(false, true).context("cannot set up the handling of signals")?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the event loop")?
        .block_on(player.run(look, signals))
}

/// The state of a replay.
struct Player {
    path: PathBuf,
    replay: Replay,
    observer: Observer,
    pace: Pace,
    /// Length of the recording, ns; `None` while unknown.
    length_ns: Option<u64>,
    /// Time that is shown, ns since the start of the recording.
    shown_ns: u64,
    /// Number of episodes at which the replay pauses again; `None` unless stepping.
    step: Option<u64>,
    is_over: bool,
}

/// The next step of the player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Read on.
    Read,
    /// Wait until the next event is due.
    Wait,
    /// Wait for a request from the user.
    Stand,
}

impl Player {
    fn open(path: &Path, speed: Speed) -> anyhow::Result<Self> {
        let mut replay = Replay::open(path)?;
        replay.model.keep_lanes();
        let start_ns = replay.start_ns();
        let last_ns = replay.last_ns(path);
        let mut this = Self {
            path: path.to_owned(),
            observer: Observer::of_recording(start_ns),
            replay,
            pace: Pace::new(speed, clock::now_ns()),
            length_ns: last_ns.map(|last_ns| last_ns.saturating_sub(start_ns)),
            shown_ns: 0,
            step: None,
            is_over: false,
        };
        // Reads the header, and checks that the recording has events.
        this.read_until(0)?;
        ensure!(
            !this.has_only_statistics(),
            "{} has statistics only, and no events to replay; `sbt report` shows the statistics",
            printable(&path.to_string_lossy())
        );
        Ok(this)
    }

    fn has_only_statistics(&self) -> bool {
        self.replay.summary().is_some() && self.replay.facts.run.pid == 0
    }

    /// Reads the events that are due, for a limited time.
    fn read(&mut self) -> anyhow::Result<Next> {
        if self.is_over {
            return Ok(Next::Stand);
        }
        if let Some(episodes) = self.step {
            return self.read_step(episodes);
        }
        if self.pace.is_paused() {
            return Ok(Next::Stand);
        }
        let wanted_ns = self.pace.at_ns(clock::now_ns());
        match self.read_until(wanted_ns)? {
            Rest::Later => {
                self.shown_ns = wanted_ns.max(self.shown_ns);
                Ok(Next::Wait)
            }
            Rest::More => {
                self.shown_ns = self.read_ns();
                // Reading may be slower than the pace: the clock restarts from what was read.
                self.pace.stand_at(self.shown_ns, clock::now_ns());
                Ok(Next::Read)
            }
            Rest::None => Ok(Next::Stand),
        }
    }

    /// Reads until the model has this many episodes.
    fn read_step(&mut self, episodes: u64) -> anyhow::Result<Next> {
        for _ in 0..SLICE {
            if self.replay.model.totals().episodes >= episodes {
                self.step = None;
                self.stand_at(self.read_ns());
                return Ok(Next::Stand);
            }
            let read = self.replay.advance(u64::MAX, 1);
            if self.take(read)? == Rest::None {
                return Ok(Next::Stand);
            }
        }
        self.stand_at(self.read_ns());
        Ok(Next::Read)
    }

    fn read_until(&mut self, wanted_ns: u64) -> anyhow::Result<Rest> {
        let time_ns = self.replay.start_ns().saturating_add(wanted_ns);
        let read = self.replay.advance(time_ns, SLICE);
        self.take(read)
    }

    /// Processes the result of reading. At the end of the recording, open episodes are settled.
    fn take(&mut self, read: Result<Rest, ReadError>) -> anyhow::Result<Rest> {
        let stopped = match read {
            Ok(Rest::None) => None,
            Ok(rest) => return Ok(rest),
            Err(error) => Some(error),
        };
        let notes = self.replay.facts.notes.len();
        self.replay.finish(stopped)?;
        if let Some(note) = self.replay.facts.notes.get(notes) {
            self.observer.notice(note.clone());
        }
        self.is_over = true;
        self.step = None;
        let end_ns = self.read_ns();
        self.length_ns = Some(end_ns);
        self.stand_at(end_ns);
        Ok(Rest::None)
    }

    /// Time of the latest event read, ns since the start of the recording.
    const fn read_ns(&self) -> u64 {
        self.replay.at_ns().saturating_sub(self.replay.start_ns())
    }

    fn stand_at(&mut self, at_ns: u64) {
        self.shown_ns = at_ns;
        self.pace.stand_at(at_ns, clock::now_ns());
    }

    /// Carries out a request that concerns the recording.
    fn play(&mut self, play: Play) {
        let (shown_ns, now_ns) = (self.shown_ns, clock::now_ns());
        let was_stepping = self.step.take().is_some();
        match play {
            Play::Begin => self.begin_again(),
            _ if self.is_over => {
                let text = "this is the end; Home begins again";
                self.observer.notice(text.into());
            }
            // Stops on the way to an episode that does not come.
            Play::Toggle if was_stepping => {}
            Play::Toggle => self.pace.toggle(shown_ns, now_ns),
            Play::Step if self.pace.is_paused() => {
                self.step = Some(self.replay.model.totals().episodes + 1);
            }
            Play::Step => {
                let text = "pause with Space first; then . goes one episode further";
                self.observer.notice(text.into());
            }
            Play::Faster => self.pace.faster(shown_ns, now_ns),
            Play::Slower => self.pace.slower(shown_ns, now_ns),
            Play::End => self.pace.hurry(),
        }
    }

    /// Opens the file again and starts from its beginning.
    fn begin_again(&mut self) {
        match Self::open(&self.path, self.pace.speed()) {
            Ok(again) => {
                self.observer.begin_again();
                self.pace.begin_again(clock::now_ns());
                if self.is_over {
                    self.pace.go_on(clock::now_ns());
                }
                self.replay = again.replay;
                self.length_ns = again.length_ns;
                self.is_over = again.is_over;
                self.shown_ns = 0;
            }
            Err(error) => (self.observer).notice(without_codes(&format!("{error:#}"))),
        }
    }

    /// Facts about the run besides the model, at the time that is shown.
    fn facts(&self) -> Facts {
        let facts = self.replay.facts.clone();
        if self.is_over {
            return facts;
        }
        let now_ns = self.replay.start_ns().saturating_add(self.shown_ns);
        Facts {
            run: Run {
                wall_ns: now_ns.saturating_sub(facts.run.start_ns),
                ended: false,
                exit_status: None,
                ..facts.run
            },
            ..facts
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let now_ns = self.replay.start_ns().saturating_add(self.shown_ns);
        self.observer.heard_ns = now_ns;
        let model = &self.replay.model;
        self.observer.count(now_ns, model);
        let facts = self.facts();
        let report = self.replay.told(facts.clone());
        let places: Vec<&Place> = self.replay.places().iter().map(AsRef::as_ref).collect();
        let present = self.replay.present();
        let snapshot = self.observer.snapshot(
            now_ns,
            model,
            present,
            &places,
            (report, &facts.counters),
            None,
        );
        Snapshot {
            replay: Some(Replaying {
                at_ns: self.shown_ns,
                of_ns: self.length_ns,
                speed: self.pace.speed(),
                motion: if self.is_over {
                    Playing::AtEnd
                } else if self.pace.is_paused() {
                    Playing::Paused
                } else {
                    Playing::On
                },
            }),
            ..snapshot
        }
    }

    fn save(&mut self) {
        let report = self.replay.told(self.facts());
        let saved = output::save(&report, report.run.pid);
        self.observer.notice(match saved {
            Ok(path) => format!("saved in {}", path.display()),
            Err(error) => format!("not saved: {}", without_codes(&format!("{error:#}"))),
        });
    }

    async fn run(mut self, look: Look, mut signals: Signals) -> anyhow::Result<()> {
        let (latest, receiver) = watch::channel(Arc::new(self.snapshot()));
        let (sender, mut requests) = unbounded_channel();
        let handle = Screen::spawn(look, receiver, sender)
            .context("cannot open the live screen; `sbt report` works without a screen")?;
        let mut is_away = false;
        let mut has_news = true;
        let mut due = Instant::now();
        loop {
            if is_away && output::has_terminal() {
                is_away = false;
                // The recording does not advance while the screen is suspended.
                self.stand_at(self.shown_ns);
                handle.resume();
            }
            let before = (self.is_over, self.shown_ns);
            let next = if is_away { Next::Stand } else { self.read()? };
            has_news |= next != Next::Stand || before != (self.is_over, self.shown_ns);
            if has_news && !is_away && Instant::now() >= due {
                let taken = Instant::now();
                let _screen_is_gone = latest.send(Arc::new(self.snapshot()));
                due = taken + PERIOD.max(taken.elapsed() * SPARED);
                has_news = false;
            }
            let wakes = match next {
                // After continuing in the background: check again whether sbt is in the foreground.
                _ if is_away => Some(Instant::now() + CALM),
                Next::Read => Some(Instant::now()),
                Next::Wait => Some(due),
                Next::Stand => has_news.then_some(due),
            };
            tokio::select! {
                biased;
                heard = signals.next() => {
                    let heard = heard.context("waiting for signals")?;
                    if heard.stops() {
                        is_away = suspend(&handle);
                    } else if heard.ends() {
                        break;
                    }
                }
                request = requests.recv() => {
                    // A closed channel means that the terminal is gone.
                    match request.unwrap_or(Request::Leave) {
                        Request::Leave | Request::Interrupt => break,
                        Request::Suspend => is_away = suspend(&handle),
                        Request::Save => self.save(),
                        Request::Zoom { closer } => self.observer.zoom(closer),
                        Request::Play(play) => self.play(play),
                        // In a replay nobody can carry out these requests.
                        Request::Toggle
                        | Request::Reset
                        | Request::Offer
                        | Request::Count(_)
                        | Request::Name { .. }
                        | Request::Keys(_)
                        | Request::Size(..) => continue,
                    }
                    // Draw at once, so that the answer does not seem late.
                    (has_news, due) = (true, Instant::now());
                }
                () = until(wakes) => {}
            }
        }
        handle.close();
        Ok(())
    }
}

/// Stops this process like the shell's job control, until it is continued. Returns `true`: the
/// terminal counts as unavailable afterwards.
fn suspend(handle: &Handle) -> bool {
    handle.suspend();
    stop_ourselves();
    true
}

async fn until(wakes: Option<Instant>) {
    match wakes {
        Some(wakes) => sleep_until(wakes).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        Keep,
        tests::{Ending, Written},
    };

    const S: u64 = 1_000_000_000;

    fn player(written: &Written) -> Player {
        let mut player = Player::open(&written.path(), Speed::Real).unwrap();
        player.play(Play::Toggle);
        player
    }

    /// Reads until the player stands.
    fn settle(player: &mut Player) {
        while player.read().unwrap() != Next::Stand {}
    }

    fn motion(player: &mut Player) -> Playing {
        player.snapshot().replay.unwrap().motion
    }

    #[test]
    fn one_episode_after_the_other() {
        let written = Written::run(2 * S, None, Ending::Orderly);
        let mut player = player(&written);
        let mut moments = Vec::new();
        for episodes in 1..=100 {
            player.play(Play::Step);
            settle(&mut player);
            let snapshot = player.snapshot();
            assert_eq!(snapshot.report.episodes, episodes);
            let replay = snapshot.replay.unwrap();
            assert_eq!(replay.motion, Playing::Paused);
            moments.push(replay.at_ns);
            assert_eq!(snapshot.now_ns, replay.at_ns);
        }
        assert!(moments.is_sorted_by(|before, after| before < after));
        // There are no more episodes: stepping leads to the end.
        player.play(Play::Step);
        settle(&mut player);
        assert_eq!(motion(&mut player), Playing::AtEnd);
    }

    #[test]
    fn at_the_end_stands_what_was_reported() {
        let written = Written::run(2 * S, None, Ending::Orderly);
        let mut player = player(&written);
        assert_eq!(motion(&mut player), Playing::Paused);
        player.play(Play::End);
        settle(&mut player);
        let snapshot = player.snapshot();
        let shown = serde_json::to_string_pretty(&snapshot.report).unwrap();
        assert_eq!(shown, written.live);
        let replay = snapshot.replay.unwrap();
        assert_eq!(replay.motion, Playing::AtEnd);
        assert_eq!((replay.at_ns, replay.of_ns), (5 * S, Some(5 * S)));
        // The replay stays at the end for all these requests.
        for play in [Play::Toggle, Play::Step, Play::Faster, Play::End] {
            player.play(play);
            assert_eq!(player.read().unwrap(), Next::Stand);
            assert_eq!(motion(&mut player), Playing::AtEnd);
            let (_, notice) = player.snapshot().notice.unwrap();
            assert!(notice.contains("this is the end"), "{notice}");
        }
        // The replay begins again, and goes on from there.
        player.play(Play::Begin);
        let snapshot = player.snapshot();
        assert_eq!(snapshot.report.episodes, 0);
        assert_eq!(snapshot.replay.unwrap().motion, Playing::On);
        player.play(Play::Step);
        let (_, notice) = player.snapshot().notice.unwrap();
        assert!(notice.contains("pause with Space first"), "{notice}");
        player.play(Play::Toggle);
        let before = player.snapshot().report.episodes;
        player.play(Play::Step);
        settle(&mut player);
        assert_eq!(player.snapshot().report.episodes, before + 1);
    }

    #[test]
    fn what_stops_a_step_is_the_next_key() {
        let written = Written::run(S, None, Ending::Orderly);
        let mut player = player(&written);
        player.play(Play::Step);
        player.play(Play::Toggle);
        assert_eq!(player.read().unwrap(), Next::Stand);
        assert_eq!(motion(&mut player), Playing::Paused);
        assert_eq!(player.snapshot().report.episodes, 0);
    }

    #[test]
    fn a_file_that_breaks_off_is_shown_as_far_as_it_goes() {
        let written = Written::run(3 * S, None, Ending::Killed);
        let mut player = player(&written);
        player.play(Play::End);
        settle(&mut player);
        let snapshot = player.snapshot();
        let note = "the recording has no end";
        let (_, notice) = snapshot.notice.unwrap();
        assert!(notice.contains(note), "{notice}");
        assert!(snapshot.report.notes.last().unwrap().contains(note));
        assert!(snapshot.report.episodes > 100);
        // The length of the recording is not known otherwise.
        assert!(snapshot.replay.unwrap().of_ns > Some(2 * S));
    }

    #[test]
    fn of_statistics_alone_there_is_nothing_to_replay() {
        let written = Written::run(S, Some(Keep::Statistics), Ending::Orderly);
        let error = Player::open(&written.path(), Speed::Real).err().unwrap();
        let error = error.to_string();
        assert!(
            error.contains("`sbt report` shows the statistics"),
            "{error}"
        );
        let kept = Keep::Events(Duration::from_secs(2));
        let written = Written::run(10 * S, Some(kept), Ending::Orderly);
        let mut player = player(&written);
        player.play(Play::End);
        settle(&mut player);
        let report = player.snapshot().report;
        assert!((100..300).contains(&report.episodes), "{}", report.episodes);
    }
}
