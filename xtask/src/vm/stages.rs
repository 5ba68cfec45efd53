//! The stages that run in the machine, and how their results are judged. All functions are pure.
//!
//! The machine reports the name, exit status and output of each stage. They are judged here, where
//! more tools than busybox are available.

use std::fmt::Write as _;

use serde_json::Value;

/// Sources in `tests/programs` that are run, and additional compiler options for each.
pub const SOURCES: &[(&str, &[&str])] = &[
    ("truth.c", &[]),
    ("condbarrier.c", &[]),
    ("forks.c", &[]),
    ("openmp.c", &["-fopenmp"]),
];

/// The stage that prints the verifier's counts.
pub const PROGRAMS: &str = "programs";

/// The stage that tries everything once.
const REHEARSAL: &str = "rehearsal";

/// A watched program and its expected results. On the emulated machine, breakpoints take far more
/// than their budget.
struct Watched {
    name: &'static str,
    /// The command; the report goes to `/tmp/report`.
    command: &'static str,
    arrivals: u64,
    episodes: u64,
    /// The expected backend.
    by: Backend,
}

/// The name of the source of events in a report.
#[derive(Clone, Copy)]
enum Backend {
    Ebpf,
    Perf,
    Ptrace,
    /// eBPF on kernels that attach uprobes without root; ptrace on older kernels, most of which
    /// require root for that.
    OfTwoCapabilities,
}

/// The first kernel that attaches uprobes without root.
const UPROBE_MULTI: (u32, u32) = (6, 6);

impl Backend {
    /// Names of the backend that are accepted in the report.
    fn names(self, version: (u32, u32)) -> &'static [&'static str] {
        match self {
            Self::Ebpf => &["ebpf"],
            Self::Perf => &["perf"],
            Self::Ptrace => &["ptrace"],
            Self::OfTwoCapabilities if version >= UPROBE_MULTI => &["ebpf"],
            Self::OfTwoCapabilities => &["ptrace", "ebpf"],
        }
    }
}

const WATCHED: [Watched; 12] = [
    Watched {
        name: "run",
        command: "sbt run --json --output /tmp/report -- truth threads=3 rounds=200",
        arrivals: 600,
        episodes: 200,
        by: Backend::Ebpf,
    },
    Watched {
        name: "attach",
        // The program starts early and stays idle until long after the probes are attached.
        command: "attach_to truth threads=3 rounds=100 hold=8000000",
        arrivals: 300,
        episodes: 100,
        by: Backend::Ebpf,
    },
    Watched {
        name: "condition variable",
        command: "sbt run --json --output /tmp/report -- condbarrier rounds=80 slow=3 load=1000",
        arrivals: 320,
        episodes: 80,
        by: Backend::Ebpf,
    },
    Watched {
        name: "OpenMP",
        command: "sbt run --json --output /tmp/report -- openmp rounds=20 nested=0",
        // Barrier, two loops, single and sections; the end of each small region, and of the large
        // region.
        arrivals: 4 * (20 * 5 + 20 + 1),
        episodes: 20 * 5 + 20 + 1,
        by: Backend::Ebpf,
    },
    Watched {
        name: "children",
        command: "sbt run --json --output /tmp/report -- forks rounds=30",
        // Two threads before the fork, then three in the child and four in the parent.
        arrivals: (2 + 3 + 4) * 30,
        episodes: 3 * 30,
        by: Backend::Ebpf,
    },
    Watched {
        name: "states, futexes",
        command: "sbt run --states full --futex on --json --output /tmp/report -- truth threads=3 \
                  rounds=50",
        arrivals: 150,
        episodes: 50,
        by: Backend::Ebpf,
    },
    Watched {
        name: "counters",
        command: "sbt run -e page-faults,cpu-migrations --json --output /tmp/report -- truth \
                  threads=3 rounds=50",
        arrivals: 150,
        episodes: 50,
        by: Backend::Ebpf,
    },
    Watched {
        name: "recording",
        command: "recorded truth threads=3 rounds=50",
        arrivals: 150,
        episodes: 50,
        by: Backend::Ebpf,
    },
    Watched {
        name: "two capabilities",
        command: "as_user --inh-caps=-all,+bpf,+perfmon --ambient-caps=-all,+bpf,+perfmon sbt run \
                  --budget off --json --output /tmp/report -- truth threads=3 rounds=50",
        arrivals: 150,
        episodes: 50,
        by: Backend::OfTwoCapabilities,
    },
    Watched {
        name: "no privilege",
        command: "as_user sbt run --budget off --json --output /tmp/report -- truth threads=3 \
                  rounds=50",
        arrivals: 150,
        episodes: 50,
        by: Backend::Ptrace,
    },
    Watched {
        name: "no privilege, attach",
        command: "attach_as_user truth threads=3 rounds=100 hold=8000000",
        arrivals: 300,
        episodes: 100,
        by: Backend::Ptrace,
    },
    Watched {
        name: "no privilege, perf",
        command: "as_user sbt run --backend perf --budget off --json --output /tmp/report -- \
                  truth threads=3 rounds=50",
        arrivals: 150,
        episodes: 50,
        by: Backend::Perf,
    },
];

