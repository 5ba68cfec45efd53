//! Hangs: when threads have waited at a barrier for too long without an arrival, sbt looks for the
//! missing threads, and looks again while the hang lasts.

mod asleep;
mod looking;
mod merge;
mod sight;
mod state;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

use super::Understanding;
use crate::{
    inspect::{self, KnownBarrier, Looks},
    naming::Naming,
    settings::Settings,
};
use asleep::Used;
use looking::Looking;
use sbt_engine::{
    event::address,
    hang::{
        self, Names, Scene,
        scene::{BarrierSeen, ThreadId},
    },
    model::{
        Model,
        ids::{BarrierId, PlaceId},
        still::{Since, Still, StillBarrier},
    },
    place::{Place, printable},
    report::{
        HangKind, HangOutcome, HangReport, StandstillReport, is_hang,
        order::Order,
        place_names::{name, others},
    },
    words::{since, without_codes},
};
use sbt_program::{clock, process};
pub use state::Hangs;
use state::Seen;
pub use watch::Outcome;
use watch::{Hang, LookResult, Step};

/// Stands for every wait that began unseen, before watching or while the probes were off.
const UNSEEN: BarrierId = BarrierId(u32::MAX);

/// Stands for the sleep of all threads.
const ASLEEP: BarrierId = BarrierId(u32::MAX - 1);

/// Stands for a time in which threads come to no barrier, such as while they wait in loops.
const SPINS: BarrierId = BarrierId(u32::MAX - 2);

/// The most processes in one look.
const MOST_PROCESSES: usize = 16;

impl Understanding {
    /// Decides again whether anything hangs. Call this only while the probes are on: else the
    /// missing threads may arrive unseen. `start_ns`: when watching began; `living`: the watched
    /// processes. Returns lines for the user.
    pub fn look_for_hangs(
        &mut self,
        start_ns: u64,
        living: impl Iterator<Item = u32>,
        settings: &Settings,
    ) -> Vec<String> {
        let Some(limit_ns) = self.hangs.watch.limit_ns() else {
            return Vec::new();
        };
        let now_ns = clock::now_ns();
        let living: Vec<u32> = living.collect();
        if self.hangs.looking.is_some() {
            self.hangs.asleep.disturb();
        }
        if self.hangs.asleep.is_due(now_ns, limit_ns) {
            let all = living.iter();
            let all = all.map(|process| (*process, process::used_ns(*process)));
            let all = all.filter(|(_, threads)| !threads.is_empty());
            let (processes, threads): (Vec<u32>, Vec<_>) = all.unzip();
            let used = Used {
                processes,
                threads: threads.into_iter().flatten().collect(),
                arrivals: self.model.totals().arrivals,
            };
            self.hangs.asleep.see(now_ns, used);
        }
        self.hangs.sight.see(now_ns, self.model.totals().arrivals);
        let mut lines: Vec<String> = self
            .finish_look(now_ns, start_ns, settings)
            .into_iter()
            .collect();
        let waits = self.waits(start_ns, now_ns);
        let mut still = self.model.standing_still(now_ns, limit_ns);
        if !self.recognition.holds_back() {
            let is_due = |still: &Still| now_ns.saturating_sub(still.since_ns) >= limit_ns;
            still.extend(waits.unseen.filter(is_due));
            if still.is_empty() {
                still.extend(waits.sleep.filter(is_due));
            }
            if still.is_empty() {
                still.extend(waits.spins);
            }
        }
        let model = &self.model;
        // Threads and ranks end one after the other: what was found before holds.
        if self.hangs.is_ending(now_ns) {
            return lines;
        }
        let has_gone = process::find(self.pid).is_err();
        let since = |still: &Still| since_then(model, waits, has_gone, still);
        match self.hangs.watch.tick(now_ns, still, since) {
            Step::Wait => {}
            Step::Look(still) => {
                self.hangs.note_restless(now_ns);
                self.begin_look(still, living.into_iter());
            }
            Step::Over(hang) => lines.extend(self.line(&hang)),
        }
        lines
    }

