//! How stragglers spent their time compared with the other threads: why they were late.

use super::{
    parts::{Done, EpisodePart, Split},
    speed::Speeds,
};

/// Work and its parts, ns, summed over episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// From the previous departure to the arrival.
    pub work: f64,
    /// Time on a CPU.
    pub running: f64,
    /// Time runnable, but without a CPU.
    pub ready: f64,
    /// Time asleep in the kernel.
    pub blocked: f64,
}

impl Times {
    fn add(&mut self, split: &Parts, share: f64) {
        self.running += split.running * share;
        self.ready += split.ready * share;
        self.blocked += split.blocked * share;
    }
}

/// A [`Split`] whose parts are all known.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    running: f64,
    ready: f64,
    blocked: f64,
}

impl Parts {
    fn of(split: Split) -> Option<Self> {
        Some(Self {
            running: split.running_ns? as f64,
            ready: split.ready_ns? as f64,
            blocked: split.blocked_ns? as f64,
        })
    }
}

/// Sums over the episodes of a site that followed another episode and in which all work is known. A
/// program's first episode is left out, because its phase includes the program's start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    /// Number of episodes.
    pub episodes: u64,
    /// Number of episodes in which the split of all work is known.
    pub split_episodes: u64,
    /// Participants, summed over the episodes.
    pub participants: u64,
    /// Sum of the phase times, ns.
    pub phase: f64,
    /// Sum of the idle times of all threads, ns.
    pub idle: f64,
    /// Sum of the leads of the straggler over the second last arrival, ns.
    pub lead: f64,
    /// Work of the stragglers.
    pub last: Times,
    /// Work of the other threads, as the mean of each episode, summed.
    pub others: Times,
    /// How fast the stragglers' CPUs were, in the episodes in which that is known of all threads.
    pub last_speeds: Speeds,
    /// How fast the CPUs of the other threads were in these episodes.
    pub others_speeds: Speeds,
}

impl Late {
    /// Adds one episode; returns whether it is one of those that count.
    pub fn add(&mut self, done: &Done, parts: &[EpisodePart]) -> bool {
        let (Some((Some(_), phase_ns)), Some((straggler, lead_ns))) = (done.phase, done.straggler)
        else {
            return false;
        };
        // Threads that share a row may give the row several parts.
        let is_last = |part: &EpisodePart| part.row == straggler && part.idle_ns == 0;
        let Some(last) = parts.iter().position(is_last) else {
            return false;
        };
        if parts.len() < 2 {
            return false;
        }
        let (mut work, mut idle) = (0.0, 0.0);
        let (mut split, mut is_split) = (Parts::default(), true);
        for part in parts {
            let Some(work_ns) = part.work_ns else {
                return false;
            };
            work += work_ns as f64;
            idle += part.idle_ns as f64;
            match Parts::of(part.split) {
                Some(part) => {
                    split.running += part.running;
                    split.ready += part.ready;
                    split.blocked += part.blocked;
                }
                None => is_split = false,
            }
        }
        self.add_speeds(last, parts);
        let others = 1.0 / (parts.len() - 1) as f64;
        let last = &parts[last];
        let last_work = last.work_ns.unwrap_or(0) as f64;
        self.episodes += 1;
        self.participants += parts.len() as u64;
        self.phase += phase_ns as f64;
        self.idle += idle;
        self.lead += lead_ns as f64;
        self.last.work += last_work;
        self.others.work += (work - last_work) * others;
        if let Some(own) = Parts::of(last.split).filter(|_| is_split) {
            self.split_episodes += 1;
            self.last.add(&own, 1.0);
            self.others.add(&split, others);
            self.others.add(&own, -others);
        }
        true
    }

    fn add_speeds(&mut self, last: usize, parts: &[EpisodePart]) {
        if parts.iter().any(|part| part.speed_ns.is_none()) {
            return;
        }
        for (index, speed_ns) in parts.iter().filter_map(|part| part.speed_ns).enumerate() {
            if index == last {
                self.last_speeds.add(speed_ns);
            } else {
                self.others_speeds.add(speed_ns);
            }
        }
    }

    /// By which factor the CPUs of the stragglers were slower than those of the others, and in how many
    /// episodes that was measured; `None` if in none.
    pub fn slower(&self) -> Option<(f64, u64)> {
        let (last, others) = (self.last_speeds.mean_ns()?, self.others_speeds.mean_ns()?);
        Some((last / others.max(1.0), self.last_speeds.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{SiteId, ThreadId};

    fn part(row: u32, idle_ns: u64, times: [u64; 3]) -> EpisodePart {
        let [running, ready, blocked] = times;
        EpisodePart {
            row: ThreadId(row),
            work_ns: Some(running + ready + blocked),
            idle_ns,
            release_ns: None,
            wait: None,
            split: Split {
                running_ns: Some(running),
                ready_ns: Some(ready),
                blocked_ns: Some(blocked),
            },
            speed_ns: None,
        }
    }

    fn done(from: Option<SiteId>) -> Done {
        Done {
            first_ns: 0,
            last_ns: 60,
            phase: Some((from, 100)),
            straggler: Some((ThreadId(2), 40)),
            alone: None,
        }
    }

    #[test]
    fn the_last_is_compared_with_the_mean_of_the_others() {
        let parts = [
            part(0, 60, [20, 4, 0]),
            part(1, 40, [30, 0, 10]),
            part(2, 0, [50, 0, 34]),
        ];
        let mut late = Late::default();
        for _ in 0..2 {
            late.add(&done(Some(SiteId(0))), &parts);
        }
        let expected = Late {
            episodes: 2,
            split_episodes: 2,
            participants: 6,
            phase: 200.0,
            idle: 200.0,
            lead: 80.0,
            last: Times {
                work: 168.0,
                running: 100.0,
                ready: 0.0,
                blocked: 68.0,
            },
            others: Times {
                work: 64.0,
                running: 50.0,
                ready: 4.0,
                blocked: 10.0,
            },
            ..Late::default()
        };
        assert_eq!(late, expected);
    }

    #[test]
    fn cpus_are_compared_where_all_are_known() {
        let mut parts = [
            part(0, 60, [20, 0, 0]),
            part(1, 40, [20, 0, 0]),
            part(2, 0, [50, 0, 0]),
        ];
        let mut late = Late::default();
        for speeds in [
            [Some(800), Some(1200), Some(1500)],
            [Some(5), None, Some(9)],
        ] {
            for (part, speed_ns) in parts.iter_mut().zip(speeds) {
                part.speed_ns = speed_ns;
            }
            late.add(&done(Some(SiteId(0))), &parts);
        }
        assert_eq!(late.slower(), Some((1.5, 1)));
    }

    #[test]
    fn what_is_not_known_is_not_counted() {
        let mut parts = [part(0, 60, [20, 0, 0]), part(2, 0, [50, 0, 0])];
        let mut late = Late::default();
        // The program's start, an episode of one thread, and an episode without the straggler's
        // part.
        late.add(&done(None), &parts);
        late.add(&done(Some(SiteId(0))), &parts[1..]);
        late.add(&done(Some(SiteId(0))), &parts[..1]);
        assert_eq!(late, Late::default());
        parts[0].split.ready_ns = None;
        late.add(&done(Some(SiteId(0))), &parts);
        assert_eq!((late.episodes, late.split_episodes), (1, 0));
        assert_eq!((late.last.work, late.last.running), (50.0, 0.0));
        parts[0].work_ns = None;
        late.add(&done(Some(SiteId(0))), &parts);
        assert_eq!(late.episodes, 1);
    }
}
