//! Whether a function does something before it makes a call, or is only the way to the call.
//!
//! A function works if it has a loop that is not a waiting loop, in itself or in a function that it
//! calls. Functions of libraries are not looked into: locks, clocks and output belong to a wrapper
//! as well. Functions that are called through pointers are not looked into either.

use std::{cell::RefCell, collections::HashMap, ops::Range};

use super::arch::{self, Flow, Instruction};
use super::elf::{Segment, code_at};
use crate::spin::wait;

/// The most nested calls that are looked into.
const DEEPEST: u32 = 3;

/// The longest distance from a function's beginning to which code is looked at, bytes.
const LONGEST: u64 = 4096;

/// The most instructions that are decoded in all.
const MAX_INSTRUCTIONS: u32 = 1 << 14;

/// The usual length of an instruction, bytes.
const USUAL: usize = 4;

/// The most loops, and the most functions, of a file that are remembered.
const MAX_REMEMBERED: usize = 1 << 16;

/// The results for the loops and functions of a file: many places may lie behind the same loop.
#[derive(Debug, Default)]
pub(super) struct KnownWork {
    /// Whether a loop works, by the start of its function, its own start, and its end.
    loops: RefCell<HashMap<(u64, u64, u64), bool>>,
    /// Whether a function works, by its start and by how many nested calls were looked into.
    functions: RefCell<HashMap<(u64, u32), bool>>,
}

/// Facts about the functions of a file.
pub(super) trait Functions {
    /// Whether a function is the program's own, and not of a library in the same file.
    fn is_own(&self, start: u64) -> bool;

    /// The start of the function that contains an address, if known.
    fn start_of(&self, address: u64) -> Option<u64>;
}

/// Whether the function that begins at `start` works before the call that returns to `returns`
/// (both are the file's own addresses). The bytes may be anything.
pub(super) fn works_before(
    image: &[u8],
    segments: &[Segment],
    functions: &dyn Functions,
    found: &KnownWork,
    (start, returns): (u64, u64),
) -> bool {
    let mut work = Work {
        image,
        segments,
        functions,
        found,
        left: MAX_INSTRUCTIONS,
    };
    work.is_done(start, Some(returns), DEEPEST)
}

/// The code of a file.
struct Work<'a> {
    image: &'a [u8],
    segments: &'a [Segment],
    functions: &'a dyn Functions,
    found: &'a KnownWork,
    /// How many more instructions may be decoded.
    left: u32,
}

