//! Barriers that spin inside of larger functions: all places of a file at which threads come to one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use memchr::memchr_iter;

use crate::{
    arch::{self, LOCK},
    debuginfo::Symbol,
    elf::{Imports, Segment, code_at},
    point::{Function, Point, Team},
    spin::{
        meeting::{Counter, Meeting, Stop, meetings},
        wait::{Callee, Target, gives_way, is_never_back},
    },
};

/// The most bytes of a function that are read.
const MAX_FUNCTION: u64 = 1 << 20;

/// The most bytes of an instruction.
const LONGEST: usize = 15;

/// The most places of one barrier.
const MAX_PLACES: usize = 256;

/// The most instructions of a file that are looked at because they change memory in one atomic step.
const MAX_COUNTING: usize = 4096;

/// The barriers inside of functions by address and size, searched for once for all threads of
/// sbt.
#[derive(Debug, Default)]
pub(crate) struct KnownMeetings(Mutex<HashMap<CodeRange, Arc<[Meeting]>>>);

/// The address and the size of a function.
type CodeRange = (u64, u64);

/// The functions of a file, and their code.
pub(crate) struct Functions<'a> {
    pub(crate) image: &'a [u8],
    pub(crate) segments: &'a [Segment],
    pub(crate) imports: &'a Imports,
    /// The function that contains an address.
    pub(crate) function: &'a dyn Fn(u64) -> Option<Symbol>,
    pub(crate) known: &'a KnownMeetings,
}

