//! Reads the rings, and merges their records exactly by time.
//!
//! The programs stamp a record after they have reserved its room. So a pass over the rings sees
//! whatever is stamped before the pass begins, unless a writer was interrupted between reserving
//! and submitting. In that case the ring shows an unfinished record, and everything waits for it.
//! Hence the beginning of the last pass without an unfinished record is a watermark: no record
//! before it is missing.

use std::{io, os::fd::AsRawFd as _, sync::atomic::AtomicU64, sync::atomic::Ordering};

use aya::maps::{MapData, RingBuf};
use memmap2::{MmapOptions, MmapRaw};

use super::raw::Raw;

/// If more records than this wait for an unfinished one, they are handed over without it.
const MOST_PENDING: usize = 1 << 20;

struct Ring {
    buffer: RingBuf<MapData>,
    consumed: MmapRaw,
    produced: MmapRaw,
}

impl Ring {
    fn new(ring: RingBuf<MapData>) -> io::Result<Self> {
        // The first page holds the reader's position, the second the writer's
        // (kernel/bpf/ringbuf.c). aya maps both pages but does not expose them.
        let page = usize::try_from(
            nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4096),
        )
        .map_err(io::Error::other)?;
        let map = |offset: usize| {
            MmapOptions::new()
                .offset(offset as u64)
                .len(page)
                .map_raw_read_only(ring.as_raw_fd())
        };
        let consumed = map(0)?;
        let produced = map(page)?;
        Ok(Self {
            buffer: ring,
            consumed,
            produced,
        })
    }

    /// Whether the ring holds a record that its writer has not finished.
    fn has_unfinished(&self) -> bool {
        let position = |map: &MmapRaw| {
            #[allow(clippy::cast_ptr_alignment, reason = "a page is aligned to more")]
            // SAFETY: the page starts with an aligned word which the kernel and this program only
            // ever access as a whole.
            let word = unsafe { &*map.as_ptr().cast::<AtomicU64>() };
            word.load(Ordering::Acquire)
        };
        position(&self.produced) > position(&self.consumed)
    }
}

/// All rings, and the records read from them that are not yet in order.
pub struct Rings {
    all: Vec<Ring>,
    pending: Vec<Raw>,
    watermark: u64,
    late: u64,
}

impl Rings {
    /// Maps the positions of each ring.
    pub fn new(rings: Vec<RingBuf<MapData>>) -> io::Result<Self> {
        Ok(Self {
            all: rings
                .into_iter()
                .map(Ring::new)
                .collect::<io::Result<_>>()?,
            pending: Vec::new(),
            watermark: 0,
            late: 0,
        })
    }

    /// Descriptors that become readable when a program asks for its ring to be read.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.all.iter().map(|ring| ring.buffer.as_raw_fd())
    }

    /// Reads all rings once, in a pass begun at `now` (`CLOCK_MONOTONIC`, ns). Appends to `out`, in
    /// the order of time, every record before the watermark. Returns how many bytes were read.
    pub fn drain(&mut self, now: u64, out: &mut Vec<Raw>) -> usize {
        let mut bytes = 0;
        let mut finished = true;
        for ring in &mut self.all {
            // Bounded, so that a flood in one ring cannot hold back the others.
            let mut left = 4 * sbt_common::RING_BYTES as usize;
            while let Some(item) = ring.buffer.next() {
                bytes += item.len();
                left = left.saturating_sub(item.len());
                match Raw::parse(&item) {
                    Some(raw) => self.pending.push(raw),
                    None => self.late += 1,
                }
                if left == 0 {
                    break;
                }
            }
            finished &= left != 0 && !ring.has_unfinished();
        }
        if finished {
            self.watermark = now;
        } else if self.pending.len() > MOST_PENDING {
            self.watermark = u64::MAX;
        }
        // Each ring is nearly sorted already; this sort is fast then.
        self.pending.sort_by_key(Raw::time_ns);
        let ready = self
            .pending
            .partition_point(|raw| raw.time_ns() < self.watermark);
        out.extend(self.pending.drain(..ready));
        if self.watermark == u64::MAX {
            self.watermark = now;
        }
        bytes
    }

    /// Appends everything that is left, in order, when no more records will come.
    pub fn drain_rest(&mut self, out: &mut Vec<Raw>) {
        self.drain(u64::MAX, out);
        out.append(&mut self.pending);
    }

    /// How many records could not be parsed.
    pub fn unreadable(&self) -> u64 {
        self.late
    }
}
