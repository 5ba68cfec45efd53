//! Chooses which places are watched: the processor has room for four addresses. Pure, except
//! [`groups`], which asks the files what they import from each other.

use std::collections::BTreeSet;

use sbt_common::layout;

use crate::source::twin::{Program, ProgramPlace};
use sbt_engine::place::printable;
use sbt_program::{
    files::ProbedFile,
    point::{Function, Point},
};

/// How many addresses one thread can be watched at: the debug registers of x86.
pub const ROOM: usize = 4;

/// How much a group is wanted, the most wanted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Functions and marks that the user has named.
    Named,
    /// Barriers that the program uses, as far as can be known.
    Barrier,
    /// Condition variables that the program uses: barriers may be made of them.
    Condvar,
    /// Functions that tell how many threads a barrier is for: its memory may be gone when it is
    /// read.
    Init,
    /// Functions that are seldom a part of barriers made of condition variables.
    CondvarRest,
    /// Barriers of a library that no file imports.
    Unused,
}

/// Places of a file that are watched together or not at all: watching a part of them gives wrong
/// episodes, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How much the group is wanted.
    pub rank: Rank,
    /// The name by which the user knows the group, for the note that it is not watched.
    pub name: String,
    /// The mark's number, if the group is a mark.
    pub mark: Option<u8>,
    /// Index of the file.
    pub file: usize,
    /// The places of the group.
    pub places: Vec<ProgramPlace>,
}

impl Group {
    fn addresses(&self) -> BTreeSet<(usize, u64)> {
        let places = self.places.iter();
        places.map(|place| (self.file, place.offset)).collect()
    }
}

/// Splits the groups into those that fit into `room` addresses, and the rest.
pub fn choose(mut groups: Vec<Group>, room: usize) -> (Vec<Group>, Vec<Group>) {
    // Of groups wanted alike, small ones first: then more of them fit.
    groups.sort_by_key(|group| (group.rank, group.addresses().len()));
    let mut taken = BTreeSet::new();
    groups.into_iter().partition(|group| {
        let more: BTreeSet<_> = taken.union(&group.addresses()).copied().collect();
        let fits = more.len() <= room;
        if fits {
            taken = more;
        }
        fits
    })
}

/// Wanted groups that are not watched for want of room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    names: Vec<String>,
    /// The largest number of addresses that other programs use.
    taken: usize,
    /// Numbers of marks among them: how often these were passed is unknown.
    pub marks: BTreeSet<u8>,
}

impl Missed {
    /// The wanted groups in `left`, for which `room` addresses were not enough. Groups that nobody
    /// misses are skipped.
    pub fn of(left: &[Group], room: usize) -> Self {
        let mut missed = Self::default();
        for group in left {
            if matches!(group.rank, Rank::Init | Rank::Unused) {
                continue;
            }
            missed.marks.extend(group.mark);
            if !missed.names.contains(&group.name) {
                missed.names.push(group.name.clone());
            }
        }
        if !missed.is_empty() {
            missed.taken = ROOM.saturating_sub(room);
        }
        missed
    }

    /// Whether nothing is missed.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds what is missed in another process, or at a later time.
    pub fn add(&mut self, other: Self) {
        self.taken = self.taken.max(other.taken);
        self.marks.extend(other.marks);
        for name in other.names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }

    /// The note for the user, if anything is missed.
    pub fn told(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let others = match self.taken {
            0 => String::new(),
            taken => format!(" ({taken} of them used by a debugger or another sbt)"),
        };
        Some(format!(
            "the processor watches {ROOM} addresses at once{others}; not watched for lack of room: \
             {}; --backend ptrace watches all",
            self.names.join(", ")
        ))
    }
}

