//! Copies memory of the target and of the kernel.

use core::mem::MaybeUninit;

use aya_ebpf::{
    bindings::pt_regs,
    helpers::{
        self,
        generated::{bpf_probe_read_kernel, bpf_probe_read_user},
    },
};
use sbt_common::{Reader, Registers};

/// Integers and arrays of integers: all zeros is a value of each.
pub trait Integers: Copy {}

impl Integers for u8 {}
impl Integers for u32 {}
impl Integers for i32 {}
impl Integers for u64 {}
impl Integers for usize {}
impl<T: Integers, const N: usize> Integers for [T; N] {}

/// Reads memory of the target; zeros if it cannot be read.
///
/// The result of the helper is not checked: if it fails, the kernel fills the buffer with zeros
/// (`bpf_probe_read_user_common` in `kernel/trace/bpf_trace.c`), and a check would make the
/// verifier look at two paths.
#[inline(always)]
pub fn user<T: Integers>(address: u64) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the buffer has the given length, and is filled in any case.
    unsafe {
        bpf_probe_read_user(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address as *const _,
        );
        value.assume_init()
    }
}

/// Reads memory of the kernel; zeros if it cannot be read (`bpf_probe_read_kernel_common`).
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

/// The memory of the current thread.
pub struct Own;

impl Reader for Own {
    #[inline(always)]
    fn try_halves<const N: usize>(&self, address: u64) -> Option<[u32; N]> {
        // SAFETY: a copy from memory that may be anything, or fail.
        unsafe { helpers::bpf_probe_read_user(address as *const [u32; N]) }.ok()
    }

    #[inline(always)]
    fn halves<const N: usize>(&self, address: u64) -> [u32; N] {
        user(address)
    }

    #[inline(always)]
    fn word(&self, address: u64) -> u64 {
        user(address)
    }
}

/// The registers of the current thread, which has hit a probe.
pub struct Probed<'a>(pub &'a pt_regs);

/// Loads a register by an instruction of its own: the verifier does not allow to load from the
/// context at an address that is chosen at run time.
macro_rules! load {
    ($regs:expr, $name:ident) => {
        // SAFETY: a field of a valid structure.
        unsafe { core::ptr::read_volatile(&raw const $regs.$name) }
    };
}

impl Registers for Probed<'_> {
    #[inline(always)]
    fn rip(&self) -> u64 {
        load!(self.0, rip)
    }

    #[inline(always)]
    fn rsp(&self) -> u64 {
        load!(self.0, rsp)
    }

    #[inline(always)]
    fn rbp(&self) -> u64 {
        load!(self.0, rbp)
    }

    #[inline(always)]
    fn numbered(&self, number: u8) -> u64 {
        /// Where the registers lie in `pt_regs` (arch/x86/include/uapi/asm/ptrace.h), in words,
        /// four bits for each number: rdi is number 1 and word 14.
        const WORDS: u64 = 0x0123_6745_a89b_cde0;
        if number == 1 {
            return load!(self.0, rdi);
        }
        // Through a copy by the kernel, since the place is chosen at run time.
        let word = (WORDS >> (u64::from(number & 15) * 4)) & 15;
        let at = core::ptr::from_ref(self.0).cast::<u64>();
        kernel(at.wrapping_add(word as usize).cast())
    }
}

/// The instruction pointer and the registers of the first six arguments, loaded at once.
pub struct Arguments([u64; 7]);

impl Arguments {
    #[inline(always)]
    pub fn read(regs: &pt_regs) -> Self {
        Self([
            load!(regs, rip),
            load!(regs, rdi),
            load!(regs, rsi),
            load!(regs, rdx),
            load!(regs, rcx),
            load!(regs, r8),
            load!(regs, r9),
        ])
    }

    /// An argument by its number, 1 to 6; any other number gives the instruction pointer.
    #[inline(always)]
    pub fn numbered(&self, number: u8) -> u64 {
        match number {
            1 => self.0[1],
            2 => self.0[2],
            3 => self.0[3],
            4 => self.0[4],
            5 => self.0[5],
            6 => self.0[6],
            _ => self.0[0],
        }
    }
}
