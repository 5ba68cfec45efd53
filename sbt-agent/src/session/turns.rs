//! The main loop of a session: waits for events, signals, timers and the screen, and handles each.

use std::{io::Write as _, time::Duration};

use anyhow::Context as _;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::{
    Ending, Session, reporting::delivery::Delivery, requests::Then, understanding::sampling,
    view::Turn,
};
use crate::{control::Asked, screen, signals::Heard, source::Batch};
use sbt_engine::{live::Request, place::printable, report::Report, words::without_codes};
use sbt_program::clock;

/// The interval between two decisions about departures, budget, futexes and hangs.
const TICK: Duration = Duration::from_millis(250);

/// The interval between two checks for far too high costs while the run is young.
const EARLY_TICK: Duration = Duration::from_millis(25);

/// The time to wait for a program that was told to end before the report is written without its
/// end.
const GRACE: Duration = Duration::from_secs(1);

/// The times at which the loop has something to do by itself.
struct Timers {
    /// The end of watching, if the user has limited the time.
    deadline: Option<Instant>,
    samples: Interval,
    early: Interval,
    ticks: Interval,
}

/// The next thing that the loop has to handle.
enum Next {
    Batch(Batch),
    /// The source has stopped and handed over all events.
    Over,
    /// The target has ended.
    Ended,
    Heard(Heard),
    Deadline,
    View(Turn),
    /// A script asks for something.
    Asked(Asked),
    Sample,
    /// A span of a thinned run is over.
    Thin,
    EarlyTick,
    Tick,
}

/// How long sbt waits silently for the program once watching has ended.
const UNTOLD: Duration = Duration::from_secs(3);

/// How watching ends.
#[derive(Default)]
struct End {
    /// Why watching ends; `None` as long as it goes on.
    why: Option<Ending>,
    /// A signal told sbt to end.
    told: bool,
    /// The user has left the screen.
    left: bool,
    /// No more events come.
    over: bool,
}

