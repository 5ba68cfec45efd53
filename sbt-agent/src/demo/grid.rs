//! A square grid whose cells are coloured like a chess board, with a separate array for each
//! colour.
//!
//! A red-black sweep writes cells of one colour and only reads their neighbours, which all have the
//! other colour. With one array per colour, no thread ever writes a range of memory that another
//! thread reads.

use std::ops::Range;

use super::shared::Shared;

/// Cells whose row and column add up to an even number.
pub const RED: usize = 0;
/// Cells whose row and column add up to an odd number.
pub const BLACK: usize = 1;

/// Pairs each of these rows with each colour.
pub fn with_colors(rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    rows.flat_map(|row| [(row, RED), (row, BLACK)])
}

/// A number for each cell. The cells on the edge stay 0.
pub struct Field {
    side: usize,
    /// The arrays of the two colours: row by row, every second column.
    colors: [Shared<f64>; 2],
}

/// The neighbours of one row's cells of one colour, edges left out.
pub struct Around<'a> {
    above: &'a [f64],
    below: &'a [f64],
    left: &'a [f64],
    right: &'a [f64],
}

impl Around<'_> {
    /// For each cell the sum of its four neighbours.
    pub fn sums(&self) -> impl Iterator<Item = f64> {
        let vertical = self.above.iter().zip(self.below);
        let horizontal = self.left.iter().zip(self.right);
        vertical
            .zip(horizontal)
            .map(|((above, below), (left, right))| (above + below) + (left + right))
    }
}

impl Field {
    /// A field of zeros; `side` is even and includes the edges.
    pub fn new(side: usize) -> Self {
        let color = || Shared::new(side * (side / 2), 0.0);
        Self {
            side,
            colors: [color(), color()],
        }
    }

    /// The columns of a row's cells of one colour, edges left out.
    pub fn columns(&self, color: usize, row: usize) -> impl Iterator<Item = usize> + use<> {
        let shift = (row + color) % 2;
        (2 - shift..self.side - 1).step_by(2)
    }

    /// A row's cells of one colour, edges left out.
    ///
    /// # Safety
    /// As for [`Shared::read`].
    pub unsafe fn read(&self, color: usize, row: usize) -> &[f64] {
        // SAFETY: the caller's promise.
        unsafe { self.colors[color].read(self.cells(color, row, row)) }
    }

    /// A row's cells of one colour, edges left out, for writing.
    ///
    /// # Safety
    /// As for [`Shared::write`].
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the contract, not the type"
    )]
    pub unsafe fn write(&self, color: usize, row: usize) -> &mut [f64] {
        // SAFETY: the caller's promise.
        unsafe { self.colors[color].write(self.cells(color, row, row)) }
    }

    /// The neighbours of a row's cells; the row is not an edge.
    ///
    /// # Safety
    /// As for [`Shared::read`], for the cells of the other colour in this row and in the two
    /// adjacent rows.
    pub unsafe fn around(&self, color: usize, row: usize) -> Around<'_> {
        let other = &self.colors[1 - color];
        let width = self.side / 2;
        let start = row * width;
        // SAFETY: the caller's promise.
        unsafe {
            Around {
                above: other.read(self.cells(color, row, row - 1)),
                below: other.read(self.cells(color, row, row + 1)),
                left: other.read(start..start + width - 1),
                right: other.read(start + 1..start + width),
            }
        }
    }

    /// Row, column and value of every cell that is not on the edge.
    pub fn values(&mut self) -> impl Iterator<Item = (usize, usize, f64)> {
        let this = &*self;
        with_colors(1..this.side - 1).flat_map(|(row, color)| {
            // SAFETY: the exclusive borrow shows that no thread uses the field now.
            let cells = unsafe { this.read(color, row) };
            let columns = this.columns(color, row);
            columns
                .zip(cells)
                .map(move |(column, value)| (row, column, *value))
        })
    }

    /// The range of row `at` that lies in the same columns as the cells of this colour in `row`.
    fn cells(&self, color: usize, row: usize, at: usize) -> Range<usize> {
        let width = self.side / 2;
        let shift = (row + color) % 2;
        at * width + 1 - shift..(at + 1) * width - shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_the_four_cells_around() {
        let mut field = Field::new(8);
        let value = |row: usize, column: usize| (10 * row + column) as f64;
        let inside = |i: usize| (1..7).contains(&i);
        for (row, color) in with_colors(1..7) {
            // SAFETY: there is only this thread.
            let cells = unsafe { field.write(color, row) };
            for (cell, column) in cells.iter_mut().zip(field.columns(color, row)) {
                *cell = value(row, column);
            }
        }
        for (row, color) in with_colors(1..7) {
            // SAFETY: as above.
            let sums: Vec<f64> = unsafe { field.around(color, row) }.sums().collect();
            let wanted: Vec<f64> = field
                .columns(color, row)
                .map(|column| {
                    [
                        (row - 1, column),
                        (row + 1, column),
                        (row, column - 1),
                        (row, column + 1),
                    ]
                    .into_iter()
                    .filter(|(row, column)| inside(*row) && inside(*column))
                    .map(|(row, column)| value(row, column))
                    .sum()
                })
                .collect();
            assert_eq!(sums, wanted, "row {row}, colour {color}");
        }
        assert_eq!(field.values().count(), 36);
        for (row, column, found) in field.values() {
            assert!((found - value(row, column)).abs() < 1e-12);
        }
    }
}