/// The groups of places that can be watched in the files of one process. `places`: the places of a
/// point.
pub fn groups<'a>(
    files: &'a [&'a ProbedFile],
    condvars: bool,
    mut places: impl FnMut(&'a Point) -> Vec<ProgramPlace>,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let is_used = |symbol: &str| ProbedFile::is_used(files, index, symbol);
        for point in &file.points {
            let Some((rank, name)) = kind(point, &file.shown.to_string_lossy(), is_used) else {
                continue;
            };
            if matches!(rank, Rank::Condvar | Rank::CondvarRest) && !condvars {
                continue;
            }
            let new = places(point).into_iter().filter(|place| {
                // Departures are not watched.
                !place.for_departures && !matches!(place.program, Program::CallExit | Program::Left)
            });
            let same = |group: &&mut Group| group.file == index && group.name == name;
            match groups.iter_mut().find(same) {
                Some(group) => group.places.extend(new),
                None => groups.push(Group {
                    rank,
                    name,
                    mark: match point.function {
                        Function::Mark(number) => Some(number),
                        _ => None,
                    },
                    file: index,
                    places: new.collect(),
                }),
            }
        }
    }
    groups.retain(|group| !group.places.is_empty());
    groups
}

/// How much a point is wanted, and the name of its group. `None`: not at all.
fn kind(point: &Point, file: &str, is_used: impl Fn(&str) -> bool) -> Option<(Rank, String)> {
    let symbol = printable(&point.symbol);
    let file = printable(file.rsplit('/').next().unwrap_or_default());
    Some(match point.function {
        Function::Call { .. } if [layout::MPI, layout::MPI_NUMBERED].contains(&point.layout) => {
            let is_used = is_used(&point.symbol);
            let rank = if is_used { Rank::Barrier } else { Rank::Unused };
            (rank, symbol)
        }
        Function::Call { .. } => (Rank::Named, symbol),
        Function::Mark(number) => {
            let number = u32::from(number) + 1;
            (Rank::Named, format!("mark {number} (in {symbol})"))
        }
        Function::BarrierWait | Function::BarrierInit if !is_used(&point.symbol) => {
            (Rank::Unused, symbol)
        }
        Function::BarrierWait => (Rank::Barrier, symbol),
        Function::Team(_) | Function::Kmp(_) => {
            let barriers = point.runtime().and_then(|runtime| runtime.barriers);
            let barriers = barriers.unwrap_or("the barriers of OpenMP");
            (Rank::Barrier, format!("{barriers} in {file}"))
        }
        Function::CondWait | Function::CondWake { .. } if !is_used(&point.symbol) => return None,
        Function::CondWake { most: 0 } => (Rank::Condvar, CONDVARS.into()),
        Function::CondWait if point.symbol.ends_with("pthread_cond_wait") => {
            (Rank::Condvar, CONDVARS.into())
        }
        Function::CondWait | Function::CondWake { .. } => (Rank::CondvarRest, symbol),
        Function::BarrierInit => (Rank::Init, symbol),
        Function::LinkerMapped
        | Function::CallExit
        // The processor watches four places at most.
        | Function::Make { .. }
        | Function::Made
        | Function::TeamEnd
        | Function::Left
        | Function::Region
        | Function::Awaits => return None,
    })
}

const CONDVARS: &str = "barriers made of condition variables";

#[cfg(test)]
mod tests {
    use super::*;

    fn group(rank: Rank, name: &str, file: usize, offsets: &[u64]) -> Group {
        let place = |offset: &u64| ProgramPlace {
            offset: *offset,
            program: Program::Arrive,
            cookie: 0,
            for_departures: false,
        };
        Group {
            rank,
            name: name.into(),
            mark: None,
            file,
            places: offsets.iter().map(place).collect(),
        }
    }

    fn names(groups: &[Group]) -> Vec<&str> {
        groups.iter().map(|group| group.name.as_str()).collect()
    }

