//! The user's wishes, looked for in one file.

use std::path::Path;

use sbt_common::layout;

use super::{Binary, Wanted};
use crate::{
    files::{Offer, ProbedFile},
    point::{Function, Point},
    runtimes::mpi::{self, makers},
};

impl ProbedFile {
    /// Adds the points that the user wants, if the file has them. `root`: where sbt finds the
    /// target's `/`, below which separate debug files lie.
    pub fn look_for(&mut self, wanted: &Wanted, root: &Path) {
        root.clone_into(&mut self.root);
        self.look_for_collectives();
        if !wanted.concerns(self) {
            return;
        }
        let Some(debug) = self.debug_info() else {
            return;
        };
        let Some(binary) = Binary::new(&self.shown, self.image(), &debug) else {
            return;
        };
        let offers = wanted.offers(self, &binary);
        self.inlined = wanted.inlined(&binary, &offers);
        for offer in &offers {
            if let Offer::Points(points) = offer {
                for point in points {
                    self.add(point);
                }
            }
        }
        self.points
            .sort_by_key(|point| (point.entry_offset, point.function));
        self.offers = offers;
    }

    fn look_for_collectives(&mut self) {
        if !mpi::is_defined(self.image()) {
            return;
        }
        let name = self.shown.file_name().unwrap_or_default();
        let is_numbered = mpi::is_numbered(&name.to_string_lossy(), self.image());
        let Some(debug) = self.debug_info() else {
            return;
        };
        let Some(binary) = Binary::new(&self.shown, self.image(), &debug) else {
            return;
        };
        let layout = if is_numbered {
            layout::MPI_NUMBERED
        } else {
            layout::MPI
        };
        let collectives = mpi::collectives().filter_map(|(name, function)| {
            let symbols = debug.functions(name).ok()?;
            binary.points(symbols.first()?, function, layout, true)
        });
        let makers = makers::points(is_numbered).filter_map(|(name, function)| {
            let symbols = debug.functions(name).ok()?;
            binary.points(symbols.first()?, function, layout::OPAQUE, true)
        });
        let ended = |point: Point| Point {
            function: match point.function {
                Function::CallExit => Function::Made,
                function => function,
            },
            ..point
        };
        let makers = makers.flatten().map(ended);
        let all: Vec<_> = collectives.flatten().chain(makers).collect();
        self.points.extend(all);
        self.points
            .sort_by_key(|point| (point.entry_offset, point.function));
    }
}
