//! A program that hangs is ended where nobody is there to do it: see
//! [`crate::settings::Settings::end_hangs`].

use std::{os::fd::OwnedFd, time::Duration};

use super::Session;
use sbt_engine::words::since;
use sbt_program::{clock, launch, process};

/// How long who was told to end may take for that, ns.
const GRACE_NS: u64 = 5_000_000_000;

/// How often it is looked whether all have ended.
const PAUSE: Duration = Duration::from_millis(20);

/// How far that has come.
#[derive(Debug, Default)]
pub struct End {
    /// When they were told to end, ns.
    told_ns: Option<u64>,
    /// The program and all that it had started.
    told: Vec<OwnedFd>,
    killed: bool,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wait,
    Tell,
    Kill,
}

impl End {
    /// `hangs`: for too long, and still.
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
    /// Ends the program, and what it has started, if it hangs for too long.
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
        let hang = hang.filter(|it| it.outcome == "lasts" && it.is_too_long(limit_ns));
        match self.ended.step(now_ns, hang.is_some()) {
            Step::Wait => {}
            Step::Tell => {
                let mut all = vec![self.pid];
                all.extend(process::descendants(self.pid));
                // Who has ended meanwhile needs no telling.
                let all = all.into_iter().filter_map(|pid| launch::pidfd(pid).ok());
                self.ended.told = all.collect();
                self.ended.told_ns = Some(now_ns);
                self.ended.send(libc::SIGTERM);
                let lasted = hang.map_or(0, |it| it.lasted_ns);
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

    /// The program has ended: what it had started, and was told to end with it, does so
    /// too. Whoever waits for our output would else wait for theirs.
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
