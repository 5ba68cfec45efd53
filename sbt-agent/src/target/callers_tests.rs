//! Programs with barriers behind functions of their own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::super::unwind::Unwind;
use super::super::unwind::tests::{map, symbol};
use super::*;

const HEAD: &str = "
    #define _GNU_SOURCE
    #include <pthread.h>
    #define F __attribute__((noinline)) static
    pthread_barrier_t b;
    volatile long cell;
    ";

/// The functions from which is walked, by name, each as often as it is.
fn walked(body: &str) -> Vec<String> {
    let source = format!("{HEAD}{body}");
    let options = ["-O2", "-pthread", "-fno-optimize-sibling-calls"];
    let image = map(&options, &source);
    let calls = Calls::of(Rc::new(Unwind::of(map(&options, &source)).unwrap())).unwrap();
    let calls = Rc::new(calls);
    let mut callers = Callers::default();
    callers.add(0, Rc::clone(&calls));
    let names = HashSet::from(["pthread_barrier_wait".to_owned()]);
    let found = callers.walked(&[], &names);
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
    let many = "methods[0](); cell++; ".repeat(2 * MAX_WALKED);
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
    assert!(found.len() <= MAX_WALKED);
}
