//! Breakpoints in the memory of a stopped process.

use std::process::{Child, Command};

use super::{
    super::stop,
    others::{CERTAIN, FoundBreakpoints, SeenStop},
    *,
};
use crate::source::twin::ProgramPlace;
use sbt_program::{
    file_id::FileId,
    trace::{self, Id},
};

/// Nothing is mapped at this address in any process.
const NOWHERE: u64 = 0x1000;

/// A stopped process that this thread traces.
struct Target {
    child: Child,
    space: Space,
    /// First address of its code.
    start: u64,
    /// End of that code, exclusive.
    end: u64,
}

impl Target {
    fn new() -> Self {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let id = child.id().cast_signed();
        trace::seize(id, 0).unwrap();
        trace::interrupt(id).unwrap();
        let stop::News::Stopped(stop) = stop::wait_for(id).unwrap() else {
            panic!("it has ended");
        };
        // The process stays stopped until it is killed.
        std::mem::forget(stop);
        let mut space = Space::of(child.id()).unwrap();
        assert!(space.look());
        let Mapped { start, end, .. } = space.mapped[0];
        Self {
            child,
            space,
            start,
            end,
        }
    }

    fn id(&self) -> Id {
        self.child.id().cast_signed()
    }

    fn bytes(&self, at: u64) -> [u8; LONGEST] {
        let mut bytes = [0; LONGEST];
        let _until_the_end = self.space.memory.read_at(&mut bytes, at);
        bytes
    }

