//! Whether something around sbt forbids what its capabilities allow: a user namespace, a
//! filter of system calls.

use super::{Finding, State, read};
use crate::{
    session::privilege::{self, USER_NAMESPACE, in_user_namespace},
    source::ebpf::bpf,
};

/// Whether capabilities are those of the machine.
pub(super) fn container() -> Finding {
    Finding {
        what: "container",
        state: if in_user_namespace() {
            State::Bad(USER_NAMESPACE.into())
        } else {
            State::Ok("capabilities are those of the machine".into())
        },
    }
}

/// Whether a filter keeps bpf from us.
pub(super) fn filter(effective: u64) -> Finding {
    let status = read("/proc/self/status");
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    let is_filtered = mode.is_some_and(|mode| mode.trim() != "0");
    // Whoever may use bpf is told that this map is none.
    let may = privilege::missing(effective).is_empty();
    let is_refused = bpf::is_refused();
    Finding {
        what: "seccomp",
        state: judge(is_filtered, may, is_refused),
    }
}

fn judge(is_filtered: bool, may: bool, is_refused: bool) -> State {
    match (is_filtered, is_refused) {
        (false, _) => State::Ok("no filter of system calls".into()),
        (true, false) => State::Ok("a filter of system calls, which lets bpf through".into()),
        (true, true) if may => State::Bad(
            "a filter of system calls forbids bpf, as container runtimes do: run sbt outside of \
             the container, or start that with bpf allowed (docker: --cap-add BPF --cap-add \
             PERFMON, or --security-opt seccomp=unconfined)"
                .into(),
        ),
        (true, true) => State::Less(
            "a filter of system calls: whether it forbids bpf cannot be told without CAP_BPF"
                .into(),
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
