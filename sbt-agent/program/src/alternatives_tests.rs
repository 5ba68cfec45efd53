use std::collections::HashMap;

use super::*;

/// Assembles a function from a text with one letter for each instruction, padded to eight bytes.
/// `w` waits, `b` wakes. `l` takes a mutex by a call, `a` takes one itself, `y` yields it. `c`
/// calls another function, `x` calls a function that does not return, `r` returns, `.` does
/// nothing. `n` adds to shared memory, `t` tests a register, `m` tests shared memory. A digit is a
/// conditional jump to the place of that digit in brackets, a digit after `!` an unconditional one.
fn compare(source: &str) -> Relation {
    let graph = graph(source);
    let of = |to| graph.calls_of(Flow::Call(Callee::At(to)));
    graph.compare(&of(10_000), &of(20_000), false)
}

fn graph(source: &str) -> Graph {
    let mut places = [0_u64; 10];
    let mut at = 0;
    let tokens: Vec<char> = source.chars().collect();
    let mut index = 0;
    while index < tokens.len() {
        if tokens[index] == '(' {
            places[tokens[index + 1].to_digit(10).unwrap() as usize] = at;
            index += 3;
        } else {
            index += if tokens[index] == '!' { 2 } else { 1 };
            at += 8;
        }
    }
    let mut code = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let start = code.len() as u64;
        let mut near = |opcode: &[u8], to: u64| {
            code.extend_from_slice(opcode);
            let end = i64::try_from(code.len()).unwrap() + 4;
            let distance = i64::try_from(to).unwrap() - end;
            code.extend_from_slice(&i32::try_from(distance).unwrap().to_le_bytes());
        };
        match tokens[index] {
            '(' => {
                index += 3;
                continue;
            }
            'w' => near(&[0xe8], 10_000),
            'b' => near(&[0xe8], 20_000),
            'c' => near(&[0xe8], 30_000),
            'x' => near(&[0xe8], 40_000),
            'y' => near(&[0xe8], 60_000),
            // lock cmpxchg [rdi], ecx
            'a' => code.extend_from_slice(&[0xf0, 0x0f, 0xb1, 0x0f]),
            'l' => near(&[0xe8], 50_000),
            // lock add dword ptr [rdi], 1
            'n' => code.extend_from_slice(&[0xf0, 0x83, 0x07, 0x01]),
            // test esi, esi
            't' => code.extend_from_slice(&[0x85, 0xf6]),
            // cmp dword ptr [rdi], 5
            'm' => code.extend_from_slice(&[0x83, 0x3f, 0x05]),
            'r' => code.push(0xc3),
            '.' => code.push(0x90),
            '!' => {
                index += 1;
                near(
                    &[0xe9],
                    places[tokens[index].to_digit(10).unwrap() as usize],
                );
            }
            digit => near(&[0x0f, 0x84], places[digit.to_digit(10).unwrap() as usize]),
        }
        index += 1;
        while (code.len() as u64) < start + 8 {
            code.push(0x90);
        }
    }
    of_code(&code)
}

fn of_code(code: &[u8]) -> Graph {
    let known = |callees: &[Callee]| {
        let of = |callee: &Callee| match callee {
            Callee::At(40_000) => CalledFunction::NeverReturns,
            Callee::At(50_000) | Callee::Through(50_000) => CalledFunction::Locks,
            Callee::At(60_000) => CalledFunction::Yields,
            _ => CalledFunction::Nothing,
        };
        callees.iter().map(|callee| (*callee, of(callee))).collect()
    };
    Graph::new(code, 0, known)
}

/// Like [`compare`], but also looks at what the test asks.
fn decided(source: &str) -> Relation {
    decided_by(&graph(source))
}

fn decided_by(graph: &Graph) -> Relation {
    let of = |to| graph.calls_of(Flow::Call(Callee::At(to)));
    graph.decided(&of(10_000), &of(20_000), false)
}

