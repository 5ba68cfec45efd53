//! Facts about the processor for glibc's dynamic linker: the levels of the x86-64 ABI that it
//! supports, and its name in paths.

use std::arch::is_x86_feature_detected as has;

/// A level of the x86-64 ABI. The libraries of each level have a subdirectory of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

/// The subdirectories of `glibc-hwcaps`, the lowest level first.
const FOLDERS: [&[u8]; 3] = [b"x86-64-v2", b"x86-64-v3", b"x86-64-v4"];

impl Level {
    /// The level of every 64-bit x86 processor.
    pub const ANY: Self = Self(0);

    /// The level of a subdirectory of `glibc-hwcaps`.
    pub fn of_folder(name: &[u8]) -> Option<Self> {
        let index = FOLDERS.iter().position(|folder| *folder == name)?;
        Some(Self(u8::try_from(index).ok()? + 1))
    }

    /// The subdirectories of a folder that are searched before the folder itself, in the order of
    /// the search, each with a slash at its end.
    pub fn folders(self) -> impl Iterator<Item = Vec<u8>> {
        let known = FOLDERS.iter().take(self.0.into()).rev();
        known.map(|folder| [b"glibc-hwcaps/", *folder, b"/"].concat())
    }
}

/// The processor, as the dynamic linker sees it.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// The highest level that the processor supports completely.
    pub level: Level,
    /// The value of `$PLATFORM`.
    pub platform: &'static str,
}

impl Cpu {
    /// The processor of this machine (sysdeps/x86_64/dl-hwcaps-subdirs.c and
    /// sysdeps/x86/cpu-features.c of glibc).
    pub fn here() -> Self {
        let v2 = has!("cmpxchg16b")
            && has!("popcnt")
            && has!("sse3")
            && has!("sse4.1")
            && has!("sse4.2")
            && has!("ssse3");
        let fast = has!("avx2")
            && has!("bmi1")
            && has!("bmi2")
            && has!("fma")
            && has!("lzcnt")
            && has!("movbe");
        let v3 = v2 && fast && has!("avx") && has!("f16c");
        let v4 = v3
            && has!("avx512f")
            && has!("avx512bw")
            && has!("avx512cd")
            && has!("avx512dq")
            && has!("avx512vl");
        let is_haswell = fast && has!("popcnt") && is_of_intel();
        Self {
            level: Level(u8::from(v2) + u8::from(v3) + u8::from(v4)),
            platform: if is_haswell { "haswell" } else { "x86_64" },
        }
    }
}

fn is_of_intel() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    let words = [vendor.ebx, vendor.edx, vendor.ecx];
    words.map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_subdirectories_come_first() {
        let folders: Vec<_> = Level(3).folders().collect();
        let expected = ["v4", "v3", "v2"].map(|end| format!("glibc-hwcaps/x86-64-{end}/"));
        assert_eq!(folders, expected.map(String::into_bytes));
        assert_eq!(Level::ANY.folders().count(), 0);
        assert_eq!(Level::of_folder(b"x86-64-v3"), Some(Level(2)));
        assert_eq!(Level::of_folder(b"haswell"), None);
    }
}
