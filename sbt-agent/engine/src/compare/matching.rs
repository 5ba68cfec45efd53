//! Matches the sites of one report with those of another, even if lines have moved.
//!
//! Sites are put into groups that edits elsewhere in the file do not change: by the user's name, or
//! else by kind, program, functions and files of all their places, and calling functions. In a
//! group, sites are matched in the order of their lines: edits above and between them move lines,
//! but seldom swap two barriers of a function. If one side has more sites, those are left out whose
//! absence makes the rest most alike.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::alignment::align;
use crate::{
    place::short,
    report::{Report, SiteReport},
};

/// Largest number of comparisons in a group. With more than a thousand sites on both sides, only
/// their order counts.
const MOST_COMPARISONS: usize = 1 << 20;

/// A site that has no partner yet.
struct Candidate<'a> {
    site: &'a SiteReport,
    /// File name of the watched program.
    program: Option<&'a str>,
}

/// A function that gives the features of a site. Sites of two runs with equal features may be the
/// same; `None` if a site lacks the features.
type Key = fn(&Candidate<'_>) -> Option<Vec<String>>;

/// The keys, from the most to the least telling. A matched site is not looked at again.
const KEYS: [Key; 4] = [by_name, by_callers, by_functions, by_lines];
/// The keys for two runs of the same program, in which no line has moved.
const KEYS_OF_ONE: [Key; 5] = [by_name, by_places, by_callers, by_functions, by_lines];

/// Two sites that are the same.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The site in the run before.
    pub before: &'a SiteReport,
    /// The site in the run after.
    pub after: &'a SiteReport,
    /// Whether no other similar site may be meant.
    pub certain: bool,
}

/// Pairs of sites, before and after, in the order of the report after.
pub fn sites<'a>(before: &'a Report, after: &'a Report) -> Vec<Pair<'a>> {
    matched(before, after, &KEYS)
}

/// Pairs of sites in two runs of the same program, in the order of the report after.
pub fn sites_of_one_program<'a>(before: &'a Report, after: &'a Report) -> Vec<Pair<'a>> {
    matched(before, after, &KEYS_OF_ONE)
}

fn matched<'a>(before: &'a Report, after: &'a Report, keys: &[Key]) -> Vec<Pair<'a>> {
    let mut left = candidates(before);
    let mut right = candidates(after);
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for key in keys {
        let mut groups: BTreeMap<Vec<String>, [Vec<&SiteReport>; 2]> = BTreeMap::new();
        for (side, all) in [&left, &right].into_iter().enumerate() {
            for candidate in all {
                if let Some(key) = key(candidate) {
                    groups.entry(key).or_default()[side].push(candidate.site);
                }
            }
        }
        for [mine, others] in groups.into_values() {
            pairs.extend(in_order(mine, others));
        }
        let (mine, others): (HashSet<u32>, HashSet<u32>) = pairs
            .iter()
            .map(|pair| (pair.before.id, pair.after.id))
            .unzip();
        left.retain(|candidate| !mine.contains(&candidate.site.id));
        right.retain(|candidate| !others.contains(&candidate.site.id));
    }
    pairs.extend(by_parts(&left, &right));
    let order: HashMap<u32, usize> = after
        .sites
        .iter()
        .zip(0..)
        .map(|(site, at)| (site.id, at))
        .collect();
    pairs.sort_by_key(|pair| order.get(&pair.after.id).copied());
    pairs
}

fn candidates(report: &Report) -> Vec<Candidate<'_>> {
    // A new build may have another file name.
    let program = report.run.command.first().map(|path| short(path));
    let sites = report.sites.iter();
    sites.map(|site| Candidate { site, program }).collect()
}

fn by_name(it: &Candidate<'_>) -> Option<Vec<String>> {
    let name = it.site.name.clone()?;
    Some(vec![it.site.kind.to_string(), name])
}

/// A key with all lines and addresses.
#[allow(
    clippy::unnecessary_wraps,
    reason = "one of several ways, which may not apply"
)]
fn by_places(it: &Candidate<'_>) -> Option<Vec<String>> {
    let site = it.site;
    let mut places = site.places.clone();
    places.sort();
    let kind = vec![site.kind.to_string(), site.binary.clone()];
    // A separator: no place has an empty name.
    let between = vec![String::new()];
    Some([kind, places, between, site.callers.clone()].concat())
}

