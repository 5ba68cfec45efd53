//! Messages about functions that are inlined elsewhere.

use super::*;

#[test]
fn what_is_also_inlined_is_counted() {
    const SOURCE: &str = "\
struct Team {
    int size;
    int step(int x);
    __attribute__((always_inline)) int twice(int x) { return 2 * x + size; }
};
volatile int cell;
int Team::step(int x) { cell += x; return twice(x); }
extern \"C\" int once(int x) { return cell * x; }
extern \"C\" __attribute__((noinline)) int never(int x) { return cell - x; }
int (Team::*volatile called)(int) = &Team::step;
int main(int argc, char **) {
    Team team = {argc};
    for (int i = 0; i < argc; i++)
        team.step(i);
    team.step(7);
    return team.twice(never(once(team.step(argc))));
}
";
    let notes = |built: &Built, at: &[&str], purpose| {
        let wanted = wanted(at, purpose);
        wanted.notes(&[&built.file(&wanted)])
    };
    for options in [
        &["-O2", "-g"][..],
        &["-O2", "-g", "-gdwarf-4"],
        &["-O2", "-g", "-flto"],
        &["-O2", "-g", "-fdebug-types-section"],
    ] {
        let built = Built::new("lu.cpp", SOURCE, options);
        let at = ["lu!Team::step", "once", "never", "lu.cpp:9", "main"];
        let mut expected = vec![
            "--mark lu!Team::step: Team::step is also inlined at 3 places, where it is not counted",
            "--mark once: once is also inlined at 1 place, where it is not counted",
        ];
        if options.contains(&"-flto") {
            // With -flto gcc knows that no other code calls the function, and drops it.
            expected.pop();
        }
        assert_eq!(notes(&built, &at, MARK), expected, "{options:?}");
        let barrier = notes(&built, &["step"], BARRIER);
        assert_eq!(
            barrier,
            ["--barrier step: step is also inlined at 3 places, where it is not counted"]
        );
        run("strip", &["-g", built.program.to_str().unwrap()]);
        assert_eq!(notes(&built, &at, MARK), <[&str; 0]>::default());
    }
    let built = Built::new("lu.cpp", SOURCE, &["-O0", "-g"]);
    assert_eq!(notes(&built, &["step"], MARK), <[&str; 0]>::default());
}

/// Of `part` only the test is inlined: the rest is a function, which is probed.
#[test]
fn the_test_before_a_part_is_not_missed() {
    const SOURCE: &str = "\
volatile int cell;
__attribute__((noinline)) void deep(int x) { cell += x; }
void part(int x) {
    if (x == 0)
        return;
    for (int i = 0; i < x; i++) { deep(i); deep(2); deep(i + 3); cell = x; }
    for (int i = 0; i < x; i++) { deep(i); deep(9); deep(i - 3); cell = i; }
}
void (*volatile called)(int) = part;
__attribute__((noinline)) void first(int x) { part(x); cell = 1; }
__attribute__((noinline)) void second(int x) { part(x + cell); cell = 2; }
int main(int argc, char **argv) { first(argc - 1); second(argc - 1); return cell; }
";
    let built = Built::new("lu.c", SOURCE, &["-O2", "-g"]);
    assert_eq!(built.symbols("part", MARK), ["part.part.0"]);
    let wanted = wanted(&["part"], MARK);
    let file = built.file(&wanted);
    assert_eq!(wanted.notes(&[&file]), <[&str; 0]>::default());
    let mut places = 0;
    built.debug().inlined_places(&["part"], |_, _| places += 1);
    assert!(places >= 2, "{places}");
}
