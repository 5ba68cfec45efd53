//! Jobs of four ranks, each with a recording of its own: the ranks take turns in arriving last.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{MS, S, START, place};
use crate::record::{Begin, Recorder, Sink, job};
use sbt_engine::{
    event::{CallersId, Clocks, Event, Kind, SHARED, SPACE},
    model::{ids::PlaceId, site::Roles, tape::Step},
    origin::Origin,
    report::{Facts, IncompleteKind, Report, Run},
};

const RANKS: u32 = 4;
const ROUNDS: u32 = 50;
/// All ranks have the same numbers, as processes on different machines may.
const TID: u32 = 4242;

/// How a rank is recorded.
#[derive(Clone, Copy)]
struct Recorded {
    rank: u32,
    host: &'static str,
    /// The time that the machine's clock shows.
    clock: fn(u64) -> u64,
    job: &'static str,
    /// Whether the recording has an end.
    ends: bool,
    /// The number of collectives on the world.
    rounds: u32,
}

impl Recorded {
    fn of(rank: u32) -> Self {
        Self {
            rank,
            host: "one",
            clock: |time_ns| time_ns,
            job: "job",
            ends: true,
            rounds: ROUNDS,
        }
    }

    /// The rank's steps in one round: on the world, and then in one of two halves.
    fn round(self, round: u32) -> Vec<Step> {
        let at = |time_ns| Clocks::at((self.clock)(time_ns));
        let begin_ns = START + u64::from(round + 1) * 20 * MS;
        let late = u64::from((self.rank + round) % RANKS);
        let (world, half) = (object(0x1000 + u64::from(self.rank)), object(0x9000));
        let arrive = |time_ns, object, callers| Event::Arrive {
            tid: TID,
            clocks: at(time_ns),
            object,
            kind: Kind::Mpi,
            callers: CallersId(callers),
        };
        let depart = |time_ns| Event::Depart {
            tid: TID,
            clocks: at(time_ns),
        };
        let size = Event::Memory {
            tid: TID,
            time_ns: (self.clock)(begin_ns),
            object: world,
            count: RANKS,
            round: None,
        };
        let gone_ns = 4 * MS + u64::from(self.rank) * 1_000;
        let events = [
            size,
            arrive(begin_ns + late * MS, world, 1),
            depart(begin_ns + gone_ns),
            arrive(begin_ns + 8 * MS + late * MS, half, 2),
            depart(begin_ns + 8 * MS + gone_ns),
        ];
        events.into_iter().map(Step::Event).collect()
    }

    fn write(self, folder: &Path) -> PathBuf {
        let path = folder.join(format!("{}-{}.sbt", self.host, self.rank));
        let start_ns = (self.clock)(START);
        let begin = Begin {
            start_ns,
            departures: true,
            switches: false,
            conceptual: 0,
        };
        let file = File::create(&path).unwrap();
        let mut recorder = Recorder::to(Sink::to(file, &path, None).unwrap(), begin).unwrap();
        let facts = |length_ns: u64, ended| Facts {
            run: Run {
                command: vec!["./prog".into()],
                pid: TID,
                start_ns,
                start_unix_ns: S,
                wall_ns: length_ns,
                started: Some(true),
                ended,
                exit_status: Some(0).filter(|_| ended),
                departures: Some(true),
                ..Run::default()
            },
            origin: Some(Origin {
                host: self.host.into(),
                clock: format!("clock of {}", self.host),
                job: Some(self.job.into()),
                rank: Some(self.rank),
                ranks: Some(RANKS),
            }),
            ..Facts::default()
        };
        recorder.flush(facts(0, false), None).unwrap();
        let named = |object, name: &str| {
            Step::Event(Event::Communicator {
                tid: TID,
                object,
                name: name.into(),
            })
        };
        let means = |callers, place| Step::Place {
            callers: CallersId(callers),
            place: PlaceId(place),
            roles: Roles::default(),
        };
        // Each rank meets the two lines in an order of its own.
        let first = self.rank % 2;
        let lines = [10 + 10 * first, 20 - 10 * first].map(place);
        let half = format!("world/0.colour {}", self.rank / 2);
        let introduction = vec![
            Step::Event(Event::Thread {
                tid: TID,
                shown: (TID, TID),
                name: "prog".into(),
                since: Clocks::at(start_ns),
                code_start: None,
            }),
            Step::Rank {
                process: TID,
                rank: self.rank,
            },
            means(1, first),
            means(2, 1 - first),
            named(object(0x1000 + u64::from(self.rank)), "world"),
            named(object(0x9000), &half),
        ];
        recorder.add(introduction, lines.to_vec()).unwrap();
        for round in 0..self.rounds {
            recorder.add(self.round(round), Vec::new()).unwrap();
        }
        let length_ns = u64::from(ROUNDS + 2) * 20 * MS;
        recorder.flush(facts(length_ns, false), None).unwrap();
        if self.ends {
            let exit = Event::Exit {
                tid: TID,
                clocks: Clocks::at((self.clock)(START + length_ns)),
            };
            recorder.add(vec![Step::Event(exit)], Vec::new()).unwrap();
            recorder.end(facts(length_ns, true), None).unwrap();
        }
        path
    }
}

