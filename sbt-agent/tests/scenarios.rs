//! Runs every file of tests/scenarios through the engine: what happens, line by
//! line, and what is to come out. The format is explained in the README there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

use sbt_engine::{
    event::{CallersId, Clocks, Event, Kind, Round},
    model::{
        Model,
        ids::{PlaceId, SiteId},
        site::Site,
        thread::Row,
    },
    report::StragglerPattern,
};

type Result<T> = std::result::Result<T, String>;

/// A scenario while it is read.
struct Scenario {
    model: Model,
    places: Vec<String>,
    time_ns: u64,
    finished: bool,
}

fn number(word: &str) -> Result<u64> {
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("{word:?} is not a number"))
}

fn number32(word: &str) -> Result<u32> {
    u32::try_from(number(word)?).map_err(|_| format!("{word} is too large"))
}

/// `12`, `12us`, `12ms`, `12s` → ns.
fn time(word: &str) -> Result<u64> {
    let units = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    for (unit, factor) in units {
        if let Some(digits) = word.strip_suffix(unit) {
            return Ok(number(digits)? * factor);
        }
    }
    number(word)
}

fn tid(word: &str) -> Result<u32> {
    let digits = word.strip_prefix('T');
    number32(digits.ok_or_else(|| format!("{word:?} is not a thread, like T1"))?)
}

