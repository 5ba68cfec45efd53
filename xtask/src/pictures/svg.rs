//! Draws a terminal's screen as SVG. Blocks and lines are drawn as shapes, and texts are stretched
//! to their columns, so that every viewer shows the same picture whatever fonts it has.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

use super::shapes::{Block, CELL, Piece};

/// Margin around all cells, pixels.
const MARGIN: u16 = 10;
/// Font size, pixels: letters of most monospaced fonts are 0.6 times as wide.
const FONT: &str = "13.3";
const FONTS: &str =
    "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,Liberation Mono,monospace";
/// Distance from the top of a cell to the baseline, pixels.
const BASE: u16 = 13;

/// Red, green, blue.
type Rgb = [u8; 3];
const BACKGROUND: Rgb = [0x16, 0x18, 0x1d];
const TEXT: Rgb = [0xd8, 0xdb, 0xe0];

/// The first 16 of a terminal's 256 colours, a little softer than xterm's.
const BASIC: [Rgb; 16] = [
    [0x24, 0x27, 0x2e],
    [0xd7, 0x5f, 0x5f],
    [0x5f, 0xaf, 0x5f],
    [0xd7, 0xaf, 0x5f],
    [0x5f, 0x87, 0xd7],
    [0xaf, 0x5f, 0xaf],
    [0x5f, 0xaf, 0xaf],
    [0xbc, 0xbc, 0xbc],
    [0x80, 0x80, 0x80],
    [0xff, 0x87, 0x87],
    [0x87, 0xd7, 0x87],
    [0xff, 0xd7, 0x87],
    [0x87, 0xaf, 0xff],
    [0xd7, 0x87, 0xd7],
    [0x87, 0xd7, 0xd7],
    [0xff, 0xff, 0xff],
];

/// Colours and style of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ink {
    text: Rgb,
    background: Rgb,
    bold: bool,
}

/// Draws a screen with a title.
pub fn draw(screen: &Screen, title: &str) -> String {
    let (rows, columns) = screen.size();
    let (width, height) = (columns * CELL.0 + 2 * MARGIN, rows * CELL.1 + 2 * MARGIN);
    let (mut shapes, mut texts) = (String::new(), String::new());
    for row in 0..rows {
        draw_row(screen, row, columns, &mut shapes, &mut texts);
    }
    let background = hex(BACKGROUND);
    let title = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{background}\"/>\n\
         <g shape-rendering=\"crispEdges\">\n{shapes}</g>\n\
         <g font-family=\"{FONTS}\" font-size=\"{FONT}\" xml:space=\"preserve\">\n{texts}</g>\n\
         </svg>\n"
    )
}

fn draw_row(screen: &Screen, row: u16, columns: u16, shapes: &mut String, texts: &mut String) {
    let cells: Vec<(u16, &Cell, Piece)> = (0..columns)
        .filter_map(|column| Some((column, screen.cell(row, column)?)))
        .filter(|(_, cell)| !cell.is_wide_continuation())
        .map(|(column, cell)| (column, cell, Piece::new(cell)))
        .collect();
    let y = MARGIN + row * CELL.1;
    for run in cells.chunk_by(|a, b| ink(a.1) == ink(b.1)) {
        let ink = ink(run[0].1);
        if ink.background != BACKGROUND {
            let columns: u16 = run
                .iter()
                .map(|(_, cell, _)| 1 + u16::from(cell.is_wide()))
                .sum();
            let area = (x(run[0].0), y, columns * CELL.0, CELL.1);
            rect(shapes, area, ink.background);
        }
        for same in run.chunk_by(|a, b| a.2 == b.2 && a.2 != Piece::Wide) {
            let x = x(same[0].0);
            let times = u16::try_from(same.len()).unwrap_or(u16::MAX);
            match same[0].2 {
                Piece::Letter => {
                    let text: String = same.iter().map(|(_, cell, _)| letter(cell)).collect();
                    write_words(texts, &text, (x, y), ink);
                }
                Piece::Wide => write(texts, same[0].1.contents(), (x, y, 2), ink),
                Piece::Block(block) => draw_block(shapes, block, (x, y), times, ink),
                Piece::Sign(corners) => {
                    for at in 0..times {
                        draw_sign(texts, corners, (x + at * CELL.0, y), ink);
                    }
                }
            }
        }
    }
}

fn x(column: u16) -> u16 {
    MARGIN + column * CELL.0
}

/// The first character of a cell: combining characters take no column.
fn letter(cell: &Cell) -> char {
    cell.contents().chars().next().unwrap_or(' ')
}

fn rect(out: &mut String, (x, y, width, height): (u16, u16, u16, u16), fill: Rgb) {
    let fill = hex(fill);
    let _infallible = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"
    );
}

/// Draws `times` blocks side by side as one shape, so that no gap can show.
fn draw_block(out: &mut String, block: Block, (x, y): (u16, u16), times: u16, ink: Ink) {
    let fill = mix(ink.text, ink.background, block.share);
    let (each, width) = if block.width == CELL.0 {
        (1, times * CELL.0)
    } else {
        (times, block.width)
    };
    for at in 0..each {
        let area = (
            x + at * CELL.0 + block.left,
            y + block.top,
            width,
            block.height,
        );
        rect(out, area, fill);
    }
}