fn object(at: u64) -> u64 {
    at | u64::from(SHARED) << SPACE
}

/// Writes the recordings, and reads the report of their folder.
fn reported(change: impl Fn(Recorded) -> Option<Recorded>) -> anyhow::Result<Report> {
    let folder = TempDir::new()?;
    for rank in 0..RANKS {
        if let Some(recorded) = change(Recorded::of(rank)) {
            recorded.write(folder.path());
        }
    }
    job::report(&job::recordings(&[folder.path().to_owned()])?)
}

fn refused(change: impl Fn(Recorded) -> Option<Recorded>) -> String {
    format!("{:#}", reported(change).unwrap_err())
}

/// Ranks 2 and 3 on a machine of their own.
fn on_two(clock: fn(u64) -> u64) -> impl Fn(Recorded) -> Option<Recorded> {
    move |recorded| {
        Some(if recorded.rank < 2 {
            recorded
        } else {
            Recorded {
                host: "two",
                clock,
                ..recorded
            }
        })
    }
}

/// Checks what the program has done: episodes, who came last, and where.
fn is_right(report: &Report) {
    let rounds = u64::from(ROUNDS);
    assert_eq!(
        (report.episodes, report.incomplete_episodes),
        (3 * rounds, 0)
    );
    let barriers: Vec<_> = report
        .barriers
        .iter()
        .map(|barrier| (barrier.participants, barrier.episodes))
        .collect();
    assert_eq!(barriers.len(), 3, "{barriers:?}");
    assert!(barriers.contains(&(Some(4), rounds)), "{barriers:?}");
    assert!(barriers.contains(&(Some(2), rounds)), "{barriers:?}");
    let world = report
        .sites
        .iter()
        .find(|site| site.line == Some(10))
        .unwrap();
    assert_eq!((world.episodes, report.sites.len()), (rounds, 2));
    // In round r, rank 3 - r is last on the world, modulo 4.
    let last: Vec<u64> = world.threads.iter().map(|thread| thread.last).collect();
    assert_eq!(last, [12, 12, 13, 13]);
    let labels: Vec<&str> = report
        .threads
        .iter()
        .map(|thread| thread.label.as_str())
        .collect();
    assert_eq!(labels, ["0.0", "1.0", "2.0", "3.0"]);
    assert!(
        report
            .threads
            .iter()
            .all(|thread| thread.tid == TID && thread.pid == TID)
    );
    let wall_ms = u64::from(ROUNDS + 2) * 20;
    assert!(
        wall_ms.abs_diff(report.run.wall_ns / MS) <= 2,
        "{}",
        report.run.wall_ns
    );
    assert_eq!(report.run.exit_status, Some(0));
}

#[test]
fn ranks_of_one_machine_are_one_job() {
    let report = reported(Some).unwrap();
    is_right(&report);
    let job = report.run.job.unwrap();
    assert_eq!((job.recordings, job.ranks), (4, Some(4)));
    assert_eq!((job.hosts.len(), job.clocks), (1, None));
}