#[test]
fn the_test_of_a_barrier_counts_who_has_come() {
    use Relation::{Alternatives, Either, InTurn};
    // Add one; if last goto 1; do wait while not 2; return; 1: wake; return
    assert_eq!(decided("n1(2)w2r(1)br"), Alternatives);
    assert_eq!(decided("n.1(2)w2r(1)br"), Alternatives);
    // The test asks for the thread's role; or for what other threads have left in memory.
    assert_eq!(decided("t1(2)w2r(1)br"), Either);
    assert_eq!(decided("m1(2)w2r(1)br"), Either);
    assert_eq!(decided("nt1(2)w2r(1)br"), Either);
    // A count that is then tested; behind a called function the origin of the value is unknown.
    assert_eq!(decided("nm1(2)w2r(1)br"), Alternatives);
    assert_eq!(decided("nc1(2)w2r(1)br"), Either);
    // One role wakes others if they sleep, which it counts; afterwards both go on in the same way.
    assert_eq!(decided("(0)t1ccn2b(2)c!0(1)wcc!0"), Either);
    assert_eq!(decided("(0)t1ccn2b(2)!0(1)wcc!0"), InTurn);
}

/// A function that begins with `test`: `je` to the wake, else a wait.
fn with_test(test: &[u8]) -> Relation {
    let mut code = test.to_vec();
    code.extend_from_slice(&[0x74, 6]);
    for (to, wakes) in [(10_000, false), (20_000, true)] {
        let end = i32::try_from(code.len()).unwrap() + 5;
        code.push(0xe8);
        code.extend_from_slice(&(to - end).to_le_bytes());
        if !wakes {
            code.push(0xc3);
        }
    }
    code.push(0xc3);
    decided_by(&of_code(&code))
}

#[test]
fn to_read_add_and_write_is_to_count() {
    use Relation::{Alternatives, Either};
    // mov eax, [rdi]; lea edx, [rax+1]; mov [rdi], edx; cmp edx, esi
    let counts = [0x8b, 0x07, 0x8d, 0x50, 0x01, 0x89, 0x17, 0x39, 0xf2];
    assert_eq!(with_test(&counts), Alternatives);
    // The write goes to another place: mov [rdi+8], edx
    let elsewhere = [0x8b, 0x07, 0x8d, 0x50, 0x01, 0x89, 0x57, 0x08, 0x39, 0xf2];
    assert_eq!(with_test(&elsewhere), Either);
    // mov eax, 1; lock xadd [rdi], eax; add eax, 1; cmp eax, esi
    let adds = [
        0xb8, 1, 0, 0, 0, 0xf0, 0x0f, 0xc1, 0x07, 0x83, 0xc0, 0x01, 0x39, 0xf0,
    ];
    assert_eq!(with_test(&adds), Alternatives);
    // Without optimisation, each access through a pointer on the stack: mov rax, [rbp-8]; mov eax,
    // [rax]; lea edx, [rax+1]; mov rax, [rbp-8]; mov [rax], edx; mov rax, [rbp-8]; mov edx, [rax];
    // cmp edx, esi
    let plain = [
        0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x00, 0x8d, 0x50, 0x01, 0x48, 0x8b, 0x45, 0xf8, 0x89, 0x10,
        0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x10, 0x39, 0xf2,
    ];
    assert_eq!(with_test(&plain), Alternatives);
    // The word that was read is written on both ways, or on one way only; or the way to the wait
    // writes another value, as the first of two partners that meet does.
    let reads = [0x8b, 0x07];
    let [adds, nothing] = [[0x8d, 0x50, 0x01], [0x90; 3]];
    let writes = [0x89, 0x17, 0x90, 0x90];
    for (between, on, expected) in [
        (adds, [true, true], Alternatives),
        (adds, [true, false], Either),
        (adds, [false, true], Either),
        (nothing, [true, true], Either),
    ] {
        // mov eax, [rdi]; lea edx, [rax+1]; cmp eax, esi; je
        let mut code = [&reads[..], &between, &[0x39, 0xf0, 0x74, 10]].concat();
        // mov [rdi], edx; wait; ret; mov [rdi], edx; wake; ret
        for (to, writes_it) in [10_000, 20_000].into_iter().zip(on) {
            code.extend_from_slice(if writes_it { &writes } else { &[0x90; 4] });
            let end = i32::try_from(code.len()).unwrap() + 5;
            code.push(0xe8);
            code.extend_from_slice(&(to - end).to_le_bytes());
            code.push(0xc3);
        }
        assert_eq!(decided_by(&of_code(&code)), expected, "{between:?} {on:?}");
    }
    // A variable on the thread's own stack: push rbp; mov rbp, rsp; add dword ptr [rbp-4], 1
    let own = [0x55, 0x48, 0x89, 0xe5, 0x83, 0x45, 0xfc, 0x01];
    assert_eq!(with_test(&own), Either);
    // A thread-local variable: lock add dword ptr fs:[0x10], 1
    let of_thread = [0xf0, 0x64, 0x83, 0x04, 0x25, 0x10, 0, 0, 0, 0x01];
    assert_eq!(with_test(&of_thread), Either);
}

