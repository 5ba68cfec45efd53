//! Gives what a recording tells ids and times that are one job's: threads, processes and chains of
//! callers of different recordings have different numbers, equal places have one, and so has a
//! communicator that several ranks have.

use rustc_hash::{FxHashMap, FxHashSet};

use super::clocks::Shift;
use crate::{
    event::{CallersId, Clocks, Event, SHARED, SPACE, address, space},
    model::{ids::PlaceId, tape::Step},
    origin::Origin,
    place::Place,
    report::Report,
};

/// The most objects that processes share, and communicators, that are kept: far more than there are.
const MOST_OBJECTS: usize = 1 << 20;

/// The most recordings of a job: ids of threads have 22 bits in Linux, and 32 here.
pub const MOST_RECORDINGS: u32 = 1 << 10;

/// A number of a recording is too large to be renumbered: the recording is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// A recording of the job.
#[derive(Debug)]
struct Part {
    origin: Origin,
    shift: Shift,
    /// The job's number of each place.
    places: Vec<PlaceId>,
}

/// The ids of a job.
#[derive(Debug, Default)]
pub struct Renumber {
    parts: Vec<Part>,
    places: FxHashMap<Place, PlaceId>,
    /// Objects in shared memory and communicators, by recording.
    objects: FxHashMap<(usize, u64), u64>,
    /// Communicators by name.
    named: FxHashMap<String, u64>,
    taken: FxHashSet<u64>,
    /// How many numbers were given to objects whose own was taken.
    given: u64,
}

