//! Conceptual phases: from one barrier to another, whatever lies between.
//!
//! The thesis names them as future work ("user-defined start and end barriers for one conceptual
//! phase that contains other barriers"). A span of such a phase begins with the last arrival at an
//! episode of its first site. It ends with the last arrival at the next episode of its second site,
//! as ordinary phases do. A span belongs to the threads of the episode that began it: other teams
//! have spans of their own. If its threads pass the first site again before the second, the span
//! goes on. Different phases may overlap and contain each other.
//!
//! A thread is in at most one span of each phase, and a span holds its own threads only. So all
//! spans of a phase together need no more memory than the threads, and the cost of an episode is
//! proportional to its members.

use rustc_hash::FxHashMap;

use super::{
    counts,
    ids::ThreadId,
    parts::{Alone, EpisodePart},
    site::Roles,
    stats::Stat,
    trend::{Bucket, Trend},
    within::{Progress, Within},
};
use crate::event::Count;

/// Sums over the finished spans of one conceptual phase.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Wall-clock times of the spans, ns.
    pub time: Stat,
    /// How the times changed over the run.
    pub trend: Trend,
    /// Episodes inside the spans in which threads of the span took part, including the episode that
    /// ends the span.
    pub episodes: u64,
    /// Idle time of the spans' threads inside the spans, ns.
    pub idle_ns: u64,
    /// Work of the spans' threads inside the spans, ns.
    pub work_ns: u64,
    /// Work and idle time inside the spans, ns, by [`super::thread::ThreadId`].
    pub threads: Vec<(u64, u64)>,
    /// Intervals of work inside the spans, over all threads.
    pub intervals: u64,
    /// Counter values for the work inside the spans, over all threads.
    pub counts: counts::Sums,
    /// Counter values for the work inside the spans, by thread, in the order of `threads`.
    pub thread_counts: Vec<counts::Sums>,
    /// The efficiency of the threads inside the spans.
    pub within: Within,
}

impl Sums {
    /// Adds a finished span.
    fn add(&mut self, span: &Span, last_ns: u64) {
        let time_ns = last_ns.saturating_sub(span.begun_ns);
        let mut span_idle_ns: u64 = 0;
        for member in &span.members {
            let index = member.row.index();
            if self.threads.len() <= index {
                self.threads.resize(index + 1, (0, 0));
                self.thread_counts
                    .resize(index + 1, counts::Sums::default());
            }
            self.intervals += member.intervals;
            self.counts.merge(&member.counts);
            self.thread_counts[index].merge(&member.counts);
            let (work_ns, idle_ns) = &mut self.threads[index];
            *work_ns = work_ns.saturating_add(member.work_ns);
            *idle_ns = idle_ns.saturating_add(member.idle_ns);
            self.work_ns = self.work_ns.saturating_add(member.work_ns);
            span_idle_ns = span_idle_ns.saturating_add(member.idle_ns);
        }
        let members = span.members.iter();
        self.within
            .add(time_ns, members.map(|member| (member.row, member.progress)));
        self.idle_ns = self.idle_ns.saturating_add(span_idle_ns);
        self.episodes += span.episodes;
        self.time.add(time_ns);
        self.trend.add(&Bucket {
            episodes: 1,
            last_ns,
            phases: (1, time_ns),
            barrier_ns: 0,
            idle_ns: span_idle_ns,
            busy_ns: (0, 0),
        });
    }
}

/// The sums of a thread in its current span so far.
#[derive(Clone, Debug)]
struct Member {
    row: ThreadId,
    work_ns: u64,
    idle_ns: u64,
    intervals: u64,
    counts: counts::Sums,
    progress: Progress,
}

/// A span that is going on; it enters the sums when it ends.
#[derive(Clone, Debug)]
struct Span {
    begun_ns: u64,
    episodes: u64,
    /// Value of [`Spans::passed`] at the last episode counted in this span.
    counted: u64,
    members: Vec<Member>,
    /// Members whose threads are still alive.
    living: usize,
}

/// A thread's current span and its index in the span's members. The span may be over: numbers are
/// never reused, and 0 means no span.
#[derive(Clone, Copy, Debug, Default)]
struct Stand {
    span: u64,
    index: usize,
}

