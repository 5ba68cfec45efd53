//! Completes the scene of a look with what the model knows of the barriers that stand still.

use std::collections::HashSet;

use sbt_engine::{
    event::{SHARED, address, space},
    hang::scene::{
        BarrierSeen, Doing, Member, Past, Scene, ThreadId, ThreadSeen, WaitFor, Withheld,
    },
    model::{Model, ids::PlaceId, still::StillBarrier, thread},
};

/// A barrier of the model in the form of a scene. `site`: the name of a place for the user.
pub fn of_model(
    known: &StillBarrier,
    model: &Model,
    now_ns: u64,
    site: impl Fn(PlaceId) -> Option<String>,
) -> BarrierSeen {
    let ago = |time_ns: u64| now_ns.saturating_sub(time_ns);
    let members: Vec<Member> = known
        .members
        .iter()
        .map(|member| {
            let row = &model.threads().rows()[member.row.index()];
            Member {
                id: id(row),
                name: row.name.clone(),
                arrived_ns_ago: member.arrived_ns.map(ago),
                site: member.place.and_then(&site),
                ended: row.ended,
            }
        })
        .collect();
    let waiting: Vec<ThreadId> = members
        .iter()
        .filter(|member| member.arrived_ns_ago.is_some() && !member.ended)
        .map(|member| member.id)
        .collect();
    let come = members
        .iter()
        .filter(|member| member.arrived_ns_ago.is_some());
    let come = u32::try_from(come.count()).unwrap_or(u32::MAX);
    BarrierSeen {
        // A barrier that processes share gets the process of one of its threads.
        process: match (known.key.0, waiting.first()) {
            (0, Some(first)) => first.process,
            (process, _) => process,
        },
        address: address(known.key.1),
        kind: known.kind,
        participants: known.count,
        arrived: (!known.full).then(|| come.saturating_add(known.unseen)),
        waiting,
        past_end: Vec::new(),
        at_end: None,
        shared: space(known.key.1) == SHARED,
        past: Some(Past {
            episodes: known.episodes,
            members,
            still_ns: ago(known.heard_ns),
            unsure: known.unsure,
        }),
    }
}

/// The thread's id in a scene.
const fn id(row: &thread::Row) -> ThreadId {
    ThreadId {
        process: row.shown.1,
        thread: row.shown.0,
    }
}

/// Adds the model's barriers to a scene: to the same barrier if the look has recognised it, else as
/// a new one. Returns the index of each in the scene.
pub fn merge(scene: &mut Scene, known: Vec<BarrierSeen>) -> Vec<usize> {
    add_unseen(scene, &known);
    let mut places = Vec::new();
    for barrier in known {
        let found = scene
            .barriers
            .iter()
            .position(|seen| is_same(seen, &barrier));
        let at = found.unwrap_or(scene.barriers.len());
        let here = barrier.waiting.clone();
        match scene.barriers.get_mut(at) {
            Some(seen) => {
                seen.past = barrier.past;
                // The barrier's memory is more reliable than the events.
                seen.participants = seen.participants.or(barrier.participants);
                seen.arrived = seen.arrived.or(barrier.arrived);
                seen.shared |= barrier.shared;
            }
            None => scene.barriers.push(BarrierSeen {
                waiting: Vec::new(),
                ..barrier
            }),
        }
        for id in here {
            sit(scene, at, id);
        }
        places.push(at);
    }
    places
}

/// Whether a thread that waits according to the events is gone in the scene: then its process is
/// about to end.
pub fn is_ending(scene: &Scene, known: &[BarrierSeen]) -> bool {
    let mut waiting = known.iter().flat_map(|barrier| &barrier.waiting);
    waiting.any(|id| {
        let mut of_process = scene.threads.iter();
        let looked_at = of_process.any(|thread| thread.id.process == id.process);
        let mut alive = scene
            .threads
            .iter()
            .filter(|thread| thread.doing != Doing::Ended);
        looked_at && !alive.any(|thread| thread.id == *id)
    })
}

/// Whether the look did not see where some thread runs: a thread without a CPU does not stop.
pub fn is_blind(scene: &Scene) -> bool {
    let mut all = scene.threads.iter();
    all.any(|thread| thread.doing == Doing::Running && thread.stack.is_empty())
}

