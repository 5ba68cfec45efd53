//! Why threads were late, in a report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Word;

/// Why threads waited for each other: at a site, or in the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerdictReport {
    /// The kind of verdict. For the whole run: `spinning-while-others-lack-cpus`,
    /// `more-threads-than-cpus`, `serial-start`, `no-problem`. For a site: `phase-too-short`,
    /// `straggler-blocked`, `straggler-lost-its-cpu`, `serial-phase`, `persistent-straggler`,
    /// `alternating-stragglers`, `rotating-straggler`. docs/verdicts.md explains all of them.
    #[serde(deserialize_with = "super::word::read")]
    pub kind: Word,
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