impl Work<'_> {
    /// Whether the code from `start` on works. `until`: the address behind the last instruction,
    /// which itself is not looked at; `None` for all code that is executed from `start` on.
    fn is_done(&mut self, start: u64, until: Option<u64>, deepest: u32) -> bool {
        let all = start..until.unwrap_or(u64::MAX).min(start.saturating_add(LONGEST));
        let (mut back, mut called) = (Vec::new(), Vec::new());
        self.follow(&all, |instruction| {
            if until.is_some_and(|until| instruction.next() >= until) {
                return false;
            }
            if let Some(target) = instruction.target() {
                if matches!(instruction.flow(), Flow::Call(_)) {
                    called.push(target);
                } else if (start..=instruction.at()).contains(&target) {
                    back.push((target, instruction.next()));
                }
            }
            true
        });
        back.into_iter().any(|jump| self.is_work(start, jump))
            || deepest > 0
                && called
                    .into_iter()
                    .any(|target| self.left > 0 && self.is_done_by(target, deepest - 1))
    }

    /// Whether a whole function works, if it is the program's own.
    fn is_done_by(&mut self, start: u64, deepest: u32) -> bool {
        let known = &self.found.functions;
        if let Some(known) = known.borrow().get(&(start, deepest)) {
            return *known;
        }
        let is_done = self.functions.is_own(start) && self.is_done(start, None, deepest);
        self.remember(known, (start, deepest), is_done);
        is_done
    }

    /// Remembers a result, unless it comes from having given up.
    fn remember<K: Eq + std::hash::Hash>(
        &self,
        known: &RefCell<HashMap<K, bool>>,
        key: K,
        value: bool,
    ) {
        let mut known = known.borrow_mut();
        if self.left > 0 && known.len() < MAX_REMEMBERED {
            known.insert(key, value);
        }
    }

    /// Whether the loop that a jump back to `head` closes is work: see [`Self::closes_work`].
    fn is_work(&mut self, start: u64, (head, end): (u64, u64)) -> bool {
        let known = &self.found.loops;
        if let Some(known) = known.borrow().get(&(start, head, end)) {
            return *known;
        }
        let is_work = self.closes_work(start, (head, end));
        self.remember(known, (start, head, end), is_work);
        is_work
    }

    /// Whether a jump back to `head`, in the function that begins at `start`, closes a loop that
    /// works: one that stores something, or carries a value on from turn to turn. `end`: the
    /// address behind the jump. Code that lies apart jumps back to the function as well, but is not
    /// reached from `head`.
    fn closes_work(&mut self, start: u64, (head, end): (u64, u64)) -> bool {
        let (mut closes, mut only_waits) = (false, false);
        self.follow(&(head..end), |instruction| {
            closes |= instruction.next() == end;
            only_waits |= instruction.is_of_waiting();
            !only_waits
        });
        if !closes || only_waits {
            return false;
        }
        code_at(self.image, self.segments, start, end - start).is_some_and(|code| {
            // Decoding for the loop's graph counts once more.
            let about = u32::try_from(code.bytes.len() / USUAL).unwrap_or(u32::MAX);
            self.left = self.left.saturating_sub(about);
            wait::works(code.bytes, start, (head, end))
        })
    }

    /// Calls `give` once for each instruction within `all` that is reached from its beginning. Does
    /// not go on behind an instruction for which `give` returns false.
    fn follow(&mut self, all: &Range<u64>, mut give: impl FnMut(&Instruction) -> bool) {
        let length = usize::try_from(all.end.saturating_sub(all.start)).unwrap_or(0);
        // Indexed by the distance from the beginning.
        let mut reached = vec![false; length];
        let mut reach = |address: u64| {
            let distance = usize::try_from(address.wrapping_sub(all.start)).ok();
            let reached = distance.and_then(|distance| reached.get_mut(distance));
            reached.is_some_and(|reached| !std::mem::replace(reached, true))
        };
        let mut open = vec![all.start];
        while let Some(from) = open.pop() {
            let length = all.end.saturating_sub(from);
            let code = code_at(self.image, self.segments, from, length);
            let Some(code) = code.filter(|_| all.contains(&from)) else {
                continue;
            };
            for instruction in arch::decode(code.bytes, from) {
                self.left = self.left.saturating_sub(1);
                if self.left == 0
                    || !instruction.is_valid()
                    || !reach(instruction.at())
                    || !give(&instruction)
                {
                    break;
                }
                match instruction.flow() {
                    Flow::Return | Flow::Indirect(_) | Flow::Trap => break,
                    Flow::Jump(to) => {
                        open.push(to);
                        break;
                    }
                    Flow::Branch(to) => open.push(to),
                    // A call that does not return may be the last instruction of its function.
                    Flow::Call(_) | Flow::System => {
                        let function = |address| self.functions.start_of(address);
                        if function(instruction.next()) != function(instruction.at()) {
                            break;
                        }
                    }
                    Flow::Next | Flow::Transaction => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All code is the program's, and nothing has a name.
    struct All;

    impl Functions for All {
        fn is_own(&self, _start: u64) -> bool {
            true
        }

        fn start_of(&self, _address: u64) -> Option<u64> {
            None
        }
    }

    /// The code lies at address 0; its last instruction is the call in question.
    fn works(code: &[u8]) -> bool {
        let segments = [Segment {
            vaddr: 0,
            offset: 0,
            filesz: code.len() as u64,
            memsz: code.len() as u64,
            executable: true,
        }];
        works_before(
            code,
            &segments,
            &All,
            &KnownWork::default(),
            (0, code.len() as u64),
        )
    }

    const CALL: [u8; 5] = [0xe8, 0, 1, 0, 0];

    #[test]
    fn who_comes_straight_to_it_does_not_work() {
        // push rbx; mov rdi, rbx
        assert!(!works(&[&[0x53, 0x48, 0x89, 0xdf], &CALL[..]].concat()));
        // A call into nothing, and invalid code.
        assert!(!works(&[&CALL[..], &CALL].concat()));
        assert!(!works(&[0xff; 8]));
        assert!(!works_before(&[], &[], &All, &KnownWork::default(), (0, 8)));
    }

    #[test]
    fn a_loop_is_work_and_waiting_is_none() {
        // add rax, [rdi]; add rdi, 8; cmp rdi, rsi; jne
        let sum = [
            0x48, 0x03, 0x07, 0x48, 0x83, 0xc7, 8, 0x48, 0x39, 0xf7, 0x75, 0xf4,
        ];
        assert!(works(&[&sum[..], &CALL].concat()));
        assert!(!works(&[&CALL[..], &sum].concat()), "behind it");
        // mov eax, [rdi]; cmp eax, esi; je
        let sees = [0x8b, 0x07, 0x39, 0xf0, 0x74, 0xfa];
        assert!(!works(&[&sees[..], &CALL].concat()));
        // pause; dec ecx; jne
        let pauses = [0xf3, 0x90, 0xff, 0xc9, 0x75, 0xfa];
        assert!(!works(&[&pauses[..], &CALL].concat()));
        // lock cmpxchg [rdi], esi; jne
        let locks = [0xf0, 0x0f, 0xb1, 0x37, 0x75, 0xfa];
        assert!(!works(&[&locks[..], &CALL].concat()));
        // movzx eax, [rdi]; xor eax, 1; test al, al; jne
        let flag = [0x0f, 0xb6, 0x07, 0x83, 0xf0, 1, 0x84, 0xc0, 0x75, 0xf6];
        assert!(!works(&[&flag[..], &CALL].concat()));
        // mov eax, [rbp-4]; lea rdx, [rax*4]; cmp [rdx+rdi], 0; je
        let element = [
            0x8b, 0x45, 0xfc, 0x48, 0x8d, 0x14, 0x85, 0, 0, 0, 0, 0x83, 0x3c, 0x3a, 0, 0x74, 0xef,
        ];
        assert!(!works(&[&element[..], &CALL].concat()));
        // call; xor eax, 1; test al, al; jne
        let asks = [0xe8, 0, 1, 0, 0, 0x83, 0xf0, 1, 0x84, 0xc0, 0x75, 0xf4];
        assert!(!works(&[&asks[..], &CALL].concat()));
        // mov eax, [rbp-4]; add eax, 1; mov [rbp-4], eax; cmp eax, 9; jle
        let counts = [
            0x8b, 0x45, 0xfc, 0x83, 0xc0, 1, 0x89, 0x45, 0xfc, 0x83, 0xf8, 9, 0x7e, 0xf2,
        ];
        assert!(works(&[&counts[..], &CALL].concat()));
        // mov eax, [rdi]; mov [rbp-4], eax; cmp [rbp-4], 0; je
        let keeps = [
            0x8b, 0x07, 0x89, 0x45, 0xfc, 0x83, 0x7d, 0xfc, 0, 0x74, 0xf5,
        ];
        assert!(works(&[&keeps[..], &CALL].concat()));
        // push rbp; mov rbp, rsp: with a frame, the word is the thread's own.
        let frame = [0x55, 0x48, 0x89, 0xe5];
        assert!(!works(&[&frame, &keeps[..], &CALL].concat()));
    }

    #[test]
    fn each_loop_is_looked_at_once_however_many_places_lie_behind_it() {
        // mov eax, [rdi]; cmp eax, esi; je: a waiting loop before each of many calls.
        let sees = [0x8b, 0x07, 0x39, 0xf0, 0x74, 0xfa];
        let code = [&sees[..], &CALL].concat().repeat(50);
        let length = code.len() as u64;
        let segments = [Segment {
            vaddr: 0,
            offset: 0,
            filesz: length,
            memsz: length,
            executable: true,
        }];
        let found = KnownWork::default();
        let step = (sees.len() + CALL.len()) as u64;
        for place in 1..=50 {
            let at = (0, place * step);
            let alone = works_before(&code, &segments, &All, &KnownWork::default(), at);
            assert_eq!(works_before(&code, &segments, &All, &found, at), alone);
        }
        assert_eq!(found.loops.borrow().len(), 50);
    }

    #[test]
    fn what_is_called_before_works_too() {
        // jmp 7; ret; inc eax; ret; inc eax; jmp 3, as what is seldom executed does.
        let apart = [0xeb, 4, 0xff, 0xc0, 0xc3, 0x90, 0xff, 0xc0, 0xeb, 0xf8];
        assert!(!works(&[&apart[..], &CALL].concat()));
        // call 7; jmp to the last; dec ecx; jne; ret; the call
        let code = [0xe8, 2, 0, 0, 0, 0xeb, 5, 0xff, 0xc9, 0x75, 0xfc, 0xc3];
        assert!(works(&[&code[..], &CALL].concat()));
        // The function calls itself: the search ends.
        assert!(!works(
            &[&[0xe8, 0xfb, 0xff, 0xff, 0xff][..], &CALL].concat()
        ));
    }
}