/// The relation of each wait with each wake, in their order.
fn relations(source: &str) -> Vec<Vec<Relation>> {
    let graph = graph(source);
    let of = |to| graph.calls_of(Flow::Call(Callee::At(to)));
    let wakes = of(20_000);
    let of_wait = |wait: usize| wakes.iter().map(move |wake| (wait, *wake));
    of(10_000)
        .into_iter()
        .map(|wait| {
            of_wait(wait)
                .map(|(wait, wake)| graph.relation(wait, wake, false))
                .collect()
        })
        .collect()
}

#[test]
fn a_barrier_either_waits_or_wakes() {
    // lock; if last goto 1; do wait while not 2; 3: unlock; return; 1: wake; goto 3
    assert_eq!(compare("c1(2)w2(3)cr(1)b!3"), Relation::Alternatives);
    // The same in a loop around all of it, with work between.
    assert_eq!(compare("(0)cc1(2)w2(3)c!0(1)b!3"), Relation::Alternatives);
    // A lock that is released only if it is held, and no other call between rounds.
    let source = "(0)l1(2)w2(3)4c(4)!0(1)b!3";
    assert_eq!(compare(source), Relation::Alternatives);
    assert_eq!(compare(&source.replace('l', "c")), Relation::InTurn);
    // The wake comes after the mutex is released.
    assert_eq!(compare("c1(2)w2cr(1)cbr"), Relation::Alternatives);
    // Cancellation is switched off around the wait, as in SPLASH-2.
    assert_eq!(compare("c1c(2)w2c(3)cr(1)b!3"), Relation::Alternatives);
    // An error ends the program.
    assert_eq!(
        compare("c1(2)w4.2(3)cr(1)b!3(4)x(5)b!5"),
        Relation::Alternatives
    );
}

#[test]
fn a_barrier_may_keep_out_who_comes_before_all_have_left() {
    use Relation::{Alternatives, Enters, InTurn, Leaves};
    // lock; (0) while not in: wait; if last goto 2; (1) while here: wait; (3) if not the last
    // to leave goto 4; wake; (4) unlock; return; (2) wake; goto 3
    let parsec = "l(0)5w!0(5)2(1)3w!1(3)4b(4)cr(2)b!3";
    assert_eq!(
        relations(parsec),
        [[Leaves, Enters], [Leaves, Alternatives]]
    );
    // In a loop around all of it, with work between.
    let looped = format!("(9)cc{}", parsec.replace('r', "!9"));
    assert_eq!(relations(&looped), relations(parsec));
    // Without the deciding pair, each wait and wake is a monitor.
    assert_eq!(relations("l(0)1w!0(1)bcr"), [[InTurn]]);
    // Two monitors, one after the other.
    let two = "l(0)1w!0(1)bl(2)3w!2(3)bcr";
    assert!(
        relations(two)
            .concat()
            .iter()
            .all(|relation| !matches!(relation, Leaves | Enters | Alternatives)),
        "{:?}",
        relations(two)
    );
    // A producer and a consumer, at one condition variable in one function.
    let queue = "(9)l5(0)1w!0(1)bc!9(5)2w!5(2)bc!9";
    assert!(
        !relations(queue).concat().contains(&Leaves),
        "{:?}",
        relations(queue)
    );
}

