//! Names and sentences in reports of hangs.

use super::*;

#[test]
fn threads_of_one_name_are_told_apart() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, mutex(0x5581, 1), "update hangs.c:52");
    for number in 1..=3 {
        seen.of(number).name = "lu".into();
    }
    let hang = seen.hang();
    assert!(
        hang.text.starts_with("lu 103 is missing at"),
        "{}",
        hang.text
    );
    assert!(hang.text.contains("that lu 101 holds"), "{}", hang.text);
}

#[test]
fn where_a_library_begins_a_thread_is_no_place_of_the_program() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, mutex(0x5581, 1), "update hangs.c:52");
    for number in [1, 2] {
        // The function of the thread has jumped to the barrier, which is inlined.
        seen.of(number).stack = stack("*std::__atomic_wait atomic_wait.h:431 < *");
        let begin = seen.of(number).stack.last_mut().unwrap();
        begin.function = None;
        begin.binary = "/usr/lib/libstdc++.so.6".into();
    }
    let text = |seen: &Seen| seen.hang().text;
    let named = "worker-3 is missing at the barrier 0x7000 (2 of 3 are there): it waits for the mutex 0x5581 \
         that worker-1 holds, which waits at this barrier: they wait for each other for ever";
    assert_eq!(text(&seen), named);
    for number in [1, 2] {
        seen.of(number).stack.last_mut().unwrap().calls_back = true;
    }
    assert_eq!(text(&seen), named);
    // Events tell no more of the library.
    seen.watched(9, &[1, 2, 3]);
    let past = seen.0.barriers[0].past.as_mut().unwrap();
    for member in &mut past.members {
        member.site = Some("libstdc++.so.6+0xd44a3".into());
    }
    let named = text(&seen);
    assert!(named.contains("at the barrier 0x7000 ("), "{named}");
    // A library of the user's own has places, if no lines.
    let own = seen.of(3).stack.first_mut().unwrap();
    own.binary = "/home/me/libstdc++.so.6".into();
    let named = text(&seen);
    assert!(
        named.contains("the barrier at libstdc++.so.6+0xd44a3"),
        "{named}"
    );
}

#[test]
fn a_report_s_own_names_are_used() {
    let mut seen = Seen::new();
    seen.barrier(3, 40, &[1, 2])
        .worker(3, mutex(0x5581, 1), "update hangs.c:52");
    let mut names = Names::default();
    for number in 0..=3 {
        names
            .threads
            .insert(id(number), (number, format!("T{number}")));
    }
    names.barriers.insert((PROCESS, 0x7000), 5);
    let hang = judge_as(&seen.0, &names).unwrap();
    assert!(
        hang.text.starts_with("T3 worker-3 is missing"),
        "{}",
        hang.text
    );
    assert_eq!(hang.missing[0].who.thread, Some(3));
    assert_eq!(hang.barrier.unwrap().id, Some(5));
}
