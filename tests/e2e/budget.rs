//! The cost of watching, the figures as they would be without that cost, and the events that are
//! left out where they would cost too much.

use serde_json::Value;

use crate::{
    harness::{Report, best_of_five, needs_root, number, watch_with},
    programs::{Build, line, program},
};

const RAPID: Build = Build::of("rapid.c").flags(&["-fopenmp"]);
const OPENMP: Build = Build::of("openmp.c").flags(&["-fopenmp"]);
const ROUNDS: u64 = 3_000_000;
/// Watched in full.
const FEW_ROUNDS: u64 = 150_000;

/// The report, and how many rounds there were: where other programs have the CPUs a round takes
/// a thousand times as long as usual, and the program ends before it has done all.
fn rapid(options: &[&str], rounds: u64) -> (Report, u64) {
    rapid_by("gcc", options, rounds)
}

fn rapid_by(compiler: &'static str, options: &[&str], rounds: u64) -> (Report, u64) {
    let rounds = format!("rounds={rounds}");
    let program = RAPID.compiler(compiler).path();
    // A barrier is rapid only while both threads have a CPU.
    let (finished, report) = before_others(|| {
        let arguments = [&*rounds, "most_ms=10000"];
        watch_with(options, &program, &arguments)
    });
    let out = finished.expect(0).out();
    let (_, done) = out.trim_end().split_once(' ').unwrap();
    (report, done.parse().unwrap())
}

