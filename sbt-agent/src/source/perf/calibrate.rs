//! Measures what a breakpoint of the processor costs the thread that hits it.

use std::{hint::black_box, io, thread};

use super::events::breakpoint;
use crate::kernel::perf::{PAGE, Ring};
use sbt_program::clock;

/// The number of breakpoints that are hit, and how many of the first are not counted.
const HITS: u32 = 60;
const FIRST: u32 = 10;

/// Sizes of the ring, bytes: the first has room for all hits, but the user may not lock as much.
const SIZES: [usize; 3] = [32 * PAGE, 16 * PAGE, 8 * PAGE];

/// Measures the cost of one hit on a separate thread, ns.
///
/// # Errors
/// Errors of the kernel; too few breakpoints were hit.
pub fn hit_ns() -> io::Result<f64> {
    let measured = thread::scope(|scope| scope.spawn(measure).join());
    measured.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

fn measure() -> io::Result<f64> {
    let place: extern "C" fn() = place;
    let mut ring = Ring::new(&breakpoint(place as usize as u64), SIZES)?;
    let mut begun = 0;
    for hit in 0..HITS {
        if hit == FIRST {
            begun = clock::now_ns();
        }
        black_box(place)();
    }
    let took = clock::now_ns().saturating_sub(begun);
    let mut seen = 0;
    let lost = ring.samples(|_hit| seen += 1);
    if seen + lost < u64::from(HITS) / 2 {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(took as f64 / f64::from(HITS - FIRST))
}

#[inline(never)]
extern "C" fn place() {
    black_box(());
}
