//! An array that the members of a team write in turns, with barriers between the turns.
//!
//! The borrow checker knows nothing of barriers. All access that it cannot follow goes through
//! this type, so that every such place is marked by its `unsafe` and has to give its reason.

use std::cell::UnsafeCell;
use std::ops::Range;

/// An array shared by a team.
pub struct Shared<T> {
    cells: Box<[UnsafeCell<T>]>,
}

// SAFETY: whoever takes a reference promises by the contract of `read`, `write` and `set` that
// threads do not race; `T` itself may be used and dropped in any thread.
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
    /// While the result is in use no thread writes any of these elements. Whoever wrote one
    /// before has passed a barrier together with this thread since.
    pub unsafe fn read(&self, range: Range<usize>) -> &[T] {
        let cells = &self.cells[range];
        // SAFETY: in bounds and initialised, `UnsafeCell<T>` has the layout of `T`, and the
        // caller keeps writers away.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }

    /// The elements in `range`, for writing.
    ///
    /// # Safety
    /// While the result is in use nobody else, this thread included, reads or writes any of these
    /// elements. Whoever used one before has passed a barrier together with this thread since.
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
    /// As for `write`, of this element.
    pub unsafe fn set(&self, index: usize, value: T) {
        // SAFETY: the caller keeps all others away from this element.
        unsafe { *self.cells[index].get() = value }
    }

    /// The whole array, once the team is done with it.
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
