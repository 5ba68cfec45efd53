//! Ranks that make communicators, told call by call.

use sbt_common::{Head, MAKE_LIST, Make, TOO_LONG};

use super::{
    keeping::{MOST, MOST_OF_ONE},
    *,
};
use crate::runtimes::mpi::makers::{FUNCTIONS, number};

const WORLD: u64 = 0x4400_0000;
const ALONE: u64 = 0x4400_0001;
const NULL: u64 = 0x0400_0000;
/// A name of communicators that the tests make.
const NEW: u64 = 0x8400_0000;
const GROUP: u64 = 0x8800_0000;

/// Some ranks of one job, or of several.
struct Ranks {
    families: Families,
    /// Whether the library's communicators are numbers.
    is_numbered: bool,
}

impl Ranks {
    fn new(ranks: u16) -> Self {
        let mut all = Self {
            families: Families::default(),
            is_numbered: true,
        };
        for rank in 0..ranks {
            all.begin(rank, "1", u32::from(rank), u32::from(ranks), true);
        }
        all
    }

    fn begin(&mut self, process: Process, job: &str, rank: u32, ranks: u32, is_complete: bool) {
        let rank = Rank {
            job: Some(job.as_bytes().into()),
            rank: Some(rank),
            ranks: Some(ranks),
            world: WORLD,
            alone: ALONE,
            none: NULL,
            is_readable: false,
            is_complete,
        };
        self.families.begin(process, rank);
    }

    /// A process enters a function with these arguments and this list.
    fn enter(&mut self, process: Process, name: &str, given: &[u64], list: &[u32]) {
        let index = FUNCTIONS.iter().position(|function| function.name == name);
        let index = u8::try_from(index.unwrap()).unwrap();
        let mut record = Make {
            head: Head {
                layout: number(index, self.is_numbered),
                ..Head::default()
            },
            time_ns: 0,
            seq: 0,
            number: 0,
            listed: u32::try_from(list.len()).unwrap(),
            reserved: 0,
            held: given[0],
            arguments: [0; 6],
            list: [0; MAKE_LIST],
        };
        record.arguments[..given.len()].copy_from_slice(given);
        record.list[..list.len()].copy_from_slice(list);
        let call = MakerCall::of(&record).unwrap();
        self.families.enter(process, 0, &call);
    }

    fn leave(&mut self, process: Process, value: u64) {
        self.families.leave(process, 0, value, true);
    }

    /// All of these processes make a call: all come before the first leaves.
    fn all<'a>(
        &mut self,
        processes: &[Process],
        name: &str,
        given: impl Fn(Process) -> &'a [u64],
        new: impl Fn(Process) -> u64,
    ) {
        for process in processes {
            self.enter(*process, name, given(*process), &[]);
        }
        for process in processes {
            self.leave(*process, new(*process));
        }
    }

    fn found(&mut self, process: Process, name: u64) -> Option<(CommunicatorId, Option<u32>)> {
        self.families.find(process, name)
    }

    /// Which of the processes have the same communicator under a name, and how many ranks it has.
    fn parts(&mut self, processes: &[Process], name: u64) -> Vec<(Vec<Process>, Option<u32>)> {
        let mut parts: Vec<(CommunicatorId, Vec<Process>, Option<u32>)> = Vec::new();
        for process in processes {
            let Some((id, size)) = self.found(*process, name) else {
                continue;
            };
            match parts.iter_mut().find(|(known, ..)| *known == id) {
                Some((_, members, _)) => members.push(*process),
                None => parts.push((id, vec![*process], size)),
            }
        }
        parts
            .into_iter()
            .map(|(_, all, size)| (all, size))
            .collect()
    }
}

/// A number as an argument: the upper half of the register may hold anything.
fn int(value: i32) -> u64 {
    0xdead_beef_0000_0000 | u64::from(value.cast_unsigned())
}

#[test]
fn the_world_is_one_in_a_job_and_each_process_has_itself() {
    let mut ranks = Ranks::new(2);
    ranks.begin(2, "2", 0, 1, true);
    assert_eq!(
        ranks.parts(&[0, 1, 2], WORLD),
        [(vec![0, 1], Some(2)), (vec![2], Some(1))]
    );
    assert_eq!(ranks.parts(&[0, 1], ALONE).len(), 2);
    assert_eq!(ranks.found(0, NEW), None);
    assert_eq!(ranks.found(9, WORLD), None);
}

