//! Sample programs that stand still.

use super::{S, hanging, hostile};
use crate::{
    live::Snapshot,
    report::{
        BarrierKind, BlockedOn, BlockedOnKind, HangBarrierReport, HangCause, HangKind, HangOutcome,
        HangReport, HangThreadReport, HangThreadState, HangWho, StandstillReport,
    },
};

fn thread(id: u32, state: HangThreadState, does: &str, stack: &[&str]) -> HangThreadReport {
    let name = if id == 0 { "lu" } else { "worker" };
    HangThreadReport {
        who: HangWho {
            thread: Some(id),
            tid: 4242 + id,
            process: Some(4242),
            name: format!("T{id} {name}"),
        },
        state,
        does: does.into(),
        at: stack.first().map(|&call| call.to_owned()),
        also_at: Vec::new(),
        stack: stack.iter().map(|&call| call.to_owned()).collect(),
        own: Vec::new(),
        cpu_pct: Some(0.0),
        blocked_on: None,
        waiting_ns: None,
    }
}

fn report() -> HangReport {
    let waits = |id: u32| HangThreadReport {
        waiting_ns: Some(40 * S - u64::from(id) * S / 1000),
        ..thread(
            id,
            HangThreadState::Waiting,
            "waits at the barrier at update_rows lu.c:715",
            &["update_rows lu.c:715", "SlaveStart lu.c:402"],
        )
    };
    let held = "waits for the mutex 0x55d0c0de40 that T1 worker holds";
    HangReport {
        kind: HangKind::Never,
        because: Some(HangCause::Cycle),
        text: format!(
            "T3 worker is missing at the barrier at update_rows lu.c:715: it {held}, in push \
             queue.c:88, and T1 worker waits at that barrier: none of them can go on."
        ),
        barrier: Some(HangBarrierReport {
            id: Some(0),
            kind: BarrierKind::Pthread,
            address: "0x55d0c0de00".into(),
            process: 4242,
            shared: false,
            arrived: Some(3),
        }),
        site: Some("update_rows lu.c:715".into()),
        participants: Some(4),
        arrived: (0..3).map(waits).collect(),
        missing: vec![HangThreadReport {
            blocked_on: Some(BlockedOn {
                kind: BlockedOnKind::Mutex,
                address: Some("0x55d0c0de40".into()),
                holder: None,
                holder_gone: false,
                call: None,
                timed: Some(false),
            }),
            ..thread(
                3,
                HangThreadState::Waiting,
                held,
                &[
                    "push queue.c:88",
                    "update_rows lu.c:709",
                    "SlaveStart lu.c:402",
                ],
            )
        }],
        missing_count: Some(1),
        certain: true,
        others: Vec::new(),
        cycle: None,
        chain: vec![
            "T3 worker → mutex 0x55d0c0de40 held by T1 worker → barrier at update_rows lu.c:715 \
             → T3 worker"
                .into(),
        ],
        also: Vec::new(),
        looks: Some(20),
        looked_ns: S / 10,
        still_ns: Some(40 * S),
        notes: Vec::new(),
    }
}

/// [`hanging`], after the cause was found.
pub fn hung() -> Snapshot {
    let mut snapshot = hanging();
    snapshot.report.run.hang = Some(StandstillReport {
        found: report(),
        lasted_ns: 40 * S,
        outcome: HangOutcome::Lasts,
    });
    snapshot
}

/// [`hung`], but one of the missing threads runs.
pub fn slow() -> Snapshot {
    let mut snapshot = hung();
    if let Some(hang) = &mut snapshot.report.run.hang {
        let runs = "runs in eliminate() lu.c:731 (97 % of a CPU in 100 ms)";
        let stack = ["eliminate lu.c:731", "SlaveStart lu.c:402"];
        hang.found = HangReport {
            kind: HangKind::Slow,
            because: None,
            text: format!(
                "T3 worker is missing at the barrier at update_rows lu.c:715: it {runs}."
            ),
            missing: vec![HangThreadReport {
                cpu_pct: Some(97.0),
                ..thread(3, HangThreadState::Running, runs, &stack)
            }],
            chain: Vec::new(),
            ..report()
        };
    }
    snapshot
}

/// A hang that has resolved itself.
pub fn over() -> Snapshot {
    let mut snapshot = hung();
    snapshot.pace = super::imbalanced().pace;
    if let Some(hang) = &mut snapshot.report.run.hang {
        hang.outcome = HangOutcome::Over;
    }
    snapshot
}

/// [`hostile`], with a hang that has hostile names.
pub fn hostile_hang() -> Snapshot {
    let mut snapshot = hostile();
    let mut hang = report();
    let bad = "漢\x1b[2J\u{202e}";
    hang.text = bad.repeat(100);
    for thread in hang.arrived.iter_mut().chain(&mut hang.missing) {
        thread.who.name = bad.repeat(20);
        thread.does = bad.repeat(50);
        thread.stack = vec![bad.repeat(30); 40];
    }
    hang.chain = vec![bad.repeat(90); 8];
    hang.notes = vec![bad.into()];
    snapshot.report.run.hang = Some(StandstillReport {
        found: hang,
        lasted_ns: u64::MAX,
        outcome: HangOutcome::Lasts,
    });
    snapshot
}
