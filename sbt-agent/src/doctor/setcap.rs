//! Checks the capabilities of sbt's executable file, which an ordinary user needs instead of root,
//! and whether they take effect.

use std::env;

use rustix::thread::no_new_privs;

use super::{Finding, State};
use crate::kernel::privilege::{self, SETCAP};
use sbt_program::capabilities;

/// The relevant capabilities: bit number, and name in setcap's notation.
const NAMES: [(u32, &str); 5] = [
    (39, "cap_bpf"),
    (38, "cap_perfmon"),
    (19, "cap_sys_ptrace"),
    (2, "cap_dac_read_search"),
    (40, "cap_checkpoint_restore"),
];

/// The facts to be judged.
struct Facts<'a> {
    /// Path of sbt's executable.
    path: &'a str,
    /// Permitted set of the file; `None` if the file has no capabilities.
    permitted: Option<u64>,
    /// Whether the file's capabilities are effective from the start.
    at_once: bool,
    /// Effective set of this process.
    effective: u64,
    /// Whether the file system is mounted nosuid, which disables file capabilities.
    nosuid: bool,
    /// Whether this process has `no_new_privs`, which disables file capabilities.
    no_new_privs: bool,
}

/// Checks the executable of this process.
pub(super) fn file(effective: u64) -> Finding {
    let path = env::current_exe().unwrap_or_default();
    let (permitted, at_once) = capabilities::of_file(&path).unzip();
    let state = judge(&Facts {
        path: &path.to_string_lossy(),
        permitted,
        at_once: at_once.unwrap_or(false),
        effective,
        nosuid: capabilities::is_nosuid(&path),
        no_new_privs: no_new_privs().unwrap_or(false),
    });
    Finding {
        what: "setcap",
        state,
    }
}

fn judge(facts: &Facts<'_>) -> State {
    let Facts { path, .. } = *facts;
    let command = format!("sudo setcap {SETCAP} {path}");
    if facts.nosuid {
        return State::Less(format!(
            "setcap has no effect on {path}, whose file system is mounted nosuid: for use without \
             root copy sbt to another file system, such as that of /usr/local/bin"
        ));
    }
    let Some(permitted) = facts.permitted else {
        let text = format!("{path} has no capabilities; for use without root: `{command}`");
        return State::Ok(text);
    };
    let names = NAMES.iter().filter(|(bit, _)| permitted >> bit & 1 == 1);
    let names: Vec<_> = names.map(|(_, name)| *name).collect();
    let has = format!("{path} has {}", names.join(","));
    let missing = permitted & !facts.effective;
    if !facts.at_once {
        State::Less(format!("{has}, but they are not in effect: `{command}`"))
    } else if missing != 0 && facts.no_new_privs {
        State::Less(format!(
            "{has}, but the process that started sbt forbids new privileges (NoNewPrivs)"
        ))
    } else if missing != 0 {
        State::Less(format!(
            "{has}, but sbt did not get them: a user namespace or a bounding set removes them"
        ))
    } else if privilege::missing(permitted).is_empty() {
        State::Ok(has)
    } else {
        State::Less(format!("{has}, but needs more: `{command}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: u64 = 1 << 39 | 1 << 38 | 1 << 19;

    fn facts() -> Facts<'static> {
        Facts {
            path: "/opt/sbt",
            permitted: Some(THREE),
            at_once: true,
            effective: THREE,
            nosuid: false,
            no_new_privs: false,
        }
    }

    #[test]
    fn all_well_says_so_and_none_says_how() {
        assert!(matches!(judge(&facts()), State::Ok(text) if text.contains("cap_bpf")));
        let none = Facts {
            permitted: None,
            ..facts()
        };
        let State::Ok(text) = judge(&none) else {
            panic!("nothing is wrong with a file without capabilities");
        };
        assert!(text.contains("sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep /opt/sbt"));
    }

    #[test]
    fn what_has_no_effect_is_told_with_the_reason() {
        let cases: [(Facts<'_>, &str); 5] = [
            (
                Facts {
                    nosuid: true,
                    ..facts()
                },
                "nosuid",
            ),
            (
                Facts {
                    at_once: false,
                    ..facts()
                },
                "not in effect",
            ),
            (
                Facts {
                    effective: 0,
                    no_new_privs: true,
                    ..facts()
                },
                "NoNewPrivs",
            ),
            (
                Facts {
                    effective: 0,
                    ..facts()
                },
                "user namespace",
            ),
            (
                Facts {
                    permitted: Some(1 << 39),
                    ..facts()
                },
                "needs more",
            ),
        ];
        for (facts, word) in cases {
            let State::Less(text) = judge(&facts) else {
                panic!("{word}");
            };
            assert!(text.contains(word), "{text}");
        }
    }
}