#[test]
fn parts_are_told_apart_by_colour_and_copies_by_the_number_of_the_call() {
    let mut ranks = Ranks::new(5);
    let all = [0, 1, 2, 3, 4];
    let colours: [[u64; 3]; 5] = [0, 1, 0, 1, UNDEFINED].map(|colour| [WORLD, int(colour), 0]);
    // Each process may give another name.
    ranks.all(
        &all,
        "MPI_Comm_split",
        |process| &colours[usize::from(process)],
        |process| if process == 4 { NULL } else { NEW },
    );
    let parts = [(vec![0, 2], Some(2)), (vec![1, 3], Some(2))];
    assert_eq!(ranks.parts(&all, NEW), parts);
    for copy in 1..3 {
        ranks.all(&all, "MPI_Comm_dup", |_| &[WORLD], |_| NEW + copy);
        assert_eq!(ranks.parts(&all, NEW + copy), [(all.to_vec(), Some(5))]);
    }
    assert_ne!(ranks.found(0, NEW + 1), ranks.found(0, NEW + 2));
    // A copy of a part.
    ranks.all(&[0, 2], "MPI_Comm_dup", |_| &[NEW], |_| NEW + 3);
    ranks.all(&[1, 3], "MPI_Comm_dup", |_| &[NEW], |_| NEW + 3);
    assert_eq!(ranks.parts(&all, NEW + 3), parts);
}

#[test]
fn a_rank_that_leaves_the_call_first_knows_how_many_there_are() {
    let mut ranks = Ranks::new(3);
    for process in 0..3 {
        ranks.enter(process, "MPI_Comm_split", &[WORLD, 7, 0], &[]);
    }
    ranks.leave(1, NEW);
    assert_eq!(ranks.parts(&[0, 1, 2], NEW), [(vec![1], Some(3))]);
}

#[test]
fn a_rank_that_leaves_the_call_last_may_be_the_only_one_of_its_part() {
    let mut ranks = Ranks::new(3);
    let colours = [0, 0, 1].map(|colour| [WORLD, int(colour), 0]);
    ranks.all(
        &[0, 1, 2],
        "MPI_Comm_split",
        |process| &colours[usize::from(process)],
        |_| NEW,
    );
    let parts = [(vec![0, 1], Some(2)), (vec![2], Some(1))];
    assert_eq!(ranks.parts(&[0, 1, 2], NEW), parts);
}

#[test]
fn without_all_ranks_the_size_of_a_part_is_unknown() {
    // The others run on another machine.
    let mut ranks = Ranks::new(0);
    for process in 0..2 {
        ranks.begin(process, "1", process.into(), 4, true);
    }
    ranks.all(&[0, 1], "MPI_Comm_split", |_| &[WORLD, 7, 0], |_| NEW);
    assert_eq!(ranks.parts(&[0, 1], NEW), [(vec![0, 1], None)]);
    ranks.all(&[0, 1], "MPI_Comm_dup", |_| &[WORLD], |_| NEW);
    assert_eq!(ranks.parts(&[0, 1], NEW), [(vec![0, 1], Some(4))]);
}

#[test]
fn a_freed_name_means_nothing_until_it_is_given_again() {
    let mut ranks = Ranks::new(2);
    let all = [0, 1];
    ranks.all(&all, "MPI_Comm_dup", |_| &[WORLD], |_| NEW);
    let first = ranks.found(0, NEW);
    ranks.enter(0, "MPI_Comm_free", &[NEW], &[]);
    assert_eq!(ranks.found(0, NEW), None);
    assert_eq!(ranks.found(1, NEW), first);
    ranks.enter(1, "MPI_Comm_free", &[NEW], &[]);
    ranks.all(&all, "MPI_Comm_split", |_| &[WORLD, 0, 0], |_| NEW);
    assert_ne!(ranks.found(0, NEW), first);
    assert_eq!(ranks.parts(&all, NEW), [(all.to_vec(), Some(2))]);
}

