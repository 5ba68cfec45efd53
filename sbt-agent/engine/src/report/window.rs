//! The part of the run that counts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Report;
use crate::value::duration_text;

/// The part of the run that the figures are about, if it is not the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WindowReport {
    /// The mark at which counting begins (`--start-at`); null if it begins at no mark.
    pub from: Option<String>,
    /// The time after the beginning of the run at which counting begins (`--start-after`); null if
    /// it begins at no certain time.
    pub from_ns: Option<u64>,
    /// Whether counting has begun.
    pub has_begun: bool,
    /// When counting began, in ns after the beginning of the run; null if it has not, or if it began
    /// with the run.
    pub after_ns: Option<u64>,
    /// Whether counting began, or began anew, because somebody asked for it during the run (`sbt ctl`, the
    /// key r): then not at the mark or the time above.
    #[serde(default)]
    pub asked: bool,
    /// The mark at which counting ends (`--stop-at`); null if it lasts until the end.
    pub until: Option<String>,
    /// Whether a thread has passed that mark.
    pub has_ended: bool,
}

/// A moment that was marked from outside of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MomentReport {
    /// The name given.
    pub name: String,
    /// When that was, in ns after the beginning of the run, whatever part of the run counts.
    pub after_ns: u64,
}

impl Report {
    /// Why nothing was counted, if that is because counting did not begin.
    pub fn why_nothing_counts(&self) -> Option<String> {
        let window = self.run.window.as_ref().filter(|one| !one.has_begun)?;
        Some(match (&window.from, window.from_ns) {
            (Some(from), _) => {
                format!("nothing was counted: no thread was seen to pass `{from}` (--start-at)")
            }
            (None, after_ns) => format!(
                "nothing was counted: the run was over before {} (--start-after)",
                duration_text(Duration::from_nanos(after_ns?))
            ),
        })
    }

    /// Whether the user asked for marks, besides those at which counting begins and ends.
    pub fn has_marks_of_the_users(&self) -> bool {
        let window = self.run.window.as_ref();
        let ends = window.map(|window| [&window.from, &window.until]);
        self.marks.iter().any(|mark| {
            let is_end = |end: &&Option<String>| end.as_ref() == Some(&mark.name);
            !ends.iter().flatten().any(is_end)
        })
    }

    /// The part of the run that was counted, in words; `None` for the whole run. `time`: writes a
    /// time.
    pub fn counted_part(&self, time: impl Fn(u64) -> String) -> Option<String> {
        let window = self.run.window.as_ref().filter(|one| one.has_begun)?;
        let mark = window.from.as_ref().filter(|_| !window.asked);
        let from = match (mark, window.after_ns) {
            (Some(from), Some(after_ns)) => {
                format!(" from `{from}`, {} after the start,", time(after_ns))
            }
            (None, Some(after_ns)) => format!(" from {} after the start", time(after_ns)),
            (_, None) => String::new(),
        };
        let until = match &window.until {
            Some(until) if window.has_ended => format!("until `{until}`"),
            Some(until) => {
                format!("until the end: no thread was seen to pass `{until}` (--stop-at)")
            }
            None => "until the end".into(),
        };
        Some(format!("counted{from} {until}"))
    }
}