#[test]
fn who_is_to_wait_may_spin_first() {
    use Relation::{Alternatives, Apart, Enters, Lacking, Leaves};
    // lock; if last goto 1; unlock; (4) spin; (5) try to lock; (2) while here: wait; (3) unlock;
    // return; (1) wake; goto 3
    let spins = "l1y(4).4(5)y5(2)w2(3)cr(1)b!3";
    assert_eq!(relations(spins), [[Lacking]]);
    assert_eq!(relations(&spins.replace('y', "c")), [[Apart]]);
    // With a wait for threads that have not left the last round yet.
    let parsec = "l7y(0).0(6)y6(8)w8(7)2y(1).1(5)y5(9)w9(3)4b(4)yr(2)b!3";
    assert_eq!(relations(parsec), [[Leaves, Enters], [Leaves, Lacking]]);
    // Two barriers in one function are told apart, whichever way the mutex is taken.
    let one = "1(2)w2(3)cr(1)b!3";
    for locks in ['l', 'a'] {
        let second = one.replace('1', "4").replace('2', "5").replace('3', "6");
        let both = format!("{locks}{}(7)c{locks}{second}", one.replace('r', "!7"));
        let found = relations(&both);
        assert_eq!(found[0][0], Alternatives, "{locks}: {found:?}");
        assert_eq!(found[1][1], Alternatives, "{locks}: {found:?}");
        assert_eq!(found[0][1], Apart, "{locks}: {found:?}");
    }
    // A producer and a consumer, at one condition variable.
    let queue = "1a(2)w2b!3(1)a(4)w4b(3)r";
    let found = relations(queue).concat();
    assert!(
        !found.iter().any(|relation| relation.is_of_barrier()),
        "{found:?}"
    );
    // The mutex is taken only by trying until that succeeds.
    assert_eq!(relations(&spins.replace('l', "(9)y9")), [[Apart]]);
    // Yields do not count as calls only where that is necessary.
    assert_eq!(relations("l1(2)w2(3)yr(1)b!3"), [[Alternatives]]);
}

#[test]
fn a_monitor_waits_and_then_wakes() {
    // lock; while not mine wait; …; wake; unlock
    assert_eq!(compare("c1(2)w2(1)bcr"), Relation::InTurn);
    // A thread that is not in turn waits once, and takes the mutex to test again.
    assert_eq!(compare("(0)l1w(3)4c(4)!0(1)b!3"), Relation::InTurn);
    // The wake comes after the mutex is released.
    assert_eq!(compare("c1(2)w2(1)cbr"), Relation::InTurn);
    // The thread gives the turn away, and then waits for it.
    assert_eq!(compare("(0)cb(2)w2c!0"), Relation::InTurn);
}

#[test]
fn what_lies_on_separate_ways_has_nothing_to_do_with_each_other() {
    // One role: lock; wait; unlock; work. The other: lock; wake; unlock; sleep.
    assert_eq!(compare("1(0)c2(3)w3(2)cc!0(1)cbc!1"), Relation::Apart);
    // Each thread has a lock of its own, which is taken here and released there.
    assert_eq!(compare("(0)c1(2)w2(1)cccbc!0"), Relation::Apart);
}

#[test]
fn any_bytes_are_an_answer() {
    for seed in 0..200_u32 {
        let code: Vec<u8> = (0..300_u32)
            .map(|index| {
                let mixed = seed.wrapping_mul(2_654_435_761).rotate_left(index % 31);
                (mixed ^ (index * 97)).to_le_bytes()[0]
            })
            .collect();
        let graph = Graph::new(&code, u64::MAX - 100, |_| HashMap::new());
        let all: Vec<usize> = (0..graph.nodes.len()).collect();
        let _any = graph.compare(&all, &all, false);
    }
}

