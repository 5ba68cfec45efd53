//! Where threads slept or span in their work.

use maud::{Markup, html};

use super::{MOST_ROWS, Times, further, percent, scrolling, section, td_count, td_percent, th};
use crate::show::text::waits::{by, named, shown_places};
use sbt_engine::{
    report::{
        Report, WaitKind,
        waits::{HolderReport, PairReport, WaitPlaceReport, WaitThreadReport, WakerReport},
    },
    total::total,
};

/// The most threads that are named at a place.
const NAMED: usize = 8;

/// The section about places where threads waited; empty if none was seen.
pub fn waits(report: &Report) -> Markup {
    let Some(looks) = &report.waits else {
        return html! {};
    };
    let mut places: Vec<WaitPlaceReport> =
        shown_places(report, looks).into_iter().cloned().collect();
    places.sort_by(|one, other| other.share_pct.total_cmp(&one.share_pct));
    if places.is_empty() {
        return html! {};
    }
    let has_sums = places.iter().any(|place| place.slept_ns.is_some());
    let slept = Times::<WaitPlaceReport>::new("waited", &places, |place| place.slept_ns);
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "waited for" }
                    th scope="col" class="n" aria-sort="descending" { "of thread time" }
                    @if has_sums { (slept.th(false)) (th("times")) }
                    th scope="col" { "threads, each with the part of its own time" }
                    th scope="col" { "held, or woken, by" }
                }
            }
            tbody {
                @for place in places.iter().take(MOST_ROWS) {
                    tr {
                        th scope="row" class="site" { (named(place)) }
                        (td_percent(Some(place.share_pct)))
                        @if has_sums {
                            (slept.td(place))
                            @match place.sleeps {
                                Some(times) => (td_count(times)),
                                None => (super::td("?", None)),
                            }
                        }
                        td { (threads(&place.threads)) }
                        td { (by_others(place)) }
                    }
                }
            }
        }
    };
    let body = html! {
        p class="hint" { "By " (by(looks)) ". Waiting at barriers is not among them." }
        (scrolling("Waits", &table))
        (further(places.len(), "places"))
        (pairs(&looks.pairs))
    };
    section("waits", "Waits", &body)
}

fn threads(all: &[WaitThreadReport]) -> String {
    let name = |thread: &WaitThreadReport| share(&thread.label, thread.share_pct);
    listed(all, name)
}

/// Who waits for whom; empty if that is not known.
fn pairs(all: &[PairReport]) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    let slept = Times::<PairReport>::new("waited", all, |pair| Some(pair.slept_ns));
    let table = html! {
        table class="sortable" {
            thead {
                tr {
                    th scope="col" { "thread" }
                    th scope="col" { "waits until woken by" }
                    (slept.th(true))
                    (th("of its time"))
                    th scope="col" { "mostly for" }
                }
            }
            tbody {
                @for pair in all.iter().take(MOST_ROWS) {
                    tr {
                        th scope="row" { (pair.waiter) }
                        td { (pair.waker) }
                        (slept.td(pair))
                        (td_percent(Some(pair.share_pct)))
                        td { (pair.at) }
                    }
                }
            }
        }
    };
    html! {
        h3 { "Who waits for whom" }
        (scrolling("Who waits for whom", &table))
        (further(all.len(), "pairs"))
    }
}

/// The threads that held the lock, or woke those that slept; "?" if too little is known of holders.
fn by_others(place: &WaitPlaceReport) -> String {
    if !place.knows_holders() {
        let may_be_known = matches!(place.kind, WaitKind::Mutex | WaitKind::RwLock);
        return if may_be_known {
            "?".into()
        } else {
            wakers(place)
        };
    }
    let name = |holder: &HolderReport| share(&holder.label, holder.share_pct);
    listed(&place.holders, name)
}

/// Each thread that woke others, with its part of the time that they slept until woken by threads that
/// are known.
fn wakers(place: &WaitPlaceReport) -> String {
    let all = total(place.wakers.iter().map(|waker| waker.woken_ns)).max(1);
    let name =
        |waker: &WakerReport| share(&waker.label, waker.woken_ns as f64 / all as f64 * 100.0);
    listed(&place.wakers, name)
}

fn share(label: &str, share_pct: f64) -> String {
    format!("{label}\u{a0}{}", percent(Some(share_pct)))
}

fn listed<T>(all: &[T], name: impl Fn(&T) -> String) -> String {
    let mut names: Vec<String> = all.iter().take(NAMED).map(name).collect();
    if all.len() > NAMED {
        names.push(format!("{} more", all.len() - NAMED));
    }
    names.join(", ")
}
