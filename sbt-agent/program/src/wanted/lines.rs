//! Lines: where a debugger would stop for them.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashMap, HashSet};

use super::Binary;
use super::find::MAX_FUNCTION;
use crate::arch::prologue::{Body, Refusal};
use crate::debuginfo::{Spot, Symbol};
use crate::elf::Imports;
use crate::files::Offer;
use crate::inside::{Functions, KnownMeetings};
use crate::point::{Function, Point};

/// The most places of a line that are probed; a line with more is refused.
const MAX_PLACES: usize = 256;

/// The most bytes of code that are decoded for a line.
const MAX_DECODED: usize = 1 << 26;

/// Some code of the line, and the function in which it can be decoded.
struct LineCode<'a> {
    spot: &'a Spot,
    function: Symbol,
}

impl<'a> LineCode<'a> {
    /// The functions that contain the code, at most `depth`, outermost first.
    fn scope(&self, depth: usize) -> Scope<'a> {
        match &self.spot.scope[..] {
            [] => Scope::Symbol(self.function.start),
            chain => Scope::Chain(&chain[..depth.min(chain.len())]),
        }
    }

    fn is_cold(&self) -> bool {
        self.function.name.contains(".cold")
    }

    fn is_all_of_function(&self) -> bool {
        !self.function.name.is_empty() && !self.is_cold()
    }

    /// The preference among places; the lowest is best.
    fn rank(&self) -> (bool, u64) {
        (self.is_cold(), self.spot.start)
    }
}

fn keep_first<'a>(
    first: &mut BTreeMap<Scope<'a>, LineCode<'a>>,
    scope: Scope<'a>,
    place: LineCode<'a>,
) {
    match first.entry(scope) {
        Entry::Occupied(mut old) if place.rank() < old.get().rank() => {
            old.insert(place);
        }
        Entry::Occupied(_) => {}
        Entry::Vacant(new) => {
            new.insert(place);
        }
    }
}

/// Identifies the function that contains a line: by DWARF's chain of inlined functions, or else by
/// the function's start address.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Scope<'a> {
    Chain(&'a [(usize, usize)]),
    Symbol(u64),
}

