//! What a run was, for other programs: a page for browsers, a trace for Perfetto, tables.
//!
//! What is here is pure: it is given a report, and episodes one by one, and writes to
//! whatever it is given. [`crate::output::exports`] reads recordings and replaces files.

mod columns;
mod counted;
pub mod csv;
mod episode;
pub mod html;
pub mod perfetto;
mod rates;
pub mod timeline;

pub use episode::{Doing, Episode, Known, Numbers, Piece, Seen};
