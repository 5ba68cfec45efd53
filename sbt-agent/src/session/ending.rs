//! Ends a program that hangs when [`crate::settings::Settings::end_hangs`] asks for that.

use std::{os::fd::OwnedFd, time::Duration};

use super::Session;
use sbt_engine::{report::HangOutcome, words::since};
use sbt_program::{clock, launch, process};

/// The time between SIGTERM and SIGKILL, ns.
const GRACE_NS: u64 = 5_000_000_000;

/// The interval between two checks whether all processes have ended.
const PAUSE: Duration = Duration::from_millis(20);

/// The progress of ending a program that hangs.
#[derive(Debug, Default)]
pub struct End {
    /// When SIGTERM was sent, ns.
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

    fn all_have_ended(&self) -> bool {
        self.told.iter().all(launch::has_ended)
    }

    fn send(&self, signal: i32) {
        for fd in &self.told {
            launch::signal_pidfd(fd, signal);
        }
    }
}

impl Session {
    /// Ends the program and its descendants if the program has hung for too long.
    pub(super) fn end_what_hangs(&mut self) {
        let Some(limit) = self.settings.end_hangs else {
            return;
        };
        if self.running.is_none() || self.exit_status.is_some() {
            return;
        }
        let now_ns = clock::now_ns();
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let hang = match self.ended.told_ns {
            None => self.hang_report(now_ns),
            Some(_) => None,
        };
        let hang =
            hang.filter(|hang| hang.outcome == HangOutcome::Lasts && hang.is_too_long(limit_ns));
        match self.ended.step(now_ns, hang.is_some()) {
            Step::Wait => {}
            Step::Tell => {
                let mut all = vec![self.pid];
                all.extend(process::descendants(self.pid));
                // A process that has ended meanwhile has no pidfd.
                let all = all.into_iter().filter_map(|pid| launch::pidfd(pid).ok());
                self.ended.told = all.collect();
                self.ended.told_ns = Some(now_ns);
                self.ended.send(libc::SIGTERM);
                let lasted = hang.map_or(0, |hang| hang.lasted_ns);
                self.notes.push(format!(
                    "sbt ended the program with SIGTERM, since it had hung for {}",
                    since(lasted)
                ));
            }
            Step::Kill => self.kill(),
        }
    }

    fn kill(&mut self) {
        self.ended.killed = true;
        self.ended.send(libc::SIGKILL);
        self.notes.push(format!(
            "processes still running {} later were killed (SIGKILL)",
            since(GRACE_NS)
        ));
    }

    /// The program has ended: waits for its descendants that were told to end, and kills them after
    /// the grace time. They hold the standard output, which a reader of sbt's output would
    /// otherwise wait for.
    pub(super) async fn end_the_rest(&mut self) {
        while !self.ended.all_have_ended() {
            if self.ended.step(clock::now_ns(), false) == Step::Kill {
                self.kill();
            } else if self.ended.killed {
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
