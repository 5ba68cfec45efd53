//! The part of the run that counts: `--start-at`, `--start-after` and `--stop-at`.

use std::time::Duration;

use sbt_engine::{event::MarkId, model::window::Window, report::WindowReport};

use super::{Mark, Settings};

impl Settings {
    /// Makes marks of the places at which counting begins and ends, if they are none yet. A place
    /// may be the name of a mark, too.
    pub(super) fn add_marks_of_window(&mut self) {
        for mark in [self.start_at.clone(), self.stop_at.clone()] {
            if let Some(mark) = mark
                && self.mark_number(&mark).is_none()
            {
                self.marks.push(mark);
            }
        }
    }

    fn mark_number(&self, wanted: &Mark) -> Option<MarkId> {
        let is = |mark: &Mark| {
            let is_named = |name: &String| wanted.at.is_name(name);
            mark.at == wanted.at || mark.name.as_ref().is_some_and(is_named)
        };
        let number = self.marks.iter().position(is)?;
        u8::try_from(number).ok().map(MarkId)
    }

    /// The part of the run that counts.
    pub fn window(&self) -> Window {
        let number = |mark: &Option<Mark>| mark.as_ref().and_then(|mark| self.mark_number(mark));
        let stop = number(&self.stop_at);
        match (number(&self.start_at), self.start_after) {
            (Some(start), _) => Window::from_mark(start, stop),
            (None, Some(_)) => Window::when_told(stop),
            (None, None) => Window::whole(stop),
        }
    }

    /// How a report calls the part that counts; `None` if everything counts. Times count from
    /// `begin_ns`, the beginning of the run.
    pub fn window_report(&self, window: &Window, begin_ns: u64) -> Option<WindowReport> {
        let name = |mark: &Mark| mark.name.clone().unwrap_or_else(|| mark.at.to_string());
        let from = self.start_at.as_ref().map(name);
        let from_ns = self.start_after.map(nanoseconds).filter(|_| from.is_none());
        let until = self.stop_at.as_ref().map(name);
        let is_whole = from.is_none() && from_ns.is_none() && until.is_none();
        (!is_whole).then(|| WindowReport {
            from,
            from_ns,
            has_begun: !window.is_before(),
            after_ns: window
                .started_ns()
                .map(|started_ns| started_ns.saturating_sub(begin_ns)),
            asked: window.is_asked(),
            until,
            has_ended: window.stopped_ns().is_some(),
        })
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::spec;

    fn settings(marks: &[&str], start: &str, stop: &str) -> Settings {
        let mut settings = Settings {
            marks: marks.iter().map(|text| spec::mark(text).unwrap()).collect(),
            start_at: Some(spec::mark(start).unwrap()),
            stop_at: Some(spec::mark(stop).unwrap()),
            ..Settings::default()
        };
        settings.add_marks_of_window();
        settings
    }

    fn marks(settings: &Settings) -> Vec<String> {
        settings.marks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_mark_of_the_users_serves_for_the_window_too() {
        let named = settings(&["f=begin", "lu.c:9"], "begin", "lu.c:9");
        assert_eq!(marks(&named), ["f=begin", "lu.c:9"]);
        assert_eq!(
            named.window(),
            Window::from_mark(MarkId(0), Some(MarkId(1)))
        );
        let new = settings(&["f=begin"], "solve", "lu.c:9=end");
        assert_eq!(marks(&new), ["f=begin", "solve", "lu.c:9=end"]);
        assert_eq!(new.window(), Window::from_mark(MarkId(1), Some(MarkId(2))));
    }

    #[test]
    fn a_report_names_both_ends() {
        let both = settings(&[], "solve", "lu.c:9=end");
        let report = both.window_report(&both.window(), 5).unwrap();
        assert_eq!(report.from.as_deref(), Some("solve"));
        assert_eq!(report.until.as_deref(), Some("end"));
        assert_eq!((report.has_begun, report.after_ns), (false, None));
        let later = Settings {
            start_after: Some(Duration::from_millis(1500)),
            ..Settings::default()
        };
        let report = later.window_report(&later.window(), 5).unwrap();
        assert_eq!((report.from, report.from_ns), (None, Some(1_500_000_000)));
        let whole = Settings::default();
        assert_eq!(whole.window_report(&whole.window(), 5), None);
    }
}
