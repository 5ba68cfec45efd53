//! Lists of folders, and the words in them that stand for something else: `$ORIGIN`, `$LIB` and
//! `$PLATFORM`, also in braces (elf/dl-load.c of glibc).

/// The longest path that the kernel opens, bytes.
pub const MAX_PATH: usize = 4096;

/// The values of the words in the paths of one file.
#[derive(Clone, Copy)]
pub struct Tokens<'a> {
    /// The absolute folder that the file lies in.
    pub origin: &'a [u8],
    /// `lib64`, or what the system has in its place.
    pub lib: &'a [u8],
    /// The name of the processor.
    pub platform: &'a [u8],
    /// The limits of `$ORIGIN` in a program that gains privileges; `None` for other programs.
    pub secure: Option<Secure<'a>>,
}

/// The limits of `$ORIGIN` in a program that gains privileges.
#[derive(Clone, Copy)]
pub struct Secure<'a> {
    /// The system's folders, each with a slash at its end. The program's own paths must lead below
    /// one of them. `None` for the paths of libraries, which may lead anywhere.
    pub system: Option<&'a [Vec<u8>]>,
}

impl Tokens<'_> {
    /// A path with its words replaced. `None` if a word may not be used there, or if the result is
    /// longer than any path.
    pub fn expand(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(path.len());
        let mut rest = path;
        let mut only_below = None;
        while let Some((first, after)) = rest.split_first() {
            let (new, behind) = if *first != b'$' {
                (std::slice::from_ref(first), after)
            } else if let Some(behind) = strip_word(after, b"ORIGIN") {
                if let Some(secure) = self.secure {
                    let is_whole = out.is_empty() && matches!(behind.first(), None | Some(b'/'));
                    if !is_whole {
                        return None;
                    }
                    only_below = secure.system;
                }
                (self.origin, behind)
            } else if let Some(behind) = strip_word(after, b"PLATFORM") {
                (self.platform, behind)
            } else if let Some(behind) = strip_word(after, b"LIB") {
                (self.lib, behind)
            } else {
                (&b"$"[..], after)
            };
            out.extend_from_slice(new);
            if out.len() > MAX_PATH {
                return None;
            }
            rest = behind;
        }
        only_below
            .is_none_or(|folders| is_below(&out, folders))
            .then_some(out)
    }
}

/// The text behind a word and its braces; `None` if another word is there.
fn strip_word<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    if let Some(inner) = text.strip_prefix(b"{") {
        return inner.strip_prefix(word)?.strip_prefix(b"}");
    }
    let behind = text.strip_prefix(word)?;
    let goes_on = behind
        .first()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (!goes_on).then_some(behind)
}

/// Whether an absolute path leads below one of the folders, by its text alone.
fn is_below(path: &[u8], folders: &[Vec<u8>]) -> bool {
    if !path.starts_with(b"/") {
        return false;
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut plain = vec![b'/'];
    for part in parts {
        plain.extend_from_slice(part);
        plain.push(b'/');
    }
    folders.iter().any(|folder| plain.starts_with(folder))
}

/// The absolute folder of a file. `current`: the folder that relative paths start from.
pub fn folder_of(path: &[u8], current: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte == b'/');
    match (end, path.starts_with(b"/")) {
        (Some(0), true) => b"/".to_vec(),
        (Some(end), true) => path[..end].to_vec(),
        (Some(end), false) => [current, b"/", &path[..end]].concat(),
        (None, _) => current.to_vec(),
    }
}

/// The path of a file in a subfolder of a folder; `subfolder` is empty or ends with a slash.
pub fn join(folder: &[u8], subfolder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = folder.to_vec();
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    if path != b"/" {
        path.push(b'/');
    }
    path.extend_from_slice(subfolder);
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Tokens<'static> = Tokens {
        origin: b"/opt/app/bin",
        lib: b"lib64",
        platform: b"haswell",
        secure: None,
    };

    fn expanded(tokens: &Tokens<'_>, path: &str) -> Option<String> {
        let path = tokens.expand(path.as_bytes())?;
        Some(String::from_utf8(path).unwrap())
    }

    #[test]
    fn words_are_replaced_by_what_they_stand_for() {
        for (path, expected) in [
            ("$ORIGIN/../lib", "/opt/app/bin/../lib"),
            ("${ORIGIN}", "/opt/app/bin"),
            ("/a/$LIB/${PLATFORM}/b", "/a/lib64/haswell/b"),
            ("$LIB64/$ORIGINAL/${LIB", "$LIB64/$ORIGINAL/${LIB"),
            ("/$/$$LIB", "/$/$lib64"),
            ("", ""),
        ] {
            assert_eq!(expanded(&PLAIN, path).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(PLAIN.expand(&b"$ORIGIN".repeat(1000)), None);
    }

    #[test]
    fn a_program_that_gains_privileges_finds_its_folder_only_below_the_system_s() {
        let system = [b"/usr/lib/".to_vec(), b"/lib/".to_vec()];
        let of = |origin: &'static str, system| Tokens {
            origin: origin.as_bytes(),
            secure: Some(Secure { system }),
            ..PLAIN
        };
        let program = of("/usr/lib/app", Some(&system[..]));
        assert!(program.expand(b"$ORIGIN/plugins").is_some());
        assert!(program.expand(b"$ORIGIN/./../../lib/x").is_some());
        for path in ["$ORIGIN/../../bin", "/x/$ORIGIN", "$ORIGIN.d", "${ORIGIN}x"] {
            assert_eq!(expanded(&program, path), None, "{path}");
        }
        assert_eq!(of("/home/ann", Some(&system)).expand(b"$ORIGIN"), None);
        // The name of the folder has a system folder's name only as its beginning.
        assert_eq!(of("/usr/library", Some(&system)).expand(b"$ORIGIN"), None);
        // Libraries are trusted once they are loaded.
        assert!(of("/home/ann", None).expand(b"$ORIGIN/x").is_some());
        assert!(program.expand(b"/anywhere/$LIB").is_some());
    }

    #[test]
    fn folders_and_names_are_put_together() {
        assert_eq!(folder_of(b"/usr/bin/env", b"/x"), b"/usr/bin");
        assert_eq!(folder_of(b"/init", b"/x"), b"/");
        assert_eq!(folder_of(b"./a/b", b"/x"), b"/x/./a");
        assert_eq!(folder_of(b"b", b"/x"), b"/x");
        assert_eq!(join(b"/lib///", b"", b"a.so"), b"/lib/a.so");
        assert_eq!(join(b"/", b"sub/", b"a.so"), b"/sub/a.so");
        assert_eq!(join(b".", b"", b"a.so"), b"./a.so");
    }
}