/// One conceptual phase with all its spans.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// Sums of the finished spans.
    pub done: Sums,
    /// Spans given up because some activity of their threads was not seen.
    pub abandoned: u64,
    /// Spans that had not ended when all their threads, or the program, ended.
    unended: u64,
    /// Spans that are going on, by number.
    open: FxHashMap<u64, Span>,
    /// Number of the newest span.
    number: u64,
    /// Episodes so far.
    passed: u64,
    /// Indexed by [`ThreadId`].
    stands: Vec<Stand>,
    /// Begin and end of each finished span, ns.
    #[cfg(test)]
    pub log: Vec<(u64, u64)>,
}

impl Spans {
    /// Whether a span began that, as far as was seen, never ended.
    pub fn is_unfinished(&self) -> bool {
        self.unended > 0 || !self.open.is_empty()
    }

    fn pass(&mut self, (begins, ends): (bool, bool), last_ns: u64, parts: &[EpisodePart]) {
        self.passed += 1;
        if !self.open.is_empty() {
            for part in parts {
                self.note(part);
            }
            self.meet(parts);
        }
        if ends {
            for part in parts {
                if let Some(span) = self.take(part.row) {
                    self.done.add(&span, last_ns);
                    #[cfg(test)]
                    self.log.push((span.begun_ns, last_ns));
                }
            }
        }
        if begins {
            self.begin(last_ns, parts);
        }
    }

    /// Adds a thread's part to its current span.
    fn note(&mut self, part: &EpisodePart) {
        let Some(stand) = self.stands.get(part.row.index()) else {
            return;
        };
        let Some(span) = self.open.get_mut(&stand.span) else {
            return;
        };
        if span.counted != self.passed {
            span.counted = self.passed;
            span.episodes += 1;
        }
        let member = &mut span.members[stand.index];
        let work_ns = part.work_ns.unwrap_or(0);
        member.work_ns = member.work_ns.saturating_add(work_ns);
        member.idle_ns = member.idle_ns.saturating_add(part.idle_ns);
        member.intervals += 1;
        member.progress.add(part);
    }

    fn member(&mut self, row: ThreadId) -> Option<(u64, &mut Member)> {
        let stand = self.stands.get(row.index())?;
        let span = self.open.get_mut(&stand.span)?;
        Some((stand.span, &mut span.members[stand.index]))
    }

    /// Lets all members of an episode continue from the longest path among them.
    fn meet(&mut self, parts: &[EpisodePart]) {
        // The members are nearly always in the same span, so only one span is handled.
        let mut longest: Option<(u64, u64)> = None;
        for part in parts {
            if let Some((span, member)) = self.member(part.row) {
                let path_ns = member.progress.path_ns;
                let (of, most_ns) = longest.get_or_insert((span, path_ns));
                if *of == span {
                    *most_ns = path_ns.max(*most_ns);
                }
            }
        }
        for part in parts {
            if let Some((of, path_ns)) = longest
                && let Some((span, member)) = self.member(part.row)
                && span == of
            {
                member.progress.path_ns = path_ns;
            }
        }
    }

    /// Begins a span with those threads that are in no span.
    fn begin(&mut self, last_ns: u64, parts: &[EpisodePart]) {
        let number = self.number + 1;
        let mut members = Vec::new();
        for part in parts {
            let at = part.row.index();
            if self.stands.len() <= at {
                self.stands.resize(at + 1, Stand::default());
            }
            let stand = &mut self.stands[at];
            // Threads that share a row count as one thread here.
            if stand.span == number || self.open.contains_key(&stand.span) {
                continue;
            }
            *stand = Stand {
                span: number,
                index: members.len(),
            };
            members.push(Member {
                row: part.row,
                work_ns: 0,
                idle_ns: 0,
                intervals: 0,
                counts: counts::Sums::default(),
                progress: Progress::default(),
            });
        }
        if members.is_empty() {
            return;
        }
        self.number = number;
        let span = Span {
            begun_ns: last_ns,
            episodes: 0,
            counted: self.passed,
            living: members.len(),
            members,
        };
        self.open.insert(number, span);
    }

