//! Functions in the notation of reports.

/// A function in which a thread was seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedFunction {
    /// The demangled name, safe to print; for a function without a name, file and address.
    pub function: String,
    /// The source file, if known.
    pub file: Option<String>,
    /// File name of the program or library.
    pub binary: String,
}
