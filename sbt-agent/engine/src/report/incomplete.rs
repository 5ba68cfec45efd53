//! Gaps in the recording from which a report was made.

use serde::{Deserialize, Serialize};

use super::{IncompleteKind, Report, Withheld, WithheldReason, WithheldReport};

/// Something that is missing in the data that a report was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IncompleteReport {
    /// The kind of gap.
    pub kind: IncompleteKind,
    /// The cause of the gap, and the part of the run that the report covers.
    pub text: String,
}

/// Why figures of the whole run are withheld where a part of the run is missing.
const NOT_WHOLE: &str = "the recording is not complete";

impl Report {
    /// Whether the report covers all that was watched.
    pub const fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Adds what is missing to the report, and withholds the figures that cannot be known without
    /// it. Call this before [`super::sound`]; verdicts have to be made again afterwards.
    pub fn break_off(&mut self, missing: Vec<IncompleteReport>) {
        if missing.is_empty() {
            return;
        }
        self.incomplete.extend(missing);
        if self.why_withheld(Withheld::Efficiency).is_none() {
            let because = NOT_WHOLE.into();
            let cut = WithheldReport::new(Withheld::Efficiency, WithheldReason::Cut, because);
            self.withheld.push(cut);
        }
        self.verdicts = None;
        self.no_verdict_because = None;
    }
}