    /// Removes and returns the span that a thread is in.
    fn take(&mut self, row: ThreadId) -> Option<Span> {
        self.open.remove(&self.stands.get(row.index())?.span)
    }

    /// Notes that a thread has ended: it cannot end its span any more.
    fn leave(&mut self, row: ThreadId) {
        let Some(stand) = self.stands.get_mut(row.index()) else {
            return;
        };
        let number = std::mem::take(stand).span;
        let Some(span) = self.open.get_mut(&number) else {
            return;
        };
        span.living -= 1;
        if span.living == 0 {
            self.open.remove(&number);
            self.unended += 1;
        }
    }
}

/// All conceptual phases.
#[derive(Clone, Debug, Default)]
pub struct Conceptual {
    all: Vec<Spans>,
}

impl Conceptual {
    /// Creates `count` phases, at most 64.
    pub fn new(count: usize) -> Self {
        Self {
            all: vec![Spans::default(); count.min(64)],
        }
    }

    /// The phases, by number.
    pub fn all(&self) -> &[Spans] {
        &self.all
    }

    /// Takes in a complete episode whose last thread arrived at `last_ns`. Episodes of one thread
    /// must come in order.
    pub(super) fn pass(&mut self, roles: Roles, last_ns: u64, parts: &[EpisodePart]) {
        for (number, spans) in self.all.iter_mut().enumerate() {
            let has = |bits: u64| bits & 1 << number != 0;
            spans.pass((has(roles.begins), has(roles.ends)), last_ns, parts);
        }
    }

    /// Adds counter values for a thread's work before the episode that is about to pass.
    pub(super) fn count(&mut self, row: ThreadId, counts: &[Option<Count>]) {
        for spans in &mut self.all {
            if let Some((_, member)) = spans.member(row) {
                member.counts.add(counts);
            }
        }
    }

    /// Adds what one thread worked alone before an episode of these threads; all others continue
    /// from the end of that work.
    pub(super) fn pass_alone(&mut self, alone: &Alone, parts: &[EpisodePart]) {
        for spans in &mut self.all {
            if let Some((_, member)) = spans.member(alone.row) {
                member.work_ns = member.work_ns.saturating_add(alone.ns());
                member.progress.work(Some(alone.ns()), alone.split);
                spans.meet(parts);
            }
        }
    }

    /// Gives up the spans of a thread whose activity was partly missed: the thread may have ended
    /// them unseen.
    pub(super) fn abandon(&mut self, row: ThreadId) {
        for spans in &mut self.all {
            let given_up = spans.take(row).is_some();
            spans.abandoned += u64::from(given_up);
        }
    }

    /// Gives up the spans of all threads.
    pub(super) fn abandon_all(&mut self) {
        for spans in &mut self.all {
            spans.abandoned += spans.open.len() as u64;
            spans.open.clear();
        }
    }

    /// A thread has ended.
    pub(super) fn leave(&mut self, row: ThreadId) {
        for spans in &mut self.all {
            spans.leave(row);
        }
    }

    /// The program has ended with nothing missed: open spans count as unended.
    pub(super) fn leave_all(&mut self) {
        for spans in &mut self.all {
            spans.unended += spans.open.len() as u64;
            spans.open.clear();
        }
    }

