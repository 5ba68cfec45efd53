//! The output of the program.

use ratatui::{buffer::Buffer, layout::Rect, text::Line};

use super::{Hint, Tab, View, log, site};
use crate::{
    screen::{
        keys::Action,
        pager::Pager,
        words::{put_all, rule, wrap},
    },
    show::table::count,
};
use sbt_engine::{
    live::{Request, TimedLine},
    place::printable,
};

/// The tab of the program's output.
pub struct OutputTab {
    pager: Pager,
}

impl Default for OutputTab {
    fn default() -> Self {
        Self {
            pager: Pager::at_end(),
        }
    }
}

/// Shown if the program's output does not pass through sbt.
const ELSEWHERE: &str = "The program's output does not pass through sbt. sbt shows the output only \
    of programs that it starts on a terminal.";

/// Shown in a replay.
const NOT_RECORDED: &str = "A recording does not contain the output of the program.";

/// The lines of the program and those of sbt in the order of time, each with whether it is one of sbt.
fn by_time<'a>(written: &'a [TimedLine], told: &'a [TimedLine]) -> Vec<(&'a TimedLine, bool)> {
    let told = told.iter().map(|line| (line, true));
    let written = written.iter().map(|line| (line, false));
    let mut all: Vec<_> = told.chain(written).collect();
    all.sort_by_key(|(line, _)| line.at_ns);
    all
}

impl Tab for OutputTab {
    fn title(&self) -> &'static str {
        "Output"
    }

    fn brief_title(&self) -> &'static str {
        "Out"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (title, body) = site::split(area);
        let Some(output) = &view.snapshot.output else {
            rule(buffer, title, "output of the program", "", view.look);
            let columns = usize::from(area.width.saturating_sub(2));
            let why = match view.snapshot.replay {
                Some(_) => NOT_RECORDED,
                None => ELSEWHERE,
            };
            let lines = wrap(why, columns, view.look).into_iter();
            put_all(
                buffer,
                body,
                lines.map(|text| Line::raw(format!(" {text}"))),
            );
            return;
        };
        let lines = by_time(&output.lines, &view.snapshot.told);
        let in_sight = self.pager.view(lines.len(), body.height);
        let shown = lines[in_sight].iter().map(|(line, is_told)| {
            let text = printable(&log::plain(&line.text));
            if *is_told {
                Line::styled(text, view.look.dim())
            } else {
                Line::raw(text)
            }
        });
        put_all(buffer, body, shown);
        let bytes = format!("{} bytes", count(output.bytes));
        let note = match self.pager.range() {
            Some(range) => format!("{range}, {bytes}"),
            None => bytes,
        };
        let what = if view.snapshot.told.is_empty() {
            "output of the program"
        } else {
            "output, with lines of sbt"
        };
        let name = if self.pager.follows() {
            what.to_owned()
        } else {
            format!("{what}; End: follow new output")
        };
        rule(buffer, title, &name, &note, view.look);
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        if let Action::Go(to) = action {
            self.pager.go(to, true);
        }
        Vec::new()
    }

    fn hints(&self) -> Vec<Hint> {
        vec![("i", "type to the program")]
    }

    fn is_output(&self) -> bool {
        true
    }
}
