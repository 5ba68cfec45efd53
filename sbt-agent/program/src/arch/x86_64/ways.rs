//! Finds code of the target by which a thread can make a system call and get back.

/// `syscall`
const CALL: [u8; 2] = [0x0f, 0x05];

/// `mov rax, 15; syscall`, and the same with `eax`: how C libraries return from a signal.
const BACK: [&[u8]; 2] = [
    &[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05],
    &[0xb8, 15, 0, 0, 0, 0x0f, 0x05],
];

/// How many words at most are popped between a system call and the return after it.
const MOST_POPS: usize = 8;

/// Addresses of code that an injected call needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InjectionCode {
    /// A `syscall` instruction followed only by pops and a return, and the number of pops.
    pub call: Option<(u64, usize)>,
    /// Code that calls `rt_sigreturn`.
    pub back: Option<u64>,
}

impl InjectionCode {
    /// Searches `code`, which lies at address `start`. `clean` tells for an address and a length
    /// whether no breakpoint lies there; other finds are skipped.
    pub fn add(&mut self, code: &[u8], start: u64, clean: impl Fn(u64, usize) -> bool) {
        let at = |offset: usize| start + offset as u64;
        if self.call.is_none() {
            self.call = memchr::memmem::find_iter(code, &CALL).find_map(|offset| {
                let (pops, length) = way_out(&code[offset + CALL.len()..])?;
                clean(at(offset), CALL.len() + length).then_some((at(offset), pops))
            });
        }
        if self.back.is_none() {
            self.back = BACK.iter().find_map(|back| {
                let mut found = memchr::memmem::find_iter(code, back);
                let found = found.find(|offset| clean(at(*offset), back.len()))?;
                Some(at(found))
            });
        }
    }
}

/// The number of pops before the return, and the length of both in bytes. `None` if the code does
/// anything else.
fn way_out(code: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0;
    for pops in 0..=MOST_POPS {
        length += match code.get(length..)? {
            [0xc3, ..] => return Some((pops, length + 1)),
            // Pops of any register but rsp.
            [0x58..=0x5b | 0x5d..=0x5f, ..] => 1,
            [0x41, 0x58..=0x5f, ..] => 2,
            _ => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &[u8], breakpoint: u64) -> InjectionCode {
        let mut ways = InjectionCode::default();
        let clean = |at: u64, length: usize| !(at..at + length as u64).contains(&breakpoint);
        ways.add(code, 0x1000, clean);
        ways
    }

    #[test]
    fn a_call_leads_to_a_return_and_nowhere_else() {
        for (behind, expected) in [
            (&[0xc3][..], Some(0)),
            // pop rbx; pop r12; pop rbp; ret
            (&[0x5b, 0x41, 0x5c, 0x5d, 0xc3], Some(3)),
            // pop rsp; ret
            (&[0x5c, 0xc3], None),
            (&[0x48, 0x3d, 1, 0xf0, 0xff, 0xff, 0xc3], None),
            (&[0x58; 20], None),
            (&[0x5b], None),
            (&[], None),
        ] {
            let code = [&[0x90, 0x0f, 0x05][..], behind].concat();
            let call = expected.map(|pops| (0x1001, pops));
            assert_eq!(found(&code, 0).call, call, "{behind:x?}");
        }
    }

    #[test]
    fn what_has_a_breakpoint_is_passed_over() {
        let code = [0x0f, 0x05, 0xc3, 0x90, 0x0f, 0x05, 0xc3];
        assert_eq!(found(&code, 0).call, Some((0x1000, 0)));
        assert_eq!(found(&code, 0x1002).call, Some((0x1004, 0)));
        assert_eq!(found(&code[..6], 0x1000).call, None);
    }

    #[test]
    fn the_way_back_is_that_of_a_c_library() {
        for back in BACK {
            let code = [&[0x90, 0x90][..], back].concat();
            assert_eq!(found(&code, 0).back, Some(0x1002));
            assert_eq!(found(&code, 0x1004).back, None);
        }
        assert_eq!(found(&[0xb8, 14, 0, 0, 0, 0x0f, 0x05], 0).back, None);
    }
}