impl Binary<'_> {
    /// The barriers whose threads spin inside of a function, in a loop of this line.
    pub(super) fn meeting_of_line(&self, file: &str, line: u32) -> Offer {
        let spots = self.debug.line(file, line).map(|found| found.spots);
        let spots = spots.unwrap_or_default();
        if spots.is_empty() {
            return Offer::Nothing;
        }
        let function = |address: u64| self.debug.spanning(address);
        let functions = Functions {
            image: self.image,
            segments: &self.segments,
            imports: self.imports.get_or_init(|| Imports::of(self.image)),
            function: &function,
            known: &KnownMeetings::default(),
        };
        let mut known = HashSet::new();
        let mut points: Vec<Point> = Vec::new();
        for spot in spots.iter().take(MAX_PLACES) {
            let Some(symbol) = function(spot.start) else {
                continue;
            };
            let is_here = |at: u64| (spot.start..spot.end).contains(&at);
            let all = functions.meetings(&symbol);
            let mut here = all
                .iter()
                .filter(|found| is_here(found.waits_at) || is_here(found.counts_at));
            let Some(found) = here.find(|found| known.insert(found.counts_at)) else {
                continue;
            };
            let barrier = functions.barrier(&symbol, found.counts_at);
            for point in barrier.into_iter().flat_map(|(points, _)| points) {
                if !points.contains(&point) {
                    points.push(point);
                }
            }
        }
        if points.is_empty() {
            return Offer::Refused(
                "a barrier must be a function, or a line with a loop in which threads spin right \
                 after each has counted itself"
                    .into(),
            );
        }
        Offer::Points(points)
    }

    /// The places of a line, one for each function that contains it.
    pub(super) fn line(&self, file: &str, line: u32, number: u8) -> Offer {
        let too_many = || {
            Offer::Refused(format!(
                "the code of this line is in more than {MAX_PLACES} places of {}",
                self.name()
            ))
        };
        let Ok(found) = self.debug.line(file, line) else {
            return too_many();
        };
        if found.spots.is_empty() {
            return Offer::Nothing;
        }
        let places = self.first_of_each_function(&found.spots);
        if places.len() > MAX_PLACES {
            return too_many();
        }
        match self.line_points(&places, number) {
            (points, Some(nop)) if points.is_empty() => Offer::Refused(nop),
            (points, None) if points.is_empty() => Offer::Refused(format!(
                "the kernel cannot probe the instructions of this line in {}, or the debug \
                 information does not match the code",
                self.name()
            )),
            (points, _) => Offer::Points(points),
        }
    }

    /// The lowest place in each function, preferably outside of its seldom executed part.
    fn first_of_each_function<'a>(&self, spots: &'a [Spot]) -> Vec<LineCode<'a>> {
        let (hidden, clear): (Vec<_>, Vec<_>) = spots
            .iter()
            .filter_map(|spot| self.place(spot, self.debug.spanning(spot.start)))
            .partition(|place| place.spot.is_hidden);
        let mut first: BTreeMap<Scope<'a>, LineCode<'a>> = BTreeMap::new();
        let mut functions = BTreeSet::new();
        for place in clear {
            functions.insert(place.scope(1));
            keep_first(&mut first, place.scope(usize::MAX), place);
        }
        // A hidden place may be inside of code that a later line has inlined: it counts for the
        // outermost function, and only if that function has no other place.
        for place in hidden {
            let scope = place.scope(1);
            if !functions.contains(&scope) {
                keep_first(&mut first, scope, place);
            }
        }
        first.into_values().collect()
    }

    /// `None` if it is unknown where instructions begin around the place.
    fn place<'a>(&self, spot: &'a Spot, symbol: Option<Symbol>) -> Option<LineCode<'a>> {
        let described = || {
            let (start, end) = spot.function?;
            Some(Symbol {
                name: String::new(),
                start,
                size: end.checked_sub(start)?,
            })
        };
        self.code(spot.start, 1)?;
        let function = symbol.or_else(described)?;
        Some(LineCode { spot, function })
    }

    /// The points of a line, and the reason for a place without a point that begins with a nop on
    /// which no probe may stand.
    fn line_points(&self, places: &[LineCode<'_>], number: u8) -> (Vec<Point>, Option<String>) {
        let names: HashSet<&str> = places
            .iter()
            .map(|place| &place.function.name[..])
            .collect();
        let cold: Vec<_> = self
            .debug
            .cold_parts(&names)
            .iter()
            .filter_map(|part| Some((part.start, self.code(part.start, part.size)?.bytes)))
            .collect();
        let mut left = MAX_DECODED;
        let mut bodies: HashMap<u64, Option<Body<'_>>> = HashMap::new();
        let (mut points, mut refused) = (Vec::new(), None);
        for place in places {
            let LineCode { spot, function } = place;
            let body = bodies.entry(function.start).or_insert_with(|| {
                let code = self.code(function.start, function.size.min(MAX_FUNCTION))?;
                let elsewhere: Vec<_> = cold
                    .iter()
                    .map(|(start, code)| (start.wrapping_sub(function.start), *code))
                    .collect();
                let decoded = elsewhere.iter().map(|(_, code)| code.len());
                left = left.checked_sub(decoded.sum::<usize>() + code.bytes.len())?;
                Some(Body::new(code.bytes, &elsewhere))
            });
            // A part of a function that lies apart can be entered from the other parts.
            let until = if place.is_all_of_function() {
                spot.end
            } else {
                spot.start
            };
            let distance = |address: u64| address.saturating_sub(function.start);
            let place = body
                .as_ref()
                .and_then(|body| body.choose(distance(spot.start), distance(until)));
            if let (None, Some(body)) = (place, body)
                && let (nop @ Refusal::Nop, next) = body.refusal(distance(spot.start))
            {
                let instead = next.map_or_else(String::new, |next| {
                    let address = function.start.saturating_add(next.into());
                    format!("; the next instruction is {}!{address:#x}", self.name())
                });
                refused = Some(format!("{nop}{instead}"));
            }
            let start = self.code(function.start, 1).map(|code| code.offset);
            if let (Some(place), Some(start)) = (place, start) {
                let at = start.saturating_add(place.offset.into());
                points.push(Self::inside(
                    Function::Mark(number),
                    &function.name,
                    at,
                    place.emulated,
                ));
            }
        }
        (points, refused)
    }
}
