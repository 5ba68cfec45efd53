//! Notes for the user, then messages about single episodes and warnings.

use ratatui::{buffer::Buffer, layout::Rect, style::Style, text::Line};

use super::{Tab, View, site};
use crate::{
    screen::{
        keys::Action,
        pager::Pager,
        theme::Look,
        words::{fit, plural, rule, since, wrap},
    },
    show::{
        table::{count, duration},
        text,
    },
};
use sbt_engine::{live::Request, place::printable, report::Withheld};

/// The tab of the log.
pub struct Log {
    pager: Pager,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            pager: Pager::at_end(),
        }
    }
}

const CODES: [&str; 3] = ["\x1b[1m", "\x1b[2m", "\x1b[0m"];

/// A line as for standard error, without the codes for bold and dim text.
pub fn plain(told: &str) -> String {
    CODES
        .iter()
        .fold(told.to_owned(), |text, code| text.replace(code, ""))
}

/// The lines of one message, which is formatted as for standard error: headings are marked by
/// escape codes for bold, and details are indented.
fn entry(told: &str, columns: usize, look: Look) -> Vec<Line<'static>> {
    let is_head = told.starts_with(CODES[0]);
    let plain = plain(told);
    let text = plain.strip_prefix("sbt: ").unwrap_or(&plain);
    let (indent, style) = match (is_head, text.starts_with(' ')) {
        (true, _) => (1, look.bold()),
        (false, true) => (3, Style::new()),
        (false, false) => (1, Style::new()),
    };
    let (text, room) = (printable(text.trim_start()), columns.saturating_sub(indent));
    // Rows of figures are cut, not wrapped: their end is the time of day, which the next message
    // repeats.
    let texts = if is_head || indent > 1 {
        vec![fit(&text, room, look)]
    } else {
        wrap(&text, room, look)
    };
    let indented = |text: String| Line::styled(" ".repeat(indent) + &text, style);
    texts.into_iter().map(indented).collect()
}

/// Notes for the user.
fn notes(view: &View, columns: usize) -> Vec<Line<'static>> {
    let (snapshot, look) = (view.snapshot, view.look);
    let report = &snapshot.report;
    let columns = columns.saturating_sub(2);
    let mut facts = Vec::new();
    for (from, to) in &snapshot.gaps {
        let length = since(to.saturating_sub(*from));
        facts.push(format!(
            "not watched for {length}, beginning at {}",
            since(*from)
        ));
    }
    let withheld = report.why_withheld(Withheld::Efficiency);
    if let Some(withheld) = withheld.filter(|_| !report.sites.is_empty()) {
        facts.push(format!("efficiency ?: {}", withheld.because));
    }
    if report.lost_events > 0 {
        facts.push(format!(
            "lost {} events: there were more arrivals and episodes than reported",
            count(report.lost_events)
        ));
    }
    if report.incomplete_episodes > 0 {
        facts.push(format!(
            "{}, besides {} complete episodes",
            plural(report.incomplete_episodes, "incomplete episode"),
            count(report.episodes),
        ));
    }
    for warning in &report.warnings {
        facts.push(format!(
            "{} of {} episodes of {} took longer than {} at the barrier, the worst {}",
            count(warning.episodes),
            report
                .site(warning.site)
                .map_or_else(|| "?".into(), |site| count(site.episodes)),
            crate::screen::words::site(report, warning.site),
            duration(Some(warning.limit_ns), look.text()),
            duration(Some(warning.worst_ns), look.text()),
        ));
    }
    facts.push(format!(
        "events come from {} ({}); departures {}",
        report.run.backend,
        report.run.method,
        match report.run.departures {
            Some(true) => "watched",
            Some(false) => "not watched",
            None => "watched in part",
        }
    ));
    facts.extend(report.notes.iter().map(|note| printable(note)));
    // Last: the first tab shows them too, and they are long.
    let because = report.no_verdict_because.as_ref();
    facts.extend(because.map(|because| format!("no verdict: {because}")));
    let verdicts = report.verdicts.iter().flatten();
    facts.extend(verdicts.map(|verdict| text::sentence(&verdict.text, look.text())));
    facts
        .iter()
        .flat_map(|fact| wrap(&printable(fact), columns, look))
        .map(|text| Line::raw(format!(" {text}")))
        .collect()
}

impl Tab for Log {
    fn title(&self) -> &'static str {
        "Log"
    }

    fn draw(&mut self, view: &View, buffer: &mut Buffer, area: Rect) {
        let (title, body) = site::split(area);
        let columns = usize::from(body.width);
        let told = &view.snapshot.told;
        let mut lines = notes(view, columns);
        lines.push(Line::default());
        let heading = " episodes, phases and warnings";
        lines.push(Line::styled(heading, view.look.bold()));
        if told.is_empty() {
            let text = match view.snapshot.replay {
                Some(_) => "A replay does not repeat these lines; the report has the warnings.",
                None => "Nothing yet. --watch SITE shows the episodes of SITE one by one.",
            };
            let texts = wrap(text, columns.saturating_sub(1), view.look);
            lines.extend(texts.into_iter().map(|text| Line::raw(format!(" {text}"))));
        }
        let entries = told.iter();
        lines.extend(entries.flat_map(|line| entry(&line.text, columns, view.look)));
        self.pager.draw(&lines, buffer, body);
        let note = self.pager.range().unwrap_or_default();
        rule(
            buffer,
            title,
            "notes, episodes, phases and warnings",
            &note,
            view.look,
        );
    }

    fn act(&mut self, action: Action, _view: &View) -> Vec<Request> {
        if let Action::Go(to) = action {
            self.pager.go(to, true);
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_to_a_terminal_is_shown_without_its_codes() {
        let look = Look {
            unicode: true,
            color: true,
        };
        let shown = |told| {
            let lines = entry(told, 24, look);
            lines.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            shown("\x1b[1msbt: pivot, episode 3\x1b[0m"),
            [" pivot, episode 3"]
        );
        assert_eq!(
            shown("       T2 22350 lu-2  +0 ns  idle 1043 µs"),
            ["   T2 22350 lu-2  +0 ns…"]
        );
        assert_eq!(
            shown("sbt: warning: pivot, limit 1000 ms"),
            [" warning: pivot, limit", " 1000 ms"]
        );
    }
}