    /// The wait that may have begun unseen: before sbt joined the process, or while the probes were
    /// off. `None` if there can be none.
    fn unseen(&self, start_ns: u64) -> Option<Still> {
        let nobody_came = self.model.totals().arrivals == 0;
        let before = self.is_joined && nobody_came && !self.hangs.is_idle;
        let since_ns = if before {
            Some(start_ns)
        } else {
            self.hangs.sight.unseen_since_ns()
        };
        since_ns.map(|since_ns| Still {
            since_ns,
            barrier: UNSEEN,
            episode: 0,
        })
    }

    /// The waits at no barrier that last.
    fn waits(&self, start_ns: u64, now_ns: u64) -> Waits {
        let looked = self.hangs.watch.present(now_ns);
        Waits {
            unseen: self.unseen(start_ns),
            sleep: self.sleep(),
            spins: self.spins(now_ns),
            looked_ns: looked.map(|hang| hang.found.what.at_ns),
        }
    }

    /// The sleep of all threads, if it lasts.
    fn sleep(&self) -> Option<Still> {
        let since_ns = self.hangs.asleep.since_ns(self.model.totals().arrivals)?;
        Some(Still {
            since_ns,
            barrier: ASLEEP,
            episode: since_ns,
        })
    }

    /// The time without a barrier, if it lasts and a look is due.
    fn spins(&self, now_ns: u64) -> Option<Still> {
        let limit_ns = self.hangs.limit_ns()?;
        let arrivals = self.model.totals().arrivals;
        let since_ns = self.hangs.asleep.still_ns(now_ns, limit_ns, arrivals)?;
        Some(Still {
            since_ns,
            barrier: SPINS,
            episode: since_ns,
        })
    }

    /// Starts a look at the barriers that stand still, on a separate thread.
    fn begin_look(&mut self, still: Vec<Still>, living: impl Iterator<Item = u32>) {
        if self.hangs.looking.is_some() {
            return;
        }
        let rows = self.model.threads().rows();
        let seen = still.iter().filter(|still| is_of_model(still));
        let known: Vec<StillBarrier> = seen.map(|still| self.model.known(still)).collect();
        // The thread missing at a barrier that processes share may never have been at that barrier.
        let is_shared = known.iter().any(|known| known.key.0 == 0);
        let mut processes: BTreeSet<u32> = known
            .into_iter()
            .flat_map(|known| known.members)
            .map(|member| &rows[member.row.index()])
            .filter(|row| !row.ended)
            .map(|row| row.shown.1)
            .collect();
        if still.iter().any(|still| still.barrier == UNSEEN) {
            processes.insert(self.pid);
        }
        // A wait that began unseen may be in any process.
        let is_anywhere = self.hangs.sight.unseen_since_ns().is_some();
        let is_of_all = |still: &Still| matches!(still.barrier, ASLEEP | SPINS);
        if is_shared || is_anywhere || still.iter().any(is_of_all) {
            processes.extend(living);
        }
        // Children that are not watched, and for which a watched process waits.
        let more: Vec<u32> = processes
            .iter()
            .flat_map(|process| inspect::concerned(*process))
            .collect();
        processes.extend(more);
        let left_out = processes.len().saturating_sub(MOST_PROCESSES);
        let processes: Vec<u32> = processes.into_iter().take(MOST_PROCESSES).collect();
        let how = Looks {
            barriers: self.recognised_barriers(),
            tracer: self.hangs.tracer.clone(),
            ..Looks::default()
        };
        // If the thread cannot be started now, the next tick tries again.
        self.hangs.looking = Looking::begin(still, move || look(&processes, left_out, &how)).ok();
    }

