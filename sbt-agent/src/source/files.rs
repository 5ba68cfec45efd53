//! The files of a target that are watched, and those that are passed over.

use std::sync::Arc;

use sbt_common::layout;

use sbt_engine::place::printable;
use sbt_program::{files::ProbedFile, point::Function};

/// Kept open: probes may have to be put on them again.
#[derive(Debug, Default)]
pub struct Files {
    /// Those that are watched.
    pub watched: Vec<Arc<ProbedFile>>,
    /// Those on which nothing is put, though they have something to offer.
    passed_over: Vec<Arc<ProbedFile>>,
}

impl Files {
    /// Takes files in: which of them are new and to be watched, and what the user should
    /// know.
    pub fn take(&mut self, files: &[Arc<ProbedFile>]) -> (Vec<Arc<ProbedFile>>, Vec<String>) {
        // A pthread_barrier_wait of nobody knows whom, in front of a C
        // library's own, passes the call on: to watch both would count twice.
        let is_known = |file: &ProbedFile| {
            file.points.iter().any(|point| {
                point.function == Function::BarrierWait && point.layout != layout::OPAQUE
            })
        };
        let has_known = files.iter().chain(&self.watched).any(|file| is_known(file));
        let (mut new, mut notes) = (Vec::new(), Vec::new());
        for file in files {
            let mut seen = self.watched.iter().chain(&self.passed_over);
            if seen.any(|known| known.id == file.id) {
                continue;
            }
            if has_known && !is_known(file) && file.has(Function::BarrierWait) {
                notes.push(format!(
                    "{} has a pthread_barrier_wait of its own, which is taken to call the C \
                     library's: only that is watched",
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
