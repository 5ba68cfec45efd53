//! A copy of a thread's stack → the functions that have called each other.

use std::{collections::HashMap, sync::Arc};

use sbt_common::{Frame, Rule, rbp};

use super::{Resolver, called::Called};
use crate::{
    arch::{
        Handed, KEPT, STACK,
        unwind::{INTERRUPTED, INTERRUPTED_AT, INTERRUPTED_FRAME, INTERRUPTED_STACK, below_frame},
    },
    clock,
    sample::Sample,
    walks::Owner,
};
use sbt_engine::place::{NamedFunction, printable, short};

/// The most calls that are followed.
const MAX_DEPTH: usize = 256;

/// The most addresses whose rules and functions are remembered.
const MAX_KNOWN: usize = 1 << 17;

/// The shortest time between two reads of a process's mappings for unknown addresses, ns.
const REFRESH_NS: u64 = 100_000_000;

/// How to get from an address to its caller.
#[derive(Clone, Copy, Debug)]
enum Step {
    Rule(Rule),
    /// A thread begins there.
    Outermost,
    /// A signal's handler returns there, to the interrupted code.
    Signal,
    Unknown,
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The thread's process; 0 stands for the target.
    pub process: u32,
    /// The address of the instruction that the thread is at.
    pub at: u64,
    /// The thread's stack pointer.
    pub sp: u64,
    /// The thread's frame pointer, if known.
    pub bp: Option<u64>,
    /// The thread's registers that called functions preserve, if known.
    pub kept: Option<KeptRegisters>,
}

/// The values of the registers that called functions preserve, in the order of [`KEPT`].
pub type KeptRegisters = [u64; KEPT.len()];

/// The values of these registers in a function, as far as they are known.
pub type KnownRegisters = [Option<u64>; KEPT.len()];

/// How far the callers could be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// To the beginning of the thread.
    Whole,
    /// To a function whose caller can be found only from rbp, which is unknown.
    WantsBp,
    /// To a function that returns to this address, where no file's code lies.
    Nowhere(u64),
    /// To a function whose caller cannot be found.
    Broken,
}

/// The number of a file, and an address in it.
pub(super) type Code = (usize, u64);

/// The code of a frame, and whether it is a call that is known by its return address.
type FrameCode = (Code, bool);

/// A call that a thread is in.
#[derive(Clone, Debug)]
pub struct CallAt {
    /// Where the thread is or will return to.
    pub address: u64,
    /// Facts about the code there.
    pub called: Arc<Called>,
    /// Whether a signal's handler is among the inner calls.
    pub after_signal: bool,
    /// The arguments that the function which is called there was given, as far as they are of
    /// interest and known: see [`Called::hands`].
    pub given: Vec<Option<u64>>,
    /// The stack pointer there.
    pub sp: u64,
    /// The registers that called functions preserve, as far as their values there are known.
    pub kept: KnownRegisters,
    /// The frame pointer there, which may hold a variable as well, if known.
    pub bp: Option<u64>,
}

/// A call that a thread is in, before its code is looked up.
struct Spot {
    address: u64,
    place: FrameCode,
    after_signal: bool,
    /// The stack pointer.
    sp: u64,
    kept: KnownRegisters,
    bp: Option<u64>,
}

/// The number of words of the stack that are searched for a return address.
const SEARCHED: u64 = 64;

/// A caller that was found on the stack.
struct Found {
    /// Calls that were seen on the way, of functions without tables as well.
    between: Vec<Spot>,
    /// The return address, and where the caller's stack begins.
    caller: (u64, u64),
}

/// Follows threads to their callers, and remembers what is known of the code.
#[derive(Default)]
pub struct Stacks {
    steps: HashMap<(Code, bool), Step>,
    /// Functions inlined into each other, the innermost first, and whether they are the C
    /// library's, which begins programs and threads.
    names: HashMap<Code, Arc<(Vec<NamedFunction>, bool)>>,
    called: HashMap<FrameCode, Arc<Called>>,
    /// By process: when its mappings were last read, `CLOCK_MONOTONIC`, ns.
    refreshed: HashMap<u32, u64>,
    /// Whether to search the stack for the frame of a function whose frame pointer is unknown.
    searches: bool,
}