#[test]
fn what_takes_a_mutex_is_known_by_its_name() {
    for name in [
        "pthread_mutex_lock",
        "_ZNSt5mutex4lockEv",
        "_ZNSt3__15mutex4lockEv",
        "_ZNSt11unique_lockISt5mutexEC1ERS0_",
        "_ZNSt10lock_guardISt5mutexEC2ERS0_",
        "_ZNSt3__111unique_lockINS_5mutexEEC2ERS1_",
        "_ZNSt3__111unique_lockINS_5mutexEEC2B8ne180100ERS1_",
    ] {
        assert_eq!(CalledFunction::of(name), CalledFunction::Locks, "{name}");
    }
    for name in ["pthread_mutex_unlock", "pthread_mutex_trylock"] {
        assert_eq!(CalledFunction::of(name), CalledFunction::Yields, "{name}");
    }
    for name in [
        "_ZNSt11unique_lockISt5mutexED2Ev",
        "_ZNSt11unique_lockISt5mutexEC2EOS1_",
        "_ZNSt11unique_lockISt5mutexEC2ERS0_St12defer_lock_t",
        "_ZN5GuardC2ERSt11unique_lockISt5mutexE",
        "lock",
    ] {
        assert_eq!(CalledFunction::of(name), CalledFunction::Nothing, "{name}");
    }
}

#[test]
fn the_number_of_a_system_call_tells_calls_of_one_function_apart() {
    let near = |opcode: u8, at: i32| {
        let distance = 10_000 - (at + 5);
        [&[opcode][..], &distance.to_le_bytes()].concat()
    };
    let (call, jump) = (|at| near(0xe8, at), |at| near(0xe9, at));
    let code = [
        // mov edi, 186; call
        vec![0xbf, 186, 0, 0, 0],
        call(5),
        // mov edi, 202; mov rsi, rbx; call
        vec![0xbf, 202, 0, 0, 0],
        vec![0x48, 0x89, 0xde],
        call(18),
        // mov edi, 0x404000: an address is not a small argument
        vec![0xbf, 0, 0x40, 0x40, 0],
        call(28),
        // mov rdi, rbx: any value
        vec![0x48, 0x89, 0xdf],
        call(36),
        // Behind a call nothing is known.
        call(41),
        // mov edi, 202; add rsp, 8; jmp
        vec![0xbf, 202, 0, 0, 0],
        vec![0x48, 0x83, 0xc4, 8],
        jump(55),
    ];
    let graph = of_code(&code.concat());
    let calls = graph.calls_of(Flow::Call(Callee::At(10_000)));
    let numbers: Vec<_> = calls
        .iter()
        .map(|call| graph.small_argument(*call))
        .collect();
    assert_eq!(numbers, [Some(186), Some(202), None, None, None]);
    let jumps = graph.jumps_out(|_| true);
    let numbers: Vec<_> = jumps
        .iter()
        .map(|jump| graph.small_argument(*jump))
        .collect();
    assert_eq!(numbers, [Some(202)]);
    assert!(graph.goes_alike(jumps[0], calls[1]));
}

/// As with `-fno-plt`.
#[test]
fn calls_and_jumps_through_pointers_are_those_of_the_functions_there() {
    // call [rip + …], jmp [rip + …]
    let through = |operation: u8, at: i32, word: i32| {
        let far = (word - at - 6).to_le_bytes();
        [&[0xff, operation], &far[..]].concat()
    };
    let code = [
        through(0x15, 0, 50_000),
        through(0x15, 6, 10_000),
        through(0x25, 12, 10_000),
        through(0x25, 18, 20_000),
    ];
    let graph = of_code(&code.concat());
    assert_eq!(graph.locks, [0]);
    let jumps = graph.jumps_out(|callee| callee == Callee::Through(10_000));
    assert_eq!(jumps, [2]);
    assert!(graph.goes_alike(2, 1));
    assert!(!graph.goes_alike(3, 1));
    assert!(graph.following[2].is_empty(), "it does not go on");
}