    /// The recognised barriers, which memory alone does not show to be barriers.
    fn recognised_barriers(&self) -> Vec<KnownBarrier> {
        let all = self.model.barriers().all().iter();
        let recognised = all.filter(|barrier| barrier.kind.is_recognised() && barrier.key.0 != 0);
        recognised
            .map(|barrier| KnownBarrier {
                process: barrier.key.0,
                address: address(barrier.key.1),
                kind: barrier.kind,
            })
            .collect()
    }

    /// Takes the result of a look that is over. Returns a line for the user if there is news.
    fn finish_look(&mut self, now_ns: u64, start_ns: u64, settings: &Settings) -> Option<String> {
        let looking = self.hangs.looking.take_if(|looking| looking.is_over())?;
        self.hangs.note_look(now_ns);
        // If the look has failed, the next one may succeed.
        let (still, mut scene) = looking.end()?;
        let waits = self.waits(start_ns, now_ns);
        let model = &self.model;
        let is_behind = self.recognition.holds_back();
        let mut still: Vec<&Still> = still
            .iter()
            .filter(|still| !is_behind || is_of_model(still))
            .filter(|still| since_then(model, waits, false, still) == Since::Still)
            .collect();
        // The threads went on during the look.
        if still.is_empty() {
            return None;
        }
        let before = still.len();
        let is_asleep = still.iter().any(|still| still.barrier == ASLEEP);
        let is_spinning = still.iter().any(|still| still.barrier == SPINS);
        still.retain(|still| still.barrier != UNSEEN);
        let is_unseen = still.len() < before;
        still.retain(|still| is_of_model(still));
        let known: Vec<StillBarrier> = still.iter().map(|still| model.known(still)).collect();
        let barriers = self.standing(&known, now_ns, settings);
        // The process was about to end: what the last look found still holds.
        let has_gone = process::find(self.pid).is_err();
        if has_gone || merge::is_ending(&scene, &barriers) {
            return None;
        }
        for seen in &mut scene.threads {
            seen.ran_lately = self.hangs.restless.contains(&seen.id.thread);
        }
        let at = merge::merge(&mut scene, barriers);
        // If all threads have arrived, only the look can show that one is missing after all, or that they
        // wait inside of the barrier, as ranks that call different functions.
        let only_full = !known.is_empty() && known.iter().all(|known| known.full);
        if known.iter().any(|known| known.unsure) {
            let note =
                "events were lost: sbt is not certain which threads have come to the barrier";
            scene.notes.push(note.into());
        }
        let barriers = still.iter().map(|still| still.barrier);
        let seen = Rc::new(Seen {
            barriers: at.into_iter().zip(barriers).collect(),
            scene,
            at_ns: now_ns,
            is_asleep,
            is_spinning,
            is_full: only_full,
        });
        let report = self.judge(&seen, now_ns);
        let report =
            report.filter(|report| !only_full || report.barrier.is_some() || !is_hang(report));
        let is_blind = report.is_none() && is_spinning && merge::is_blind(&seen.scene);
        let was_stuck = self.hangs.watch.present(now_ns);
        let was_stuck = was_stuck.is_some_and(|hang| hang.found.is_stuck);
        // A look that did not see where threads run tells nothing: the result of the look before still
        // holds, and the next look comes soon.
        if is_blind && !was_stuck {
            return None;
        }
        if is_spinning && report.is_none() {
            self.hangs.asleep.goes_on(now_ns);
        }
        // A sleeping thread need not hang; a thread that waits at a barrier may. After a time
        // without probes, any thread at a barrier waits for another that is slow or about to be
        // stuck.
        let began = self.hangs.sight.unseen_since_ns().is_some();
        let hangs = |report: &HangReport| (began || is_hang(report)) && report.barrier.is_some();
        if is_unseen && !report.as_ref().is_some_and(hangs) {
            self.hangs.is_idle = true;
            self.hangs.sight.clear();
            return None;
        }
        let found = report.map(|report| LookResult {
            is_stuck: is_hang(&report),
            what: seen,
        });
        let hang = self.hangs.watch.looked(now_ns, found)?;
        self.line(&hang)
    }

