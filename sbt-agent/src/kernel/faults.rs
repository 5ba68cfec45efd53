//! What a page fault costs on this machine: between 300 ns and several µs, more in virtual machines.

use std::{io, ptr, time::Instant};

/// Pages that are touched at a time, and how often: the shortest time counts, since the CPU may be
/// taken away in the others.
const PAGES: usize = 16;
const TIMES: usize = 8;

/// Time that the kernel needs to hand out one page when it is touched for the first time, ns, at
/// least; `None` if there is no memory.
pub fn page_fault_ns() -> Option<u64> {
    let each = (0..TIMES).filter_map(|_| once().ok());
    let shortest = each.min()?;
    Some(shortest / u64::try_from(PAGES).unwrap_or(1))
}

/// Touches new pages and returns the time for that, ns.
fn once() -> io::Result<u64> {
    let page = usize::try_from(procfs::page_size()).unwrap_or(4096);
    let length = PAGES * page;
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: asks for memory of its own, at an address that the kernel chooses.
    let memory = unsafe { libc::mmap(ptr::null_mut(), length, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: advice on the memory just mapped. Without it, one fault might bring all pages.
    unsafe { libc::madvise(memory, length, libc::MADV_NOHUGEPAGE) };
    let begun = Instant::now();
    for index in 0..PAGES {
        // SAFETY: inside of the memory just mapped.
        unsafe { ptr::write_volatile(memory.cast::<u8>().add(index * page), 1) };
    }
    let took = begun.elapsed();
    // SAFETY: nothing points to that memory any more.
    unsafe { libc::munmap(memory, length) };
    Ok(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_takes_its_time() {
        let ns = page_fault_ns().unwrap();
        assert!(ns > 0, "{ns}");
    }
}