fn draw_sign(out: &mut String, corners: &[(u16, u16)], (x, y): (u16, u16), ink: Ink) {
    let points: Vec<String> = corners
        .iter()
        .map(|(right, down)| format!("{},{}", x + right, y + down))
        .collect();
    let (points, fill) = (points.join(" "), hex(ink.text));
    let _infallible = writeln!(out, "<polygon points=\"{points}\" fill=\"{fill}\"/>");
}

/// Draws text in place, in pieces that are separated by more than one blank.
fn write_words(out: &mut String, text: &str, (x, y): (u16, u16), ink: Ink) {
    let chars: Vec<char> = text.chars().collect();
    let is_end = |at: usize| chars[at] == ' ' && chars.get(at + 1).is_none_or(|c| *c == ' ');
    let mut at = 0;
    while at < chars.len() {
        if chars[at] == ' ' {
            at += 1;
            continue;
        }
        let end = (at..chars.len()).find(|at| is_end(*at));
        let words: String = chars[at..end.unwrap_or(chars.len())].iter().collect();
        let columns = u16::try_from(words.chars().count()).unwrap_or(u16::MAX);
        let column = u16::try_from(at).unwrap_or(u16::MAX);
        write(out, &words, (x + column * CELL.0, y, columns), ink);
        at += usize::from(columns);
    }
}

/// Draws text stretched to `columns`.
fn write(out: &mut String, text: &str, (x, y, columns): (u16, u16, u16), ink: Ink) {
    let bold = if ink.bold {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let _infallible = writeln!(
        out,
        "<text x=\"{x}\" y=\"{}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\" \
         fill=\"{}\"{bold}>{}</text>",
        y + BASE,
        columns * CELL.0,
        hex(ink.text),
        escape(text),
    );
}

fn ink(cell: &Cell) -> Ink {
    let mut text = rgb(cell.fgcolor(), TEXT);
    let mut background = rgb(cell.bgcolor(), BACKGROUND);
    if cell.inverse() {
        std::mem::swap(&mut text, &mut background);
    }
    if cell.dim() {
        text = mix(text, background, 60);
    }
    Ink {
        text,
        background,
        bold: cell.bold(),
    }
}

fn rgb(color: Color, default: Rgb) -> Rgb {
    match color {
        Color::Default => default,
        Color::Rgb(red, green, blue) => [red, green, blue],
        Color::Idx(n @ ..16) => BASIC[usize::from(n)],
        // A colour cube with six steps for each part, followed by greys.
        Color::Idx(n @ 16..232) => {
            let step = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
            let n = n - 16;
            [step(n / 36), step(n / 6 % 6), step(n % 6)]
        }
        Color::Idx(n) => [8 + 10 * (n - 232); 3],
    }
}

/// Mixes `share` per cent of a colour with the rest of another.
fn mix(color: Rgb, other: Rgb, share: u16) -> Rgb {
    let part = |a: u8, b: u8| {
        let sum = u16::from(a) * share + u16::from(b) * (100 - share);
        u8::try_from(sum / 100).unwrap_or(u8::MAX)
    };
    std::array::from_fn(|at| part(color[at], other[at]))
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(bytes: &str) -> Vec<String> {
        let mut parser = vt100::Parser::new(1, 12, 0);
        parser.process(bytes.as_bytes());
        let svg = draw(parser.screen(), "a & b");
        // The first three lines hold the title and the background.
        let shapes = svg.lines().skip(3);
        shapes
            .filter(|line| !line.starts_with("<g") && !line.starts_with("</"))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn words_stand_in_their_columns() {
        assert_eq!(
            drawn("a <b   c"),
            [
                "<text x=\"10\" y=\"23\" textLength=\"32\" lengthAdjust=\"spacingAndGlyphs\" \
                 fill=\"#d8dbe0\">a &lt;b</text>",
                "<text x=\"66\" y=\"23\" textLength=\"8\" lengthAdjust=\"spacingAndGlyphs\" \
                 fill=\"#d8dbe0\">c</text>",
            ]
        );
    }

    #[test]
    fn blocks_side_by_side_are_one() {
        assert_eq!(
            drawn("██▌▌"),
            [
                "<rect x=\"10\" y=\"10\" width=\"16\" height=\"17\" fill=\"#d8dbe0\"/>",
                "<rect x=\"26\" y=\"10\" width=\"4\" height=\"17\" fill=\"#d8dbe0\"/>",
                "<rect x=\"34\" y=\"10\" width=\"4\" height=\"17\" fill=\"#d8dbe0\"/>",
            ]
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let lines = drawn("字a");
        assert!(lines[0].contains("x=\"10\"") && lines[0].contains("textLength=\"16\""));
        assert!(lines[1].contains("x=\"26\"") && lines[1].contains("textLength=\"8\""));
    }

    #[test]
    fn colours_follow_the_cell() {
        // Bold with a colour of the cube, and reversed.
        let lines = drawn("\x1b[1;38;5;36ma\x1b[0;7mb");
        assert!(lines[0].contains("fill=\"#d8dbe0\""), "{lines:?}");
        assert!(lines[1].contains("fill=\"#00af87\" font-weight=\"bold\""));
        assert!(lines[2].contains("fill=\"#16181d\""));
        assert_eq!(mix([200, 0, 10], [0, 100, 10], 25), [50, 75, 10]);
    }
}