#[test]
fn communicators_that_come_and_go_leave_nothing() {
    let mut ranks = Ranks::new(2);
    for round in 0..1000 {
        ranks.all(&[0, 1], "MPI_Comm_split", |_| &[WORLD, 1, 0], |_| NEW);
        ranks.all(&[0, 1], "MPI_Comm_dup", |_| &[NEW], |_| NEW + 1);
        // No rank is in a part.
        let nobody = int(UNDEFINED);
        let given = [WORLD, nobody, 0];
        ranks.all(&[0, 1], "MPI_Comm_split", |_| &given, |_| NULL);
        // The first may free what the second does not have yet.
        ranks.enter(0, "MPI_Comm_dup", &[WORLD], &[]);
        ranks.enter(1, "MPI_Comm_dup", &[WORLD], &[]);
        ranks.leave(0, NEW + 2);
        ranks.enter(0, "MPI_Comm_free", &[NEW + 2], &[]);
        ranks.leave(1, NEW + 2);
        ranks.enter(1, "MPI_Comm_free", &[NEW + 2], &[]);
        for process in [0, 1] {
            for name in [NEW, NEW + 1] {
                ranks.enter(process, "MPI_Comm_free", &[name], &[]);
            }
        }
        let left = &ranks.families;
        // The world, and each process alone.
        let kept = (left.known.len(), left.ids.len(), left.coming.len());
        assert_eq!(kept, (3, 3, 0), "{round}: {left:?}");
    }
    for process in [0, 1] {
        ranks.families.forget(process);
    }
    assert!(ranks.families.known.is_empty(), "{:?}", ranks.families);
}

#[test]
fn communicators_that_come_and_go_without_all_ranks_leave_nothing() {
    // The last rank is on another machine. Of the one before, calls are missing.
    let mut ranks = Ranks::new(0);
    for process in 0..3 {
        ranks.begin(process, "1", process.into(), 4, true);
    }
    let given = [WORLD, int(UNDEFINED), 0];
    for process in [0, 1] {
        ranks.enter(process, "MPI_Comm_split", &given, &[]);
        ranks.leave(process, NULL);
        ranks.enter(process, "MPI_Comm_dup", &[WORLD], &[]);
        ranks.leave(process, NEW);
        ranks.enter(process, "MPI_Comm_free", &[NEW], &[]);
    }
    // The third rank may still come.
    assert_eq!(ranks.families.coming.len(), 2);
    ranks.enter(2, "MPI_Comm_split", &given, &[]);
    ranks.families.doubt(2);
    for round in 0..100 {
        ranks.all(&[0, 1], "MPI_Comm_split", |_| &[WORLD, 1, 0], |_| NEW);
        ranks.all(&[0, 1], "MPI_Comm_split", |_| &given, |_| NULL);
        ranks.all(&[0, 1], "MPI_Comm_dup", |_| &[NEW], |_| NEW + 1);
        ranks.all(&[0, 1], "MPI_Comm_group", |_| &[NEW], |_| GROUP);
        let by_group = [NEW, GROUP, 0];
        ranks.all(&[0, 1], "MPI_Comm_create_group", |_| &by_group, |_| NEW + 2);
        for name in [NEW, NEW + 1, NEW + 2] {
            assert_eq!(ranks.parts(&[0, 1, 2], name)[0].0, [0, 1]);
            for process in [0, 1] {
                ranks.enter(process, "MPI_Comm_free", &[name], &[]);
            }
        }
        let left = &ranks.families;
        let kept = (left.known.len(), left.ids.len(), left.coming.len());
        assert_eq!(kept, (4, 4, 0), "{round}: {left:?}");
    }
    // One rank ends in a call, the other before the call.
    ranks.enter(0, "MPI_Comm_dup", &[WORLD], &[]);
    ranks.families.forget(0);
    assert_eq!(ranks.families.coming.len(), 1);
    ranks.families.forget(1);
    assert!(ranks.families.coming.is_empty(), "{:?}", ranks.families);
}

#[test]
fn calls_that_never_end_have_a_limit() {
    let mut ranks = Ranks::new(2);
    let given = [WORLD, int(UNDEFINED), 0];
    for _ in 0..=MOST {
        assert!(!ranks.families.has_overflowed());
        ranks.all(&[0], "MPI_Comm_split", |_| &given, |_| NULL);
    }
    assert!(ranks.families.has_overflowed());
    assert!(ranks.families.coming.is_empty());
}

