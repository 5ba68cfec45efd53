//! An array whose elements the threads of a team write in turns, with barriers between the turns.
//!
//! The borrow checker knows nothing about barriers. All access that it cannot follow goes through
//! this type, so that every such place is marked by `unsafe` and has to give its reason.

use std::cell::UnsafeCell;
use std::ops::Range;

/// An array shared by a team.
pub struct Shared<T> {
    cells: Box<[UnsafeCell<T>]>,
}

// SAFETY: callers of `read`, `write` and `set` promise that threads do not race; `T` itself may be
// used and dropped in any thread.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// An array of `len` times `value`.
    pub fn new(len: usize, value: T) -> Self {
        Self {
            cells: (0..len).map(|_| UnsafeCell::new(value)).collect(),
        }
    }

    /// The elements in `range`, for reading.
    ///
    /// # Safety
    /// While the result is in use, no thread writes these elements. Threads that wrote them before
    /// have since passed a barrier together with this thread.
    pub unsafe fn read(&self, range: Range<usize>) -> &[T] {
        let cells = &self.cells[range];
        // SAFETY: in bounds and initialised, `UnsafeCell<T>` has the layout of `T`, and the
        // caller keeps writers away.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }

    /// The elements in `range`, for writing.
    ///
    /// # Safety
    /// While the result is in use, nobody else reads or writes these elements, not even this
    /// thread. Threads that used them before have since passed a barrier together with this thread.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the contract, not the type"
    )]
    pub unsafe fn write(&self, range: Range<usize>) -> &mut [T] {
        let cells = &self.cells[range];
        let first = UnsafeCell::raw_get(cells.as_ptr());
        // SAFETY: as in `read`, the caller keeps all others away, and cells may be written.
        unsafe { std::slice::from_raw_parts_mut(first, cells.len()) }
    }

    /// Sets one element.
    ///
    /// # Safety
    /// As for `write`, for this element only.
    pub unsafe fn set(&self, index: usize, value: T) {
        // SAFETY: the caller keeps all others away from this element.
        unsafe { *self.cells[index].get() = value }
    }

    /// The whole array, once the team has finished with it.
    pub fn as_slice(&mut self) -> &[T] {
        // SAFETY: the exclusive borrow shows that no other reference is left.
        unsafe { self.read(0..self.cells.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut array = Shared::new(4, 1);
        // SAFETY: there is only this thread, and the references do not overlap in time.
        unsafe {
            array.write(1..3)[1] = 7;
            array.set(3, 9);
            assert_eq!(array.read(2..4), [7, 9]);
        }
        assert_eq!(array.as_slice(), [1, 1, 7, 9]);
    }
}
