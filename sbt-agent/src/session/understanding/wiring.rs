//! Connects the recogniser with a session: what it asks of the target's code, and what it tells the
//! probes.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use sbt_engine::{
    event::{CallersId, Event, Evidence, Kind, Tid},
    model::{Model, ids::PlaceId, site::Roles},
    place::printable,
    recognise::{Code, Functions, IGNORED_HERE, Recogniser, Relation},
    words::command_line,
};
use sbt_program::{
    runtimes::python::waits_for_interpreter,
    sites::{Resolver, SystemCaller},
};

/// The most futexes of libraries whose uses are counted.
const MOST_USED: usize = 8192;

/// How long futexes of the C library are ignored, ns: later, another object may lie at the same
/// address.
const OF_LIBRARY_NS: u64 = 10_000_000_000;

/// The most pairs of calls examined, in total, to find the functions that contain both calls of a
/// pair.
const MAX_PAIRS: usize = 256;

/// The most functions named in hints.
const MAX_HINTS: usize = 3;

/// The recogniser and its state.
pub struct Recognition {
    recogniser: Recogniser,
    /// The process and the return addresses, innermost first, of each chain of callers.
    addresses: FxHashMap<CallersId, (u32, Box<[u64]>)>,
    /// Chains that begin in a library whose waits are known in another way.
    of_libraries: FxHashSet<CallersId>,
    /// Chains that begin in the OpenMP runtime, which uses condition variables itself.
    of_runtimes: FxHashSet<CallersId>,
    /// Chains that begin where the C library passes a wake-up on to the next thread.
    handed_on: FxHashSet<CallersId>,
    /// The futexes on which libraries wait, and until when to ignore each, ns.
    silenced: Vec<(u64, u64)>,
    /// How often libraries have used each futex that is not ignored.
    used: FxHashMap<u64, u32>,
    /// Threads inside a barrier of a language's library, with the futex each waits on there; `None`
    /// before the first wait.
    inside: FxHashMap<Tid, Option<u64>>,
    /// The number of futex events that the recogniser got.
    futexes: u64,
    handing: Handing,
}

/// Hands events to the model.
#[derive(Default)]
struct Handing {
    /// The places of chains of callers, held back with the events before them: when a number gets a
    /// new chain, earlier events must keep the old place.
    places: VecDeque<(CallersId, PlaceId, Roles)>,
    /// Arrivals so far at barriers made of futexes, and at all others.
    arrivals: (u64, u64),
}

impl Handing {
    fn hand(&mut self, event: &Event, model: &mut Model) {
        match event {
            Event::Arrive {
                kind: Kind::Futex, ..
            } => self.arrivals.0 += 1,
            Event::Arrive { .. } => self.arrivals.1 += 1,
            // Chains come out in the order in which `Recognition::define` took them.
            Event::Callers { .. } => {
                if let Some((callers, place, roles)) = self.places.pop_front() {
                    model.define_place(callers, place, roles);
                }
            }
            _ => {}
        }
        model.push(event);
    }
}

/// Answers the recogniser's questions about the code at return addresses.
struct Asking<'a> {
    addresses: &'a FxHashMap<CallersId, (u32, Box<[u64]>)>,
    resolver: &'a mut Resolver,
}

impl Code for Asking<'_> {
    fn relation(&mut self, wait: CallersId, wake: CallersId) -> Relation {
        match (self.addresses.get(&wait), self.addresses.get(&wake)) {
            (Some((process, wait)), Some((other, wake))) if process == other => {
                self.resolver.turn_to(*process);
                self.resolver.relation(wait, wake)
            }
            _ => Relation::Unknown,
        }
    }

    fn functions(&mut self, callers: CallersId) -> Functions {
        let Some((process, chain)) = self.addresses.get(&callers) else {
            return [None; 2];
        };
        self.resolver.turn_to(*process);
        self.resolver.phase_functions(chain)
    }
}

impl Recognition {
    /// A recogniser that has seen nothing. `runs_already`: the target may have run before.
    pub fn new(runs_already: bool) -> Self {
        Self {
            recogniser: Recogniser::new(runs_already),
            addresses: FxHashMap::default(),
            of_libraries: FxHashSet::default(),
            of_runtimes: FxHashSet::default(),
            handed_on: FxHashSet::default(),
            silenced: Vec::new(),
            used: FxHashMap::default(),
            inside: FxHashMap::default(),
            futexes: 0,
            handing: Handing::default(),
        }
    }

    /// Sets the place of a chain of callers. Call this each time before the event of the chain is
    /// pushed.
    pub fn define(&mut self, callers: CallersId, place: PlaceId, roles: Roles) {
        self.handing.places.push_back((callers, place, roles));
    }

