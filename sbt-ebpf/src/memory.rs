//! Copies of memory, of the target's and of the kernel's.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_user};

/// What is made of integers alone, for which zeros are a value.
pub trait Integers: Copy {}

impl Integers for u8 {}
impl Integers for u32 {}
impl Integers for i32 {}
impl Integers for u64 {}
impl Integers for usize {}
impl<T: Integers, const N: usize> Integers for [T; N] {}

/// What the target's memory holds; zeros if it cannot be read.
///
/// Whether it could is not asked: the kernel has filled the room with zeros if not
/// (`bpf_probe_read_user_common` in `kernel/trace/bpf_trace.c`), and the verifier would have to
/// look at both ways.
#[inline(always)]
pub fn user<T: Integers>(address: u64) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the room is as long as it is said to be, and is filled in any case.
    unsafe {
        bpf_probe_read_user(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address as *const _,
        );
        value.assume_init()
    }
}

/// The same of the kernel's (`bpf_probe_read_kernel_common`).
#[inline(always)]
pub fn kernel<T: Integers>(address: *const u8) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: as above.
    unsafe {
        bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address.cast(),
        );
        value.assume_init()
    }
}
