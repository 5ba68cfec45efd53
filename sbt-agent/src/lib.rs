//! `sbt` shows where the threads of a running, unmodified parallel program
//! wait for each other.
//!
//! Data flows one way: [`source`] → [`recognise`] → [`model`] → [`report`] → [`views`], with
//! [`target`] finding out what to watch and [`session`] wiring one run. See
//! docs/architecture.md.

pub mod access;
pub mod chains;
pub mod check;
pub mod choices;
pub mod ci;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod compare;
pub mod counters;
pub mod demo;
pub mod doctor;
pub mod event;
pub mod export;
pub mod gate;
pub mod hang;
pub mod kernel;
pub mod live;
pub mod look;
pub mod manual;
pub mod model;
pub mod naming;
pub mod output;
pub mod panics;
pub mod pattern;
pub mod place;
pub mod recognise;
pub mod record;
pub mod replay;
pub mod report;
pub mod rights;
pub mod scale;
pub mod screen;
pub mod session;
pub mod settings;
pub mod signals;
pub mod source;
pub mod spin;
pub mod target;
pub mod terminal;
pub mod usage;
pub mod value;
pub mod verdict;
pub mod views;
pub mod words;
