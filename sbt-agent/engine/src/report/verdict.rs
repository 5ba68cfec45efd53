//! What a report says of why threads were late.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Word;

/// Why threads waited for each other: at a site, or in the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerdictReport {
    /// What it is. In the whole run: `spinning-while-others-lack-cpus`,
    /// `more-threads-than-cpus`, `serial-start`, `no-problem`. At a site:
    /// `phase-too-short`, `straggler-blocked`, `straggler-lost-its-cpu`,
    /// `serial-phase`, `persistent-straggler`, `alternating-stragglers`,
    /// `rotating-straggler`. docs/verdicts.md has them all.
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
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
