//! Notices other tools in the way of the breakpoints, and what was missed because of them.

use std::time::{Duration, Instant};

use super::{CLOSED, REFUSED, Space, Traced, Tracer};

/// How often the breakpoints in memory are checked for probes that other tools have set or removed.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often they are checked if another tool's probe hides that libraries are loaded.
const LOOK_FOR_LIBRARIES_EVERY: Duration = Duration::from_millis(20);

/// The note where another tool's probe takes the traps, and the next instruction cannot be watched
/// instead.
const BLIND: &str = "another sbt, bpftrace or a debugger has probes or breakpoints at barriers: \
    sbt's breakpoints do not see what threads do there; end the other tool first, or use --backend \
    ebpf";

/// The note where another tool's probe takes the traps, and the next instruction is watched
/// instead.
const DISTURBED: &str = "another sbt, bpftrace or a debugger has probes or breakpoints at \
    barriers: sbt watches the instructions behind them, and counts as lost the events that it \
    missed before it noticed";

impl Tracer {
    /// Notes once which other tools are in the way.
    pub(super) fn notice_others(&mut self) {
        if self.spaces.values().any(Space::is_blind) {
            self.note_once(BLIND);
        } else if self.spaces.values().any(Space::is_disturbed) {
            self.note_once(DISTURBED);
        }
        if self.spaces.values().any(Space::is_closed) {
            self.note_once(CLOSED);
        }
    }

    /// How long the tracer may sleep until the next look at the breakpoints.
    pub(super) fn look_every(&self) -> Duration {
        if self.spaces.values().any(Space::misses_libraries) {
            LOOK_FOR_LIBRARIES_EVERY
        } else {
            LOOK_EVERY
        }
    }

    /// Checks from time to time whether other tools are in the way of the breakpoints.
    pub(super) fn look_for_others(&mut self) {
        if self.leaving || self.looked.elapsed() < self.look_every() {
            return;
        }
        self.looked = Instant::now();
        let mut missing = Vec::new();
        let mut errors = Vec::new();
        let mut is_changed = false;
        for (number, space) in &mut self.spaces {
            let found = space.look_for_others(&self.wanted);
            missing.push((*number, found.missing));
            if found.is_changed {
                is_changed = true;
                errors.extend(space.refresh(&self.wanted).err());
            }
        }
        if is_changed {
            self.programs.walks.renew();
        }
        for (number, missing) in missing {
            self.lose(number, missing);
        }
        for error in errors {
            self.note_once(&format!("{REFUSED}: {error}"));
        }
    }

    /// Asks all barriers how many arrivals were missed, before a time without watching.
    pub(super) fn look_for_missing(&mut self) {
        let mut all = Vec::new();
        for (number, space) in &mut self.spaces {
            all.push((*number, space.missing()));
            space.forget_witnesses();
        }
        for (number, missing) in all {
            self.lose(number, missing);
        }
    }

    /// Counts unseen arrivals in a memory. Which threads made them is not known.
    pub(super) fn lose(&mut self, space: u32, missing: u64) {
        if missing == 0 {
            return;
        }
        self.lost += missing;
        self.unseen += missing;
        let most = usize::try_from(missing).unwrap_or(usize::MAX);
        let is_there = |traced: &&mut Traced| traced.space == Some(space) && traced.heard;
        for traced in self.threads.values_mut().filter(is_there).take(most) {
            traced.slot.miss(1);
        }
        self.programs.distrust();
    }

    /// Notes at the end how much was missed.
    pub(super) fn note_unseen(&mut self) {
        if self.unseen > 0 {
            self.notes.push(format!(
                "{} or more arrivals and other events were not seen: barriers counted more \
                 arrivals than breakpoints did, or another tool removed breakpoints or had its own \
                 in their place",
                self.unseen
            ));
        }
    }
}
