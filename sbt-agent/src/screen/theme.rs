//! The look of the screen: colours that colour-blind users can tell apart, never used as the only
//! sign, and glyphs for terminals with and without Unicode.

use ratatui::style::{Color, Modifier, Style};

use crate::show::table;

/// The capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether characters beyond ASCII can be shown.
    pub unicode: bool,
    /// Whether colours are used; otherwise bold, dim and reversed text replace them.
    pub color: bool,
}

impl From<table::Style> for Look {
    fn from(style: table::Style) -> Self {
        Self {
            unicode: style.unicode,
            color: style.color,
        }
    }
}

/// The kind of time that a glyph stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Outside of barriers, on a CPU.
    Work,
    /// In a barrier, before the last thread arrived.
    Idle,
    /// In a barrier, after the last thread arrived.
    Release,
    /// Outside of barriers, waiting for a CPU.
    Ready,
    /// Outside of barriers, asleep.
    Blocked,
    /// Unknown.
    Unknown,
    /// Probes were off.
    Gap,
}

// The palette of Okabe and Ito (https://jfly.uni-koeln.de/color/), approximated in the 256 colours
// that nearly every terminal has.
const BLUISH_GREEN: Color = Color::Indexed(36);
const ORANGE: Color = Color::Indexed(214);
const YELLOW: Color = Color::Indexed(227);
const SKY_BLUE: Color = Color::Indexed(74);
const VERMILLION: Color = Color::Indexed(166);
const REDDISH_PURPLE: Color = Color::Indexed(175);

impl Ink {
    /// The kinds in a legend, with their names.
    pub const NAMED: [(Self, &'static str); 6] = [
        (Self::Work, "work"),
        (Self::Idle, "idle"),
        (Self::Release, "release"),
        (Self::Ready, "ready"),
        (Self::Blocked, "blocked"),
        (Self::Gap, "not watched"),
    ];

    /// The glyph of this kind.
    pub const fn glyph(self, look: Look) -> char {
        match (self, look.unicode) {
            (Self::Work, true) => '█',
            (Self::Work, false) => '#',
            (Self::Idle, true) => '░',
            (Self::Idle, false) => '.',
            (Self::Release, true) => '▁',
            (Self::Release, false) => '_',
            (Self::Ready, true) => '▒',
            (Self::Ready, false) => 'r',
            (Self::Blocked, true) => '▓',
            (Self::Blocked, false) => 'b',
            (Self::Unknown, _) => ' ',
            (Self::Gap, _) => '/',
        }
    }

    /// The style of this kind.
    pub fn style(self, look: Look) -> Style {
        if !look.color {
            return match self {
                Self::Gap => look.dim(),
                _ => Style::new(),
            };
        }
        match self {
            Self::Work => Style::new().fg(BLUISH_GREEN),
            Self::Idle => Style::new().fg(ORANGE),
            Self::Release => Style::new().fg(YELLOW),
            Self::Ready => Style::new().fg(SKY_BLUE),
            Self::Blocked => Style::new().fg(REDDISH_PURPLE),
            Self::Unknown | Self::Gap => look.dim(),
        }
    }
}

impl Look {
    /// Selects the text for terminals with or without Unicode.
    pub const fn pick<'a>(self, unicode: &'a str, ascii: &'a str) -> &'a str {
        if self.unicode { unicode } else { ascii }
    }

    /// The separator between facts in a row.
    pub const fn dot(self) -> &'static str {
        self.pick(" · ", " | ")
    }

    /// The mark where a text was cut.
    pub const fn cut(self) -> &'static str {
        self.pick("…", "~")
    }

    /// Style for emphasised text.
    pub const fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Style for secondary text.
    pub const fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Style for the selected item.
    pub const fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Style for titles.
    pub fn title(self) -> Style {
        self.tinted(SKY_BLUE)
    }

    /// Style for good news.
    pub fn good(self) -> Style {
        self.tinted(BLUISH_GREEN)
    }

    /// Style for what needs attention.
    pub fn alarm(self) -> Style {
        if self.color {
            self.tinted(VERMILLION)
        } else {
            self.bold().add_modifier(Modifier::REVERSED)
        }
    }

    fn tinted(self, color: Color) -> Style {
        if self.color {
            self.bold().fg(color)
        } else {
            self.bold()
        }
    }

    /// The style with which the text report formats its figures.
    pub const fn text(self) -> table::Style {
        table::Style {
            width: 80,
            color: false,
            unicode: self.unicode,
        }
    }

    /// A line of bars with heights in proportion to the values; a blank for 0.
    pub fn spark(self, values: &[u64]) -> String {
        let most = values.iter().copied().max().unwrap_or(0);
        let sparks = self.text().spark(values, most);
        let with_values = sparks.chars().zip(values);
        with_values
            .map(|(spark, value)| if *value == 0 { ' ' } else { spark })
            .collect()
    }

    /// A bar for a share from 0 to 1, in eighths of a column if the terminal supports Unicode.
    pub fn bar(self, share: f64, width: usize) -> String {
        const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        if !self.unicode {
            return self.text().bar(share, width);
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a small width"
        )]
        let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
        // A share above 0 is always visible.
        let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
        let eighths = eighths.min(width * 8);
        let mut bar = "█".repeat(eighths / 8) + PARTS[eighths % 8];
        let filled = eighths.div_ceil(8);
        bar.extend(std::iter::repeat_n(' ', width.saturating_sub(filled)));
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Ink; 7] = [
        Ink::Work,
        Ink::Idle,
        Ink::Release,
        Ink::Ready,
        Ink::Blocked,
        Ink::Unknown,
        Ink::Gap,
    ];

    #[test]
    fn no_two_kinds_of_time_share_a_glyph_or_a_colour() {
        for unicode in [true, false] {
            let look = Look {
                unicode,
                color: true,
            };
            for (index, a) in ALL.iter().enumerate() {
                for b in &ALL[index + 1..] {
                    assert_ne!(a.glyph(look), b.glyph(look));
                    let both_dim = matches!((a, b), (Ink::Unknown, Ink::Gap));
                    assert!(both_dim || a.style(look) != b.style(look));
                }
            }
        }
    }

    #[test]
    fn a_bar_is_as_wide_as_asked_and_shows_the_least_share() {
        let look = Look {
            unicode: true,
            color: true,
        };
        assert_eq!(look.bar(0.5, 4), "██  ");
        assert_eq!(look.bar(0.001, 3), "▏  ");
        assert_eq!(look.bar(0.0, 2), "  ");
        assert_eq!(look.bar(1.0, 2), "██");
        assert_eq!(look.bar(2.0, 0), "");
    }
}
