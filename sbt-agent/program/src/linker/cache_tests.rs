//! Lists as `ldconfig` writes them, and damaged lists.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, path::Path};

use proptest::prelude::*;

use super::*;
use crate::arch::cpu::Cpu;

/// An entry: name, path, flags, hwcap.
type Entry<'a> = (&'a str, &'a str, u32, u64);

/// A list with these entries, and with these names of subdirectories.
fn list(entries: &[Entry<'_>], folders: &[&str]) -> Vec<u8> {
    let strings_at = HEADER + ENTRY * entries.len();
    let mut strings = Vec::new();
    let mut add = |text: &str| {
        let at = strings_at + strings.len();
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        u32::try_from(at).unwrap()
    };
    let mut body = Vec::new();
    for (name, path, flags, hwcap) in entries {
        let words = [*flags, add(name), add(path), 0];
        body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        body.extend(hwcap.to_le_bytes());
    }
    let names: Vec<u32> = folders.iter().map(|folder| add(folder)).collect();
    while !(strings_at + strings.len()).is_multiple_of(4) {
        strings.push(0);
    }
    let extension = u32::try_from(strings_at + strings.len()).unwrap();
    let mut out = MAGIC.to_vec();
    let count = u32::try_from(entries.len()).unwrap();
    let length = u32::try_from(strings.len()).unwrap();
    for word in [count, length, 2, extension, 0, 0, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(body);
    out.extend(strings);
    let size = 4 * u32::try_from(names.len()).unwrap();
    let section = [EXTENSIONS, 1, NAMES_OF_LEVELS, 0, extension + 24, size];
    for word in section.into_iter().chain(names) {
        out.extend(word.to_le_bytes());
    }
    out
}

fn level(folder: &str) -> Level {
    Level::of_folder(folder.as_bytes()).unwrap()
}

const LEVELS: [&str; 3] = ["x86-64-v2", "x86-64-v3", "x86-64-v4"];

#[test]
fn the_best_file_for_the_processor_is_taken() {
    let entries = [
        ("libb.so", "/lib/hwcaps/v4/libb.so", IN_CACHE, IS_NAMED | 2),
        ("libb.so", "/lib/hwcaps/v2/libb.so", IN_CACHE, IS_NAMED),
        ("libb.so", "/lib/haswell/libb.so", IN_CACHE, 1 << 52),
        ("libb.so", "/lib/libb.so", IN_CACHE, 0),
        ("libb.so", "/opt/libb.so", IN_CACHE, 0),
        // Entries of another processor, of 32 bits, and of glibc's other kinds.
        ("liba.so", "/lib32/liba.so", 0x0003, 0),
        ("liba.so", "/libx32/liba.so", 0x0803, 0),
        // The name of a subdirectory that does not exist.
        ("libc.so", "/lib/none/libc.so", IN_CACHE, IS_NAMED | 9),
    ];
    let bytes = list(&entries, &LEVELS);
    for (level, expected) in [
        (Level::ANY, "/lib/libb.so"),
        (level(LEVELS[0]), "/lib/hwcaps/v2/libb.so"),
        (level(LEVELS[1]), "/lib/hwcaps/v2/libb.so"),
        (level(LEVELS[2]), "/lib/hwcaps/v4/libb.so"),
    ] {
        let cache = Cache::read(&bytes, level);
        assert_eq!(
            cache.get(b"libb.so"),
            Some(expected.as_bytes()),
            "{level:?}"
        );
        assert_eq!(cache.get(b"liba.so"), None);
        assert_eq!(cache.get(b"libc.so"), None);
    }
    // The indices are those of the list, in whatever order the names come.
    let turned = list(&entries, &["x86-64-v4", "other", "x86-64-v2"]);
    let cache = Cache::read(&turned, level(LEVELS[0]));
    assert_eq!(cache.get(b"libb.so"), Some(&b"/lib/hwcaps/v4/libb.so"[..]));
}

#[test]
fn the_list_may_lie_behind_an_old_one() {
    let new = list(&[("libb.so", "/lib/libb.so", IN_CACHE, 0)], &[]);
    for entries in [0_u32, 1, 2, 3] {
        let mut bytes = OLD_MAGIC.to_vec();
        bytes.push(0);
        bytes.extend(entries.to_le_bytes());
        bytes.extend(vec![0xff; 12 * entries as usize]);
        while !bytes.len().is_multiple_of(8) {
            bytes.push(0);
        }
        bytes.extend(&new);
        let cache = Cache::read(&bytes, Level::ANY);
        assert_eq!(
            cache.get(b"libb.so"),
            Some(&b"/lib/libb.so"[..]),
            "{entries}"
        );
    }
}

#[test]
fn the_list_of_this_machine_names_files_that_are_there() {
    let Ok(bytes) = fs::read("/etc/ld.so.cache") else {
        return;
    };
    let cache = Cache::read(&bytes, Cpu::here().level);
    let libc = std::str::from_utf8(cache.get(b"libc.so.6").unwrap()).unwrap();
    assert!(Path::new(libc).exists(), "{libc}");
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _empty = Cache::read(&bytes, Level::ANY);
        let behind = [MAGIC, &bytes].concat();
        let _some = Cache::read(&behind, Level::ANY);
    }

    /// Changed bytes never give anything that the list does not hold.
    #[test]
    fn damaged_lists(at in 0_usize..300, byte in any::<u8>(), cut in 0_usize..300) {
        let entries = [
            ("libb.so", "/lib/libb.so", IN_CACHE, IS_NAMED | 1),
            ("libc.so", "/lib/libc.so", IN_CACHE, 0),
        ];
        let mut bytes = list(&entries, &LEVELS);
        if let Some(old) = bytes.get_mut(at) {
            *old = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        let cache = Cache::read(&bytes, level(LEVELS[2]));
        for (name, path) in &cache.0 {
            prop_assert!(memchr::memmem::find(&bytes, name).is_some());
            prop_assert!(memchr::memmem::find(&bytes, path).is_some());
        }
    }
}
