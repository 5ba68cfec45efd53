//! Marks: places that threads pass, and the time from one to the next.
//!
//! Marks are like calipers on a workpiece, and also serve programs without barriers and programs
//! with one thread. The thesis names them as future work ("a sequential version (caliper points in
//! programs with one thread)").

use rustc_hash::FxHashMap;

use super::{
    counts::Sums,
    ids::ThreadId,
    parts::{Split, SplitSum},
    stats::Stat,
};
use crate::event::{Clocks, Count, MarkId};

/// Pairs of an interval and a thread that are kept, at most; later pairs enter the sums over all
/// threads only.
const MAX_PAIRS: usize = 1 << 16;

/// The time from one mark to the next that the same thread passes.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Wall-clock times, over all threads, ns.
    pub time: Stat,
    /// How the threads spent the time.
    pub split: SplitSum,
    /// Counter values for the time.
    pub counts: Sums,
    /// Sums by thread.
    pub threads: FxHashMap<ThreadId, OfThread>,
}

/// Sums of an [`Interval`] for one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfThread {
    /// The number of times that the thread passed the interval.
    pub count: u64,
    /// Sum of the times, ns.
    pub time_ns: u64,
    /// Counter values for the time.
    pub counts: Sums,
}

/// All marks.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// The number of times that each thread passed each mark.
    pub hits: FxHashMap<(MarkId, ThreadId), u64>,
    /// Intervals by the marks at both ends.
    pub intervals: FxHashMap<(MarkId, MarkId), Interval>,
    pairs: usize,
}

impl Marks {
    /// A thread passes a mark. `before`: the previous mark and the clocks there. `counts`: counter
    /// values since the previous mark.
    pub(super) fn pass(
        &mut self,
        thread: ThreadId,
        before: Option<(MarkId, Clocks)>,
        (mark, clocks): (MarkId, Clocks),
        counts: Option<&[Option<Count>]>,
    ) {
        *self.hits.entry((mark, thread)).or_default() += 1;
        let Some((from, since)) = before else {
            return;
        };
        let interval = self.intervals.entry((from, mark)).or_default();
        let time_ns = clocks.time_ns.saturating_sub(since.time_ns);
        interval.time.add(time_ns);
        interval.split.add(Split::between(since, clocks));
        if let Some(counts) = counts {
            interval.counts.add(counts);
        }
        if !interval.threads.contains_key(&thread) {
            if self.pairs >= MAX_PAIRS {
                return;
            }
            self.pairs += 1;
        }
        let mine = interval.threads.entry(thread).or_default();
        mine.count += 1;
        mine.time_ns = mine.time_ns.saturating_add(time_ns);
        if let Some(counts) = counts {
            mine.counts.add(counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_told_by_both_ends_and_by_thread() {
        let mut marks = Marks::default();
        let (a, b) = (MarkId(0), MarkId(1));
        for thread in [ThreadId(0), ThreadId(3)] {
            let mut before = None;
            for (time, mark) in [(10, a), (40, b), (50, a), (90, b)] {
                let here = (mark, Clocks::at(time));
                marks.pass(thread, before, here, None);
                before = Some(here);
            }
        }
        let inside = &marks.intervals[&(a, b)];
        assert_eq!((inside.time.count(), inside.time.sum()), (4, 140));
        let mine = &inside.threads[&ThreadId(3)];
        assert_eq!((mine.count, mine.time_ns), (2, 70));
        assert_eq!(inside.split.running.get(), None);
        assert_eq!(marks.intervals[&(b, a)].time.sum(), 20);
        assert_eq!(marks.hits[&(b, ThreadId(0))], 2);
        assert!(!marks.intervals.contains_key(&(a, a)));
    }
}
