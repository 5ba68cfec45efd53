//! Programs with barriers behind functions of their own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::super::unwind::Unwind;
use super::super::unwind::tests::{map, symbol};
use super::*;

/// The most return addresses that are asked for.
const LIMIT: usize = 1024;

const HEAD: &str = "
    #define _GNU_SOURCE
    #include <pthread.h>
    #define F __attribute__((noinline)) static
    pthread_barrier_t b;
    volatile long cell;
    ";

/// The return addresses from which sbt walks in a program, and the program's calls.
fn search(source: &str) -> (Vec<At>, Rc<Calls>) {
    let options = ["-O2", "-pthread", "-fno-optimize-sibling-calls"];
    let calls = Calls::of(Arc::new(Unwind::of(map(&options, source)).unwrap())).unwrap();
    let calls = Rc::new(calls);
    let mut callers = Callers::default();
    callers.add(0, Rc::clone(&calls));
    let names = HashSet::from(["pthread_barrier_wait".to_owned()]);
    (callers.walked(&[], &names, LIMIT), calls)
}

/// The functions from which sbt walks, by name, each as often as there are return addresses in it.
fn walked(body: &str) -> Vec<String> {
    let source = format!("{HEAD}{body}");
    let options = ["-O2", "-pthread", "-fno-optimize-sibling-calls"];
    let image = map(&options, &source);
    let (found, calls) = search(&source);
    let function = |at: &At| {
        let start = calls.function(at.1 - 1).unwrap();
        let names: Vec<&str> = body
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .collect();
        let mut names = names.into_iter();
        let is_it = |name: &&str| {
            !name.is_empty() && has_symbol(&image, name) && symbol(&image, name) == start
        };
        names.find(is_it).unwrap().to_owned()
    };
    found.iter().map(function).collect()
}

fn has_symbol(image: &[u8], name: &str) -> bool {
    use object::{Object as _, ObjectSymbol as _};
    let file = object::File::parse(image).unwrap();
    let mut symbols = file.symbols();
    symbols.any(|symbol| symbol.name() == Ok(name) && symbol.size() > 0)
}

const MAIN: &str = "
    int main(void) {
        pthread_t t;
        pthread_create(&t, 0, work, 0);
        pthread_join(t, 0);
        return 0;
    }";

#[test]
fn nothing_is_walked_where_every_function_is_called_from_one_place() {
    let body = "
        F void phase(void) { cell++; pthread_barrier_wait(&b); cell++; }
        F void *work(void *p) { phase(); cell++; pthread_barrier_wait(&b); cell++; return p; }";
    assert_eq!(walked(&format!("{body}{MAIN}")), [""; 0]);
}

#[test]
fn what_begins_a_thread_may_be_called_besides() {
    let body = "
        F void *work(void *p) { pthread_barrier_wait(&b); cell++; return p; }
        int main(void) {
            pthread_t t;
            pthread_create(&t, 0, work, 0);
            work(0);
            return 0;
        }";
    assert_eq!(walked(body), [""; 0]);
}

#[test]
fn a_function_with_several_callers_is_walked_and_its_callers_are_not() {
    let body = "
        F void wrapper(void) { pthread_barrier_wait(&b); cell++; }
        F void first(void) { wrapper(); cell++; }
        F void *work(void *p) { first(); wrapper(); cell++; return p; }";
    assert_eq!(walked(&format!("{body}{MAIN}")), ["wrapper"]);
}

#[test]
fn a_function_with_one_caller_is_walked_if_that_has_several() {
    let body = "
        F void inner(void) { pthread_barrier_wait(&b); cell++; }
        F void outer(void) { cell++; inner(); cell++; }
        F void *work(void *p) { outer(); cell++; outer(); cell++; return p; }";
    let mut found = walked(&format!("{body}{MAIN}"));
    found.sort_unstable();
    assert_eq!(found, ["inner", "outer"]);
}

