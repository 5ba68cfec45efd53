//! Catches panics of libraries that parse untrusted data. Such a panic is an ordinary result, and
//! no message is printed.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// The result of `doing`; `None` if it panics. The panic's message is suppressed.
pub fn caught<T>(doing: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !is_caught() {
                before(info);
            }
        }));
    });
    let outer = CAUGHT.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(doing));
    CAUGHT.set(outer);
    result.ok()
}

/// Whether a panic of this thread would be caught by [`caught`], so that nothing has to be
/// restored.
pub fn is_caught() -> bool {
    CAUGHT.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_more_way_of_being_damaged() {
        assert_eq!(caught(|| 3), Some(3));
        let none: Option<u32> = caught(|| panic!("told to nobody"));
        assert_eq!(none, None);
        assert_eq!(caught(is_caught), Some(true));
        assert!(!is_caught());
    }
}
