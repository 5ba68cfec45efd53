//! Functions by name, and instructions by their distance from the function's beginning.

use std::collections::BTreeMap;

use sbt_common::layout;

use super::{Binary, Purpose, Wish, parts};
use crate::arch::prologue::{Body, Refusal};
use crate::debuginfo::{Symbol, TooMany, has_other_parameters};
use crate::files::Offer;
use crate::point::{Function, Point};
use crate::runtimes::{self, mpi};
use sbt_engine::pattern::{Code, is_function};

/// The most bytes of a function that are read.
pub(super) const MAX_FUNCTION: u64 = 1 << 24;

/// Bytes that are read of a function of unknown size.
const UNSIZED_FUNCTION: u64 = 64;

impl Binary<'_> {
    /// The offer for a wish that concerns this file.
    pub(super) fn offer(&self, wish: &Wish) -> Offer {
        match (&wish.at.code, wish.purpose) {
            (Code::Line { file, line }, Purpose::Barrier { .. }) => {
                self.meeting_of_line(file, *line)
            }
            (Code::Line { file, line }, Purpose::Mark(number)) => self.line(file, *line, number),
            (Code::Name(name), purpose) => self.function(name, purpose),
            (Code::Offset { function, offset }, purpose) => {
                match self.address(function.as_deref(), *offset) {
                    Ok(Some((symbol, address))) => self.instruction(&symbol, address, purpose),
                    Ok(None) => Offer::Nothing,
                    Err(reason) => Offer::Refused(reason),
                }
            }
        }
    }

    fn function(&self, name: &str, purpose: Purpose) -> Offer {
        let is_barrier = matches!(purpose, Purpose::Barrier { .. });
        let symbols = match self.debug.functions(name) {
            Ok(symbols) if symbols.is_empty() => {
                return self.chosen(name).map_or(Offer::Nothing, Offer::Refused);
            }
            Ok(symbols) => symbols,
            Err(TooMany) => {
                return Offer::Refused(format!(
                    "{} has hundreds of functions of that name",
                    self.name()
                ));
            }
        };
        if let Some(refusal) = mpi::refusal(name).filter(|_| is_barrier)
            && self.is_of_mpi(name, &symbols)
        {
            return Offer::Refused(refusal);
        }
        let points: Vec<_> = parts::without_repeated(self, symbols)
            .iter()
            .filter_map(|symbol| self.entry(symbol, purpose))
            .flatten()
            .collect();
        if points.is_empty() {
            return Offer::Refused(
                "the kernel cannot probe the first instructions of the function".into(),
            );
        }
        Offer::Points(points)
    }

    /// Whether a function is MPI's own, and not a function of the program with the same name: only MPI's
    /// functions have a second name.
    fn is_of_mpi(&self, name: &str, symbols: &[Symbol]) -> bool {
        let begins = |symbol: &Symbol| symbols.iter().any(|other| other.start == symbol.start);
        let second = self.debug.functions(&mpi::second_name(name));
        mpi::is_defined(self.image) && second.is_ok_and(|all| all.iter().any(begins))
    }

    /// Why a function cannot be probed that the dynamic linker chooses among variants; `None` if it
    /// is no such function. A probe of the code that makes the choice would count nothing but the
    /// choice.
    fn chosen(&self, name: &str) -> Option<String> {
        let variants = self.debug.variants(name)?;
        let file = self.name();
        Some(match variants.first() {
            Some(variant) => format!(
                "the dynamic linker chooses a variant of {name} when the program starts; name a \
                 variant, such as {file}!{variant}"
            ),
            None => format!(
                "the dynamic linker chooses a variant of {name} when the program starts, and \
                 {file} does not name the variants; its debug symbols may"
            ),
        })
    }

    /// The points of a function's calls.
    fn entry(&self, symbol: &Symbol, purpose: Purpose) -> Option<Vec<Point>> {
        let (function, layout) = match purpose {
            Purpose::Mark(number) => (Function::Mark(number), layout::OPAQUE),
            Purpose::Barrier { object, count } => (
                Function::Call {
                    object: self.object(symbol, object),
                    count: self.passed(symbol, count.unwrap_or(0)),
                },
                layout::USER,
            ),
        };
        let with_exits = matches!(purpose, Purpose::Barrier { .. });
        self.points(symbol, function, layout, with_exits)
    }

    /// The points of a function in which threads spin. `object`: the argument that points to what
    /// threads wait for, 0 for none.
    pub(crate) fn spinning(&self, symbol: &Symbol, object: u8) -> Option<Vec<Point>> {
        let function = Function::Call {
            object: self.passed(symbol, object),
            count: 0,
        };
        self.points(symbol, function, runtimes::SPIN, true)
    }

    /// A point where a function begins and, if wanted, points where it ends. `None` if the function
    /// cannot be probed.
    pub(super) fn points(
        &self,
        symbol: &Symbol,
        function: Function,
        layout: u8,
        with_exits: bool,
    ) -> Option<Vec<Point>> {
        let code = self.code(symbol.start, size(symbol))?;
        let point = Point::of_function(function, &symbol.name, &code, layout)?;
        let exits = if with_exits {
            self.exits(symbol)
        } else {
            BTreeMap::new()
        };
        let exits = exits.into_iter().map(|(offset, emulated)| {
            Self::inside(Function::CallExit, &symbol.name, offset, emulated)
        });
        Some(std::iter::once(point).chain(exits).collect())
    }

    /// The register with the barrier object, as an argument's number; 0 for none.
    fn object(&self, symbol: &Symbol, object: Option<u8>) -> u8 {
        let number = object.unwrap_or_else(|| {
            let is_pointer = self.debug.first_is_pointer(symbol.start);
            u8::from(is_pointer.unwrap_or(true))
        });
        self.passed(symbol, number)
    }

    /// The register with an argument, as an argument's number: compilers drop arguments of the
    /// copies that they make, and the others move up. 0 in doubt, because a value from the wrong
    /// register would be worse.
    fn passed(&self, symbol: &Symbol, number: u8) -> u8 {
        if number == 0 || !has_other_parameters(&symbol.name) {
            return number;
        }
        self.debug.register(symbol.start, number).unwrap_or(0)
    }

    /// The address that is meant, and the function around it.
    fn address(
        &self,
        function: Option<&str>,
        offset: u64,
    ) -> Result<Option<(Symbol, u64)>, String> {
        let Some(name) = function else {
            return self.bare_address(offset);
        };
        let too_many = |TooMany| format!("{} has hundreds of such functions", self.name());
        let mut symbols = self.debug.functions_exactly(name).map_err(too_many)?;
        if symbols.is_empty() {
            symbols = self.debug.functions(name).map_err(too_many)?;
        }
        match &symbols[..] {
            // Reports print a call in an unknown function so.
            [] if is_function(&self.name(), name) => self.bare_address(offset),
            [] => self.chosen(name).map_or(Ok(None), Err),
            [symbol] => match symbol.start.checked_add(offset) {
                Some(address) if offset < size(symbol) => Ok(Some((symbol.clone(), address))),
                _ => Err(format!("{name} is only {:#x} bytes long", size(symbol))),
            },
            several => {
                let addresses: Vec<_> = several
                    .iter()
                    .filter_map(|symbol| symbol.start.checked_add(offset))
                    .take(4)
                    .map(|address| format!("{}!{address:#x}", self.name()))
                    .collect();
                Err(format!(
                    "there are {} functions with that name; give an address, such as {}",
                    several.len(),
                    addresses.join(" or ")
                ))
            }
        }
    }

    fn bare_address(&self, address: u64) -> Result<Option<(Symbol, u64)>, String> {
        match self.debug.spanning(address) {
            Some(symbol) => Ok(Some((symbol, address))),
            None if self.code(address, 1).is_some() => Err(format!(
                "{} has no symbol for the function at this address, so sbt does not know where its \
                 instructions begin",
                self.name()
            )),
            None => Ok(None),
        }
    }

    /// The point of one instruction.
    fn instruction(&self, symbol: &Symbol, address: u64, purpose: Purpose) -> Offer {
        if address == symbol.start {
            return match self.entry(symbol, purpose) {
                Some(points) => Offer::Points(points),
                None => Offer::Refused(Refusal::Unfit.to_string()),
            };
        }
        let Purpose::Mark(number) = purpose else {
            return Offer::Refused(
                "a barrier must be a whole function, and this is a place inside \
                of a function"
                    .into(),
            );
        };
        let distance = address - symbol.start;
        let Some(code) = self.code(symbol.start, size(symbol).min(MAX_FUNCTION)) else {
            return Offer::Refused("there is no code at this address".into());
        };
        let body = Body::new(code.bytes, &[]);
        if !body.is_boundary(distance) {
            let (before, after) = body.neighbours(distance);
            let neighbours: Vec<_> = [before, after]
                .into_iter()
                .flatten()
                .map(|at| format!("{}+{at:#x}", symbol.name))
                .collect();
            return Offer::Refused(format!(
                "no instruction begins there; the nearest are {}",
                neighbours.join(" and ")
            ));
        }
        if let Some(place) = body.choose(distance, distance) {
            return Offer::Points(vec![Self::inside(
                Function::Mark(number),
                &symbol.name,
                code.offset.saturating_add(place.offset.into()),
                place.emulated,
            )]);
        }
        let (why, next) = body.refusal(distance);
        let instead = next.map_or_else(String::new, |next| {
            format!("; the next instruction is {}+{next:#x}", symbol.name)
        });
        Offer::Refused(format!("{why}{instead}"))
    }
}

/// The number of bytes of a function that are to be read.
fn size(symbol: &Symbol) -> u64 {
    match symbol.size {
        0 => UNSIZED_FUNCTION,
        size => size,
    }
}
