//! Which BPF program is attached to which point of a file, and what its cookie says.

use sbt_common::{Cookie, MarkCookie, kind, kmp};

use super::Ebpf;
use crate::kernel::bpf::ProbePoint;
use sbt_program::{
    files::ProbedFile,
    point::{Function, Point},
    runtimes::mpi,
};

/// Which end of a function a probe is put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeEnd {
    Entry,
    Return,
}

pub(super) const fn is_mapped(function: Function) -> bool {
    matches!(function, Function::LinkerMapped)
}

pub(super) const fn is_init(function: Function) -> bool {
    matches!(function, Function::BarrierInit)
}

pub(super) const fn is_wait(function: Function) -> bool {
    matches!(function, Function::BarrierWait)
}

const fn is_team(function: Function) -> bool {
    matches!(function, Function::Team(_))
}

const fn is_kmp(function: Function) -> bool {
    matches!(function, Function::Kmp(_))
}

/// Functions whose return probe reports a departure.
pub(super) const fn is_left(function: Function) -> bool {
    matches!(function, Function::BarrierWait | Function::TeamEnd)
}

/// Functions at which a parallel region begins.
pub(super) const fn is_region(function: Function) -> bool {
    matches!(function, Function::Region)
}

const fn is_call(function: Function) -> bool {
    matches!(function, Function::Call { .. })
}

const fn is_call_exit(function: Function) -> bool {
    matches!(function, Function::CallExit)
}

const fn is_make(function: Function) -> bool {
    matches!(function, Function::Make { .. })
}

const fn is_made(function: Function) -> bool {
    matches!(function, Function::Made)
}

/// Functions that are no barriers, marks or uses of condition variables. Their probes cost next to
/// nothing, since they are hit rarely.
pub(super) const fn is_rare(function: Function) -> bool {
    is_mapped(function) || is_init(function) || is_make(function) || is_made(function)
}

const fn is_past(function: Function) -> bool {
    matches!(function, Function::Left)
}

const fn is_cond_wait(function: Function) -> bool {
    matches!(function, Function::CondWait)
}

const fn is_cond_wake(function: Function) -> bool {
    matches!(function, Function::CondWake { .. })
}

const fn is_mark(function: Function) -> bool {
    matches!(function, Function::Mark(_) | Function::Awaits)
}

/// Selects functions by their kind.
pub(super) type Is = fn(Function) -> bool;

/// What is always attached, in this order. Return probes for departures come and go.
pub(super) const ATTACHED: [(Is, &str); 9] = [
    (is_mapped, "mapped"),
    (is_init, "init"),
    (is_mark, "mark"),
    (is_call_exit, "call_exit"),
    (is_past, "depart"),
    (is_call, "call"),
    (is_wait, "arrive"),
    (is_team, "team"),
    (is_kmp, "kmp"),
];

/// The programs that stay attached while other probes are off: after a missed call, sbt could not
/// identify the communicators that later calls make. The end of a call is attached before its
/// beginning, so that no end is missed.
pub(super) const MAKERS: [(Is, &str); 2] = [(is_made, "made"), (is_make, "make")];

/// The programs that are attached if condition variables are watched. Wakes come first: so the wait of a
/// first waiter may be missed, but not its wake.
pub(super) const CONDVARS: [(Is, &str); 2] = [(is_cond_wake, "condvar"), (is_cond_wait, "condvar")];

impl Ebpf {
    /// The index of a way to the team in its map.
    pub(super) fn way(&self, way: &sbt_common::Kmp) -> Option<u16> {
        let index = self.kmp.iter().position(|known| known == way)?;
        u16::try_from(index).ok()
    }

    pub(super) fn points(&self, file: &ProbedFile, is: Is, at: ProbeEnd) -> Vec<ProbePoint> {
        let points = file.points.iter();
        points
            .filter(|point| is(point.function))
            .map(|point| {
                let (entry_offset, stack_moved) = self.entry(point);
                ProbePoint {
                    offset: match at {
                        ProbeEnd::Entry => entry_offset,
                        ProbeEnd::Return => point.return_offset,
                    },
                    cookie: self.cookie(point, stack_moved),
                }
            })
            .collect()
    }

    /// Where the probe of a call goes, and how far the stack has moved there, bytes. A return probe
    /// replaces the caller's return address: after it the caller could not be read, but on the same
    /// instruction it can.
    pub(super) fn entry(&self, point: &Point) -> (u64, u16) {
        let returns = is_wait(point.function) && self.may_depart;
        if returns && point.stack_moved > 0 {
            (point.return_offset, 0)
        } else {
            (point.entry_offset, point.stack_moved)
        }
    }

    /// Whether the kernel single-steps at the probe of a call. The entry may be emulated; the
    /// instruction of a return probe, if used instead, is not.
    pub(super) fn is_stepped(&self, point: &Point) -> bool {
        !point.entry_emulated || self.entry(point).0 != point.entry_offset
    }

    fn cookie(&self, point: &Point, stack_moved: u16) -> u64 {
        let way = |way: &sbt_common::Kmp| self.way(way);
        cookie(
            point,
            stack_moved,
            (self.is_stepped(point), self.generation),
            way,
        )
    }
}

/// The cookie of a probe, from which its program learns about the point. `stack_moved`: how far the
/// stack has moved there, bytes. `stepped` and `generation`: see [`Cookie`]. `way`: the index of a
/// way to the team.
pub fn cookie(
    point: &Point,
    stack_moved: u16,
    (stepped, generation): (bool, u16),
    way: impl Fn(&sbt_common::Kmp) -> Option<u16>,
) -> u64 {
    let cookie = Cookie {
        stepped,
        layout: point.layout,
        object: 0,
        count: 0,
        stack_moved,
        displacement: 0,
        generation,
    };
    match point.function {
        Function::Mark(mark) => MarkCookie {
            mark,
            stepped,
            generation,
        }
        .pack(),
        Function::Region => MarkCookie {
            mark: MarkCookie::REGION,
            stepped,
            generation,
        }
        .pack(),
        Function::Awaits => MarkCookie {
            mark: MarkCookie::AWAITS,
            stepped,
            generation,
        }
        .pack(),
        Function::Call { object, count } => Cookie {
            layout: point.layout,
            object,
            count,
            displacement: mpi::number(&point.symbol),
            ..cookie
        }
        .pack(),
        Function::Make {
            number,
            out,
            list,
            width,
        } => Cookie {
            layout: number,
            object: out,
            count: list,
            displacement: width,
            ..cookie
        }
        .pack(),
        Function::Team(team) => team.cookie(cookie).pack(),
        Function::CondWait => Cookie {
            layout: kind::WAIT,
            ..cookie
        }
        .pack(),
        Function::CondWake { most } => Cookie {
            layout: kind::WAKE,
            count: most,
            ..cookie
        }
        .pack(),
        Function::Kmp(place) => Cookie {
            object: place.register,
            count: if place.from_frame { kmp::FRAME } else { 0 }
                | if place.passes { kmp::PASSES } else { 0 }
                | if place.ends { kmp::ENDS } else { 0 },
            displacement: way(&place.way).unwrap_or(u16::MAX),
            ..cookie
        }
        .pack(),
        _ => cookie.pack(),
    }
}
