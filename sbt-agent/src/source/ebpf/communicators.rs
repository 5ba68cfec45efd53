//! Finds out which MPI communicator is meant in a process: by the calls that made it; with Open MPI 4,
//! where these are not known, by what lies at its address. Calls are known in the order in which they
//! were made, memory only as it is a while later.

use rustc_hash::{FxHashMap, FxHashSet};
use sbt_common::{Made, Make, Memory, Mpi};

use super::spaces::{own, shared};
use sbt_engine::{
    event::{self, SHARED},
    job::{BY, WORLD},
};
use sbt_program::{
    process::job,
    runtimes::mpi::{
        self,
        families::{CommunicatorId, Families},
        makers::{self, Maker, MakerCall},
        openmpi::{self, Communicator, FoundCommunicator},
        world,
    },
};

/// How long a communicator that was read is trusted, ns. A freed communicator may leave its address
/// to another one, so it is then read again.
const TRUSTED_NS: u64 = 1_000_000_000;

/// The [`Met::until_ns`] of a communicator that came with the record of a thread's arrival.
const TOLD: u64 = u64::MAX;

/// The communicators met so far.
#[derive(Default)]
pub struct Communicators {
    met: FxHashMap<u64, Met>,
    /// Ids of communicators. Each job has its own `MPI_COMM_WORLD`.
    objects: FxHashMap<Which, u64>,
    /// Ids of the barriers that the functions of MPI are on a communicator, by its id and the number of
    /// the function.
    barriers: FxHashMap<(u64, u16), u64>,
    /// What communicators are called in all processes of their jobs, by id.
    called: FxHashMap<u64, String>,
    /// The names of new objects, until they are taken.
    names: FxHashMap<u64, String>,
    families: Families,
    /// Number of arrivals at communicators that sbt cannot identify.
    unknown: u64,
    /// Jobs by the number of their process's address space.
    jobs: FxHashMap<u16, Option<Job>>,
    /// Where the memory of a communicator holds its number, once known.
    known: Option<Mpi>,
    /// Whether a communicator was met that sbt does not understand.
    has_others: bool,
}

/// The name of an MPI job, from [`job::name`].
type Job = Box<[u8]>;

/// Identifies a communicator in all processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Which {
    Read(Option<Job>, Communicator),
    Called(CommunicatorId),
}

/// The number of communicators from which on those that no process has any more are forgotten.
const MAX_OBJECTS: usize = 4096;

#[derive(Clone, Copy)]
struct Met {
    /// How long it may be taken for what was read, ns; 0 if it was not read.
    until_ns: u64,
    object: u64,
    count: Option<u32>,
}

impl Communicators {
    /// The id of the communicator that a process (`of`: number of its address space, and pid) calls
    /// `at`, and how many ranks it has, if known. `is_numbered`: whether that is a number and no address.
    pub fn find(
        &mut self,
        of: (u16, u32),
        (at, is_numbered): (u64, bool),
        now_ns: u64,
    ) -> (u64, Option<u32>) {
        let at = makers::handle(at, is_numbered);
        if self.families.rank(of.0).is_none() {
            self.begin(of, is_numbered, false);
        }
        let rank = self.families.rank(of.0);
        let (is_complete, is_readable, world) = rank.map_or((false, false, 0), |rank| {
            (rank.is_complete, rank.is_readable, rank.world)
        });
        // Where all can be read, ranks agree on what is read; where calls are known, on the calls.
        let by_calls = is_complete || !is_readable;
        let called = by_calls.then(|| self.families.find(of.0, at)).flatten();
        if let Some((id, size)) = called {
            let object = self.object(Which::Called(id), at);
            let met = Met {
                until_ns: 0,
                object,
                count: size,
            };
            self.met.insert(own(of.0, at), met);
            return (object, size);
        }
        // Of a process that has ended, what its arrivals told is still known.
        let met = self.met.get(&own(of.0, at));
        if let Some(told) = met.filter(|met| met.until_ns == TOLD) {
            return (told.object, told.count);
        }
        if is_readable {
            // Only a communicator with a name that the library gave shows where its number is.
            if self.known.is_none()
                && let FoundCommunicator::Communicator(_, _, mpi) = openmpi::at(of.1, world, None)
            {
                self.known = Some(mpi);
            }
            return self.read(of, at, now_ns);
        }
        self.unknown += 1;
        (own(of.0, at), None)
    }

