//! Looks for barriers that only spin, which no probe shows: samples where the target's threads run,
//! if there are several: now and then where other barriers are hit, more often where none is.

use std::collections::{BTreeMap, HashMap};

use super::{
    seen::{QUIET_AFTER_OTHERS_NS, QUIET_NS, Seen},
    trials::{Candidate, Outcome, Trials},
};
use crate::source::sampler::{Sample, Sampler};
use sbt_engine::{
    choices::Spins,
    place::{SpinPlace, printable},
    report::spin::FoundLoop,
    words::command_line,
};
use sbt_program::{
    clock, process,
    sites::{Resolver, Wait, WaitId, Way},
    spin::{pieces::Pieces, tally::Tally},
};

/// The time from one look to the next, ns: programs have stages. The time doubles each time.
const AWAY_NS: u64 = 500_000_000;

/// The shortest duration of a look, ns.
const LOOK_NS: u64 = 240_000_000;

/// The most looks in a run.
const MAX_LOOKS: u32 = 10;

/// The number of looks with suspects after which the search ends.
const MAX_FOUND: u32 = 3;

/// The number of looks while other barriers are hit: a program may have both.
const MAX_BESIDE: u32 = 3;

/// The time from the start to the first look while other barriers are hit, ns.
const BESIDE_NS: u64 = 300_000_000;

/// The longest time to look up the sampled addresses, ns: the session does nothing else meanwhile.
const LOOK_UP_NS: u64 = 50_000_000;

/// With so many samples, none of which is in a barrier, its waits are no great loss.
const ENOUGH: u64 = 64;

/// The most barriers that are told of by their code alone.
const MAX_IN_CODE: usize = 3;

/// The most distinct addresses looked up in one look.
const MAX_ADDRESSES: usize = 512;

/// The most return addresses, from the top of the stack, that are checked for a waiting loop: a
/// loop may read or yield through other functions.
const MAX_RETURNS: usize = 4;

/// Facts about sampled addresses.
struct KnownAddresses {
    waits: HashMap<u64, Option<Wait>>,
    returns: HashMap<u64, bool>,
    watched: HashMap<u64, bool>,
    /// The time after which nothing more is looked up, ns.
    until_ns: u64,
}

impl KnownAddresses {
    /// The loop in which a sample shows its thread waiting.
    fn wait(&mut self, sample: &Sample, resolver: &mut Resolver) -> Option<Wait> {
        let mut returns = Vec::with_capacity(MAX_RETURNS);
        for &word in &sample.stack {
            let known = self.returns.entry(word);
            if *known.or_insert_with(|| resolver.is_return(word)) {
                returns.push(word);
            }
            if returns.len() == MAX_RETURNS {
                break;
            }
        }
        // A wait in a barrier that is already watched is no news.
        let mut ways = std::iter::once(sample.at).chain(returns.iter().map(|word| word - 1));
        if ways.any(|at| self.is_watched(at, resolver)) {
            return None;
        }
        if let Some(found) = self.at(sample.at, resolver) {
            return Some(found);
        }
        // Check the functions that called the sampled one. If the sampled function is the program's
        // own, it must have been called from the loop: a stack holds stale addresses too.
        let is_own = resolver.is_own(sample.at);
        returns.into_iter().find_map(|word| {
            let is_way = !is_own || resolver.has_called(word, sample.at);
            is_way.then(|| self.at(word - 1, resolver)).flatten()
        })
    }

    fn is_watched(&mut self, address: u64, resolver: &mut Resolver) -> bool {
        let known = self.watched.entry(address);
        *known.or_insert_with(|| resolver.is_watched(address))
    }

    fn at(&mut self, address: u64, resolver: &mut Resolver) -> Option<Wait> {
        if let Some(known) = self.waits.get(&address) {
            return known.clone();
        }
        if self.waits.len() >= MAX_ADDRESSES || clock::now_ns() > self.until_ns {
            return None;
        }
        let found = resolver.waits_at(address);
        self.waits.insert(address, found.clone());
        found
    }
}

/// The looks of a run and their results.
pub struct Spinning {
    wish: Spins,
    start_ns: u64,
    /// The look under way: its start, ns, and the sampler.
    sampler: Option<(u64, Sampler)>,
    /// Whether any look has been completed.
    has_looked: bool,
    looks: u32,
    /// The number of looks that began while other barriers were hit.
    beside: u32,
    found: u32,
    /// The time of the last hit at a barrier, ns.
    quiet_since_ns: u64,
    /// The number of hits so far.
    hits: u64,
    /// The earliest time of the next look, ns.
    back_ns: u64,
    /// Barriers that spin by their code alone, none of which was seen in use.
    in_code: Vec<Wait>,
    tally: Tally<WaitId>,
    places: BTreeMap<WaitId, Wait>,
    /// The functions that are tried as barriers.
    pub(super) trials: Trials,
}

