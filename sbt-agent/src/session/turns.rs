//! The main loop of a session: waits for events, signals, timers and the screen, and handles each.

use std::{io::Write as _, time::Duration};

use anyhow::Context as _;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::{
    Ending, Session, sampling,
    view::{Then, Turn, View},
};
use crate::signals::Heard;
use crate::{
    screen,
    source::Totals,
    terminal::{Ends, Relay, Terminal, stop_ourselves},
};
use sbt_engine::{live::Request, place::printable, report::Report, words::without_codes};
use sbt_program::clock;

/// The interval between two decisions about departures, budget, futexes and hangs.
const TICK: Duration = Duration::from_millis(250);

/// The interval between two checks for far too high costs while the run is young.
const EARLY_TICK: Duration = Duration::from_millis(25);

/// The time to wait for a program that was told to end before the report is written without its
/// end.
const GRACE: Duration = Duration::from_secs(1);

impl Session {
    pub(super) async fn run(
        mut self,
        deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<u8>> {
        let deadline = self
            .settings
            .duration
            .map(|duration| Instant::now() + duration);
        let mut ending: Option<Ending> = None;
        let mut told_to_end = false;
        let mut left = false;
        let mut samples = ticks(sampling::PERIOD);
        let mut early = ticks(EARLY_TICK);
        let mut ticks = ticks(TICK);
        loop {
            tokio::select! {
                batch = self.batches.recv() => {
                    let Some(batch) = batch else {
                        // The source has stopped and handed over all events.
                        if self.lose_source() {
                            ending = Some(Ending::Lost);
                        }
                        break;
                    };
                    // The model needs the samples before it learns of later events.
                    self.sample();
                    self.take(&batch);
                }
                result = self.pidfd.readable(), if ending != Some(Ending::Target) => {
                    drop(result.context("waiting for the program")?);
                    ending = Some(Ending::Target);
                    // Stop first: what the process leaves behind in /proc is gone once the process
                    // is reaped.
                    self.stop();
                    self.reap()?;
                }
                heard = self.signals.next() => {
                    let heard = heard.context("waiting for signals")?;
                    if heard.stops() && self.view.is_some() {
                        self.obey(Request::Suspend).await?;
                        continue;
                    }
                    self.hear(heard);
                    if heard.ends() {
                        told_to_end = true;
                        ending = ending.or(Some(Ending::Asked));
                        self.stop();
                    }
                }
                () = until(deadline), if ending.is_none() => {
                    ending = Some(Ending::Asked);
                    self.stop();
                }
                turn = View::turn(&mut self.view) => match turn {
                    Turn::Due => self.show(),
                    Turn::Asked(request) => if self.obey(request).await? == Then::End {
                        left = true;
                        ending = ending.or(Some(Ending::Asked));
                        self.stop();
                    },
                },
                result = Terminal::turn_of(&mut self.terminal) => {
                    if result.context("reading the program's output")? {
                        View::has_news(&mut self.view);
                    }
                }
                // Runs only if the screen could not be opened.
                result = Relay::turn_of(&mut self.relay) => {
                    result.context("passing on what the program writes")?;
                }
                _ = samples.tick(), if self.sampling.is_some() => self.sample(),
                () = until_ns(self.budget.due_ns()), if self.source.is_some() && !self.is_off() => {
                    self.thin_next();
                }
                _ = early.tick(), if self.budget.is_young(clock::now_ns()) => {
                    self.look_at_budget();
                }
                _ = ticks.tick() => {
                    self.recognise();
                    self.keep_to_budget();
                    self.govern();
                    self.count_cpus();
                    self.notice_stops();
                    if self.first_ends {
                        self.notice_first();
                    }
                    self.govern_futexes();
                    self.look_for_hangs();
                    self.end_what_hangs();
                    // Last, so that the recording includes what was found in this tick.
                    self.write_down();
                }
            }
        }
        let stays = ending == Some(Ending::Target) && !left && !told_to_end;
        let stays = stays && self.view.is_some() && !self.settings.exit_with_program;
        self.conclude((ending, told_to_end), stays, deliver).await
    }

    /// The source hands over no more events. Returns whether the source ended by itself, not
    /// because it was stopped.
    fn lose_source(&mut self) -> bool {
        let Some(source) = &self.source else {
            return false;
        };
        let line = source.ended_by_itself();
        self.tell(&format!("sbt: {line}\n"));
        self.notes.push(line.into());
        self.stop();
        true
    }

    /// Runs after the probes are off: writes the report and waits for the program. `ending`: why
    /// watching ended; `told_to_end`: a signal told sbt to end; `stays`: the screen stays open
    /// until the user leaves it.
    async fn conclude(
        mut self,
        (ending, mut told_to_end): (Option<Ending>, bool),
        stays: bool,
        deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<u8>> {
        self.notes.extend(self.note_of_off());
        if !stays {
            self.leave_screen()?;
        }
        let totals = match self.stopped().await {
            Ok(totals) => totals,
            Err(error) => {
                self.leave_screen()?;
                return Err(error);
            }
        };
        self.settle_end(totals.lost > 0 || self.model.totals().lost > 0);
        if told_to_end || self.interrupted {
            self.wait(Some(Instant::now() + GRACE)).await?;
        }
        self.end_the_rest().await;
        let mut report = self.report(totals, ending == Some(Ending::Target));
        report.notes.extend(self.recording_note().await);
        if stays {
            told_to_end |= self.stay(&report).await?;
            self.leave_screen()?;
        }
        // A report that cannot be written is no reason to leave the program alone or to skip the
        // other files.
        let told_to_end = told_to_end || self.interrupted;
        let delivery = self.delivery(told_to_end).context("hearing signals")?;
        let delivered = self.aside(|| delivery.write(|| deliver(&report))).await;
        let delivery = self.delivery(told_to_end).context("hearing signals")?;
        let stacks = delivery.write(|| self.write_folded());
        let delivered = delivered.and(stacks).and_then(|()| {
            let is_lost = ending == Some(Ending::Lost);
            anyhow::ensure!(!is_lost, "watching ended before the program did");
            Ok(())
        });
        // Watching may end before the program does: sbt's exit status is the program's.
        self.wait(None).await?;
        if let Some(relay) = &mut self.relay {
            relay
                .finish()
                .await
                .context("writing the program's output")?;
        }
        self.leave_recording().await;
        match (delivered, self.exit_status) {
            // The caller must learn that the program failed, whatever else failed.
            (Err(error), Some(status)) if status != 0 => {
                let text = without_codes(&format!("{error:#}"));
                self.tell(&format!("sbt: {}\n", printable(&text)));
                Ok(Some(status))
            }
            (delivered, status) => delivered.map(|()| status),
        }
    }

    /// The totals of the stopped source.
    async fn stopped(&mut self) -> anyhow::Result<Totals> {
        match self.stopping.take() {
            Some(stopping) => stopping.await.context("stopping the probes")?,
            // Every path that ends watching stops the source.
            None => anyhow::bail!("the source has not been stopped"),
        }
    }

    /// The note on how long the probes were off at the user's wish.
    fn note_of_off(&self) -> Option<String> {
        let off_ns = self.view.as_ref()?.observer.off_for_ns(self.end_ns);
        let seconds = off_ns as f64 / 1e9;
        (off_ns > 0).then(|| {
            format!(
                "the probes were off for {seconds:.1} s: the user switched \
            them off"
            )
        })
    }

    /// Closes the screen: from here on the program uses the real terminal.
    pub(super) fn leave_screen(&mut self) -> anyhow::Result<()> {
        if let Some(view) = self.view.take() {
            let observer = view.close();
            self.say_screen(false);
            for line in observer.into_told() {
                let _gone = writeln!(std::io::stderr(), "{line}");
            }
        }
        if let Some(terminal) = &mut self.terminal {
            let ended = self.exit_status.is_some();
            if ended {
                terminal.take_rest();
            }
            let running = self.running.as_mut().filter(|_| !ended);
            // If this fails, the program's output is still read: a full terminal would block the
            // program.
            let ends = Ends::open(running).context("joining the terminals")?;
            self.relay = self.terminal.take().map(|terminal| ends.join(terminal));
        }
        Ok(())
    }

    /// Runs `act` on the real terminal, after all output of the program so far.
    pub(super) async fn aside(
        &mut self,
        act: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(relay) = &mut self.relay else {
            return act();
        };
        if self.exit_status.is_some() {
            relay
                .finish()
                .await
                .context("writing the program's output")?;
            return act();
        }
        while !relay.is_up_to_date() {
            relay.turn().await.context("writing the program's output")?;
        }
        relay.aside(act)
    }

    /// Takes the exit status of a program that sbt started.
    pub(super) fn reap(&mut self) -> anyhow::Result<()> {
        if let Some(running) = &self.running {
            self.exit_status = Some(running.wait()?);
        }
        Ok(())
    }

    /// Passes a signal to the program as if sbt were not there: signals from the terminal reach the
    /// program directly, and sbt forwards signals that were sent to sbt alone. A second interrupt
    /// ends sbt at once.
    pub(super) fn hear(&mut self, heard: Heard) {
        if heard.stops() {
            match &mut self.relay {
                Some(relay) => relay.aside(stop_ourselves),
                None => stop_ourselves(),
            }
            return;
        }
        if heard.is_interrupt() && std::mem::replace(&mut self.interrupted, true) {
            // `exit` runs no destructors.
            screen::restore();
            self.say_screen(false);
            self.relay = None;
            std::process::exit(130);
        }
        if let (Some(running), None) = (&self.running, self.exit_status)
            && (!heard.from_terminal || running.is_on_pty())
        {
            running.signal(heard.number);
        }
    }

    /// Waits for the program's end, or until `deadline`.
    pub(super) async fn wait(&mut self, deadline: Option<Instant>) -> anyhow::Result<()> {
        while self.running.is_some() && self.exit_status.is_none() {
            tokio::select! {
                result = self.pidfd.readable() => {
                    drop(result.context("waiting for the program")?);
                    self.reap()?;
                }
                heard = self.signals.next() => self.hear(heard.context("waiting for signals")?),
                result = Relay::turn_of(&mut self.relay) => result.context("passing on what the program writes")?,
                () = until(deadline) => return Ok(()),
            }
        }
        Ok(())
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Sleeps until `time_ns` of the events' clock; forever for `None`.
async fn until_ns(time_ns: Option<u64>) {
    match time_ns {
        Some(time_ns) => {
            let left_ns = time_ns.saturating_sub(clock::now_ns());
            tokio::time::sleep(Duration::from_nanos(left_ns)).await;
        }
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
