//! End-to-end tests: the real binary, the real kernel, real programs.
//!
//! Tests that need real probes run as root. Otherwise they are skipped and logged (`SBT_SKIP_LOG`),
//! and CI fails if any was skipped. `SBT_BIN` names the binary to test; without it, the release
//! build is made first.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]
#![allow(missing_docs, reason = "nobody reads the documentation of tests")]

mod harness;
mod json_report;
mod loads;
mod programs;
mod ptrace;
mod traced;
mod truth;
mod tty;
mod turns;

mod accuracy;
mod asleep;
mod attach;
mod beside;
mod budget;
mod builds;
mod chains;
mod check;
mod cli;
mod clocks;
mod closed;
mod conditions;
mod condvars;
mod counters;
mod counters_screen;
mod ctl;
mod delivery;
mod demo;
mod diff;
mod docker;
mod efficiency;
mod ends;
mod exports;
mod families;
mod faults;
mod futex;
mod gains;
mod hang;
mod hangs_suite;
mod hostile;
mod inject;
mod jobs;
mod kill;
mod kill_steps;
mod lack;
mod language;
mod lifecycle;
mod list;
mod locks;
mod look;
mod lookalikes;
mod losses;
mod manual;
mod marks;
mod mpi;
mod namespaces;
mod opened;
mod openmp;
mod other_tools;
mod packages;
mod perf;
mod privilege;
mod processes;
mod record;
mod recorder;
mod regions;
mod related;
mod replay;
mod report;
mod rights;
mod run;
mod sampling;
mod scale;
mod screen;
mod screen_end;
mod screen_leave;
mod screen_look;
mod settings;
mod speed;
mod spins;
mod standstill;
mod states;
mod storms;
mod streams;
mod sweep;
mod terminal;
mod verdicts;
mod watching;
mod window;