#[test]
fn a_process_that_keeps_too_much_is_not_followed() {
    let mut ranks = Ranks::new(2);
    ranks.all(&[0, 1], "MPI_Comm_dup", |_| &[WORLD], |_| NEW);
    for new in 0..MOST_OF_ONE as u64 {
        ranks.all(&[0], "MPI_Comm_group", |_| &[WORLD], |_| GROUP + new);
    }
    let kept = &ranks.families.processes[&0];
    assert!(kept.groups.is_empty() && !kept.rank.is_complete);
    assert_eq!(ranks.parts(&[0, 1], NEW), [(vec![1], Some(2))]);
    assert_eq!(ranks.parts(&[0, 1], WORLD), [(vec![0, 1], Some(2))]);
    assert!(!ranks.families.has_overflowed());
    // Threads in calls count too.
    let record = Make {
        head: Head {
            layout: number(2, true),
            ..Head::default()
        },
        time_ns: 0,
        seq: 0,
        number: 0,
        listed: 0,
        reserved: 0,
        held: 0,
        arguments: [NEW + 9, 0, 0, 0, 0, 0],
        list: [0; MAKE_LIST],
    };
    let call = MakerCall::of(&record).unwrap();
    for thread in 0..=u32::try_from(MOST_OF_ONE).unwrap() {
        ranks.families.enter(1, thread, &call);
    }
    assert!(ranks.families.processes[&1].inside.is_empty());
}

#[test]
fn groups_of_more_ranks_than_there_may_be_are_unknown() {
    let most = u32::try_from(MOST_RANKS).unwrap();
    let all = Group::all(CommunicatorId(0));
    let size = |group: Option<Group>| group.and_then(|group| group.size(None));
    assert_eq!(size(all.without(&[1, 5], Some(most))), Some(most - 2));
    for size in [most + 1, u32::MAX] {
        assert_eq!(all.without(&[1], Some(size)), None);
        assert_eq!(all.and(&all, Some(size)), None);
        assert_eq!(all.kept(&all, true, Some(size)), None);
    }
    let high: Vec<u32> = (most..2 * most).collect();
    let high = all.at(&high).unwrap();
    assert_eq!(all.and(&high, Some(most)), None);
    assert_eq!(size(all.and(&all, Some(most))), Some(most));
    let list: Vec<u32> = (0..=most).collect();
    assert_eq!(all.at(&list), None);
    // The order stays that of the first.
    let (some, others) = (all.at(&[9, 3, 7]).unwrap(), all.at(&[8, 7, 2]).unwrap());
    assert_eq!(some.and(&others, None), all.at(&[9, 3, 7, 8, 2]));
    assert_eq!(some.kept(&others, false, None), all.at(&[9, 3]));
}

#[test]
fn what_means_shared_memory_depends_on_the_library() {
    for (is_numbered, kind, is_shared) in [
        (true, 1, true),
        (true, 0, false),
        (true, 221, false),
        (false, 0, true),
        (false, 221, true),
        // A thread of a core, in Open MPI.
        (false, 1, false),
    ] {
        let mut ranks = Ranks::new(2);
        ranks.is_numbered = is_numbered;
        let given = [WORLD, int(kind), 0];
        ranks.all(&[0, 1], "MPI_Comm_split_type", |_| &given, |_| NEW);
        let found = ranks.parts(&[0, 1], NEW);
        let parts = if is_shared {
            vec![(vec![0, 1], Some(2))]
        } else {
            Vec::new()
        };
        assert_eq!(found, parts, "{is_numbered} {kind}");
    }
}

#[test]
fn what_can_be_read_is_followed_by_calls_until_some_are_lost() {
    let mut ranks = Ranks::new(1);
    let rank = Rank {
        is_readable: true,
        ..ranks.families.rank(0).unwrap().clone()
    };
    ranks.families.begin(0, rank);
    ranks.all(&[0], "MPI_Comm_dup", |_| &[WORLD], |_| NEW);
    assert!(ranks.found(0, NEW).is_some());
    ranks.families.doubt(0);
    assert!(ranks.found(0, WORLD).is_some());
    assert_eq!(ranks.found(0, NEW), None);
    assert!(!ranks.families.rank(0).unwrap().is_readable);
}

