//! Puts jumps on the places of the target, looks what other tools do to them, and takes them out.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Inside, NEXT, Place, Watch};
use crate::source::{
    inject::{
        armed::Fate,
        remote::{SLEEP, at_end_of_call, let_all_go, stop_all},
        ring::Reader,
        site::{Site, sites},
        space::{Space, Why},
    },
    polled::Polling as _,
    ptrace::{inject::NO_WAYS, mapped, stop::Stop},
};
use sbt_program::{files::ProbedFile, process};

/// How often sbt tries to find a thread that does system calls for it, and the pause between two tries.
const TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// How often sbt looks whether other tools have put probes on its jumps.
const LOOKS_FOR_PROBES: Duration = Duration::from_millis(20);

impl Watch {
    /// Watches more files.
    ///
    /// # Errors
    /// The program runs, and cannot be watched: the reason.
    pub(super) fn watch_files(&mut self, files: &[Arc<ProbedFile>]) -> Result<(), Why> {
        let (new, notes) = self.files.take(files);
        self.notes.extend(notes);
        // A library may have been mapped again.
        if new.is_empty() && (self.loads || self.wanted().is_empty()) {
            return Ok(());
        }
        let all: Vec<&ProbedFile> = self.files.watched.iter().map(|file| &**file).collect();
        self.number_at = all.iter().find_map(|file| file.thread_number());
        self.sites = sites(&all);
        let is_static = all.iter().zip(&self.sites);
        let is_static = is_static
            .into_iter()
            .any(|(file, sites)| file.is_static() && !sites.found.is_empty());
        if is_static {
            return Err("the program is linked statically".into());
        }
        if self.loads {
            return Ok(());
        }
        if process::is_stopped(self.target) {
            return Err("it is stopped by a signal; continue it first (kill -CONT)".into());
        }
        for _ in 1..TRIES {
            let placed = self.place(Vec::new());
            if !placed.as_ref().is_err_and(|why| why == SLEEP) {
                return placed;
            }
            let stops = at_end_of_call(self.target).into_iter().collect();
            let placed = self.place(stops);
            if !placed.as_ref().is_err_and(|why| why == SLEEP) {
                return placed;
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
        self.place(Vec::new())
    }

    /// Puts jumps on all wanted places, for which all threads stand for a moment. `stops`: threads that
    /// the calling thread has stopped already. Must be called on a thread of its own: see
    /// [`super::remote`].
    ///
    /// # Errors
    /// The program cannot be watched: the reason.
    pub(super) fn place(&mut self, stops: Vec<Stop>) -> Result<(), Why> {
        let mut result = Ok(());
        if self.wanted().is_empty() {
            let_all_go(stops);
            return self.refused.clone().map_or(Ok(()), Err);
        }
        match stop_all(self.target, stops) {
            Ok(stops) => let_all_go(self.place_standing(stops)),
            Err(error) => {
                result = Err(match error.kind() {
                    io::ErrorKind::TimedOut => "its threads do not stop".into(),
                    _ => format!("its threads may not be traced ({error})"),
                });
            }
        }
        result?;
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// The addresses that lack a jump, with their sites.
    pub(super) fn wanted(&mut self) -> Vec<(u64, Site)> {
        let mut wanted = Vec::new();
        if self.files.watched.is_empty() || self.has_left {
            return wanted;
        }
        for mapping in mapped::of(self.target).unwrap_or_default() {
            let mut files = self.files.watched.iter();
            let Some(index) = files.position(|file| file.id == mapping.id) else {
                continue;
            };
            self.tell_of(index);
            let sites = self.sites.get(index).map(|sites| &sites.found);
            for site in sites.into_iter().flatten() {
                let Some(at) = mapping.address_of(site.offset) else {
                    continue;
                };
                let inside = self.inside.as_ref();
                let has = inside.is_some_and(|inside| inside.space.has(at));
                if !has && !self.failed.contains(&at) {
                    wanted.push((at, site.clone()));
                }
            }
        }
        wanted
    }

    /// Tells the user what is not watched in a file that is mapped.
    fn tell_of(&mut self, index: usize) {
        let Some(sites) = self.sites.get(index) else {
            return;
        };
        if !self.told_of.insert(index) {
            return;
        }
        let names = sites.unwatched.join(", ");
        let (marks, condvars, other) = (!sites.marks.is_empty(), sites.condvars, sites.other);
        self.marks.extend(&sites.marks);
        if !names.is_empty() {
            self.note(&format!(
                "no instruction that a jump could replace was found for: {names}; not watched; {NEXT}"
            ));
        }
        if other {
            self.note(&format!(
                "with --backend inject only the functions of --barrier are watched, if there are any; \
                 {NEXT}"
            ));
        }
        if marks {
            self.note(&format!(
                "marks are not watched with --backend inject; {NEXT}"
            ));
        }
        if condvars {
            self.note(&format!(
                "condition variables, and barriers made of them, are not watched with --backend \
                 inject; {NEXT}"
            ));
        }
    }

    /// As [`Watch::place`], where all threads stand already, and still stand then.
    pub(super) fn place_standing(&mut self, mut stops: Vec<Stop>) -> Vec<Stop> {
        let wanted = self.wanted();
        let Some((near, _)) = wanted.first() else {
            return stops;
        };
        // Of an earlier try.
        self.refused = None;
        if self.inside.is_none() {
            let made = self.number_at.ok_or_else(|| {
                "its C library does not tell where it keeps the numbers of threads".to_owned()
            });
            let made = made.and_then(|number| {
                Space::begin(self.target, &mut stops, *near, number, &self.keeper)
            });
            match made {
                Ok(space) => {
                    self.inside = Some(Inside {
                        reader: Reader::new(space.rings()),
                        own: space.own(),
                        space,
                    });
                }
                // The C library is yet to be loaded.
                Err(why) if self.loads && why == NO_WAYS => return stops,
                Err(why) if why == SLEEP => {
                    self.refused = Some(why);
                    return stops;
                }
                Err(why) => {
                    self.note(&format!("nothing is watched: {why}; {NEXT}"));
                    self.failed.extend(wanted.iter().map(|(at, _)| *at));
                    self.refused = Some(why);
                    return stops;
                }
            }
        }
        for (at, site) in wanted {
            let Some(inside) = &mut self.inside else {
                return stops;
            };
            let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
            let name = sbt_engine::place::printable(&site.symbol);
            match inside.space.arm(&mut stops, at, &site, place) {
                Ok(()) => self.places.push(Place {
                    at,
                    name,
                    capture: site.capture,
                    program: site.program,
                }),
                Err(why) => {
                    self.failed.insert(at);
                    self.note(&format!("{name} is not watched: {why}; {NEXT}"));
                    self.refused.get_or_insert(format!("{name}: {why}"));
                }
            }
        }
        if !self.places.is_empty() {
            self.refused = None;
        }
        let on = !self.paused;
        if let Some(inside) = &mut self.inside {
            inside.space.switch(on);
        }
        stops
    }

    /// Looks whether other tools have put probes on sbt's jumps, and tells what is not seen there.
    pub(super) fn look_for_probes(&mut self) {
        let Some(inside) = &mut self.inside else {
            return;
        };
        if self.looked.elapsed() < LOOKS_FOR_PROBES {
            return;
        }
        self.looked = Instant::now();
        let was_hidden = inside.space.is_hidden();
        let fates = inside.space.look_for_probes();
        let is_hidden = was_hidden || inside.space.is_hidden();
        for (at, fate) in fates {
            // How many arrivals are not seen is not known.
            self.lost = self.lost.saturating_add(1);
            let until = match fate {
                Fate::Covered => "until it goes",
                Fate::Lost => {
                    self.has_lost_place = true;
                    self.failed.insert(at);
                    "from then on"
                }
            };
            let place = self.places.iter().rfind(|place| place.at == at);
            let name = place.map_or("a function", |place| &place.name);
            let note = format!(
                "another tool has put a kernel probe or a breakpoint on the instruction of {name} at \
                 which sbt watches: sbt does not see who comes there {until}; {NEXT}"
            );
            self.note(&note);
        }
        if is_hidden || self.has_lost_place {
            // Any thread may have come there, so that it has worked for a shorter time than it seems.
            let members = self.threads.values_mut();
            members.for_each(|member| member.slot.miss_some());
            self.programs.distrust();
        }
    }

    /// Takes the program's jumps out again, for which all threads stand for a moment. What was noted
    /// until now is still to be taken. Must be called on a thread of its own, as [`Watch::place`].
    pub(super) fn take_out(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        let Some(inside) = &mut self.inside else {
            return;
        };
        inside.space.switch(false);
        if !inside.space.is_there() {
            return;
        }
        match stop_all(self.target, Vec::new()) {
            Ok(stops) => {
                let others = inside.space.restore();
                let_all_go(stops);
                if !others.is_empty() {
                    self.note(
                        "another program has changed the code at a place that sbt watched; sbt \
                         has left it as it is",
                    );
                }
            }
            Err(error) => self.note(&format!(
                "sbt could not stop the program to take out what it had put in ({error}); it is \
                 switched off, and remains without effect until the program ends"
            )),
        }
    }
}
