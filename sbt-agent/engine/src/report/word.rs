//! Words from small fixed sets, such as kinds, in reports that are written and read again.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Deserializer};

/// A word from a fixed set somewhere in the program. Serde borrows fields of type `&str` from the
/// text that is read; the alias avoids that.
pub type Word = &'static str;

/// The same word with a static lifetime. Each distinct word is leaked once.
pub(super) fn kept(word: String) -> Word {
    static WORDS: Mutex<BTreeSet<Word>> = Mutex::new(BTreeSet::new());
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(word.as_str()) {
        return known;
    }
    let word: Word = Box::leak(word.into_boxed_str());
    words.insert(word);
    word
}

/// Deserialises a word.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    String::deserialize(from).map(kept)
}
