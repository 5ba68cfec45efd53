//! What a breakpoint of the processor costs the thread that hits it.

use std::{hint::black_box, io, thread};

use super::{events::breakpoint, record::Record, record::What};
use crate::{
    clock,
    source::perf::{self, Ring},
};

/// Breakpoints that are hit, a few of which are not counted.
const HITS: u32 = 60;
const FIRST: u32 = 10;

/// Room for all of them, if one may have it.
const PAGES: [usize; 3] = [32, 16, 8];

/// Measures it, with a thread of our own. ns.
///
/// # Errors
/// The kernel's; none was hit.
pub fn hit_ns() -> io::Result<f64> {
    let measured = thread::scope(|scope| scope.spawn(measure).join());
    measured.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

fn measure() -> io::Result<f64> {
    let place: extern "C" fn() = place;
    let mut attr = perf::attr()?;
    breakpoint(&mut attr, place as usize as u64);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    let this = nix::unistd::gettid().as_raw().cast_unsigned();
    let mut ring = Ring::new(perf::open(&attr, this)?, PAGES)?;
    let mut begun = 0;
    for hit in 0..HITS {
        if hit == FIRST {
            begun = clock::now_ns();
        }
        black_box(place)();
    }
    let took = clock::now_ns().saturating_sub(begun);
    let mut hits = 0;
    ring.each(|head, body| {
        let what = Record::parse(head, body, 0).map(|record| record.what);
        hits += match what {
            Some(What::Hit(_)) => 1,
            Some(What::Lost(count)) => count,
            _ => 0,
        };
    });
    if hits < u64::from(HITS) / 2 {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(took as f64 / f64::from(HITS - FIRST))
}

#[inline(never)]
extern "C" fn place() {
    black_box(());
}
