//! How fast the CPU of a thread is just now: a fixed piece of work is timed now and then.
//!
//! A CPU may be slower than others because its core runs another thread too, of this machine or of
//! another virtual machine on the same one, because it has a lower clock, or because it is of another
//! kind. Without counters of instructions, a thread there looks like one that has more to do.

use aya_ebpf::helpers::bpf_jiffies64;
use sbt_common::{SPEED_STEPS, Speed, kind};

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
    let ticks = config!(speed_ticks);
    if ticks == 0 {
        return;
    }
    // SAFETY: a helper without arguments. The kernel puts a load in its place.
    let now = unsafe { bpf_jiffies64() } as u32;
    if now.wrapping_sub(slot.speed_at) < ticks {
        return;
    }
    slot.speed_at = now;
    let took_ns = measure();
    send_sample(Wake::No, |room: *mut Speed| {
        let record = Speed {
            head: head(kind::SPEED, 0, task.tid()),
            time_ns: task::now(),
            took_ns,
        };
        // SAFETY: the room is as long as the record, and nothing else uses it.
        unsafe { room.write(record) };
    });
}

/// Times the piece of work, ns: five sums that do not depend on each other, so that the CPU is as busy
/// as it can be, and a neighbour on the same core shows.
#[inline(never)]
fn measure() -> u64 {
    let begin = task::now();
    let (mut a, mut b, mut c, mut d, mut e) = (1u64, 2u64, 3u64, 4u64, 5u64);
    for _ in 0..SPEED_STEPS {
        // SAFETY: only arithmetic, which the compiler would otherwise do beforehand.
        unsafe {
            core::arch::asm!(
                "{a} += 7", "{b} ^= 5", "{c} += 3", "{d} ^= 9", "{e} += 11",
                "{a} ^= 5", "{b} += 3", "{c} ^= 9", "{d} += 7", "{e} ^= 13",
                "{a} += 7", "{b} ^= 5", "{c} += 3", "{d} ^= 9", "{e} += 11",
                "{a} ^= 5", "{b} += 3", "{c} ^= 9", "{d} += 7", "{e} ^= 13",
                a = inout(reg) a, b = inout(reg) b, c = inout(reg) c, d = inout(reg) d, e = inout(reg) e,
            );
        }
    }
    task::now() - begin
}
