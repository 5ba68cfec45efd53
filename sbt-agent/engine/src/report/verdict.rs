//! Why threads were late, in a report.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{
    kinds::VerdictKind,
    word::{Word, kept},
};

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
    #[serde(deserialize_with = "read_figures")]
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

/// Deserialises figures, with their names as words.
fn read_figures<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Word, Figure>, D::Error> {
    let figures = BTreeMap::<String, Figure>::deserialize(from)?;
    Ok(figures
        .into_iter()
        .map(|(name, figure)| (kept(name), figure))
        .collect())
}
