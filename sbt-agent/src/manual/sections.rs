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

const USAGE: Item<'static> = Entry("2", "What was typed makes no sense.");

const FAILED: Item<'static> = Entry("125", "sbt itself failed, with a line that says why.");

const NOT_EXECUTED: Item<'static> = Entry("126", "The program could not be executed.");

const NOT_FOUND: Item<'static> = Entry("127", "The program was not found.");

const DONE: Item<'static> = Entry("0", "Done.");

const FAILED_TO_TELL: Item<'static> =
    Entry("1", "It could not be done, with a line that says why.");

/// Exit status of commands that start a program.
const OF_PROGRAM: Section = Section {
    title: EXIT,
    items: &[
        Text("That of the program, or 128 + N if signal N ended it; and of sbt itself:"),
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
            "Signal N, the second that told sbt to end, came while the report waited for its reader: \
             there is no report.",
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
                "Settings: the nearest one from the working directory upwards, if it belongs to you, \
                 root or whoever called sudo, and not everybody may write to it.",
            ),
            Entry(
                "/usr/lib/debug",
                "Debug information of programs and libraries that have none in themselves.",
            ),
        ],
    },
    Section {
        title: "PRIVILEGES",
        items: &[
            Text(
                "Your own processes are watched without any, by breakpoints, which costs them more \
                 (--backend). For eBPF and for processes of others: root, or the capabilities \
                 CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, which are given to the binary once after \
                 it was installed:",
            ),
            Example(
                "As root, for everybody who may execute it, who may then look into processes of others:",
                "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep /usr/bin/sbt",
            ),
            Text("The program that is watched gets none of them. sbt doctor says what is missing."),
        ],
    },
];

/// All manual pages.
pub const PAGES: [Page; 14] = [
    Page {
        of: "sbt",
        watches: true,
        sections: &[
            Section {
                title: EXIT,
                items: &[
                    Text("run, demo and scale: that of the program. check: see its page. Else:"),
                    DONE,
                    FAILED_TO_TELL,
                    USAGE,
                    Entry(
                        "125",
                        "Of run, attach, demo, check and scale: sbt itself failed.",
                    ),
                    NOT_EXECUTED,
                    NOT_FOUND,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[
                    Example("Look at a built-in program with a fault:", "sbt demo"),
                    Example("At your own:", "sbt run -- ./prog its arguments"),
                    Example(
                        "At one that runs, for ten seconds:",
                        "sbt attach --duration 10s PID",
                    ),
                    Example("At one that does not go on:", "sbt hang PID"),
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
                        "A program of OpenMP with four threads:",
                        "OMP_NUM_THREADS=4 sbt run -- ./prog",
                    ),
                    Example("One of MPI:", "sbt run -- mpirun -n 4 ./prog"),
                    Example(
                        "Record it, and read the report later:",
                        "sbt run -o run.sbt -- ./prog; sbt report run.sbt",
                    ),
                    Example(
                        "See each episode of one barrier, under a name:",
                        "sbt run --name lu.c:690=pivot --watch pivot -- ./lu",
                    ),
                    Example(
                        "The report as JSON:",
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
                    Entry("0", "It was watched and left, or the process has ended."),
                    USAGE,
                    FAILED,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[
                    Example(
                        "Ten seconds of it, as JSON:",
                        "sbt attach --json --duration 10s PID",
                    ),
                    Example(
                        "With the processes that it starts:",
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
                    Example("What there is:", "sbt demo list"),
                    Example("One that hangs:", "sbt demo deadlock"),
                    Example(
                        "A longer one with eight threads:",
                        "sbt demo -t 8 --seconds 30 water",
                    ),
                ],
            },
        ],
        see: &[("sbt", 1), ("sbt-run", 1)],
    },
    Page {
        of: "sbt-hang",
        watches: false,
        sections: &[
            OF_TELLING,
            Section {
                title: EXAMPLES,
                items: &[
                    Example("Who is missing at which barrier:", "sbt hang PID"),
                    Example(
                        "In all processes of a run:",
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
                    Example("As text:", "sbt report run.sbt"),
                    Example(
                        "As a page for browsers, and a trace for ui.perfetto.dev:",
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
                        "With --tolerance: something is slower by more than that. Or it could not \
                         be done, as of a recording that is cut or damaged, with a line that \
                         says why.",
                    ),
                    USAGE,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[
                    Example("What got slower:", "sbt diff before.sbt after.sbt"),
                    Example(
                        "Fail if it is more than 10 %:",
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
                    Entry("3", "The program hung."),
                    Entry(
                        "4",
                        "It failed: its exit status was not 0, or a signal ended it.",
                    ),
                    Entry(
                        "5",
                        "Too much was lost to judge, or a recording is cut or damaged.",
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
                        "In CI:",
                        "sbt check --max-imbalance 25% --no-hang 30s --junit sbt.xml -- ./prog",
                    ),
                    Example(
                        "Against a run of before:",
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
                    Example("A program of OpenMP:", "sbt scale -n 1,2,4,8 -- ./prog"),
                    Example(
                        "One that takes the number as an argument:",
                        "sbt scale -n 1,2,4 -- ./lu -t {n}",
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
                    "Four times as slow as it was:",
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
                    Entry("0", "sbt can work here, be it by breakpoints alone."),
                    Entry("1", "It cannot; what it printed says what to type."),
                    USAGE,
                ],
            },
            Section {
                title: EXAMPLES,
                items: &[Example(
                    "What I may do, and what root may:",
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
                    Example("Which counters there are:", "sbt list"),
                    Example("Which barriers a program has:", "sbt list ./prog"),
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
                        "Of bash:",
                        "sbt completions bash > ~/.local/share/bash-completion/completions/sbt",
                    ),
                    Example(
                        "Of fish:",
                        "sbt completions fish > ~/.config/fish/completions/sbt.fish",
                    ),
                    Example(
                        "Of zsh, in a folder that is in fpath:",
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
                    "For yourself, where man looks by itself:",
                    "sbt man ~/.local/share/man/man1",
                )],
            },
        ],
        see: &[("sbt", 1), ("sbt-completions", 1), ("man", 1)],
    },
];
