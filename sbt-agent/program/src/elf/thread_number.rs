//! Where a C library keeps the number of a thread. glibc tells debuggers (`nptl_db`): a constant of
//! three words has the size in bits, the number of elements and the offset in `struct pthread`, to
//! which the thread pointer points.

use object::{LittleEndian, read::elf::ElfFile64};

use super::{load_segments, names};

/// The constant for `struct pthread`'s field `tid`.
const NAME: &[u8] = b"_thread_db_pthread_tid";

/// The largest offset that is believed, bytes.
const MOST: u32 = 1 << 16;

/// The distance from a thread's pointer to its number, bytes. `None` if the file does not tell.
pub fn thread_number(image: &[u8]) -> Option<u32> {
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    if !names::may_hold(&file, NAME) {
        return None;
    }
    let address = names::defined(&file)
        .find(|symbol| symbol.name == NAME)
        .map(|symbol| symbol.address())?;
    let segments = load_segments(image).ok()?;
    let offset = segments
        .iter()
        .find_map(|segment| segment.file_offset(address))?;
    let bytes = image.get(usize::try_from(offset).ok()?..)?;
    let (words, _) = bytes.get(..12)?.as_chunks::<4>();
    let [bits, elements, offset] = [0, 1, 2].map(|at: usize| u32::from_le_bytes(words[at]));
    (bits == 32 && elements == 1 && offset.is_multiple_of(4) && offset < MOST).then_some(offset)
}

#[cfg(test)]
mod tests {
    use std::{arch::asm, fs, process::Command};

    use super::*;

    #[test]
    fn glibc_tells_where_the_number_is() {
        let output = Command::new("gcc")
            .arg("-print-file-name=libc.so.6")
            .output()
            .unwrap();
        let path = String::from_utf8(output.stdout).unwrap();
        let image = fs::read(path.trim_end()).unwrap();
        let at = thread_number(&image).unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let own = fs::canonicalize(path.trim_end()).unwrap();
        if maps.contains(own.to_str().unwrap()) {
            let number: u32;
            // SAFETY: reads a word of the thread's own data.
            unsafe { asm!("mov {0:e}, fs:[{1}]", out(reg) number, in(reg) u64::from(at)) };
            assert_eq!(number, nix::unistd::gettid().as_raw().cast_unsigned());
        }
        assert_eq!(thread_number(b"\x7fELF"), None);
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(thread_number(&program), None);
    }
}