#[test]
fn clocks_of_two_machines_are_aligned() {
    let clocks: [fn(u64) -> u64; 3] = [
        |time_ns| time_ns + 7_000 * S,
        |time_ns| time_ns - 900 * S,
        // 200 parts per million.
        |time_ns| time_ns + 3 * S + time_ns / 5_000,
    ];
    for clock in clocks {
        let report = reported(on_two(clock)).unwrap();
        is_right(&report);
        let hosts: Vec<u32> = report
            .processes
            .iter()
            .filter_map(|process| process.host)
            .collect();
        assert_eq!(hosts, [0, 0, 1, 1]);
        let job = report.run.job.unwrap();
        let clocks = job.clocks.unwrap();
        assert_eq!(clocks.collectives, u64::from(ROUNDS));
        assert!(clocks.uncertainty_ns < 4 * MS, "{job:?}");
    }
}

#[test]
fn a_file_that_is_named_twice_is_refused() {
    let folder = TempDir::new().unwrap();
    Recorded::of(0).write(folder.path());
    let once = job::recordings(&[folder.path().to_owned()]).unwrap();
    let twice = [once.clone(), once].concat();
    let text = format!("{:#}", job::report(&twice).unwrap_err());
    assert!(text.ends_with("are one file; name it once"), "{text}");
}

#[test]
fn clocks_that_cannot_be_aligned_are_refused() {
    // The clock jumps in the middle of the run.
    let text = refused(on_two(|time_ns| {
        time_ns + if time_ns > START + 500 * MS { S } else { 0 }
    }));
    assert!(
        text.starts_with("cannot align the clocks of one and two: their collectives contradict"),
        "{text}"
    );
    // One rank has missed a collective: which ones belong together is not known.
    let on_two = on_two(|time_ns| time_ns + S);
    let text = refused(|recorded| {
        let rounds = ROUNDS - u32::from(recorded.rank == 3);
        on_two(Recorded { rounds, ..recorded })
    });
    assert!(
        text.contains("came to 50 collectives on MPI_COMM_WORLD, and rank 3 to 49"),
        "{text}"
    );
    // No collective at all.
    let text = refused(|recorded| {
        on_two(Recorded {
            rounds: 0,
            ..recorded
        })
    });
    assert!(
        text.contains("there is no collective on MPI_COMM_WORLD"),
        "{text}"
    );
}

#[test]
fn what_is_missing_is_told() {
    let report = reported(|recorded| (recorded.rank != 1).then_some(recorded)).unwrap();
    assert_eq!(report.incomplete[0].kind, IncompleteKind::NoRecording);
    assert!(
        report.incomplete[0]
            .text
            .contains("1 of the 4 ranks of the job: 1;")
    );
    assert_eq!(report.run.job.as_ref().unwrap().missing_ranks, [1]);
    assert_eq!(report.episodes, 0);
    assert!(report.verdicts.is_none());
    let report = reported(|recorded| {
        Some(Recorded {
            ends: recorded.rank != 2,
            ..recorded
        })
    })
    .unwrap();
    assert_eq!(report.incomplete.len(), 1);
    assert!(report.incomplete[0].text.contains("one-2.sbt has no end"));
    assert!(report.efficiency.is_none());
}

#[test]
fn recordings_of_two_runs_are_refused() {
    let text = refused(|recorded| {
        Some(Recorded {
            job: if recorded.rank == 3 { "before" } else { "job" },
            ..recorded
        })
    });
    assert!(
        text.contains("one-3.sbt and") || text.contains("one-3.sbt are"),
        "{text}"
    );
    assert!(
        text.contains("are of different runs; remove the recordings of earlier runs"),
        "{text}"
    );
    let folder = TempDir::new().unwrap();
    let text = format!(
        "{:#}",
        job::recordings(&[folder.path().to_owned()]).unwrap_err()
    );
    assert!(text.contains("has no recordings"), "{text}");
    let error = job::recordings(&[folder.path().join("none/")]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("none/: there is no such folder")
    );
}
