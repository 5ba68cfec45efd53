//! Everything that a program has written, to be shown when the screen is gone. Kept in a file
//! without a name: so it takes no memory of sbt, and leaves nothing behind.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
};

use sbt_program::access;

/// How much is kept in memory if it cannot be in a file, bytes.
const MEMORY: usize = 16 << 20;

/// The bytes that a program has written.
#[derive(Debug)]
pub struct Kept {
    /// Holds the first bytes; `None` if there can be no file.
    file: Option<File>,
    /// The number of bytes that are in the file.
    in_file: u64,
    /// Why the file takes no more bytes.
    full: Option<io::Error>,
    /// The last of the bytes that did not go into the file.
    memory: VecDeque<u8>,
    /// The number of bytes that are in neither.
    lost: u64,
}

impl Kept {
    /// With no bytes. The file is made in the folder for temporary files.
    pub fn new() -> Self {
        // The environment names the folder, so the caller's rights must do.
        let file = access::as_caller(|| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .mode(0o600)
                .custom_flags(libc::O_TMPFILE)
                .open(std::env::temp_dir())
        });
        let file = file.and_then(|file| file);
        let (file, full) = match file {
            Ok(file) => (Some(file), None),
            Err(error) => (None, Some(error)),
        };
        Self::with(file, full)
    }

    fn with(file: Option<File>, full: Option<io::Error>) -> Self {
        Self {
            file,
            in_file: 0,
            full,
            memory: VecDeque::new(),
            lost: 0,
        }
    }

    /// Keeps these bytes as well.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let (Some(file), None, false) = (&self.file, &self.full, bytes.is_empty()) {
            match file.write_at(bytes, self.in_file) {
                Ok(0) => self.full = Some(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.in_file += written as u64;
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.full = Some(error),
            }
        }
        let over = (self.memory.len() + bytes.len()).saturating_sub(MEMORY);
        let old = over.min(self.memory.len());
        self.memory.drain(..old);
        self.memory.extend(&bytes[over - old..]);
        self.lost += over as u64;
    }

    /// The amount of output that was dropped, in words; `None` if nothing was.
    pub fn note(&self) -> Option<String> {
        let why = self.full.as_ref().filter(|_| self.lost > 0)?;
        Some(format!(
            "{} bytes of the program's output could not be kept in {}: {why}",
            self.lost,
            std::env::temp_dir().display(),
        ))
    }

    /// Copies bytes from a position on, as many as fit. Returns how many. Lost bytes have no
    /// position.
    pub fn read(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.len() - position.min(self.len());
        let wanted = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if let (Some(file), true) = (&self.file, position < self.in_file) {
            let in_file = usize::try_from(self.in_file - position)
                .map_or(wanted, |in_file| in_file.min(wanted));
            return file.read_at(&mut buffer[..in_file], position);
        }
        let from = usize::try_from(position.saturating_sub(self.in_file)).unwrap_or(usize::MAX);
        let bytes = self.memory.iter().skip(from);
        let filled = buffer[..wanted].iter_mut().zip(bytes);
        Ok(filled.map(|(to, byte)| *to = *byte).count())
    }

    /// The position at which bytes are missing, if any are lost.
    pub fn gap(&self) -> Option<u64> {
        (self.lost > 0).then_some(self.in_file)
    }

    /// The number of bytes that are kept.
    pub fn len(&self) -> u64 {
        self.in_file + self.memory.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(kept: &Kept) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 1_000];
        while let Ok(n @ 1..) = kept.read(bytes.len() as u64, &mut buffer) {
            bytes.extend_from_slice(&buffer[..n]);
        }
        bytes
    }

    #[test]
    fn everything_comes_back() {
        let mut kept = Kept::new();
        let expected: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        for piece in expected.chunks(777) {
            kept.push(piece);
        }
        assert_eq!(all(&kept), expected);
        assert_eq!(kept.len(), 400_000);
        assert_eq!((kept.note(), kept.gap()), (None, None));
    }

    #[test]
    fn without_a_file_the_newest_are_kept() {
        let mut kept = Kept::with(None, Some(io::ErrorKind::PermissionDenied.into()));
        kept.push(b"old");
        assert_eq!(all(&kept), b"old");
        assert_eq!(kept.note(), None);
        kept.push(&vec![b'x'; MEMORY - 1]);
        kept.push(b"new");
        let bytes = all(&kept);
        assert_eq!(bytes.len(), MEMORY);
        assert!(bytes.ends_with(b"xnew"));
        assert_eq!(kept.gap(), Some(0));
        assert!(kept.note().unwrap().starts_with("5 bytes"));
        kept.push(&vec![b'y'; MEMORY + 7]);
        assert_eq!(all(&kept), vec![b'y'; MEMORY]);
    }

    #[test]
    fn a_full_disc_is_told() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut kept = Kept::with(Some(full), None);
        kept.push(&vec![b'x'; MEMORY]);
        kept.push(b"abc");
        assert!(all(&kept).ends_with(b"xabc"));
        let note = kept.note().unwrap();
        assert!(
            note.starts_with("3 bytes") && note.contains("No space left"),
            "{note}"
        );
    }
}