impl Stacks {
    /// For threads that are never stopped for their registers: where a frame pointer is needed and
    /// unknown, the stack is searched for the call of the function.
    pub fn searching() -> Self {
        Self {
            searches: true,
            ..Self::default()
        }
    }

    /// The functions of a sample, the innermost first, and whether they are known to the beginning
    /// of the thread.
    pub fn functions(
        &mut self,
        sample: &Sample,
        resolver: &mut Resolver,
    ) -> (Vec<NamedFunction>, bool) {
        resolver.turn_to(sample.process);
        let word = |address: u64| {
            let at = usize::try_from(address.checked_sub(sample.sp)?).ok()?;
            let bytes = sample.stack.get(at..at.checked_add(8)?)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let standing = Standing {
            process: sample.process,
            at: sample.at,
            sp: sample.sp,
            bp: Some(sample.bp),
            kept: None,
        };
        let (places, ends) = self.follow(standing, &word, resolver, false);
        let is_whole = ends == Ends::Whole;
        if self.names.len() > MAX_KNOWN {
            self.names.clear();
        }
        let mut all: Vec<_> = places
            .into_iter()
            .map(|spot| {
                let code = spot.place.0;
                let new = || Arc::new(resolver.functions_of(code));
                Arc::clone(self.names.entry(code).or_insert_with(new))
            })
            .collect();
        let is_c = |names: &Arc<(Vec<NamedFunction>, bool)>| names.1;
        let is_start = |names: &Arc<(Vec<NamedFunction>, bool)>| {
            let outer = names.0.last();
            outer.is_some_and(|function| function.function.starts_with(START))
        };
        drop_start(&mut all, is_whole, is_c, is_start);
        let named = all.iter().flat_map(|names| names.0.iter().cloned());
        (named.collect(), is_whole)
    }

    /// The calls that a thread is in, the innermost first, and how far they are known. `word` reads
    /// the word at an address of memory.
    pub fn calls(
        &mut self,
        standing: Standing,
        word: &dyn Fn(u64) -> Option<u64>,
        resolver: &mut Resolver,
    ) -> (Vec<CallAt>, Ends) {
        resolver.turn_to(standing.process);
        let (places, ends) = self.follow(standing, word, resolver, true);
        if self.called.len() > MAX_KNOWN {
            self.called.clear();
        }
        let mut all: Vec<_> = places
            .into_iter()
            .map(|spot| {
                let place = spot.place;
                let new = || Arc::new(resolver.called(place.0, place.1));
                let called = self.called.entry(place).or_insert_with(new);
                let hands = called.hands.iter();
                CallAt {
                    address: spot.address,
                    called: Arc::clone(called),
                    after_signal: spot.after_signal,
                    given: hands.map(|handed| spot.given((*handed)?, word)).collect(),
                    sp: spot.sp,
                    kept: spot.kept,
                    bp: spot.bp,
                }
            })
            .collect();
        let is_c = |call: &CallAt| call.called.is_c;
        let is_start = |call: &CallAt| {
            let outer = call
                .called
                .frames
                .last()
                .and_then(|frame| frame.function.as_deref());
            outer.is_some_and(|function| function.starts_with(START))
        };
        drop_start(&mut all, ends == Ends::Whole, is_c, is_start);
        (all, ends)
    }

    /// The frames of a thread, the innermost first, and how far they are known. `may_search`: the
    /// caller of a function without tables for unwinding is searched on the stack.
    fn follow(
        &mut self,
        standing: Standing,
        word: &dyn Fn(u64) -> Option<u64>,
        resolver: &mut Resolver,
        may_search: bool,
    ) -> (Vec<Spot>, Ends) {
        let mut codes = Vec::new();
        let Standing {
            process,
            mut at,
            mut sp,
            mut bp,
            kept,
        } = standing;
        let mut kept = kept.map_or([None; KEPT.len()], |kept| kept.map(Some));
        // A return address is the address of the next instruction, which may belong to another
        // function: the call is before it.
        let mut is_call = false;
        let mut after_signal = false;
        for _ in 0..MAX_DEPTH {
            let Some(code) = self.find(at.wrapping_sub(is_call.into()), process, resolver) else {
                return (codes, Ends::Nowhere(at));
            };
            let step = self.step(code, is_call, resolver);
            if is_call && step.is_none() {
                // The address does not follow a call: it was found by mistake.
                return (codes, Ends::Broken);
            }
            if let Some(Step::Signal) = step {
                let of = |index: u64| word(sp.checked_add(INTERRUPTED + 8 * index)?);
                let (Some(next), Some(above)) = (of(INTERRUPTED_AT), of(INTERRUPTED_STACK)) else {
                    return (codes, Ends::Broken);
                };
                (at, sp, bp) = (next, above, of(INTERRUPTED_FRAME));
                kept = [None; KEPT.len()];
                is_call = false;
                after_signal = true;
                continue;
            }
            codes.push(Spot {
                address: at,
                place: (code, is_call),
                after_signal,
                sp,
                kept,
                bp,
            });
            let rule = match step {
                Some(Step::Rule(rule)) => rule,
                Some(Step::Outermost) => return (codes, Ends::Whole),
                Some(Step::Unknown) if may_search => {
                    let Some(found) = self.search(sp, bp, word, resolver) else {
                        return (codes, Ends::Broken);
                    };
                    codes.extend(found.between);
                    (at, sp) = found.caller;
                    kept = [None; KEPT.len()];
                    is_call = true;
                    continue;
                }
                _ => return (codes, Ends::Broken),
            };
            if rule.needs_rbp() && bp.is_none() {
                bp = self
                    .searches
                    .then(|| frame_of(code, (at.wrapping_sub(is_call.into()), sp), word, resolver))
                    .flatten();
                if bp.is_none() {
                    return (codes, Ends::WantsBp);
                }
            }
            let frame = Frame {
                rsp: sp,
                rbp: bp.unwrap_or(0),
                address: at,
            };
            let Some(caller) = rule.step(&frame, word) else {
                return (codes, Ends::Broken);
            };
            if caller.address == 0 {
                return (codes, Ends::Whole);
            }
            if rule.rbp != rbp::SAME {
                bp = Some(caller.rbp);
            }
            kept = of_caller(kept, code, caller.rsp, word, resolver);
            (at, sp) = (caller.address, caller.rsp);
            is_call = true;
        }
        (codes, Ends::Broken)
    }

    /// Searches the stack for the innermost return address into code with tables for unwinding. C
    /// libraries such as musl have none, and their functions use little of the stack.
    fn search(
        &mut self,
        sp: u64,
        bp: Option<u64>,
        word: &dyn Fn(u64) -> Option<u64>,
        resolver: &mut Resolver,
    ) -> Option<Found> {
        let mut between = Vec::new();
        for index in 0..SEARCHED {
            let place = sp.checked_add(8 * index)?;
            let address = word(place)?;
            let Some(code) = resolver.find(address.wrapping_sub(1)) else {
                continue;
            };
            let step = self.step(code, true, resolver);
            // The stack also holds what earlier calls have left. A caller has a caller itself.
            let is_left = |this: &mut Self, rule: Rule, resolver: &mut Resolver| {
                let frame = Frame {
                    rsp: place + 8,
                    rbp: bp.unwrap_or(0),
                    address,
                };
                if rule.needs_rbp() && bp.is_none() {
                    return false;
                }
                let next = rule.step(&frame, word).map(|caller| caller.address);
                let Some(next) = next.filter(|next| *next != 0) else {
                    return next.is_none();
                };
                let code = resolver.find(next.wrapping_sub(1));
                code.is_none_or(|code| this.step(code, true, resolver).is_none())
            };
            match step {
                Some(Step::Rule(rule)) if is_left(self, rule, resolver) => {}
                Some(Step::Rule(_) | Step::Outermost) => {
                    return Some(Found {
                        between,
                        caller: (address, place + 8),
                    });
                }
                Some(Step::Unknown) => between.push(Spot {
                    address,
                    place: (code, true),
                    after_signal: false,
                    sp: place + 8,
                    kept: [None; KEPT.len()],
                    bp: None,
                }),
                _ => {}
            }
        }
        None
    }

    fn find(&mut self, address: u64, process: u32, resolver: &mut Resolver) -> Option<Code> {
        if let Some(found) = resolver.find(address) {
            return Some(found);
        }
        let now_ns = clock::now_ns();
        let last_ns = self.refreshed.get(&process).copied().unwrap_or(0);
        if now_ns.saturating_sub(last_ns) >= REFRESH_NS {
            if self.refreshed.len() > MAX_KNOWN {
                self.refreshed.clear();
            }
            self.refreshed.insert(process, now_ns);
            resolver.refresh();
        }
        resolver.find(address)
    }

    /// How to get on from code. `None` if `is_call` is true and no call is there.
    fn step(&mut self, code: Code, is_call: bool, resolver: &mut Resolver) -> Option<Step> {
        if let Some(known) = self.steps.get(&(code, is_call)) {
            return Some(*known);
        }
        let (module, vaddr) = code;
        let file = Arc::clone(&resolver.modules[module].file);
        let unwind = file.unwind();
        let is_signal = unwind
            .as_ref()
            .is_some_and(|unwind| unwind.is_signal(vaddr));
        if is_call && !is_signal && !resolver.modules[module].is_after_call(vaddr + 1) {
            return None;
        }
        let step = unwind.map_or(Step::Unknown, |unwind| {
            let rule = if is_call {
                unwind.rule(vaddr + 1)
            } else {
                unwind.rule_at(vaddr)
            };
            match rule {
                _ if is_signal => Step::Signal,
                Some(rule) => Step::Rule(rule),
                None if unwind.is_outermost(vaddr) => Step::Outermost,
                None => Step::Unknown,
            }
        });
        if self.steps.len() > MAX_KNOWN {
            self.steps.clear();
        }
        self.steps.insert((code, is_call), step);
        Some(step)
    }
}

/// The registers in the caller of a function, by those in the function: it has saved those that it has
/// changed. `above`: where the caller's stack begins.
fn of_caller(
    mut kept: KnownRegisters,
    (module, vaddr): Code,
    above: u64,
    word: &dyn Fn(u64) -> Option<u64>,
    resolver: &mut Resolver,
) -> KnownRegisters {
    let file = Arc::clone(&resolver.modules[module].file);
    let unwind = file.unwind();
    let Some(saved) = unwind.and_then(|unwind| unwind.saved(vaddr)) else {
        return [None; KEPT.len()];
    };
    for (value, saved) in kept.iter_mut().zip(saved) {
        if let Some(offset) = saved {
            *value = word(above.wrapping_add_signed(offset));
        }
    }
    kept
}

impl Spot {
    /// The value of an argument, by the registers and the stack.
    fn given(&self, handed: Handed, word: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
        let kept = |register| {
            let at = KEPT.iter().position(|known| *known == register)?;
            self.kept[at]
        };
        match handed {
            Handed::Number(number) => Some(number),
            Handed::Address(own) => {
                let ((_, vaddr), is_call) = self.place;
                let mapped = self.address.wrapping_sub(vaddr + u64::from(is_call));
                Some(own.wrapping_add(mapped))
            }
            Handed::Kept(register) => kept(register),
            Handed::OnStack(base, distance, size) => {
                let base = if base == STACK { self.sp } else { kept(base)? };
                let address = base.wrapping_add_signed(distance);
                // The word that contains the value: memory may end behind it.
                let within = address % 8;
                let value = word(address - within)? >> (8 * within);
                match size {
                    8 => (within == 0).then_some(value),
                    4 => (within <= 4).then_some(value & u64::from(u32::MAX)),
                    _ => None,
                }
            }
        }
    }
}

/// The number of words of a stack that are searched for a call.
const FRAME_SEARCHED: u64 = 256;

/// The frame pointer of a function that keeps one, by the return address of the call of this very
/// function, above the function's stack pointer: the caller's frame pointer lies below that address.
/// `address` is that of the code in memory. `None` unless there is exactly one such address: another may be left from an earlier call.
fn frame_of(
    (module, vaddr): Code,
    (address, sp): (u64, u64),
    word: &dyn Fn(u64) -> Option<u64>,
    resolver: &mut Resolver,
) -> Option<u64> {
    let file = Arc::clone(&resolver.modules[module].file);
    let unwind = file.unwind()?;
    let start = unwind.function(vaddr)?.start;
    let frames = resolver.frames(module, vaddr);
    let name = frames.last().and_then(|frame| frame.function.as_deref());
    let mut is_call_of_it = |returns: u64| {
        let (file, before) = resolver.find(returns.wrapping_sub(1))?;
        let of_caller = &resolver.modules[file];
        if file == module
            && let Some(called) = of_caller.called_directly(before + 1)
        {
            return Some(called == start);
        }
        if let Some(distance) = of_caller.called_through(before + 1)
            && let Some(called) = word(returns.checked_add_signed(distance)?)
        {
            return Some(called == address.wrapping_sub(vaddr.wrapping_sub(start)));
        }
        // The call of another file's function tells the name.
        let called = of_caller
            .is_after_call(before + 1)
            .then(|| of_caller.called_by(before + 1))??;
        Some(name == Some(called.as_str()))
    };
    let mut found = (1..FRAME_SEARCHED).filter_map(|index| {
        let at = sp.checked_add(8 * index)?;
        is_call_of_it(word(at)?)?.then_some(at - 8)
    });
    let (first, second) = (found.next(), found.next());
    drop(found);
    match (first, second) {
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => None,
        // The call goes through a register.
        (None, _) => {
            let code = unwind.code(start)?;
            let at = sp.checked_add(below_frame(code)?)?;
            let returns = word(at.checked_add(8)?)?;
            let (file, before) = resolver.find(returns.wrapping_sub(1))?;
            resolver.modules[file]
                .is_after_call(before + 1)
                .then_some(at)
        }
    }
}

/// The function of the C library that calls a program's `main`.
const START: &str = "__libc_start_main";

/// Drops the outermost calls, which are of no interest: the C library's call of the program, and
/// the very first code, which has called the C library and has no name in a stripped program.
fn drop_start<T>(
    all: &mut Vec<T>,
    is_whole: bool,
    is_c: impl Fn(&T) -> bool,
    is_start: impl Fn(&T) -> bool,
) {
    if is_whole && all.len() > 2 && is_start(&all[all.len() - 2]) {
        all.pop();
    }
    while is_whole && all.len() > 1 && all.last().is_some_and(&is_c) {
        all.pop();
    }
}

impl Resolver {
    /// The functions at an address of a file, the innermost first, inlined ones included; and
    /// whether they are the C library's.
    fn functions_of(&mut self, (module, vaddr): Code) -> (Vec<NamedFunction>, bool) {
        let frames = self.frames(module, vaddr);
        let shown = self.modules[module].file.shown.to_string_lossy();
        let binary = printable(short(&shown));
        let outer = frames.last().and_then(|frame| frame.function.as_deref());
        let is_c = self.modules[module].owner.of_function(outer) == Owner::C;
        let mut names: Vec<NamedFunction> = frames
            .iter()
            .filter_map(|frame| {
                Some(NamedFunction {
                    function: printable(frame.function.as_deref()?),
                    file: frame.file.as_deref().map(printable),
                    binary: binary.clone(),
                })
            })
            .collect();
        if names.is_empty() {
            let file = Arc::clone(&self.modules[module].file);
            let unwind = file.unwind();
            let start = unwind.and_then(|unwind| Some(unwind.function(vaddr)?.start));
            names.push(NamedFunction {
                function: format!("{binary}+{:#x}", start.unwrap_or(vaddr)),
                file: None,
                binary,
            });
        }
        (names, is_c)
    }
}
