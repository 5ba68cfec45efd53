//! Sections of the manual pages that the command line does not define.

/// A part of a section.
pub enum Item<'a> {
    /// A paragraph.
    Text(&'a str),
    /// A term and its explanation.
    Entry(&'a str, &'a str),
    /// The purpose of a command, and the command.
    Example(&'a str, &'a str),
}

use Item::{Entry, Example, Text};

/// A section of a manual page.
pub struct Section {
    /// Title in capitals.
    pub title: &'static str,
    /// Content of the section, in order.
    pub items: &'static [Item<'static>],
}

/// The parts of a manual page that are specific to it.
pub struct Page {
    /// Name of the page: `sbt`, or for example `sbt-run`.
    pub of: &'static str,
    /// Whether the command watches a program, so that settings from files and the environment
    /// apply.
    pub watches: bool,
    /// Sections of the page.
    pub sections: &'static [Section],
    /// Pages to refer to, with their section of the manual.
    pub see: &'static [(&'static str, u8)],
}

const EXIT: &str = "EXIT STATUS";

const EXAMPLES: &str = "EXAMPLES";

const USAGE: Item<'static> = Entry("2", "The command line is wrong.");

const FAILED: Item<'static> = Entry("125", "sbt itself failed; a line says why.");

const NOT_EXECUTED: Item<'static> = Entry("126", "The program could not be executed.");

const NOT_FOUND: Item<'static> = Entry("127", "The program was not found.");

const DONE: Item<'static> = Entry("0", "Done.");

const FAILED_TO_TELL: Item<'static> = Entry("1", "The command failed; a line says why.");

/// Exit status of commands that start a program.
const OF_PROGRAM: Section = Section {
    title: EXIT,
    items: &[
        Text(
            "The exit status of the program, or 128 + N if signal N ended the program. From sbt \
            itself:",
        ),
        USAGE,
        FAILED,
        NOT_EXECUTED,
        NOT_FOUND,
        Entry(
            "130",
            "A second SIGINT came while sbt was finishing: there is no report.",
        ),
        Entry(
            "128 + N",
            "A second signal N to end sbt came while the report waited for its reader: there is no \
             report.",
        ),
    ],
};

/// Exit status of commands that only print something.
const OF_TELLING: Section = Section {
    title: EXIT,
    items: &[DONE, FAILED_TO_TELL, USAGE],
};

/// Sections for all commands that watch a program.
pub const WATCHING: &[Section] = &[
    Section {
        title: "FILES",
        items: &[
            Entry(
                "sbt.toml",
                "Settings. sbt reads the nearest sbt.toml from the working directory upwards, if \
                 it belongs to you, root or the user who called sudo, and if not everybody may \
                 write to it.",
            ),
            Entry(
                "/usr/lib/debug",
                "Debug information of programs and libraries that contain none.",
            ),
        ],
    },
    Section {
        title: "PRIVILEGES",
        items: &[
            Text(
                "Your own processes need no privilege: sbt then watches with breakpoints, which \
                 slow them down more (--backend). eBPF and processes of other users need root, or \
                 the capabilities CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, which the sbt binary \
                 gets once after its installation:",
            ),
            Example(
                "As root, for all users who may execute sbt. They may then look into processes of \
                 other users:",
                "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep /usr/bin/sbt",
            ),
            Text(
                "The watched program gets none of these privileges. sbt doctor says what is \
                missing.",
            ),
        ],
    },
];

