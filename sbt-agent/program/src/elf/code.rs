//! The code of a file, by its addresses.

use super::Segment;
use crate::arch::{self, prologue};
use crate::point::{Function, Point};

/// Some code, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'a> {
    /// Offset in the file of the first byte.
    pub(crate) offset: u64,
    /// The code, at least one byte.
    pub(crate) bytes: &'a [u8],
}

/// The code from `vaddr` on, at most `size` bytes. `None` if `vaddr` lies outside of the file's
/// executable parts.
pub(crate) fn code_at<'a>(
    image: &'a [u8],
    segments: &[Segment],
    vaddr: u64,
    size: u64,
) -> Option<Code<'a>> {
    let executable = segments.iter().filter(|segment| segment.executable);
    let (offset, bytes) = bytes_in(image, executable, vaddr)?;
    let bytes = &bytes[..bytes.len().min(usize::try_from(size).ok()?)];
    (!bytes.is_empty()).then_some(Code { offset, bytes })
}

/// The bytes that the file puts into memory from `vaddr` on, to the end of the segment.
pub(crate) fn data_at<'a>(image: &'a [u8], segments: &[Segment], vaddr: u64) -> Option<&'a [u8]> {
    Some(bytes_in(image, segments.iter(), vaddr)?.1)
}

fn bytes_in<'a, 's>(
    image: &'a [u8],
    mut segments: impl Iterator<Item = &'s Segment>,
    vaddr: u64,
) -> Option<(u64, &'a [u8])> {
    let (offset, left) = segments.find_map(|segment| {
        let offset = segment.file_offset(vaddr)?;
        Some((offset, segment.filesz - (offset - segment.offset)))
    })?;
    let bytes = image.get(usize::try_from(offset).ok()?..)?;
    let left = bytes.len().min(usize::try_from(left).ok()?);
    Some((offset, &bytes[..left]))
}

/// Whether the instruction before an address may be a call.
pub(crate) fn is_after_call(image: &[u8], segments: &[Segment], vaddr: u64) -> bool {
    arch::ends_with_call(|length| before(image, segments, vaddr, length))
}

/// Whether the instruction before an address may be a call of a constant address.
pub(crate) fn is_after_direct_call(image: &[u8], segments: &[Segment], vaddr: u64) -> bool {
    arch::ends_with_direct_call(|length| before(image, segments, vaddr, length))
}

/// The address that the direct call with this return address calls; `None` for other calls.
pub(crate) fn called_directly(image: &[u8], segments: &[Segment], returns: u64) -> Option<u64> {
    if !is_after_direct_call(image, segments, returns) {
        return None;
    }
    let distance = before(image, segments, returns, 4)?.first_chunk::<4>()?;
    returns.checked_add_signed(i32::from_le_bytes(*distance).into())
}

/// The distance from this return address to the word of memory through which the call goes, if the
/// code before names one (`call *distance(%rip)`).
pub(crate) fn called_through(image: &[u8], segments: &[Segment], returns: u64) -> Option<i64> {
    let call = before(image, segments, returns, 6)?.first_chunk::<6>()?;
    let [0xff, 0x15, distance @ ..] = call else {
        return None;
    };
    Some(i32::from_le_bytes(*distance).into())
}

fn before<'a>(image: &'a [u8], segments: &[Segment], vaddr: u64, length: u64) -> Option<&'a [u8]> {
    let start = vaddr.checked_sub(length)?;
    Some(code_at(image, segments, start, length)?.bytes)
}

impl Point {
    /// The point of a function, by the function's code from its first byte on. `None` if no probe
    /// may stand at the beginning of the function.
    pub(crate) fn of_function(
        function: Function,
        symbol: &str,
        code: &Code<'_>,
        layout: u8,
    ) -> Option<Self> {
        let choice = prologue::choose_keeping(code.bytes, function.arguments())?;
        Some(Self {
            function,
            symbol: symbol.to_owned(),
            entry_offset: code.offset.checked_add(choice.entry.offset.into())?,
            stack_moved: choice.entry.stack_moved,
            return_offset: code.offset.checked_add(choice.ret.offset.into())?,
            entry_emulated: choice.entry.emulated,
            layout,
        })
    }
}