/// Adds the threads of processes that could not be looked at.
fn add_unseen(scene: &mut Scene, known: &[BarrierSeen]) {
    let looked_at: HashSet<u32> = scene
        .threads
        .iter()
        .map(|thread| thread.id.process)
        .collect();
    let mut added = HashSet::new();
    let pasts = known.iter().filter_map(|barrier| barrier.past.as_ref());
    for member in pasts.flat_map(|past| &past.members) {
        let is_there = member.ended || looked_at.contains(&member.id.process);
        if !is_there && added.insert(member.id) {
            scene.threads.push(ThreadSeen {
                id: member.id,
                name: member.name.clone(),
                doing: Doing::Unknown,
                timed: false,
                withheld: Withheld::default(),
                stack: Vec::new(),
                is_whole: false,
                also_at: Vec::new(),
                went_on: false,
                ran_ns: None,
                ready_ns: None,
                slept: false,
                sharers: None,
                own_request: false,
                ran_lately: false,
            });
        }
    }
}

/// Whether both are the same object: by address, or, for a barrier that processes map at different
/// addresses, by its waiting threads.
fn is_same(seen: &BarrierSeen, known: &BarrierSeen) -> bool {
    let by_place = !known.shared && (seen.process, seen.address) == (known.process, known.address);
    by_place || seen.waiting.iter().any(|id| known.waiting.contains(id))
}

/// Makes a thread that has arrived and not left wait at its barrier, unless the scene shows it
/// waiting for something else, such as a lock inside of the barrier.
fn sit(scene: &mut Scene, at: usize, id: ThreadId) {
    let Some(thread) = scene.threads.iter_mut().find(|thread| thread.id == id) else {
        return;
    };
    let waits_here = match &thread.doing {
        Doing::Call { .. }
        | Doing::Unknown
        | Doing::Waiting(
            WaitFor::Condvar { .. } | WaitFor::Futex { .. } | WaitFor::Memory { .. },
        ) => {
            thread.doing = Doing::Waiting(WaitFor::Barrier(at));
            true
        }
        Doing::Waiting(WaitFor::Barrier(other)) => *other == at,
        // The thread spins in the barrier.
        Doing::Running | Doing::Stopped | Doing::Frozen | Doing::Traced { .. } => true,
        Doing::Waiting(_) | Doing::Ended => false,
    };
    let waiting = &mut scene.barriers[at].waiting;
    if waits_here && !waiting.contains(&id) {
        waiting.push(id);
    }
}