    #[test]
    fn what_is_wanted_most_comes_first_and_whole() {
        let (taken, left) = choose(
            vec![
                group(Rank::Unused, "unused", 0, &[1]),
                group(Rank::Barrier, "many", 1, &[1, 2, 3, 4, 5]),
                group(Rank::Init, "init", 0, &[2]),
                group(Rank::Condvar, "condvars", 0, &[3, 4]),
                group(Rank::Barrier, "one", 0, &[5]),
                group(Rank::Named, "named", 2, &[1]),
            ],
            ROOM,
        );
        assert_eq!(names(&taken), ["named", "one", "condvars"]);
        assert_eq!(names(&left), ["many", "init", "unused"]);
        let told = Missed::of(&left, ROOM).told().unwrap();
        assert!(told.contains("at once; not watched"), "{told}");
        assert!(told.contains("for lack of room: many;"), "{told}");
        let told = Missed::of(&left, 1).told().unwrap();
        assert!(told.contains("(3 of them used by"), "{told}");
        let rest = [group(Rank::CondvarRest, "rest", 0, &[1])];
        assert!(!Missed::of(&rest, ROOM).is_empty());
        let nobody = Missed::of(&left[1..], 1);
        assert_eq!(nobody, Missed::default(), "nobody misses those");
    }

    #[test]
    fn what_is_missed_here_and_there_is_told_once() {
        let mark = |number: u8, name: &str| Group {
            mark: Some(number),
            ..group(Rank::Named, name, 0, &[u64::from(number)])
        };
        let mut all = Missed::of(&[mark(4, "e"), group(Rank::Condvar, "c", 0, &[1])], ROOM);
        all.add(Missed::default());
        all.add(Missed::of(&[mark(4, "e"), mark(5, "f")], 3));
        let told = all.told().unwrap();
        assert!(told.contains("for lack of room: e, c, f;"), "{told}");
        assert!(told.contains("(1 of them used by"), "{told}");
        assert_eq!(all.marks, [4, 5].into());
    }

    #[test]
    fn an_address_counts_once() {
        let (taken, left) = choose(
            vec![
                group(Rank::Barrier, "four", 0, &[1, 2, 3, 4]),
                group(Rank::Condvar, "same", 0, &[3, 4]),
                group(Rank::Condvar, "elsewhere", 1, &[3]),
            ],
            ROOM,
        );
        assert_eq!(names(&taken), ["four", "same"]);
        assert_eq!(names(&left), ["elsewhere"]);
    }

    fn point(function: Function, symbol: &str) -> Point {
        Point {
            function,
            symbol: symbol.into(),
            entry_offset: 1,
            stack_moved: 0,
            return_offset: 1,
            entry_emulated: true,
            layout: layout::GLIBC,
        }
    }

    #[test]
    fn what_nobody_uses_is_wanted_last() {
        let rank = |function, symbol: &str, used| {
            kind(&point(function, symbol), "/lib/libc.so.6", |_| used).map(|(rank, _)| rank)
        };
        let wait = |used| rank(Function::BarrierWait, "pthread_barrier_wait", used);
        assert_eq!(
            [wait(true), wait(false)],
            [Some(Rank::Barrier), Some(Rank::Unused)]
        );
        let collective = |imported: &str| {
            let call = Function::Call {
                object: 1,
                count: 0,
            };
            let mut point = point(call, "MPI_Barrier");
            point.layout = layout::MPI;
            kind(&point, "/lib/libmpi.so.40", |symbol| symbol == imported).map(|(rank, _)| rank)
        };
        assert_eq!(
            ["MPI_Barrier", "MPI_Init"].map(collective),
            [Some(Rank::Barrier), Some(Rank::Unused)]
        );
        let cond = |symbol: &str, used| rank(Function::CondWait, symbol, used);
        assert_eq!(cond("pthread_cond_wait", true), Some(Rank::Condvar));
        assert_eq!(
            cond("pthread_cond_timedwait", true),
            Some(Rank::CondvarRest)
        );
        assert_eq!(cond("pthread_cond_wait", false), None);
        assert_eq!(
            rank(Function::CallExit, "f", true),
            None,
            "who leaves is not seen"
        );
    }

    #[test]
    fn names_do_not_reach_the_terminal_as_they_are() {
        let call = Function::Call {
            object: 0,
            count: 0,
        };
        let (_, name) = kind(&point(call, "f\x1b[2J"), "x", |_| true).unwrap();
        assert!(!name.contains('\x1b'), "{name:?}");
    }
}