impl Session {
    pub(super) async fn run(
        mut self,
        deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<u8>> {
        self.set_start();
        let duration = self.settings.duration;
        let mut timers = Timers {
            deadline: None,
            samples: ticks(sampling::PERIOD),
            early: ticks(EARLY_TICK),
            ticks: ticks(TICK),
        };
        let mut end = End::default();
        while !end.over {
            if timers.deadline.is_none() && !self.is_before_window() {
                timers.deadline = duration.map(|duration| Instant::now() + duration);
            }
            let next = self.next(&mut timers, end.why).await?;
            self.handle(next, &mut end).await?;
        }
        self.conclude(end, deliver).await
    }

    async fn handle(&mut self, next: Next, end: &mut End) -> anyhow::Result<()> {
        match next {
            Next::Batch(batch) => {
                // The model needs the samples before it learns of later events.
                self.understanding.sample();
                self.take(&batch);
                if self.heed_window() {
                    self.end_as_asked(end);
                }
            }
            Next::Over => {
                end.over = true;
                if self.lose_source() {
                    end.why = Some(Ending::Lost);
                }
            }
            Next::Ended => {
                end.why = Some(Ending::Target);
                // Stop first: what the process leaves behind in /proc is gone once the process is
                // reaped.
                self.stop();
                self.program.reap()?;
            }
            Next::Heard(heard) if heard.stops() && self.view.is_open() => {
                self.obey(Request::Suspend).await?;
            }
            Next::Heard(heard) => {
                self.hear(heard);
                if heard.ends() {
                    end.told = true;
                    self.end_as_asked(end);
                }
            }
            Next::Deadline => self.end_as_asked(end),
            Next::View(Turn::Due) => self.show(),
            Next::View(Turn::Handled) => {}
            Next::View(Turn::Asked(request)) => {
                if self.obey(request).await? == Then::End {
                    end.left = true;
                    self.end_as_asked(end);
                }
            }
            Next::Asked(asked) => self.carry_out(asked).await,
            Next::Sample => self.understanding.sample(),
            Next::Thin => {
                let notes = self.reporting.notes();
                self.watch.thin_next(&mut self.understanding, notes);
            }
            Next::EarlyTick => {
                let notes = self.reporting.notes();
                self.watch.look_at_budget(&mut self.understanding, notes);
                // A short run has few ticks.
                self.watch.count_cpus();
            }
            Next::Tick => {
                self.restart_if_quiet();
                self.tick();
            }
        }
        Ok(())
    }

    /// Waits for something to do. `ending`: why watching ends, if it does.
    async fn next(&mut self, timers: &mut Timers, ending: Option<Ending>) -> anyhow::Result<Next> {
        let thin_due_ns = self.watch.thin_due_ns();
        Ok(tokio::select! {
            batch = self.batches.recv() => batch.map_or(Next::Over, Next::Batch),
            result = self.program.ended(), if ending != Some(Ending::Target) => {
                result.context("waiting for the program")?;
                Next::Ended
            }
            heard = self.signals.next() => Next::Heard(heard.context("waiting for signals")?),
            () = until(timers.deadline), if ending.is_none() => Next::Deadline,
            turn = self.view.turn() => Next::View(turn?),
            asked = self.control.next() => Next::Asked(asked),
            _ = timers.samples.tick(), if self.understanding.is_sampling() => Next::Sample,
            () = until_ns(thin_due_ns) => Next::Thin,
            _ = timers.early.tick(), if self.watch.is_young() => Next::EarlyTick,
            _ = timers.ticks.tick() => Next::Tick,
        })
    }

    /// Ends watching because the time is up, or the user or a signal asks for that.
    fn end_as_asked(&mut self, end: &mut End) {
        end.why = end.why.or(Some(Ending::Asked));
        self.stop();
    }

    /// The source hands over no more events. Returns whether the source ended by itself, not
    /// because it was stopped.
    fn lose_source(&mut self) -> bool {
        let Some(line) = self.watch.lost_source() else {
            return false;
        };
        self.tell(&format!("sbt: {line}\n"));
        self.reporting.notes().push(line);
        self.stop();
        true
    }

    /// Runs after the probes are off: writes the report and waits for the program.
    async fn conclude(
        mut self,
        end: End,
        deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<u8>> {
        let End {
            why: ending,
            told: mut told_to_end,
            left,
            over: _,
        } = end;
        self.control.close();
        // The screen stays open until the user leaves it.
        let stays = ending == Some(Ending::Target) && !left && !told_to_end;
        let stays = stays && self.view.is_open() && !self.settings.exit_with_program;
        let off = self.watch.note_of_off();
        self.reporting.notes().extend(off);
        if !stays {
            self.leave_screen()?;
        }
        let report = self.last_report(ending, told_to_end).await?;
        if stays {
            told_to_end |= self.stay(&report).await?;
            self.leave_screen()?;
        }
        let delivered = self.deliver(&report, told_to_end, deliver).await?;
        let delivered = delivered.and_then(|()| {
            let is_lost = ending == Some(Ending::Lost);
            anyhow::ensure!(!is_lost, "watching ended before the program did");
            Ok(())
        });
        if !left && !told_to_end {
            self.wait(Some(Instant::now() + UNTOLD)).await?;
        }
        if self.program.is_running() && !told_to_end && !self.program.is_interrupted() {
            self.tell(&format!(
                "sbt: watching has ended, and the program goes on (pid {}); sbt waits for its end, \
                 and Ctrl-C interrupts it\n",
                report.run.pid
            ));
        }
        // Watching may end before the program does: sbt's exit status is the program's.
        self.wait(None).await?;
        self.view.finish().await?;
        if let Some(recording) = self.reporting.take_recording()
            && let Some(line) = recording.leave(&mut self.signals).await
        {
            self.tell(&line);
        }
        match (delivered, self.program.exit_status()) {
            // The caller must learn that the program failed, whatever else failed.
            (Err(error), Some(status)) if status != 0 => {
                let text = without_codes(&format!("{error:#}"));
                self.tell(&format!("sbt: {}\n", printable(&text)));
                Ok(Some(status))
            }
            (delivered, status) => delivered.map(|()| status),
        }
    }

    /// Waits for the source to stop, and makes the report.
    async fn last_report(
        &mut self,
        ending: Option<Ending>,
        told_to_end: bool,
    ) -> anyhow::Result<Report> {
        let totals = match self.watch.stopped().await {
            Ok(totals) => totals,
            Err(error) => {
                self.leave_screen()?;
                return Err(error);
            }
        };
        let lost = totals.lost > 0 || self.understanding.totals().lost > 0;
        let started = self.program.is_started();
        self.watch.settle_end(lost, started, self.reporting.notes());
        self.drop_uncounted();
        if told_to_end || self.program.is_interrupted() {
            self.wait(Some(Instant::now() + GRACE)).await?;
        }
        self.program.end_the_rest(self.reporting.notes()).await;
        let mut report = self.report(totals, ending == Some(Ending::Target));
        report.notes.extend(self.reporting.recording_notes().await);
        Ok(report)
    }

    /// Writes the report and the folded stacks. The inner result is an error of writing: that is no
    /// reason to leave the program alone or to skip the other files.
    async fn deliver(
        &mut self,
        report: &Report,
        told_to_end: bool,
        deliver: impl FnOnce(&Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<anyhow::Result<()>> {
        let told_to_end = told_to_end || self.program.is_interrupted();
        let delivery = self.delivery(told_to_end).context("hearing signals")?;
        let ended = self.program.exit_status().is_some();
        let delivered = self
            .view
            .aside(ended, || delivery.write(|| deliver(report)))
            .await;
        let delivery = self.delivery(told_to_end).context("hearing signals")?;
        let stacks = delivery.write(|| self.write_folded());
        Ok(delivered.and(stacks))
    }

    /// Prepares to handle signals while a report is written. `told_to_end`: a signal has already
    /// told sbt to end.
    fn delivery(&mut self, told_to_end: bool) -> std::io::Result<Delivery> {
        let running = self.program.running();
        Delivery::new(
            self.signals.ear()?,
            running.map(|running| &*running),
            told_to_end,
        )
    }

    /// Writes the folded stacks if the user asked for them.
    fn write_folded(&self) -> anyhow::Result<()> {
        match (self.reporting.folded(), &self.settings.folded) {
            (Some(file), Some(path)) => self.understanding.write_folded(file, path),
            _ => Ok(()),
        }
    }

    /// Closes the screen: from here on the program uses the real terminal.
    pub(super) fn leave_screen(&mut self) -> anyhow::Result<()> {
        if let Some(lines) = self.view.close() {
            self.program.say_screen(false);
            for line in lines {
                let _gone = writeln!(std::io::stderr(), "{line}");
            }
        }
        self.view.join(self.program.running())
    }

    /// Passes a signal to the program as if sbt were not there: signals from the terminal reach the
    /// program directly, and sbt forwards signals that were sent to sbt alone. A second interrupt
    /// ends sbt at once.
    pub(super) fn hear(&mut self, heard: Heard) {
        if heard.stops() {
            return self.view.stop_ourselves();
        }
        if heard.is_interrupt() && self.program.interrupt() {
            // `exit` runs no destructors.
            screen::restore();
            self.program.say_screen(false);
            self.view.abandon();
            std::process::exit(130);
        }
        self.program.pass_on(heard);
        if heard.ends() {
            self.understanding.expect_end(clock::now_ns());
        }
    }

    /// Waits for the program's end, or until `deadline`.
    async fn wait(&mut self, deadline: Option<Instant>) -> anyhow::Result<()> {
        while self.program.is_running() {
            tokio::select! {
                result = self.program.ended() => {
                    result.context("waiting for the program")?;
                    self.program.reap()?;
                }
                heard = self.signals.next() => self.hear(heard.context("waiting for signals")?),
                result = self.view.relay() => result?,
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