fn by_callers(it: &Candidate<'_>) -> Option<Vec<String>> {
    let mut key = by_functions(it)?;
    // A separator: no place has an empty name.
    key.push(String::new());
    key.extend(
        it.site
            .callers
            .iter()
            .map(|caller| it.without_numbers(caller)),
    );
    Some(key)
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "one of several ways, which may not apply"
)]
fn by_functions(it: &Candidate<'_>) -> Option<Vec<String>> {
    let site = it.site;
    let mut places: Vec<String> = site
        .places
        .iter()
        .map(|place| it.without_numbers(place))
        .collect();
    // Places are in the order in which threads came.
    places.sort();
    let mut key = vec![site.kind.to_string(), it.binary(&site.binary).into()];
    key.append(&mut places);
    Some(key)
}

/// A key for functions that were renamed, or inlined into others.
fn by_lines(it: &Candidate<'_>) -> Option<Vec<String>> {
    let line = |place: &String| {
        let mut words = place.split(' ');
        words
            .find(|word| split(word).is_some_and(|(_, _, is_line)| is_line))
            .map(str::to_owned)
    };
    let mut lines: Vec<String> = it.site.places.iter().map(line).collect::<Option<_>>()?;
    lines.sort();
    (!lines.is_empty()).then(|| [vec![it.site.kind.to_string()], lines].concat())
}

/// Pairs of sites of which one has all functions of the other, since with fewer threads some places
/// may not be reached. Only unambiguous pairs count.
fn by_parts<'a>(left: &[Candidate<'a>], right: &[Candidate<'a>]) -> Vec<Pair<'a>> {
    if left.len().saturating_mul(right.len()) > MOST_COMPARISONS {
        return Vec::new();
    }
    let left: Vec<SiteFunctions<'_>> = left.iter().map(SiteFunctions::of).collect();
    let right: Vec<SiteFunctions<'_>> = right.iter().map(SiteFunctions::of).collect();
    let mut pairs = Vec::new();
    for one in &left {
        let mut found = right.iter().filter(|other| one.is_alike(other));
        let (Some(other), None) = (found.next(), found.next()) else {
            continue;
        };
        if left
            .iter()
            .filter(|candidate| candidate.is_alike(other))
            .count()
            == 1
        {
            pairs.push(Pair {
                before: one.site,
                after: other.site,
                certain: true,
            });
        }
    }
    pairs
}

/// A site with the functions of its places.
struct SiteFunctions<'a> {
    site: &'a SiteReport,
    binary: &'a str,
    functions: BTreeSet<String>,
}

impl<'a> SiteFunctions<'a> {
    fn of(it: &Candidate<'a>) -> Self {
        let places = it.site.places.iter();
        Self {
            site: it.site,
            binary: it.binary(&it.site.binary),
            functions: places.map(|place| it.without_numbers(place)).collect(),
        }
    }

    fn is_alike(&self, other: &Self) -> bool {
        let (mine, others) = (&self.functions, &other.functions);
        self.site.kind == other.site.kind
            && self.binary == other.binary
            && (mine.is_subset(others) || others.is_subset(mine))
    }
}

