//! Where distributions put debug information: into separate files, found by the same rules as
//! gdb's.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use memmap2::Mmap;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object};

use crate::access::target;
use crate::elf::{build_id, load_segments, map};

/// The global folder of debug files, below the target's root.
const DEBUG: &str = "usr/lib/debug";

/// Where a file lies, as its process sees it.
#[derive(Clone, Copy)]
pub(super) struct FileLocation<'a> {
    /// The file's path in the target.
    pub(super) logical: &'a Path,
    /// Where sbt finds the target's `/`.
    pub(super) root: &'a Path,
}

/// A debug file that was found.
pub(super) struct Separate {
    pub(super) map: Mmap,
    /// The path of the debug file in the target.
    pub(super) path: PathBuf,
}

impl Separate {
    /// Maps a file below `root` if `wanted` accepts it and it is not the stripped file itself.
    fn open(
        root: &Path,
        path: PathBuf,
        stripped: Option<&Metadata>,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Option<Self> {
        let file = target::open_below(root, &path).ok()?;
        let metadata = file.metadata().ok()?;
        // A debug link may lead to the very file that contains the link.
        let itself = stripped.is_some_and(|stripped| {
            (stripped.dev(), stripped.ino()) == (metadata.dev(), metadata.ino())
        });
        if itself {
            return None;
        }
        let map = map(&file).ok()?;
        load_segments(&map).ok()?;
        wanted(&map).then_some(Self { map, path })
    }
}

impl FileLocation<'_> {
    /// Where the link at a path of the target leads, as sbt reads it.
    fn leads(&self, path: &Path) -> Option<PathBuf> {
        fs::read_link(self.in_root(path)).ok()
    }

    /// A path of the target, as sbt sees it. Absolute links in the path lead into sbt's own root.
    fn in_root(&self, path: &Path) -> PathBuf {
        let inside = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        self.root.join(inside.collect::<PathBuf>())
    }

    /// The debug file of a stripped file: by build id, or else by debug link.
    pub(super) fn separate(&self, image: &[u8], stripped: &Metadata) -> Option<Separate> {
        let id = build_id(image);
        let by_id = id.as_deref().and_then(|id| {
            Separate::open(self.root, by_build_id(id)?, Some(stripped), |found| {
                build_id(found).as_deref() == Some(id)
            })
        });
        by_id.or_else(|| self.by_link(image, id.as_deref(), stripped))
    }

    /// The debug file by the name and checksum in `.gnu_debuglink`.
    fn by_link(&self, image: &[u8], id: Option<&[u8]>, stripped: &Metadata) -> Option<Separate> {
        let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
        let (name, checksum) = file.gnu_debuglink().ok()??;
        let name = Path::new(OsStr::from_bytes(name));
        // Only a name is accepted, not a path: the link must not choose the folder.
        if !matches!(name.components().next(), Some(Component::Normal(part)) if part == name) {
            return None;
        }
        let folder = self.logical.parent()?;
        let global = Path::new("/")
            .join(DEBUG)
            .join(folder.strip_prefix("/").unwrap_or(folder));
        [folder, &folder.join(".debug"), &global]
            .into_iter()
            .find_map(|folder| {
                Separate::open(self.root, folder.join(name), Some(stripped), |found| {
                    // The build id says as much as the checksum, and does not require reading the
                    // whole file, which may be gigabytes.
                    match (id, build_id(found)) {
                        (Some(id), Some(found)) => id == found,
                        _ => crc32(found) == checksum,
                    }
                })
            })
    }

    /// The file that dwz moved a part of `image` to: `.gnu_debugaltlink`. `path` is the path of
    /// `image` in the target.
    pub(super) fn supplementary(&self, image: &[u8], path: &Path) -> Option<Mmap> {
        let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
        let (name, id) = file.gnu_debugaltlink().ok()??;
        let name = Path::new(OsStr::from_bytes(name));
        let mut candidates = Vec::from_iter(by_build_id(id));
        let folder = path.parent()?;
        // An absolute name replaces the folder.
        candidates.push(folder.join(name));
        if name.is_relative() {
            // The name is relative to the debug file, to which the path by build id is only a link.
            let real = self.leads(path).map(|leads| folder.join(leads));
            candidates.extend(real.and_then(|real| Some(real.parent()?.join(name))));
        }
        let found = candidates.into_iter().find_map(|path| {
            let is_it = |found: &[u8]| build_id(found).as_deref() == Some(id);
            Separate::open(self.root, path, None, is_it)
        });
        found.map(|found| found.map)
    }
}

/// `.build-id/ab/cdef….debug` in the global folder.
fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    let mut name = format!("/{DEBUG}/.build-id/{first:02x}/");
    for byte in rest {
        write!(name, "{byte:02x}").ok()?;
    }
    Some(PathBuf::from(name + ".debug"))
}

/// The checksum of `.gnu_debuglink`: CRC-32 as in ISO 3309 and zlib.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0u32;
        while at < 256 {
            let mut rest = at;
            let mut bit = 0;
            while bit < 8 {
                rest = (rest >> 1) ^ (0xedb8_8320 * (rest & 1));
                bit += 1;
            }
            table[at as usize] = rest;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ (sum >> 8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn paths_stay_below_the_root() {
        let place = FileLocation {
            logical: Path::new("/a"),
            root: Path::new("/proc/1/root"),
        };
        for (path, expected) in [
            ("/usr/lib/x", "/proc/1/root/usr/lib/x"),
            ("relative", "/proc/1/root/relative"),
            ("/../../etc", "/proc/1/root/etc"),
        ] {
            assert_eq!(place.in_root(Path::new(path)), Path::new(expected));
        }
        assert_eq!(by_build_id(&[]), None);
        assert_eq!(by_build_id(&[1]), None);
        let path = by_build_id(&[0xab, 0xcd, 0xef]).unwrap();
        assert_eq!(
            place.in_root(&path),
            Path::new("/proc/1/root/usr/lib/debug/.build-id/ab/cdef.debug")
        );
    }
}
