//! The place of a barrier that is the last act of a function: see [`crate::walks`] for how it is found.

use std::sync::Arc;

use sbt_engine::place::Frame;

use super::Resolver;
use crate::walks::{Link, Owner};

impl Resolver {
    /// Puts the jump to a barrier before the call that the barrier returns to, if the called function
    /// leaves to barriers from one place of the source only.
    pub(super) fn place_tail(&mut self, chain: &mut Vec<(Link, Vec<Frame>)>) {
        let first = chain.first().filter(|(link, _)| link.owner == Owner::User);
        let Some((file, returns)) = first.map(|(link, _)| (link.file, link.address)) else {
            return;
        };
        let Some(function) = self.modules[file].called_directly(returns) else {
            return;
        };
        let modules = self.modules.iter();
        let files: Vec<_> = modules
            .map(|module| (Arc::clone(&module.file), module.owner))
            .collect();
        let files: Vec<_> = files.iter().map(|(file, owner)| (file, *owner)).collect();
        let ways = self.walks.tails(&files, file, function);
        let mut ways = ways.into_iter().map(|way| {
            let jumps = way.into_iter().map(|jump| self.link(file, jump.next));
            jumps.collect::<Vec<_>>()
        });
        let Some(way) = ways.next() else {
            return;
        };
        let frames = |way: &[(Link, Vec<Frame>)]| -> Vec<Vec<Frame>> {
            way.iter().map(|(_, frames)| frames.clone()).collect()
        };
        if ways.all(|other| frames(&other) == frames(&way)) {
            chain.splice(..0, way);
        }
    }
}
