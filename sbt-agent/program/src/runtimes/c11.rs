//! The condition variables of C11. A C library builds them from the condition variables of POSIX,
//! by calls that never leave the library: the direct caller of the POSIX function is then the
//! library, and the program is the caller above.

use std::collections::HashSet;

use object::{LittleEndian, read::elf::ElfFile64};

use crate::{
    arch::{self, Callee, Flow},
    elf::{code_at, names},
    unwind::Unwind,
};

/// C11's functions on condition variables, without leading underscores.
const NAMES: [&str; 4] = ["cnd_wait", "cnd_timedwait", "cnd_signal", "cnd_broadcast"];

/// Bytes that are read of each function: these functions are a few lines long.
const LONGEST: u64 = 512;

/// Whether a function is one of C11's functions on condition variables.
pub(crate) fn is_condition(function: &str) -> bool {
    NAMES.contains(&function.trim_start_matches('_'))
}

/// The names by which programs call these functions.
pub(crate) fn condition_names() -> HashSet<String> {
    NAMES.map(str::to_owned).into()
}

/// The return addresses of all calls in these functions of a file, as virtual addresses in
/// ascending order.
pub(crate) fn calls_of_conditions(unwind: &Unwind) -> Vec<u64> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(unwind.image()) else {
        return Vec::new();
    };
    let symbols = names::defined(&file)
        .filter(|symbol| std::str::from_utf8(symbol.name).is_ok_and(is_condition));
    let mut starts: Vec<u64> = symbols.map(|symbol| symbol.address()).collect();
    // A function may have several names.
    starts.sort_unstable();
    starts.dedup();
    let calls = starts.into_iter().flat_map(|start| calls_in(unwind, start));
    calls.collect()
}

fn calls_in(unwind: &Unwind, address: u64) -> Vec<u64> {
    let Some(function) = unwind.function(address) else {
        return Vec::new();
    };
    let length = (function.end - function.start).min(LONGEST);
    let Some(code) = code_at(unwind.image(), unwind.segments(), function.start, length) else {
        return Vec::new();
    };
    arch::decode(code.bytes, function.start)
        .filter(|instruction| {
            matches!(instruction.flow(), Flow::Call(Callee::At(_)) | Flow::System)
        })
        .map(|instruction| instruction.next())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::unwind::tests::{map, symbol};

    #[test]
    fn the_calls_of_c11s_functions_are_found_and_no_others() {
        let source = "
            static volatile int cell;
            __attribute__((noinline, noclone)) int wait(void) { return ++cell; }
            int __cnd_wait(void) { wait(); return cell; }
            int cnd_wait(void) __attribute__((weak, alias(\"__cnd_wait\")));
            int cnd_signal(void) { cell++; wait(); return cell; }
            int cnd_init(void) { wait(); return cell; }
            int main(void) { return __cnd_wait() + cnd_signal() + cnd_init(); }";
        let image = || map(&["-fno-inline"], source);
        let unwind = Unwind::of(image()).unwrap();
        let found = calls_of_conditions(&unwind);
        let functions = found.iter().map(|at| unwind.function(*at).unwrap().start);
        let functions: Vec<u64> = functions.collect();
        let mut expected = ["__cnd_wait", "cnd_signal"].map(|name| symbol(&image(), name));
        expected.sort_unstable();
        assert_eq!(functions, expected);
    }
}
