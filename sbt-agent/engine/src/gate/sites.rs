//! Finds the sites and phases of a report that a user's pattern matches.

use crate::{
    pattern::Pattern,
    place::{Frame, Place},
    report::{ConceptualReport, Report, SiteReport},
};

/// A part of a report to which a rule is applied.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A site.
    Site(&'a SiteReport),
    /// A conceptual phase.
    Phase(&'a ConceptualReport),
}

/// The sites and phases that match the pattern; all sites without a pattern. Empty if nothing
/// matches.
pub fn meant<'a>(report: &'a Report, site: Option<&Pattern>) -> Vec<Subject<'a>> {
    let sites = report.sites.iter();
    let Some(pattern) = site else {
        return sites.map(Subject::Site).collect();
    };
    let phases = report.conceptual_phases.iter();
    let phases = phases.filter(|phase| pattern.is_name(&phase.name));
    // Names that the user has given take precedence over all other matches.
    let named = || {
        let is_named = |site: &&SiteReport| {
            let name = site.name.as_deref();
            name.is_some_and(|name| pattern.is_name(name))
        };
        report.sites.iter().filter(is_named).map(Subject::Site)
    };
    let by_name: Vec<Subject> = named().chain(phases.map(Subject::Phase)).collect();
    if !by_name.is_empty() {
        return by_name;
    }
    sites
        .filter(|site| pattern.matches(&place(site)))
        .map(Subject::Site)
        .collect()
}

/// A site's places, as far as the report contains them, combined into one.
fn place(site: &SiteReport) -> Place {
    let first = Frame {
        function: site.function.clone(),
        file: site.file.clone(),
        line: site.line,
        inlined: false,
    };
    let written = site
        .places
        .iter()
        .chain(&site.wrappers)
        .chain(&site.callers);
    let others = written.filter_map(|text| frame(text));
    Place {
        binary: site.binary.clone(),
        offset: hex(&site.offset).unwrap_or_default(),
        into_function: site.function_offset.as_deref().and_then(hex),
        works_before: false,
        frames: std::iter::once(first).chain(others).collect(),
        outer: Vec::new(),
        of_runtime: false,
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Reads `function file:line`, or only one of the two, with or without `from` a caller, as reports
/// write places; `None` for an address.
fn frame(text: &str) -> Option<Frame> {
    let text = text.split_once(" from ").map_or(text, |(place, _)| place);
    let line = |text: &str| {
        let (file, line) = text.rsplit_once(':')?;
        Some((file.to_owned(), line.parse::<u32>().ok()?))
    };
    // An offset counts within one file only, and the report does not name that file for further
    // places.
    let is_address = |text: &str| text.contains("+0x");
    let (function, at) = match text.rsplit_once(' ') {
        Some((function, at)) if line(at).is_some() => (Some(function), line(at)),
        Some((function, at)) if is_address(at) => (Some(function), None),
        _ if line(text).is_some() => (None, line(text)),
        _ if is_address(text) => return None,
        _ => (Some(text), None),
    };
    let (file, line) = at.unzip();
    Some(Frame {
        function: function.map(str::to_owned),
        file,
        line,
        // The frame is not at the offset of the first frame.
        inlined: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::samples::{report, site};

    fn called(report: &Report, text: &str) -> Vec<String> {
        let pattern: Pattern = text.parse().unwrap();
        meant(report, Some(&pattern))
            .iter()
            .map(|subject| match subject {
                Subject::Site(site) => site.called(),
                Subject::Phase(phase) => phase.name.clone(),
            })
            .collect()
    }

    #[test]
    fn a_site_is_meant_in_every_way_in_which_it_may_be_written() {
        let mut one = site(0, "app::solve", 690);
        one.file = Some("/src/lu.c".into());
        one.binary = "lu".into();
        one.offset = "0x4f2".into();
        one.function_offset = Some("0x1f".into());
        one.places = vec![
            "app::solve lu.c:690".into(),
            "operator new(unsigned long) new.cc:7 from a.c:1".into(),
            "libx.so+0x12".into(),
            "plain (libx.so+0x14)".into(),
        ];
        one.callers = vec!["main lu.c:12".into()];
        one.wrappers = vec!["team_wait team.h:9".into()];
        let two = site(1, "other", 7);
        let report = report(vec![one, two]);
        let me = report.sites[0].called();
        for text in [
            "lu.c:690",
            "src/lu.c:690",
            "690",
            "solve",
            "app::solve",
            "lu!solve",
            "lu!solve+0x1f",
            "app::solve+0x1f",
            "lu!0x4f2",
            "lu+0x4f2",
            "new.cc:7",
            "operator new(unsigned long)",
            "plain",
            "lu.c:12",
            "main",
            "team_wait",
            "team.h:9",
        ] {
            assert_eq!(called(&report, text), [me.as_str()], "{text}");
        }
        for text in [
            "lu.c:691",
            "solv",
            "libx!solve",
            "lu!0x4f3",
            "main+0x1f",
            "lu!0x0",
        ] {
            assert!(called(&report, text).is_empty(), "{text}");
        }
        assert_eq!(meant(&report, None).len(), 2);
    }

    #[test]
    fn a_name_is_that_of_a_site_or_of_a_phase() {
        let mut one = site(0, "solve", 690);
        one.name = Some("lu.c:7".into());
        let two = site(1, "other", 7);
        let report = report(vec![one, two]);
        assert_eq!(called(&report, "lu.c:7"), ["lu.c:7"]);
        assert_eq!(called(&report, "step"), ["step"]);
    }
}
