//! Loops that look like barriers which only spin.

use serde::{Deserialize, Serialize};

use super::SpinKind;
use crate::place::{NoFunction, SpinPlace, printable};

/// A loop in which threads were seen waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundLoop {
    /// The place of the loop.
    pub place: SpinPlace,
    /// Number of threads that were seen in the loop.
    pub threads: u64,
    /// Number of samples of these threads in the loop.
    pub samples: u64,
    /// Number of all samples of these threads.
    pub of: u64,
    /// The command to type to watch the loop as a barrier; `None` if it cannot be watched.
    pub command: Option<String>,
}

/// A loop that only waits for memory to change, and in which several threads were seen while no
/// barrier was hit: perhaps a barrier that spins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SpinReport {
    /// The function that contains the loop, or that was inlined there; null without symbols.
    pub function: Option<String>,
    /// The source file of the function.
    pub file: Option<String>,
    /// The line of the loop.
    pub line: Option<u32>,
    /// The place in the notation of reports: by line, else by address in the file.
    pub place: String,
    /// The likely purpose of the loop.
    pub kind: SpinKind,
    /// Number of threads that were seen in the loop; 0 if only the code says that this is a barrier.
    pub threads: u64,
    /// `samples` as a percentage of all samples of these threads, which is a share of their CPU
    /// time; null without samples.
    pub share_pct: Option<f64>,
    /// Number of samples in the loop.
    pub samples: u64,
    /// A command that watches the loop as a barrier; null if `--barrier` cannot name it.
    pub command: Option<String>,
    /// The finding in a sentence.
    pub text: String,
}

impl SpinReport {
    pub(super) fn of(found: &FoundLoop) -> Self {
        let place = &found.place;
        let written = place.position();
        let share_pct = (found.of > 0).then(|| found.samples as f64 / found.of as f64 * 100.0);
        Self {
            text: text(found, share_pct),
            function: place.function.clone(),
            file: place.file.as_deref().map(printable),
            line: place.line,
            place: written,
            kind: if place.is_barrier {
                SpinKind::Barrier
            } else {
                SpinKind::Unclear
            },
            threads: found.threads,
            share_pct,
            samples: found.samples,
            command: found.command.clone(),
        }
    }
}

fn text(found: &FoundLoop, share_pct: Option<f64>) -> String {
    let FoundLoop { place, threads, .. } = found;
    let at = place.written();
    let looks = if place.is_barrier {
        "this looks like a barrier that spins"
    } else {
        "this may be a barrier that spins, or a lock, a queue or a flag"
    };
    let next = match (&found.command, &place.barrier) {
        (Some(command), _) if place.is_nested => {
            format!("If each thread calls this function once a round, watch it: {command}")
        }
        // Work in the function would count as waiting.
        (Some(command), _) if place.may_work => format!(
            "If the function does nothing but wait, watch it: {command}; else move the loop into a \
             function of its own that is not inlined"
        ),
        (Some(command), _) if place.is_barrier => format!("Watch it: {command}"),
        (Some(command), _) => format!("If it is a barrier, watch it: {command}"),
        (None, Err(NoFunction::PartOf(outer))) => format!(
            "The loop is part of {0}, and --barrier needs a function that each thread calls once a \
             round: name {0} if each thread does, else move the loop into a function of its own \
             that is not inlined (__attribute__((noinline)))",
            printable(outer)
        ),
        (None, _) => {
            "--barrier needs the symbol of the function: keep the program's symbols".into()
        }
    };
    let Some(share_pct) = share_pct else {
        return format!(
            "the code of {at} is that of a barrier that spins, but no thread was seen there: the run \
             may be too short, or the code is not used. {next}"
        );
    };
    format!(
        "{threads} threads spent {share_pct:.0} % of their CPU time in a loop of {at} that only \
         waits for memory to change: {looks}. {next}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(barrier: Result<String, NoFunction>) -> FoundLoop {
        FoundLoop {
            command: barrier
                .as_ref()
                .ok()
                .map(|name| format!("sbt run --barrier {name} -- ./p")),
            place: SpinPlace {
                function: Some("meet".into()),
                file: Some("/src/spin.c".into()),
                line: Some(31),
                binary: "p".into(),
                offset: 0x1234,
                is_barrier: true,
                is_nested: false,
                may_work: false,
                barrier,
            },
            threads: 4,
            samples: 71,
            of: 100,
        }
    }

    #[test]
    fn says_what_was_seen_and_what_to_type() {
        let report = SpinReport::of(&found(Ok("meet".into())));
        assert_eq!(
            report.text,
            "4 threads spent 71 % of their CPU time in a loop of meet (spin.c:31) that only waits \
             for memory to change: this looks like a barrier that spins. Watch it: sbt run \
             --barrier meet -- ./p"
        );
        let mut unclear = found(Ok("meet".into()));
        unclear.place.is_barrier = false;
        let report = SpinReport::of(&unclear);
        assert_eq!(report.kind, SpinKind::Unclear);
        assert!(
            report
                .text
                .contains("or a lock, a queue or a flag. If it is a barrier, watch it: sbt run")
        );
    }

    #[test]
    fn says_that_only_the_code_tells() {
        let mut by_code = found(Ok("lu.c:212".into()));
        (by_code.threads, by_code.samples, by_code.of) = (0, 0, 0);
        let report = SpinReport::of(&by_code);
        assert_eq!(report.share_pct, None);
        assert_eq!(
            report.text,
            "the code of meet (spin.c:31) is that of a barrier that spins, but no thread was seen \
             there: the run may be too short, or the code is not used. Watch it: sbt run --barrier \
             lu.c:212 -- ./p"
        );
    }

    #[test]
    fn says_what_it_takes_to_be_named() {
        let mut nested = found(Ok("meet".into()));
        nested.place.is_nested = true;
        let text = SpinReport::of(&nested).text;
        assert!(
            text.contains("If each thread calls this function once a round"),
            "{text}"
        );
        let mut works = found(Ok("phase".into()));
        works.place.may_work = true;
        let text = SpinReport::of(&works).text;
        assert!(
            text.contains("If the function does nothing but wait, watch it: sbt run"),
            "{text}"
        );
    }

    #[test]
    fn says_why_there_is_nothing_to_type() {
        let report = SpinReport::of(&found(Err(NoFunction::PartOf("work".into()))));
        assert!(
            report.text.contains("The loop is part of work, and"),
            "{}",
            report.text
        );
        assert_eq!(report.command, None);
        let mut stripped = found(Err(NoFunction::NoSymbol));
        (stripped.place.function, stripped.place.line) = (None, None);
        let report = SpinReport::of(&stripped);
        assert!(
            report.text.contains("a loop of p+0x1234 that"),
            "{}",
            report.text
        );
        assert!(
            report.text.ends_with("keep the program's symbols"),
            "{}",
            report.text
        );
    }
}
