//! Perf events. The crate `perf-event` opens them, maps their rings and decodes records. Added here
//! is what the crate lacks: several events that write into one ring, reading a ring while threads
//! keep writing, and samples without registers or stack.

use std::{
    borrow::Cow,
    fmt, io,
    os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd},
};

use perf_event::{
    Builder, Counter, Record, SampleFlag, Sampler,
    data::{
        self, SampleRegsAbi,
        endian::Endian,
        parse::{Parse, ParseBuf, ParseResult, Parser},
    },
};

/// Size of a page, bytes. Where pages are larger, rings are too.
pub const PAGE: usize = 4096;

/// Size of the header of each record, bytes.
const HEADER: usize = 8;

/// `PERF_RECORD_SAMPLE`.
pub const SAMPLE: u32 = 9;

/// `PERF_EVENT_IOC_SET_OUTPUT`.
const SET_OUTPUT: libc::Ioctl = 0x2405;

/// An event with its ring: the memory into which the kernel writes the records of this event and of
/// others that are admitted. Records that find the ring full are lost, and the kernel counts them.
pub struct Ring {
    sampler: Sampler,
    bytes: usize,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ring")
            .field(self.sampler.as_counter())
            .finish()
    }
}

impl Ring {
    /// Opens an event and maps its ring. `sizes`: bytes, powers of two; the first is taken that the
    /// user may lock.
    ///
    /// # Errors
    /// Errors of the kernel: an ordinary user may not lock as much.
    pub fn new(event: &Builder<'_>, sizes: impl IntoIterator<Item = usize>) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::InvalidInput);
        for bytes in sizes {
            match event.build()?.sampled(bytes) {
                Ok(sampler) => return Ok(Self { sampler, bytes }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The event that the ring belongs to.
    pub fn event(&mut self) -> &mut Counter {
        self.sampler.as_counter_mut()
    }

    /// The descriptor that becomes readable when there is enough to read.
    pub fn descriptor(&self) -> RawFd {
        self.sampler.as_raw_fd()
    }

    /// Makes another event of the same CPU write into this ring as well.
    ///
    /// # Errors
    /// Errors of the ioctl.
    pub fn admit(&self, event: &Counter) -> io::Result<()> {
        // SAFETY: this request takes a descriptor, and both are open.
        let result = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, self.descriptor()) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Takes all records that are there, but no more than the ring holds: so this ends even if
    /// threads write as fast as sbt reads.
    pub fn each(&mut self, mut take: impl FnMut(&Record<'_>)) {
        let mut left = self.bytes;
        while left > 0
            && let Some(record) = self.sampler.next_record()
        {
            left = left.saturating_sub(HEADER + record.len());
            take(&record);
        }
    }

    /// Takes all samples that are there. All events must ask for the same fields as the ring's own.
    /// Returns how many records found no room, as far as the kernel has reported that.
    pub fn samples(&mut self, mut take: impl FnMut(&Sample<'_>)) -> u64 {
        let format = self.sampler.config().clone();
        let mut lost = 0;
        self.each(|record| {
            if record.ty() == SAMPLE {
                let body = record.to_contiguous();
                let sample = Parser::new(&*body, format.clone()).parse();
                sample.iter().for_each(&mut take);
            } else if let Ok(data::Record::Lost(record)) = record.parse_record() {
                lost += record.lost;
            }
        });
        lost
    }
}

/// A sample with the registers and stack of the thread's own code, and possibly the thread, the
/// time and the event.
///
/// `perf_event::data::Sample` does not serve, as of version 0.1: it looks for registers where the
/// kernel writes none, and takes a sample without a stack for a truncated one.
#[derive(Clone, Debug)]
pub struct Sample<'a> {
    /// The process and the thread.
    pub of: Option<(u32, u32)>,
    /// Time by the clock of the event, ns.
    pub time_ns: Option<u64>,
    /// Id of the event that took the sample.
    pub event: Option<u64>,
    /// Width of the registers; none for a thread of the kernel.
    pub abi: SampleRegsAbi,
    /// The registers, in the order of their numbers.
    pub registers: Vec<u64>,
    /// Bytes from the stack pointer on; empty if the stack pointer points nowhere.
    pub stack: Cow<'a, [u8]>,
}

impl<'p> Parse<'p> for Sample<'p> {
    fn parse<B, E>(p: &mut Parser<B, E>) -> ParseResult<Self>
    where
        B: ParseBuf<'p>,
        E: Endian,
    {
        let asked = p.config().sample_type();
        let of = p.parse_if_with(asked.contains(SampleFlag::TID), |p| {
            Ok((p.parse_u32()?, p.parse_u32()?))
        })?;
        let time_ns = p.parse_if(asked.contains(SampleFlag::TIME))?;
        let event = p.parse_if(asked.contains(SampleFlag::ID))?;
        let abi = p.parse()?;
        let registers = match abi {
            SampleRegsAbi::NONE => 0,
            _ => p.config().regs_user().count_ones() as usize,
        };
        let registers = p.parse_repeated(registers)?;
        let mut stack = Cow::default();
        let size = p.parse_u64()?;
        if size > 0 {
            let room = p.parse_bytes(usize::try_from(size).unwrap_or(usize::MAX))?;
            let counts = usize::try_from(p.parse_u64()?).unwrap_or(usize::MAX);
            stack = match room {
                Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..counts.min(bytes.len())]),
                Cow::Owned(mut bytes) => {
                    bytes.truncate(counts);
                    Cow::Owned(bytes)
                }
            };
        }
        Ok(Self {
            of,
            time_ns,
            event,
            abi,
            registers,
            stack,
        })
    }
}

/// Enables or disables an event. Errors do not matter: the thread has ended then.
pub fn switch(event: &mut Counter, on: bool) {
    let _gone = if on { event.enable() } else { event.disable() };
}

/// The descriptor of an event, to be kept with descriptors of other kinds.
pub fn descriptor(event: Counter) -> OwnedFd {
    // SAFETY: the event has just given up its open descriptor.
    unsafe { OwnedFd::from_raw_fd(event.into_raw_fd()) }
}

#[cfg(test)]
pub mod tests {
    use perf_event::{Clock, events::Software};

    use super::*;

    /// Decodes the bytes of a sample of this event.
    pub fn decoded<'a>(event: &Builder<'_>, bytes: &'a [u8]) -> Option<Sample<'a>> {
        let format = data::parse::ParseConfig::<data::endian::Native>::from(*event.attrs());
        Parser::new(bytes, format).parse().ok()
    }

    pub fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// An event that reports the names that this thread takes.
    fn of_names() -> Builder<'static> {
        let mut event = Builder::new(Software::DUMMY);
        event.enabled(true).comm(true).sample_id_all(true);
        event.sample(SampleFlag::TID | SampleFlag::TIME);
        event.clockid(Clock::MONOTONIC);
        event
    }

    fn rename(times: usize) {
        for _ in 0..times {
            nix::sys::prctl::set_name(c"renamed").unwrap();
        }
    }

    fn names(ring: &mut Ring) -> (usize, u64) {
        let (mut names, mut lost) = (0, 0);
        ring.each(|record| match record.parse_record() {
            Ok(data::Record::Comm(comm)) => {
                assert_eq!(&*comm.comm, b"renamed");
                names += 1;
            }
            Ok(data::Record::Lost(record)) => lost += record.lost,
            other => panic!("{other:?}"),
        });
        (names, lost)
    }

    #[test]
    fn events_write_into_one_ring_which_is_read_past_its_end() {
        let mut ring = Ring::new(&of_names(), [PAGE]).unwrap();
        let mut other = of_names().build().unwrap();
        ring.admit(&other).unwrap();
        for _ in 0..10 {
            // A record has 40 bytes, so one of them wraps around the ring's end.
            rename(30);
            assert_eq!(names(&mut ring), (60, 0));
        }
        switch(&mut other, false);
        rename(3);
        assert_eq!(names(&mut ring), (3, 0));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut ring = Ring::new(&of_names(), [PAGE]).unwrap();
        rename(1000);
        let (read, lost) = names(&mut ring);
        assert!(lost == 0 && (50..=102).contains(&read), "{read}, {lost}");
        // The kernel reports losses when there is room again.
        rename(1);
        assert_eq!(names(&mut ring), (1, 1000 - read as u64));
    }

    #[test]
    fn the_first_size_is_taken_that_is_to_be_had() {
        let too_much = 1 << 50;
        assert!(Ring::new(&of_names(), [too_much]).is_err());
        assert!(Ring::new(&of_names(), [too_much, PAGE]).is_ok());
        assert!(Ring::new(&of_names(), []).is_err());
    }
}
