//! How fast the CPU of a thread is just now: a fixed piece of work is timed now and then.
//!
//! A CPU may be slower than others because its core runs another thread too, of this machine or of
//! another virtual machine on the same one, because it has a lower clock, or because it is of another
//! kind. Without counters of instructions, a thread there looks like one that has more to do.

use aya_ebpf::helpers::bpf_jiffies64;
use sbt_common::{SPEED_ROUNDS, Speed, kind};

use crate::{
    head,
    ring::{Wake, send_sample},
    target::config,
    task::{self, Task},
    thread::Slot,
};

/// Sends how long the piece of work takes on this CPU, unless the thread has done that lately.
#[inline(always)]
pub fn tell(task: &Task, slot: &mut Slot) {
    if config!(speed_ticks) != 0 {
        tell_speed(&raw mut slot.speed_at, task.tid());
    }
}

/// The rest of [`tell`]. `at`: when the thread did it last, in ticks of the kernel's clock.
///
/// As `walk_on`, the verifier looks at such a function once, and not at all that follows for both of its ways.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tell_speed(at: *mut u32, tid: u32) -> u32 {
    // SAFETY: a field of a slot; the verifier only does not know that it is not null.
    let Some(at) = (unsafe { at.as_mut() }) else {
        return 0;
    };
    // SAFETY: a helper without arguments. The kernel puts a load in its place.
    let now = unsafe { bpf_jiffies64() } as u32;
    if now.wrapping_sub(*at) < config!(speed_ticks) {
        return 0;
    }
    *at = now;
    let took_ns = measure();
    let is_sent = send_sample(Wake::No, |room: *mut Speed| {
        let record = Speed {
            head: head(kind::SPEED, 0, tid),
            time_ns: task::now(),
            took_ns,
        };
        // SAFETY: the room is as long as the record, and nothing else uses it.
        unsafe { room.write(record) };
    });
    u32::from(is_sent)
}

/// Ten steps of five sums that do not depend on each other, so that the CPU is as busy as it can be, and a
/// neighbour on the same core shows.
macro_rules! steps {
    () => {
        "{a} += 7\n{b} ^= 5\n{c} += 3\n{d} ^= 9\n{e} += 11\n{a} ^= 5\n{b} += 3\n{c} ^= 9\n{d} += 7\n{e} ^= 13\n"
    };
}

/// Two hundred steps. As in `walk_on`, the verifier looks at such a function once, and not in each round
/// of each program.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_up(seed: u64) -> u64 {
    let (mut a, mut b, mut c, mut d, mut e) = (seed, seed, seed, seed, seed);
    // SAFETY: only arithmetic, which the compiler would otherwise do beforehand.
    unsafe {
        core::arch::asm!(
            concat!(
                steps!(), steps!(), steps!(), steps!(), steps!(), steps!(), steps!(), steps!(), steps!(), steps!(),
                steps!(), steps!(), steps!(), steps!(), steps!(), steps!(), steps!(), steps!(), steps!(), steps!(),
            ),
            a = inout(reg) a, b = inout(reg) b, c = inout(reg) c, d = inout(reg) d, e = inout(reg) e,
        );
    }
    a ^ b ^ c ^ d ^ e
}

/// Times the piece of work, ns.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn measure() -> u64 {
    // Once beforehand: after work on much memory the code itself would have to be fetched.
    let mut sum = add_up(1);
    let begin = task::now();
    for _ in 0..SPEED_ROUNDS {
        sum = add_up(sum);
    }
    // The last bit keeps the compiler from leaving the work out; it is less than the clock can tell.
    (task::now() - begin) & !1 | sum & 1
}