    /// The barriers that stand still as the model knows them, with the names of their places.
    fn standing(
        &self,
        known: &[StillBarrier],
        now_ns: u64,
        settings: &Settings,
    ) -> Vec<BarrierSeen> {
        let places: Vec<&Place> = self.resolver.places().iter().map(AsRef::as_ref).collect();
        let naming = Naming(settings);
        let barriers = known.iter().map(|known| {
            let place = |id: PlaceId| places.get(id.0 as usize).copied();
            // Places of one barrier need not be distinguished from each other.
            let members = known.members.iter();
            let mine: Vec<&Place> = members.filter_map(|member| place(member.place?)).collect();
            let others = others(&mine, &places);
            merge::of_model(known, &self.model, now_ns, |id| {
                let place = place(id).filter(|place| !self.resolver.is_call_back(place))?;
                let called = name(place, &others);
                Some(match naming.name(place) {
                    Some(given) => format!("{given} ({called})"),
                    None => called,
                })
            })
        });
        barriers.collect()
    }

    /// The conclusion from a look, with the current names of threads and barriers.
    fn judge(&self, seen: &Seen, until_ns: u64) -> Option<HangReport> {
        let mut scene = seen.scene.clone();
        merge::age(&mut scene, until_ns.saturating_sub(seen.at_ns));
        let names = self.names(seen);
        let found = hang::judge_as(&scene, &names);
        if seen.is_spinning {
            // Threads that are slow are no hang here.
            let found = found.filter(is_hang);
            return found.or_else(|| hang::spinning_as(&scene, &names));
        }
        if seen.is_full {
            return found.or_else(|| hang::spinning_as(&scene, &names));
        }
        let is_asleep = seen.is_asleep;
        found.or_else(|| is_asleep.then(|| hang::asleep_as(&scene, &names)).flatten())
    }

    fn names(&self, seen: &Seen) -> Names {
        let model = &self.model;
        let order = Order::new(model);
        let rows = order.by_index(model.threads().rows()).into_iter();
        let threads = rows
            // Threads that share a row cannot be distinguished.
            .filter(|(_, row)| row.threads == 1)
            .map(|(number, row)| {
                let id = ThreadId {
                    process: row.shown.1,
                    thread: row.shown.0,
                };
                (id, (number, order.label(number)))
            });
        let own = (0..).zip(model.barriers().all());
        let mut barriers: HashMap<(u32, u64), u32> = own
            .filter(|(_, barrier)| barrier.heard_ns > 0 && barrier.key.0 != 0)
            .map(|(id, barrier)| ((barrier.key.0, address(barrier.key.1)), id))
            .collect();
        for (at, id) in &seen.barriers {
            let barrier = &seen.scene.barriers[*at];
            barriers.insert((barrier.process, barrier.address), id.0);
        }
        Names {
            threads: threads.collect(),
            barriers,
        }
    }

    /// Notes that the program was sent a signal to end it: what its threads do from then on says nothing
    /// of what they did before.
    pub fn expect_end(&mut self, now_ns: u64) {
        self.hangs.expect_end(now_ns);
    }

    /// Waits for the look under way, if any, and ignores its result: if sbt were stopped during a
    /// look, threads of the target would stay stopped.
    pub async fn let_look_end(&self) {
        self.hangs.let_look_end().await;
    }

    /// The time of the last look at the current or longest hang, ns, and its outcome.
    pub fn hang_state(&self, now_ns: u64) -> Option<(u64, Outcome)> {
        self.hangs.state(now_ns)
    }

    /// Settles the outcome of a hang when watching has ended and all events are known. Returns a
    /// line for the user if the hang is over.
    pub(super) fn settle_hangs(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        killed: bool,
    ) -> Option<String> {
        let waits = self.waits(start_ns, end_ns);
        let model = &self.model;
        let killed = killed || self.hangs.is_ending(end_ns);
        let since = |still: &Still| since_then(model, waits, killed, still);
        match self.hangs.watch.settle(end_ns, since) {
            Step::Over(hang) => self.line(&hang),
            Step::Wait | Step::Look(_) => None,
        }
    }