impl Spinning {
    /// Starts at `now_ns`.
    pub fn new(now_ns: u64, wish: Spins) -> Self {
        Self {
            wish,
            start_ns: now_ns,
            sampler: None,
            has_looked: false,
            looks: 0,
            beside: 0,
            found: 0,
            quiet_since_ns: now_ns,
            hits: 0,
            back_ns: 0,
            in_code: Vec::new(),
            tally: Tally::default(),
            places: BTreeMap::new(),
            trials: Trials::default(),
        }
    }

    /// Whether to look now, given what has been seen of the target.
    fn is_due(&mut self, now_ns: u64, seen: Seen) -> bool {
        let hits = seen.others + seen.futexes;
        if std::mem::replace(&mut self.hits, hits) != hits {
            self.quiet_since_ns = now_ns;
        }
        let long_ns = if hits > 0 {
            QUIET_AFTER_OTHERS_NS
        } else {
            QUIET_NS
        };
        let is_quiet = now_ns.saturating_sub(self.quiet_since_ns) >= long_ns;
        let is_beside = hits > 0
            && self.beside < MAX_BESIDE
            && now_ns.saturating_sub(self.start_ns) >= BESIDE_NS;
        self.wish != Spins::Off
            && !self.trials.is_running()
            && seen.threads >= 2
            && (is_quiet || is_beside)
            && now_ns >= self.back_ns
            && self.looks < MAX_LOOKS
            && self.found < MAX_FOUND
    }

    /// Takes what has been seen of the target `pid`; begins or ends a look.
    pub fn tick(&mut self, now_ns: u64, seen: Seen, pid: u32, resolver: &mut Resolver) {
        let is_due = self.is_due(now_ns, seen);
        if let Some((since_ns, _)) = self.sampler {
            if now_ns.saturating_sub(since_ns) >= LOOK_NS {
                self.end(pid, resolver);
            }
        } else if is_due {
            self.begins(now_ns);
            // A user who may not sample gets no look.
            let sampler = Sampler::begin(&process::busy_first(pid)).ok();
            self.sampler = sampler.map(|sampler| (now_ns, sampler));
            resolver.turn_to(pid);
            resolver.refresh();
        }
    }

    /// Counts a look that begins.
    fn begins(&mut self, now_ns: u64) {
        self.back_ns = now_ns.saturating_add(AWAY_NS << self.looks);
        self.looks += 1;
        self.beside += u32::from(self.hits > 0);
    }

    /// Ends a look without a result. `now_ns`: the time until which hits at barriers were not seen.
    pub fn give_up(&mut self, now_ns: u64) {
        self.sampler = None;
        self.quiet_since_ns = now_ns;
    }

    /// Ends the look under way, if any, and evaluates its samples.
    pub fn end(&mut self, pid: u32, resolver: &mut Resolver) {
        let Some((_, sampler)) = self.sampler.take() else {
            return;
        };
        resolver.turn_to(pid);
        let taken = sampler.end();
        let mut known = KnownAddresses {
            waits: HashMap::new(),
            returns: HashMap::new(),
            watched: HashMap::new(),
            until_ns: clock::now_ns() + LOOK_UP_NS,
        };
        // Look up the most frequent addresses first, in case the time runs out.
        let mut often: HashMap<u64, u32> = HashMap::new();
        let mut pieces = Pieces::default();
        for (_, sample) in &taken {
            *often.entry(sample.at).or_default() += 1;
            pieces.add(pid, sample.at);
        }
        often.retain(|at, _| pieces.is_often(pid, *at));
        let mut often: Vec<(u64, u32)> = often.into_iter().collect();
        often.sort_unstable_by_key(|(at, times)| (std::cmp::Reverse(*times), *at));
        for (at, _) in often {
            known.at(at, resolver);
        }
        self.has_looked |= !taken.is_empty();
        for (thread, sample) in taken {
            let is_often = pieces.is_often(pid, sample.at);
            let found = is_often.then(|| known.wait(&sample, resolver)).flatten();
            self.tally.add(thread, found.as_ref().map(|wait| wait.id));
            if let Some(wait) = found {
                self.places.entry(wait.id).or_insert(wait);
            }
        }
        let suspects = self.tally.suspects();
        self.found += u32::from(!suspects.is_empty());
        if self.wish != Spins::Auto {
            return;
        }
        for (id, _) in suspects {
            if let Some(wait) = self.places.get(&id)
                && let Some(way) = wait.way
            {
                self.trials.add(Candidate {
                    id,
                    way,
                    by_code: wait.place.is_barrier,
                });
            }
        }
    }

