//! Reading of /proc.

use super::*;

#[test]
fn what_the_kernel_keeps_is_read() {
    let stat = "7 (a) b) S 1 7 7 0 -1 4194560 11 12 13 14 15";
    let status =
        Status::from("Name:\ta\nvoluntary_ctxt_switches:\t21\nnonvoluntary_ctxt_switches:\t22\n");
    let sched = "se.exec_start  :  1.5\nse.nr_migrations                             :        31\n";
    let all = [Some(11), Some(13), Some(21), Some(22), Some(31)];
    assert_eq!(kept_of(stat, &status, sched), all);
    assert_eq!(
        kept_of("", &Status::default(), "se.nr_migrations : many"),
        [None; 5]
    );
}
