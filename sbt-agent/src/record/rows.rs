//! Converts steps to rows of a table, and back.
//!
//! Frequent rows have columns for their numbers. Everything else is text.

use serde::{Deserialize, Serialize};

use super::clean;

use sbt_engine::{
    event::{CallersId, Clocks, Event, Kind, Round},
    model::{cost::Tariff, ids::PlaceId, site::Roles, tape::Step},
    place::Place,
    report::{Facts, Report},
};

/// The content of a row.
#[derive(Clone, Debug)]
pub enum Row {
    /// A step that the model was told.
    Step(Step),
    /// The next place. Places are numbered from 0 in this order.
    Place(Box<Place>),
    /// Facts of the run that the model does not know, as of now.
    Facts(Box<Facts>),
    /// How the model was begun; or, later in the file, how to begin a model that is told only what
    /// follows.
    Begin(Begin),
    /// Begin (true) or end (false) of rows that repeat the state at this moment, for a reader that
    /// begins here.
    Recap(bool),
    /// The report so far, in a file that does not have all events.
    Report(Box<Report>),
    /// The last row: the watching ended in order.
    End,
}

/// How a model is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The time at which it begins, ns; see [`sbt_engine::model::Model::new`].
    pub start_ns: u64,
    /// Whether departures are watched; see [`sbt_engine::model::Model::new`].
    pub departures: bool,
    /// See [`sbt_engine::model::Model::watch_switches`].
    pub switches: bool,
    /// See [`sbt_engine::model::Model::observe`].
    pub conceptual: usize,
}

/// A row of the table. Cells that a kind of row does not use are null.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cells {
    /// Kind of row, one of [`KINDS`].
    pub row: &'static str,
    /// Time, `CLOCK_MONOTONIC` ns.
    pub time_ns: Option<u64>,
    /// The thread, by its number in the kernel's first pid namespace.
    pub thread: Option<u32>,
    /// The barrier: its address, and from bit 48 on the number of its address space.
    pub object: Option<u64>,
    /// The kind of barrier.
    pub kind: Option<&'static str>,
    /// Id of a chain of callers.
    pub callers: Option<u32>,
    /// CPU time of the thread so far, ns.
    pub run_ns: Option<u64>,
    /// Time that the thread has waited for a CPU so far, ns.
    pub delay_ns: Option<u64>,
    /// Numbers, whose meaning depends on the kind of row.
    pub numbers: [Option<u64>; 3],
    /// Everything else, as JSON.
    pub text: Option<String>,
}

/// The kinds of rows, in the order of their numbers in the file.
pub const KINDS: [&str; 16] = [
    "arrive", "depart", "toll", "memory", "turn", "callers", "thread", "event", "means", "rank",
    "cost", "watch", "place", "facts", "end", "report",
];

/// Content of `watch` rows: changes of the watching.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Watch {
    Begin(Begin),
    ExpectGaps,
    Off(bool),
    Reset(u64),
    Recap(bool),
}

/// Flags in the second number of `toll` rows.
const CONDVAR: u64 = 1;
const STEPPED: u64 = 2;

impl Row {
    /// Time of the row, ns; `None` if it has none.
    pub const fn time_ns(&self) -> Option<u64> {
        match self {
            Self::Step(step) => step.time_ns(),
            Self::Facts(facts) if facts.run.pid > 0 => {
                Some(facts.run.start_ns.saturating_add(facts.run.wall_ns))
            }
            _ => None,
        }
    }

    /// Converts the row to cells.
    ///
    /// # Errors
    /// Text of the row cannot be written as JSON, which does not happen.
    pub fn cells(&self) -> serde_json::Result<Cells> {
        let text = |row, text: serde_json::Result<String>| {
            Ok(Cells {
                row,
                text: Some(text?),
                ..Cells::default()
            })
        };
        match self {
            Self::Step(step) => of_step(step),
            Self::Place(place) => text("place", serde_json::to_string(place)),
            Self::Facts(run) => text("facts", serde_json::to_string(run)),
            Self::Begin(begin) => text("watch", serde_json::to_string(&Watch::Begin(*begin))),
            Self::Recap(begins) => text("watch", serde_json::to_string(&Watch::Recap(*begins))),
            Self::Report(report) => text("report", serde_json::to_string(report)),
            Self::End => Ok(Cells {
                row: "end",
                ..Cells::default()
            }),
        }
    }

    /// Converts cells to a row. `None` if something is missing or makes no sense.
    pub fn of(cells: &Cells) -> Option<Self> {
        let text = cells.text.as_deref();
        let step = match cells.row {
            "place" => return Some(Self::Place(parsed(text)?)),
            "facts" => return Some(Self::Facts(clean::read(text?).ok()?)),
            "report" => return Some(Self::Report(clean::read(text?).ok()?)),
            "end" => return Some(Self::End),
            "watch" => match parsed(text)? {
                Watch::Begin(begin) => return Some(Self::Begin(begin)),
                Watch::Recap(begins) => return Some(Self::Recap(begins)),
                Watch::ExpectGaps => Step::ExpectGaps,
                Watch::Off(off) => Step::Off(off),
                Watch::Reset(time_ns) => Step::Reset { time_ns },
            },
            "means" => {
                let [place, begins, ends] = cells.numbers;
                Step::Place {
                    callers: CallersId(cells.callers?),
                    place: PlaceId(u32::try_from(place?).ok()?),
                    roles: Roles {
                        watched: parsed(text)?,
                        begins: begins?,
                        ends: ends?,
                    },
                }
            }
            "rank" => Step::Rank {
                process: u32::try_from(cells.numbers[0]?).ok()?,
                rank: u32::try_from(cells.numbers[1]?).ok()?,
            },
            "cost" => Step::Tariff(parsed::<Tariff>(text)?),
            _ => Step::Event(event(cells)?),
        };
        Some(Self::Step(step))
    }
}

