//! The report as a reader wants it.

pub mod table;
pub mod text;