    /// Takes in the addresses of a chain of callers that is new.
    pub fn know(
        &mut self,
        callers: CallersId,
        process: u32,
        addresses: &[u64],
        resolver: &mut Resolver,
    ) {
        self.addresses.remove(&callers);
        self.of_libraries.remove(&callers);
        self.of_runtimes.remove(&callers);
        self.handed_on.remove(&callers);
        let Some((address, rest)) = addresses.split_first() else {
            return;
        };
        let mut addresses = addresses;
        resolver.turn_to(process);
        if resolver.is_openmp(*address) {
            self.of_runtimes.insert(callers);
        }
        if resolver.is_handed_on(*address) {
            self.handed_on.insert(callers);
        }
        match resolver.system_caller(*address) {
            SystemCaller::Program => {}
            SystemCaller::Syscall if rest.is_empty() => {}
            SystemCaller::Syscall => addresses = rest,
            SystemCaller::Library => {
                self.of_libraries.insert(callers);
            }
        }
        self.addresses.insert(callers, (process, addresses.into()));
    }

    /// Arrivals so far at barriers made of futexes, and at all others.
    pub const fn arrivals(&self) -> (u64, u64) {
        self.handing.arrivals
    }

    /// Whether the recogniser should not see an event because the event is internal to a library:
    /// it belongs to a wait that is known in another way, or is a wake-up that the C library passes
    /// on. The futexes on which libraries wait are then ignored for a while.
    fn is_of_library(&mut self, event: &Event) -> bool {
        let (tid, of, key, callers, clocks) = match event {
            Event::Arrive {
                tid,
                kind: Kind::Std | Kind::Rust,
                ..
            } => {
                self.inside.insert(*tid, None);
                return false;
            }
            Event::Depart { tid, .. } | Event::Exit { tid, .. } => {
                self.inside.remove(tid);
                return false;
            }
            Event::Wait {
                tid,
                of,
                key,
                callers,
                clocks,
            }
            | Event::Wake {
                tid,
                of,
                key,
                callers,
                clocks,
                ..
            } => (tid, of, key, callers, clocks),
            _ => return false,
        };
        if *of == Evidence::Condvar {
            let is_wake = matches!(event, Event::Wake { .. });
            return self.of_runtimes.contains(callers)
                || is_wake && self.handed_on.contains(callers);
        }
        // The futex of such a barrier is not another barrier.
        if let Some(waits_on) = self.inside.get_mut(tid)
            && *waits_on.get_or_insert(*key) == *key
        {
            return true;
        }
        let is_known = self.of_libraries.contains(callers);
        if is_known {
            if self.used.len() >= MOST_USED && !self.used.contains_key(key) {
                self.used.clear();
            }
            let used = self.used.entry(*key).or_default();
            *used += 1;
            if *used == IGNORED_HERE {
                self.used.remove(key);
                let until_ns = clocks.time_ns.saturating_add(OF_LIBRARY_NS);
                self.silenced.push((*key, until_ns));
            }
        } else {
            self.futexes += 1;
        }
        is_known
    }

    /// Takes an event in, and hands the events that result to the model.
    pub fn push(&mut self, event: &Event, resolver: &mut Resolver, model: &mut Model) {
        if self.is_of_library(event) {
            return;
        }
        let mut code = Asking {
            addresses: &self.addresses,
            resolver,
        };
        let handing = &mut self.handing;
        self.recogniser.push(event, &mut code, &mut |event| {
            handing.hand(event, model);
        });
    }

    /// The condition variables and futexes that the probes should ignore, and until when, ns.
    pub fn take_silenced(&mut self) -> Vec<(u64, u64)> {
        let of_libraries = std::mem::take(&mut self.silenced);
        let silenced = self.recogniser.take_silenced().into_iter();
        silenced.chain(of_libraries).collect()
    }

    /// Releases events held back for too long at `now_ns`. Returns the number of uses of condition
    /// variables among the events so far, and whether any barrier was recognised.
    pub fn tick(&mut self, now_ns: u64, model: &mut Model) -> (u64, bool) {
        // Events still in the rings are older than `now_ns`.
        let handing = &mut self.handing;
        self.recogniser
            .tick(now_ns, &mut |event| handing.hand(event, model));
        let counts = self.recogniser.counts();
        (counts.evidence - self.futexes, counts.barriers > 0)
    }

    /// As [`Recogniser::holds_back`].
    pub const fn holds_back(&self) -> bool {
        self.recogniser.holds_back()
    }

    /// The probes of condition variables are about to be switched: some uses will not be seen.
    pub fn blind(&mut self) {
        self.recogniser.blind();
    }

    /// Ends recognition: hands all events still held back to the model.
    pub fn finish(&mut self, model: &mut Model) {
        let handing = &mut self.handing;
        self.recogniser
            .finish(&mut |event| handing.hand(event, model));
    }

