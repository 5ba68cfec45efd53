//! The C library whose barrier functions a file defines.
//!
//! A wrong answer would read nonsense out of barrier objects, while no answer only costs the
//! participant count: so a file must prove its C library. In particular a program or tool that
//! defines `pthread_barrier_wait` itself on top of a C library proves nothing about its own object.

use object::LittleEndian;
use object::elf;
use object::read::elf::{ElfFile64, Sym};
use sbt_common::layout;

use super::{LE, Segment, Table, is_text, strings, text_at};

/// The most version entries that are looked at; a C library has some forty.
const MAX_VERSIONS: usize = 512;

/// The first glibc with the present layout of `struct pthread_barrier`.
const FIRST_GLIBC: (u32, u32) = (2, 25);

/// Symbols that are part of glibc's start-up or thread code and of nothing else.
const GLIBC_SYMBOLS: [&str; 6] = [
    "__libc_early_init",
    "_dl_relocate_static_pie",
    "__libc_setup_tls",
    "_dl_non_dynamic_init",
    "__pthread_initialize_minimal",
    "gnu_get_libc_version",
];

/// Symbols that only musl has: static programs have the first three, libc.so the others.
const MUSL_SYMBOLS: [&str; 5] = ["__vm_lock", "__vm_wait", "__init_libc", "__dls2b", "__dls3"];

/// The string that glibc keeps for `libthread_db`: its version number.
const VERSION_SYMBOL: &str = "nptl_version";

/// The signs in a file of the C library that it is or contains.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent observations")]
pub(super) struct Evidence {
    /// The file defines symbol versions named `GLIBC_…`: it is a part of glibc.
    defines_glibc: bool,
    /// The file needs symbol versions named `GLIBC_…`: it uses glibc, and is not a part of it.
    needs_glibc: bool,
    /// The file calls itself `libc.musl-…`.
    musl_name: bool,
    glibc_symbol: bool,
    musl_symbol: bool,
    /// glibc's version, if the file tells.
    glibc_version: Option<(u32, u32)>,
}

impl Evidence {
    /// Reads symbol versions and the shared object's name.
    pub(super) fn of_versions(file: &ElfFile64<'_, LittleEndian>) -> Self {
        Self {
            defines_glibc: defines_glibc(file).unwrap_or_default(),
            needs_glibc: needs_glibc(file).unwrap_or_default(),
            musl_name: has_musl_name(file).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Looks for telling names among the symbols that a table defines.
    pub(super) fn add_symbols(
        &mut self,
        file: &ElfFile64<'_, LittleEndian>,
        table: &Table<'_>,
        segments: &[Segment],
    ) {
        let names = strings(file, table.string_section());
        for symbol in table.iter().filter(|symbol| !symbol.is_undefined(LE)) {
            let text = text_at(names, symbol.st_name(LE));
            let is_one_of = |list: &[&str]| list.iter().any(|name| is_text(text, name));
            self.glibc_symbol |= is_one_of(&GLIBC_SYMBOLS);
            self.musl_symbol |= is_one_of(&MUSL_SYMBOLS);
            if self.glibc_version.is_none() && is_text(text, VERSION_SYMBOL) {
                let start = segments
                    .iter()
                    .find_map(|segment| segment.file_offset(symbol.st_value(LE)))
                    .and_then(|start| usize::try_from(start).ok());
                self.glibc_version = start
                    .and_then(|start| file.data().get(start..))
                    .and_then(version);
            }
        }
    }

    /// The conclusion, one of [`sbt_common::layout`].
    pub(super) fn layout(self) -> u8 {
        let is_glibc = self.defines_glibc || (self.glibc_symbol && !self.needs_glibc);
        let is_musl = (self.musl_name || self.musl_symbol) && !self.needs_glibc;
        let too_old = self
            .glibc_version
            .is_some_and(|version| version < FIRST_GLIBC);
        match (is_glibc, is_musl) {
            (true, false) if !too_old => layout::GLIBC,
            (false, true) => layout::MUSL,
            _ => layout::OPAQUE,
        }
    }
}

/// Parses a version like "2.36", ended by a zero.
fn version(text: &[u8]) -> Option<(u32, u32)> {
    let text = &text[..text.len().min(16)];
    let end = text.iter().position(|&byte| byte == 0)?;
    let (major, minor) = std::str::from_utf8(&text[..end]).ok()?.split_once('.')?;
    // A third number ("2.12.2") decides nothing.
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn defines_glibc(file: &ElfFile64<'_, LittleEndian>) -> Option<bool> {
    let (versions, section) = file
        .elf_section_table()
        .gnu_verdef(LE, file.data())
        .ok()??;
    let names = strings(file, section);
    let found = versions
        .take(MAX_VERSIONS)
        .map_while(Result::ok)
        .filter_map(|(_, mut names)| names.next().ok()?)
        .any(|name| text_at(names, name.vda_name.get(LE)).starts_with(b"GLIBC_"));
    Some(found)
}

fn needs_glibc(file: &ElfFile64<'_, LittleEndian>) -> Option<bool> {
    let (needs, section) = file
        .elf_section_table()
        .gnu_verneed(LE, file.data())
        .ok()??;
    let names = strings(file, section);
    let found = needs
        .take(MAX_VERSIONS)
        .map_while(Result::ok)
        .flat_map(|(_, versions)| versions.take(MAX_VERSIONS).map_while(Result::ok))
        .any(|name| text_at(names, name.vna_name.get(LE)).starts_with(b"GLIBC_"));
    Some(found)
}

fn has_musl_name(file: &ElfFile64<'_, LittleEndian>) -> Option<bool> {
    let (entries, section) = file.elf_section_table().dynamic(LE, file.data()).ok()??;
    let names = strings(file, section);
    let name = entries
        .iter()
        .find(|entry| entry.d_tag.get(LE) == elf::DT_SONAME)?;
    let offset = u32::try_from(name.d_val.get(LE)).ok()?;
    Some(text_at(names, offset).starts_with(b"libc.musl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_decides() {
        let none = Evidence::default();
        let glibc = Evidence {
            glibc_symbol: true,
            ..none
        };
        let musl = Evidence {
            musl_symbol: true,
            ..none
        };
        assert_eq!(none.layout(), layout::OPAQUE);
        assert_eq!(glibc.layout(), layout::GLIBC);
        assert_eq!(musl.layout(), layout::MUSL);
        let contradiction = Evidence {
            musl_symbol: true,
            ..glibc
        };
        assert_eq!(contradiction.layout(), layout::OPAQUE);
        let part_of_glibc = Evidence {
            defines_glibc: true,
            needs_glibc: true,
            ..none
        };
        assert_eq!(part_of_glibc.layout(), layout::GLIBC);
        let interposer = Evidence {
            needs_glibc: true,
            ..glibc
        };
        assert_eq!(interposer.layout(), layout::OPAQUE);
    }

    #[test]
    fn the_layout_changed_in_glibc_2_25() {
        for (text, expected) in [
            ("2.24\0", layout::OPAQUE),
            ("2.25\0", layout::GLIBC),
            ("2.36\0", layout::GLIBC),
            ("2.12.2\0", layout::OPAQUE),
            ("nonsense\0", layout::GLIBC),
            ("2.99999999999999\0", layout::GLIBC),
            ("2.24", layout::GLIBC),
            ("", layout::GLIBC),
        ] {
            let evidence = Evidence {
                defines_glibc: true,
                glibc_version: version(text.as_bytes()),
                ..Evidence::default()
            };
            assert_eq!(evidence.layout(), expected, "{text:?}");
        }
    }
}
