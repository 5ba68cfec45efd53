//! Which site of one report is which of another, also where lines have moved.
//!
//! Sites are put into groups that an edit elsewhere in the file does not change: the user's
//! name; else kind, program, functions and files of all its places, and the functions that
//! called them. In a group they are matched in the order of their lines: edits above and
//! between them move lines, but seldom exchange two barriers of a function.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
};

use crate::{
    place::short,
    report::{Report, SiteReport},
};

/// Comparisons in a group, at most; of more than a thousand sites on both sides the order alone decides.
const MOST_COMPARISONS: usize = 1 << 20;

/// A site that is still to be matched.
struct Candidate<'a> {
    site: &'a SiteReport,
    /// File name of the watched program.
    program: Option<&'a str>,
}

/// What all sites have in common that may be the same; `None`: it takes no part.
type Key = fn(&Candidate<'_>) -> Option<Vec<String>>;

/// From what tells most to what tells least: whoever is matched is no longer looked at.
const KEYS: [Key; 4] = [by_name, by_callers, by_functions, by_lines];

/// Pairs of sites, before and after, in the order of the report after.
pub fn sites<'a>(before: &'a Report, after: &'a Report) -> Vec<(&'a SiteReport, &'a SiteReport)> {
    let mut left = candidates(before);
    let mut right = candidates(after);
    let mut pairs: Vec<(&SiteReport, &SiteReport)> = Vec::new();
    for key in KEYS {
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
            .map(|(site, other)| (site.id, other.id))
            .unzip();
        left.retain(|it| !mine.contains(&it.site.id));
        right.retain(|it| !others.contains(&it.site.id));
    }
    pairs.extend(by_parts(&left, &right));
    let order: HashMap<u32, usize> = after
        .sites
        .iter()
        .zip(0..)
        .map(|(site, at)| (site.id, at))
        .collect();
    pairs.sort_by_key(|(_, site)| order.get(&site.id).copied());
    pairs
}

fn candidates(report: &Report) -> Vec<Candidate<'_>> {
    // A new build may be called something else.
    let program = report.command.first().map(|path| short(path));
    let sites = report.sites.iter();
    sites.map(|site| Candidate { site, program }).collect()
}

fn by_name(it: &Candidate<'_>) -> Option<Vec<String>> {
    let name = it.site.name.clone()?;
    Some(vec![it.site.kind.into(), name])
}

fn by_callers(it: &Candidate<'_>) -> Option<Vec<String>> {
    let mut key = by_functions(it)?;
    // No place is called so.
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
    // They are in the order in which threads came.
    places.sort();
    let mut key = vec![site.kind.into(), it.binary(&site.binary).into()];
    key.append(&mut places);
    Some(key)
}

/// Functions are renamed, and inlined into others.
fn by_lines(it: &Candidate<'_>) -> Option<Vec<String>> {
    let line = |place: &String| {
        let mut words = place.split(' ');
        words
            .find(|word| split(word).is_some_and(|(_, _, is_line)| is_line))
            .map(str::to_owned)
    };
    let mut lines: Vec<String> = it.site.places.iter().map(line).collect::<Option<_>>()?;
    lines.sort();
    (!lines.is_empty()).then(|| [vec![it.site.kind.into()], lines].concat())
}

/// Those of which one has all functions of the other: with fewer threads some places may
/// not be come from. Only where no other could be meant.
fn by_parts<'a>(
    left: &[Candidate<'a>],
    right: &[Candidate<'a>],
) -> Vec<(&'a SiteReport, &'a SiteReport)> {
    if left.len().saturating_mul(right.len()) > MOST_COMPARISONS {
        return Vec::new();
    }
    let left: Vec<Part<'_>> = left.iter().map(Part::of).collect();
    let right: Vec<Part<'_>> = right.iter().map(Part::of).collect();
    let mut pairs = Vec::new();
    for one in &left {
        let mut found = right.iter().filter(|other| one.is_alike(other));
        let (Some(other), None) = (found.next(), found.next()) else {
            continue;
        };
        if left.iter().filter(|it| it.is_alike(other)).count() == 1 {
            pairs.push((one.site, other.site));
        }
    }
    pairs
}

/// A site with what it may have in part.
struct Part<'a> {
    site: &'a SiteReport,
    binary: &'a str,
    functions: BTreeSet<String>,
}

impl<'a> Part<'a> {
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

    /// A place or a caller without its line or address.
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

/// `lu.c:690` or `(lu+0x1f)`: what comes before the number, the number, and whether it is
/// that of a line.
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

/// Where it is among sites of the same functions: the least line or address.
fn position(site: &SiteReport) -> u64 {
    let words = site.places.iter().flat_map(|place| place.split(' '));
    let numbers = words.filter_map(split).map(|(_, number, _)| number);
    numbers.min().unwrap_or(0)
}

/// Matches the sites of a group. As many on both sides: in order. Else those that an edit
/// above has moved alike come first, and the rest in order between them.
fn in_order<'a>(
    before: Vec<&'a SiteReport>,
    after: Vec<&'a SiteReport>,
) -> Vec<(&'a SiteReport, &'a SiteReport)> {
    let (before, after) = (positions(before), positions(after));
    let shift = if before.len() == after.len() {
        None
    } else {
        common_shift(&before, &after)
    };
    let mut pairs = Vec::new();
    let mut pair = |left: &[(i128, &'a SiteReport)], right: &[(i128, &'a SiteReport)]| {
        pairs.extend(
            left.iter()
                .zip(right)
                .map(|(left, right)| (left.1, right.1)),
        );
    };
    // From where on nobody has been matched yet.
    let (mut left, mut right) = (0, 0);
    if let Some(shift) = shift {
        let (mut at, mut other) = (0, 0);
        while at < before.len() && other < after.len() {
            match (before[at].0 + shift).cmp(&after[other].0) {
                Ordering::Less => at += 1,
                Ordering::Greater => other += 1,
                Ordering::Equal => {
                    pair(&before[left..at], &after[right..other]);
                    pair(&before[at..=at], &after[other..=other]);
                    (at, other) = (at + 1, other + 1);
                    (left, right) = (at, other);
                }
            }
        }
    }
    pair(&before[left..], &after[right..]);
    pairs
}

/// Sites in the order in which they stand in the source.
fn positions(mut sites: Vec<&SiteReport>) -> Vec<(i128, &SiteReport)> {
    sites.sort_by_key(|site| (position(site), site.id));
    let sites = sites.into_iter();
    sites
        .map(|site| (i128::from(position(site)), site))
        .collect()
}

/// By how many lines most sites have moved; the fewer of two that are as frequent.
fn common_shift(before: &[(i128, &SiteReport)], after: &[(i128, &SiteReport)]) -> Option<i128> {
    if before.len().saturating_mul(after.len()) > MOST_COMPARISONS {
        return None;
    }
    let mut counts: HashMap<i128, u32> = HashMap::new();
    for (from, _) in before {
        for (to, _) in after {
            *counts.entry(to - from).or_default() += 1;
        }
    }
    let most = |(shift, count): &(i128, u32)| (*count, -shift.abs(), *shift);
    counts.into_iter().max_by_key(most).map(|(shift, _)| shift)
}