/// All manual pages.
pub const PAGES: [Page; 15] = [
    Page {
        of: "sbt",
        watches: true,
        sections: &[
            Section {
                title: EXIT,
                items: &[
                    Text(
                        "run, demo and scale: the exit status of the program. check: see \
                        sbt-check(1). Other commands:",
                    ),
                    DONE,
                    FAILED_TO_TELL,
                    USAGE,
                    Entry(
                        "125",
                        "run, attach, demo, check and scale: sbt itself failed.",
                    ),
                    NOT_EXECUTED,
                    NOT_FOUND,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[
                    Example("Watch a built-in program with a fault:", "sbt demo"),
                    Example("Watch your own program:", "sbt run -- ./prog its arguments"),
                    Example(
                        "Watch a running program for ten seconds:",
                        "sbt attach --duration 10s PID",
                    ),
                    Example("Look at a program that hangs:", "sbt hang PID"),
                ],
            },
        ],
        see: &[
            ("sbt-run", 1),
            ("sbt-attach", 1),
            ("sbt-doctor", 1),
            ("perf", 1),
            ("bpftrace", 8),
            ("strace", 1),
            ("capabilities", 7),
        ],
    },
    Page {
        of: "sbt-run",
        watches: true,
        sections: &[
            OF_PROGRAM,
            Section {
                title: EXAMPLES,
                items: &[
                    Example(
                        "Watch an OpenMP program with four threads:",
                        "OMP_NUM_THREADS=4 sbt run -- ./prog",
                    ),
                    Example("Watch an MPI program:", "sbt run -- mpirun -n 4 ./prog"),
                    Example(
                        "Record a run, and read the report later:",
                        "sbt run -o run.sbt -- ./prog; sbt report run.sbt",
                    ),
                    Example(
                        "Print each episode of one barrier, under a name:",
                        "sbt run --name lu.c:690=pivot --watch pivot -- ./lu",
                    ),
                    Example(
                        "Write the report as JSON:",
                        "sbt run --json --output report.json -- ./prog",
                    ),
                ],
            },
        ],
        see: &[
            ("sbt", 1),
            ("sbt-attach", 1),
            ("sbt-report", 1),
            ("sbt-replay", 1),
        ],
    },
    Page {
        of: "sbt-attach",
        watches: true,
        sections: &[
            Section {
                title: EXIT,
                items: &[
                    Entry("0", "sbt has stopped watching, or the process has ended."),
                    USAGE,
                    FAILED,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[
                    Example(
                        "Watch for ten seconds, and write the report as JSON:",
                        "sbt attach --json --duration 10s PID",
                    ),
                    Example(
                        "Watch also the processes that the process starts:",
                        "sbt attach --children PID",
                    ),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-run", 1), ("sbt-hang", 1)],
    },
    Page {
        of: "sbt-demo",
        watches: true,
        sections: &[
            OF_PROGRAM,
            Section {
                title: EXAMPLES,
                items: &[
                    Example("List all demo programs:", "sbt demo list"),
                    Example("Watch a program that hangs:", "sbt demo deadlock"),
                    Example(
                        "Watch a longer run with eight threads:",
                        "sbt demo -t 8 --seconds 30 water",
                    ),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-run", 1)],
    },
    Page {
        of: "sbt-ctl",
        watches: false,
        sections: &[
            OF_TELLING,
            Section {
                title: EXAMPLES,
                items: &[
                    Example(
                        "Watch a server only while a test drives it:",
                        "sbt attach PID & sleep 1; sbt ctl PID reset; ./drive; sbt ctl PID stop",
                    ),
                    Example("The report so far, as JSON:", "sbt ctl PID snapshot --json"),
                ],
            },
        ],
        see: &[("sbt-run", 1), ("sbt-attach", 1)],
    },
    Page {
        of: "sbt-hang",
        watches: false,
        sections: &[
            OF_TELLING,
            Section {
                title: EXAMPLES,
                items: &[
                    Example(
                        "Show which thread is missing at which barrier:",
                        "sbt hang PID",
                    ),
                    Example(
                        "Look at all processes of an MPI run:",
                        "sbt hang --children $(pgrep -o mpirun)",
                    ),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-attach", 1), ("gdb", 1)],
    },
    Page {
        of: "sbt-report",
        watches: false,
        sections: &[
            OF_TELLING,
            Section {
                title: EXAMPLES,
                items: &[
                    Example("Print the report as text:", "sbt report run.sbt"),
                    Example(
                        "Write an HTML page, and a trace for ui.perfetto.dev:",
                        "sbt report run.sbt --html run.html --perfetto run.pftrace",
                    ),
                ],
            },
        ],
        see: &[
            ("sbt", 1),
            ("sbt-run", 1),
            ("sbt-replay", 1),
            ("sbt-diff", 1),
        ],
    },
    Page {
        of: "sbt-diff",
        watches: false,
        sections: &[
            Section {
                title: EXIT,
                items: &[
                    DONE,
                    Entry(
                        "1",
                        "With --tolerance: something is slower by more than the tolerance. Or the \
                         command failed, such as for a recording that is cut or damaged; a line \
                         says why.",
                    ),
                    USAGE,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[
                    Example("Show what got slower:", "sbt diff before.sbt after.sbt"),
                    Example(
                        "Fail if something got slower by more than 10 %:",
                        "sbt diff --tolerance 10% before.sbt after.sbt",
                    ),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-report", 1), ("sbt-check", 1)],
    },
    Page {
        of: "sbt-check",
        watches: true,
        sections: &[
            Section {
                title: EXIT,
                items: &[
                    Entry("0", "All rules hold."),
                    Entry("1", "A rule is broken, or could not be measured."),
                    USAGE,
                    Entry("3", "The program hung, or stood still for too long."),
                    Entry(
                        "4",
                        "The program failed: its exit status was not 0, or a signal ended it.",
                    ),
                    Entry(
                        "5",
                        "Too many events were lost to judge, or a recording is cut or damaged.",
                    ),
                    FAILED,
                    NOT_EXECUTED,
                    NOT_FOUND,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[
                    Example(
                        "Check a program in CI:",
                        "sbt check --max-imbalance 25% --no-hang 30s --junit sbt.xml -- ./prog",
                    ),
                    Example(
                        "Compare a run with an earlier run:",
                        "sbt check --baseline before.sbt --tolerance 10% -- ./prog",
                    ),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-run", 1), ("sbt-diff", 1)],
    },
    Page {
        of: "sbt-scale",
        watches: true,
        sections: &[
            OF_PROGRAM,
            Section {
                title: EXAMPLES,
                items: &[
                    Example(
                        "Run an OpenMP program with 1, 2, 4 and 8 threads:",
                        "sbt scale -n 1,2,4,8 -- ./prog",
                    ),
                    Example(
                        "Run a program that takes the number of threads as an argument:",
                        "sbt scale -n 1,2,4 -- ./lu -t {n}",
                    ),
                    Example(
                        "Compare versions and sizes with a serial version:",
                        "sbt scale --vary version=./serial,./lu --vary size=500,1000 \
                         --serial version=./serial -n 1,2,4 -- {version} {size} {n}",
                    ),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-run", 1), ("sbt-diff", 1)],
    },
    Page {
        of: "sbt-replay",
        watches: false,
        sections: &[
            OF_TELLING,
            Section {
                title: EXAMPLES,
                items: &[Example(
                    "Play four times slower than the real run:",
                    "sbt replay --speed 1/4 run.sbt",
                )],
            },
        ],
        see: &[("sbt", 1), ("sbt-run", 1), ("sbt-report", 1)],
    },
    Page {
        of: "sbt-doctor",
        watches: false,
        sections: &[
            Section {
                title: EXIT,
                items: &[
                    Entry("0", "sbt works here, at least with breakpoints."),
                    Entry("1", "sbt does not work here; its output says what to do."),
                    USAGE,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[Example(
                    "Show what this user may do, and what root may do:",
                    "sbt doctor; sudo sbt doctor",
                )],
            },
        ],
        see: &[("sbt", 1), ("setcap", 8), ("capabilities", 7)],
    },
    Page {
        of: "sbt-list",
        watches: false,
        sections: &[
            OF_TELLING,
            Section {
                title: EXAMPLES,
                items: &[
                    Example("List the counters of this machine:", "sbt list"),
                    Example("List the barriers of a program:", "sbt list ./prog"),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-run", 1)],
    },
    Page {
        of: "sbt-completions",
        watches: false,
        sections: &[
            OF_TELLING,
            Section {
                title: EXAMPLES,
                items: &[
                    Example(
                        "For bash:",
                        "sbt completions bash > ~/.local/share/bash-completion/completions/sbt",
                    ),
                    Example(
                        "For fish:",
                        "sbt completions fish > ~/.config/fish/completions/sbt.fish",
                    ),
                    Example(
                        "For zsh, in a folder that is in fpath:",
                        "sbt completions zsh > ~/.zfunc/_sbt",
                    ),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-man", 1)],
    },
    Page {
        of: "sbt-man",
        watches: false,
        sections: &[
            OF_TELLING,
            Section {
                title: EXAMPLES,
                items: &[Example(
                    "For this user only, in a folder where man looks:",
                    "sbt man ~/.local/share/man/man1",
                )],
            },
        ],
        see: &[("sbt", 1), ("sbt-completions", 1), ("man", 1)],
    },
];