    /// Resets all totals; open spans stay open.
    pub(super) fn reset(&mut self) {
        for spans in &mut self.all {
            spans.done = Sums::default();
            spans.abandoned = 0;
            spans.unended = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::parts::Split;

    const fn roles(begins: u64, ends: u64) -> Roles {
        Roles {
            watched: false,
            begins,
            ends,
        }
    }

    fn part(row: u32, work_ns: u64, idle_ns: u64) -> EpisodePart {
        EpisodePart {
            row: ThreadId(row),
            work_ns: Some(work_ns),
            idle_ns,
            release_ns: None,
            wait: None,
            split: Split::default(),
            speed_ns: None,
        }
    }

    fn team(rows: &[u32]) -> Vec<EpisodePart> {
        rows.iter().map(|row| part(*row, 10, 1)).collect()
    }

    /// Number of spans, sum of their times, and episodes.
    fn sums(all: &Conceptual, number: usize) -> (u64, u64, u64) {
        let done = &all.all()[number].done;
        (done.time.count(), done.time.sum(), done.episodes)
    }

    /// Sites A, B, C in turn; the phases are A..C, B..C and A..A.
    #[test]
    fn they_contain_each_other_and_overlap() {
        let mut all = Conceptual::new(3);
        let (a, b, c) = (roles(0b101, 0b100), roles(0b010, 0), roles(0, 0b011));
        for round in 0..3 {
            let start = 100 * round;
            all.pass(a, start + 10, &[part(1, 5, 1)]);
            all.pass(b, start + 20, &[part(1, 6, 2)]);
            all.pass(c, start + 50, &[part(1, 7, 3)]);
        }
        assert_eq!(sums(&all, 0), (3, 3 * 40, 6));
        assert_eq!(sums(&all, 1), (3, 3 * 30, 3));
        assert_eq!(sums(&all, 2), (2, 2 * 100, 6));
        let times = |number: usize| {
            let done = &all.all()[number].done;
            (done.work_ns, done.idle_ns)
        };
        assert_eq!(
            (times(0), times(1), times(2)),
            ((39, 15), (21, 9), (36, 12))
        );
        assert_eq!(all.all()[0].done.threads, [(0, 0), (39, 15)]);
        assert_eq!(all.all()[0].done.intervals, 6);
        assert_eq!(all.all()[1].done.intervals, 3);
        assert!(!all.all()[0].is_unfinished());
        assert!(all.all()[2].is_unfinished());
    }

    #[test]
    fn the_first_passing_begins_it() {
        let mut all = Conceptual::new(1);
        for time in [10, 20, 30] {
            all.pass(roles(1, 0), time, &team(&[0]));
        }
        all.pass(roles(0, 1), 40, &team(&[0]));
        all.pass(roles(0, 1), 50, &team(&[0]));
        assert_eq!(sums(&all, 0), (1, 30, 3));
    }

    #[test]
    fn teams_have_spans_of_their_own() {
        let mut all = Conceptual::new(1);
        let (one, two) = (team(&[0, 1]), team(&[2, 3]));
        for round in 0..10 {
            let start = 20 * round;
            all.pass(roles(1, 0), start, &one);
            all.pass(roles(1, 0), start + 5, &two);
            all.pass(roles(0, 1), start + 10, &one);
            all.pass(roles(0, 1), start + 15, &two);
        }
        assert_eq!(sums(&all, 0), (20, 200, 20));
        assert_eq!(all.all()[0].done.threads, [(100, 10); 4]);
    }

    /// A thread that is in a span adds to it and ends it, whichever threads arrive with it.
    #[test]
    fn an_episode_counts_in_the_spans_of_its_threads() {
        let mut all = Conceptual::new(1);
        all.pass(roles(1, 0), 0, &team(&[0, 1]));
        // The span of thread 0 goes on; threads 2 and 3 begin a span.
        all.pass(roles(1, 0), 5, &team(&[0, 2, 3]));
        // Thread 9 is in no span.
        all.pass(roles(0, 0), 8, &team(&[0, 1, 2, 3, 9]));
        all.pass(roles(0, 1), 10, &team(&[9]));
        assert_eq!(sums(&all, 0), (0, 0, 0));
        all.pass(roles(0, 1), 12, &team(&[1]));
        assert_eq!(sums(&all, 0), (1, 12, 3));
        let spans = &all.all()[0];
        assert_eq!(spans.done.threads, [(20, 2), (20, 2)]);
        all.pass(roles(0, 1), 13, &team(&[0]));
        all.pass(roles(0, 1), 15, &team(&[3, 2]));
        assert_eq!(sums(&all, 0), (2, 12 + 10, 3 + 2));
    }

    #[test]
    fn what_is_abandoned_is_counted_apart() {
        let mut all = Conceptual::new(1);
        all.pass(roles(1, 0), 10, &team(&[0, 1]));
        all.pass(roles(1, 0), 10, &team(&[2, 3]));
        all.pass(roles(0, 0), 15, &team(&[0, 1]));
        // Threads 0 and 1 are in the same span; thread 7 is in none.
        for row in [0, 1, 7] {
            all.abandon(ThreadId(row));
        }
        all.pass(roles(0, 1), 20, &team(&[0, 1]));
        all.pass(roles(0, 1), 21, &team(&[2, 3]));
        assert_eq!(sums(&all, 0), (1, 11, 1));
        assert_eq!(all.all()[0].abandoned, 1);
        all.pass(roles(1, 0), 30, &team(&[0, 1]));
        all.abandon_all();
        assert_eq!(all.all()[0].abandoned, 2);
        assert!(!all.all()[0].is_unfinished());
    }

    #[test]
    fn a_span_whose_threads_have_ended_never_ends() {
        let mut all = Conceptual::new(1);
        all.pass(roles(1, 0), 10, &team(&[0, 1]));
        all.leave(ThreadId(0));
        all.pass(roles(0, 0), 15, &team(&[1]));
        all.leave(ThreadId(1));
        // Two later threads share row 1.
        all.pass(roles(1, 0), 50, &team(&[1, 1]));
        all.pass(roles(0, 1), 60, &team(&[1, 1]));
        let spans = &all.all()[0];
        assert_eq!(
            (spans.log.as_slice(), spans.abandoned),
            (&[(50, 60)][..], 0)
        );
        assert!(spans.is_unfinished());
    }

    #[test]
    fn what_goes_on_outlives_a_reset() {
        let mut all = Conceptual::new(1);
        for begin in [0, 10] {
            all.pass(roles(1, 0), begin, &team(&[0]));
            all.reset();
            all.pass(roles(0, 1), begin + 5, &team(&[0]));
        }
        assert_eq!(sums(&all, 0), (1, 5, 1));
    }

    /// Episodes of one team: roles, time since the previous episode, work and idle time.
    type Script = Vec<(u64, u64, u64, u64, u64)>;

    fn script() -> impl Strategy<Value = Script> {
        let episode = (0u64..4, 0u64..4, 1u64..50, 0u64..9, 0u64..9);
        prop::collection::vec(episode, 0..40)
    }

    fn episodes(rows: &[u32], script: &Script) -> Vec<(u64, Roles, Vec<EpisodePart>)> {
        let mut time = 0;
        let episode = |(begins, ends, gap, work, idle): &(u64, u64, u64, u64, u64)| {
            time += gap;
            let parts = rows.iter().map(|row| part(*row, *work, *idle));
            (time, roles(*begins, *ends), parts.collect())
        };
        script.iter().map(episode).collect()
    }

    fn told(episodes: &[(u64, Roles, Vec<EpisodePart>)]) -> Conceptual {
        let mut all = Conceptual::new(2);
        for (time, roles, parts) in episodes {
            all.pass(*roles, *time, parts);
        }
        all
    }

    proptest! {
        #[test]
        fn interleaved_teams_are_as_each_alone(one in script(), two in script()) {
            let (one, two) = (episodes(&[0, 2], &one), episodes(&[1, 3, 4], &two));
            let mut both = [one.clone(), two.clone()].concat();
            both.sort_by_key(|(time, ..)| *time);
            let (one, two, both) = (told(&one), told(&two), told(&both));
            for (both, (one, two)) in both.all().iter().zip(one.all().iter().zip(two.all())) {
                let mut log = [one.log.clone(), two.log.clone()].concat();
                let mut found = both.log.clone();
                log.sort_unstable();
                found.sort_unstable();
                prop_assert_eq!(found, log);
                let sums = |spans: &Spans| {
                    let done = &spans.done;
                    [done.time.count(), done.time.sum(), done.episodes, done.work_ns, done.idle_ns]
                };
                let apart = std::iter::zip(sums(one), sums(two)).map(|(one, two)| one + two);
                prop_assert!(sums(both).into_iter().eq(apart));
                for row in 0..5 {
                    let alone = if row % 2 == 0 && row < 4 { one } else { two };
                    let of = |spans: &Spans| spans.done.threads.get(row).copied().unwrap_or_default();
                    prop_assert_eq!(of(both), of(alone));
                }
                prop_assert_eq!(both.is_unfinished(), one.is_unfinished() || two.is_unfinished());
            }
        }
    }
}
