//! Reports to judge in tests.

use crate::{
    report::{Report, SiteReport},
    screen::samples::imbalanced,
};

/// A site with this number, in a function at a line of `lu.c`.
pub fn site(id: u32, function: &str, line: u32) -> SiteReport {
    SiteReport {
        id,
        function: Some(function.into()),
        line: Some(line),
        places: vec![format!("{function} lu.c:{line}")],
        callers: Vec::new(),
        ..report(Vec::new()).sites[0].clone()
    }
}

/// A program of four threads that has ended well, with these sites or, if there are none,
/// those of its own; its phase from barrier to barrier is called `step`.
pub fn report(sites: Vec<SiteReport>) -> Report {
    let mut report = imbalanced().report;
    report.ended = true;
    report.exit_status = Some(0);
    report.own_cost.events = 10_000;
    for phase in &mut report.conceptual_phases {
        phase.name = "step".into();
    }
    if !sites.is_empty() {
        report.sites = sites;
    }
    report
}
