//! The report as a reader wants it.

pub mod episode;
pub mod table;
pub mod text;
