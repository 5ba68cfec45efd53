//! Programs for this processor: their machine, their relocations, and where their dynamic linkers
//! lie.

use object::elf;

/// `e_machine` of the files.
pub const MACHINE: u16 = elf::EM_X86_64.0;

/// Relocations: the address of something in the file itself, plus the load address.
pub const RELATIVE: elf::RelocationType = elf::R_X86_64_RELATIVE;
/// Relocations: the address of a symbol, for data.
pub const ABSOLUTE: elf::RelocationType = elf::R_X86_64_64;
/// Relocations: the address of a symbol, for calls and for code that loads the address.
pub const SLOTS: [elf::RelocationType; 2] = [elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT];

/// The flags of an entry for a library of glibc in the list that `ldconfig` writes.
pub const IN_CACHE: u32 = 0x0303;

/// The folders that glibc's dynamic linker searches last, as distributions build it.
pub const FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Where musl's dynamic linker looks for its list of folders, below the folder that contains the
/// linker's own.
pub const MUSL_FOLDERS: &str = "etc/ld-musl-x86_64.path";

/// C libraries and linkers by the names that distributions give them.
pub const WELL_KNOWN: [&str; 7] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib64/libc.so.6",
    "/usr/lib/libc.so.6",
    "/lib/libc.so.6",
    "/lib/ld-musl-x86_64.so.1",
];