    /// The id of the barrier that a function of MPI, by its number, is on a communicator: ranks meet if
    /// they call the same function, and wait for ever if they do not (MPI 3.1, section 5.1).
    pub fn barrier(&mut self, communicator: u64, function: u16) -> u64 {
        if event::space(communicator) != SHARED {
            return communicator;
        }
        if let Some(known) = self.barriers.get(&(communicator, function)) {
            return *known;
        }
        let mut others = self.barriers.keys();
        let new = if others.any(|(other, _)| *other == communicator) {
            self.new_id(communicator)
        } else {
            communicator
        };
        self.barriers.insert((communicator, function), new);
        if let Some(name) = self.called.get(&communicator) {
            let name = match mpi::numbered(function) {
                Some(function) => format!("{name}{BY}{function}"),
                None => name.clone(),
            };
            if self.names.len() >= MAX_OBJECTS {
                self.names.clear();
            }
            self.names.insert(new, name);
        }
        new
    }

    fn new_id(&self, at: u64) -> u64 {
        shared(at, self.objects.values().chain(self.barriers.values()))
    }

    /// What a barrier is called alike in all processes of its job, also where other processes are
    /// watched apart; `None` if the name has been taken already, or is not known, or if a process may
    /// have used the communicator before it was watched.
    pub fn take_name(&mut self, space: u16, object: u64) -> Option<String> {
        let name = self.names.remove(&object)?;
        let rank = self.families.rank(space);
        rank.is_some_and(|rank| rank.is_complete).then_some(name)
    }

    fn begin(&mut self, (space, process): (u16, u32), is_numbered: bool, is_complete: bool) {
        let rank = world::rank(process, is_numbered, is_complete);
        self.jobs.insert(space, rank.job.clone());
        self.families.begin(space, rank);
    }

    /// A thread enters a function that makes or ends a communicator or a group.
    pub fn make(&mut self, (space, process): (u16, u32), record: &Make) {
        let Some(call) = MakerCall::of(record) else {
            return;
        };
        if call.maker == Maker::Init {
            self.begin((space, process), call.is_numbered, true);
        } else {
            self.families.enter(space, record.head.tid, &call);
        }
    }

    /// A thread leaves a function that makes or ends a communicator or a group.
    pub fn made(&mut self, space: u16, record: &Made) {
        let (thread, is_made) = (record.head.tid, record.error == 0);
        self.families.leave(space, thread, record.value, is_made);
    }

    /// Records of a process's calls that make communicators or groups were lost.
    pub fn doubt(&mut self, space: u16) {
        self.families.doubt(space);
    }

    fn read(&mut self, of: (u16, u32), at: u64, now_ns: u64) -> (u64, Option<u32>) {
        let own = own(of.0, at);
        if let Some(met) = self.met.get(&own).filter(|met| now_ns < met.until_ns) {
            return (met.object, met.count);
        }
        let found = openmpi::at(of.1, at, self.known);
        self.has_others |= found == FoundCommunicator::Other;
        let met = match (found, self.met.get(&own)) {
            (FoundCommunicator::Communicator(communicator, size, mpi), _) => {
                self.known.get_or_insert(mpi);
                let job = self.job(of);
                Met {
                    until_ns: now_ns.saturating_add(TRUSTED_NS),
                    object: self.object(Which::Read(job, communicator), at),
                    count: Some(size),
                }
            }
            // The process may have ended since, or the communicator may have been freed.
            (_, Some(met)) if met.until_ns > 0 => *met,
            _ => Met {
                until_ns: 0,
                object: own,
                count: None,
            },
        };
        self.met.insert(own, met);
        (met.object, met.count)
    }

    /// Stores the communicator that a BPF program has read with a thread's arrival.
    pub fn told(&mut self, of: (u16, u32), record: &Memory) {
        let communicator = Communicator {
            number: record.round,
            first: record.arrived,
        };
        let job = self.job(of);
        let met = Met {
            // Never read again: a new communicator at this address would come with a record of its
            // own.
            until_ns: TOLD,
            object: self.object(Which::Read(job, communicator), record.object),
            count: Some(record.count),
        };
        self.met.insert(own(of.0, record.object), met);
    }

    /// Where this MPI library's communicators hold their number, once found out.
    pub const fn place(&self) -> Option<Mpi> {
        self.known
    }

    fn job(&mut self, (space, process): (u16, u32)) -> Option<Job> {
        let job = self.jobs.entry(space);
        job.or_insert_with(|| job::name(process)).clone()
    }

    /// Forgets the addresses of an address space: nothing lies any more where it lay.
    pub fn forget(&mut self, space: u16) {
        self.jobs.remove(&space);
        self.families.forget(space);
        self.met.retain(|own, _| event::space(*own) != space);
    }

