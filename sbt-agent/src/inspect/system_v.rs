//! Semaphores and message queues of System V: the kernel does not record which process holds them,
//! but which one used them last.

use std::fs;

use sbt_program::{memory::Memory, process};

/// The semaphore or queue for which a thread waits in the system call `number`, in words; `None` for other calls, or if the
/// kernel does not tell sbt.
pub fn described(thread: u32, number: i64, arguments: [u64; 6]) -> Option<String> {
    let id = i32::try_from(arguments[0]).ok()?;
    if !matches!(
        number,
        libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_msgrcv | libc::SYS_msgsnd
    ) || !is_here(thread)
    {
        return None;
    }
    match number {
        libc::SYS_semop | libc::SYS_semtimedop => {
            // `struct sembuf`: number, operation and flags, each of 16 bits.
            let first: [u8; 4] = Memory { thread }.bytes(arguments[1])?;
            let at = u16::from_ne_bytes([first[0], first[1]]);
            semaphore(id, at, arguments[2])
        }
        _ => queue(id, number == libc::SYS_msgrcv),
    }
}

/// Whether a thread has the same numbers of such objects as sbt.
fn is_here(thread: u32) -> bool {
    let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/ipc")).ok();
    let own = of("self");
    own.is_some() && own == of(&thread.to_string()) && !process::has_other_numbers(thread)
}

fn semaphore(id: i32, at: u16, operations: u64) -> Option<String> {
    // SAFETY: these commands take no further argument, and only read numbers in the kernel.
    let ask = |command: i32| unsafe { libc::semctl(id, i32::from(at), command) };
    let (value, user) = (ask(libc::GETVAL), ask(libc::GETPID));
    if value < 0 {
        return None;
    }
    let what = if operations == 1 {
        format!("semaphore {at} of set {id} (value {value})")
    } else {
        format!("semaphores of set {id}")
    };
    let user = u32::try_from(user).ok().filter(|user| *user != 0);
    match user.filter(|_| operations == 1) {
        Some(user) => Some(format!("{what}, which {} used last", named(user))),
        None => Some(what),
    }
}

fn queue(id: i32, receives: bool) -> Option<String> {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut state: libc::msqid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into a local structure.
    let result = unsafe { libc::msgctl(id, libc::IPC_STAT, &raw mut state) };
    if result < 0 {
        return None;
    }
    let (count, user, did) = if receives {
        (state.msg_qnum, state.msg_lspid, "sent to")
    } else {
        (state.msg_qnum, state.msg_lrpid, "received from")
    };
    let messages = match (count, receives) {
        (0, _) => "empty".to_owned(),
        (1, true) => "1 message of other types".to_owned(),
        (count, true) => format!("{count} messages of other types"),
        (count, false) => format!("{count} messages"),
    };
    let what = format!("message queue {id} ({messages})");
    let user = u32::try_from(user).ok().filter(|user| *user != 0);
    Some(user.map_or_else(
        || format!("{what}, which no process has {did}"),
        |user| format!("{what}, which {} {did} last", named(user)),
    ))
}

fn named(process: u32) -> String {
    if process::find(process).is_ok() {
        format!("process {process}")
    } else {
        format!("process {process}, which has ended,")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_used_a_semaphore_last_is_told() {
        // SAFETY: makes an object of its own, and takes only numbers.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 2, 0o600) };
        assert!(id >= 0);
        let untouched = semaphore(id, 1, 1);
        // SAFETY: sets a number in the kernel.
        let set = unsafe { libc::semctl(id, 1, libc::SETVAL, 3) };
        let used = semaphore(id, 1, 1);
        // SAFETY: removes the object.
        let removed = unsafe { libc::semctl(id, 0, libc::IPC_RMID) };
        assert_eq!((set, removed), (0, 0));
        let set = format!("semaphore 1 of set {id} (value ");
        assert_eq!(untouched, Some(format!("{set}0)")));
        let own = std::process::id();
        assert_eq!(
            used,
            Some(format!("{set}3), which process {own} used last"))
        );
        assert_eq!(semaphore(id, 1, 1), None, "it is gone");
    }

    #[test]
    fn what_a_queue_holds_is_told() {
        // SAFETY: makes an object of its own, and takes only numbers.
        let id = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
        assert!(id >= 0);
        let empty = queue(id, true);
        let message = [7_i64, 1];
        // SAFETY: the kernel reads 16 bytes from a local array: a type, and a message of 8 bytes.
        let sent = unsafe { libc::msgsnd(id, message.as_ptr().cast(), 8, 0) };
        let one = queue(id, true);
        // SAFETY: removes the object.
        let removed = unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        assert_eq!((sent, removed), (0, 0));
        let what = format!("message queue {id}");
        assert_eq!(
            empty,
            Some(format!("{what} (empty), which no process has sent to"))
        );
        let own = std::process::id();
        assert_eq!(
            one,
            Some(format!(
                "{what} (1 message of other types), which process {own} sent to last"
            ))
        );
    }
}
