//! Functions as reports name them.

/// A function that a thread was in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedFunction {
    /// Demangled, safe to print; where there is no name, file and address.
    pub function: String,
    /// Its source file, if known.
    pub file: Option<String>,
    /// File name of the program or library.
    pub binary: String,
}
