//! What is missing in what a report was made of, and which figures are withheld because of it.

use serde::{Deserialize, Serialize};

use super::{Report, Word};

/// Something that is missing in what a report was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IncompleteReport {
    /// `no-end`: the recording breaks off before the watching ended. `damaged`: a part of the
    /// recording is not as it was written, and was left out with all that follows.
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
    /// What happened, and which part of the run the report is about.
    pub text: String,
}

/// A figure that is null although it could have been computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WithheldReport {
    /// The field of this report; of a field in a list, `list.field`.
    #[serde(deserialize_with = "super::word::read")]
    pub field: Word,
    /// Why it cannot be told.
    pub because: String,
}

/// Why figures of the whole run are withheld where a part of the run is missing.
const NOT_WHOLE: &str = "the recording is not complete";

impl Report {
    /// Whether all that was watched is in it.
    pub const fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Why a figure is null, if it was withheld.
    pub fn withheld_because(&self, field: &str) -> Option<&str> {
        let found = self.withheld.iter().find(|it| it.field == field)?;
        Some(&found.because)
    }

    /// Takes note that something is missing, and withholds what cannot be told without it.
    /// Verdicts have to be made anew.
    pub fn break_off(&mut self, missing: Vec<IncompleteReport>) {
        if missing.is_empty() {
            return;
        }
        self.incomplete.extend(missing);
        let mut withhold = |field| {
            if self.withheld.iter().all(|it| it.field != field) {
                let because = NOT_WHOLE.into();
                self.withheld.push(WithheldReport { field, because });
            }
        };
        self.efficiency = None;
        withhold("efficiency");
        for phase in &mut self.conceptual_phases {
            if phase.efficiency.take().is_some() {
                withhold("conceptual_phases.efficiency");
            }
        }
        if self.exit_status.is_none() && self.started != Some(false) {
            withhold("exit_status");
        }
        self.verdicts = None;
        self.no_verdict_because = None;
    }
}
