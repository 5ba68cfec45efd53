//! Checks whether sbt's environment forbids what its capabilities allow: by a user namespace, or by
//! a filter of system calls.

use super::{Finding, State};
use crate::kernel::{
    bpf,
    privilege::{self, FILTER, USER_NAMESPACE},
};
use sbt_program::{access::rights::in_user_namespace, status::Status};

/// Checks whether capabilities are valid for the machine, not only for a user namespace.
pub(super) fn container() -> Finding {
    Finding {
        what: "container",
        state: if in_user_namespace() {
            State::Bad(USER_NAMESPACE.into())
        } else {
            State::Ok("capabilities hold for the whole machine".into())
        },
    }
}

/// Checks whether a seccomp filter forbids bpf(2).
pub(super) fn filter() -> Finding {
    let status = Status::of_this_thread();
    Finding {
        what: "seccomp",
        state: judge(
            privilege::is_filtered(&status),
            privilege::filter_forbids(&status),
            bpf::is_refused(),
        ),
    }
}

/// Judges the filter. `forbids` says that the filter is known to forbid bpf(2).
fn judge(is_filtered: bool, forbids: bool, is_refused: bool) -> State {
    match (is_filtered, is_refused) {
        (false, _) => State::Ok("no system call filter".into()),
        (true, false) => State::Ok("a system call filter, which allows bpf".into()),
        (true, true) if forbids => State::Bad(FILTER.into()),
        (true, true) => State::Less(
            "a system call filter: without CAP_BPF sbt cannot tell whether it forbids bpf".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_told_from_a_missing_capability() {
        assert!(matches!(judge(false, false, true), State::Ok(_)));
        assert!(matches!(judge(true, true, false), State::Ok(_)));
        assert!(matches!(judge(true, true, true), State::Bad(text) if text.contains("seccomp")));
        assert!(matches!(judge(true, false, true), State::Less(_)));
    }
}