/// Ages a scene by `ns` in which nothing has happened.
pub fn age(scene: &mut Scene, ns: u64) {
    let pasts = scene
        .barriers
        .iter_mut()
        .filter_map(|barrier| barrier.past.as_mut());
    for past in pasts {
        past.still_ns = past.still_ns.saturating_add(ns);
        for member in &mut past.members {
            let ago = member.arrived_ns_ago;
            member.arrived_ns_ago = ago.map(|ago| ago.saturating_add(ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::{event::Kind, hang::scene::Holder};

    const fn id(thread: u32) -> ThreadId {
        ThreadId {
            process: 10,
            thread,
        }
    }

    fn thread(number: u32, doing: Doing) -> ThreadSeen {
        ThreadSeen {
            id: id(number),
            name: format!("t{number}"),
            doing,
            timed: false,
            withheld: Withheld::default(),
            stack: Vec::new(),
            is_whole: true,
            also_at: Vec::new(),
            went_on: false,
            ran_ns: None,
            ready_ns: None,
            slept: true,
            sharers: None,
            own_request: false,
            ran_lately: false,
        }
    }

    fn barrier(address: u64, waiting: &[u32]) -> BarrierSeen {
        BarrierSeen {
            process: 10,
            address,
            kind: Kind::Pthread,
            participants: None,
            arrived: None,
            waiting: waiting.iter().copied().map(id).collect(),
            past_end: Vec::new(),
            at_end: None,
            shared: false,
            past: None,
        }
    }

    fn known(address: u64, waiting: &[u32]) -> BarrierSeen {
        BarrierSeen {
            participants: Some(3),
            arrived: Some(2),
            past: Some(Past::default()),
            ..barrier(address, waiting)
        }
    }

    const FUTEX: Doing = Doing::Waiting(WaitFor::Futex {
        address: 0x700,
        shared: false,
    });
    const MUTEX: Doing = Doing::Waiting(WaitFor::Mutex {
        address: 0x800,
        kind: None,
        holder: Holder::Unknown,
    });

    #[test]
    fn the_past_of_a_barrier_that_was_seen_comes_to_it() {
        let mut scene = Scene {
            threads: vec![
                thread(1, Doing::Waiting(WaitFor::Barrier(0))),
                thread(2, FUTEX),
            ],
            barriers: vec![BarrierSeen {
                participants: Some(4),
                ..barrier(0x100, &[1])
            }],
            ..Scene::default()
        };
        assert_eq!(merge(&mut scene, vec![known(0x100, &[1, 2])]), [0]);
        assert_eq!(scene.barriers.len(), 1);
        let merged = &scene.barriers[0];
        assert_eq!((merged.participants, merged.arrived), (Some(4), Some(2)));
        assert_eq!(merged.waiting, [id(1), id(2)]);
        assert!(merged.past.is_some());
        assert_eq!(scene.threads[1].doing, Doing::Waiting(WaitFor::Barrier(0)));
    }

    #[test]
    fn one_that_the_look_did_not_recognise_is_added() {
        let mut scene = Scene {
            threads: vec![
                thread(1, FUTEX),
                thread(2, Doing::Running),
                thread(3, MUTEX),
                thread(4, Doing::Running),
            ],
            barriers: vec![barrier(0x500, &[9])],
            ..Scene::default()
        };
        let places = merge(&mut scene, vec![known(0x100, &[1, 2, 3, 5])]);
        assert_eq!(places, [1]);
        let here = Doing::Waiting(WaitFor::Barrier(1));
        let doing: Vec<_> = scene
            .threads
            .iter()
            .map(|thread| thread.doing.clone())
            .collect();
        // The second thread spins, the third waits for a lock, and the fourth is not at the
        // barrier.
        assert_eq!(doing, [here, Doing::Running, MUTEX, Doing::Running]);
        // The look did not see the fifth thread at all.
        assert_eq!(scene.barriers[1].waiting, [id(1), id(2)]);
    }

    #[test]
    fn a_process_without_those_that_wait_is_about_to_end() {
        let scene = |doing| Scene {
            threads: vec![thread(1, FUTEX), thread(2, doing)],
            ..Scene::default()
        };
        let barriers = [known(0x100, &[1, 2])];
        assert!(!is_ending(&scene(FUTEX), &barriers));
        assert!(is_ending(&scene(Doing::Ended), &barriers));
        assert!(is_ending(&scene(FUTEX), &[known(0x100, &[1, 3])]));
        // The process was not looked at.
        assert!(!is_ending(&Scene::default(), &barriers));
    }

    #[test]
    fn where_nobody_may_look_the_events_are_what_is_known() {
        let member = |thread, arrived_ns_ago, ended| Member {
            id: id(thread),
            name: format!("t{thread}"),
            arrived_ns_ago,
            site: None,
            ended,
        };
        let mut scene = Scene::default();
        let barrier = BarrierSeen {
            past: Some(Past {
                episodes: 3,
                members: vec![
                    member(1, Some(9), false),
                    member(2, None, false),
                    member(3, None, true),
                ],
                still_ns: 9,
                unsure: false,
            }),
            ..known(0x100, &[1])
        };
        assert_eq!(merge(&mut scene, vec![barrier]), [0]);
        let doing: Vec<_> = scene
            .threads
            .iter()
            .map(|thread| thread.doing.clone())
            .collect();
        let here = Doing::Waiting(WaitFor::Barrier(0));
        assert_eq!(doing, [here, Doing::Unknown], "the third has ended");
        assert_eq!(scene.barriers[0].waiting, [id(1)]);
    }

    #[test]
    fn a_shared_one_is_known_by_who_waits_there() {
        let mut scene = Scene {
            threads: vec![thread(1, Doing::Waiting(WaitFor::Barrier(0)))],
            barriers: vec![barrier(0x7000, &[1])],
            ..Scene::default()
        };
        let shared = BarrierSeen {
            shared: true,
            ..known(0x100, &[1])
        };
        assert_eq!(merge(&mut scene, vec![shared]), [0]);
        assert_eq!(scene.barriers.len(), 1);
        assert_eq!(scene.barriers[0].address, 0x7000);
        assert!(scene.barriers[0].past.is_some() && scene.barriers[0].shared);
    }

    #[test]
    fn who_was_seen_at_another_barrier_stays_there() {
        let mut scene = Scene {
            threads: vec![
                thread(1, Doing::Waiting(WaitFor::Barrier(0))),
                thread(2, Doing::Waiting(WaitFor::Barrier(1))),
            ],
            barriers: vec![barrier(0x100, &[1]), barrier(0x200, &[2])],
            ..Scene::default()
        };
        let _at = merge(&mut scene, vec![known(0x100, &[1, 2])]);
        assert_eq!(scene.barriers[0].waiting, [id(1)]);
        assert_eq!(scene.barriers[1].waiting, [id(2)]);
        assert_eq!(scene.threads[1].doing, Doing::Waiting(WaitFor::Barrier(1)));
    }
}