#[test]
fn recursion_is_not_walked() {
    let body = "
        F void again(long n) {
            if (n > 0) { again(n - 1); cell++; }
            pthread_barrier_wait(&b);
            cell++;
        }
        F void *work(void *p) { again((long)p); cell++; return p; }";
    assert_eq!(walked(&format!("{body}{MAIN}")), [""; 0]);
    let body = "
        F void again(long n) {
            if (n > 0) { again(n - 1); cell++; }
            pthread_barrier_wait(&b);
            cell++;
        }
        F void *work(void *p) { again((long)p); cell++; again(3); cell++; return p; }";
    assert_eq!(
        walked(&format!("{body}{MAIN}")),
        ["again"],
        "once, not from itself"
    );
}

#[test]
fn a_method_is_walked_and_no_further_than_a_runtime() {
    let body = "
        F void method(void) { pthread_barrier_wait(&b); cell++; }
        void (*volatile methods[2])(void) = {method, 0};
        F void *work(void *p) { methods[0](); cell++; return p; }";
    assert_eq!(walked(&format!("{body}{MAIN}")), ["method"]);
    let body = "
        F void method(void) { pthread_barrier_wait(&b); cell++; }
        void (*volatile methods[2])(void) = {method, 0};
        F void calls_it(void) { methods[0](); cell++; }
        F void *work(void *p) { calls_it(); cell++; calls_it(); cell++; return p; }";
    let mut found = walked(&format!("{body}{MAIN}"));
    found.sort_unstable();
    assert_eq!(found, ["calls_it", "method"]);
}

#[test]
fn calls_through_pointers_take_no_room_from_direct_ones() {
    let many = "methods[0](); cell++; ".repeat(2 * LIMIT);
    let body = format!(
        "
        F void method(void) {{ pthread_barrier_wait(&b); cell++; }}
        void (*volatile methods[2])(void) = {{method, 0}};
        F void wrapper(void) {{ pthread_barrier_wait(&b); cell += 2; }}
        F void calls_it(void) {{ {many} }}
        F void *work(void *p) {{
            calls_it(); cell++; calls_it(); cell++;
            wrapper(); cell++; wrapper(); cell++;
            return p;
        }}"
    );
    let found = walked(&format!("{body}{MAIN}"));
    assert!(found.contains(&"wrapper".to_owned()));
    assert!(found.len() <= LIMIT);
}

/// A library made of `source`; counts how often its calls are read.
fn library(
    source: &str,
) -> (
    Arc<ProbedFile>,
    Rc<Cell<usize>>,
    impl Fn() -> Option<Read> + 'static,
) {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("lib.so");
    let options = [
        "-O2",
        "-pthread",
        "-fno-optimize-sibling-calls",
        "-shared",
        "-fPIC",
    ];
    std::fs::write(&path, &map(&options, source)[..]).unwrap();
    let file = Arc::new(ProbedFile::open(&path, &path).unwrap());
    let times = Rc::new(Cell::new(0));
    let (of, counted) = (Arc::clone(&file), Rc::clone(&times));
    let read = move || {
        counted.set(counted.get() + 1);
        let unwind = of.unwind()?;
        Some(Read {
            calls: Rc::new(Calls::of(unwind)?),
            of_libraries: HashSet::new(),
        })
    };
    (file, times, read)
}

#[test]
fn files_that_have_nothing_to_do_with_barriers_are_not_read_and_others_once() {
    let sources = [
        // `outer` calls a barrier, and is called from two places of the next library.
        "#include <pthread.h>
         extern pthread_barrier_t b; extern volatile long cell;
         void outer(void) { pthread_barrier_wait(&b); cell++; }",
        "void outer(void); extern volatile long cell;
         void first(void) { outer(); cell++; }
         void second(void) { outer(); cell++; }",
        "extern volatile long cell; void other(void); void third(void) { other(); cell++; }",
        "#include <math.h>
         double fourth(double x) { return sin(x) + cos(x); }",
    ];
    let names = HashSet::from(["pthread_barrier_wait".to_owned()]);
    let mut lazy = Callers::default();
    let mut eager = Callers::default();
    let mut times = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let (file, read_times, read) = library(source);
        eager.add(number, read().unwrap().calls);
        read_times.set(0);
        times.push(read_times);
        assert_eq!(lazy.concerns(&file, &names), number == 0 || number == 1);
        lazy.expect(number, &file, true, read);
        // sbt searches like this after each library that is loaded.
        let _found = lazy.walked(&[], &names, LIMIT);
    }
    let found = lazy.walked(&[], &names, LIMIT);
    assert_eq!(found, eager.walked(&[], &names, LIMIT));
    // The call of the barrier, and the calls in two functions that other files may call.
    assert_eq!(found.len(), 3);
    let times: Vec<usize> = times.iter().map(|times| times.get()).collect();
    assert_eq!(times, [1, 1, 0, 0]);
}