/// Abilities that older kernels lack, by the wording of the note, and the first version with the
/// ability.
const LACKS: [(&str, (u32, u32)); 1] = [("cannot watch context switches", (5, 18))];

/// Part of the note when sbt cannot use eBPF.
const FALLS: &str = "using ptrace instead";

/// The machine's start script.
pub fn script() -> String {
    let mut script = String::from(
        "#!/bin/sh\n\
         export PATH=/bin\n\
         mount -t proc proc /proc\n\
         mount -t sysfs sysfs /sys\n\
         mount -t devtmpfs dev /dev\n\
         exec >/dev/ttyS1 2>/dev/ttyS0\n\
         # Debian allows nothing of it to others than root.\n\
         echo 2 >/proc/sys/kernel/perf_event_paranoid\n\
         # Ubuntu lets nobody trace what is no child.\n\
         [ ! -f /proc/sys/kernel/yama/ptrace_scope ] || echo 0 >/proc/sys/kernel/yama/ptrace_scope\n\
         chmod 1777 /tmp\n\
         as_user() { /bin/setpriv --reuid=1000 --regid=1000 --clear-groups \"$@\"; }\n\
         attach_to() {\n\
         \"$@\" >/dev/null &\n\
         sleep 1\n\
         sbt attach --json --output /tmp/report $!\n\
         }\n\
         attach_as_user() {\n\
         # Not by the function above: its number would be that of a shell.\n\
         /bin/setpriv --reuid=1000 --regid=1000 --clear-groups \"$@\" >/dev/null &\n\
         sleep 1\n\
         as_user sbt attach --budget off --json --output /tmp/report $!\n\
         }\n\
         recorded() {\n\
         sbt run -q -o /tmp/recording -- \"$@\" && sbt report --json --output /tmp/report /tmp/recording\n\
         }\n\
         stage() {\n\
         name=$1; shift\n\
         \"$@\" >/out 2>/err </dev/null\n\
         echo \"@stage $? $name\"\n\
         if [ -f /tmp/report ]; then cat /tmp/report; echo; else cat /out; fi\n\
         echo '@errors'\n\
         cat /err\n\
         rm -f /tmp/report\n\
         }\n\
         echo \"@kernel $(uname -r)\"\n",
    );
    let doctor = [
        (PROGRAMS, "sbt doctor --programs"),
        (REHEARSAL, "sbt doctor"),
    ];
    let watched = WATCHED
        .iter()
        .map(|watched| (watched.name, watched.command));
    for (name, command) in doctor.into_iter().chain(watched) {
        // Writing to a string cannot fail.
        let _ = writeln!(script, "stage '{name}' {command}");
    }
    script.push_str("echo '@end'\nsync\nreboot -f\n");
    script
}

/// A row of the table of results.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The subject of the test.
    pub what: String,
    /// The expected result.
    pub expected: String,
    /// The actual result.
    pub found: String,
    /// Whether the two agree.
    pub holds: bool,
}

/// A stage as reported by the machine.
struct Told<'a> {
    status: &'a str,
    output: &'a str,
    errors: &'a str,
}

/// The kernel's release (`None` if it did not come up), and a row for each stage.
pub fn judge(said: &str) -> (Option<String>, Vec<Row>) {
    let release = said
        .lines()
        .find_map(|line| line.strip_prefix("@kernel "))
        .map(str::to_owned);
    let version = version(release.as_deref().unwrap_or_default());
    let mut rows = vec![rehearsal(told(said, REHEARSAL))];
    rows.extend(
        WATCHED
            .iter()
            .map(|watched| counted(watched, told(said, watched.name), version)),
    );
    (release, rows)
}

