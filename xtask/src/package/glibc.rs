//! The glibc that the binary needs: the newest version that one of its symbols requires.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, SectionHeader as _};

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
}

/// The version that docs/limits.md promises.
pub const BASELINE: Version = Version {
    major: 2,
    minor: 34,
};

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Parses `2.34`; anything after a second point is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        Some(Self { major, minor })
    }
}

/// The version that the binary needs.
///
/// # Errors
/// If it is newer than the promised version.
pub fn check(binary: &Path) -> Result<Version> {
    let data = fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let needs =
        needed(&data)?.with_context(|| format!("{} is not linked with glibc", binary.display()))?;
    ensure!(
        needs <= BASELINE,
        "{} needs glibc {needs}, and docs/limits.md promises {BASELINE}: build on an older Debian, \
         or change both",
        binary.display()
    );
    Ok(needs)
}

/// The newest version of glibc that a symbol of an ELF file requires; `None` if no symbol does.
fn needed(data: &[u8]) -> Result<Option<Version>> {
    let header = FileHeader64::<LittleEndian>::parse(data).context("no ELF file")?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let mut newest = None;
    for section in sections.iter() {
        let Some((mut needs, link)) = section.gnu_verneed(endian, data)? else {
            continue;
        };
        let strings = sections.strings(endian, data, link)?;
        while let Some((_, mut versions)) = needs.next()? {
            while let Some(version) = versions.next()? {
                let name = version.name(endian, strings)?;
                newest = newest.max(of_glibc(name));
            }
        }
    }
    Ok(newest)
}

/// Returns 2.34 for `GLIBC_2.34`; `None` for other libraries and for `GLIBC_PRIVATE`.
fn of_glibc(name: &[u8]) -> Option<Version> {
    let name = std::str::from_utf8(name).ok()?;
    Version::parse(name.strip_prefix("GLIBC_")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_numbers() {
        let all = [
            "GLIBC_2.4",
            "GLIBC_2.34",
            "GCC_3.0",
            "GLIBC_2.2.5",
            "GLIBC_PRIVATE",
        ];
        let newest = all
            .iter()
            .filter_map(|name| of_glibc(name.as_bytes()))
            .max();
        assert_eq!(newest, Some(BASELINE));
        assert_eq!(newest.unwrap().to_string(), "2.34");
        assert_eq!(of_glibc(b"GLIBC_PRIVATE"), None);
        assert_eq!(of_glibc(b"GCC_3.0"), None);
    }

    #[test]
    fn a_binary_says_what_it_needs() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = needed(&own).unwrap().unwrap();
        // The Rust standard library uses functions of this version.
        assert!(needs >= Version::parse("2.17").unwrap(), "{needs}");
        assert!(needed(b"#!/bin/sh\n").is_err());
    }

    #[test]
    fn the_promise_is_kept_where_users_read_it() {
        let page = include_str!("../../../docs/limits.md");
        assert!(page.contains(&format!("glibc {BASELINE} or later")));
    }
}
