//! Ends a program that hangs when [`crate::settings::Settings::end_hangs`] asks for that.

use std::{os::fd::OwnedFd, time::Duration};

use super::{Notes, Program};
use sbt_engine::words::since;
use sbt_program::{clock, launch, process};

/// The time between SIGTERM and SIGKILL, ns.
const GRACE_NS: u64 = 5_000_000_000;

/// The interval between two checks whether all processes have ended.
const PAUSE: Duration = Duration::from_millis(20);

/// The progress of ending a program that hangs.
#[derive(Debug, Default)]
pub struct End {
    /// The time at which SIGTERM was sent, ns.
    told_ns: Option<u64>,
    /// The pidfds of the program and of all its descendants.
    told: Vec<OwnedFd>,
    killed: bool,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wait,
    Tell,
    Kill,
}

impl End {
    /// `hangs`: the program has hung for longer than the limit, and still hangs.
    fn step(&self, now_ns: u64, hangs: bool) -> Step {
        match self.told_ns {
            None if hangs => Step::Tell,
            Some(told_ns) if !self.killed && now_ns.saturating_sub(told_ns) >= GRACE_NS => {
                Step::Kill
            }
            _ => Step::Wait,
        }
    }

    /// Whether the program was told to end.
    pub const fn was_told(&self) -> bool {
        self.told_ns.is_some()
    }

    fn all_have_ended(&self) -> bool {
        self.told.iter().all(launch::has_ended)
    }

    fn send(&self, signal: i32) {
        for fd in &self.told {
            launch::signal_pidfd(fd, signal);
        }
    }
}

impl Program {
    /// Whether to ask again whether the program has hung for too long.
    pub fn may_hang(&self) -> bool {
        self.is_running() && !self.end.was_told()
    }

    /// Ends the program and its descendants if the program has hung for too long. `hung_ns`: for
    /// how long the program has hung, if that is longer than the limit.
    pub fn end_what_hangs(&mut self, now_ns: u64, hung_ns: Option<u64>, notes: &mut Notes) {
        if !self.is_running() {
            return;
        }
        match self.end.step(now_ns, hung_ns.is_some()) {
            Step::Wait => {}
            Step::Tell => {
                let mut all = vec![self.pid];
                all.extend(process::descendants(self.pid));
                // A process that has ended meanwhile has no pidfd.
                let all = all.into_iter().filter_map(|pid| launch::pidfd(pid).ok());
                self.end.told = all.collect();
                self.end.told_ns = Some(now_ns);
                self.end.send(libc::SIGTERM);
                notes.push(format!(
                    "sbt ended the program (SIGTERM) after it had hung for {}",
                    since(hung_ns.unwrap_or(0))
                ));
            }
            Step::Kill => self.kill(notes),
        }
    }

    fn kill(&mut self, notes: &mut Notes) {
        self.end.killed = true;
        self.end.send(libc::SIGKILL);
        notes.push(format!(
            "processes still running {} later were killed (SIGKILL)",
            since(GRACE_NS)
        ));
    }

    /// The program has ended: waits for its descendants that were told to end, and kills them after
    /// the grace time. They hold the standard output, which a reader of sbt's output would
    /// otherwise wait for.
    pub async fn end_the_rest(&mut self, notes: &mut Notes) {
        while !self.end.all_have_ended() {
            if self.end.step(clock::now_ns(), false) == Step::Kill {
                self.kill(notes);
            } else if self.end.killed {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_end_when_told_to_is_killed_once() {
        let mut end = End::default();
        assert_eq!(end.step(0, false), Step::Wait);
        assert_eq!(end.step(7, true), Step::Tell);
        end.told_ns = Some(7);
        assert_eq!(end.step(6 + GRACE_NS, true), Step::Wait);
        assert_eq!(end.step(7 + GRACE_NS, false), Step::Kill);
        end.killed = true;
        assert_eq!(end.step(8 + GRACE_NS, true), Step::Wait);
    }
}
