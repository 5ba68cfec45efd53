//! Tells how many of the records that found no room were events.
//!
//! After a loss the programs no longer trust what they remember of barrier objects. So until
//! records find room again, each arrival at a barrier of the C library sends two records: what the
//! object's memory holds (a reading), and the arrival. The kernel counts both as lost. Readings are
//! no events: if they counted too, each loss would count twice.

/// Kind of a record that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A reading of a barrier object's memory.
    Memory,
    /// An arrival; `reads`: at a barrier of which the memory is read.
    Arrival { reads: bool },
    /// A departure.
    Departure,
    /// Any other event.
    Other,
}

/// Which records a thread sends in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Whether its arrivals read memory after a loss.
    reads: bool,
    /// Whether its departures are reported.
    departs: bool,
    /// Whether its last record was an arrival.
    arrived: bool,
}

impl Course {
    fn take(&mut self, seen: Received) {
        match seen {
            Received::Arrival { reads } => {
                // Two arrivals without a departure between them: departures are not reported.
                self.departs &= !self.arrived;
                self.reads = reads;
                self.arrived = true;
            }
            Received::Departure => {
                self.departs = true;
                self.arrived = false;
            }
            Received::Memory | Received::Other => {}
        }
    }

    /// How many records one round at a barrier sends: memory, arrival, departure.
    const fn turn(self) -> u32 {
        if self.departs { 3 } else { 2 }
    }

    /// How many of the `count` records lost before this one were readings of memory.
    const fn readings(self, count: u32, next: Received) -> u32 {
        if !self.reads {
            return 0;
        }
        // The number of records from the last reading, inclusive, up to this record.
        let first = match next {
            Received::Memory | Received::Other => self.turn(),
            Received::Arrival { .. } => 1,
            Received::Departure => 2,
        };
        if count < first {
            0
        } else {
            (count - first) / self.turn() + 1
        }
    }
}

/// Losses over all threads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Records missing in the threads' sequence numbers.
    records: u64,
    /// How many of the missing records were readings of memory.
    readings: u64,
}

impl Losses {
    /// A thread has begun anew, and its announcement is lost: counts as one event at least.
    pub const fn anew(&mut self, course: &mut Course) -> u32 {
        self.records += 1;
        course.arrived = false;
        1
    }

    /// Takes in a record, before which `count` records of its thread are missing. Returns how many
    /// of the missing ones were events.
    pub fn gap(&mut self, course: &mut Course, count: u32, seen: Received) -> u32 {
        let readings = course.readings(count, seen);
        if count > 0 {
            // The thread may have left the barrier meanwhile.
            course.arrived = false;
            self.records += u64::from(count);
            self.readings += u64::from(readings);
        }
        course.take(seen);
        count - readings
    }

    /// How many of the records missing in the threads' numbers were readings of memory.
    pub const fn readings(&self) -> u64 {
        self.readings
    }

    /// How many of `records`, the kernel's count of lost records, were events. `open`: threads
    /// whose end was not seen. Records that are missing in no thread's numbers were lost after the
    /// last record of some open thread.
    pub fn events(self, records: u64, open: impl Iterator<Item = Course>) -> u64 {
        let (mut turns, mut reading) = (0_u64, 0_u64);
        for course in open {
            turns += u64::from(course.turn());
            reading += u64::from(course.reads);
        }
        let behind = records.saturating_sub(self.records);
        let readings = (behind * reading).checked_div(turns).unwrap_or(0);
        records.saturating_sub(self.readings + readings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRIVAL: Received = Received::Arrival { reads: true };

    /// Losses counted for one thread of which some records (false) are lost: by gaps, and in total.
    fn lost(records: &[(Received, bool)]) -> (u64, u64) {
        let (mut losses, mut course) = (Losses::default(), Course::default());
        let (mut missing, mut events) = (0, 0);
        for (seen, is_there) in records {
            if *is_there {
                events += u64::from(losses.gap(&mut course, missing, *seen));
                missing = 0;
            } else {
                missing += 1;
            }
        }
        let all = records.iter().filter(|(_, is_there)| !is_there).count() as u64;
        let told = losses.events(all, std::iter::once(course));
        (events, told)
    }

    /// Losses of a thread with so many rounds at a barrier, of whose records those in `gone` are
    /// lost.
    fn run(turns: usize, departs: bool, gone: &std::ops::Range<usize>) -> (u64, u64, u64) {
        let mut records = Vec::new();
        // Returns whether the record was lost.
        let push = |seen, records: &mut Vec<(Received, bool)>| {
            let is_there = !gone.contains(&records.len());
            records.push((seen, is_there));
            !is_there
        };
        let mut distrusts = true;
        for _ in 0..turns {
            if distrusts {
                distrusts = push(Received::Memory, &mut records);
            }
            distrusts |= push(ARRIVAL, &mut records);
            if departs {
                distrusts |= push(Received::Departure, &mut records);
            }
        }
        let is_event =
            |(seen, is_there): &&(Received, bool)| !is_there && *seen != Received::Memory;
        let expected = records.iter().filter(is_event).count() as u64;
        let (events, told) = lost(&records);
        (expected, events, told)
    }

    #[test]
    fn a_loss_in_the_middle_is_counted_once_wherever_it_begins_and_ends() {
        for departs in [false, true] {
            for from in 6..20 {
                for to in from..60 {
                    let (expected, events, told) = run(80, departs, &(from..to));
                    assert_eq!(events, expected, "{departs} {from}..{to}");
                    assert_eq!(told, expected, "{departs} {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn what_is_lost_behind_the_last_record_is_told_apart_by_what_the_thread_sends() {
        for departs in [false, true] {
            for from in 6..20 {
                let (expected, _, told) = run(80, departs, &(from..10_000));
                assert!(told.abs_diff(expected) <= 1, "{from}: {told} {expected}");
            }
        }
    }

    #[test]
    fn other_barriers_have_no_readings() {
        let other = Received::Arrival { reads: false };
        let records = [(other, true), (other, false), (other, false), (other, true)];
        assert_eq!(lost(&records), (2, 2));
        // No thread is open, so every lost record counts as an event.
        assert_eq!(Losses::default().events(7, std::iter::empty()), 7);
    }
}
