//! The process that is watched, as the system sees it: whether sbt started it, its end, signals to
//! it.

use std::{io, os::fd::OwnedFd};

use anyhow::Context as _;
use nix::sys::signal::Signal;
use tokio::io::unix::AsyncFd;

use super::notes::Notes;
use crate::{settings::Settings, signals::Heard};
use sbt_engine::{report::Facts, words::command_line};
use sbt_program::{
    launch::{self, Held, Running},
    process,
};

mod ending;

use ending::End;

/// The program that is watched.
pub struct Program {
    pid: u32,
    command: Vec<String>,
    /// The program if sbt started it.
    running: Option<Running>,
    pidfd: AsyncFd<OwnedFd>,
    exit_status: Option<u8>,
    /// The user has told the program to end.
    interrupted: bool,
    end: End,
}

impl Program {
    /// A process that runs, or is held before its start.
    ///
    /// # Errors
    /// The process has ended.
    pub fn new(pid: u32, command: Vec<String>) -> anyhow::Result<Self> {
        let pidfd =
            launch::pidfd(pid).with_context(|| format!("process {pid} has ended already"))?;
        // SAFETY: the registered `OwnedFd` owns the descriptor, which stays the same.
        let pidfd =
            unsafe { AsyncFd::register(pidfd) }.context("cannot wait for the program's end")?;
        Ok(Self {
            pid,
            command,
            running: None,
            pidfd,
            exit_status: None,
            interrupted: false,
            end: End::default(),
        })
    }

    /// Lets a program go that was held before its start.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn release(&mut self, held: Option<Held>) -> anyhow::Result<()> {
        self.running = held.map(Held::release).transpose()?;
        Ok(())
    }

    /// The process id.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether sbt started the program.
    pub const fn is_started(&self) -> bool {
        self.running.is_some()
    }

    /// The exit status of a program that sbt started; `None` if it has not ended.
    pub const fn exit_status(&self) -> Option<u8> {
        self.exit_status
    }

    /// Whether sbt started the program, and the program has not been reaped.
    pub const fn is_running(&self) -> bool {
        self.running.is_some() && self.exit_status.is_none()
    }

    /// The program that sbt started and has not reaped.
    pub fn running(&mut self) -> Option<&mut Running> {
        self.running.as_mut().filter(|_| self.exit_status.is_none())
    }

    /// Whether the user has told the program to end.
    pub const fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// The user tells the program to end. Returns whether that had happened before.
    pub const fn interrupt(&mut self) -> bool {
        std::mem::replace(&mut self.interrupted, true)
    }

    /// Whether the process has ended, with all its threads.
    pub fn has_ended(&self) -> bool {
        launch::has_ended(self.pidfd.get_ref())
    }

    /// Waits for the end of the process.
    pub async fn ended(&self) -> io::Result<()> {
        self.pidfd.readable().await.map(drop)
    }

    /// Takes the exit status of a program that sbt started.
    ///
    /// # Errors
    /// The exit status cannot be read.
    pub fn reap(&mut self) -> anyhow::Result<()> {
        if let Some(running) = &self.running {
            self.exit_status = Some(running.wait()?);
        }
        Ok(())
    }

    /// Whether a signal has ended the program, by its exit status.
    pub fn was_killed(&self) -> bool {
        const OF_SIGNALS: std::ops::RangeInclusive<i32> = 129..=192;
        let status = self.exit_status.map(i32::from);
        status.is_some_and(|status| OF_SIGNALS.contains(&status))
    }

    /// Processes that wait for the program's end need not wait for sbt.
    pub fn let_others_go(&self) {
        if let Some(running) = &self.running {
            running.release();
        }
    }

    /// Tells the keeper whether there is a screen, so that the keeper can restore the terminal if
    /// sbt is killed.
    pub fn say_screen(&self, on: bool) {
        if let Some(running) = &self.running {
            running.has_screen(on);
        }
    }

    /// Passes on a signal that sbt got: signals from the terminal reach the program directly.
    pub fn pass_on(&self, heard: Heard) {
        if let (Some(running), None) = (&self.running, self.exit_status)
            && (!heard.from_terminal || running.is_on_pty())
        {
            running.signal(heard.number);
        }
    }

    /// Sends a signal to a program that sbt started.
    pub fn signal(&self, signal: Signal) {
        if let Some(running) = &self.running {
            running.signal(signal as i32);
        }
    }

    /// The command line that watches the target in the same way: the part before and the part after
    /// further options.
    pub fn again(&self, settings: &Settings) -> [String; 2] {
        let [mut before, after] = match (&self.running, &self.command[..]) {
            // The process has ended: its id may belong to another process now.
            (None, _) if process::find(self.pid).is_err() => ["sbt attach".into(), "PID".into()],
            (None, _) => ["sbt attach".into(), self.pid.to_string()],
            (_, [sbt, demo, rest @ ..]) if sbt == "sbt" && demo == "demo" => {
                ["sbt demo".into(), command_line(rest)]
            }
            (_, command) => ["sbt run".into(), format!("-- {}", command_line(command))],
        };
        for barrier in &settings.barriers {
            let option = ["--barrier".to_owned(), barrier.to_string()];
            before = format!("{before} {}", command_line(&option));
        }
        [before, after]
    }

    /// Adds what is known of the program to the facts for a report.
    pub fn fill(&self, facts: &mut Facts) {
        facts.run.ended_by_sbt = self.end.was_told();
        facts.run.command.clone_from(&self.command);
        facts.run.ended = self.exit_status.is_some();
        facts.run.exit_status = self.exit_status;
        facts.run.started = Some(self.running.is_some());
    }
}