impl<'a> Functions<'a> {
    pub(crate) fn code(&self, symbol: &Symbol) -> Option<&'a [u8]> {
        let size = symbol.size.min(MAX_FUNCTION);
        Some(code_at(self.image, self.segments, symbol.start, size)?.bytes)
    }

    /// What is known of a called function.
    pub(crate) fn callee(&self, target: Target) -> Callee {
        let imported = match target {
            Target::At(to) => self.imports.at(self.image, self.segments, to),
            Target::Through(word) => self.imports.through(self.image, word),
            Target::Unknown => None,
        };
        let Target::At(to) = target else {
            let gives_way = imported.is_some_and(|name| gives_way(&name));
            return if gives_way {
                Callee::GivesWay
            } else {
                Callee::Unknown
            };
        };
        let gives_way = |name: &str| gives_way(name) || is_never_back(name);
        match (imported, (self.function)(to)) {
            (Some(name), _) if gives_way(&name) => Callee::GivesWay,
            (None, Some(symbol)) if gives_way(&symbol.name) => Callee::GivesWay,
            (None, Some(symbol)) if symbol.start == to => {
                let code = code_at(self.image, self.segments, to, symbol.size);
                code.map_or(Callee::Unknown, |code| {
                    Callee::Code(to, code.bytes.to_vec())
                })
            }
            _ => Callee::Unknown,
        }
    }

    /// The barriers inside of a function.
    pub(crate) fn meetings(&self, symbol: &Symbol) -> Arc<[Meeting]> {
        // The map is whole after each operation. Another thread that asks meanwhile waits for the
        // answer.
        let mut known = self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (symbol.start, symbol.size);
        if let Some(found) = known.get(&key) {
            return Arc::clone(found);
        }
        let code = self.code(symbol);
        let found = code.map_or_else(Vec::new, |code| {
            meetings(code, symbol.start, &|target| self.callee(target))
        });
        let found: Arc<[Meeting]> = found.into();
        known.insert(key, Arc::clone(&found));
        found
    }

    /// All places of the barrier at which threads count by the instruction at `counts_at` of a
    /// function, each with its function. `None` if there are places that cannot be watched: rounds
    /// would seem to lack threads.
    fn places(&self, symbol: &Symbol, counts_at: u64) -> Option<Vec<(Symbol, Meeting)>> {
        let own = self.meetings(symbol);
        let counter = own
            .iter()
            .find(|meeting| meeting.counts_at == counts_at)?
            .counter;
        let Counter::Fixed(word) = counter else {
            let held = own.iter().filter(|meeting| match meeting.counter {
                Counter::Held(..) => true,
                Counter::Fixed(_) => false,
            });
            let held = held.map(|meeting| (symbol.clone(), meeting.clone()));
            return Some(held.collect());
        };
        let counting = self.counting(Some(word));
        let mut of: BTreeMap<u64, Symbol> = BTreeMap::from([(symbol.start, symbol.clone())]);
        for at in &counting {
            let symbol = (self.function)(*at)?;
            of.entry(symbol.start).or_insert(symbol);
        }
        let mut places: Vec<(Symbol, Meeting)> = Vec::new();
        for symbol in of.into_values() {
            let all = self.meetings(&symbol);
            let here = all.iter().filter(|meeting| meeting.counter == counter);
            places.extend(here.map(|meeting| (symbol.clone(), meeting.clone())));
        }
        let is_place = |at: &u64| places.iter().any(|(_, meeting)| meeting.counts_at == *at);
        (places.len() <= MAX_PLACES && counting.iter().all(is_place)).then_some(places)
    }

    /// All functions with an instruction that changes a word in one atomic step, and their barriers,
    /// as long as `goes_on`.
    pub(crate) fn all_meetings(&self, goes_on: impl Fn() -> bool) -> Vec<Meeting> {
        let mut known = BTreeSet::new();
        let mut found = Vec::new();
        for at in self.counting(None) {
            if !goes_on() {
                break;
            }
            if let Some(symbol) = (self.function)(at)
                && known.insert(symbol.start)
            {
                found.extend_from_slice(&self.meetings(&symbol));
            }
        }
        found
    }

    /// The addresses of the instructions that change a word in one atomic step: the word at this
    /// address, if they name it relative to the code, or any word.
    fn counting(&self, word: Option<u64>) -> Vec<u64> {
        let mut found = Vec::new();
        for segment in self.segments.iter().filter(|segment| segment.executable) {
            let code = code_at(self.image, self.segments, segment.vaddr, segment.filesz);
            let bytes = code.map_or(&[][..], |code| code.bytes);
            for offset in memchr_iter(LOCK, bytes) {
                let at = segment.vaddr + offset as u64;
                let one = &bytes[offset..bytes.len().min(offset + LONGEST)];
                let first = arch::decode(one, at).next();
                let is_it = first.is_some_and(|first| {
                    first.is_valid() && (word.is_none() || first.word() == word)
                });
                if is_it && found.len() <= MAX_COUNTING {
                    found.push(at);
                }
            }
        }
        found
    }

    /// The points of a place: where a thread comes, and where it has left.
    fn points(&self, symbol: &Symbol, meeting: &Meeting) -> Option<Vec<Point>> {
        let (register, displacement) = match meeting.counter {
            Counter::Fixed(word) => {
                let distance = word.wrapping_sub(meeting.arrives.at).cast_signed();
                (0, i32::try_from(distance).ok()?)
            }
            Counter::Held(register, displacement) => (register, displacement),
        };
        let team = Team {
            register,
            spilled: None,
            displacement,
            has_count: false,
            // What tells it from a barrier of the language: see `runtimes::kind_of_arrival`.
            ends: true,
        };
        let leaves = meeting.leaves.iter().map(|stop| (Function::Left, stop));
        let all = std::iter::once((Function::Team(team), &meeting.arrives)).chain(leaves);
        all.map(|(function, stop)| self.point(function, &symbol.name, stop))
            .collect()
    }

    fn point(&self, function: Function, symbol: &str, stop: &Stop) -> Option<Point> {
        let mut segments = self.segments.iter();
        let offset = segments.find_map(|segment| segment.file_offset(stop.at))?;
        Some(Point::inside(function, symbol, offset, stop.is_emulated))
    }

    /// The points of the barrier at which threads count by the instruction at `counts_at` of a
    /// function, and the addresses of all functions that have a part of it. `None` if not all of it
    /// can be probed.
    pub(crate) fn barrier(
        &self,
        symbol: &Symbol,
        counts_at: u64,
    ) -> Option<(Vec<Point>, Vec<u64>)> {
        let places = self.places(symbol, counts_at)?;
        let mut points: Vec<Point> = Vec::new();
        for (symbol, meeting) in &places {
            for point in self.points(symbol, meeting)? {
                if !points.contains(&point) {
                    points.push(point);
                }
            }
        }
        // Which of two probes at one place is hit first is not certain.
        let mut offsets: Vec<u64> = points.iter().map(|point| point.entry_offset).collect();
        offsets.sort_unstable();
        if offsets.windows(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        let mut functions: Vec<u64> = places.iter().map(|(symbol, _)| symbol.start).collect();
        functions.dedup();
        Some((points, functions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_barriers_of_a_function_are_searched_for_once() {
        // lock inc dword [rdi]; call 0x2000; ret
        let image = [0xf0, 0xff, 0x07, 0xe8, 0xf8, 0x0f, 0, 0, 0xc3];
        let symbol = Symbol {
            name: "round".into(),
            start: 0x1000,
            size: image.len() as u64,
        };
        let segment = Segment {
            vaddr: symbol.start,
            offset: 0,
            filesz: symbol.size,
            memsz: symbol.size,
            executable: true,
        };
        let known = KnownMeetings::default();
        let function = |_: u64| Some(symbol.clone());
        let functions = Functions {
            image: &image,
            segments: &[segment],
            imports: &Imports::default(),
            function: &function,
            known: &known,
        };
        let first = functions.meetings(&symbol);
        assert_eq!(first[..], []);
        assert!(Arc::ptr_eq(&first, &functions.meetings(&symbol)));
    }
}
