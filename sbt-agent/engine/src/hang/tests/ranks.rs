//! Ranks of MPI, which wait in functions of their library.

use super::{
    asleep::{asleep, family},
    *,
};
use crate::hang::scene::MessageSeen;

#[test]
fn ranks_wait_in_functions_of_mpi() {
    let mut seen = family(Doing::Running, Doing::Running);
    for (number, rank) in [(0, 0), (1, 1)] {
        seen.0.processes[number].rank = Some(rank);
    }
    seen.0.threads[0].stack = stack("*opal_progress < *PMPI_Recv < main a.c:12");
    seen.0.threads[1].stack = stack("*opal_progress < *MPI_Barrier < main a.c:20");
    let (kind, text) = asleep(&seen);
    assert_eq!(kind, HangKind::Unclear);
    assert_eq!(
        text,
        "rank 0 waits in MPI_Recv(), called in main() a.c:12; rank 1 waits in MPI_Barrier(), called \
         in main() a.c:20: no rank that was looked at computes"
    );
    seen.0.threads[1].doing = call("clock_nanosleep", "100 µs");
    seen.0.threads[1].stack = stack("*ompi_mpi_finalize < main a.c:30");
    let text = asleep(&seen).1;
    assert!(
        text.starts_with(
            "rank 0 waits in MPI_Recv(), called in main() a.c:12; rank 1 waits in MPI_Finalize()"
        ),
        "{text}"
    );
    seen.0.threads[1].doing = Doing::Running;
    seen.0.threads[1].stack = stack("compute a.c:50 < main a.c:20");
    let text = asleep(&seen).1;
    assert!(
        text.starts_with("rank 1 runs in compute() a.c:50"),
        "{text}"
    );
    seen.0.threads[1].doing = call("read", "pipe:[7]");
    let text = asleep(&seen).1;
    assert!(
        text.starts_with("rank 1 waits in read() for pipe:[7], in compute() a.c:50; rank 0 waits"),
        "{text}"
    );
}

#[test]
fn ranks_tell_with_whom_they_exchange_messages() {
    let mut seen = family(Doing::Running, Doing::Running);
    let from = |rank: Option<u32>| MessageSeen {
        rank,
        is_of_world: true,
        tag: Some(77),
        of_all: false,
    };
    for (number, rank) in [(0, 0), (1, 1)] {
        seen.0.processes[number].rank = Some(rank);
        seen.0.threads[number].stack = stack("*opal_progress < *PMPI_Recv < main a.c:12");
        seen.0.threads[number].stack[2].message = Some(from(Some(1 - rank)));
    }
    assert_eq!(
        asleep(&seen).1,
        "rank 0 and rank 1 wait in MPI_Recv(), called in main() a.c:12 (rank 0 with rank 1 and rank 1 \
         with rank 0, tag 77): each of these waits for the next: rank 0 → rank 1 → rank 0"
    );
    seen.0.threads[1].stack[2].message = Some(from(None));
    let text = asleep(&seen).1;
    assert!(
        text.ends_with("rank 1 with any rank, tag 77): no rank that was looked at computes"),
        "{text}"
    );
    // A rank of another communicator is none of the program's.
    seen.0.threads[1].stack[2].message = Some(MessageSeen {
        is_of_world: false,
        ..from(Some(0))
    });
    let text = asleep(&seen).1;
    assert!(!text.contains("→"), "{text}");
    assert!(text.contains("rank 0 of a communicator"), "{text}");
    seen.0.threads[1].stack[2].message = None;
    assert!(!asleep(&seen).1.contains("with"));
}

/// A program of two ranks: one waits in `MPI_Barrier`, and the other for a message of the first.
fn ranks() -> Seen {
    let mut seen = family(Doing::Running, Doing::Running);
    let message = MessageSeen {
        rank: Some(0),
        is_of_world: true,
        tag: Some(77),
        of_all: false,
    };
    let barrier = MessageSeen {
        rank: None,
        tag: None,
        of_all: true,
        ..message
    };
    seen.0.threads[0].stack = stack("*opal_progress < *PMPI_Barrier < main a.c:20");
    seen.0.threads[0].stack[2].message = Some(barrier);
    seen.0.threads[1].stack = stack("*opal_progress < *PMPI_Recv < main a.c:12");
    seen.0.threads[1].stack[2].message = Some(message);
    for (number, rank) in [(0, 0), (1, 1)] {
        seen.0.processes[number].rank = Some(rank);
    }
    seen
}

