//! The part of a run that counts: from one mark on, and until another.
//!
//! The first paper switches its monitor on and off by calls in the program. Marks do the same for a
//! program that is not changed.

use super::Model;
use crate::event::{Event, MarkId};

/// Where the part that counts begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    start: Start,
    /// The mark that ends the part; `None` if it lasts until the end.
    stop: Option<MarkId>,
    stopped_ns: Option<u64>,
    /// A beginning that was asked for and waits for the events before it.
    due: Option<Restart>,
    /// The last beginning that was asked for and has come.
    restarted: Option<Restart>,
}

/// A beginning by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restart {
    time_ns: u64,
    /// Whether somebody has asked for it during the run.
    asked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Start {
    /// Everything counts.
    #[default]
    WithTheRun,
    /// Nothing counts before a thread passes this mark.
    AtMark(MarkId),
    /// Nothing counts before [`Model::restart_at`] is called.
    WhenTold,
    /// Counting has begun at this time, ns.
    At(u64),
}

impl Window {
    /// Everything counts until a thread passes `stop`.
    pub fn whole(stop: Option<MarkId>) -> Self {
        Self {
            stop,
            ..Self::default()
        }
    }

    /// Nothing counts before a thread passes `start`.
    pub fn from_mark(start: MarkId, stop: Option<MarkId>) -> Self {
        Self {
            start: Start::AtMark(start),
            ..Self::whole(stop)
        }
    }

    /// Nothing counts before [`Model::restart_at`] is called.
    pub fn when_told(stop: Option<MarkId>) -> Self {
        Self {
            start: Start::WhenTold,
            ..Self::whole(stop)
        }
    }

    /// Whether nothing counts yet.
    pub const fn is_before(&self) -> bool {
        matches!(self.start, Start::AtMark(_) | Start::WhenTold)
    }

    /// Whether a mark is awaited: probes must stay on, or it may be passed unseen.
    pub const fn awaits_mark(&self) -> bool {
        matches!(self.start, Start::AtMark(_)) || self.stop.is_some() && self.stopped_ns.is_none()
    }

    /// The time at which counting began later than the run, or began anew, ns.
    pub fn started_ns(&self) -> Option<u64> {
        let at = match self.start {
            Start::At(time_ns) => Some(time_ns),
            _ => None,
        };
        self.restarted.map(|restart| restart.time_ns).or(at)
    }

    /// Whether counting began then because somebody asked for it during the run.
    pub fn is_asked(&self) -> bool {
        self.restarted.is_some_and(|restart| restart.asked)
    }

    /// The time of a beginning that waits for the events before it, ns.
    pub fn due_ns(&self) -> Option<u64> {
        self.due.map(|restart| restart.time_ns)
    }

    /// The time at which a mark ended counting, ns.
    pub const fn stopped_ns(&self) -> Option<u64> {
        self.stopped_ns
    }
}

impl Model {
    /// Sets the part of the run that counts.
    pub const fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// The part of the run that counts.
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// Counts from `time_ns` on, anew if something counted before: as soon as an event of that time or later
    /// comes, since events from before may still be on their way. `asked`: whether somebody asked for it
    /// during the run. Nothing begins behind the part that counts.
    pub const fn restart_at(&mut self, time_ns: u64, asked: bool) {
        if self.window.stopped_ns.is_none() {
            self.window.due = Some(Restart { time_ns, asked });
        }
    }

    /// Begins to count if that is due, without waiting for events any longer.
    pub fn restart_now(&mut self) {
        let Some(restart) = self.window.due.take() else {
            return;
        };
        if self.window.is_before() {
            self.window.start = Start::At(restart.time_ns);
        }
        self.window.restarted = Some(restart);
        self.reset(restart.time_ns);
    }

    /// Begins to count if an event is the first of the part that was asked for.
    pub(super) fn heed_restart(&mut self, event: &Event) {
        let due_ns = self.window.due_ns();
        if due_ns.is_some_and(|due_ns| event.time_ns().is_some_and(|time_ns| time_ns >= due_ns)) {
            self.restart_now();
        }
    }

    /// Counts from `time_ns` on, if nothing counts yet.
    fn start_counting(&mut self, time_ns: u64) {
        if self.window.is_before() {
            self.window.start = Start::At(time_ns);
            self.reset(time_ns);
        }
    }

