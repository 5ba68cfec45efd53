//! Looks at programs that do not hang, and that do not notice the looks.

use super::*;
use sbt_engine::report::HangKind;

/// There are at most `MANY` looks; after `LONG`, `FEW` looks are enough.
const LONG: Duration = Duration::from_secs(5);
const MANY: u32 = 80;
const FEW: u32 = 20;

/// Many short looks at a program that does not hang.
fn often(options: &'static [&'static str], case: &str, check: impl Fn(&Scene)) {
    let stuck = Stuck::new(&built("contended.c", options), case);
    let how = Looks {
        times: 2,
        apart: Duration::from_micros(300),
        ..Looks::default()
    };
    let begun = Instant::now();
    for turn in 0..MANY {
        check(&at(&[stuck.child.id()], &how).unwrap());
        if turn >= FEW && begun.elapsed() > LONG {
            break;
        }
    }
}

#[test]
fn those_that_slept_have_not_moved_on_meanwhile() {
    for options in [&[][..], &["-O0"]] {
        // A thread that waits does not hold the mutex, and a thread that holds it does not wait.
        often(options, "mutex", |scene| {
            let waits = |seen: &&ThreadSeen| {
                seen.slept && matches!(seen.doing, Doing::Waiting(WaitFor::Mutex { .. }))
            };
            for seen in scene.threads.iter().filter(waits) {
                let Doing::Waiting(WaitFor::Mutex { holder, .. }) = seen.doing else {
                    continue;
                };
                let mut waiting = scene.threads.iter().filter(waits);
                let by_one_that_waits = waiting.any(|thread| holder == Holder::Thread(thread.id));
                let gone = matches!(holder, Holder::Gone { .. });
                assert!(!by_one_that_waits && !gone, "{scene:#?}");
            }
        });
        // Two threads never wait at a barrier for two.
        often(options, "barrier", |scene| {
            for at in 0..scene.barriers.len() {
                let here = Doing::Waiting(WaitFor::Barrier(at));
                let slept = scene
                    .threads
                    .iter()
                    .filter(|thread| thread.slept && thread.doing == here);
                assert!(slept.count() < 2, "{scene:#?}");
            }
        });
    }
}

#[test]
fn nobody_says_that_they_hang_or_that_a_holder_is_gone() {
    for case in ["mutex", "barrier", "heirs"] {
        often(&[], case, |scene| {
            let hang = sbt_engine::hang::judge(scene);
            let kind = hang.as_ref().map(|hang| hang.kind);
            let is_hang = matches!(kind, Some(HangKind::Never | HangKind::Stuck));
            assert!(!is_hang, "{case}: {hang:#?} {scene:#?}");
            // Not even for a thread that was not listed.
            let waits_for_one_that_is_gone = |seen: &ThreadSeen| {
                matches!(
                    seen.doing,
                    Doing::Waiting(WaitFor::Mutex {
                        holder: Holder::Gone { .. },
                        ..
                    })
                )
            };
            let any = scene.threads.iter().any(waits_for_one_that_is_gone);
            assert!(!any, "{case}: {scene:#?}");
        });
    }
}

#[test]
fn what_is_being_written_is_written_in_full() {
    // The callers can be followed from outside only as far as the calling function.
    let program = built("big_write.c", &["-O0"]);
    let mut stuck = Stuck::start(Command::new(program).arg("ms=3000"));
    let mut looker = Looker::new(&[stuck.child.id()]).unwrap();
    for turn in 0..50 {
        looker.look(turn);
        sleep(Duration::from_millis(4));
    }
    let scene = looker.scene(&[]);
    let writer = &thread(&scene, "writer").doing;
    assert!(
        matches!(writer, Doing::Waiting(WaitFor::Data { call, .. }) if call == "write"),
        "{writer:?}"
    );
    let out = stuck.child.stdout.take().unwrap();
    let lines: Vec<String> = BufReader::new(out).lines().map(Result::unwrap).collect();
    assert_eq!(lines, ["1048576"]);
    assert!(stuck.child.wait().unwrap().success());
}

#[test]
fn little_is_kept_of_a_stack() {
    let stuck = Stuck::new(&built("hangs.c", &[]), "spin");
    let mut looker = Looker::new(&[stuck.child.id()]).unwrap();
    looker.look(0);
    looker.look(1);
    let followed = looker.threads.values();
    let followed = followed.flat_map(|seen| [&seen.followed, &seen.before]);
    let lengths: Vec<usize> = followed
        .flatten()
        .map(|followed| followed.top.capacity())
        .collect();
    assert!(lengths.iter().any(|length| *length > 0), "{lengths:?}");
    assert!(lengths.iter().all(|length| *length <= 64), "{lengths:?}");
}
