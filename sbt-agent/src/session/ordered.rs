//! Carries out what scripts ask for with `sbt ctl`.

use super::Session;
use crate::{
    control::{Asked, Order},
    output,
    show::text,
};
use sbt_engine::report::MomentReport;
use sbt_program::clock;

/// The most moments that are kept.
const MAX_MOMENTS: usize = 1000;

impl Session {
    /// Carries out a request, and answers.
    pub(super) async fn carry_out(&mut self, asked: Asked) {
        let answer = match &asked.order {
            Order::Snapshot { json } => self.snapshot(*json),
            _ if !self.watch.is_on() => Err("watching has ended".to_owned()),
            Order::Start => self.start_as_asked(),
            Order::Stop if self.watch.is_off() => Err("the probes are off already".into()),
            Order::Stop => {
                self.watch_no_more().await;
                Ok("the probes are off; the program goes on unwatched".into())
            }
            Order::Reset => {
                self.reset();
                Ok("all totals are reset".into())
            }
            Order::Mark(name) => self.mark_moment(name.clone()),
        };
        asked.answer(answer);
        self.view.hurry();
    }

    fn start_as_asked(&mut self) -> Result<String, String> {
        if self.watch.is_off() {
            self.watch_again();
            return Ok("the probes are on again".into());
        }
        if self.is_before_window() {
            self.start_counting();
            return Ok("counting has begun".into());
        }
        Err("sbt watches and counts already".into())
    }

    fn mark_moment(&mut self, name: String) -> Result<String, String> {
        if self.moments.len() == MAX_MOMENTS {
            return Err(format!("there are {MAX_MOMENTS} marks already"));
        }
        let after_ns = clock::now_ns().saturating_sub(self.watch.begun_ns());
        let said = format!("marked: {name}");
        self.moments.push(MomentReport { name, after_ns });
        Ok(said)
    }

    fn snapshot(&mut self, json: bool) -> Result<String, String> {
        // A snapshot right after a reset must not show what came before the reset.
        let now_ns = self.watch.until_ns(clock::now_ns());
        self.understanding.restart_if_due(now_ns);
        self.heed_window();
        let last = self.view.last().cloned();
        let report = last.unwrap_or_else(|| self.report_so_far(now_ns));
        if json {
            return serde_json::to_string_pretty(&report).map_err(|error| error.to_string());
        }
        Ok(text::render(&report, output::PLAIN))
    }
}