    /// Whether an event lies behind the part that counts. An event that begins or ends the part
    /// belongs to it.
    pub(super) fn is_behind(&mut self, event: &Event) -> bool {
        if self.window.stopped_ns.is_some() {
            return true;
        }
        let Event::Mark { clocks, mark, .. } = event else {
            return false;
        };
        if self.window.start == Start::AtMark(*mark) {
            self.start_counting(clocks.time_ns);
        } else if self.window.stop == Some(*mark) && !self.window.is_before() {
            self.window.stopped_ns = Some(clocks.time_ns);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CallersId, Clocks, Kind, Tid};

    const START: MarkId = MarkId(0);
    const STOP: MarkId = MarkId(1);

    fn mark(tid: Tid, mark: MarkId, time_ns: u64) -> Event {
        Event::Mark {
            tid,
            clocks: Clocks::at(time_ns),
            mark,
        }
    }

    /// Episodes of two threads, one each 100 ns from `from_ns` on.
    fn episodes(from_ns: u64, count: u64) -> Vec<Event> {
        let arrive = |tid, time_ns| Event::Arrive {
            tid,
            clocks: Clocks::at(time_ns),
            object: 64,
            kind: Kind::Pthread,
            callers: CallersId(0),
        };
        let round = |number| {
            let at_ns = from_ns + 100 * number;
            [arrive(7, at_ns), arrive(8, at_ns + 50)]
        };
        (0..count).flat_map(round).collect()
    }

    fn counted(window: Window, events: &[Event]) -> Model {
        let mut model = Model::new(1, false);
        model.set_window(window);
        let init = Event::Init {
            time_ns: 2,
            object: 64,
            kind: Kind::Pthread,
            tid: 7,
            count: 2,
        };
        model.push(&init);
        for event in events {
            model.push(event);
        }
        model.finish();
        model
    }

    #[test]
    fn only_what_lies_between_the_marks_counts() {
        let mut events = episodes(1000, 3);
        events.push(mark(7, START, 2000));
        events.extend(episodes(2000, 5));
        events.push(mark(8, START, 2900));
        events.push(mark(8, STOP, 3000));
        events.extend(episodes(3100, 7));
        events.push(mark(7, START, 4000));
        let model = counted(Window::from_mark(START, Some(STOP)), &events);
        assert_eq!(model.totals().episodes, 5);
        assert_eq!(model.totals().arrivals, 10);
        let window = model.window();
        assert_eq!(window.started_ns(), Some(2000));
        assert_eq!(window.stopped_ns(), Some(3000));
        let passes: u64 = model.marks().hits.values().sum();
        assert_eq!(passes, 3, "the marks at both ends count, and those between");
        assert!(!window.awaits_mark());
    }

    #[test]
    fn what_ends_before_it_begins_does_not_end() {
        let mut events = vec![mark(7, STOP, 900)];
        events.extend(episodes(1000, 3));
        let window = Window::from_mark(START, Some(STOP));
        let model = counted(window, &events);
        assert!(model.window().is_before() && model.window().awaits_mark());
        events.extend([mark(7, START, 2000), mark(7, STOP, 2001)]);
        let model = counted(window, &events);
        assert_eq!(model.window().stopped_ns(), Some(2001));
        assert_eq!(model.totals().episodes, 0);
    }

    #[test]
    fn one_mark_may_begin_and_end() {
        let mut events = vec![mark(7, START, 900)];
        events.extend(episodes(1000, 3));
        events.push(mark(7, START, 2000));
        events.extend(episodes(2100, 4));
        let model = counted(Window::from_mark(START, Some(START)), &events);
        assert_eq!(model.totals().episodes, 3);
    }

    #[test]
    fn counting_begins_once_when_told() {
        let mut model = Model::new(1, false);
        model.set_window(Window::when_told(None));
        assert!(model.window().is_before() && !model.window().awaits_mark());
        model.start_counting(500);
        model.start_counting(700);
        assert_eq!(model.window().started_ns(), Some(500));
        let mut whole = Model::new(1, false);
        whole.start_counting(500);
        assert_eq!(whole.window().started_ns(), None);
    }

    #[test]
    fn who_asks_for_a_beginning_gets_it_between_the_events_before_and_after() {
        let mut model = Model::new(1, false);
        for event in episodes(1000, 3) {
            model.push(&event);
        }
        // Events from before are still on their way.
        model.restart_at(1500, true);
        for event in episodes(1300, 5) {
            model.push(&event);
        }
        assert_eq!(model.totals().episodes, 3);
        let window = *model.window();
        assert_eq!((window.started_ns(), window.is_asked()), (Some(1500), true));
        assert!(model.take_told().is_empty());
        // Nothing happens any more.
        model.restart_at(5000, true);
        assert_eq!(model.totals().episodes, 3);
        model.restart_now();
        assert_eq!(model.totals().episodes, 0);
        model.restart_now();
        assert_eq!(model.window().started_ns(), Some(5000));
    }

    #[test]
    fn a_replay_of_the_tape_counts_the_same() {
        let mut model = Model::new(1, false);
        model.set_window(Window::from_mark(START, Some(STOP)));
        model.keep_tape();
        let mut events = episodes(1000, 3);
        events.push(mark(7, START, 2000));
        events.extend(episodes(2000, 5));
        events.push(mark(8, STOP, 3000));
        events.extend(episodes(3100, 7));
        for event in &events {
            model.push(event);
        }
        let steps = model.take_tape();
        let mut again = Model::new(1, false);
        for step in &steps {
            again.take(step);
        }
        model.finish();
        again.finish();
        assert_eq!(again.totals(), model.totals());
        assert_eq!(again.marks().hits, model.marks().hits);
    }
}
