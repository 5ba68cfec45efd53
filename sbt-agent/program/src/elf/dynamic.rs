//! A file's requests to the dynamic linker: the table that its `PT_DYNAMIC` segment points to.

use memchr::memchr;
use object::elf;
use object::read::elf::{Dyn as _, ProgramHeader as _};

use super::{ElfError, LE, data_at, load_segments, program_headers};

/// The most entries of the table that are read; linked files have some thirty besides one for each
/// library.
const MAX_ENTRIES: usize = 1 << 12;

/// The longest file name that the kernel opens, bytes.
const MAX_NAME: usize = 4096;

/// The longest list of folders, bytes.
const MAX_FOLDERS: usize = 1 << 16;

/// All names of one file together, bytes: in a file that was made to do harm, each entry may name
/// the same long text.
const MAX_NAMES: usize = 1 << 17;

/// The requests of a program or library to the dynamic linker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// The libraries that the file needs (`DT_NEEDED`, and the filters `DT_AUXILIARY` and
    /// `DT_FILTER`), as they are written in the file, in its order.
    pub needed: Vec<Vec<u8>>,
    /// Folders to search for the file's libraries and for their libraries (`DT_RPATH`), separated
    /// by colons.
    pub rpath: Option<Vec<u8>>,
    /// Folders to search for the file's own libraries (`DT_RUNPATH`), separated by colons.
    pub runpath: Option<Vec<u8>>,
    /// The name under which other files need this file (`DT_SONAME`).
    pub soname: Option<Vec<u8>>,
}

impl Dynamic {
    /// Reads the table of a file; returns an empty one if the file has no table.
    ///
    /// Names that are longer than any file's are left out.
    ///
    /// # Errors
    /// The file is not a sound 64-bit x86 ELF file.
    pub fn of(image: &[u8]) -> Result<Self, ElfError> {
        let mut found = Self::default();
        let segments = load_segments(image)?;
        let mut table = None;
        for header in program_headers(image)? {
            table = table.or(header.dynamic(LE, image)?);
        }
        let entries = || {
            let table = table.unwrap_or_default().iter().take(MAX_ENTRIES);
            table
                .map(|entry| (entry.d_tag(LE), entry.d_val(LE)))
                .take_while(|(tag, _)| *tag != elf::DT_NULL)
        };
        let last = |wanted| {
            let values = entries().filter(|(tag, _)| *tag == wanted);
            values.last().map(|(_, value)| value)
        };
        let strings = last(elf::DT_STRTAB).and_then(|at| data_at(image, &segments, at));
        let strings = strings.unwrap_or_default();
        let text = |offset: u64, most: usize| {
            let rest = strings.get(usize::try_from(offset).ok()?..)?;
            let length = memchr(0, &rest[..rest.len().min(most)])?;
            Some(rest[..length].to_vec())
        };
        let mut left = MAX_NAMES;
        for (tag, value) in entries() {
            match tag {
                elf::DT_NEEDED | elf::DT_AUXILIARY | elf::DT_FILTER => {
                    if let Some(name) = text(value, MAX_NAME.min(left)) {
                        left -= name.len();
                        found.needed.push(name);
                    }
                }
                elf::DT_RPATH => found.rpath = text(value, MAX_FOLDERS),
                elf::DT_RUNPATH => found.runpath = text(value, MAX_FOLDERS),
                elf::DT_SONAME => found.soname = text(value, MAX_NAME),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Size of all texts, bytes.
    pub fn bytes(&self) -> usize {
        let lists = [&self.rpath, &self.runpath, &self.soname];
        let texts = lists.into_iter().flatten().chain(&self.needed);
        texts.map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::build;
    use super::*;

    const MAIN: &str = "int main(void) { return 0; }";

    #[test]
    fn what_a_linked_file_asks_for_is_read() {
        let options = [
            "-Wl,--no-as-needed",
            "-lm",
            "-Wl,--enable-new-dtags,-rpath,/a:$ORIGIN/b",
        ];
        let program = Dynamic::of(&build("gcc", &options, MAIN)).unwrap();
        assert_eq!(program.needed, [&b"libm.so.6"[..], b"libc.so.6"]);
        assert_eq!(program.runpath.as_deref(), Some(&b"/a:$ORIGIN/b"[..]));
        assert_eq!((program.rpath, program.soname), (None, None));

        let options = [
            "-shared",
            "-fPIC",
            "-Wl,-soname,libx.so.1",
            "-Wl,--disable-new-dtags,-rpath,/c",
            "-Wl,-f,libfilter.so",
        ];
        let library = Dynamic::of(&build("gcc", &options, "int x;")).unwrap();
        assert_eq!(library.soname.as_deref(), Some(&b"libx.so.1"[..]));
        assert_eq!(library.rpath.as_deref(), Some(&b"/c"[..]));
        assert!(library.needed.contains(&b"libfilter.so".to_vec()));
        assert!(library.runpath.is_none());

        let image = build("gcc", &["-static"], MAIN);
        assert_eq!(Dynamic::of(&image).unwrap(), Dynamic::default());
    }
}
