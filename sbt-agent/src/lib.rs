//! `sbt` shows where the threads of a running, unmodified parallel program wait for each other.
//!
//! Data flows one way: [`source`] makes events, [`session`] passes them through `sbt-engine`, which
//! recognises barriers and makes the report, and [`show`] and [`screen`] present it. [`cli`],
//! [`settings`] and [`commands`] decide what to watch. See docs/architecture.md.

pub mod check;
pub mod ci;
pub mod cli;
pub mod commands;
pub mod control;
pub mod demo;
pub mod doctor;
pub mod inspect;
pub mod kernel;
pub mod looks;
pub mod manual;
pub mod naming;
pub mod output;
pub mod panics;
pub mod record;
pub mod replay;
pub mod screen;
pub mod session;
pub mod settings;
pub mod show;
pub mod signals;
pub mod source;
pub mod terminal;
pub mod usage;
