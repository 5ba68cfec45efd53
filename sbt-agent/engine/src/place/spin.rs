//! Places where threads wait in a loop.

use serde::{Deserialize, Serialize};

/// Where threads wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinPlace {
    /// The function, demangled; that which was inlined, if it was.
    pub function: Option<String>,
    /// Its source file.
    pub file: Option<String>,
    /// The line of the loop.
    pub line: Option<u32>,
    /// The file that is executed, without its folder, and the loop's address in it.
    pub binary: String,
    /// See there.
    pub offset: u64,
    /// Whether the code shows it to be a barrier, and it may not be a lock as well.
    pub is_barrier: bool,
    /// Whether the function goes on to wait there again and again.
    pub is_nested: bool,
    /// What to give to `--barrier`, or why there is nothing to give.
    pub barrier: Result<String, NoFunction>,
}

/// Why `--barrier` cannot be told of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoFunction {
    /// The function has no symbol.
    NoSymbol,
    /// The loop is part of a function that does more, of this name.
    PartOf(String),
}
