//! The common part of the targets.

use std::{
    fs::File,
    io::{Seek as _, SeekFrom, Write as _},
    os::fd::AsRawFd as _,
    path::PathBuf,
    sync::OnceLock,
};

use nix::sys::memfd::{MFdFlags, memfd_create};

/// A file in memory that holds these bytes and nothing else, and how it is opened.
///
/// # Panics
/// There is no memory for it.
pub fn file(bytes: &[u8]) -> PathBuf {
    static FILE: OnceLock<File> = OnceLock::new();
    let mut file = FILE.get_or_init(|| {
        let file = memfd_create(c"input", MFdFlags::MFD_CLOEXEC).expect("no memory file");
        File::from(file)
    });
    file.set_len(0).expect("cannot be emptied");
    file.seek(SeekFrom::Start(0)).expect("cannot be rewound");
    file.write_all(bytes).expect("cannot be written");
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}