    /// The results, most samples first; `None` if no look was completed. `again`: what to type
    /// before and after an option to watch the target in the same way.
    pub fn report(&self, again: &[String; 2]) -> Option<Vec<FoundLoop>> {
        let mut suspects = self.tally.suspects();
        suspects.sort_by_key(|(_, suspect)| std::cmp::Reverse(suspect.samples));
        let found = suspects.into_iter().filter_map(|(id, suspect)| {
            let mut place = self.places.get(&id)?.place.clone();
            match self.trials.outcome(id) {
                Some(Outcome::Barrier { .. } | Outcome::Part | Outcome::Other) => return None,
                // Neither the code nor the use says that this is a barrier.
                Some(Outcome::Unclear) if !place.is_barrier => return None,
                // Where barriers are known, a loop of unknown purpose is no reason to look further.
                None if self.hits > 0 && !place.is_barrier => return None,
                Some(Outcome::Unclear) => place.is_barrier = false,
                Some(Outcome::Fits) | None => {}
            }
            Some(FoundLoop {
                command: command(&place, None, again),
                place,
                threads: suspect.threads.len() as u64,
                samples: suspect.samples,
                of: suspect.of,
            })
        });
        let mut found: Vec<FoundLoop> = found.collect();
        let in_code = self.in_code.iter().map(|wait| FoundLoop {
            command: command(&wait.place, None, again),
            place: wait.place.clone(),
            threads: 0,
            samples: 0,
            of: 0,
        });
        found.extend(in_code);
        (self.has_looked || !found.is_empty()).then_some(found)
    }

    /// No barrier was found in the run: looks for barriers that spin in the code of the program, if
    /// the run was too short for samples.
    pub fn look_at_code(&mut self, resolver: &mut Resolver) {
        let is_short = self.tally.samples() < ENOUGH && self.tally.suspects().is_empty();
        if self.wish != Spins::Off && is_short {
            let mut found = resolver.barriers_in_code(clock::now_ns() + LOOK_UP_NS);
            found.retain(|wait| self.trials.outcome(wait.id).is_none());
            found.truncate(MAX_IN_CODE);
            self.in_code = found;
        }
    }

    /// A note for each function that was proven to be a barrier. `again`: as for [`Self::report`].
    pub fn notes(&self, again: &[String; 2]) -> Vec<String> {
        let notes = self.places.iter().filter_map(|(id, wait)| {
            let Some(Outcome::Barrier { since_ns, way }) = self.trials.outcome(*id) else {
                return None;
            };
            let after_ns = since_ns.saturating_sub(self.start_ns);
            let object = match way {
                Way::Function(object) => Some(object),
                Way::Inside(_) => None,
            };
            let command = command(&wait.place, object, again);
            let whole = command.map_or_else(String::new, |command| {
                format!(". To count all rounds: {command}")
            });
            Some(format!(
                "threads spin at the barrier {}: sbt has counted its rounds since {:.1} s after the \
                start, when the use of the function had proven that it is a barrier{whole}",
                wait.place.written(),
                after_ns as f64 / 1e9
            ))
        });
        notes.collect()
    }
}

/// The command that watches the function of a loop as a barrier; `None` if `--barrier` cannot name
/// the function. `object`: the argument that points to the barrier, 0 for none, if that is known.
fn command(place: &SpinPlace, object: Option<u8>, again: &[String; 2]) -> Option<String> {
    let function = place.barrier.as_ref().ok()?;
    let function = match object {
        Some(0) if !function.ends_with(":0") => format!("{function}:0"),
        _ => function.clone(),
    };
    let option = command_line(&["--barrier".to_owned(), function]);
    let command = format!("{} {option} {}", again[0], again[1]);
    // A command with unprintable characters cannot be typed.
    (printable(&command) == command).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    const fn seen(threads: u64, others: u64) -> Seen {
        Seen {
            threads,
            others,
            futexes: 0,
        }
    }

    #[test]
    fn is_due_when_several_threads_hit_no_barrier() {
        let mut spinning = Spinning::new(0, Spins::Auto);
        assert!(!spinning.is_due(100 * MS, seen(4, 0)));
        assert!(!spinning.is_due(300 * MS, seen(1, 0)));
        assert!(spinning.is_due(600 * MS, seen(2, 0)));
        spinning.beside = MAX_BESIDE;
        assert!(!spinning.is_due(700 * MS, seen(2, 8)), "one was hit");
        assert!(!spinning.is_due(10_600 * MS, seen(2, 8)));
        assert!(spinning.is_due(10_700 * MS, seen(2, 8)));
    }

    #[test]
    fn is_due_a_few_times_while_barriers_are_hit() {
        let mut spinning = Spinning::new(0, Spins::Auto);
        let mut looks = Vec::new();
        for tick in 0..1000 {
            let now_ns = tick * 50 * MS;
            if spinning.is_due(now_ns, seen(4, 1 + tick)) {
                spinning.begins(now_ns);
                looks.push(now_ns / MS);
            }
        }
        assert_eq!(looks, [300, 800, 1800]);
        let mut other = Spinning::new(0, Spins::Auto);
        assert!(!other.is_due(400 * MS, seen(1, 8)), "one thread");
    }

    #[test]
    fn nobody_has_looked_before() {
        assert_eq!(
            Spinning::new(0, Spins::Auto).report(&<[String; 2]>::default()),
            None
        );
    }
}
