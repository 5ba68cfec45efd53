//! What a report says of why threads were late.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Word, kinds::VerdictKind};

/// Why threads waited for each other: at a site, or in the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerdictReport {
    /// What kind of verdict it is: in the whole run, or at a site.
    pub kind: VerdictKind,
    /// Where; null if it is about the whole run.
    pub site: Option<u32>,
    /// Who, if it is one thread.
    pub thread: Option<u32>,
    /// A sentence: what, where, who, what it costs, and what to do.
    pub text: String,
    /// The figures that it rests on: names end in `_ns` or `_pct`, others are counts
    /// or ratios.
    #[serde(deserialize_with = "super::word::read_figures")]
    pub evidence: BTreeMap<Word, Figure>,
}

/// A figure of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Figure {
    /// A time or a count.
    Whole(u64),
    /// A share or a ratio.
    Real(f64),
}
