//! The recogniser in a session: what it asks of the target's code, what it tells
//! the probes, and when they are not worth their cost.

use rustc_hash::FxHashMap;

use crate::{
    event::{CallersId, Event},
    model::Model,
    recognise::{Code, Recogniser, Relation},
    source::ebpf::Ebpf,
    target::sites::Resolver,
};

/// Above this many uses of condition variables a second, none of which is a
/// barrier, their probes come off.
const TOO_MANY: f64 = 50_000.0;

/// After this long they are put on again, ns: programs have stages. It doubles
/// each time.
const AWAY_NS: u64 = 10_000_000_000;
const MAX_AWAY_DOUBLED: u32 = 5;

/// The recogniser and what belongs to it.
pub struct Recognition {
    recogniser: Recogniser,
    /// The process of each chain of callers, and the return address.
    addresses: FxHashMap<CallersId, (u32, u64)>,
    watch: Watch,
}

/// The code, asked by addresses.
struct Asking<'a> {
    addresses: &'a FxHashMap<CallersId, (u32, u64)>,
    resolver: &'a mut Resolver,
}

impl Code for Asking<'_> {
    fn relation(&mut self, wait: CallersId, wake: CallersId) -> Relation {
        match (self.addresses.get(&wait), self.addresses.get(&wake)) {
            (Some((process, wait)), Some((other, wake))) if process == other => {
                self.resolver.turn_to(*process);
                self.resolver.relation(*wait, *wake)
            }
            _ => Relation::Unknown,
        }
    }
}

impl Recognition {
    /// For a target that may run already, or not, from `now_ns` on.
    pub fn new(runs_already: bool, now_ns: u64) -> Self {
        Self {
            recogniser: Recogniser::new(runs_already),
            addresses: FxHashMap::default(),
            watch: Watch::new(now_ns),
        }
    }

    /// A chain of callers is new.
    pub fn know(&mut self, callers: CallersId, process: u32, addresses: &[u64]) {
        if let Some(address) = addresses.first() {
            self.addresses.insert(callers, (process, *address));
        }
    }

    /// Takes an event in, and hands what comes of it to the model.
    pub fn push(&mut self, event: &Event, resolver: &mut Resolver, model: &mut Model) {
        let mut code = Asking {
            addresses: &self.addresses,
            resolver,
        };
        self.recogniser
            .push(event, &mut code, &mut |event| model.push(event));
    }

    /// Tells the probes what they need not look at.
    pub fn silence(&mut self, source: &Ebpf) {
        for (key, until_ns) in self.recogniser.take_silenced() {
            // Were it not heard, the events would only be more.
            let _heard = source.silence(key, until_ns);
        }
    }

    /// Time has come to `now_ns`: lets go what is held back for too long, and
    /// decides whether the probes are worth their cost.
    pub fn tick(
        &mut self,
        now_ns: u64,
        source: &mut Ebpf,
        model: &mut Model,
    ) -> anyhow::Result<()> {
        // What the rings still hold is older than this.
        self.recogniser.tick(now_ns, &mut |event| model.push(event));
        let counts = self.recogniser.counts();
        let uses = counts.evidence + source.passed();
        match self.watch.tick(now_ns, uses, counts.barriers > 0) {
            Some(on) => {
                self.recogniser.blind();
                source.set_condvars(on)
            }
            None => Ok(()),
        }
    }

    /// No more events will come.
    pub fn finish(&mut self, model: &mut Model) {
        self.recogniser.finish(&mut |event| model.push(event));
    }

    /// What the user should know.
    pub fn notes(&mut self) -> Vec<String> {
        let mut notes = self.recogniser.take_notes();
        notes.extend(self.watch.note());
        notes
    }
}

/// Whether condition variables are worth watching: a pure decision.
#[derive(Debug)]
struct Watch {
    last: (u64, u64),
    on: bool,
    times_off: u32,
    back_ns: u64,
}

impl Watch {
    const fn new(now_ns: u64) -> Self {
        Self {
            last: (now_ns, 0),
            on: true,
            times_off: 0,
            back_ns: 0,
        }
    }

    /// Takes the number of uses so far; says when to switch, and to what.
    fn tick(&mut self, now_ns: u64, uses: u64, has_barriers: bool) -> Option<bool> {
        let (then_ns, before) = std::mem::replace(&mut self.last, (now_ns, uses));
        let seconds = now_ns.saturating_sub(then_ns) as f64 / 1e9;
        if self.on {
            let rate = uses.saturating_sub(before) as f64 / seconds;
            if seconds <= 0.0 || has_barriers || rate <= TOO_MANY {
                return None;
            }
            self.on = false;
            let away_ns = AWAY_NS << self.times_off.min(MAX_AWAY_DOUBLED);
            self.times_off += 1;
            self.back_ns = now_ns.saturating_add(away_ns);
            Some(false)
        } else if now_ns >= self.back_ns {
            self.on = true;
            Some(true)
        } else {
            None
        }
    }

    fn note(&self) -> Option<String> {
        (self.times_off > 0).then(|| {
            format!(
                "condition variables were not watched all the time: they were used more than \
                 {TOO_MANY} times a second, and none was a barrier"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn goes_off_above_the_limit_and_tries_again_later() {
        let mut watch = Watch::new(0);
        assert_eq!(watch.tick(SECOND, 50_000, false), None);
        assert_eq!(watch.tick(2 * SECOND, 150_000, true), None);
        assert_eq!(watch.tick(3 * SECOND, 250_000, false), Some(false));
        assert_eq!(watch.tick(12 * SECOND, 250_000, false), None);
        assert_eq!(watch.tick(13 * SECOND, 250_000, false), Some(true));
        assert_eq!(watch.tick(14 * SECOND, 350_000, false), Some(false));
        assert_eq!(watch.tick(33 * SECOND, 350_000, false), None);
        assert_eq!(watch.tick(34 * SECOND, 350_000, false), Some(true));
        assert!(watch.note().is_some());
    }
}
