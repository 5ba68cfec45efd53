//! Barriers that are the last act of a parallel region's function: an optimising compiler makes a
//! jump of the call, so the barrier returns into the runtime of OpenMP. The call with which the
//! program began the region says which function that was.

use std::sync::Arc;

use sbt_engine::place::Frame;

use super::{Resolver, tail::To};
use crate::{
    arch::{self, transfer},
    elf::code_at,
    runtimes,
    walks::{Link, Owner},
};

impl Resolver {
    /// Whether a return address is in a runtime of OpenMP that is not compiled into the program.
    pub(super) fn returns_to_openmp(&self, link: &Link) -> bool {
        link.owner == Owner::System && self.modules[link.file].file.has_openmp()
    }

    /// For a chain that leads from a barrier through the runtime to the program: the number of
    /// calls in the runtime.
    pub(super) fn calls_in_openmp(&self, links: &[Link]) -> usize {
        let own = links.iter().position(|link| !self.returns_to_openmp(link));
        own.filter(|own| links[*own].owner == Owner::User)
            .unwrap_or(0)
    }

    /// The address behind the jump to the barrier, in the file of the call by which the program
    /// began the region; `None` if it is not known which function the region has, or if this
    /// function has no such jump or several.
    pub(super) fn last_barrier_of_region(&mut self, begin: &Link) -> Option<u64> {
        let file = Arc::clone(&self.modules[begin.file].file);
        let region = self.region(begin.file, begin.address)?.1;
        let barrier = self.walks.last_barrier(begin.file, &file, region)?;
        Some(barrier.next)
    }

    /// Gives the end of a region of GNU OpenMP its place: the line of the `#pragma omp`, which is that of
    /// the region's function. GCC gives the call that begins the region the line of something before it
    /// now and then, and makes a jump of the call where it is the last act of a function: then that
    /// function is called where the program seems to begin the region.
    pub(super) fn place_end_of_region(&mut self, chain: &mut Vec<(Link, Vec<Frame>)>) {
        let Some((begin, _)) = chain.first().filter(|(link, _)| link.owner == Owner::User) else {
            return;
        };
        let begin = *begin;
        let jump = self.jump_to_begin(&begin);
        let region = self.region(begin.file, jump.unwrap_or(begin.address));
        let region = region.filter(|(name, _)| name.starts_with("GOMP_"));
        let pragma = region.and_then(|(_, region)| self.frames(begin.file, region).pop());
        let Some((file, line)) = pragma.and_then(|frame| frame.file.zip(frame.line)) else {
            return;
        };
        if let Some(jump) = jump {
            chain.insert(0, self.link(begin.file, jump));
        }
        if let Some(call) = chain.first_mut().and_then(|(_, frames)| frames.first_mut()) {
            (call.file, call.line) = (Some(file), Some(line));
        }
    }

    /// The address behind the jump by which the function that is called at `begin` begins a region;
    /// `None` if it has no such jump, or leaves by others, too.
    fn jump_to_begin(&self, begin: &Link) -> Option<u64> {
        let module = &self.modules[begin.file];
        let function = module.called_directly(begin.address)?;
        let leaving = module.leaving(function)?.into_iter();
        let mut leaving = leaving.filter(|jump| !jump.is_branch);
        let (Some(jump), None) = (leaving.next(), leaving.next()) else {
            return None;
        };
        let To::Name(name) = jump.to else {
            return None;
        };
        runtimes::regions::argument(&name)?;
        Some(jump.behind)
    }

    /// The runtime's function that begins a region by a call, or a jump, that ends at an address, and the
    /// address of the region's own function.
    fn region(&self, file: usize, behind: u64) -> Option<(String, u64)> {
        let module = &self.modules[file];
        let unwind = module.file.unwind()?;
        let function = unwind.function(behind.checked_sub(1)?)?;
        let (start, length) = (function.start, function.end - function.start);
        let code = code_at(unwind.image(), unwind.segments(), start, length)?;
        let name = module.called_by(behind).or_else(|| {
            let mut all = arch::decode(code.bytes, start);
            let last = all.find(|instruction| instruction.next() == behind)?;
            module.stub_at(transfer(&last)?.to)
        })?;
        let argument = *arch::ARGUMENTS.get(runtimes::regions::argument(&name)?)?;
        let region = arch::address_handed(code.bytes, start, behind, argument)?;
        Some((name, region))
    }
}
