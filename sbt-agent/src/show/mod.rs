//! What a run was, for readers and for other programs: text, JUnit and annotations, a page for
//! browsers, a trace for Perfetto, tables.
//!
//! What is here is pure: it is given a report, and episodes one by one, and writes to
//! whatever it is given. [`crate::output`] says where that is.

pub mod check;
mod columns;
mod counted;
pub mod csv;
mod episode;
pub mod html;
pub mod perfetto;
mod rates;
pub mod scale_html;
#[cfg(test)]
mod scale_tests;
pub mod table;
pub mod text;
pub mod timeline;

pub use episode::{Doing, Episode, Known, Numbers, Piece, Seen};