impl Renumber {
    /// For recordings that were made there, with what is added to the times of each.
    pub fn of<'a>(parts: impl IntoIterator<Item = (&'a Origin, Shift)>) -> Self {
        let part = |(origin, shift): (&Origin, Shift)| Part {
            origin: origin.clone(),
            shift,
            places: Vec::new(),
        };
        Self {
            parts: parts.into_iter().map(part).collect(),
            ..Self::default()
        }
    }

    /// The job's number for a number of a recording. All that has such numbers is renumbered alike, so
    /// the first thread of a process keeps the number of its process.
    fn id(&self, recording: usize, id: u32) -> Result<u32, TooLarge> {
        let number = id as usize * self.parts.len() + recording;
        u32::try_from(number).map_err(|_| TooLarge)
    }

    /// Takes the next place of a recording. Returns the place if the job has not had it yet.
    pub fn place(&mut self, recording: usize, place: &Place) -> Option<Place> {
        let next = PlaceId(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        let id = *self.places.entry(place.key()).or_insert(next);
        self.parts[recording].places.push(id);
        (id == next).then(|| place.clone())
    }

    /// The time of the job for a time of a recording.
    pub fn time(&self, recording: usize, time_ns: u64) -> u64 {
        self.parts[recording].shift.apply(time_ns)
    }

    /// The job's step for a step of a recording; `None` if a model of a job cannot use the step.
    ///
    /// # Errors
    /// A number is too large.
    pub fn step(&mut self, recording: usize, step: &Step) -> Result<Option<Step>, TooLarge> {
        Ok(Some(match step {
            Step::Event(event) => Step::Event(self.event(recording, event)?),
            Step::Place {
                callers,
                place,
                roles,
            } => Step::Place {
                callers: CallersId(self.id(recording, callers.0)?),
                place: *self.parts[recording]
                    .places
                    .get(place.0 as usize)
                    .ok_or(TooLarge)?,
                roles: *roles,
            },
            Step::Rank { process, rank } => Step::Rank {
                process: self.id(recording, *process)?,
                rank: *rank,
            },
            // A model has one tariff, and the cost of a hit differs by machine.
            Step::Tariff(_) => return Ok(None),
            Step::ExpectGaps | Step::Off(_) => step.clone(),
            Step::Reset { time_ns } => Step::Reset {
                time_ns: self.time(recording, *time_ns),
            },
        }))
    }

    fn event(&mut self, recording: usize, event: &Event) -> Result<Event, TooLarge> {
        let mut event = event.clone();
        if let Event::Communicator { object, name, .. } = &event {
            self.name(recording, *object, name)?;
        }
        shift(&mut event, self.parts[recording].shift);
        match &mut event {
            Event::Arrive {
                tid,
                object,
                callers,
                ..
            } => {
                *tid = self.id(recording, *tid)?;
                *object = self.object(recording, *object)?;
                callers.0 = self.id(recording, callers.0)?;
            }
            Event::Wait {
                tid, key, callers, ..
            }
            | Event::Wake {
                tid, key, callers, ..
            } => {
                *tid = self.id(recording, *tid)?;
                *key = self.object(recording, *key)?;
                callers.0 = self.id(recording, callers.0)?;
            }
            Event::Recognised { tid, object, .. }
            | Event::Memory { tid, object, .. }
            | Event::Init { tid, object, .. }
            | Event::Turn { tid, object, .. }
            | Event::Communicator { tid, object, .. } => {
                *tid = self.id(recording, *tid)?;
                *object = self.object(recording, *object)?;
            }
            Event::Thread { tid, shown, .. } => {
                *tid = self.id(recording, *tid)?;
                *shown = (self.id(recording, shown.0)?, self.id(recording, shown.1)?);
            }
            Event::Callers { id, process, .. } => {
                id.0 = self.id(recording, id.0)?;
                *process = self.id(recording, *process)?;
            }
            Event::Lock {
                process, callers, ..
            } => {
                *process = self.id(recording, *process)?;
                callers.0 = self.id(recording, callers.0)?;
            }
            Event::Mapped { process, .. }
            | Event::Exec { process, .. }
            | Event::Ended { process, .. } => *process = self.id(recording, *process)?,
            Event::Forked { process, child, .. } => {
                *process = self.id(recording, *process)?;
                *child = child.map(|child| self.id(recording, child)).transpose()?;
            }
            Event::Awaits { tid, .. }
            | Event::Counters { tid, .. }
            | Event::Away { tid, .. }
            | Event::Speed { tid, .. }
            | Event::Region { tid, .. }
            | Event::RegionEnd { tid }
            | Event::Depart { tid, .. }
            | Event::Exit { tid, .. }
            | Event::Lost { tid, .. }
            | Event::Mark { tid, .. }
            | Event::Toll { tid, .. } => *tid = self.id(recording, *tid)?,
            Event::Gap { .. } | Event::Departures { .. } => {}
        }
        Ok(event)
    }

    fn name(&mut self, recording: usize, object: u64, name: &str) -> Result<(), TooLarge> {
        let Some(name) = self.parts[recording].origin.name_in_job(name) else {
            return Ok(());
        };
        let known = self.named.get(&name).copied();
        let id = known.unwrap_or_else(|| self.unused(object));
        self.named.insert(name, id);
        self.keep(recording, object, id)
    }

    /// The job's number of an object in shared memory, or of a communicator. Any other object belongs to
    /// a process, and keeps its number.
    fn object(&mut self, recording: usize, object: u64) -> Result<u64, TooLarge> {
        if space(object) != SHARED {
            return Ok(object);
        }
        if let Some(known) = self.objects.get(&(recording, object)) {
            return Ok(*known);
        }
        let id = self.unused(object);
        self.keep(recording, object, id)?;
        Ok(id)
    }

    fn keep(&mut self, recording: usize, object: u64, id: u64) -> Result<(), TooLarge> {
        self.objects.insert((recording, object), id);
        let kept = self.objects.len().max(self.named.len());
        if kept > MOST_OBJECTS {
            return Err(TooLarge);
        }
        Ok(())
    }

    /// A number for an object that no other one has: its own, if that is free.
    fn unused(&mut self, object: u64) -> u64 {
        let mut id = object;
        while !self.taken.insert(id) {
            // From the top, where nothing of a program lies.
            self.given += 1;
            id = address(u64::MAX - self.given) | u64::from(SHARED) << SPACE;
        }
        id
    }

    /// Gives the threads and processes of a report of the job the numbers that they have on their
    /// machines. `host`: the machine of each recording.
    pub fn restore(&self, report: &mut Report, host: impl Fn(usize) -> u32) {
        let count = u32::try_from(self.parts.len()).unwrap_or(1).max(1);
        for thread in &mut report.threads {
            (thread.tid, thread.pid) = (thread.tid / count, thread.pid / count);
        }
        for process in &mut report.processes {
            process.host = Some(host((process.pid % count) as usize));
            process.pid /= count;
        }
    }
}

