//! The five studies: their programs, what their reports must show, and their texts.

use anyhow::Result;

use super::readings;
use super::series::Pair;

/// A program with a fault, and its mended form.
pub struct Study {
    /// The fault, as a heading.
    pub title: &'static str,
    /// What the program does.
    pub about: &'static str,
    /// The program with the fault.
    pub fault: Program,
    /// The mended program.
    pub fix: Program,
    /// What the mended program does differently.
    pub change: &'static str,
    /// Where the sources of the two programs differ.
    pub source: &'static [Excerpt],
    /// Reads the faulty program's report; fails if the fault is not in it.
    pub reading: fn(&Pair) -> Result<String>,
    /// Reads how the work is spread over many threads; fails if the fault does not show.
    pub pattern: fn(&Pair) -> Result<String>,
    /// Reads the mended program's report; if set, the page shows that report.
    pub healthy: Option<fn(&Pair) -> Result<String>>,
}

/// A demo program, and what to look at in its report.
pub struct Program {
    /// The name of the demo.
    pub demo: &'static str,
    /// sbt's options.
    pub options: &'static [&'static str],
    /// The function that calls the barrier of interest.
    pub site: &'static str,
    /// Paragraphs of the text report that the page shows: the head, the table of barriers, and a
    /// table for each site.
    pub paragraphs: usize,
}

/// Lines of a demo's source, from the first line with a given text to its closing brace.
pub struct Excerpt {
    /// The file, in sbt-agent/src/demo.
    pub file: &'static str,
    /// A text in the first line.
    pub from: &'static str,
}

impl Program {
    const fn new(demo: &'static str, site: &'static str) -> Self {
        Self {
            demo,
            options: &[],
            site,
            paragraphs: 3,
        }
    }

    /// sbt's arguments as a reader would type them.
    pub fn command(&self, threads: usize) -> Vec<String> {
        let mut command = vec!["demo".into(), self.demo.into()];
        command.extend(["-t".into(), threads.to_string()]);
        command.extend(self.options.iter().map(|option| (*option).to_owned()));
        command
    }
}

/// All studies, in the order of the page.
pub const STUDIES: [Study; 5] = [
    Study {
        title: "Matrix multiplication: tiles that do not go evenly into the threads",
        about: "Two phases a round, each named by its function: `fill_operands` makes two matrices, \
            `multiply` multiplies them. All rows cost the same. `matmul-tiles` deals them out in \
            five tiles.",
        fault: Program::new("matmul-tiles", "multiply"),
        fix: Program::new("matmul", "multiply"),
        change: "As many rows for each thread as for the others. Where tiles are wanted for the \
            cache, many small ones do as well: then one more or less is little.",
        source: &[Excerpt {
            file: "matmul.rs",
            from: "fn owned",
        }],
        reading: readings::matmul,
        pattern: readings::matmul_pattern,
        healthy: Some(readings::matmul_healthy),
    },
    Study {
        title: "LU: rows in blocks",
        about: "LU factorisation from the top of the matrix down: a thread factors some rows, then \
            all update theirs below, and rows above are finished. `lu-block` gives each thread \
            rows that lie one after the other.",
        fault: Program::new("lu-block", "update_rows"),
        fix: Program::new("lu-cyclic", "update_rows"),
        change: "Rows dealt round robin: the rows that remain are spread over all threads at any \
            time.",
        source: &[Excerpt {
            file: "lu.rs",
            from: "let (rows, step) = match self.layout",
        }],
        reading: readings::lu,
        pattern: readings::lu_pattern,
        healthy: None,
    },
    Study {
        title: "Radix sort: a sum along a tree",
        about: "Three phases a digit: `count_digits`, then a sum of the counts over all threads, \
            then `permute_keys`. `radix` sums along a binary tree: in each of its steps at most \
            half of the threads have anything to add, in the last only one.",
        fault: Program::new("radix", "tree_sum"),
        fix: Program::new("radix-flat", "flat_sum"),
        change: "Each thread takes a range of the digits and sums it over all threads: one step, \
            one barrier, and work for everybody.",
        source: &[Excerpt {
            file: "radix.rs",
            from: "match self.sum {",
        }],
        reading: readings::radix,
        pattern: readings::radix_pattern,
        healthy: None,
    },
    Study {
        title: "Blocked LU: a serial phase",
        about: "LU factorisation in square blocks. Three phases a step: the panel, which is the \
            block on the diagonal with those below it, the blocks right of it, and the square that \
            remains. In `lu-serial` the panel belongs to one thread.",
        fault: Program::new("lu-serial", "factor_panel"),
        fix: Program::new("lu-parallel", "factor_panel"),
        change: "Only the block on the diagonal has to come first. Those below it need nothing but \
            that block, so they are shared out in the second phase together with those right of \
            it. The first phase stays serial, so its imbalance stays as it is; but it gets short.",
        source: &[
            Excerpt {
                file: "lu_blocks.rs",
                from: "if self.panel == Panel::Serial",
            },
            Excerpt {
                file: "lu_blocks.rs",
                from: "let below = below.take(match self.panel",
            },
        ],
        reading: readings::blocks,
        pattern: readings::blocks_pattern,
        healthy: None,
    },
    Study {
        title: "Water: a triangle of pairs",
        about: "Molecular dynamics. In two of the six phases of a time step every molecule is \
            paired with all those before it, so the last have the most partners. `water` gives \
            each thread molecules that lie one after the other.",
        fault: Program {
            paragraphs: 4,
            ..Program::new("water", "pair_forces")
        },
        fix: Program::new("water-folded", "pair_forces"),
        change: "The triangle folded in the middle: with each molecule from the beginning goes the \
            one as far from the end, and any two such have the same number of partners together.",
        source: &[Excerpt {
            file: "water.rs",
            from: "let (low, high) = match self.deal",
        }],
        reading: readings::water,
        pattern: readings::water_pattern,
        healthy: None,
    },
];
