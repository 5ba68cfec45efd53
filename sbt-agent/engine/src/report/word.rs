//! One of a few words, in reports that are written and read again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Deserializer};

use super::Figure;

/// A word of which the program has a list somewhere. Under another name, so that it need
/// not be borrowed from the text that is read.
pub type Word = &'static str;

/// The same word for as long as the program runs: each is kept once.
fn kept(word: String) -> Word {
    static WORDS: Mutex<BTreeSet<Word>> = Mutex::new(BTreeSet::new());
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(word.as_str()) {
        return known;
    }
    let word: Word = Box::leak(word.into_boxed_str());
    words.insert(word);
    word
}

/// Reads one.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    String::deserialize(from).map(kept)
}

/// The same where there may be none.
pub fn read_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Word>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(kept))
}

/// Figures by their names.
pub fn read_figures<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<Word, Figure>, D::Error> {
    let figures = BTreeMap::<String, Figure>::deserialize(from)?;
    Ok(figures
        .into_iter()
        .map(|(name, figure)| (kept(name), figure))
        .collect())
}