impl<'a> Candidate<'a> {
    fn binary(&self, name: &'a str) -> &'a str {
        if Some(name) == self.program { "" } else { name }
    }

    /// A place or a caller without its line number or address.
    fn without_numbers(&self, place: &str) -> String {
        let words = place.split(' ').map(|word| match split(word) {
            Some((file, _, true)) => file.to_owned(),
            Some((binary, ..)) if Some(binary) == self.program => String::new(),
            Some((binary, ..)) => binary.to_owned(),
            None => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Splits `lu.c:690` or `(lu+0x1f)` into the part before the number, the number, and whether it is
/// a line number.
fn split(word: &str) -> Option<(&str, u64, bool)> {
    let word = word.trim_start_matches('(').trim_end_matches(')');
    if let Some((file, line)) = word.rsplit_once(':')
        && let Ok(line) = line.parse()
    {
        return Some((file, line, true));
    }
    let (binary, offset) = word.rsplit_once("+0x")?;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    Some((binary, offset, false))
}

/// The position of a site among those with the same functions: its smallest line number or address.
fn position(site: &SiteReport) -> u64 {
    let words = site.places.iter().flat_map(|place| place.split(' '));
    let numbers = words.filter_map(split).map(|(_, number, _)| number);
    numbers.min().unwrap_or(0)
}

/// Matches the sites of a group: in order if both sides have as many, and else by the best
/// alignment.
fn in_order<'a>(before: Vec<&'a SiteReport>, after: Vec<&'a SiteReport>) -> Vec<Pair<'a>> {
    let (before, after) = (positions(before), positions(after));
    let pair = |left: &(i128, &'a SiteReport), right: &(i128, &'a SiteReport), certain| Pair {
        before: left.1,
        after: right.1,
        certain,
    };
    let several = before.len().saturating_mul(after.len());
    if before.len() == after.len() || several > MOST_COMPARISONS {
        let certain = before.len() == after.len();
        let both = before.iter().zip(&after);
        return both
            .map(|(left, right)| pair(left, right, certain))
            .collect();
    }
    let alike = Alike::of(&before, &after);
    if before.len() < after.len() {
        let found = align(before.len(), after.len(), |left, right| {
            alike.score(&before[left], &after[right])
        });
        let both = found.into_iter();
        both.map(|aligned| pair(&before[aligned.few], &after[aligned.many], aligned.certain))
            .collect()
    } else {
        let found = align(after.len(), before.len(), |right, left| {
            alike.score(&before[left], &after[right])
        });
        let both = found.into_iter();
        both.map(|aligned| pair(&before[aligned.many], &after[aligned.few], aligned.certain))
            .collect()
    }
}

/// Sites with their positions, in source order.
fn positions(mut sites: Vec<&SiteReport>) -> Vec<(i128, &SiteReport)> {
    sites.sort_by_key(|site| (position(site), site.id));
    let sites = sites.into_iter();
    sites
        .map(|site| (i128::from(position(site)), site))
        .collect()
}

/// Scores how alike sites of the same functions are.
struct Alike {
    /// For each distance in lines, the number of site pairs that have moved by it.
    shifts: HashMap<i128, u32>,
    /// The largest number of sites that can have moved by one distance.
    most: usize,
}

impl Alike {
    fn of(before: &[(i128, &SiteReport)], after: &[(i128, &SiteReport)]) -> Self {
        let mut shifts: HashMap<i128, u32> = HashMap::new();
        for (from, _) in before {
            for (to, _) in after {
                *shifts.entry(to - from).or_default() += 1;
            }
        }
        Self {
            shifts,
            most: before.len().min(after.len()).max(1),
        }
    }

    /// A score from 0 to 3: up to 1 each for having moved as far as other sites, for the number of
    /// episodes, and for the phase time. None of them decides alone: lines are the same distance
    /// apart in many places, and a site may have become slower.
    fn score(&self, before: &(i128, &SiteReport), after: &(i128, &SiteReport)) -> f64 {
        let shift = after.0 - before.0;
        let moved = self.shifts.get(&shift).copied().unwrap_or(0);
        let moved = f64::from(moved) / self.most as f64;
        let (one, other) = (before.1, after.1);
        let time = |site: &SiteReport| site.phase_ns.as_ref().map(|stat| stat.mean);
        let times = time(one)
            .zip(time(other))
            // Unknown times count neither for the pair nor against it.
            .map_or(0.5, |(one, other)| share(one, other));
        // Among otherwise equal pairs, prefer the one that has moved least.
        let nearness = 1e-6 / (1.0 + shift.unsigned_abs() as f64);
        moved.min(1.0) + share(one.episodes, other.episodes) + times + nearness
    }
}

/// The smaller number divided by the larger.
fn share(one: u64, other: u64) -> f64 {
    if one == other {
        return 1.0;
    }
    one.min(other) as f64 / one.max(other) as f64
}
