//! The options of `sbt check` that are rules.

use std::path::PathBuf;

use clap::Args;

use crate::settings::Gate;
use sbt_engine::{
    gate::{
        CheckRules, Measure, Rule,
        rule::{self, NoHang},
    },
    value,
};
use sbt_program::access::NamedFile;

/// The rules of a check. Limits may be given several times, for all sites or with SITE: in front.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Rules")]
pub struct Rules {
    /// Highest imbalance of work at a site: 0% is even, at 100% one thread does all work.
    #[arg(long, value_name = "[SITE:]PCT", value_parser = of(Measure::Imbalance), allow_hyphen_values = true)]
    max_imbalance: Vec<Rule>,
    /// Highest share of their time that threads wait for others at a site.
    #[arg(long, value_name = "[SITE:]PCT", value_parser = of(Measure::Idle), allow_hyphen_values = true)]
    max_idle: Vec<Rule>,
    /// Lowest share of their time that threads do useful work, from 0 to 1; without SITE in
    /// the whole run.
    #[arg(long, value_name = "[SITE:]SHARE", value_parser = of(Measure::Efficiency), allow_hyphen_values = true)]
    min_efficiency: Vec<Rule>,
    /// Lowest ratio of the mean to the largest work of a thread, from 0 to 1; without SITE
    /// in the whole run.
    #[arg(long, value_name = "[SITE:]SHARE", value_parser = of(Measure::LoadBalance), allow_hyphen_values = true)]
    min_load_balance: Vec<Rule>,
    /// Longest time from first to last arrival, for 95 % of the episodes.
    #[arg(long, value_name = "[SITE:]TIME", value_parser = of(Measure::BarrierTime), allow_hyphen_values = true)]
    max_barrier_time: Vec<Rule>,
    /// Longest phase that ends at a site, for 95 % of the phases.
    #[arg(long, value_name = "[SITE=]TIME", value_parser = of(Measure::Phase), allow_hyphen_values = true)]
    max_phase: Vec<Rule>,
    /// Lowest number of complete episodes [default: 1].
    #[arg(long, value_name = "[SITE:]N", value_parser = of(Measure::Episodes), allow_hyphen_values = true)]
    min_episodes: Vec<Rule>,
    /// Fail if threads stand still for this time and nobody is left who could wake them. A running
    /// program is then ended. With TIME,strict a program that waits for input, a peer or
    /// a timer fails as well.
    #[arg(long, value_name = "TIME[,strict]", value_parser = rule::no_hang, allow_hyphen_values = true)]
    no_hang: Option<NoHang>,
    /// Highest share of lost events [default: 1%].
    #[arg(long, value_name = "PCT", value_parser = rule::lost, allow_hyphen_values = true)]
    max_lost: Option<f64>,
    /// A recording or report: the run, and the phases of its sites, must not be slower than
    /// there.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// How much slower than the baseline they may be: 10%, 0.5 [default: 10%].
    #[arg(long, value_name = "PCT", value_parser = value::tolerance, allow_hyphen_values = true)]
    tolerance: Option<f64>,
    /// Judge a recording even if it is cut or damaged, by the part that is there.
    #[arg(long)]
    allow_incomplete: bool,
}

/// Reads a rule about `measure`.
fn of(measure: Measure) -> impl Fn(&str) -> Result<Rule, String> + Clone + Send + Sync + 'static {
    move |text| Rule::parse(measure, text)
}

impl From<Rules> for Gate {
    fn from(typed: Rules) -> Self {
        let rules = [
            typed.max_imbalance,
            typed.max_idle,
            typed.min_efficiency,
            typed.min_load_balance,
            typed.max_barrier_time,
            typed.max_phase,
            typed.min_episodes,
        ];
        Self {
            asked: CheckRules {
                rules: rules.into_iter().flatten().collect(),
                no_hang: typed.no_hang.map(|asked| asked.limit),
                strict_hang: typed.no_hang.is_some_and(|asked| asked.strict),
                max_lost: typed.max_lost,
                tolerance: typed.tolerance,
                allow_incomplete: typed.allow_incomplete,
            },
            baseline: typed.baseline.map(NamedFile::typed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["sbt", "check"].iter().chain(arguments))
    }

    #[test]
    fn what_comes_after_two_dashes_is_a_program_and_else_it_is_a_file() {
        let of = |arguments: &[&str]| match parse(arguments).unwrap().command {
            Command::Check { file, program, .. } => (file, program),
            other => panic!("{other:?}"),
        };
        let (file, program) = of(&["--max-idle", "10%", "run.sbt"]);
        assert_eq!(file.as_deref(), Some("run.sbt".as_ref()));
        assert!(program.is_empty());
        let (file, program) = of(&["--max-idle", "10%", "--", "./lu", "--max-idle", "-t"]);
        assert_eq!(file, None);
        assert_eq!(program, ["./lu", "--max-idle", "-t"]);
        assert!(parse(&["--max-idle", "10%"]).is_err());
        assert!(parse(&["run.sbt", "--", "./lu"]).is_err());
        assert!(parse(&["./lu", "arg"]).is_err());
    }

    #[test]
    fn rules_are_taken_in_the_order_of_their_options() {
        let arguments = [
            "--max-phase=solve=5ms",
            "--max-idle=10%",
            "--max-idle",
            "lu.c:690:5%",
            "--no-hang=30s",
            "--baseline=a.json",
            "--tolerance=5%",
            "run.sbt",
        ];
        let Command::Check { rules, .. } = parse(&arguments).unwrap().command else {
            panic!("another command");
        };
        let Gate { asked, baseline } = Gate::from(*rules);
        let typed: Vec<String> = asked.rules.iter().map(Rule::typed).collect();
        assert_eq!(typed, ["10%", "lu.c:690:5%", "solve:5ms"]);
        assert_eq!(asked.no_hang, Some(Duration::from_secs(30)));
        assert_eq!(baseline, Some(NamedFile::typed("a.json".into())));
        assert_eq!((asked.max_lost, asked.tolerance), (None, Some(5.0)));
        let error = parse(&["--max-idle=10", "run.sbt"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("such as 10%"), "{error}");
    }
}