impl Scenario {
    fn new() -> Self {
        Self {
            model: Model::new(0, false),
            places: Vec::new(),
            time_ns: 0,
            finished: false,
        }
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => Ok(()),
            [first, ..] if first.starts_with('#') => Ok(()),
            ["expect", expectation @ ..] => self.expect(expectation),
            [at, what @ ..] if !self.finished => {
                let at = time(at)?;
                if at < self.time_ns {
                    return Err("earlier than the line before".into());
                }
                self.time_ns = at;
                let event = self.event(what)?;
                self.model.push(&event);
                Ok(())
            }
            _ => Err("events come before expectations".into()),
        }
    }

    fn place(&mut self, name: &str) -> u32 {
        let index = self.places.iter().position(|place| place == name);
        let index = index.unwrap_or_else(|| {
            self.places.push(name.into());
            self.places.len() - 1
        });
        u32::try_from(index).unwrap()
    }

    fn event(&mut self, words: &[&str]) -> Result<Event> {
        let time_ns = self.time_ns;
        let clocks = |words: &[&str]| -> Result<Clocks> {
            let mut clocks = Clocks::at(time_ns);
            for word in words {
                match word.split_once('=') {
                    Some(("run", value)) => clocks.run_ns = Some(time(value)?),
                    Some(("ready", value)) => clocks.delay_ns = Some(time(value)?),
                    _ => return Err(format!("{word:?}: run=… or ready=… expected")),
                }
            }
            Ok(clocks)
        };
        Ok(match words {
            ["departures", on @ ("on" | "off")] => Event::Departures { on: *on == "on" },
            ["exec"] => Event::Exec {
                time_ns,
                process: 1,
                space: 0,
                replaced: false,
            },
            [who, "starts", "since", since] => thread(tid(who)?, Clocks::at(time(since)?)),
            [who, "starts", rest @ ..] => thread(tid(who)?, clocks(rest)?),
            [who, "arrive", object, place, rest @ ..] => Event::Arrive {
                tid: tid(who)?,
                clocks: clocks(rest)?,
                object: number(object)?,
                kind: Kind::Pthread,
                callers: CallersId(self.place(place)),
            },
            [who, "depart", rest @ ..] => Event::Depart {
                tid: tid(who)?,
                clocks: clocks(rest)?,
            },
            [who, "exit", rest @ ..] => Event::Exit {
                tid: tid(who)?,
                clocks: clocks(rest)?,
            },
            [who, "init", object, count] => Event::Init {
                time_ns,
                object: number(object)?,
                kind: Kind::Pthread,
                tid: tid(who)?,
                count: number32(count)?,
            },
            [who, "memory", object, count, rest @ ..] => Event::Memory {
                tid: tid(who)?,
                time_ns,
                object: number(object)?,
                count: number32(count)?,
                round: match rest {
                    ["round", round, "arrived", arrived] => Some(Round {
                        number: number32(round)?,
                        arrived: number32(arrived)?,
                    }),
                    [] => None,
                    _ => return Err("`round N arrived M` expected".into()),
                },
            },
            [who, "lost", count] => Event::Lost {
                tid: tid(who)?,
                count: number32(count)?,
            },
            _ => return Err("not an event".into()),
        })
    }

    fn expect(&mut self, words: &[&str]) -> Result<()> {
        if !self.finished {
            self.model.finish();
            self.finished = true;
        }
        let (what, expected) = match words {
            ["unfinished", object, expected @ ..] if !expected.is_empty() => {
                (self.unfinished(number(object)?), expected.join(" "))
            }
            [what @ .., expected] => (self.value(what)?, (*expected).to_owned()),
            [] => return Err("expect what?".into()),
        };
        // Durations are written as it is convenient.
        let same = what == expected || time(&expected).is_ok_and(|ns| what == ns.to_string());
        if same {
            Ok(())
        } else {
            Err(format!("it is {what}"))
        }
    }

    fn value(&self, words: &[&str]) -> Result<String> {
        let totals = self.model.totals();
        let value = match words {
            ["arrivals"] => totals.arrivals,
            ["episodes"] => totals.episodes,
            ["incomplete"] => totals.incomplete,
            ["lost"] => totals.lost,
            ["unfinished"] => self.model.unfinished().len() as u64,
            ["barriers"] => self.model.barriers().seen,
            ["site", name, what @ ..] => return self.site_value(name, what),
            ["thread", who, what] => return self.thread_value(tid(who)?, what),
            ["phase", from, "->", to, what] => return self.phase_value(from, to, what),
            _ => return Err("no such figure".into()),
        };
        Ok(value.to_string())
    }

    /// A site by its places, in any order: `a.c:1|b.c:2`.
    fn site(&self, name: &str) -> Result<(SiteId, &Site)> {
        let mut places = Vec::new();
        for place in name.split('|') {
            let index = self.places.iter().position(|known| known == place);
            let index = index.ok_or_else(|| format!("nobody calls from {place}"))?;
            places.push(PlaceId(u32::try_from(index).unwrap()));
        }
        places.sort_unstable();
        let mut sites = (0..).zip(self.model.sites().all());
        sites
            .find(|(_, site)| *site.places == places)
            .map(|(id, site)| (SiteId(id), site))
            .ok_or_else(|| format!("there is no site {name}"))
    }

    fn row(&self, tid: u32) -> Result<(usize, &Row)> {
        let mut rows = self.model.threads().rows().iter().enumerate();
        rows.find(|(_, row)| row.shown.0 == tid)
            .ok_or_else(|| format!("there is no thread T{tid}"))
    }

    fn site_value(&self, name: &str, what: &[&str]) -> Result<String> {
        let (_, site) = self.site(name)?;
        let value = match what {
            ["episodes"] => site.episodes,
            ["incomplete"] => site.incomplete,
            ["lost"] => site.idle.sum(),
            ["barrier"] => site.barrier.sum(),
            ["phase"] => site.phase.sum(),
            ["lead"] => site.ledger.lead_ns,
            ["run"] => site.ledger.longest_run,
            ["gain"] => return Ok(format!("{:.0}", site.gain_ns)),
            ["imbalance"] => {
                return Ok(known(site.imbalance_pct().map(|pct| format!("{pct:.0}%"))));
            }
            ["release"] => return Ok(known(site.release.known_sum())),
            ["pattern"] => return Ok(StragglerPattern::from(site.pattern(None)).to_string()),
            ["thread", who, what] => {
                let (row, _) = self.row(tid(who)?)?;
                let mine = site.threads.iter().find(|thread| thread.id.index() == row);
                let thread = mine.cloned().unwrap_or_default();
                match *what {
                    "episodes" => thread.episodes,
                    "last" => thread.last,
                    "idle" => thread.idle.sum(),
                    "work" => return Ok(known(thread.work.known_sum())),
                    "release" => return Ok(known(thread.release.known_sum())),
                    _ => return Err("no such figure of a thread at a site".into()),
                }
            }
            _ => return Err("no such figure of a site".into()),
        };
        Ok(value.to_string())
    }

    fn thread_value(&self, tid: u32, what: &str) -> Result<String> {
        let (_, row) = self.row(tid)?;
        Ok(match what {
            "arrivals" => row.arrivals.to_string(),
            "episodes" => row.episodes.to_string(),
            "last" => row.last.to_string(),
            "idle" => row.idle_ns.to_string(),
            "work" => known(row.work.get()),
            "release" => known(row.release.get()),
            "running" => known(row.split.running.get()),
            "ready" => known(row.split.ready.get()),
            "blocked" => known(row.split.blocked.get()),
            _ => return Err("no such figure of a thread".into()),
        })
    }

    fn phase_value(&self, from: &str, to: &str, what: &str) -> Result<String> {
        let from = match from {
            "start" => None,
            name => Some(self.site(name)?.0),
        };
        let key = (from, self.site(to)?.0);
        let phase = self.model.sites().phases.get(&key).cloned();
        let phase = phase.unwrap_or_default();
        Ok(match what {
            "episodes" => phase.phase.count(),
            "time" => phase.phase.sum(),
            "work" => phase.work.sum(),
            _ => return Err("no such figure of a phase".into()),
        }
        .to_string())
    }

    /// `arrived T1 T2 missing T3 unseen 1`, as far as there are any.
    fn unfinished(&self, object: u64) -> String {
        let barriers = self.model.barriers().all();
        let mut all = self.model.unfinished().iter();
        let Some(open) = all.find(|open| barriers[open.barrier.index()].key.1 == object) else {
            return "none".into();
        };
        let rows = self.model.threads().rows();
        let mut out = vec!["arrived".to_owned()];
        let name = |row: usize| format!("T{}", rows[row].shown.0);
        out.extend(open.arrived.iter().map(|(row, _)| name(row.index())));
        if !open.missing.is_empty() {
            out.push("missing".into());
            out.extend(open.missing.iter().map(|row| name(row.index())));
        }
        if open.unseen > 0 {
            out.push(format!("unseen {}", open.unseen));
        }
        out.join(" ")
    }
}

fn thread(tid: u32, since: Clocks) -> Event {
    Event::Thread {
        tid,
        shown: (tid, 1),
        name: format!("T{tid}"),
        since,
        code_start: None,
    }
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "unknown".into(), |value| value.to_string())
}

#[test]
fn every_scenario_comes_out_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenarios in {}", folder.display());
    let mut wrong = Vec::new();
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy();
        let mut scenario = Scenario::new();
        for (number, line) in (1..).zip(fs::read_to_string(file).unwrap().lines()) {
            if let Err(error) = scenario.line(line) {
                wrong.push(format!("{name}:{number}: {line}: {error}"));
            }
        }
        if !scenario.finished {
            wrong.push(format!("{name}: expects nothing"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