    /// The hang to report, if any.
    pub fn hang_report(&self, until_ns: u64) -> Option<StandstillReport> {
        let hang = self.hangs.watch.hang(until_ns)?;
        Some(StandstillReport {
            lasted_ns: hang.lasted_ns(),
            outcome: match hang.outcome {
                Outcome::Lasts => HangOutcome::Lasts,
                Outcome::Over => HangOutcome::Over,
                Outcome::Unknown => HangOutcome::Unknown,
            },
            found: self
                .judge(&hang.found.what, hang.until_ns)
                .filter(|found| self.hangs.tells_outside || !is_only_asleep(found))?,
        })
    }

    /// The line for the user: a hang was found, or is over.
    fn line(&self, hang: &Hang<Rc<Seen>>) -> Option<String> {
        let report = self.judge(&hang.found.what, hang.until_ns)?;
        let text = printable(&report.text);
        let lasted = since(hang.lasted_ns());
        Some(match hang.outcome {
            Outcome::Lasts => format!("hang: {text}"),
            Outcome::Over | Outcome::Unknown => {
                format!("the hang is over after {lasted}: {text}")
            }
        })
    }
}

/// Whether a program merely waits for the outside, without a barrier.
fn is_only_asleep(found: &HangReport) -> bool {
    found.kind == HangKind::Outside && found.barrier.is_none()
}

/// Whether a wait is at a barrier of the model.
fn is_of_model(still: &Still) -> bool {
    !matches!(still.barrier, UNSEEN | ASLEEP | SPINS)
}

/// Waits at no barrier, if they still last, and when sbt last looked.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    /// The wait that began unseen.
    unseen: Option<Still>,
    /// The sleep of all threads.
    sleep: Option<Still>,
    /// The time without a barrier.
    spins: Option<Still>,
    /// When the last look was over, ns.
    looked_ns: Option<u64>,
}

/// The present state of a barrier that stood still. `has_ended`: the program has ended, maybe by a
/// signal, so that threads which left a barrier may have ended there.
fn since_then(model: &Model, waits: Waits, has_ended: bool, still: &Still) -> Since {
    let [is_sleep, is_spin] = [ASLEEP, SPINS].map(|barrier| still.barrier == barrier);
    let lasts = if is_sleep { waits.sleep } else { waits.spins };
    // The last look has seen these threads where they still sleep.
    let slept_on = waits.sleep.zip(waits.looked_ns);
    let slept_on = slept_on.is_some_and(|(sleep, looked_ns)| sleep.since_ns <= looked_ns);
    match waits.unseen {
        _ if is_sleep || is_spin => match lasts {
            Some(lasts) if lasts.since_ns == still.since_ns => Since::Still,
            // The end of a program takes a CPU as well.
            _ if has_ended => Since::Lost,
            _ => Since::Moved,
        },
        _ if still.barrier != UNSEEN => match model.since(still) {
            Since::Moved if has_ended && !model.has_arrivals_since(still) => Since::Lost,
            since => since,
        },
        Some(_) => Since::Still,
        None if slept_on && !has_ended => Since::Still,
        None if model.totals().arrivals > 0 => Since::Moved,
        None => Since::Lost,
    }
}

/// Looks at processes; if that fails, the scene's note says why. `left_out`: the number of further
/// processes that were too many.
fn look(processes: &[u32], left_out: usize, how: &Looks) -> Scene {
    let mut scene = inspect::at(processes, how).unwrap_or_else(|error| Scene {
        notes: vec![without_codes(&format!("{error:#}"))],
        partial: true,
        ..Scene::default()
    });
    if left_out > 0 {
        scene.partial = true;
        scene.notes.push(format!(
            "sbt looked at {MOST_PROCESSES} processes only, and not at {left_out} more; `sbt hang \
             PID` looks at any process"
        ));
    }
    scene
}