    /// A remark for the user if communicators were not understood. With communicators that are read,
    /// a single failure is not noted: the communicator may have been freed before it was read.
    pub fn note(&self) -> Option<String> {
        if self.families.has_overflowed() {
            return Some(
                "the program has more MPI communicators at a time, or calls that make them and to \
                 which not all ranks came, than sbt keeps apart: episodes on those that it has made \
                 are incomplete"
                    .into(),
            );
        }
        if self.unknown > 0 {
            return Some(format!(
                "{} calls of MPI collectives were on communicators that the program made before sbt \
                 watched it, or in a way that sbt does not follow: their episodes are incomplete, \
                 since sbt does not know which ranks belong together",
                self.unknown
            ));
        }
        (self.has_others && self.objects.is_empty()).then(|| {
            "sbt does not understand the communicators of this MPI: collectives are shown for each \
             process separately"
                .into()
        })
    }

    /// The id that stands for this communicator in all processes.
    fn object(&mut self, communicator: Which, at: u64) -> u64 {
        if let Some(known) = self.objects.get(&communicator) {
            return *known;
        }
        if self.objects.len() >= MAX_OBJECTS {
            let used: FxHashSet<u64> = self.met.values().map(|met| met.object).collect();
            self.objects.retain(|_, object| used.contains(object));
            self.called.retain(|object, _| used.contains(object));
            self.barriers.retain(|(object, _), _| used.contains(object));
        }
        let new = self.new_id(at);
        let name = match &communicator {
            Which::Called(id) => self.families.name_in_job(*id).map(str::to_owned),
            // Open MPI's number of `MPI_COMM_WORLD`.
            Which::Read(_, Communicator { number: 0, .. }) => Some(WORLD.into()),
            Which::Read(_, read) => Some(format!("number {} from {}", read.number, read.first)),
        };
        self.called.extend(name.map(|name| (new, name)));
        self.objects.insert(communicator, new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_a_world_of_its_own() {
        let mut communicators = Communicators::default();
        let world = Communicator::default();
        let job = |name: &str| Some(Job::from(name.as_bytes()));
        let first = communicators.object(Which::Read(job("1"), world), 0x1000);
        assert_eq!(
            communicators.object(Which::Read(job("1"), world), 0x2000),
            first
        );
        assert_ne!(
            communicators.object(Which::Read(job("2"), world), 0x1000),
            first
        );
        assert_ne!(
            communicators.object(Which::Read(None, world), 0x1000),
            first
        );
    }

    #[test]
    fn functions_of_mpi_are_barriers_of_their_own() {
        let mut communicators = Communicators::default();
        let barrier = mpi::number("MPI_Barrier");
        let reduction = mpi::number("PMPI_Allreduce");
        let world = communicators.object(Which::Read(None, Communicator::default()), 0x1000);
        let one = communicators.barrier(world, reduction);
        let other = communicators.barrier(world, barrier);
        assert_ne!(one, other);
        assert_eq!(communicators.barrier(world, reduction), one);
        assert_eq!(communicators.barrier(world, barrier), other);
        assert_eq!(communicators.names[&one], "world by MPI_Allreduce");
        assert_eq!(communicators.names[&other], "world by MPI_Barrier");
        let next = Communicator {
            number: 1,
            first: 0,
        };
        let next = communicators.object(Which::Read(None, next), 0x1000);
        assert!(![one, other].contains(&next));
        // A communicator that is not known is that of one process, whose calls meet nobody.
        let unknown = own(1, 0x1000);
        assert_eq!(communicators.barrier(unknown, reduction), unknown);
        assert_eq!(communicators.barrier(unknown, barrier), unknown);
    }

    #[test]
    fn jobs_without_end_leave_nothing() {
        let mut communicators = Communicators::default();
        for job in 0..10_000_u32 {
            let job = Some(Job::from(job.to_ne_bytes()));
            communicators.object(Which::Read(job, Communicator::default()), 0x1000);
        }
        assert!(communicators.objects.len() <= MAX_OBJECTS);
    }

    #[test]
    fn what_is_not_understood_is_noted_and_what_is_gone_is_not() {
        let mut communicators = Communicators::default();
        let myself = (1, std::process::id());
        communicators.read(myself, 8, 1);
        assert_eq!(communicators.note(), None);
        let other = [0_u64; 512];
        let at = other.as_ptr() as u64;
        assert_eq!(communicators.read(myself, at, 1), (own(1, at), None));
        assert!(communicators.note().is_some());
        communicators.object(Which::Read(None, Communicator::default()), 0x1000);
        assert_eq!(communicators.note(), None);
    }
}