#[test]
fn groups_are_the_ranks_that_they_were_made_of() {
    let mut ranks = Ranks::new(4);
    let all = [0, 1, 2, 3];
    let group = |ranks: &mut Ranks, name: &str, given: &[u64], list: &[u32], new| {
        for process in all {
            ranks.enter(process, name, given, list);
            ranks.leave(process, new);
        }
    };
    group(&mut ranks, "MPI_Comm_group", &[WORLD], &[], GROUP);
    group(
        &mut ranks,
        "MPI_Group_incl",
        &[GROUP, 2],
        &[0, 2],
        GROUP + 1,
    );
    group(
        &mut ranks,
        "MPI_Group_difference",
        &[GROUP, GROUP + 1],
        &[],
        GROUP + 2,
    );
    group(
        &mut ranks,
        "MPI_Group_range_excl",
        &[GROUP, 1],
        &[3, 1, u32::MAX],
        GROUP + 3,
    );
    group(
        &mut ranks,
        "MPI_Group_union",
        &[GROUP + 2, GROUP + 3],
        &[],
        GROUP + 4,
    );
    group(
        &mut ranks,
        "MPI_Group_intersection",
        &[GROUP + 4, GROUP + 1],
        &[],
        GROUP + 5,
    );
    // Two groups at once, each of its own members.
    ranks.all(
        &all,
        "MPI_Comm_create",
        |process| {
            if process % 2 == 0 {
                &[WORLD, GROUP + 1]
            } else {
                &[WORLD, GROUP + 2]
            }
        },
        |_| NEW,
    );
    let parts = [(vec![0, 2], Some(2)), (vec![1, 3], Some(2))];
    assert_eq!(ranks.parts(&all, NEW), parts);
    // The members of a group alone make a communicator, twice.
    for new in [NEW + 1, NEW + 2] {
        let given = [WORLD, GROUP + 4, 5];
        ranks.all(&[0, 1, 3], "MPI_Comm_create_group", |_| &given, |_| new);
        assert_eq!(ranks.parts(&all, new), [(vec![0, 1, 3], Some(3))]);
    }
    assert_ne!(ranks.found(0, NEW + 1), ranks.found(0, NEW + 2));
    // Calls by a group alone do not count among those of all.
    ranks.all(&all, "MPI_Comm_dup", |_| &[WORLD], |_| NEW + 3);
    assert_eq!(ranks.parts(&all, NEW + 3), [(all.to_vec(), Some(4))]);
    let given = [WORLD, GROUP + 5];
    ranks.all(
        &all,
        "MPI_Comm_create",
        |_| &given,
        |process| if process == 0 { NEW + 4 } else { NULL },
    );
    assert_eq!(ranks.parts(&all, NEW + 4), [(vec![0], Some(1))]);
    // A group that is made in a way that is not followed.
    let given = [WORLD, GROUP + 99];
    ranks.all(&all, "MPI_Comm_create", |_| &given, |_| NEW + 5);
    assert_eq!(ranks.found(0, NEW + 5), None);
}

#[test]
fn rows_of_a_grid_are_told_apart_also_if_ranks_were_put_into_another_order() {
    let mut ranks = Ranks::new(5);
    let all = [0, 1, 2, 3, 4];
    // The last rank comes first in the new order.
    let keys = [-0, -1, -2, -3, -4].map(|key| [WORLD, 0, int(key)]);
    ranks.all(
        &all,
        "MPI_Comm_split",
        |process| &keys[usize::from(process)],
        |_| NEW,
    );
    for process in all {
        ranks.enter(process, "MPI_Cart_create", &[NEW, 2, 0, 0, 0], &[2, 2]);
    }
    for process in all {
        ranks.leave(process, if process == 0 { NULL } else { NEW + 1 });
    }
    let grid = [1, 2, 3, 4];
    assert_eq!(ranks.parts(&all, NEW + 1), [(grid.to_vec(), Some(4))]);
    let divide = |ranks: &mut Ranks, keeps: [u32; 2], new| {
        for process in grid {
            // More is read than there are dimensions.
            let list = [keeps[0], keeps[1], 7, 7];
            ranks.enter(process, "MPI_Cart_sub", &[NEW + 1], &list);
        }
        for process in grid {
            ranks.leave(process, new);
        }
    };
    divide(&mut ranks, [0, 1], NEW + 2);
    let rows = [(vec![1, 2], Some(2)), (vec![3, 4], Some(2))];
    assert_eq!(ranks.parts(&all, NEW + 2), rows);
    divide(&mut ranks, [1, 0], NEW + 3);
    let columns = [(vec![1, 3], Some(2)), (vec![2, 4], Some(2))];
    assert_eq!(ranks.parts(&all, NEW + 3), columns);
    // In a grid for which the library may number the ranks anew, nobody knows their rows.
    for process in all {
        ranks.enter(process, "MPI_Cart_create", &[WORLD, 1, 0, 0, 1], &[5]);
    }
    for process in all {
        ranks.leave(process, NEW + 4);
    }
    assert_eq!(ranks.parts(&all, NEW + 4), [(all.to_vec(), Some(5))]);
    ranks.enter(0, "MPI_Cart_sub", &[NEW + 4], &[1]);
    ranks.leave(0, NEW + 5);
    assert_eq!(ranks.found(0, NEW + 5), None);
}

