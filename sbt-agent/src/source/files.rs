//! The files of a target: which are watched, and which are skipped.

use std::sync::Arc;

use sbt_common::layout;

use sbt_engine::place::printable;
use sbt_program::{files::ProbedFile, point::Function};

/// The files are kept open, since probes may have to be put on them again.
#[derive(Debug, Default)]
pub struct Files {
    /// Files that are watched.
    pub watched: Vec<Arc<ProbedFile>>,
    /// Files that could be watched but are skipped.
    passed_over: Vec<Arc<ProbedFile>>,
}

impl Files {
    /// Adds files. Returns those that are new and to be watched, and notes for the user.
    pub fn take(&mut self, files: &[Arc<ProbedFile>]) -> (Vec<Arc<ProbedFile>>, Vec<String>) {
        // A `pthread_barrier_wait` of unknown layout, in front of a C library's own, passes the
        // call on: watching both would count twice.
        let is_known = |file: &ProbedFile| {
            file.points.iter().any(|point| {
                point.function == Function::BarrierWait && point.layout != layout::OPAQUE
            })
        };
        let has_known = files.iter().chain(&self.watched).any(|file| is_known(file));
        let (mut new, mut notes) = (Vec::new(), Vec::new());
        for file in files {
            let mut seen = self.watched.iter().chain(&self.passed_over);
            // A file may come again with more to watch in it.
            let has_all = |known: &ProbedFile| {
                known.id == file.id && file.points.iter().all(|point| known.points.contains(point))
            };
            if seen.any(|known| has_all(known)) {
                continue;
            }
            if has_known && !is_known(file) && file.has(Function::BarrierWait) {
                notes.push(format!(
                    "{} has a pthread_barrier_wait of its own: sbt watches only the one of the C \
                     library, which it probably calls",
                    printable(&file.shown.to_string_lossy())
                ));
                self.passed_over.push(Arc::clone(file));
                continue;
            }
            self.watched.push(Arc::clone(file));
            new.push(Arc::clone(file));
        }
        (new, notes)
    }
}
