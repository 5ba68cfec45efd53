//! Characters that are drawn as shapes and not as letters.

use vt100::Cell;

/// Columns and rows of a cell, pixels.
pub const CELL: (u16, u16) = (8, 17);

/// What there is in a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// A letter of one column, or none: a blank.
    Letter,
    /// A character of two columns.
    Wide,
    /// A block or a line.
    Block(Block),
    /// A sign, by its corners.
    Sign(&'static [(u16, u16)]),
}

/// A part of a cell, pixels, and how much of the colour it has, per cent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// From the left.
    pub left: u16,
    /// From the top.
    pub top: u16,
    /// How wide.
    pub width: u16,
    /// How high.
    pub height: u16,
    /// How much of the colour, per cent.
    pub share: u16,
}

impl Piece {
    /// Of a cell.
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
    // Of three parts of a range, from 1 on.
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

/// Signs that many fonts lack, or have as coloured little pictures.
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
