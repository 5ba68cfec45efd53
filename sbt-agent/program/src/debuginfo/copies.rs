//! The copies and parts that compilers make of functions, recognised by their names.

/// The words that compilers append to the name of a function's copy, between dots.
const COPIES: [&[u8]; 8] = [
    b"constprop",
    b"isra",
    b"part",
    b"lto_priv",
    b"localalias",
    b"llvm",
    // Functions with a version for each of several processors.
    b"default",
    b"clone",
];

/// The words that compilers append to the name of a version, followed by the name of a processor.
const VERSIONS: [&[u8]; 3] = [b"arch_", b"avx", b"sse"];

/// How the names of a function's variants for some processors continue after the underscore.
const PROCESSORS: [&[u8]; 5] = [b"avx", b"evex", b"fma", b"sse", b"ssse"];

/// Whether a name is a variant of the function `of` in the style of the C library: `__strlen_avx2`.
pub(super) fn is_variant(name: &[u8], of: &[u8]) -> bool {
    without_underscores(name)
        .strip_prefix(without_underscores(of))
        .and_then(|rest| rest.strip_prefix(b"_"))
        .is_some_and(|rest| {
            PROCESSORS
                .iter()
                .any(|processor| rest.starts_with(processor))
        })
}

fn without_underscores(name: &[u8]) -> &[u8] {
    let start = name.iter().position(|&byte| byte != b'_');
    &name[start.unwrap_or(name.len())..]
}

/// The name of the function that a symbol is, or is a copy of. `None` for symbols that are not a
/// function of their own: the cold part of a function, and the resolver that chooses among
/// versions.
pub(super) fn original(name: &[u8]) -> Option<&[u8]> {
    let mut end = name.len();
    let mut rest = name;
    while let Some(dot) = rest.iter().rposition(|&byte| byte == b'.') {
        let (before, suffix) = (&rest[..dot], &rest[dot + 1..]);
        if before.is_empty() || suffix.is_empty() {
            break;
        }
        if suffix == b"cold" || suffix == b"resolver" {
            return None;
        }
        if is_copy(suffix) {
            end = dot;
        } else if !is_number(suffix) {
            break;
        }
        rest = before;
    }
    Some(&name[..end])
}

/// The function to which a cold part belongs; `None` if the name is not that of a cold part.
pub(super) fn whole_of_cold(name: &[u8]) -> Option<&[u8]> {
    let name = name
        .iter()
        .rposition(|byte| !byte.is_ascii_digit())
        .filter(|&last| name[last] == b'.')
        .map_or(name, |dot| &name[..dot]);
    name.strip_suffix(b".cold")
}

/// Whether a copy may have other parameters than the function.
pub(crate) fn has_other_parameters(name: &str) -> bool {
    ["constprop", "isra", "part"]
        .iter()
        .any(|suffix| name.split('.').skip(1).any(|part| part == *suffix))
}

/// Whether a copy is only what follows a function's first test, which is repeated wherever the
/// function is called.
pub(crate) fn is_part(name: &str) -> bool {
    name.split('.').skip(1).any(|part| part == "part")
}

fn is_copy(suffix: &[u8]) -> bool {
    COPIES.contains(&suffix) || VERSIONS.iter().any(|version| suffix.starts_with(version))
}

/// Numbers of copies; LLVM's are long.
fn is_number(suffix: &[u8]) -> bool {
    suffix.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_the_c_library() {
        for (name, of, expected) in [
            ("__strlen_avx2", "strlen", true),
            ("__strlen_sse2", "strlen", true),
            ("__memcpy_chk_evex_unaligned", "__memcpy_chk", true),
            ("__memcpy_chk_evex_unaligned", "memcpy", false),
            ("__strnlen_avx2", "strlen", false),
            ("strlen", "strlen", false),
            ("strlen_", "strlen", false),
        ] {
            assert_eq!(
                is_variant(name.as_bytes(), of.as_bytes()),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn copies_are_told_from_other_functions() {
        for (name, function) in [
            ("f", Some("f")),
            ("f.constprop.0", Some("f")),
            ("f.isra.0.constprop.12", Some("f")),
            ("f.part.0", Some("f")),
            ("f.llvm.1234567890123", Some("f")),
            ("f.localalias", Some("f")),
            ("_ZN3App4waitEv.constprop.0", Some("_ZN3App4waitEv")),
            ("f.avx2.0", Some("f")),
            ("f.arch_haswell", Some("f")),
            ("f.default.2", Some("f")),
            ("f.cold", None),
            ("f.cold.3", None),
            ("f.constprop.0.cold", None),
            ("f.resolver", None),
            // A parallel region, and a nested function, are functions of their own.
            ("main._omp_fn.0", Some("main._omp_fn.0")),
            ("main._omp_fn.0.isra.0", Some("main._omp_fn.0")),
            ("f.17", Some("f.17")),
            (".f", Some(".f")),
            ("f.", Some("f.")),
            (".constprop.0", Some(".constprop.0")),
            ("", Some("")),
        ] {
            let found = original(name.as_bytes());
            assert_eq!(found, function.map(str::as_bytes), "{name}");
        }
        assert_eq!(whole_of_cold(b"f.isra.0.cold"), Some(&b"f.isra.0"[..]));
        assert_eq!(whole_of_cold(b"f.cold.12"), Some(&b"f"[..]));
        assert_eq!(whole_of_cold(b"f.isra.0"), None);
        assert_eq!(whole_of_cold(b"123"), None);
        assert_eq!(whole_of_cold(b""), None);
        assert!(has_other_parameters("f.isra.0") && !has_other_parameters("f.cold"));
        assert!(is_part("f.part.0") && !is_part("part"));
    }
}
