//! Why the kernel refuses to load programs.

use std::io;

use thiserror::Error;

/// Why the programs could not be loaded into the kernel.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The kernel refused for want of privilege.
    #[error("missing privilege for {0}")]
    Privilege(&'static str),
    /// The kernel lacks something, or has refused a program.
    #[error("{what}: {source}")]
    Kernel {
        /// The action that was refused.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The embedded object is broken.
    #[error("the embedded BPF object cannot be read: {0}")]
    Object(String),
}

impl LoadError {
    pub(crate) fn kernel(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Privilege("loading eBPF programs"),
            _ => Self::Kernel { what, source },
        }
    }
}
