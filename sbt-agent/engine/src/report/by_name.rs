//! Barriers that are seen better if their function is watched.

use std::collections::HashMap;

use super::{BarrierKind, Report};

/// Fewer places than this that call one function are no evidence that the function is the barrier.
const CALLERS: usize = 2;

/// The option to add ` (--barrier NAME ...)` for a barrier that the program made itself and whose
/// episodes were not seen as a whole. Empty if there is no such barrier, or if its function is not
/// known for certain: a function with a barrier in it that several places call.
pub fn hint(report: &Report) -> String {
    let mut callers: HashMap<(&str, Option<u32>), (usize, u64)> = HashMap::new();
    let made = |kind| matches!(kind, BarrierKind::Condvar | BarrierKind::Futex);
    for site in report.sites.iter().filter(|site| made(site.kind)) {
        if let Some(function) = site.function.as_deref()
            && !site.callers.is_empty()
        {
            let of = callers.entry((function, site.line)).or_default();
            of.0 += 1;
            of.1 += site.incomplete;
        }
    }
    let several = callers
        .into_iter()
        .filter(|(_, (sites, _))| *sites >= CALLERS);
    let worst = several.max_by_key(|((function, _), (_, incomplete))| (*incomplete, *function));
    match worst {
        Some(((function, _), (_, incomplete))) if incomplete > 0 && is_plain(function) => format!(
            "; threads that spin before they sleep may pass unseen, unless you name the function: \
             --barrier {function}"
        ),
        _ => String::new(),
    }
}

/// Whether a name can be typed as it is.
fn is_plain(name: &str) -> bool {
    name.chars()
        .all(|letter| letter.is_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_function_that_several_places_call_is_named() {
        let mut report = samples::imbalanced().report;
        assert_eq!(hint(&report), "");
        let mut site = report.sites[0].clone();
        site.kind = BarrierKind::Condvar;
        site.function = Some("barrier_wait".into());
        site.line = Some(30);
        site.callers = vec!["step a.c:9".into()];
        site.incomplete = 7;
        report.sites = vec![site.clone()];
        assert_eq!(hint(&report), "");
        report.sites.push(site);
        assert!(hint(&report).ends_with("name the function: --barrier barrier_wait"));
        for site in &mut report.sites {
            site.incomplete = 0;
        }
        assert_eq!(hint(&report), "");
    }
}
