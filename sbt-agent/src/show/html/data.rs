//! The timeline: the data from which the page's script draws it.

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::{TimelineSource, bars, count, section, strips::Strips, time};
use crate::show::{
    Episode,
    timeline::{Cell, MOST_THREADS, Timeline},
};
use sbt_engine::{place::printable, report::Report};

/// The characters that encode a share, from 0 to 1.
pub const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The section with the timeline.
pub fn timeline(report: &Report, told: &TimelineSource<'_>) -> Markup {
    let body = match told {
        TimelineSource::Nothing => html! {
            p class="note" {
                "There is no timeline, since this page was made from a report. A page from a \
                recording (" span class="mono" { "sbt run -o FILE" } ") \
                    has a timeline."
            }
        },
        TimelineSource::Statistics => html! {
            p class="note" {
                "There is no timeline, since the recording has statistics only. A recording \
                without " span class="mono" { "--stats-only" } ", or with " span class="mono" { "--keep SECONDS" } ", \
                    has the events for a timeline."
            }
        },
        TimelineSource::Timeline(_) if report.episodes == 0 => {
            html! { p { "There was no complete episode." } }
        }
        TimelineSource::Timeline(timeline) => drawn(report, timeline),
    };
    section("timeline", "Timeline", &body)
}

fn drawn(report: &Report, timeline: &Timeline) -> Markup {
    let kept = timeline.kept();
    let strips = Strips::new(report, timeline);
    let all = if timeline.columns.from_ns > 0 {
        "whole timeline"
    } else {
        "whole run"
    };
    html! {
        @if timeline.columns.from_ns > 0 {
            p class="note" {
                "The recording keeps only the end of the run: the timeline shows the last "
                (time(report.run.wall_ns.saturating_sub(timeline.columns.from_ns))) " of " (time(report.run.wall_ns))
                ". All other figures of this page cover the whole run."
            }
        }
        (bars::legend(&[
            ("work", "work"),
            ("ready", "ready, no CPU"),
            ("blocked", "blocked"),
            ("release", "release"),
            ("idle", "idle"),
            ("none", "unknown, or between parallel regions"),
        ]))
        noscript { p class="note" { "A script draws the timeline, and your browser runs no \
            scripts. The rest of this page needs none." } }
        div id="tl" hidden {
            div class="tools" role="toolbar" aria-label="timeline" {
                button type="button" data-act="in" aria-label="zoom in" { "+" }
                button type="button" data-act="out" aria-label="zoom out" { "−" }
                button type="button" data-act="left" aria-label="earlier" { "◀" }
                button type="button" data-act="right" aria-label="later" { "▶" }
                button type="button" data-act="all" { (all) }
                button type="button" data-act="worst" { "worst episode" }
                button type="button" data-act="last" { "last episode" }
                (strips.choice())
                output id="tl-range" {}
            }
            div id="tl-box" {
                canvas id="tl-canvas" tabindex="0" role="img" aria-label="What each thread did \
                    over the run. Keys: plus and minus zoom, arrows move, 0 shows the whole \
                    timeline." {}
                div id="tl-tip" role="status" hidden {}
            }
        }
        p class="hint" {
            "Each column is stacked by share of time: work at the bottom, idle on top. Drag to \
            move; zoom with Ctrl or ⌘ and the wheel, or with + and −; the arrows move, too. The \
            shortest piece is "
            (time(timeline.columns.step_ns)) " long; " (count(kept.len() as u64)) " episodes are \
                shown in full detail: the last episodes, and those that lost most time."
            @if report.threads.len() > MOST_THREADS {
                " The first " (MOST_THREADS) " of " (report.threads.len()) " threads are drawn."
            }
        }
        (strips.hint())
        script type="application/json" id="tl-data" { (PreEscaped(embedded(&data(report, timeline, &kept, &strips)))) }
    }
}

/// JSON for a script element: it cannot contain the element's end tag.
fn embedded(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

fn data(report: &Report, timeline: &Timeline, kept: &[&Episode], strips: &Strips<'_>) -> Value {
    let threads: Vec<Value> = report
        .threads
        .iter()
        .zip(&timeline.lanes)
        .map(|(thread, lane)| {
            json!({
                "label": printable(&thread.label),
                "name": printable(&thread.name),
                "cells": cells(lane, timeline.columns.step_ns as f64),
            })
        })
        .collect();
    let sites = report.sites.iter();
    let sites: serde_json::Map<String, Value> = sites
        .map(|site| (site.id.to_string(), site.called().into()))
        .collect();
    json!({
        "from": timeline.columns.from_ns,
        "wall": report.run.wall_ns,
        "step": timeline.columns.step_ns,
        "threads": threads,
        "sites": sites,
        "counters": strips.data(),
        "episodes": kept.iter().map(|kept| episode(kept)).collect::<Vec<_>>(),
    })
}

/// Five characters for each piece of time: the shares of work, ready, blocked, release and idle.
/// Rounding errors are carried over to the next piece, so that they do not accumulate.
fn cells(lane: &[Cell], step_ns: f64) -> String {
    let mut carried = [0.0; 5];
    let mut out = String::with_capacity(lane.len() * carried.len());
    for cell in lane {
        let of = [cell.work, cell.ready, cell.blocked, cell.release, cell.idle];
        for (ns, carried) in of.into_iter().zip(&mut carried) {
            let share = ns / step_ns * 63.0 + *carried;
            let nearest = share.round().clamp(0.0, 63.0);
            *carried = (share - nearest).clamp(-0.5, 0.5);
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "from 0 to 63"
            )]
            out.push(char::from(DIGITS[nearest as usize]));
        }
    }
    out
}

/// An episode: its site, index and last arrival, then for each participant its arrival, the work
/// before and the release; null if unknown.
fn episode(it: &Episode) -> Value {
    let own = it.seen.iter().filter(|seen| !seen.is_shared);
    let seen: Vec<Value> = own
        .filter(|seen| (seen.thread as usize) < MOST_THREADS)
        .map(|seen| json!([seen.thread, seen.arrived_ns, seen.work_ns, seen.release_ns]))
        .collect();
    json!([
        it.site,
        it.index,
        it.first_ns,
        it.last_ns,
        it.lost_ns(),
        seen
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_characters() {
        let lane = [
            Cell {
                work: 10.0,
                ..Cell::default()
            },
            Cell {
                idle: 0.2,
                release: 5.0,
                ..Cell::default()
            },
        ];
        assert_eq!(cells(&lane, 10.0), "_AAAAAAAgB");
    }

    #[test]
    fn small_shares_do_not_add_up_to_more_than_there_was() {
        let cell = Cell {
            work: 9.0,
            ready: 0.04,
            blocked: 0.11,
            release: 0.15,
            idle: 0.7,
        };
        let lane = vec![cell; 8192];
        let text = cells(&lane, 10.0);
        let digit = |c: u8| DIGITS.iter().position(|digit| *digit == c).unwrap() as f64;
        for (kind, expected) in [9.0, 0.04, 0.11, 0.15, 0.7].into_iter().enumerate() {
            let digits = text.bytes().skip(kind).step_by(5).map(digit);
            let sum = digits.sum::<f64>() * 10.0 / 63.0;
            let difference = (sum - expected * 8192.0).abs();
            assert!(difference < 0.1, "{kind}: {sum}");
        }
    }

    #[test]
    fn no_text_ends_the_script() {
        let value = json!({"a": "</script><!--<script>", "b<c": 1});
        let text = embedded(&value);
        assert!(!text.contains('<'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
