//! The code that the kernel maps into every process (vDSO), which includes `clock_gettime`. The
//! code is in no file. sbt reads it from its own process, because all 64-bit processes have the
//! same.

use std::{
    fs::File,
    io::{self, Write as _},
    os::{fd::AsRawFd as _, unix::fs::FileExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use nix::sys::memfd::{MFdFlags, memfd_create};
use procfs::process::{MMapPath, Process};

/// How the vDSO is shown in place of a path.
pub const NAME: &str = "[vdso]";

/// Bytes; larger than any kernel's vDSO.
const MOST_BYTES: u64 = 1 << 20;

/// A path that opens a copy of the vDSO, the same file each time.
pub fn path() -> io::Result<PathBuf> {
    static COPY: OnceLock<Option<File>> = OnceLock::new();
    let file = COPY.get_or_init(|| copy().ok()).as_ref();
    let file = file.ok_or(io::ErrorKind::NotFound)?;
    Ok(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// Whether a shown path stands for the vDSO.
pub fn is(shown: &Path) -> bool {
    shown == Path::new(NAME)
}

fn copy() -> io::Result<File> {
    let maps = Process::myself()
        .and_then(|process| process.maps())
        .map_err(io::Error::other)?;
    let map = maps.into_iter().find(|map| map.pathname == MMapPath::Vdso);
    let (start, end) = map.ok_or(io::ErrorKind::NotFound)?.address;
    let length = usize::try_from((end - start).min(MOST_BYTES)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    let mut file = File::from(memfd_create(c"vdso", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{debuginfo::DebugInfo, files::ProbedFile};

    #[test]
    fn its_functions_have_names() {
        let path = path().unwrap();
        assert_eq!(super::path().unwrap(), path);
        let file = ProbedFile::open(&path, Path::new(NAME)).unwrap();
        assert_eq!(file.points, []);
        let debug = DebugInfo::open(&path, Path::new(NAME), Path::new("/")).unwrap();
        let functions = debug.functions("__vdso_clock_gettime").unwrap();
        assert!(!functions.is_empty());
    }
}
