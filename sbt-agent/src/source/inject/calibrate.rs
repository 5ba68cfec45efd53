//! Measures what it costs a thread to note an arrival.

use std::{hint::black_box, ptr};

use sbt_program::{
    arch::{
        displaced::decode,
        trampoline::{Capture, Rings, Trampoline},
    },
    clock,
};

/// How often the code is run, and how many of the first runs are not counted.
const RUNS: u32 = 4_000;
const FIRST: u32 = 500;

/// How often that is done.
const BATCHES: u32 = 5;

/// Bytes of memory for the code, the control word and the rings.
const SIZE: usize = 1 << 20;

/// Where they lie in it, bytes.
const CONTROL: usize = 0x1000;
const BEGIN: usize = 0x2000;

/// A call is replaced by a jump to the code, which executes this instruction of five bytes and goes on
/// to the return behind it.
const NOTHING: [u8; 6] = [0x0f, 0x1f, 0x44, 0, 0, 0xc3];

/// Where that instruction lies, bytes.
const PLACE: usize = 0x800;

/// The cost of noting one arrival, ns; or why it could not be measured.
pub fn hit_ns() -> Result<f64, String> {
    let lab = Lab::new().ok_or("sbt gets no memory in which code may run")?;
    // The least of several: something else may have taken the CPU meanwhile.
    let best = |on| {
        (0..BATCHES)
            .map(|_| lab.measure(on))
            .fold(f64::MAX, f64::min)
    };
    let cost = best(true) - best(false);
    if cost > 0.0 {
        Ok(cost)
    } else {
        Err("sbt could not measure the cost of noting an arrival".into())
    }
}

/// Memory of sbt in which code may run.
struct Lab {
    base: *mut u8,
}

impl Lab {
    fn new() -> Option<Self> {
        let may = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new anonymous memory.
        let base = unsafe { libc::mmap(ptr::null_mut(), SIZE, may, how, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let this = Self { base: base.cast() };
        let at = |offset: usize| base.expose_provenance() as u64 + offset as u64;
        let displaced = decode(&NOTHING, at(PLACE))?;
        let code = Trampoline {
            displaced: &displaced,
            place: 0,
            capture: Capture {
                object: 1,
                memory: Some(0),
                ..Capture::default()
            },
            rings: Rings {
                control: at(CONTROL),
                rings: 0,
                records: 9,
                number: 0,
            },
        };
        let code = code.code(at(0))?;
        this.write(0, &code);
        this.write(PLACE, &NOTHING);
        // SAFETY: the first page of the mapping, which holds only code from now on.
        let may_run = unsafe { libc::mprotect(base, CONTROL, libc::PROT_READ | libc::PROT_EXEC) };
        (code.len() <= PLACE && may_run == 0).then_some(this)
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= SIZE);
        // SAFETY: inside of the mapping, which no reference points to.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(offset), bytes.len()) };
    }

    /// The time that one run takes, ns.
    fn measure(&self, on: bool) -> f64 {
        let rings = self.base.expose_provenance() + BEGIN;
        let word = if on { rings } else { 0 };
        self.write(CONTROL, &word.to_le_bytes());
        // SAFETY: the code keeps to the calling convention, writes only into the rings, which lie in the
        // mapping, and reads two words from its argument, which is there.
        let note: extern "C" fn(*const u8) = unsafe { std::mem::transmute(self.base) };
        let mut begun = 0;
        for run in 0..RUNS {
            if run == FIRST {
                begun = clock::now_ns();
            }
            note(black_box(self.base));
        }
        let took = clock::now_ns().saturating_sub(begun);
        took as f64 / f64::from(RUNS - FIRST)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn noting_costs_some_nanoseconds() {
        let cost = super::hit_ns().unwrap();
        assert!((0.0..10_000.0).contains(&cost), "{cost}");
    }
}