    /// Hints on functions in which threads wait for each other without a recognised barrier.
    /// `again`: what to type before and after an option to watch the target in the same way.
    pub fn hints(&self, resolver: &mut Resolver, again: &[String; 2]) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        let mut looks = MAX_PAIRS;
        for unclear in self.recogniser.unclear() {
            if hints.len() == MAX_HINTS || looks == 0 {
                break;
            }
            let mut pairs = unclear
                .waits
                .iter()
                .flat_map(|wait| unclear.wakes.iter().map(move |wake| (wait, wake)));
            // The search also finds the function that makes the calls of all others, if there is
            // one.
            let mut wrapper = None;
            let meeting = pairs.by_ref().take(looks).find_map(|(wait, wake)| {
                looks -= 1;
                let (process, wait) = self.addresses.get(wait)?;
                let (other, wake) = self.addresses.get(wake)?;
                resolver.turn_to(*process);
                if process != other {
                    return None;
                }
                if unclear.wakers_waited && wrapper.is_none() {
                    wrapper = resolver.wrapper_of(wait, wake);
                }
                resolver.meets_in(wait, wake)
            });
            let Some(meeting) = meeting else {
                let hint = wrapper.map(|function| through(&function, unclear.of));
                hints.extend(hint.filter(|hint| printable(hint) == *hint && !hints.contains(hint)));
                continue;
            };
            // The interpreter's lock is no barrier; the table of waits names it.
            if waits_for_interpreter(&meeting.place) {
                continue;
            }
            let option = command_line(&["--barrier".to_owned(), meeting.barrier]);
            let command = format!("{} {option} {}", again[0], again[1]);
            let hint = format!(
                "threads wait for each other at a {} in {}, which may or may not be a barrier: if \
                each thread calls it once a round, watch it: {command}",
                unclear.of.name(),
                meeting.place,
            );
            // A command with unprintable characters cannot be typed.
            if printable(&hint) == hint && !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }

    /// The notes for the user.
    pub fn notes(&self) -> Vec<String> {
        self.recogniser.notes().to_vec()
    }
}

/// The hint for a function that makes the calls of all other functions.
fn through(function: &str, of: Evidence) -> String {
    format!(
        "threads wait for each other at a {} through {function}, whose callers are unknown: sbt \
        does not recognise a barrier among the callers; `--barrier NAME` watches the function \
        NAME",
        of.name()
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sbt_engine::event::Clocks;

    /// A thread arrives at a barrier with a chain of callers.
    fn arrive(tid: Tid, time_ns: u64, object: u64, callers: CallersId) -> Event {
        Event::Arrive {
            tid,
            clocks: Clocks::at(time_ns),
            object,
            kind: Kind::Pthread,
            callers,
        }
    }

    #[test]
    fn a_number_that_means_another_chain_leaves_alone_what_was_held_back() {
        let mut resolver = Resolver::new(1, None, Arc::default());
        let mut model = Model::new(0, true);
        let mut recognition = Recognition::new(false);
        let [waits, arrives] = [CallersId(1), CallersId(2)];
        let mut push = |recognition: &mut Recognition, event: &Event| {
            recognition.push(event, &mut resolver, &mut model);
        };
        let means = |place| Event::Callers {
            id: arrives,
            process: 1,
            addresses: [place].into(),
        };
        push(
            &mut recognition,
            &Event::Init {
                time_ns: 0,
                object: 0x1000,
                kind: Kind::Pthread,
                tid: 1,
                count: 2,
            },
        );
        recognition.define(arrives, PlaceId(0), Roles::default());
        push(&mut recognition, &means(0));
        // The recogniser does not yet know what this wait belongs to.
        push(
            &mut recognition,
            &Event::Wait {
                tid: 9,
                clocks: Clocks::at(1),
                key: 0x9000,
                of: Evidence::Condvar,
                callers: waits,
            },
        );
        for tid in [1, 2] {
            push(&mut recognition, &arrive(tid, 2, 0x1000, arrives));
        }
        recognition.define(arrives, PlaceId(1), Roles::default());
        push(&mut recognition, &means(1));
        for tid in [1, 2] {
            push(&mut recognition, &arrive(tid, 3, 0x1000, arrives));
        }
        recognition.finish(&mut model);
        model.finish();
        let sites = model.sites().all().iter();
        let sites: Vec<_> = sites.map(|site| site.places.to_vec()).collect();
        assert_eq!(sites, [[PlaceId(0)], [PlaceId(1)]]);
    }

    #[test]
    fn a_futex_of_a_library_is_ignored_once_it_is_used_again_and_again() {
        let mut resolver = Resolver::new(1, None, Arc::default());
        let mut model = Model::new(0, true);
        let mut recognition = Recognition::new(false);
        let waits = CallersId(1);
        recognition.of_libraries.insert(waits);
        let mut silenced = |key: u64, time_ns: u64| {
            let event = Event::Wait {
                tid: 9,
                clocks: Clocks::at(time_ns),
                key,
                of: Evidence::Futex,
                callers: waits,
            };
            recognition.push(&event, &mut resolver, &mut model);
            recognition.take_silenced()
        };
        for time_ns in 1..u64::from(IGNORED_HERE) {
            assert_eq!(silenced(0x9000, time_ns), []);
            assert_eq!(silenced(0x9000 + 8 * time_ns, time_ns), [], "used once");
        }
        assert_eq!(silenced(0x9000, 7), [(0x9000, 7 + OF_LIBRARY_NS)]);
        assert_eq!(silenced(0x9000, 8), [], "told already");
    }
}
