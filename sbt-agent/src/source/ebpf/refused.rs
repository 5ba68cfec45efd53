//! What sbt does not see if a kernel refuses one of the programs. Pure.

/// What is not seen without this program, as the subject of a sentence ending in "not seen".
pub fn unseen(program: &str) -> &'static str {
    match program {
        "depart" => "departures from barriers are",
        "condvar" => "barriers made of condition variables are",
        "init" => "the numbers of threads that barriers are made for are",
        "mapped" => "libraries that are loaded later are",
        "mark" => "marks and the beginnings of parallel regions are",
        "call" | "call_exit" => "functions named with --barrier are",
        "team" => "barriers of GNU OpenMP are",
        "kmp" => "barriers of LLVM's OpenMP are",
        "make" | "made" => "communicators that an MPI program makes are",
        "exec" => "new programs that a process executes are",
        "fork" => "new processes are",
        "exit" => "ends of threads are",
        "asleep" | "woken" => "how long threads sleep is",
        _ => "some events are",
    }
}

/// The note that a program is refused, and what is not seen without it.
pub fn note(program: &str, why: &str) -> String {
    format!(
        "this kernel refuses a part of sbt ({why}): {} not seen; `sbt doctor --programs` lists all \
         parts",
        unseen(program)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ebpf::PROGRAMS;

    #[test]
    fn what_is_not_seen_is_named_for_what_is_always_loaded() {
        let unknown = unseen("");
        for program in PROGRAMS {
            // These two are not in the list: sbt cannot do without `arrive`, and nobody notices
            // that `calibrate` is missing.
            let is_known = unseen(program) != unknown;
            assert_eq!(
                is_known,
                !["arrive", "calibrate"].contains(&program),
                "{program}"
            );
        }
        let note = note("kmp", "BPF program kmp: too long");
        assert!(
            note.contains("too long") && note.contains("LLVM's OpenMP"),
            "{note}"
        );
    }
}
