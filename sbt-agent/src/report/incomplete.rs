//! What is missing in the recording that a report was made of.

use serde::{Deserialize, Serialize};

use super::{Reason, Report, Withheld, WithheldReport, Word};

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

/// Why figures of the whole run are withheld where a part of the run is missing.
const NOT_WHOLE: &str = "the recording is not complete";

impl Report {
    /// Whether all that was watched is in it.
    pub const fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Why a figure is withheld; `None` if it is not.
    pub fn why_withheld(&self, figure: Withheld) -> Option<&WithheldReport> {
        self.withheld.iter().find(|it| it.figure == figure)
    }

    /// Takes note that something is missing, and withholds what cannot be told without it.
    /// Verdicts have to be made anew.
    pub fn break_off(&mut self, missing: Vec<IncompleteReport>) {
        if missing.is_empty() {
            return;
        }
        self.incomplete.extend(missing);
        let figure = Withheld::Efficiency;
        self.efficiency = None;
        for phase in &mut self.conceptual_phases {
            phase.efficiency = None;
        }
        if self.why_withheld(figure).is_none() {
            self.withheld.push(WithheldReport {
                figure,
                reason: Reason::Cut,
                because: NOT_WHOLE.into(),
            });
        }
        self.verdicts = None;
        self.no_verdict_because = None;
    }
}
