//! A place of the target at which a jump stands.
//!
//! Other tools may put a kernel probe or a breakpoint on it. A kernel probe that goes writes the first byte of
//! the *file's* instruction back. If that is not the jump's, the program's other bytes must be there by then. A
//! debugger writes the byte back that it has found, the jump's: then the rest of the jump must still be
//! there.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt as _};

use sbt_program::{arch::BREAKPOINT, trace};

/// A place at which a jump stands, or is about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Armed {
    at: u64,
    /// The program's own bytes.
    original: Vec<u8>,
    /// As many bytes.
    jump: Vec<u8>,
    /// Whether a probe or a breakpoint stood there at the last look.
    covered: bool,
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Jump,
    /// A probe or a breakpoint on the jump: nothing is noted as long as it is there.
    Covered,
    /// The first byte of the program's instruction, and the rest of the jump. Only where the two have
    /// different first bytes.
    Halved,
    Other,
}

/// What other tools have done to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A probe or a breakpoint stands on the jump, and hides what comes there as long as it does.
    Covered,
    /// The program's own instruction is there, and nothing is noted any more.
    Lost,
}

impl Armed {
    /// A place at `at` whose code begins with `original`, which is at least as long as the jump.
    pub fn new(at: u64, original: &[u8], jump: Vec<u8>) -> Self {
        Self {
            at,
            original: original[..jump.len()].to_vec(),
            jump,
            covered: false,
        }
    }

    /// The address of the instruction.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The place as a line of text, for [`Armed::read`].
    pub fn written(&self) -> String {
        let [original, jump] = [&self.original, &self.jump].map(|bytes| {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<Vec<_>>().concat()
        });
        format!("{:x} {original} {jump}", self.at)
    }

