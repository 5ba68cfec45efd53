//! Evidence from the code of the calls: relations between waits and wakes.

use super::*;

/// A barrier that keeps threads out until all have left: the calls that let them in.
struct Parsec;

const ENTERS: CallersId = CallersId(3);
const LEAVES: CallersId = CallersId(4);

impl Code for Parsec {
    fn relation(&mut self, wait: CallersId, wake: CallersId) -> Relation {
        match (wait, wake) {
            (_, LEAVES) => Relation::Leaves,
            (ENTERS, _) => Relation::Enters,
            _ => Relation::Alternatives,
        }
    }
}

#[test]
fn who_is_kept_out_comes_when_it_is_let_in() {
    let mut world = World::default();
    let from = |world: &mut World, callers| match world.events.last_mut() {
        Some(Event::Wait { callers: it, .. } | Event::Wake { callers: it, .. }) => *it = callers,
        other => panic!("{other:?}"),
    };
    for by in 0..50 {
        let order = rotated(4, by);
        world.round(&order, CV);
        if by % 3 == 1 {
            // A thread that waited, or the one that woke the others, comes again before the last
            // has left.
            world.wait(order[by as usize % 4], CV);
            from(&mut world, ENTERS);
        }
        world.wake(order[2], CV, None);
        from(&mut world, LEAVES);
    }
    recognise(&world.events, &mut Parsec).is(200, 50, 0);
}

/// A program that reaches its barrier from many places, each in its own function. It counts the
/// questions about its code.
struct Many {
    asked: usize,
    /// Whether it tells the functions of its calls.
    is_told: bool,
}

impl Many {
    fn calls(place: u32) -> [CallersId; 2] {
        [CallersId(2 * place), CallersId(2 * place + 1)]
    }
}

impl Code for Many {
    fn relation(&mut self, wait: CallersId, wake: CallersId) -> Relation {
        self.asked += 1;
        if wait.0 / 2 == wake.0 / 2 {
            Relation::Alternatives
        } else {
            Relation::Apart
        }
    }

    fn functions(&mut self, callers: CallersId) -> Functions {
        let function = if self.is_told { callers.0 / 2 } else { 0 };
        [Some((0, function.into())), None]
    }
}

#[test]
fn a_program_with_many_places_is_not_asked_about_each_pair_of_them() {
    let mut world = World::default();
    let places = 300;
    for round in 0..3 * places {
        let begin = world.events.len();
        world.round(&rotated(4, round), CV);
        let [waits, wakes] = Many::calls(round % places);
        for event in &mut world.events[begin..] {
            match event {
                Event::Wait { callers, .. } => *callers = waits,
                Event::Wake { callers, .. } => *callers = wakes,
                _ => {}
            }
        }
    }
    let [told, untold] = [true, false].map(|is_told| {
        let mut code = Many { asked: 0, is_told };
        let output = recognise(&world.events, &mut code);
        output.is(u64::from(12 * places), u64::from(3 * places), 0);
        code.asked
    });
    assert!(told < 4 * places as usize, "{told} pairs");
    assert!(untold > (places * places / 4) as usize, "{untold} pairs");
}

/// The relations of a number of callers are forgotten when the number is reused, and no others are.
#[test]
fn relations_are_asked_anew_where_numbers_mean_others() {
    let mut relations = Relations::default();
    let mut code = Many {
        asked: 0,
        is_told: true,
    };
    let all = || (0..9).flat_map(|wait| (0..9).map(move |wake| (wait, wake)));
    for _ in 0..2 {
        for (wait, wake) in all() {
            let _same = relations.get(CallersId(wait), CallersId(wake), &mut code);
        }
        assert_eq!(code.asked, 81);
    }
    relations.forget(CallersId(4));
    for (wait, wake) in all() {
        let _same = relations.get(CallersId(wait), CallersId(wake), &mut code);
    }
    // Number 4 is asked about again: nine times as a wait, nine as a wake, with itself only once.
    assert_eq!(code.asked, 81 + 17);
}
