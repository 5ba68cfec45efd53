//! Reports of a run for people and for other programs: text, JUnit, annotations, a web page, a
//! Perfetto trace, tables.
//!
//! This module is pure: it takes a report and single episodes, and writes to any output.
//! [`crate::output`] decides where the output goes.

pub mod check;
mod columns;
mod counted;
pub mod csv;
mod episode;
pub mod html;
pub mod perfetto;
mod rates;
pub mod related;
pub mod scale_html;
#[cfg(test)]
mod scale_tests;
pub mod sweep_html;
#[cfg(test)]
mod sweep_tests;
pub mod table;
pub mod text;
pub mod timeline;

pub use episode::{Doing, Episode, KnownPart, Numbers, Participant, Piece};