/// The text that a stage printed on its standard output, or if that is empty, its errors.
pub fn printed(said: &str, stage: &str) -> Option<String> {
    told(said, stage).map(|told| {
        // If there is no output, the errors say why.
        if told.output.trim().is_empty() {
            told.errors.to_owned()
        } else {
            told.output.to_owned()
        }
    })
}

/// The report of a stage; `None` if the machine did not get so far.
fn told<'a>(said: &'a str, stage: &str) -> Option<Told<'a>> {
    said.split("\n@stage ").skip(1).find_map(|part| {
        let (head, rest) = part.split_once('\n')?;
        let (status, name) = head.split_once(' ')?;
        if name != stage {
            return None;
        }
        let (output, errors) = rest.split_once("@errors")?;
        let errors = errors.split("\n@end").next()?;
        Some(Told {
            status,
            output,
            errors,
        })
    })
}

fn rehearsal(told: Option<Told<'_>>) -> Row {
    let found = match &told {
        None => "the machine did not come so far".to_owned(),
        Some(told) => {
            let mut lines = told.output.lines();
            let worst = lines.clone().find(|line| line.starts_with("NO"));
            let line = worst.or_else(|| lines.rfind(|line| line.contains(REHEARSAL)));
            one_line(line.unwrap_or(told.errors))
        }
    };
    Row {
        what: REHEARSAL.into(),
        expected: "doctor finds nothing missing".into(),
        holds: told.is_some_and(|told| told.status == "0") && found.starts_with("OK"),
        found,
    }
}

/// The first two numbers of a kernel's release; missing numbers are 0.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok());
    (next().unwrap_or(0), next().unwrap_or(0))
}

fn counted(watched: &Watched, told: Option<Told<'_>>, version: (u32, u32)) -> Row {
    let expected = format!(
        "{} arrivals, {} episodes by {}",
        watched.arrivals,
        watched.episodes,
        watched.by.names(version).join(" or ")
    );
    let (found, holds) = match told {
        None => ("the machine did not come so far".to_owned(), false),
        Some(told) => match serde_json::from_str::<Value>(told.output) {
            Err(_) => (
                format!("status {}: {}", told.status, one_line(told.errors)),
                false,
            ),
            Ok(report) => found(&report, watched, told.status, version),
        },
    };
    Row {
        what: watched.name.into(),
        expected,
        found,
        holds,
    }
}

/// A summary of a report, and whether the report is exactly as expected.
fn found(report: &Value, watched: &Watched, status: &str, version: (u32, u32)) -> (String, bool) {
    let number = |field: &str| report[field].as_u64().unwrap_or(u64::MAX);
    let by = report["backend"].as_str().unwrap_or_default();
    let (arrivals, episodes) = (number("arrivals"), number("episodes"));
    let mut found = format!("{arrivals} arrivals, {episodes} episodes by {by}");
    let mut holds = (arrivals, episodes) == (watched.arrivals, watched.episodes)
        && watched.by.names(version).contains(&by)
        && status == "0";
    for (field, word) in [
        ("incomplete_episodes", "incomplete"),
        ("lost_events", "lost"),
    ] {
        if number(field) != 0 {
            holds = false;
            // Writing to a string cannot fail.
            let _ = write!(found, ", {} {word}", number(field));
        }
    }
    if status != "0" {
        let _ = write!(found, ", status {status}");
    }
    for note in report["notes"].as_array().into_iter().flatten() {
        let note = one_line(note.as_str().unwrap_or_default());
        // Other notes are about the machine, or about missing rights of this user.
        let lacks = LACKS
            .iter()
            .any(|(what, before)| version < *before && note.contains(what));
        // The note says why this backend was chosen.
        let falls = by == "ptrace" && note.contains(FALLS);
        holds &= lacks || falls || !note.contains("refuses") && !note.contains("cannot");
        let _ = write!(found, "; note: {note}");
    }
    if let Some(method) = report["method"].as_str() {
        let _ = write!(found, " ({method})");
    }
    (found, holds)
}

/// The first 300 characters, in one line.
fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}