/// Programs that this thread starts meanwhile get the CPUs before other programs, if the user may
/// ask for that.
fn before_others<T>(start: impl FnOnce() -> T) -> T {
    let set = |nice| {
        // SAFETY: a plain system call, for this thread alone.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    };
    // SAFETY: as above.
    let usual = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    set(-15);
    let result = start();
    set(usual);
    result
}

fn real(value: &Value, field: &str) -> f64 {
    let found = value[field].as_f64();
    found.unwrap_or_else(|| panic!("no {field} in {value}"))
}

fn ensure(holds: bool, what: &str, report: &Report) -> Result<(), String> {
    holds
        .then_some(())
        .ok_or_else(|| format!("{what}: {report}"))
}

/// The report counts all arrivals if it says so. It says so unless a thread lacked a CPU for whole
/// spans.
fn all_arrivals(report: &Report, rounds: u64) -> Result<(), String> {
    let exact = &report.0["own_cost"]["thinned"]["arrivals_exact"];
    // The end of the region is a barrier, too.
    let all = 2 * (rounds + 1);
    assert!(report.number("arrivals") <= all, "{report}");
    ensure(exact == true, "arrivals are not exact", report)?;
    assert_eq!(report.number("arrivals"), all, "{report}");
    Ok(())
}

fn notes_tell_of_spans(report: &Report) -> bool {
    report.is_noted("switched off for part of the run")
}

#[test]
fn rapid_barriers_are_thinned_out_and_all_arrivals_counted() {
    needs_root!(alone);
    best_of_five(|| are_thinned_out("gcc"));
}

#[test]
fn so_are_those_of_llvms() {
    needs_root!(alone);
    best_of_five(|| are_thinned_out("clang"));
}

fn are_thinned_out(compiler: &'static str) -> Result<(), String> {
    let (report, rounds) = rapid_by(compiler, &["--budget=2"], ROUNDS);
    let cost = &report.0["own_cost"];
    let thinned = &cost["thinned"];
    ensure(thinned.is_object(), "not thinned", &report)?;
    all_arrivals(&report, rounds)?;
    let threads = report.threads().iter();
    for thread in threads {
        assert_eq!(number(thread, "arrivals"), rounds + 1, "{report}");
    }
    let seen = number(thinned, "arrivals_seen");
    ensure(seen < 2 * rounds, "all seen", &report)?;
    assert!(report.number("episodes") <= seen / 2, "{report}");
    ensure(number(thinned, "off_ns") > 0, "never off", &report)?;
    // What spans cut off are no episodes, but few.
    let cut = report.number("incomplete_episodes");
    let few = 1 + report.number("episodes") / 100;
    ensure(cut < few, "many cut off", &report)?;
    assert_eq!(report.0["estimated"], true, "{report}");
    for site in report.sites() {
        assert_eq!(site["estimated"], true, "{report}");
    }
    assert!(notes_tell_of_spans(&report), "{report}");
    Ok(())
}

#[test]
fn a_program_that_ends_while_nobody_looks_is_counted_too() {
    needs_root!(alone);
    best_of_five(|| {
        // 0.01 % leaves it unwatched for most of the time.
        for compiler in ["gcc", "clang"] {
            let (report, rounds) = rapid_by(compiler, &["--budget=0.01"], ROUNDS);
            let thinned = &report.0["own_cost"]["thinned"];
            ensure(thinned.is_object(), "not thinned", &report)?;
            ensure(real(thinned, "observed_pct") < 99.0, "never off", &report)?;
            all_arrivals(&report, rounds)?;
        }
        Ok(())
    });
}

#[test]
fn without_a_budget_nothing_is_left_out() {
    needs_root!(alone);
    let (report, rounds) = rapid(&["--budget=off"], FEW_ROUNDS);
    report.is_exactly(2 * (rounds + 1), rounds + 1);
    assert_eq!(report.0["own_cost"]["thinned"], Value::Null, "{report}");
    assert_eq!(report.0["own_cost"]["budget_pct"], Value::Null, "{report}");
    assert_eq!(report.0["estimated"], false, "{report}");
    assert!(!notes_tell_of_spans(&report), "{report}");
}

#[test]
fn an_ordinary_program_is_watched_in_full_and_its_cost_is_known() {
    needs_root!();
    let (finished, report) = watch_with(
        &["--budget=2"],
        &OPENMP.path(),
        &["rounds=160", "slower=8000", "threads=2", "nested=0"],
    );
    finished.expect(0);
    let cost = &report.0["own_cost"];
    assert_eq!(cost["thinned"], Value::Null, "{report}");
    assert_eq!(cost["budget_pct"], 2.0, "{report}");
    assert_eq!(report.0["estimated"], false, "{report}");
    assert_eq!(cost["unknown_because"], Value::Null, "{report}");
    // A trap into the kernel on any machine.
    let each = number(cost, "ns_per_event");
    assert!((100..30_000).contains(&each), "{report}");
    let share = real(cost, "share_pct");
    assert!(share > 0.0 && share < 2.0, "{report}");
    for thread in report.threads() {
        assert!(number(thread, "own_cost_ns") > 0, "{report}");
    }
    let kinds = cost["by_kind"].as_array().unwrap();
    let hits: u64 = kinds.iter().map(|kind| number(kind, "events")).sum();
    assert_eq!(hits, number(cost, "events"), "{report}");
    let arrivals = kinds.iter().find(|kind| kind["kind"] == "team-arrival");
    let arrivals = number(arrivals.unwrap(), "events");
    assert_eq!(arrivals, report.number("arrivals"), "{report}");
}

/// The next run measures what a probe costs: what an earlier one has measured beside other tests is
/// more than that.
fn forget_costs() {
    // There is none if nobody measured for some minutes.
    let _forgotten = std::fs::remove_file(COSTS);
}

/// Where root keeps what a probe costs.
const COSTS: &str = "/run/sbt/costs.json";

#[test]
fn costs_are_measured_once_for_several_runs() {
    needs_root!(alone);
    forget_costs();
    let each = || {
        let arguments = ["rounds=160", "slower=8000", "threads=2", "nested=0"];
        let (finished, report) = watch_with(&[], &OPENMP.path(), &arguments);
        finished.expect(0);
        let cost = &report.0["own_cost"];
        assert_eq!(cost["unknown_because"], Value::Null, "{report}");
        real(cost, "ns_per_walk")
    };
    let measured = each();
    let kept = std::fs::read(COSTS).unwrap();
    assert!(each().total_cmp(&measured).is_eq());
    assert_eq!(std::fs::read(COSTS).unwrap(), kept);
    forget_costs();
    each();
    assert_ne!(std::fs::read(COSTS).unwrap(), kept);
}

#[test]
fn a_heavy_cost_is_taken_back_out() {
    needs_root!(alone);
    let of_hits = |hits: u32| {
        forget_costs();
        let options = ["--mark=tick", "--budget=off"];
        let many = format!("hits={hits}");
        let arguments = ["rounds=600", "work=500000", &many];
        let (finished, report) = watch_with(&options, &program("heavy.c"), &arguments);
        finished.expect(0);
        report
    };
    let usual = |site: &Value| number(&site["phase_ns"], "p50") as f64;
    let sites = |report: &Report| {
        let site = |site: &str| {
            report
                .site_at(line("heavy.c", &format!("SITE {site}")))
                .clone()
        };
        [site("plain"), site("paid")]
    };
    // What a hit costs is the machine's affair: as many as make the phase heavy.
    let mut hits = (0..8).map(|doubled| 5 << doubled);
    let hits = hits.find(|hits| {
        let [plain, paid] = sites(&of_hits(*hits));
        usual(&paid) > 1.2 * usual(&plain)
    });
    let hits = hits.expect("a phase with so many hits is heavy");
    best_of_five(|| {
        let report = of_hits(hits);
        let [plain, paid] = &sites(&report);
        let off = |site: &Value| {
            let [raw, without] = [&site["phase_ns"]["sum"], &site["compensated"]["phase_ns"]]
                .map(|sum| sum.as_f64().unwrap());
            (raw - without) / number(site, "episodes") as f64
        };
        // Where the other thread comes last, waiting hides the cost, and nothing is taken off. The
        // median phase is one in which the cost counts.
        let off_where_it_counts = |site: &Value| {
            let straggler = &site["straggler"];
            assert_eq!(straggler["thread"], 0, "{report}");
            off(site) * 100.0 / real(straggler, "share_pct")
        };
        // The same work with hits and without. The median counts, since other load makes means
        // wander.
        let truth = usual(plain);
        ensure(usual(paid) > 1.1 * truth, "it is not heavy", &report)?;
        let wrong = ((usual(paid) - off_where_it_counts(paid)) / truth - 1.0).abs();
        ensure(
            wrong < 0.04,
            &format!("{:.1} % off", wrong * 100.0),
            &report,
        )?;
        ensure(off(plain) < 0.04 * truth, "without a cost", &report)?;
        // What is taken off the phases is taken off the run.
        let phases = (off(paid) + off(plain)) * 600.0;
        let run =
            report.number("wall_ns") as f64 - number(&report.0["compensated"], "wall_ns") as f64;
        ensure(
            (run - phases).abs() < 0.04 * truth * 1200.0,
            "the run",
            &report,
        )
    });
}

#[test]
fn compensated_figures_are_told_on_request() {
    needs_root!();
    let program = program("heavy.c");
    let text = |options: &[&str]| {
        let mut command = crate::harness::sbt_with(&["run", "--no-tui"]);
        command
            .args(options)
            .arg("--")
            .arg(&program)
            .arg("rounds=1000");
        crate::harness::run(command).expect(0).stderr
    };
    let told = text(&["--compensated"]);
    assert!(told.contains("Without the cost of watching"), "{told}");
    assert!(told.contains("own cost "), "{told}");
    let plain = text(&[]);
    assert!(!plain.contains("Without the cost"), "{plain}");
    assert!(plain.contains("own cost "), "{plain}");
}
