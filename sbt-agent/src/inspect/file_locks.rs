//! The locks of files for which processes wait, and who holds them: /proc/locks.

use std::{collections::BTreeSet, fs};

use sbt_program::process;

/// The processes that hold what a process waits for in `flock` or `fcntl`. `None` if that is not
/// known: another thread of the process waits for a lock as well, a holder is gone and has left its
/// descriptor to others, or the lock belongs to no process.
pub fn holders(process: u32) -> Option<Vec<u32>> {
    let text = fs::read_to_string("/proc/locks").ok()?;
    let holders = holders_of(&text, process)?;
    let alive = |process: &u32| process::find(*process).is_ok();
    holders.iter().all(alive).then_some(holders)
}

fn holders_of(text: &str, process: u32) -> Option<Vec<u32>> {
    let mut waits_for = BTreeSet::new();
    let mut held: Vec<(&str, u32, &str)> = Vec::new();
    for line in text.lines() {
        let (number, rest) = line.split_once(':')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let (waits, fields) = match fields.as_slice() {
            ["->", fields @ ..] => (true, fields),
            fields => (false, fields),
        };
        let [_kind, _way, _access, pid, file, ..] = fields else {
            continue;
        };
        match pid.parse::<u32>() {
            Ok(pid) if waits && pid == process => {
                waits_for.insert(number);
            }
            Ok(pid) if !waits => held.push((number, pid, file)),
            // A lock of an open file belongs to no process.
            _ if !waits => held.push((number, 0, file)),
            _ => {}
        }
    }
    let mut numbers = waits_for.iter();
    let (number, None) = (numbers.next()?, numbers.next()) else {
        return None;
    };
    let of_number = held.iter().find(|(of, ..)| of == number)?;
    // Several may share a lock, and each has a line of its own.
    let same_file = held.iter().filter(|(.., file)| *file == of_number.2);
    let all: BTreeSet<u32> = same_file.map(|(_, pid, _)| *pid).collect();
    (!all.contains(&0)).then(|| all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_lock_is_read() {
        let text = "1: FLOCK  ADVISORY  WRITE 70 00:13:7 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 71 00:13:7 0 EOF\n\
                    2: POSIX  ADVISORY  READ 72 00:13:8 0 EOF\n\
                    2: -> POSIX  ADVISORY  WRITE 74 00:13:8 0 EOF\n\
                    3: POSIX  ADVISORY  READ 73 00:13:8 0 EOF\n\
                    4: OFDLCK ADVISORY  WRITE -1 00:13:9 0 EOF\n\
                    4: -> OFDLCK ADVISORY  WRITE 75 00:13:9 0 EOF\n";
        assert_eq!(holders_of(text, 71), Some(vec![70]));
        assert_eq!(holders_of(text, 74), Some(vec![72, 73]));
        assert_eq!(holders_of(text, 75), None, "it belongs to no process");
        assert_eq!(holders_of(text, 70), None, "it does not wait");
        assert_eq!(holders_of("garbage", 1), None);
        let twice = format!("{text}2: -> POSIX  ADVISORY  WRITE 71 00:13:8 0 EOF\n");
        assert_eq!(holders_of(&twice, 71), None, "two of its threads wait");
    }
}
