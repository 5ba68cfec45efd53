//! When a flight recorder saves what it holds: `phase lu.c:120 > 50ms`.

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    model::told::ToldEpisode,
    pattern::Pattern,
    value::{self, duration_text},
};

/// The quantity of an episode that is compared with the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The phase time: from the last arrival of the episode before to the last arrival.
    Phase,
    /// The barrier time: from the first to the last arrival.
    Barrier,
    /// The idle time of all its threads together.
    Idle,
}

const QUANTITIES: [(&str, Quantity); 3] = [
    ("phase", Quantity::Phase),
    ("barrier", Quantity::Barrier),
    ("idle", Quantity::Idle),
];

impl Quantity {
    /// The quantity of an episode, ns; `None` if it is not known.
    pub fn of(self, told: &ToldEpisode) -> Option<u64> {
        match self {
            Self::Phase => told.done.phase.map(|(_, phase_ns)| phase_ns),
            Self::Barrier => Some(told.done.barrier_ns()),
            Self::Idle => Some(told.arrivals.iter().map(|arrival| arrival.idle_ns).sum()),
        }
    }

    /// The word that the user types.
    pub fn word(self) -> &'static str {
        let all = QUANTITIES.iter();
        all.clone()
            .find_map(|(word, quantity)| (*quantity == self).then_some(*word))
            .unwrap_or_default()
    }
}

/// A rule for saving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveRule {
    /// An episode takes too long.
    Episode {
        /// What is compared.
        quantity: Quantity,
        /// The barrier; `None` for all.
        site: Option<Pattern>,
        /// The limit, ns.
        limit_ns: u64,
    },
    /// A hang is found.
    Hang,
}

const FORMS: &str = "expected `phase SITE > 50ms`, `barrier > 5ms` (of any site), `idle SITE > 1s` or \
    `hang`";

impl FromStr for SaveRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "hang" {
            return Ok(Self::Hang);
        }
        // Names of C++ functions may contain `>`, times do not.
        let (left, limit) = text.rsplit_once('>').ok_or(FORMS)?;
        let left = left.trim();
        let (word, site) = left.split_once(' ').unwrap_or((left, ""));
        let mut all = QUANTITIES.iter();
        let quantity = all.find_map(|(name, quantity)| (*name == word).then_some(*quantity));
        let quantity = quantity.ok_or(FORMS)?;
        let limit = limit.trim();
        if limit.ends_with(|last: char| last.is_ascii_digit()) {
            return Err(format!("the time `{limit}` has no unit, such as 50ms"));
        }
        let limit = value::seconds(limit)?;
        let site = site.trim();
        Ok(Self::Episode {
            quantity,
            site: (!site.is_empty()).then(|| site.parse()).transpose()?,
            limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

impl fmt::Display for SaveRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hang => f.write_str("hang"),
            Self::Episode {
                quantity,
                site,
                limit_ns,
            } => {
                f.write_str(quantity.word())?;
                if let Some(site) = site {
                    write!(f, " {site}")?;
                }
                write!(f, " > {}", duration_text(Duration::from_nanos(*limit_ns)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in [
            "phase lu.c:120 > 50ms",
            "barrier > 5ms",
            "idle step<std::vector<int> > > 2s",
            "hang",
        ] {
            let rule: SaveRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        let short: SaveRule = "phase>1.5s".parse().unwrap();
        assert_eq!(short.to_string(), "phase > 1500ms");
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "phase",
            "phase lu.c:120",
            "phase lu.c:120 > 50",
            "phase lu.c:120 > soon",
            "work > 5ms",
            "hangs",
            "> 5ms",
        ] {
            assert!(text.parse::<SaveRule>().is_err(), "{text}");
        }
    }
}
