//! The screen after the program's end: it stays as it was, until its user leaves. Everything but
//! the screen has been released by then, and the report is made.

use anyhow::Context as _;

use super::{
    Session,
    view::{Then, Turn, View},
};
use crate::terminal::Terminal;
use sbt_engine::{live::Request, report::Report};

impl Session {
    /// Shows the end until the user leaves; whether a signal has told sbt to end instead.
    pub(super) async fn stay(&mut self, report: &Report) -> anyhow::Result<bool> {
        if let Some(running) = &self.running {
            // Whoever waits until the program is gone does not wait for our user.
            running.release();
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.take_rest();
            terminal.look_seldom();
        }
        View::end(&mut self.view, report);
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
                turn = View::turn(&mut self.view) => match turn {
                    Turn::Due => self.show(),
                    // Pressed just before the end was to be seen: there is nobody to interrupt.
                    Turn::Asked(Request::Interrupt) => return Ok(false),
                    Turn::Asked(request) => if self.obey(request).await? == Then::End {
                        return Ok(false);
                    },
                },
                // What the program has started may write on.
                result = Terminal::turn_of(&mut self.terminal) => {
                    if result.context("reading the program's output")? {
                        View::has_news(&mut self.view);
                    }
                }
            }
        }
    }
}
