//! Characters that are drawn as shapes rather than letters.

use vt100::Cell;

/// Width and height of a cell, pixels.
pub const CELL: (u16, u16) = (8, 17);

/// The content of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// A letter of one column, or a blank.
    Letter,
    /// A character of two columns.
    Wide,
    /// A block or a line.
    Block(Block),
    /// A symbol, given by its corners.
    Sign(&'static [(u16, u16)]),
}

/// A rectangle in a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Distance from the left, pixels.
    pub left: u16,
    /// Distance from the top, pixels.
    pub top: u16,
    /// Pixels.
    pub width: u16,
    /// Pixels.
    pub height: u16,
    /// Share of the text colour, per cent; the rest is background.
    pub share: u16,
}

impl Piece {
    pub fn new(cell: &Cell) -> Self {
        if cell.is_wide() {
            return Self::Wide;
        }
        let symbol = cell.contents().chars().next().unwrap_or(' ');
        match (block(symbol), corners(symbol)) {
            (Some(block), _) => Self::Block(block),
            (None, Some(corners)) => Self::Sign(corners),
            (None, None) => Self::Letter,
        }
    }
}

fn block(symbol: char) -> Option<Block> {
    const WHOLE: Block = Block {
        left: 0,
        top: 0,
        width: CELL.0,
        height: CELL.1,
        share: 100,
    };
    let height = |eighths: u16| (CELL.1 * eighths + 4) / 8;
    // Number of a character in its range, counted from 1.
    let nth = |first: char| u16::try_from(u32::from(symbol) - u32::from(first) + 1).unwrap_or(1);
    Some(match symbol {
        '█' => WHOLE,
        '▁'..='▇' => Block {
            top: CELL.1 - height(nth('▁')),
            height: height(nth('▁')),
            ..WHOLE
        },
        '▉'..='▏' => Block {
            width: CELL.0 - nth('▉') * CELL.0 / 8,
            ..WHOLE
        },
        '░'..='▓' => Block {
            share: [40, 60, 80][usize::from(nth('░') - 1)],
            ..WHOLE
        },
        '─' => Block {
            top: CELL.1 / 2,
            height: 1,
            ..WHOLE
        },
        '│' => Block {
            left: CELL.0 / 2,
            width: 1,
            ..WHOLE
        },
        '╵' => Block {
            left: CELL.0 / 2,
            width: 1,
            height: CELL.1 / 2,
            ..WHOLE
        },
        _ => return None,
    })
}

/// Corners of symbols that many fonts lack or draw as small coloured pictures.
fn corners(symbol: char) -> Option<&'static [(u16, u16)]> {
    Some(match symbol {
        '▶' => &[(0, 4), (8, 9), (0, 14)],
        '▸' => &[(1, 5), (6, 9), (1, 13)],
        '▼' => &[(0, 5), (8, 5), (4, 12)],
        '▲' => &[(0, 12), (8, 12), (4, 5)],
        '◼' => &[(0, 5), (8, 5), (8, 13), (0, 13)],
        _ => return None,
    })
}
