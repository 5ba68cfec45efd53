//! The options of `sbt check` that are rules.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::gate::{
    Asked, Measure, Rule,
    rule::{self, no_hang},
};

/// Rules. All but the last five may be given several times, for all sites or with SITE:
/// in front.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Rules")]
pub struct Rules {
    /// Work is no more uneven than this at a site: 0% is even, 100% one thread does it all.
    #[arg(long, value_name = "[SITE:]PCT", value_parser = of(Measure::Imbalance), allow_hyphen_values = true)]
    max_imbalance: Vec<Rule>,
    /// Threads wait for others no more than this of their time at a site.
    #[arg(long, value_name = "[SITE:]PCT", value_parser = of(Measure::Idle), allow_hyphen_values = true)]
    max_idle: Vec<Rule>,
    /// Threads do something useful so much of their time, from 0 to 1; without SITE over
    /// the whole run.
    #[arg(long, value_name = "[SITE:]SHARE", value_parser = of(Measure::Efficiency), allow_hyphen_values = true)]
    min_efficiency: Vec<Rule>,
    /// Mean by most work of a thread is so much, from 0 to 1; without SITE over the whole
    /// run.
    #[arg(long, value_name = "[SITE:]SHARE", value_parser = of(Measure::LoadBalance), allow_hyphen_values = true)]
    min_load_balance: Vec<Rule>,
    /// 95 % of the episodes take no longer than this from first to last arrival.
    #[arg(long, value_name = "[SITE:]TIME", value_parser = of(Measure::BarrierTime), allow_hyphen_values = true)]
    max_barrier_time: Vec<Rule>,
    /// 95 % of the phases that end at a site take no longer than this.
    #[arg(long, value_name = "[SITE=]TIME", value_parser = of(Measure::Phase), allow_hyphen_values = true)]
    max_phase: Vec<Rule>,
    /// There were so many complete episodes [default: 1].
    #[arg(long, value_name = "[SITE:]N", value_parser = of(Measure::Episodes), allow_hyphen_values = true)]
    min_episodes: Vec<Rule>,
    /// No barrier stands still for so long. A program that does is ended.
    #[arg(long, value_name = "TIME", value_parser = no_hang, allow_hyphen_values = true)]
    no_hang: Option<Duration>,
    /// No more of the events were lost than this [default: 1%].
    #[arg(long, value_name = "PCT", value_parser = rule::lost, allow_hyphen_values = true)]
    max_lost: Option<f64>,
}

/// Reads a rule about `measure`.
fn of(measure: Measure) -> impl Fn(&str) -> Result<Rule, String> + Clone + Send + Sync + 'static {
    move |text| Rule::parse(measure, text)
}

impl From<Rules> for Asked {
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
            rules: rules.into_iter().flatten().collect(),
            no_hang: typed.no_hang,
            max_lost: typed.max_lost,
            ..Self::default()
        }
    }
}
