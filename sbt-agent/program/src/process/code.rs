//! The executable mappings of a process, queried one by one.
//!
//! Reading `/proc/PID/maps` of a program with hundreds of libraries takes the kernel a millisecond,
//! most of it for names, and each library that is loaded requires another look. Since Linux 6.11
//! the kernel can be asked for executable mappings only, and for names only where they are new.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd as _,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use super::{Mapping, folder};
use crate::access::target;
use crate::{file_id::FileId, vdso};

/// `struct procmap_query` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::c_ulong =
    3 << 30 | (size_of::<Query>() as libc::c_ulong) << 16 | 0x66 << 8 | 0x11;

/// `PROCMAP_QUERY_VMA_EXECUTABLE` and `PROCMAP_QUERY_COVERING_OR_NEXT_VMA`.
const EXECUTABLE_FROM: u64 = 0x04 | 0x10;

/// `PATH_MAX`: the kernel returns no longer names.
const MAX_NAME: usize = 4096;

/// The most mappings that are asked for: as many as the kernel allows a process by default.
const MAX_MAPPINGS: usize = 1 << 16;

/// The executable mappings of files in a process, as from [`super::mappings_again`]. Fails where the
/// kernel lacks the query.
pub(super) fn mappings<T>(
    pid: u32,
    known: impl Fn(&Mapping) -> Option<T>,
) -> io::Result<Vec<(Mapping, Option<T>)>> {
    let maps = target::open_as_sbt(&folder(pid).join("maps"))?;
    let mut found = Vec::new();
    let mut address = 0;
    for _ in 0..MAX_MAPPINGS {
        let Some(query) = ask(&maps, address, &mut [])? else {
            return Ok(found);
        };
        address = query.end;
        let mut mapping = Mapping {
            start: query.start,
            end: query.end,
            offset: query.offset,
            path: PathBuf::new(),
            id: FileId {
                device: libc::makedev(query.major, query.minor),
                inode: query.inode,
            },
        };
        let known = known(&mapping);
        if known.is_none() {
            let Some(path) = name(&maps, &mapping)? else {
                continue;
            };
            mapping.path = path;
        }
        found.push((mapping, known));
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

/// The name of a mapping of a file or of the kernel's own code. `None` if the mapping has no such
/// name, or if another mapping has replaced it meanwhile.
fn name(maps: &File, mapping: &Mapping) -> io::Result<Option<PathBuf>> {
    let mut name = vec![0; MAX_NAME];
    let Some(query) = ask(maps, mapping.start, &mut name)? else {
        return Ok(None);
    };
    if (query.start, query.inode) != (mapping.start, mapping.id.inode) {
        return Ok(None);
    }
    // The size includes the terminating 0.
    name.truncate((query.name_size as usize).saturating_sub(1));
    let path = PathBuf::from(std::ffi::OsString::from_vec(name));
    let is_file = mapping.id.inode != 0 && path.is_absolute();
    Ok((is_file || path == Path::new(vdso::NAME)).then_some(path))
}

/// The executable mapping at an address, or the next one. The kernel puts the mapping's name into
/// `name`, unless `name` is empty. `None` if there is no such mapping.
fn ask(maps: &File, address: u64, name: &mut [u8]) -> io::Result<Option<Query>> {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: EXECUTABLE_FROM,
        address,
        ..Query::default()
    };
    if !name.is_empty() {
        query.name = name.as_mut_ptr() as u64;
        query.name_size = u32::try_from(name.len()).unwrap_or(u32::MAX);
    }
    // SAFETY: the kernel writes to the structure, whose size it is told, and at most `name_size`
    // bytes to `name`; both outlive the call.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if result == 0 {
        return Ok(Some(query));
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_the_kernel_is_asked_for_is_what_it_lists() {
        let pid = std::process::id();
        let unknown = |_: &Mapping| None::<()>;
        let listed = super::super::readable_mappings(pid).unwrap().into_iter();
        let paired: Vec<_> = listed.map(|mapping| (mapping, None)).collect();
        match mappings(pid, unknown) {
            Ok(asked) => assert_eq!(asked, paired),
            // Before Linux 6.11.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY)),
        }
        // With the query or without.
        assert_eq!(super::super::mappings_again(pid, unknown), paired);
    }

    #[test]
    fn names_are_asked_for_only_where_they_are_new() {
        let pid = std::process::id();
        let listed = super::super::readable_mappings(pid).unwrap();
        let asked = Cell::new(0);
        let known = |mapping: &Mapping| {
            let old = listed.iter().find(|old| old.start == mapping.start)?;
            asked.set(asked.get() + 1);
            Some(old.end)
        };
        if let Ok(found) = mappings(pid, known) {
            assert_eq!(found.len(), listed.len());
            assert_eq!(asked.get(), listed.len());
            for (mapping, end) in found {
                assert_eq!(end, Some(mapping.end));
                assert_eq!(mapping.path, Path::new(""));
            }
        }
    }
}