#[test]
fn who_was_not_watched_from_the_start_knows_the_world_alone() {
    let mut ranks = Ranks::new(1);
    ranks.begin(1, "1", 1, 2, false);
    ranks.enter(1, "MPI_Comm_dup", &[WORLD], &[]);
    ranks.leave(1, NEW);
    assert_eq!(ranks.found(1, NEW), None);
    assert!(ranks.found(1, WORLD).is_some());
    // A process whose calls were lost knows only the world, too.
    let mut ranks = Ranks::new(2);
    ranks.all(&[0, 1], "MPI_Comm_dup", |_| &[WORLD], |_| NEW);
    ranks.families.doubt(1);
    assert_eq!(ranks.parts(&[0, 1], NEW), [(vec![0], Some(2))]);
    assert_eq!(ranks.parts(&[0, 1], WORLD), [(vec![0, 1], Some(2))]);
}

#[test]
fn what_is_made_of_something_unknown_is_unknown() {
    let mut ranks = Ranks::new(1);
    ranks.enter(0, "MPI_Comm_dup", &[NEW + 9], &[]);
    ranks.leave(0, NEW);
    assert_eq!(ranks.found(0, NEW), None);
    // The name had another meaning before.
    ranks.all(&[0], "MPI_Comm_dup", |_| &[WORLD], |_| NEW);
    assert!(ranks.found(0, NEW).is_some());
    ranks.enter(0, "MPI_Comm_dup", &[NEW + 9], &[]);
    ranks.leave(0, NEW);
    assert_eq!(ranks.found(0, NEW), None);
    // A list that is too long.
    ranks.enter(0, "MPI_Comm_group", &[WORLD], &[]);
    ranks.leave(0, GROUP);
    let mut record = Make {
        head: Head {
            layout: number(18, true),
            ..Head::default()
        },
        time_ns: 0,
        seq: 0,
        number: 0,
        listed: TOO_LONG,
        reserved: 0,
        held: 0,
        arguments: [GROUP, 1000, 0, 0, 0, 0],
        list: [0; MAKE_LIST],
    };
    assert_eq!(FUNCTIONS[18].name, "MPI_Group_incl");
    ranks.families.enter(0, 0, &MakerCall::of(&record).unwrap());
    ranks.leave(0, GROUP + 1);
    ranks.all(&[0], "MPI_Comm_create", |_| &[WORLD, GROUP + 1], |_| NEW);
    assert_eq!(ranks.found(0, NEW), None);
    record.head.layout = 63;
    assert!(MakerCall::of(&record).is_none());
}

#[test]
fn a_call_that_fails_makes_nothing_but_counts() {
    let mut ranks = Ranks::new(2);
    for process in [0, 1] {
        ranks.enter(process, "MPI_Comm_dup", &[WORLD], &[]);
        ranks.families.leave(process, 0, NEW, false);
        assert_eq!(ranks.found(process, NEW), None);
    }
    ranks.all(&[0, 1], "MPI_Comm_dup", |_| &[WORLD], |_| NEW);
    assert_eq!(ranks.parts(&[0, 1], NEW), [(vec![0, 1], Some(2))]);
}
