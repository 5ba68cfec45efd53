//! The choice of an instruction inside of a function on which to put a probe.

use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};

use super::{ProbePlace, Refusal, Stand, bytes_of, jump_target, stand};

/// The instructions of a function, decoded from its beginning.
///
/// The bytes may be anything. Decoding ends at the first bytes that are not an instruction.
pub struct Body<'a> {
    code: &'a [u8],
    /// Where instructions begin, in ascending order.
    starts: Vec<u32>,
    /// Targets of jumps into the function, in ascending order.
    targets: Vec<u64>,
    /// Whether there may be jumps with unknown targets.
    has_unknown: bool,
}

impl<'a> Body<'a> {
    /// Decodes a function's bytes. `elsewhere`: code that belongs to the function but lies apart,
    /// such as code that compilers consider cold, each piece with its distance from the function's
    /// first byte (modulo 2⁶⁴).
    pub fn new(code: &'a [u8], elsewhere: &[(u64, &[u8])]) -> Self {
        let mut this = Self {
            code,
            starts: Vec::new(),
            targets: Vec::new(),
            has_unknown: false,
        };
        this.read(0, code, true);
        for (distance, code) in elsewhere {
            this.read(*distance, code, false);
        }
        this.targets.sort_unstable();
        this
    }

    fn read(&mut self, distance: u64, code: &[u8], is_body: bool) {
        for instruction in Decoder::with_ip(64, code, distance, DecoderOptions::NONE) {
            if instruction.is_invalid() {
                self.has_unknown = true;
                break;
            }
            if is_body && let Ok(start) = u32::try_from(instruction.ip()) {
                self.starts.push(start);
            }
            self.has_unknown |= instruction.flow_control() == FlowControl::IndirectBranch;
            let inside = |target: &u64| *target < self.code.len() as u64;
            self.targets
                .extend(jump_target(&instruction).filter(inside));
        }
    }

    /// Whether an instruction begins at this offset in the function, bytes.
    pub fn is_boundary(&self, offset: u64) -> bool {
        u32::try_from(offset).is_ok_and(|offset| self.starts.binary_search(&offset).is_ok())
    }

    /// The offsets of the nearest instructions before and after an offset, in bytes from the
    /// function's first.
    pub fn neighbours(&self, offset: u64) -> (Option<u32>, Option<u32>) {
        let after = self
            .starts
            .partition_point(|start| u64::from(*start) <= offset);
        let before = self
            .starts
            .partition_point(|start| u64::from(*start) < offset);
        (
            before.checked_sub(1).map(|index| self.starts[index]),
            self.starts.get(after).copied(),
        )
    }

    /// Where to probe so that every passage of `from` counts once: at `from`, or on the first
    /// emulated instruction between `from` and `until` that can be reached only through `from`.
    /// `None` if no instruction begins at `from`, or if none of them can be probed.
    pub fn choose(&self, from: u64, until: u64) -> Option<ProbePlace> {
        if !self.is_boundary(from) {
            return None;
        }
        let code = self.code.get(usize::try_from(from).ok()?..)?;
        let way_in = self.targets.partition_point(|target| *target <= from);
        let way_in = self.targets.get(way_in).copied().unwrap_or(u64::MAX);
        let until = if self.has_unknown { from } else { until };
        let mut slow = None;
        for instruction in Decoder::with_ip(64, code, 0, DecoderOptions::NONE) {
            let at = from.checked_add(instruction.ip())?;
            if instruction.is_invalid() || at > from && (at >= until || at >= way_in) {
                break;
            }
            let bytes = bytes_of(code, &instruction)?;
            if let Ok(stand) = stand(bytes) {
                let place = ProbePlace {
                    offset: u32::try_from(at).ok()?,
                    stack_moved: 0,
                    emulated: stand == Stand::Emulated,
                };
                if place.emulated {
                    return Some(place);
                }
                slow = slow.or(Some(place));
            }
            if instruction.flow_control() != FlowControl::Next {
                break;
            }
        }
        slow
    }
}

impl Body<'_> {
    /// Why no probe may stand on the instruction at an offset, and the offset of the next
    /// instruction that can be probed, if that is near.
    pub fn refusal(&self, offset: u64) -> (Refusal, Option<u32>) {
        /// The most instructions that are searched for the next one.
        const NEAR: usize = 8;
        let stands = |at: u64| {
            let code = usize::try_from(at).ok().and_then(|at| self.code.get(at..));
            stand(code.unwrap_or_default())
        };
        let why = stands(offset).err().unwrap_or(Refusal::Unfit);
        let behind = self
            .starts
            .partition_point(|start| u64::from(*start) <= offset);
        let next = self.starts[behind..].iter().take(NEAR);
        (
            why,
            next.copied().find(|start| stands((*start).into()).is_ok()),
        )
    }
}

/// The targets of the direct jumps and calls in a piece of code that lies at `vaddr`.
pub fn ways_out(code: &[u8], vaddr: u64) -> impl Iterator<Item = u64> {
    Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE)
        .into_iter()
        .filter(|instruction| instruction.op0_kind() == OpKind::NearBranch64)
        .map(|instruction| instruction.near_branch64())
}
