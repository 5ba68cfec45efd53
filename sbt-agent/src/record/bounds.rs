//! Limits on what a recording may contain: others may have written it, and a model keeps what it is
//! told. All limits are far above what a real machine does.

use super::rows::Row;
use sbt_engine::{
    model::{Model, tape::Step},
    place::Place,
};

/// Threads alive at a time, and members of all incomplete episodes: a few hundred bytes each.
const MOST_THREADS: usize = 1 << 17;

/// Chains of callers and ranks: a dozen bytes each.
const MOST_NAMED: usize = 1 << 22;

/// Number of places, and bytes of their names.
const MOST_PLACES: usize = 1 << 18;
const MOST_TEXT: usize = 1 << 28;

/// The latest time, ns: no machine runs for 36 years, and sums of a few such times fit in 64 bits.
const MOST_NS: u64 = 1 << 60;

/// The model's size is checked once in so many rows.
const EVERY: u32 = 1 << 14;

/// The parts of the recording that have been read so far.
#[derive(Debug, Default)]
pub struct Bounds {
    named: usize,
    places: usize,
    text: usize,
    rows: u32,
}

impl Bounds {
    /// Takes note of a row. Returns whether the model may be told it.
    pub fn allow(&mut self, row: &Row, model: &Model) -> bool {
        match row {
            Row::Place(place) => {
                self.places += 1;
                self.text += text(place);
            }
            Row::Step(Step::Place { .. } | Step::Rank { .. }) => self.named += 1,
            _ => {}
        }
        if row.time_ns().is_some_and(|time_ns| time_ns > MOST_NS) {
            return false;
        }
        self.rows += 1;
        if self.rows >= EVERY {
            self.rows = 0;
            let barriers = model.barriers().all().iter();
            let waiting: usize = barriers.map(|barrier| barrier.open.members.len()).sum();
            if model.threads().count_living().max(waiting) > MOST_THREADS {
                return false;
            }
        }
        self.named <= MOST_NAMED && self.places <= MOST_PLACES && self.text <= MOST_TEXT
    }
}

/// Size of a place's names, bytes.
fn text(place: &Place) -> usize {
    let frames = place.frames.iter().map(|frame| {
        let names = [&frame.function, &frame.file];
        let names = names.into_iter().flatten().map(String::len);
        size_of_val(frame) + names.sum::<usize>()
    });
    let calls = place
        .outer
        .iter()
        .map(|call| size_of_val(call) + call.binary.len());
    place.binary.len() + frames.sum::<usize>() + calls.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::{
        event::{CallersId, Clocks, Event, Kind},
        place::Frame,
    };

    /// The number of rows that are accepted.
    fn told(rows: impl Iterator<Item = Row>) -> usize {
        let (mut bounds, mut model) = (Bounds::default(), Model::new(0, true));
        let mut count = 0;
        for row in rows {
            if !bounds.allow(&row, &model) {
                break;
            }
            count += 1;
            if let Row::Step(step) = &row {
                model.take(step);
            }
        }
        count
    }

    fn event(event: Event) -> Row {
        Row::Step(Step::Event(event))
    }

    fn arrive(tid: u32, object: u64) -> Row {
        event(Event::Arrive {
            tid,
            clocks: Clocks::at(u64::from(tid)),
            object,
            kind: Kind::Pthread,
            callers: CallersId(1),
        })
    }

    #[test]
    fn threads_that_do_not_end_are_bounded() {
        let all = 4 * MOST_THREADS;
        let rows = (1..u32::MAX).map(|tid| arrive(tid, 0x1000));
        let count = told(rows.take(all));
        assert!(count <= MOST_THREADS + EVERY as usize, "{count}");
        assert!(count >= MOST_THREADS, "{count}");
    }

    #[test]
    fn so_are_those_that_end_while_they_wait() {
        let rows = (1..u32::MAX).flat_map(|tid| {
            let memory = Event::Memory {
                tid,
                time_ns: u64::from(tid),
                object: 0x1000,
                count: 1 << 30,
                round: None,
            };
            let clocks = Clocks::at(u64::from(tid));
            let exit = Event::Exit { tid, clocks };
            [event(memory), arrive(tid, 0x1000), event(exit)]
        });
        let all = 12 * MOST_THREADS;
        let count = told(rows.take(all));
        assert!(count < all / 2, "{count}");
    }

    #[test]
    fn threads_that_come_and_go_are_not() {
        let all = 8 * MOST_THREADS;
        let rows = (1..u32::MAX).flat_map(|tid| {
            let clocks = Clocks::at(u64::from(tid));
            [arrive(tid, 0x1000), event(Event::Exit { tid, clocks })]
        });
        // The barrier's count is not known, so each arrival is an episode of its own.
        let depart = |row: Row| match row {
            Row::Step(Step::Event(Event::Exit { tid, clocks })) => {
                vec![event(Event::Depart { tid, clocks }), row]
            }
            row => vec![row],
        };
        assert_eq!(told(rows.flat_map(depart).take(all)), all);
    }

    #[test]
    fn times_are_bounded() {
        let exit = |time_ns| {
            let clocks = Clocks::at(time_ns);
            event(Event::Exit { tid: 1, clocks })
        };
        assert_eq!(told([exit(1), exit(MOST_NS), exit(2)].into_iter()), 3);
        assert_eq!(told([exit(1), exit(MOST_NS + 1), exit(2)].into_iter()), 1);
    }

    #[test]
    fn names_are_bounded() {
        let place = |bytes: usize| {
            let function = Some("f".repeat(bytes));
            Row::Place(Box::new(Place {
                binary: "a".into(),
                offset: 1,
                into_function: None,
                works_before: false,
                frames: vec![Frame {
                    function,
                    ..Frame::default()
                }],
                outer: Vec::new(),
                of_runtime: false,
            }))
        };
        let small = std::iter::repeat_with(|| place(1));
        assert_eq!(told(small.take(2 * MOST_PLACES)), MOST_PLACES);
        let large = std::iter::repeat_with(|| place(1 << 20));
        assert!(told(large.take(1000)) < 256);
        let (mut bounds, model) = (Bounds::default(), Model::new(0, true));
        let rank = Row::Step(Step::Rank {
            process: 1,
            rank: 0,
        });
        let all = std::iter::repeat_n(&rank, 2 * MOST_NAMED);
        let told = all.take_while(|rank| bounds.allow(rank, &model)).count();
        assert_eq!(told, MOST_NAMED);
    }
}