/// Gives an event times of the job.
fn shift(event: &mut Event, by: Shift) {
    let shifted = |clocks: &mut Clocks| clocks.time_ns = by.apply(clocks.time_ns);
    match event {
        Event::Arrive { clocks, .. }
        | Event::Awaits { clocks, .. }
        | Event::Wait { clocks, .. }
        | Event::Wake { clocks, .. }
        | Event::Region { clocks, .. }
        | Event::Depart { clocks, .. }
        | Event::Exit { clocks, .. }
        | Event::Mark { clocks, .. }
        | Event::Thread { since: clocks, .. } => shifted(clocks),
        Event::Counters { time_ns, .. }
        | Event::Speed { time_ns, .. }
        | Event::Memory { time_ns, .. }
        | Event::Init { time_ns, .. }
        | Event::Mapped { time_ns, .. }
        | Event::Forked { time_ns, .. }
        | Event::Exec { time_ns, .. }
        | Event::Ended { time_ns, .. }
        | Event::Gap { time_ns } => *time_ns = by.apply(*time_ns),
        Event::Turn { time_ns, .. } => *time_ns = time_ns.map(|time_ns| by.apply(time_ns)),
        Event::Away { away, .. } => {
            away.from_ns = away.from_ns.map(|time_ns| by.apply(time_ns));
            away.until_ns = by.apply(away.until_ns);
        }
        Event::Callers { .. }
        | Event::Lock { .. }
        | Event::Recognised { .. }
        | Event::RegionEnd { .. }
        | Event::Lost { .. }
        | Event::Toll { .. }
        | Event::Communicator { .. }
        | Event::Departures { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::Kind,
        model::{Model, site::Roles},
        place::Frame,
    };

    const OWN: u64 = 0x7000;

    fn shared(at: u64) -> u64 {
        at | u64::from(SHARED) << SPACE
    }

    fn job(offset_ns: i64) -> Renumber {
        let origin = |rank, clock: &str| Origin {
            rank: Some(rank),
            clock: clock.into(),
            ..Origin::default()
        };
        let shift = Shift {
            offset_ns,
            ..Shift::default()
        };
        let origins = [origin(0, "one"), origin(1, "two")];
        Renumber::of([(&origins[0], Shift::default()), (&origins[1], shift)])
    }

    fn arrive(tid: u32, object: u64, time_ns: u64) -> Step {
        Step::Event(Event::Arrive {
            tid,
            clocks: Clocks::at(time_ns),
            object,
            kind: Kind::Mpi,
            callers: CallersId(5),
        })
    }

    fn named(object: u64, name: &str) -> Step {
        Step::Event(Event::Communicator {
            tid: 7,
            object,
            name: name.into(),
        })
    }

    fn renumbered(job: &mut Renumber, recording: usize, step: &Step) -> Step {
        job.step(recording, step).unwrap().unwrap()
    }

    fn object_of(job: &mut Renumber, recording: usize, object: u64) -> u64 {
        match renumbered(job, recording, &arrive(7, object, 1)) {
            Step::Event(Event::Arrive { object, .. }) => object,
            _ => panic!(),
        }
    }

    #[test]
    fn equal_ids_of_two_recordings_differ_and_times_are_shifted() {
        let mut job = job(-100);
        let all = [0, 1].map(|recording| renumbered(&mut job, recording, &arrive(7, OWN, 1_000)));
        let seen = all.map(|step| match step {
            Step::Event(Event::Arrive {
                tid,
                clocks,
                object,
                callers,
                ..
            }) => (tid, clocks.time_ns, object, callers.0),
            _ => panic!(),
        });
        assert_eq!(seen, [(14, 1_000, OWN, 10), (15, 900, OWN, 11)]);
        let thread = Step::Event(Event::Thread {
            tid: 7,
            shown: (7, 7),
            name: "a".into(),
            since: Clocks::at(1_000),
            code_start: None,
        });
        let Step::Event(Event::Thread { shown, since, .. }) = renumbered(&mut job, 1, &thread)
        else {
            panic!();
        };
        // The first thread of its process still has the number of the process.
        assert_eq!((shown, since.time_ns), ((15, 15), 900));
        assert_eq!(job.step(1, &arrive(u32::MAX, OWN, 1)), Err(TooLarge));
    }

    #[test]
    fn communicators_of_one_name_are_one_object_and_others_are_not() {
        let mut job = job(0);
        let (here, there) = (shared(0x1000), shared(0x2000));
        renumbered(&mut job, 0, &named(here, "world"));
        renumbered(&mut job, 1, &named(there, "world"));
        let world = object_of(&mut job, 0, here);
        assert_eq!(object_of(&mut job, 1, there), world);
        // In the other recording something else lies at that address.
        assert_ne!(object_of(&mut job, 1, here), world);
        assert_ne!(object_of(&mut job, 0, there), object_of(&mut job, 1, here));
        // The ranks of each machine.
        let name = "world/0.machine";
        renumbered(&mut job, 0, &named(shared(0x3000), name));
        renumbered(&mut job, 1, &named(shared(0x3000), name));
        let machines = [0, 1].map(|recording| object_of(&mut job, recording, shared(0x3000)));
        assert_ne!(machines[0], machines[1]);
    }

    #[test]
    fn equal_places_are_one() {
        let mut job = job(0);
        let place = |line, offset| Place {
            binary: "a".into(),
            offset,
            into_function: None,
            works_before: false,
            frames: vec![Frame {
                line: Some(line),
                ..Frame::default()
            }],
            outer: Vec::new(),
            of_runtime: false,
        };
        assert!(job.place(0, &place(10, 1)).is_some());
        assert!(job.place(1, &place(20, 2)).is_some());
        assert!(job.place(1, &place(10, 3)).is_none());
        let step = |place| Step::Place {
            callers: CallersId(1),
            place: PlaceId(place),
            roles: Roles::default(),
        };
        let ids = [(0, 0), (1, 0), (1, 1)].map(|(recording, place)| {
            match renumbered(&mut job, recording, &step(place)) {
                Step::Place { place, .. } => place.0,
                _ => panic!(),
            }
        });
        assert_eq!(ids, [0, 1, 0]);
        assert_eq!(job.step(0, &step(1)), Err(TooLarge));
    }

    #[test]
    fn ranks_of_two_recordings_meet_in_one_episode() {
        let mut job = job(0);
        let mut model = Model::new(0, true);
        for (recording, time_ns) in [(0, 10), (1, 20)] {
            let object = shared(0x1000 + recording as u64);
            let memory = Step::Event(Event::Memory {
                tid: 7,
                time_ns,
                object,
                count: 2,
                round: None,
            });
            for step in [named(object, "world"), memory, arrive(7, object, time_ns)] {
                model.take(&renumbered(&mut job, recording, &step));
            }
        }
        model.finish();
        assert_eq!((model.totals().episodes, model.totals().incomplete), (1, 0));
        let last: Vec<u64> = model.threads().rows().iter().map(|row| row.last).collect();
        assert_eq!(last, [0, 1]);
    }
}
