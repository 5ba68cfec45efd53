//! Lists as `ldconfig` writes them, and damaged lists.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, path::Path};

use proptest::prelude::*;

use super::*;

/// An entry: name, path, flags, hwcap.
type Entry<'a> = (&'a str, &'a str, u32, u64);

/// A list with these entries.
fn list(entries: &[Entry<'_>]) -> Vec<u8> {
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
    let mut out = MAGIC.to_vec();
    let count = u32::try_from(entries.len()).unwrap();
    let length = u32::try_from(strings.len()).unwrap();
    for word in [count, length, 2, 0, 0, 0, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(body);
    out.extend(strings);
    out
}

#[test]
fn the_file_for_every_processor_is_taken() {
    let entries = [
        ("libb.so", "/lib/hwcaps/v2/libb.so", IN_CACHE, 1 << 62),
        ("libb.so", "/lib/haswell/libb.so", IN_CACHE, 1 << 52),
        ("libb.so", "/lib/libb.so", IN_CACHE, 0),
        ("libb.so", "/opt/libb.so", IN_CACHE, 0),
        // Entries of another processor, of 32 bits, and of glibc's other kinds.
        ("liba.so", "/lib32/liba.so", 0x0003, 0),
        ("liba.so", "/libx32/liba.so", 0x0803, 0),
    ];
    let cache = Cache::read(&list(&entries));
    assert_eq!(cache.get(b"libb.so"), Some(&b"/lib/libb.so"[..]));
    assert_eq!(cache.get(b"liba.so"), None);
}

#[test]
fn the_list_may_lie_behind_an_old_one() {
    let new = list(&[("libb.so", "/lib/libb.so", IN_CACHE, 0)]);
    for entries in [0_u32, 1, 2, 3] {
        let mut bytes = OLD_MAGIC.to_vec();
        bytes.push(0);
        bytes.extend(entries.to_le_bytes());
        bytes.extend(vec![0xff; 12 * entries as usize]);
        while !bytes.len().is_multiple_of(8) {
            bytes.push(0);
        }
        bytes.extend(&new);
        let cache = Cache::read(&bytes);
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
    let cache = Cache::read(&bytes);
    let libc = std::str::from_utf8(cache.get(b"libc.so.6").unwrap()).unwrap();
    assert!(Path::new(libc).exists(), "{libc}");
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _empty = Cache::read(&bytes);
        let behind = [MAGIC, &bytes].concat();
        let _some = Cache::read(&behind);
    }

    /// Changed bytes never give anything that the list does not hold.
    #[test]
    fn damaged_lists(at in 0_usize..300, byte in any::<u8>(), cut in 0_usize..300) {
        let entries = [
            ("libb.so", "/lib/libb.so", IN_CACHE, 0),
            ("libc.so", "/lib/libc.so", IN_CACHE, 0),
        ];
        let mut bytes = list(&entries);
        if let Some(old) = bytes.get_mut(at) {
            *old = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        let cache = Cache::read(&bytes);
        for (name, path) in &cache.0 {
            prop_assert!(memchr::memmem::find(&bytes, name).is_some());
            prop_assert!(memchr::memmem::find(&bytes, path).is_some());
        }
    }
}
