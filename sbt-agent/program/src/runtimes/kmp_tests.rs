//! Tests with the libraries of this machine.

use std::{fs, path::PathBuf};

use crate::{
    arch::{
        Code, RESULT,
        values::{Value, Values},
    },
    elf::load_segments,
    point::{Function, Kmp, Point},
    runtimes,
};

/// The libraries of all versions that are installed.
fn libraries() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    versions
        .map(|version| version.path().join("lib/libomp.so.5"))
        .filter(|path| path.exists())
        .collect()
}

fn places(points: &[Point]) -> impl Iterator<Item = (&Point, Kmp)> {
    points.iter().filter_map(|point| match point.function {
        Function::Kmp(kmp) => Some((point, kmp)),
        _ => None,
    })
}

#[test]
fn the_barriers_of_this_machines_libraries_are_found() {
    let libraries = libraries();
    assert!(!libraries.is_empty(), "no libomp here: install libomp-dev");
    for path in libraries {
        let image = fs::read(&path).unwrap();
        let points = runtimes::points(&image, &load_segments(&image).unwrap()).0;
        let named = |symbol| places(&points).filter(move |(point, _)| point.symbol == symbol);
        // Calls for barriers, reductions, copyprivate, and for programs built by gcc.
        assert!(named("__kmp_barrier").count() >= 8, "{points:#?}");
        // Calls in fork_call, fork_teams and GOMP_parallel_end.
        assert!(named("__kmp_join_call").count() >= 2, "{points:#?}");
        assert_eq!(named("__kmp_join_barrier").count(), 1, "{points:#?}");
        // Only the thread that began the region is seen to leave its end.
        for (point, kmp) in places(&points) {
            let worker = point.symbol == "__kmp_join_barrier";
            assert_eq!((kmp.passes, kmp.register == 1), (worker, worker));
            assert!(runtimes::stands_on_emulated(&image, point), "{point:?}");
            let one = places(&points).next().unwrap();
            assert_eq!(
                (kmp.way.team, kmp.way.count),
                (one.1.way.team, one.1.way.count)
            );
        }
        // GOMP_barrier and __kmpc_cancel_barrier call __kmpc_barrier.
        let calls = |kmp: &Kmp| {
            kmp.way
                .outer
                .iter()
                .filter(|outer| outer.returns != 0)
                .count()
        };
        assert!(
            places(&points).any(|(_, kmp)| calls(&kmp) >= 2),
            "{points:#?}"
        );
        let ends = points
            .iter()
            .filter(|point| point.function == Function::TeamEnd);
        assert_eq!(ends.count(), 2, "{points:#?}");
    }
}

/// The end of `__kmpc_bound_num_threads` in a library and in a static program.
#[test]
fn ways_are_read_from_code() {
    let rest = [
        0x48, 0x98, // cltq
        0x48, 0x8b, 0x04, 0xc1, // mov (%rcx,%rax,8),%rax
        0x48, 0x8b, 0x40, 0x40, // mov 0x40(%rax),%rax
        0x8b, 0x80, 0x0c, 0x02, 0, 0, // mov 0x20c(%rax),%eax
    ];
    let load = [0x48, 0x8b, 0x09]; // mov (%rcx),%rcx
    let relative = [0x48, 0x8d, 0x0d, 0xf9, 0x0f, 0, 0]; // lea 0xff9(%rip),%rcx
    let fixed = [0x48, 0xc7, 0xc1, 0x00, 0x20, 0, 0]; // mov $0x2000,%rcx
    let direct = [0x48, 0x8b, 0x0d, 0xf9, 0x0f, 0, 0]; // mov 0xff9(%rip),%rcx
    let result = |code: &[u8]| {
        let mut values = Values::at_entry();
        for instruction in Code::new(0x1000, code).all() {
            values.step(&instruction);
        }
        values.of(RESULT)
    };
    let wanted = Some(Value::Leaf {
        variable: 0x2000,
        offset: 0x40,
        last: 0x20c,
    });
    assert_eq!(result(&[&relative[..], &load, &rest].concat()), wanted);
    assert_eq!(result(&[&fixed[..], &load, &rest].concat()), wanted);
    assert_eq!(result(&[&direct[..], &rest].concat()), wanted);
    // A call in between may change the values.
    let call = [0xe8, 0, 0, 0, 0];
    assert_eq!(result(&[&relative[..], &load, &call, &rest].concat()), None);
    assert_eq!(result(&[&relative[..], &rest].concat()), None);
}
