//! Options for the destinations of reports and other files.

use std::path::PathBuf;

use clap::Args;

use super::Color;

/// Files for other programs. With any of them the report itself is only told where --json or
/// --output asks for it.
#[derive(Args, Clone, Debug, Default)]
pub struct Exports {
    /// Write an HTML page: one file, which needs no network.
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    /// Write a trace for ui.perfetto.dev.
    #[arg(long, value_name = "OUT")]
    pub perfetto: Option<PathBuf>,
    /// Write a table with a row for each site and thread.
    #[arg(long, value_name = "OUT")]
    pub csv: Option<PathBuf>,
    /// Write a table with a row for each arrival.
    #[arg(long, value_name = "OUT")]
    pub csv_episodes: Option<PathBuf>,
    /// Write folded stacks of the samples, for flame graphs.
    #[arg(long, value_name = "OUT")]
    pub folded: Option<PathBuf>,
}

/// Where something goes that was asked for.
#[derive(Args, Clone, Debug)]
pub struct Destination {
    /// Write JSON instead of text.
    #[arg(long)]
    pub json: bool,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// When to use bold and dim text.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}
