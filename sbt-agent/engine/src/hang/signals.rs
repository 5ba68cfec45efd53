//! Signals that were sent, and that nobody takes.

use std::collections::BTreeMap;

use super::{
    names::View,
    scene::{Doing, ThreadSeen},
};

/// System calls that only a signal ends.
pub const FOR_SIGNALS: [&str; 3] = ["pause", "rt_sigsuspend", "rt_sigtimedwait"];

/// The names of the signals of Linux on x86-64 from 1 on (`asm-generic/signal.h`).
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Remarks on the processes in which a thread waits for signals, and others were sent that nobody takes.
pub fn notes(view: &View) -> Vec<String> {
    let mut of: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, thread) in view.scene.threads.iter().enumerate() {
        if thread.doing != Doing::Ended {
            of.entry(thread.id.process).or_default().push(at);
        }
    }
    let mut notes = Vec::new();
    for (process, all) in of {
        if !all.iter().any(|at| waits_for_signals(view.thread(*at))) {
            continue;
        }
        for at in &all {
            if let Some(signals) = called(view.thread(*at).withheld.own) {
                let name = view.name(*at);
                notes.push(match signals.as_slice() {
                    [one] => format!(
                        "{one} was sent to {name}, which blocks it: no other thread can take it"
                    ),
                    all => format!(
                        "{} were sent to {name}, which blocks them: no other thread can take them",
                        all.join(", ")
                    ),
                });
            }
        }
        let blocked = all.iter().map(|at| view.thread(*at).withheld.shared);
        if let Some(signals) = called(blocked.fold(u64::MAX, |all, own| all & own)) {
            notes.push(match signals.as_slice() {
                [one] => format!(
                    "{one} was sent to process {process}: all of its threads block it, and none waits for it"
                ),
                all => format!(
                    "{} were sent to process {process}: all of its threads block them, and none waits for \
                     them",
                    all.join(", ")
                ),
            });
        }
    }
    notes
}

/// System calls that return only after a handler of a signal has run.
const FOR_HANDLERS: [&str; 2] = ["pause", "rt_sigsuspend"];

/// Whether a thread waits for a handler of a signal to run, and its process has no handler: a signal can
/// end or stop the process, but nothing lets the thread go on.
pub fn nothing_ends(view: &View, at: usize) -> bool {
    let thread = view.thread(at);
    let for_handler = match &thread.doing {
        Doing::Call { name, .. } => FOR_HANDLERS.contains(&name.as_str()),
        _ => false,
    };
    let process = view.process(thread.id.process);
    for_handler && process.is_some_and(|process| process.handles_none)
}

fn waits_for_signals(thread: &ThreadSeen) -> bool {
    match &thread.doing {
        Doing::Call { name, .. } => FOR_SIGNALS.contains(&name.as_str()),
        _ => false,
    }
}

/// The signals of a set, by name; `None` if it is empty.
fn called(set: u64) -> Option<Vec<String>> {
    let name = |bit: usize| match NAMES.get(bit) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {}", bit + 1),
    };
    let names = (0..64).filter(|bit| set >> bit & 1 == 1).map(name);
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use crate::hang::{
        samples::{Seen, call},
        scene::Withheld,
    };

    #[test]
    fn a_signal_that_nobody_takes_is_told() {
        let mut seen = Seen::new();
        seen.barrier(4, 40, &[1, 2, 4]);
        seen.thread(9, "control", call("rt_sigtimedwait", ""), "control a.c:12");
        assert_eq!(seen.hang().notes, [""; 0]);
        seen.of(1).withheld.own = 1 << 9;
        seen.of(2).withheld.shared = 1 << 14;
        let own = "SIGUSR1 was sent to worker-1, which blocks it: no other thread can take it";
        assert_eq!(seen.hang().notes, [own]);
        seen.of(1).withheld.own = 1 << 9 | 1 << 11;
        let own = "SIGUSR1, SIGUSR2 were sent to worker-1, which blocks them: no other thread can take them";
        assert_eq!(seen.hang().notes, [own]);
        for number in [0, 1, 4, 9] {
            seen.of(number).withheld = Withheld {
                own: 0,
                shared: 1 << 14 | u64::from(number) << 20,
            };
        }
        let all =
            "SIGTERM was sent to process 100: all of its threads block it, and none waits for it";
        assert_eq!(seen.hang().notes, [all]);
    }
}