    /// Adds a breakpoint that is or was set; what lies there afterwards does not matter.
    fn point(&mut self, at: u64, on: bool) {
        let mut code = self.bytes(at);
        if code[0] == BREAKPOINT {
            // The program's own `int3`.
            code[0] = 0x55;
        }
        let point = Breakpoint {
            code,
            instruction: Instruction::default(),
            hits: vec![(Program::Arrive, 0)],
            elsewhere: None,
            on,
            was_on: true,
            hit: false,
            was_hit: false,
            is_counted: false,
            is_alone: false,
            is_blind: false,
        };
        self.space.points.insert(at, point);
        let byte = if on { BREAKPOINT } else { code[0] };
        let _unmapped = self.space.memory.write_all_at(&[byte], at);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

#[test]
fn a_copy_is_cleaned_beyond_what_is_not_there_any_more() {
    let mut target = Target::new();
    let (start, last) = (target.start, target.end - 1);
    target.point(NOWHERE, true);
    assert!(
        target
            .space
            .clean_copy(target.id(), &[], &Foreign::default())
            .is_err()
    );
    // Also in the last bytes of a mapping: there may be no memory after it.
    target.point(start, true);
    target.point(last, true);
    target
        .space
        .clean_copy(target.id(), &[], &Foreign::default())
        .unwrap();
    for at in [start, last] {
        let original = target.space.points[&at].original();
        assert_eq!(target.bytes(at)[0], original, "{at:x}");
    }
}

#[test]
fn nobody_is_cleaned_by_what_another_program_has() {
    let mut target = Target::new();
    let at = target.start;
    target.point(at, true);
    let mut theirs = target.space.mapped.clone();
    theirs[0].id = FileId {
        device: 0,
        inode: 0,
    };
    let copied = |target: &Target| target.space.copied(target.child.id()).unwrap();
    target
        .space
        .clean_copy(target.id(), &theirs, &Foreign::default())
        .unwrap();
    let mut other = copied(&target);
    other.forget_others(&theirs);
    other.clean(&Foreign::default()).unwrap();
    assert_eq!(target.bytes(at)[0], BREAKPOINT);
    let mut same = copied(&target);
    same.forget_others(&target.space.mapped);
    same.clean(&Foreign::default()).unwrap();
    assert_eq!(target.bytes(at)[0], target.space.points[&at].original());
}

#[test]
fn what_lies_where_nobody_may_look_must_be_the_same_code() {
    let mut target = Target::new();
    let (first, second) = (target.start, target.start + 32);
    target.point(first, false);
    target.point(second, true);
    target.space.forget_gone(true);
    assert_eq!(target.space.points.len(), 2);
    // Other code after the same byte; the mappings alone do not show that.
    let other = !target.bytes(first + 14)[0];
    target
        .space
        .memory
        .write_all_at(&[other], first + 14)
        .unwrap();
    target.space.forget_gone(false);
    assert_eq!(target.space.points.len(), 2);
    target.space.forget_gone(true);
    assert!(!target.space.points.contains_key(&first));
    // A breakpoint that is set is known by its own byte.
    assert!(target.space.points.contains_key(&second));
    let original = target.space.points[&second].original();
    target
        .space
        .memory
        .write_all_at(&[original ^ 1], second)
        .unwrap();
    target.space.forget_gone(true);
    assert!(target.space.points.is_empty());
}

#[test]
fn who_has_ended_has_forbidden_nothing() {
    let mut target = Target::new();
    target.point(target.start, true);
    target.child.kill().unwrap();
    target.child.wait().unwrap();
    assert!(!target.space.look());
    assert!(!target.space.is_closed());
    target.space.forget_gone(true);
    assert!(target.space.points.is_empty());
}

#[test]
fn a_copy_has_what_was_taken_away_after_it_was_made() {
    let mut target = Target::new();
    let (at, other) = (target.start, target.start + 64);
    target.point(at, true);
    target.point(other, true);
    let original = target.space.points[&at].original();
    target.space.retire(at);
    // As if forked before: the breakpoint is in the copy.
    let mut copy = target.space.copied(target.child.id()).unwrap();
    assert_eq!(copy.hits(at), Some(vec![]));
    assert_eq!(copy.hits(other), Some(vec![(Program::Arrive, 0)]));
    copy.clean(&Foreign::default()).unwrap();
    assert_eq!(target.bytes(at)[0], original);
    // As if forked after: the breakpoint is not in the copy.
    let copy = target.space.copied(target.child.id()).unwrap();
    assert!(!copy.points.contains_key(&at));
    // A copy that cannot be opened is cleaned, too.
    target.space.memory.write_all_at(&[BREAKPOINT], at).unwrap();
    target
        .space
        .clean_copy(target.id(), &[], &Foreign::default())
        .unwrap();
    assert_eq!(target.bytes(at)[0], original);
}

#[test]
fn a_copy_has_no_room_that_was_made_after_it() {
    let mut target = Target::new();
    let (at, page) = (target.start, target.start + PAGE);
    target.point(at, true);
    // push rbp
    let instruction = displaced::decode(&[0x55], at).unwrap();
    let (bytes, length) = displaced::elsewhere(&instruction, page).unwrap();
    let point = target.space.points.get_mut(&at).unwrap();
    (point.instruction, point.elsewhere) = (instruction, Some((page, length)));
    target.space.pages.push((page, ROOM as u64));
    let copied = |target: &Target| {
        let copy = target.space.copied(target.child.id()).unwrap();
        (copy.pages.len(), copy.points[&at].elsewhere.is_some())
    };
    assert_eq!(copied(&target), (0, false));
    target.space.memory.write_all_at(&bytes, page).unwrap();
    assert_eq!(copied(&target), (1, true));
}

/// A place with two instructions, of which the first changes nothing and both are simple, and what
/// to watch there.
fn place(target: &Target) -> (u64, Wanted) {
    let mapped = target.space.mapped[0];
    let mut code = vec![0; usize::try_from(mapped.end - mapped.start).unwrap()];
    target
        .space
        .memory
        .read_exact_at(&mut code, mapped.start)
        .unwrap();
    // push rbp; push rbx
    let above = memchr::memmem::find_iter(&code, &[0x55, 0x53])
        .find(|above| sbt_program::arch::prologue::beyond(&code[*above..][..4096]) == Some((1, 8)))
        .unwrap();
    let place = ProgramPlace {
        offset: mapped.offset + above as u64,
        program: Program::Call,
        cookie: 0,
        for_departures: false,
    };
    let wanted = Wanted {
        files: vec![Watched {
            device: mapped.id.device,
            inode: mapped.id.inode,
            places: vec![place],
        }],
        ..Wanted::default()
    };
    (mapped.start + above as u64, wanted)
}

#[test]
fn what_others_take_away_comes_back_and_may_have_missed_something() {
    let mut target = Target::new();
    let (at, wanted) = place(&target);
    target.space.refresh(&wanted).unwrap();
    assert_eq!(target.bytes(at)[0], BREAKPOINT);
    target.space.see(at, &mut None);
    assert_eq!(
        target.space.look_for_others(&wanted),
        FoundBreakpoints::default()
    );
    assert!(!target.space.is_disturbed());
    target.space.memory.write_all_at(&[0x55], at).unwrap();
    assert!(target.space.look_for_others(&wanted).is_changed);
    assert!(target.space.is_disturbed());
    target.space.refresh(&wanted).unwrap();
    assert_eq!(target.bytes(at)[0], BREAKPOINT);
    assert_eq!(target.space.missing(), 1);
    assert_eq!(target.space.missing(), 0);
    target.space.clean(&wanted.foreign).unwrap();
    assert_eq!(target.bytes(at)[..2], [0x55, 0x53]);
}

#[test]
fn a_byte_at_which_nobody_stops_is_not_ours_alone() {
    for (stops, left) in [(false, BREAKPOINT), (true, 0x55)] {
        let mut target = Target::new();
        let (at, wanted) = place(&target);
        target.space.refresh(&wanted).unwrap();
        // No thread has come: the second instruction is watched to see whether threads stop.
        assert!(target.space.look_for_others(&wanted).is_changed);
        target.space.refresh(&wanted).unwrap();
        assert_eq!(target.bytes(at)[..2], [BREAKPOINT; 2]);
        let behind = SeenStop { at, moved: 8 };
        // Threads may have passed the first instruction before it had a breakpoint.
        for _ in 0..CERTAIN {
            assert_eq!(target.space.see(at + 1, &mut None), (behind, false));
        }
        assert!(!target.space.is_disturbed());
        assert!(!target.space.is_theirs(at, &wanted.foreign));
        target.space.has_heard_all();
        for _ in 0..CERTAIN {
            assert_eq!(target.space.see(at + 1, &mut None), (behind, false));
        }
        assert!(target.space.is_disturbed());
        assert!(target.space.is_theirs(at, &wanted.foreign));
        if stops {
            let mut passed = None;
            let here = SeenStop { at, moved: 0 };
            assert_eq!(target.space.see(at, &mut passed), (here, false));
            assert_eq!(target.space.see(at + 1, &mut passed), (behind, true));
        }
        target.space.clean(&wanted.foreign).unwrap();
        assert_eq!(target.bytes(at)[..2], [left, 0x53], "{stops}");
    }
}

#[test]
fn a_byte_that_is_put_back_is_ours_again() {
    let mut target = Target::new();
    let (at, wanted) = place(&target);
    target.space.refresh(&wanted).unwrap();
    target.space.look_for_others(&wanted);
    target.space.refresh(&wanted).unwrap();
    target.space.has_heard_all();
    for _ in 0..CERTAIN {
        target.space.see(at + 1, &mut None);
    }
    assert!(target.space.is_theirs(at, &wanted.foreign));
    // The other tool ends, and takes the byte away with its probe.
    target.space.memory.write_all_at(&[0x55], at).unwrap();
    target.space.look_for_others(&wanted);
    target.space.refresh(&wanted).unwrap();
    assert_eq!(target.bytes(at)[0], BREAKPOINT);
    target.space.clean(&wanted.foreign).unwrap();
    assert_eq!(target.bytes(at)[..2], [0x55, 0x53]);
}

#[test]
fn who_stops_where_it_should_is_not_asked_on() {
    let mut target = Target::new();
    let (at, wanted) = place(&target);
    target.space.refresh(&wanted).unwrap();
    target.space.look_for_others(&wanted);
    target.space.refresh(&wanted).unwrap();
    let mut passed = None;
    target.space.see(at, &mut passed);
    assert!(target.space.see(at + 1, &mut passed).1);
    assert!(target.space.look_for_others(&wanted).is_changed);
    target.space.refresh(&wanted).unwrap();
    assert_eq!(target.bytes(at)[..2], [BREAKPOINT, 0x53]);
    assert!(!target.space.is_disturbed());
    assert_eq!(target.space.missing(), 0);
}