fn parsed<'a, T: Deserialize<'a>>(text: Option<&'a str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}

fn of_step(step: &Step) -> serde_json::Result<Cells> {
    let mut cells = Cells::default();
    match step {
        Step::Event(event) => return of_event(event),
        Step::Place {
            callers,
            place,
            roles,
        } => {
            cells.row = "means";
            cells.callers = Some(callers.0);
            cells.numbers = [Some(place.0.into()), Some(roles.begins), Some(roles.ends)];
            cells.text = Some(roles.watched.to_string());
        }
        Step::Rank { process, rank } => {
            cells.row = "rank";
            cells.numbers = [Some((*process).into()), Some((*rank).into()), None];
        }
        Step::Tariff(tariff) => {
            cells.row = "cost";
            cells.text = Some(serde_json::to_string(tariff)?);
        }
        Step::ExpectGaps | Step::Off(_) | Step::Reset { .. } => {
            let watch = match step {
                Step::Off(off) => Watch::Off(*off),
                Step::Reset { time_ns } => Watch::Reset(*time_ns),
                _ => Watch::ExpectGaps,
            };
            cells.row = "watch";
            cells.text = Some(serde_json::to_string(&watch)?);
        }
    }
    Ok(cells)
}

/// Cells with a thread's clocks.
fn at(row: &'static str, tid: u32, clocks: &Clocks) -> Cells {
    Cells {
        row,
        time_ns: Some(clocks.time_ns),
        thread: Some(tid),
        run_ns: clocks.run_ns,
        delay_ns: clocks.delay_ns,
        ..Cells::default()
    }
}

fn of_event(event: &Event) -> serde_json::Result<Cells> {
    Ok(match event {
        Event::Arrive {
            tid,
            clocks,
            object,
            kind,
            callers,
        } => Cells {
            object: Some(*object),
            kind: Some(kind.name()),
            callers: Some(callers.0),
            ..at("arrive", *tid, clocks)
        },
        Event::Depart { tid, clocks } => at("depart", *tid, clocks),
        Event::Toll {
            tid,
            condvar,
            stepped,
            walked,
        } => Cells {
            row: "toll",
            thread: Some(*tid),
            numbers: [
                Some((*walked).into()),
                Some(u64::from(*condvar) * CONDVAR + u64::from(*stepped) * STEPPED),
                None,
            ],
            ..Cells::default()
        },
        Event::Memory {
            tid,
            time_ns,
            object,
            count,
            round,
        } => Cells {
            row: "memory",
            time_ns: Some(*time_ns),
            thread: Some(*tid),
            object: Some(*object),
            numbers: [
                Some((*count).into()),
                round.map(|round| round.number.into()),
                round.map(|round| round.arrived.into()),
            ],
            ..Cells::default()
        },
        Event::Turn {
            tid,
            time_ns,
            object,
            round,
        } => Cells {
            row: "turn",
            time_ns: *time_ns,
            thread: Some(*tid),
            object: Some(*object),
            numbers: [Some((*round).into()), None, None],
            ..Cells::default()
        },
        other => Cells {
            row: match other {
                Event::Thread { .. } => "thread",
                Event::Callers { .. } => "callers",
                _ => "event",
            },
            text: Some(serde_json::to_string(other)?),
            ..Cells::default()
        },
    })
}

fn event(cells: &Cells) -> Option<Event> {
    let clocks = || {
        Some(Clocks {
            time_ns: cells.time_ns?,
            run_ns: cells.run_ns,
            delay_ns: cells.delay_ns,
        })
    };
    let number = |index: usize| u32::try_from(cells.numbers[index]?).ok();
    Some(match cells.row {
        "arrive" => Event::Arrive {
            tid: cells.thread?,
            clocks: clocks()?,
            object: cells.object?,
            kind: Kind::named(cells.kind?)?,
            callers: CallersId(cells.callers?),
        },
        "depart" => Event::Depart {
            tid: cells.thread?,
            clocks: clocks()?,
        },
        "toll" => {
            let flags = cells.numbers[1]?;
            Event::Toll {
                tid: cells.thread?,
                condvar: flags & CONDVAR != 0,
                stepped: flags & STEPPED != 0,
                walked: number(0)?,
            }
        }
        "memory" => Event::Memory {
            tid: cells.thread?,
            time_ns: cells.time_ns?,
            object: cells.object?,
            count: number(0)?,
            round: number(1)
                .zip(number(2))
                .map(|(number, arrived)| Round { number, arrived }),
        },
        "turn" => Event::Turn {
            time_ns: cells.time_ns,
            tid: cells.thread?,
            object: cells.object?,
            round: number(0)?,
        },
        _ => parsed(cells.text.as_deref())?,
    })
}
