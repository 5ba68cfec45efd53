//! The abilities to expect of a kernel by its version. Pure; sbt finds the real abilities by
//! trying.

/// The oldest kernel that works: probes have cookies since Linux 5.15.
pub const OLDEST: (u32, u32) = (5, 15);

/// The major and minor number of a kernel's version.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Why a kernel is too old, and what to do. `None` if it is not, or if the version cannot be read.
pub fn too_old(release: &str) -> Option<String> {
    let (major, minor) = OLDEST;
    version(release).filter(|version| *version < OLDEST)?;
    Some(format!(
        "Linux {release} is too old: sbt needs {major}.{minor} or newer (probes with cookies); \
         install a newer kernel"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_releases() {
        assert_eq!(version("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(version("5.15"), Some((5, 15)));
        assert_eq!(version(""), None);
    }

    #[test]
    fn what_is_too_old_is_told_with_what_is_needed() {
        let why = too_old("5.10.0-46-amd64").unwrap();
        assert!(
            why.contains("5.10.0-46-amd64") && why.contains("5.15"),
            "{why}"
        );
        for release in ["5.15.0-25-generic", "6.1.0-56-amd64", "7.3.4", ""] {
            assert_eq!(too_old(release), None);
        }
    }
}
