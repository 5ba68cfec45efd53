//! The report as a reader wants it.

pub mod check;
pub mod episode;
pub mod scale_html;
pub mod table;
pub mod text;

#[cfg(test)]
mod scale_tests;
