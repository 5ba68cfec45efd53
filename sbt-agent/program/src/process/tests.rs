//! What is read from /proc.

use super::*;

#[test]
fn ranks_are_what_the_environment_says() {
    let rank = |text: &str| rank_of(text.replace(' ', "\0").as_bytes());
    assert_eq!(rank("A=1 OMPI_COMM_WORLD_RANK=3 B=2"), Some(3));
    assert_eq!(rank("PMI_RANK=0"), Some(0));
    assert_eq!(rank("PMI_RANKS=4 X=PMI_RANK=5"), None);
    assert_eq!(rank("SLURM_PROCID=many"), None);
}

#[test]
fn what_the_kernel_keeps_is_read() {
    let stat = "7 (a) b) S 1 7 7 0 -1 4194560 11 12 13 14 15";
    let status = "Name:\ta\nvoluntary_ctxt_switches:\t21\nnonvoluntary_ctxt_switches:\t22\n";
    let sched = "se.exec_start  :  1.5\nse.nr_migrations                             :        31\n";
    let all = [Some(11), Some(13), Some(21), Some(22), Some(31)];
    assert_eq!(kept_of(stat, status, sched), all);
    assert_eq!(kept_of("", "", "se.nr_migrations : many"), [None; 5]);
}

#[test]
fn jobs_are_what_the_environment_says() {
    let job = |text: &str| {
        let job = job_of(text.replace(' ', "\0").as_bytes())?;
        Some(String::from_utf8_lossy(&job).into_owned())
    };
    assert_eq!(
        job("A=1 PMIX_NAMESPACE=42 SLURM_JOB_ID=7"),
        Some("42".into())
    );
    assert_eq!(job("SLURM_JOB_ID=7 SLURM_STEP_ID=0"), Some("7.0".into()));
    assert_eq!(job("SLURM_JOB_ID=7"), None);
}

#[test]
fn the_status_tells_who_traces() {
    let tracer = |line: &str| tracer_in(&format!("Name:\tTracerPid: 3\n{line}Uid:\t0\n"));
    assert_eq!(tracer("TracerPid:\t77\n"), Some(77));
    assert_eq!(tracer("TracerPid:\t0\n"), None, "nobody");
    assert_eq!(tracer("TracerPid:\t-1\n"), None);
    assert_eq!(tracer(""), None);
}

#[test]
fn the_status_tells_which_signals_wait() {
    let status = "SigQ:\t1/99\nSigPnd:\t8000000000000200\nShdPnd:\t0000000000000001\n";
    for (signal, waits) in [(10, true), (64, true), (1, false), (9, false)] {
        assert_eq!(is_pending(status, signal), waits, "{signal}");
    }
    // These signals do not exist.
    for signal in [0, -1, 65, i32::MAX, i32::MIN] {
        assert!(!is_pending(status, signal), "{signal}");
    }
    assert!(!is_pending("SigPnd:\tmany\n", 10));
    assert!(!is_pending("", 10));
}

#[test]
fn return_addresses_are_kept_twice_or_not() {
    for (line, twice) in [
        ("x86_Thread_features:\tshstk wrss\n", true),
        ("x86_Thread_features:\t\n", false),
        ("x86_Thread_features_locked:\tshstk\n", false),
    ] {
        assert_eq!(has_shadow_stack_in(line), twice, "{line}");
    }
}

#[test]
fn the_status_tells_how_many_filters_there_are() {
    assert_eq!(filters_in("Seccomp:\t2\nSeccomp_filters:\t3\n"), 3);
    assert_eq!(filters_in("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
    assert_eq!(filters_in("Seccomp:\t2\n"), 2, "before Linux 5.9");
    assert_eq!(filters_in("Seccomp:\t1\nSeccomp_filters:\t0\n"), u32::MAX);
    assert_eq!(filters_in("Name:\tx\n"), 0, "a kernel without");
}

#[test]
fn the_status_tells_of_numbers_elsewhere() {
    assert!(!has_other_numbers_in("Pid:\t7\nNSpid:\t7\n"));
    assert!(has_other_numbers_in("Pid:\t7\nNSpid:\t7\t1\n"));
    assert!(has_other_numbers_in(""), "it is gone");
}
