//! Collects the results of a session for a report.

use super::{Sampling, Session};
use crate::{
    naming::Naming,
    settings::{Conceptual, Mark},
    source::Totals,
};
use sbt_engine::{
    place::Place,
    report::{Report, Run},
    verdict,
    words::command_line,
};
use sbt_program::{clock, process};

impl Session {
    pub(super) fn report(&mut self, totals: Totals, ended: bool) -> Report {
        self.cost.wait_for(self.model.totals().arrivals);
        self.cost.look(&mut self.model);
        self.forget_unwatched();
        self.recognition.finish(&mut self.model);
        self.settle_hangs();
        self.model.finish();
        self.narrate();
        let known = |note: &String| self.notes.contains(note);
        let (_, new): (Vec<_>, Vec<_>) = totals.notes.into_iter().partition(known);
        self.notes.extend(new);
        self.lost = totals.lost;
        // A failure to write becomes a note.
        self.write_down();
        let none_found = self.model.totals().arrivals == 0;
        if none_found {
            let again = self.again();
            let hints = self.recognition.hints(&mut self.resolver, &again);
            self.notes.extend(hints);
        }
        let none_found_because = none_found
            .then(|| self.resolver.why_nothing_is_found())
            .flatten();
        let (watched, watched_omitted) = self.narrator.take_kept();
        let mut run = Run {
            watched,
            watched_omitted,
            ended: ended || self.lifetime.is_over || self.exit_status.is_some(),
            none_found_because,
            folded: self.recorded_stacks(),
            ..self.facts(self.end_ns)
        };
        // The resolver's notes need all places, and finding them takes time: ask only at the end.
        run.notes.extend(self.resolver.notes());
        let places: Vec<&Place> = self.resolver.places().iter().map(AsRef::as_ref).collect();
        run.notes.extend(Naming(&self.settings).unmatched(&places));
        let facts = self.recording.as_ref().map(|_| run.clone());
        let report = verdict::with(Report::new(&self.model, self.resolver.places(), run));
        self.end_recording(facts, &report);
        report
    }

    /// The notes for the user, as known until `until_ns`.
    pub(super) fn all_notes(&self, until_ns: u64) -> Vec<String> {
        let mut notes = self.notes.clone();
        notes.extend(self.processes.notes());
        notes.extend(self.recognition.notes());
        notes.extend(self.stopped.note());
        notes.extend(self.governor.note());
        notes.extend(self.note_of_budget(until_ns));
        notes.extend(self.futexes.note());
        notes.extend(self.locks.note());
        if self.lost_so_far() > 0 {
            notes.extend(self.locks.note_of_loss());
        }
        notes.extend(self.sampling.as_ref().and_then(Sampling::note));
        notes
    }

    /// The target has executed a program for the first time. The run of a program that sbt started
    /// begins with this exec, not when sbt let the program go.
    pub(super) fn begin_program(&mut self, time_ns: u64) {
        // The user may have reset the totals meanwhile.
        if self.running.is_some() && time_ns > self.start_ns {
            self.start_ns = time_ns;
            self.narrator.begin_at(time_ns);
        }
    }

    /// Sets the end of watching to the end of the program, not to the time at which sbt noticed
    /// that end. Call this after all events have been taken in. `lost`: some events were lost.
    pub(super) fn settle_end(&mut self, lost: bool) {
        if !self.lifetime.is_over {
            // Events were counted until the last probe was removed.
            self.end_ns = self.end_ns.max(self.lifetime.seen_ns());
            return;
        }
        match self.lifetime.end_ns(lost) {
            Some(end_ns) => self.end_ns = self.end_ns.min(end_ns).max(self.start_ns),
            None => self.notes.push(
                "sbt did not see the exact end of the program: the wall time lasts until sbt \
                 noticed the end, and may be too long"
                    .into(),
            ),
        }
        if self.running.is_some() && !self.lifetime.has_begun() {
            self.notes.push(
                "sbt did not see the exact start of the program: the wall time begins when sbt let \
                 the program start, and may be too long"
                    .into(),
            );
        }
    }

    /// The number of events lost so far.
    fn lost_so_far(&self) -> u64 {
        let source = self.source.as_ref();
        source.map_or(self.lost, |source| source.lost())
    }