#[test]
fn a_file_that_is_not_searched_is_walked_from_until_a_runtime_has_begun_a_function_of_it() {
    // Each function is called from one place.
    let (file, _, read) = library(
        "#include <pthread.h>
         extern pthread_cond_t c; extern pthread_mutex_t m; extern volatile long cell;
         __attribute__((noinline)) static void waits(void) { pthread_cond_wait(&c, &m); cell++; }
         void outer(void) { waits(); cell++; }",
    );
    let mut callers = Callers::default();
    callers.expect(0, &file, false, read);
    let image = file.image();
    let outer = (0, symbol(image, "outer"));
    assert!(callers.leads_on(outer, 1));
    assert!(!callers.leads_on(outer, 0));
    assert!(callers.is_begun(outer));
    assert!(!callers.leads_on(outer, 1));
}

#[test]
fn a_file_may_be_searched_later() {
    // Other files may call `outer`, so that both calls are walked from.
    let source = "#include <pthread.h>
         extern pthread_cond_t c; extern pthread_mutex_t m; extern volatile long cell;
         __attribute__((noinline)) static void waits(void) { pthread_cond_wait(&c, &m); cell++; }
         void outer(void) { waits(); cell++; }";
    let names = HashSet::from(["pthread_cond_wait".to_owned()]);
    let mut callers = Callers::default();
    let (file, times, read) = library(source);
    callers.expect(0, &file, false, read);
    assert_eq!(callers.walked(&[], &names, LIMIT), []);
    assert_eq!(times.get(), 0);
    callers.expect(0, &file, true, || None);
    assert_eq!(callers.walked(&[], &names, LIMIT).len(), 2);
}

#[test]
fn a_function_that_an_unsearched_file_may_call_has_several_callers() {
    let (inner, _, read) = library(
        "#include <pthread.h>
         extern pthread_barrier_t b; extern volatile long cell;
         void *work(void *p) { pthread_barrier_wait(&b); cell++; return p; }
         void begin(pthread_t *t) { pthread_create(t, 0, work, 0); }",
    );
    let work = (0, symbol(inner.image(), "work"));
    let mut callers = Callers::default();
    callers.expect(0, &inner, true, read);
    assert!(!callers.leads_on(work, 1));
    let (outer, _, read) =
        library("void *work(void *); extern volatile long cell; void f(void) { work(0); cell++; }");
    callers.expect(1, &outer, false, read);
    assert!(callers.leads_on(work, 1));
}

#[test]
fn the_nearest_callers_come_first_where_there_are_more_than_there_is_room_for() {
    use std::fmt::Write as _;
    // 40 functions that call a barrier, each called from 40 places of as many functions.
    let mut body = String::new();
    for inner in 0..40 {
        writeln!(
            body,
            "F void near{inner}(void) {{ cell += {inner}; pthread_barrier_wait(&b); cell++; }}"
        )
        .unwrap();
    }
    for outer in 0..60 {
        write!(body, "F void far{outer}(void) {{ ").unwrap();
        for inner in 0..40 {
            write!(body, "near{inner}(); cell += {outer}; ").unwrap();
        }
        body += "}\n";
    }
    body += "F void *work(void *p) { ";
    for outer in 0..60 {
        write!(body, "far{outer}(); cell++; far{outer}(); cell++; ").unwrap();
    }
    body += "return p; }";
    let source = format!("{HEAD}{body}{MAIN}");
    let (found, calls) = search(&source);
    assert_eq!(found.len(), LIMIT);
    let image = map(&["-O2", "-pthread", "-fno-optimize-sibling-calls"], &source);
    let found: HashSet<u64> = found
        .iter()
        .filter_map(|at| calls.function(at.1 - 1))
        .collect();
    for inner in 0..40 {
        let near = format!("near{inner}");
        assert!(found.contains(&symbol(&image, &near)), "{near}");
    }
}
