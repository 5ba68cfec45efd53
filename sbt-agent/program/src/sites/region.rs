//! Barriers that are the last act of a parallel region's function: an optimising compiler makes a
//! jump of the call, so the barrier returns into the runtime of OpenMP. The call with which the
//! program began the region says which function that was.

use std::sync::Arc;

use super::Resolver;
use crate::{
    arch,
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
        let (_, region) = self.region(begin)?;
        let barrier = self.walks.last_barrier(begin.file, &file, region)?;
        Some(barrier.next)
    }

    /// The file and line of the `#pragma omp` of a region of GNU OpenMP: that of its function. GCC gives
    /// the call that begins the region the line of something before it now and then.
    pub(super) fn line_of_region(&self, begin: &Link) -> Option<(String, u32)> {
        let (_, region) = self
            .region(begin)
            .filter(|(name, _)| name.starts_with("GOMP_"))?;
        let frame = self.frames(begin.file, region).pop()?;
        frame.file.zip(frame.line)
    }

    /// The runtime's function that the program calls to begin a region, and the address of the region's
    /// own function.
    fn region(&self, begin: &Link) -> Option<(String, u64)> {
        let file = &self.modules[begin.file].file;
        let name = self.modules[begin.file].called_by(begin.address)?;
        let argument = *arch::ARGUMENTS.get(runtimes::regions::argument(&name)?)?;
        let unwind = file.unwind()?;
        let start = unwind.function(begin.address.checked_sub(1)?)?.start;
        let length = begin.address - start;
        let code = code_at(unwind.image(), unwind.segments(), start, length)?;
        let region = arch::address_passed(code.bytes, start, begin.address, argument)?;
        Some((name, region))
    }
}
