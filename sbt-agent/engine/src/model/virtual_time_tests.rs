use super::*;
use crate::model::cost::Class;

const SITE: SiteId = SiteId(0);

fn tariff() -> Tariff {
    Tariff {
        each: [100.0; super::super::cost::CLASSES],
        step: 1000.0,
        walk: 10.0,
    }
}

fn part(row: u32, start_ns: Option<u64>, arrived_ns: u64, marks: u32) -> VirtualPart {
    let mut paid = Paid::default();
    paid.add(Class::Wait);
    paid.hits[Class::Mark as usize] = marks;
    VirtualPart {
        row: ThreadId(row),
        start_ns,
        arrived_ns,
        paid,
    }
}

/// Two threads; in each phase one of them pays for `marks` marks, and is the straggler only because
/// of them.
fn run(time: &mut Virtual, marks: u32) -> u64 {
    let cost = 100 + 100 * u64::from(marks);
    // True works: 2000 and 3000. Real works: 2100, and 2000 plus the cost.
    let mut at = 1000;
    for round in 0..3 {
        let start = (round == 0).then_some(1000);
        let a = part(0, start, at + 2000 + cost, marks);
        let b = part(1, start, at + 3100, 0);
        let start = Some(at);
        time.close(
            SITE,
            [
                VirtualPart {
                    start_ns: start,
                    ..a
                },
                VirtualPart {
                    start_ns: start,
                    ..b
                },
            ]
            .into_iter(),
        );
        at = a.arrived_ns.max(b.arrived_ns);
    }
    at
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6, "{a} and not {b}");
}

#[test]
fn what_a_thread_paid_is_taken_from_its_clock() {
    for known_before in [true, false] {
        let mut time = Virtual::default();
        if known_before {
            time.set_tariff(tariff());
        }
        // Real time of a round: 2000 + 4100, by the thread that pays. True time: 3000.
        let end = run(&mut time, 40);
        assert_eq!(end, 1000 + 3 * (2000 + 4100));
        if !known_before {
            assert_eq!(time.total(), None);
            assert_eq!(time.wall_ns(end), None);
        }
        time.set_tariff(tariff());
        let total = *time.total().unwrap();
        assert_eq!(total.episodes, 3);
        near(total.phase_ns, 9000.0);
        near(total.work_ns, 3.0 * 5000.0);
        near(total.idle_ns, 3.0 * 1000.0);
        near(time.wall_ns(end).unwrap(), 1000.0 + 9000.0);
        assert_eq!(time.site(SITE), Some(&total));
        assert_eq!(time.site(SiteId(1)), None);
    }
}

#[test]
fn a_cost_in_the_shadow_of_waiting_does_not_count() {
    let mut time = Virtual::default();
    time.set_tariff(tariff());
    // 2000 + 600 is still less than 3100.
    let end = run(&mut time, 5);
    assert_eq!(end, 1000 + 3 * 3100);
    near(time.total().unwrap().phase_ns, 9000.0);
    near(time.total().unwrap().idle_ns, 3000.0);
}

#[test]
fn what_is_paid_after_the_last_barrier_counts_for_the_wall_time() {
    let mut time = Virtual::default();
    time.set_tariff(tariff());
    let end = run(&mut time, 40);
    let mut paid = Paid::default();
    paid.hits[Class::Mark as usize] = 7;
    time.end(ThreadId(0), end + 1700, paid);
    near(time.wall_ns(end + 1700).unwrap(), 1000.0 + 9000.0 + 1000.0);
    // A thread that met no barrier is as late as all others are.
    time.end(ThreadId(9), end + 2000, Paid::default());
    near(time.wall_ns(end + 2000).unwrap(), 1000.0 + 9000.0 + 1300.0);
}

#[test]
fn what_came_in_a_gap_is_not_reckoned() {
    let mut time = Virtual::default();
    time.set_tariff(tariff());
    let end = run(&mut time, 40);
    time.gap();
    // The beginning of the threads' work is unknown.
    time.close(
        SITE,
        [part(0, None, end + 9000, 0), part(1, None, end + 9500, 0)].into_iter(),
    );
    assert_eq!(time.total().unwrap().episodes, 3);
    near(time.wall_ns(end + 9500).unwrap(), 10_000.0 + 9500.0);
    // Figures continue from there.
    time.close(
        SITE,
        [
            part(0, Some(end + 9500), end + 10_600, 0),
            part(1, Some(end + 9500), end + 10_100, 0),
        ]
        .into_iter(),
    );
    assert_eq!(time.total().unwrap().episodes, 4);
    near(time.total().unwrap().phase_ns, 9000.0 + 1000.0);
}

#[test]
fn too_much_to_wait_with_is_given_up() {
    let mut time = Virtual::default();
    for round in 0..MAX_WAITING as u64 {
        time.close(
            SITE,
            [
                part(0, Some(round), round + 1, 0),
                part(1, Some(round), round + 1, 0),
            ]
            .into_iter(),
        );
    }
    time.set_tariff(tariff());
    assert_eq!(time.total(), None);
    assert_eq!(time.wall_ns(5), None);
}
