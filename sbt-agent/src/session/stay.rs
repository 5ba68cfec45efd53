//! The screen after the program's end: it stays until the user leaves it. By then everything but
//! the screen has been released, and the report is complete.

use anyhow::Context as _;

use super::{Session, requests::Then, view::Turn};
use sbt_engine::{live::Request, report::Report};

impl Session {
    /// Shows the end until the user leaves. Returns whether a signal told sbt to end instead.
    pub(super) async fn stay(&mut self, report: &Report) -> anyhow::Result<bool> {
        // Processes that wait for the program's end must not wait for the user of sbt.
        self.program.let_others_go();
        self.view.end(report);
        self.show();
        loop {
            tokio::select! {
                heard = self.signals.next() => {
                    let heard = heard.context("waiting for signals")?;
                    if heard.stops() {
                        self.obey(Request::Suspend).await?;
                        continue;
                    }
                    self.hear(heard);
                    if heard.ends() {
                        return Ok(true);
                    }
                }
                turn = self.view.turn() => match turn? {
                    Turn::Due => self.show(),
                    // Processes that the program started may go on writing.
                    Turn::Handled => {}
                    // The user pressed the key just before the end was on the screen: there is
                    // nothing to interrupt.
                    Turn::Asked(Request::Interrupt) => return Ok(false),
                    Turn::Asked(request) => if self.obey(request).await? == Then::End {
                        return Ok(false);
                    },
                },
            }
        }
    }
}
