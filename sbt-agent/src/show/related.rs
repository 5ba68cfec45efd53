//! How counters go with who is late at a site.

use super::table::plural;
use sbt_engine::report::{RelatedReport, SiteReport};

/// Fewer episodes show nothing that chance does not.
const ENOUGH: u64 = 20;

/// A sentence with the correlations at a site, the largest first; `None` if none is known of enough
/// episodes. Counters that lateness itself makes are left out.
pub fn related(site: &SiteReport) -> Option<String> {
    let all = site.related.iter();
    let known = all.filter(|counter| counter.episodes >= ENOUGH && !counter.made_by_lateness);
    let known: Vec<(&RelatedReport, f64)> = known
        .filter_map(|counter| Some((counter, counter.correlation?)))
        .collect();
    let episodes = known.iter().map(|(counter, _)| counter.episodes).max()?;
    let figures: Vec<String> = known
        .iter()
        .map(|(counter, correlation)| {
            let of = if counter.episodes == episodes {
                String::new()
            } else {
                format!(" over {}", counter.episodes)
            };
            format!("{} {correlation:.2}{of}", counter.counter)
        })
        .collect();
    Some(format!(
        "correlation of a thread's counts with how late it comes, over {}: {}",
        plural(episodes, "episode"),
        figures.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::samples;

    fn one(counter: &str, episodes: u64, correlation: Option<f64>) -> RelatedReport {
        RelatedReport {
            counter: counter.into(),
            episodes,
            correlation,
            effective_episodes: correlation.map(|_| 9.0),
            made_by_lateness: counter == "task-clock",
            last: Some(3.0),
            others: Some(1.0),
            late_ns: Some(1_000),
        }
    }

    #[test]
    fn counters_are_listed_with_their_correlation() {
        let mut site = samples::calm().report.sites[0].clone();
        assert_eq!(related(&site), None);
        site.related = vec![
            one("task-clock", 412, Some(1.0)),
            one("page-faults", 412, Some(0.934)),
            one("major-faults", 412, None),
            one("instructions", 300, Some(-0.1)),
            one("branches", 19, Some(0.9)),
        ];
        assert_eq!(
            related(&site).unwrap(),
            "correlation of a thread's counts with how late it comes, over 412 episodes: page-faults \
             0.93, instructions -0.10 over 300"
        );
        site.related.truncate(1);
        assert_eq!(related(&site), None);
    }
}
