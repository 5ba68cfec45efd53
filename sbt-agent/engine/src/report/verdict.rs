//! Why threads were late, in a report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Word, kinds::VerdictKind};

/// Why threads waited for each other: at a site, or in the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerdictReport {
    /// The kind of verdict: for the whole run, or for a site.
    pub kind: VerdictKind,
    /// The id of the site; null if the verdict is about the whole run.
    pub site: Option<u32>,
    /// The id of the thread, if the verdict is about one thread.
    pub thread: Option<u32>,
    /// A sentence: what happens, where, in which thread, what it costs, and what to do.
    pub text: String,
    /// The figures on which the verdict rests. Names end in `_ns` or `_pct`; other figures are
    /// counts or ratios.
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