/// The rows as a text table.
pub fn table(rows: &[Row]) -> String {
    let width = |of: fn(&Row) -> &str| {
        let widths = rows.iter().map(|row| of(row).chars().count());
        widths.max().unwrap_or(0)
    };
    let (what, expected) = (width(|row| &row.what), width(|row| &row.expected));
    let mut text = String::new();
    for row in rows {
        let mark = if row.holds { "OK  " } else { "NO  " };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{mark}  {:what$}  {:expected$}  {}",
            row.what, row.expected, row.found
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCTOR: &str = "OK    kernel        6.1.0\nOK    rehearsal     one barrier passed\n";

    /// Output of a machine in which every stage prints `output`, which depends on the program.
    fn said(output: impl Fn(&Watched) -> (u8, String)) -> String {
        let mut said = format!("@kernel 6.1.0\n@stage 0 rehearsal\n{DOCTOR}@errors\n");
        for watched in &WATCHED {
            let (status, output) = output(watched);
            // Writing to a string cannot fail.
            let _ = writeln!(
                said,
                "@stage {status} {}\n{output}\n@errors\nready",
                watched.name
            );
        }
        said + "@end\n"
    }

    fn report(watched: &Watched) -> String {
        format!(
            r#"{{"arrivals": {}, "episodes": {}, "incomplete_episodes": 0, "lost_events": 0,
                "notes": [], "backend": "{}", "method": "perf uprobes"}}"#,
            watched.arrivals,
            watched.episodes,
            watched.by.names((6, 1))[0]
        )
    }

    #[test]
    fn everything_holds_if_every_count_does() {
        let (release, rows) = judge(&said(|watched| (0, report(watched))));
        assert_eq!(release.as_deref(), Some("6.1.0"));
        assert_eq!(rows.len(), 1 + WATCHED.len());
        assert!(rows.iter().all(|row| row.holds), "{}", table(&rows));
    }

    #[test]
    fn one_arrival_too_few_does_not_hold() {
        let (_, rows) = judge(&said(|watched| {
            let less = watched.arrivals - u64::from(watched.name == "attach");
            let whole = format!("\"arrivals\": {}", watched.arrivals);
            let text = report(watched).replace(&whole, &format!("\"arrivals\": {less}"));
            (0, text)
        }));
        let wrong: Vec<_> = rows.iter().filter(|row| !row.holds).collect();
        assert_eq!(wrong.len(), 1, "{}", table(&rows));
        assert!(wrong[0].found.starts_with("299 arrivals"), "{:?}", wrong[0]);
    }

    #[test]
    fn a_refusal_in_a_note_a_status_and_no_report_do_not_hold() {
        let refused = "\"notes\": [\"this kernel refuses a part of sbt\"]";
        for broken in [
            |watched: &Watched, refused: &str| {
                (0, report(watched).replace("\"notes\": []", refused))
            },
            |watched: &Watched, _: &str| (125, report(watched)),
            |_: &Watched, _: &str| (125, String::new()),
        ] {
            let (_, rows) = judge(&said(|watched| broken(watched, refused)));
            assert_eq!(
                rows.iter().filter(|row| row.holds).count(),
                1,
                "{}",
                table(&rows)
            );
        }
    }

    #[test]
    fn what_an_older_kernel_is_known_to_lack_holds_there_and_nowhere_else() {
        let note = "\"notes\": [\"cannot watch context switches (Invalid argument)\"]";
        let said = said(|watched| (0, report(watched).replace("\"notes\": []", note)));
        let failing = |said: &str| judge(said).1.iter().filter(|row| !row.holds).count();
        assert_eq!(failing(&said.replace("6.1.0", "5.15.0-25-generic")), 0);
        assert_eq!(failing(&said), WATCHED.len());
        assert_eq!(version("5.15.0-25-generic"), (5, 15));
    }

    #[test]
    fn a_machine_that_stops_on_the_way_fails_what_it_has_not_done() {
        let whole = said(|watched| (0, report(watched)));
        let half = whole.split("@stage 0 OpenMP").next().unwrap();
        let (_, rows) = judge(half);
        assert!(rows.iter().any(|row| row.holds));
        assert!(
            rows.iter()
                .any(|row| !row.holds && row.found.contains("did not come"))
        );
        let (release, rows) = judge("");
        assert_eq!(release, None);
        assert!(rows.iter().all(|row| !row.holds));
    }

    #[test]
    fn doctors_bad_line_is_what_is_found() {
        let text = "@kernel 5.10\n@stage 1 rehearsal\nNO    kernel        too old\n\
                    NO    rehearsal     no\n@errors\n";
        let (_, rows) = judge(text);
        assert!(
            !rows[0].holds && rows[0].found.contains("too old"),
            "{:?}",
            rows[0]
        );
    }

    #[test]
    fn the_script_has_every_stage() {
        let script = script();
        for watched in &WATCHED {
            assert!(script.contains(&format!("stage '{}' ", watched.name)));
        }
    }
}
