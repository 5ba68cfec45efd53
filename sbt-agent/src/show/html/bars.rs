//! Bars as SVG, which can be printed and need no inline styles. Each kind of time has a pattern
//! besides its colour.

use maud::{Markup, html};

/// The definitions of the patterns, written once per page.
pub fn patterns() -> Markup {
    html! {
        svg class="defs" width="0" height="0" aria-hidden="true" {
            defs {
                pattern id="p-idle" width="6" height="6" patternUnits="userSpaceOnUse" {
                    rect class="ground-idle" width="6" height="6" {}
                    path class="ink-idle" d="M-1 7 7 -1M-1 1 1 -1M5 7 7 5" {}
                }
                pattern id="p-ready" width="5" height="5" patternUnits="userSpaceOnUse" {
                    rect class="ground-ready" width="5" height="5" {}
                    circle class="ink-ready" cx="2.5" cy="2.5" r="1.2" {}
                }
                pattern id="p-blocked" width="6" height="6" patternUnits="userSpaceOnUse" {
                    rect class="ground-blocked" width="6" height="6" {}
                    path class="ink-blocked" d="M0 0 6 6M6 0 0 6" {}
                }
                pattern id="p-release" width="4" height="4" patternUnits="userSpaceOnUse" {
                    rect class="ground-release" width="4" height="4" {}
                    path class="ink-release" d="M2 0V4" {}
                }
            }
        }
    }
}

/// A bar of several parts, each with its kind and its share of the whole bar, from 0 to 1.
pub fn stacked(label: &str, parts: &[(&str, f64)]) -> Markup {
    let mut at = 0.0;
    let parts: Vec<(&str, f64, f64)> = parts
        .iter()
        .filter(|(_, share)| *share > 0.0)
        .map(|(kind, share)| {
            let from = at;
            at += share;
            (*kind, from, share.min(1.0 - from).max(0.0))
        })
        .collect();
    html! {
        svg class="bar" width="100%" height="16" role="img" aria-label=(label) {
            rect class="track" width="100%" height="16" rx="2" {}
            @for (kind, from, share) in parts {
                rect class=(format!("f-{kind}")) x=(share_of(from)) width=(share_of(share)) height="16" {}
            }
        }
    }
}

/// A bar of one part; the share ranges from 0 to 1.
pub fn single(label: &str, share: f64) -> Markup {
    stacked(label, &[("plain", share.clamp(0.0, 1.0))])
}

fn share_of(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// The legend of the patterns.
pub fn legend(kinds: &[(&str, &str)]) -> Markup {
    html! {
        ul class="legend" {
            @for (kind, words) in kinds {
                li {
                    svg width="22" height="14" aria-hidden="true" {
                        rect class=(format!("f-{kind} edge")) width="22" height="14" rx="2" {}
                    }
                    (words)
                }
            }
        }
    }
}