    /// The note on what was not watched to keep to the budget.
    fn note_of_budget(&self, until_ns: u64) -> Option<String> {
        let budget = self.budget.budget()?;
        let Some((since_ns, off_ns)) = self.budget.thinned(until_ns) else {
            return self.budget.has_dropped_departures().then(|| {
                format!(
                    "watching took more than {budget} % of a thread's time: departures were no \
                     longer watched (--budget off watches everything)"
                )
            });
        };
        let since = since_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        let all_ns = until_ns.saturating_sub(self.start_ns).max(1);
        let seen = 100.0 - off_ns as f64 / all_ns as f64 * 100.0;
        let totals = if self.model.knows_all_arrivals() {
            "but all arrivals are counted, since the barriers count their rounds"
        } else {
            "and too few arrivals are counted, since some barriers do not count their rounds"
        };
        Some(format!(
            "watching took more than {budget} % of a thread's time: from {since:.1} s on the \
             probes were on part of the time only, {seen:.0} % of the run in all; episodes, times \
             and shares cover that part, {totals} (--budget off watches everything)"
        ))
    }

    /// The command line that watches the target in the same way: the part before and the part after
    /// further options.
    fn again(&self) -> [String; 2] {
        let [mut before, after] = match (&self.running, &self.command[..]) {
            // The process has ended: its id may belong to another process now.
            (None, _) if process::find(self.pid).is_err() => ["sbt attach".into(), "PID".into()],
            (None, _) => ["sbt attach".into(), self.pid.to_string()],
            (_, [sbt, demo, rest @ ..]) if sbt == "sbt" && demo == "demo" => {
                ["sbt demo".into(), command_line(rest)]
            }
            (_, command) => ["sbt run".into(), format!("-- {}", command_line(command))],
        };
        for barrier in &self.settings.barriers {
            let option = ["--barrier".to_owned(), barrier.to_string()];
            before = format!("{before} {}", command_line(&option));
        }
        [before, after]
    }

    /// The facts of the run that are not in the model, up to `until_ns`.
    pub(super) fn facts(&self, until_ns: u64) -> Run {
        let places = self.resolver.places();
        let naming = Naming(&self.settings);
        let names = self.model.sites().all().iter().map(|site| {
            let mut mine = site.places.iter();
            mine.find_map(|id| naming.name(places.get(id.0 as usize)?))
                .map(str::to_owned)
        });
        Run {
            backend: self.backend.into(),
            method: self.method.clone(),
            command: self.command.clone(),
            pid: self.pid,
            start_ns: self.start_ns,
            start_unix_ns: self.start_ns + self.narrator.unix_offset_ns,
            names: names.collect(),
            conceptual: self.settings.phases.iter().map(written_phase).collect(),
            marks: self.settings.marks.iter().map(written_mark).collect(),
            unseen_marks: match &self.source {
                Some(source) => source.unseen_marks(),
                None => self.unseen_marks.clone(),
            },
            warnings: self.narrator.warnings(),
            wall_ns: until_ns.saturating_sub(self.start_ns),
            ended: self.exit_status.is_some(),
            exit_status: self.exit_status,
            had_children: self.had_children,
            children: self.children,
            cpus: self.cpus.number,
            lost: self.lost_so_far(),
            departures: self.governor.summary(),
            locks: self.locks.report(),
            hang: self.hang_report(until_ns),
            hang_time_ns: self.hangs.limit_ns(),
            hang_unwatched_ns: self.hangs.unwatched_ns(until_ns),
            started: Some(self.running.is_some()),
            left_processes: self.processes.left(),
            spins: self.spinning.report(&self.again()),
            notes: self.all_notes(until_ns),
            counters: self.counters.clone(),
            states: self.states,
            own_cpu_ns: clock::process_cpu_ns(),
            sampled: self
                .sampling
                .as_ref()
                .and_then(|sampling| sampling.report(&self.model)),
            tariff: self.cost.tariff().copied(),
            cost_unknown_because: self.cost.unknown_because(),
            budget_pct: self.budget.budget(),
            thinned: self.budget.thinned(until_ns),
            ..Run::default()
        }
    }
}

fn written_phase(phase: &Conceptual) -> [String; 3] {
    let Conceptual { name, from, to } = phase;
    [name.clone(), from.to_string(), to.to_string()]
}

fn written_mark(mark: &Mark) -> [String; 2] {
    let at = mark.at.to_string();
    [mark.name.clone().unwrap_or_else(|| at.clone()), at]
}
