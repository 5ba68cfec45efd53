//! Finds kernel probes that others have put where sbt's breakpoints may stand.
//!
//! Both are one byte, `int3`, in the memory of the target, and the byte does not tell whose it is.
//! But the kernel puts a probe that is meant for everybody into each executable mapping of the
//! file. So this process maps the pages with its places too, and runs nothing there: an `int3` in
//! such a page that the file does not have is a kernel probe. Probes meant for one process alone do
//! not show here.

use std::{
    cell::RefCell, collections::HashMap, fs::File, os::fd::AsRawFd as _, os::unix::fs::FileExt as _,
};

use super::space::PAGE;
use sbt_program::{arch::BREAKPOINT, file_id::FileId, memory::Memory};

/// The largest number of pages that are mapped.
const MOST: usize = 4096;

/// Mapped pages of files, by file and offset.
#[derive(Debug, Default)]
pub struct Foreign(RefCell<HashMap<(FileId, u64), Option<Twin>>>);

/// A page of a file, mapped by this process.
#[derive(Debug)]
struct Twin {
    file: File,
    /// Address of the mapping, which stays until this process ends.
    at: u64,
}

impl Foreign {
    /// Whether the kernel has a probe for everybody at this offset of the file. `open` opens the
    /// file.
    pub fn has_probe(&self, id: FileId, offset: u64, open: impl FnOnce() -> Option<File>) -> bool {
        let page = offset / PAGE * PAGE;
        let mut pages = self.0.borrow_mut();
        if pages.len() >= MOST && !pages.contains_key(&(id, page)) {
            return false;
        }
        let twin = pages
            .entry((id, page))
            .or_insert_with(|| Twin::of(open()?, page));
        twin.as_ref()
            .is_some_and(|twin| twin.has_probe(page, offset))
    }

    /// Reads from a file at an offset, without breakpoints in memory. Returns how many bytes were
    /// read.
    pub fn read(&self, id: FileId, offset: u64, bytes: &mut [u8]) -> usize {
        let pages = self.0.borrow();
        let twin = pages
            .get(&(id, offset / PAGE * PAGE))
            .and_then(Option::as_ref);
        twin.and_then(|twin| twin.file.read_at(bytes, offset).ok())
            .unwrap_or(0)
    }
}

impl Twin {
    fn of(file: File, page: u64) -> Option<Self> {
        let length = usize::try_from(PAGE).ok()?;
        // SAFETY: a new mapping of a file, at an address that the kernel chooses; no reference
        // points into it, it is only read through its number.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_EXEC,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                libc::off_t::try_from(page).ok()?,
            )
        };
        (at != libc::MAP_FAILED).then(|| Self {
            file,
            at: at.addr() as u64,
        })
    }

    fn has_probe(&self, page: u64, offset: u64) -> bool {
        // Read through /proc: if the file has become shorter, a direct read would raise SIGBUS.
        let own = Memory {
            thread: std::process::id(),
        };
        let mut byte = [0];
        own.bytes(self.at + (offset - page)) == Some([BREAKPOINT])
            && self.file.read_exact_at(&mut byte, offset).is_ok()
            && byte != [BREAKPOINT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn an_instruction_that_the_file_has_is_no_probe() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("code");
        let mut code = vec![0x90; 5000];
        code[4100] = BREAKPOINT;
        std::fs::write(&path, &code).unwrap();
        let open = || File::open(&path).ok();
        let id = FileId::of(&open().unwrap()).unwrap();
        assert_eq!(id.inode, open().unwrap().metadata().unwrap().ino());
        let foreign = Foreign::default();
        for offset in [0, 4100, 4101] {
            assert!(!foreign.has_probe(id, offset, open), "{offset}");
        }
        let mut bytes = [0; 8];
        assert_eq!(foreign.read(id, 4100, &mut bytes), 8);
        assert_eq!(bytes[..2], [BREAKPOINT, 0x90]);
        // Write the byte as the kernel would: only it can do so otherwise.
        let page = (id, 4096);
        let at = foreign.0.borrow()[&page].as_ref().unwrap().at;
        let memory = File::options().write(true).open("/proc/self/mem").unwrap();
        memory.write_all_at(&[BREAKPOINT], at + 5).unwrap();
        assert!(foreign.has_probe(id, 4101, open));
        // The file has become shorter.
        std::fs::write(&path, []).unwrap();
        assert!(!foreign.has_probe(id, 4101, open));
        assert!(!foreign.has_probe(id, 0, || None));
    }
}
