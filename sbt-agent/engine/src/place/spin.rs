//! Loops in which threads wait.

use serde::{Deserialize, Serialize};

use super::{printable, short};

/// A loop in which threads wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinPlace {
    /// The demangled name of the function that contains the loop; if that was inlined, the inlined
    /// function.
    pub function: Option<String>,
    /// The source file of the function.
    pub file: Option<String>,
    /// The line of the loop.
    pub line: Option<u32>,
    /// File name of the program or library that contains the loop.
    pub binary: String,
    /// The loop's address in that file.
    pub offset: u64,
    /// Whether the code shows that this is a barrier, and cannot be a lock.
    pub is_barrier: bool,
    /// Whether the loop lies in another loop of the same function.
    pub is_nested: bool,
    /// Whether the function may do other work that takes time.
    #[serde(default)]
    pub may_work: bool,
    /// The function to give to `--barrier`, or why there is none.
    pub barrier: Result<String, NoFunction>,
}

impl SpinPlace {
    /// The position in the notation of reports: the line, else the address in the file.
    pub fn position(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line}", printable(short(file))),
            _ => format!("{}+{:#x}", self.binary, self.offset),
        }
    }

    /// The function and its position.
    pub fn written(&self) -> String {
        let position = self.position();
        match &self.function {
            Some(function) => format!("{} ({position})", printable(function)),
            None => position,
        }
    }
}

/// Why a loop cannot be named for `--barrier`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoFunction {
    /// The function has no symbol.
    NoSymbol,
    /// The loop is part of this function, which does more than wait.
    PartOf(String),
}
