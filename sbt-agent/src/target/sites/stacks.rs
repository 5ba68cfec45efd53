//! A copy of a thread's stack → the functions that have called each other.

use std::{collections::HashMap, sync::Arc};

use sbt_common::{Rule, cfa, rbp};

use super::Resolver;
use crate::{
    clock,
    place::{printable, short},
    source::profile::Sample,
    target::walks::Owner,
};

/// Calls that are followed, at most.
const MAX_DEPTH: usize = 256;

/// Addresses whose rules and functions are remembered, at most.
const MAX_KNOWN: usize = 1 << 17;

/// A process's mappings are looked at again for an unknown address at most so often, ns.
const REFRESH_NS: u64 = 100_000_000;

/// How to get on from an address.
#[derive(Clone, Copy, Debug)]
enum Step {
    Rule(Rule),
    /// A thread begins there.
    Outermost,
    Unknown,
}

/// A function that a thread was in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named {
    /// Demangled, safe to print; where there is no name, file and address.
    pub function: String,
    /// Its source file, if known.
    pub file: Option<String>,
    /// File name of the program or library.
    pub binary: String,
}

/// A file's number and an address there.
type Code = (usize, u64);

/// The way to the callers, and what is remembered of it.
#[derive(Default)]
pub struct Stacks {
    steps: HashMap<(Code, bool), Step>,
    /// Functions inlined into each other, the innermost first, and whether they are the
    /// C library's, which begins programs and threads.
    names: HashMap<Code, Arc<(Vec<Named>, bool)>>,
    /// By process: when its mappings were last looked at.
    refreshed: HashMap<u32, u64>,
}

impl Stacks {
    /// The functions of a sample, the innermost first; whether they are known to the
    /// beginning of the thread.
    pub fn functions(&mut self, sample: &Sample, resolver: &mut Resolver) -> (Vec<Named>, bool) {
        resolver.turn_to(sample.process);
        let (mut codes, is_whole) = self.follow(sample, resolver);
        if self.names.len() > MAX_KNOWN {
            self.names.clear();
        }
        let mut all: Vec<_> = codes
            .drain(..)
            .map(|code| {
                let new = || Arc::new(resolver.functions_of(code));
                Arc::clone(self.names.entry(code).or_insert_with(new))
            })
            .collect();
        // That the C library has called the program tells nobody anything; nor does what
        // has called the C library at the very beginning, which a stripped program has no
        // name for.
        let is_start = |names: &(Vec<Named>, bool)| {
            let outer = names.0.last();
            outer.is_some_and(|it| it.function.starts_with("__libc_start_main"))
        };
        if is_whole && all.len() > 2 && is_start(&all[all.len() - 2]) {
            all.pop();
        }
        while is_whole && all.len() > 1 && all.last().is_some_and(|last| last.1) {
            all.pop();
        }
        let named = all.iter().flat_map(|names| names.0.iter().cloned());
        (named.collect(), is_whole)
    }

    /// The code of each, likewise.
    fn follow(&mut self, sample: &Sample, resolver: &mut Resolver) -> (Vec<Code>, bool) {
        let word = |address: u64| {
            let at = usize::try_from(address.checked_sub(sample.sp)?).ok()?;
            let bytes = sample.stack.get(at..at.checked_add(8)?)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let mut codes = Vec::new();
        let (mut at, mut sp, mut bp) = (sample.at, sample.sp, sample.bp);
        for depth in 0..MAX_DEPTH {
            // A return address is that of the next instruction, which may belong to
            // another function: the call is before it.
            let is_call = depth > 0;
            let Some(code) = self.find(at.wrapping_sub(is_call.into()), sample.process, resolver)
            else {
                return (codes, false);
            };
            let step = self.step(code, is_call, resolver);
            if is_call && step.is_none() {
                // Not behind a call: found by mistake.
                return (codes, false);
            }
            codes.push(code);
            let rule = match step {
                Some(Step::Rule(rule)) => rule,
                Some(Step::Outermost) => return (codes, true),
                _ => return (codes, false),
            };
            let Some((next, above, rbp)) = go_on(rule, sp, bp, word) else {
                return (codes, false);
            };
            if next == 0 {
                return (codes, true);
            }
            if above <= sp {
                return (codes, false);
            }
            (at, sp, bp) = (next, above, rbp);
        }
        (codes, false)
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

    /// `None` if it is said to be a call and is none.
    fn step(&mut self, code: Code, is_call: bool, resolver: &mut Resolver) -> Option<Step> {
        if let Some(known) = self.steps.get(&(code, is_call)) {
            return Some(*known);
        }
        let (module, vaddr) = code;
        if is_call && !resolver.modules[module].is_after_call(vaddr + 1) {
            return None;
        }
        let file = Arc::clone(&resolver.modules[module].file);
        let unwind = resolver.walks.unwind(module, &file);
        let step = unwind.map_or(Step::Unknown, |unwind| {
            let rule = if is_call {
                unwind.rule(vaddr + 1)
            } else {
                unwind.rule_at(vaddr)
            };
            match rule {
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

/// The return address of a function, and rsp and rbp of its caller.
fn go_on(
    rule: Rule,
    sp: u64,
    bp: u64,
    word: impl Fn(u64) -> Option<u64>,
) -> Option<(u64, u64, u64)> {
    let offset = i64::from(rule.cfa_offset);
    let above = match rule.cfa {
        cfa::RSP => sp.checked_add_signed(offset)?,
        cfa::RBP => bp.checked_add_signed(offset)?,
        cfa::AT_RBP => word(bp.checked_add_signed(offset)?)?,
        _ => return None,
    };
    let offset = i64::from(rule.rbp_offset);
    let rbp = match rule.rbp {
        rbp::SAME => bp,
        rbp::AT_CFA => word(above.checked_add_signed(offset)?)?,
        rbp::AT_RBP => word(bp.checked_add_signed(offset)?)?,
        _ => return None,
    };
    Some((word(above.checked_sub(8)?)?, above, rbp))
}

impl Resolver {
    /// The functions at an address of a file, the innermost first, with those into which
    /// it was inlined; whether they are the C library's.
    fn functions_of(&mut self, (module, vaddr): Code) -> (Vec<Named>, bool) {
        let frames = self.frames(module, vaddr);
        let shown = self.modules[module].file.shown.to_string_lossy();
        let binary = printable(short(&shown));
        let outer = frames.last().and_then(|frame| frame.function.as_deref());
        let is_c = self.modules[module].owner.of_function(outer) == Owner::C;
        let mut names: Vec<Named> = frames
            .iter()
            .filter_map(|frame| {
                Some(Named {
                    function: printable(frame.function.as_deref()?),
                    file: frame.file.as_deref().map(printable),
                    binary: binary.clone(),
                })
            })
            .collect();
        if names.is_empty() {
            let file = Arc::clone(&self.modules[module].file);
            let unwind = self.walks.unwind(module, &file);
            let start = unwind.and_then(|unwind| Some(unwind.function(vaddr)?.start));
            names.push(Named {
                function: format!("{binary}+{:#x}", start.unwrap_or(vaddr)),
                file: None,
                binary,
            });
        }
        (names, is_c)
    }
}