#[test]
fn ranks_that_wait_for_a_message_and_at_a_barrier_wait_in_a_circle() {
    let mut seen = ranks();
    assert_eq!(
        asleep(&seen).1,
        "rank 0 waits in MPI_Barrier(), called in main() a.c:20; rank 1 waits in MPI_Recv(), called in \
         main() a.c:12 (with rank 0, tag 77): each of these waits for the next: rank 0 → rank 1 → rank 0"
    );
    // The rank went on between the looks, or waits for a barrier of other ranks, or is at one too.
    seen.0.threads[0].went_on = true;
    assert!(!asleep(&seen).1.contains('→'));
    seen.0.threads[0].went_on = false;
    let world = seen.0.threads[0].stack[2].message;
    seen.0.threads[1].stack = stack("*opal_progress < *PMPI_Barrier < main a.c:20");
    seen.0.threads[1].stack[2].message = world;
    assert!(!asleep(&seen).1.contains('→'));
    seen.0.threads[1].stack = stack("*opal_progress < *MPI_Allreduce < main a.c:12");
    seen.0.threads[1].stack[2].message = world;
    assert_eq!(
        asleep(&seen).1,
        "rank 0 waits in MPI_Barrier(), called in main() a.c:20; rank 1 waits in MPI_Allreduce(), called \
         in main() a.c:12: each of these waits for the next: rank 0 → rank 1 → rank 0; all ranks must \
         call the operations of a communicator in the same order"
    );
    let mut seen = ranks();
    if let Some(barrier) = &mut seen.0.threads[0].stack[2].message {
        barrier.is_of_world = false;
    }
    assert!(!asleep(&seen).1.contains('→'));
}

#[test]
fn ranks_that_call_different_operations_wait_in_a_circle() {
    let mut seen = ranks();
    let barrier = |at: usize, seen: &Seen| BarrierSeen {
        process: PROCESS,
        address: 0x7000 + at as u64,
        kind: Kind::Mpi,
        participants: Some(2),
        arrived: None,
        waiting: vec![seen.0.threads[at].id],
        past_end: Vec::new(),
        at_end: None,
        shared: true,
        past: Some(Past {
            episodes: 0,
            members: vec![Member {
                id: seen.0.threads[at].id,
                name: "lu".into(),
                arrived_ns_ago: Some(6000 * MS),
                site: None,
                ended: false,
            }],
            still_ns: 6000 * MS,
            unsure: false,
        }),
    };
    seen.0.barriers = vec![barrier(0, &seen), barrier(1, &seen)];
    seen.0.threads[1].stack = stack("*opal_progress < *MPI_Allreduce < main a.c:12");
    for at in 0..2 {
        seen.0.threads[at].stack[2].message = None;
        seen.0.processes[at].ranks = Some((2, true));
    }
    let hang = judge(&seen.0).unwrap();
    assert!(hang.certain);
    assert_eq!(
        hang.text,
        "rank 1 is missing at the barrier at a.c:20 (1 of 2 is there, for 6.00 s now): it waits at the \
         barrier at a.c:12 (1 of 2 is there), where rank 0 is missing, which waits at this barrier: they wait for each other \
         for ever; all ranks must call the operations of a communicator in the same order"
    );
}

#[test]
fn a_rank_is_called_so_at_a_barrier_too() {
    let mut seen = ranks();
    let [first, second] = [0, 1].map(|at| seen.0.threads[at].id);
    let member = |id, arrived_ns_ago| Member {
        id,
        name: "lu".into(),
        arrived_ns_ago,
        site: None,
        ended: false,
    };
    seen.0.threads[0].stack[2].message = None;
    seen.0.barriers.push(BarrierSeen {
        process: PROCESS,
        address: 0x7000,
        kind: Kind::Mpi,
        participants: Some(2),
        arrived: Some(1),
        waiting: vec![first],
        past_end: Vec::new(),
        at_end: None,
        shared: true,
        past: Some(Past {
            episodes: 1,
            members: vec![member(first, Some(6000 * MS)), member(second, None)],
            still_ns: 6000 * MS,
            unsure: false,
        }),
    });
    let hang = judge(&seen.0).unwrap();
    assert_eq!(hang.kind, HangKind::Unclear);
    assert_eq!(
        hang.text,
        "rank 1 is missing at the barrier at a.c:20 (1 of 2 is there, for 6.00 s now): it waits in \
         MPI_Recv(), called in main() a.c:12 (with rank 0, tag 77, at each of 5 looks, 99 % of a CPU in \
         200 ms): each of these waits for the next: rank 1 → rank 0 → rank 1"
    );
    assert_eq!(hang.missing[0].who.name, "rank 1 (child)");
    // A launcher gives the rank to a script, too.
    seen.0.threads[0].stack = stack("*read < main a.c:20");
    seen.0.processes[1].rank = Some(0);
    let names = judge(&seen.0).unwrap();
    assert_eq!(names.arrived[0].who.name, "main");
}