    /// Reads what [`Armed::written`] has written.
    pub fn read(text: &str) -> Option<Self> {
        let bytes = |text: &str| -> Option<Vec<u8>> {
            let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
                return None;
            };
            let byte = |pair: &[u8; 2]| {
                let pair = str::from_utf8(pair).ok()?;
                u8::from_str_radix(pair, 16).ok()
            };
            pairs.iter().map(byte).collect()
        };
        let mut words = text.split(' ');
        let at = u64::from_str_radix(words.next()?, 16).ok()?;
        let (original, jump) = (bytes(words.next()?)?, bytes(words.next()?)?);
        let fits = original.len() == jump.len() && !jump.is_empty();
        fits.then(|| Self::new(at, &original, jump))
    }

    /// Whether some of these addresses are among the bytes of the jump.
    pub const fn touches(&self, range: &Range<u64>) -> bool {
        self.at < range.end && range.start < self.at + self.jump.len() as u64
    }

    /// Writes the jump. All threads stand.
    ///
    /// # Errors
    /// The memory cannot be written.
    pub fn put(&self, memory: &File) -> io::Result<()> {
        // One write within a page: no moment has a part of it.
        trace::write(memory, &self.jump, self.at)
    }

    /// Whether a probe or a breakpoint stood there at the last look.
    pub const fn is_covered(&self) -> bool {
        self.covered
    }

    /// Whether the jump stands there, perhaps under a probe.
    pub fn is_there(&self, memory: &File) -> bool {
        let stands = self.stands(memory);
        matches!(stands, Some(Standing::Jump | Standing::Covered))
    }

    /// Whether anything of the jump is there.
    pub fn is_left(&self, memory: &File) -> bool {
        let stands = self.stands(memory);
        stands.is_some_and(|stands| stands != Standing::Other)
    }

    /// Puts the program's own bytes back; all threads stand.
    ///
    /// # Errors
    /// Something else stands there and is left as it is, or the memory cannot be written. No error where
    /// the place is unmapped or the process gone.
    pub fn restore(&self, memory: &File) -> io::Result<()> {
        match self.stands(memory) {
            Some(Standing::Jump) => trace::write(memory, &self.original, self.at),
            Some(Standing::Covered | Standing::Halved) => self.write_behind_first(memory),
            Some(Standing::Other) => Err(io::ErrorKind::Other.into()),
            None => Ok(()),
        }
    }

    /// What other tools have done since the last look, and whether the jump stays. `is_traced`: whether a
    /// debugger may have put its breakpoint there.
    pub fn look_for_probe(
        &mut self,
        memory: &File,
        is_traced: impl FnOnce() -> bool,
    ) -> (Option<Fate>, bool) {
        let keeps_first = self.jump[0] == self.original[0];
        match self.stands(memory) {
            Some(Standing::Covered) if keeps_first || is_traced() => {
                let is_new = !std::mem::replace(&mut self.covered, true);
                (is_new.then_some(Fate::Covered), true)
            }
            Some(Standing::Covered | Standing::Halved) => {
                let written = self.write_behind_first(memory);
                (Some(Fate::Lost), written.is_err())
            }
            _ => {
                self.covered = false;
                (None, true)
            }
        }
    }

    /// What stands at the place; `None` if it is unmapped, or the process gone.
    fn stands(&self, memory: &File) -> Option<Standing> {
        let mut there = vec![0; self.jump.len()];
        let read = memory.read_exact_at(&mut there, self.at);
        read.is_ok().then(|| self.told_by(&there))
    }

    /// What these bytes at the place are.
    fn told_by(&self, there: &[u8]) -> Standing {
        if there == self.jump {
            return Standing::Jump;
        }
        match there.split_first() {
            Some((_, rest)) if rest != &self.jump[1..] => Standing::Other,
            Some((&BREAKPOINT, _)) => Standing::Covered,
            Some((first, _)) if *first == self.original[0] => Standing::Halved,
            _ => Standing::Other,
        }
    }

    /// Writes the program's own bytes behind the first one. Under a probe no thread executes them; without
    /// one they are wrong already.
    fn write_behind_first(&self, memory: &File) -> io::Result<()> {
        trace::write(memory, &self.original[1..], self.at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_at_a_place_is_told_by_its_bytes() {
        let lost = Armed::new(0, &[0xb8, 1, 2, 3, 4, 5], vec![0xe9, 9, 8, 7, 6]);
        for (there, expected) in [
            ([0xe9, 9, 8, 7, 6], Standing::Jump),
            ([0xcc, 9, 8, 7, 6], Standing::Covered),
            ([0xb8, 9, 8, 7, 6], Standing::Halved),
            ([0x90, 9, 8, 7, 6], Standing::Other),
            // The program's own, or a probe on it.
            ([0xb8, 1, 2, 3, 4], Standing::Other),
            ([0xcc, 1, 2, 3, 4], Standing::Other),
        ] {
            assert_eq!(lost.told_by(&there), expected, "{there:x?}");
        }
        let kept = Armed::new(0, &[0xe8, 1, 2, 3, 4], vec![0xe8, 9, 8, 7, 6]);
        assert_eq!(kept.told_by(&[0xe8, 9, 8, 7, 6]), Standing::Jump);
        assert_eq!(kept.told_by(&[0xcc, 9, 8, 7, 6]), Standing::Covered);
    }

    #[test]
    fn what_is_put_in_is_taken_out_and_foreign_bytes_stay() {
        let memory = tempfile::tempfile().unwrap();
        let bytes = || {
            let mut bytes = [0; 5];
            memory.read_exact_at(&mut bytes, 3).unwrap();
            bytes
        };
        let original = [0xb8, 1, 2, 3, 4];
        memory.write_all_at(&original, 3).unwrap();
        let mut armed = Armed::new(3, &original, vec![0xe9, 9, 8, 7, 6]);
        armed.put(&memory).unwrap();
        assert!(armed.is_there(&memory));
        assert_eq!(armed.look_for_probe(&memory, || false), (None, true));
        armed.restore(&memory).unwrap();
        assert_eq!(bytes(), original);
        // A probe that stands is left to whoever has put it there.
        armed.put(&memory).unwrap();
        memory.write_all_at(&[BREAKPOINT], 3).unwrap();
        assert_eq!(
            armed.look_for_probe(&memory, || false),
            (Some(Fate::Lost), false)
        );
        assert_eq!(bytes(), [BREAKPOINT, 1, 2, 3, 4]);
        assert!(armed.restore(&memory).is_err());
        assert_eq!(bytes(), [BREAKPOINT, 1, 2, 3, 4]);
    }

    #[test]
    fn a_debugger_finds_the_jump_again() {
        let memory = tempfile::tempfile().unwrap();
        let jump = vec![0xe9, 9, 8, 7, 6];
        let mut armed = Armed::new(0, &[0xb8, 1, 2, 3, 4], jump.clone());
        armed.put(&memory).unwrap();
        memory.write_all_at(&[BREAKPOINT], 0).unwrap();
        let traced = armed.look_for_probe(&memory, || true);
        assert_eq!(traced, (Some(Fate::Covered), true));
        memory.write_all_at(&jump[..1], 0).unwrap();
        assert_eq!(armed.look_for_probe(&memory, || true), (None, true));
        assert!(armed.is_there(&memory));
        // A kernel probe has come and gone between two looks.
        memory.write_all_at(&[0xb8], 0).unwrap();
        assert!(armed.is_left(&memory) && !armed.is_there(&memory));
        assert_eq!(
            armed.look_for_probe(&memory, || true),
            (Some(Fate::Lost), false)
        );
        assert!(!armed.is_left(&memory));
    }

    #[test]
    fn a_first_byte_that_stays_needs_no_haste() {
        let memory = tempfile::tempfile().unwrap();
        let mut armed = Armed::new(0, &[0xe8, 1, 2, 3, 4], vec![0xe8, 9, 8, 7, 6]);
        armed.put(&memory).unwrap();
        memory.write_all_at(&[BREAKPOINT], 0).unwrap();
        assert_eq!(
            armed.look_for_probe(&memory, || false),
            (Some(Fate::Covered), true)
        );
        assert_eq!(
            armed.look_for_probe(&memory, || false),
            (None, true),
            "told once"
        );
        memory.write_all_at(&[0xe8], 0).unwrap();
        assert_eq!(armed.look_for_probe(&memory, || false), (None, true));
        assert!(armed.is_there(&memory));
        memory.write_all_at(&[BREAKPOINT], 0).unwrap();
        assert_eq!(
            armed.look_for_probe(&memory, || false),
            (Some(Fate::Covered), true)
        );
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let armed = Armed::new(
            0x7f00,
            &[0x48, 0x81, 0xec, 8, 1, 0],
            vec![0x48, 0xe9, 1, 2, 3, 4],
        );
        assert_eq!(Armed::read(&armed.written()), Some(armed));
        for bad in [
            "",
            "7f00",
            "7f00 48",
            "7f00 48 4",
            "x 48 49",
            "7f00 4849 48",
            "1  ",
        ] {
            assert_eq!(Armed::read(bad), None, "{bad}");
        }
    }
}
