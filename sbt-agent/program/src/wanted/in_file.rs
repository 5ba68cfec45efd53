//! The user's wishes, looked for in one file.

use std::path::Path;

use sbt_common::layout;

use super::{Binary, Wanted};
use crate::{
    files::{Offer, ProbedFile},
    runtimes::openmpi,
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
        if !self.shown.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            // MPICH's own name of its library, and Debian's.
            name.starts_with("libmpi.") || name.starts_with("libmpich.")
        }) {
            return;
        }
        let Some(debug) = self.debug_info() else {
            return;
        };
        let Some(binary) = Binary::new(&self.shown, self.image(), &debug) else {
            return;
        };
        let collectives = openmpi::collectives().filter_map(|(name, function)| {
            let symbols = debug.functions(name).ok()?;
            binary.points(symbols.first()?, function, layout::MPI, true)
        });
        let collectives: Vec<_> = collectives.flatten().collect();
        self.points.extend(collectives);
        self.points
            .sort_by_key(|point| (point.entry_offset, point.function));
    }
}
