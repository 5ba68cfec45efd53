//! Counters beside the timeline: the choice of a counter, and the data from which the page's script
//! draws it.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{count, data::DIGITS};
use crate::show::{
    counted::{Amount, Counted, Counter},
    timeline::Timeline,
};
use sbt_engine::{
    place::printable,
    report::{Report, counters::CounterReport},
};

/// Encoding of the greatest amount; other amounts are encoded in proportion.
const MOST: f64 = 65_535.0;

/// The counters with known counts in the time of the timeline.
pub struct Strips<'a> {
    all: Vec<(&'a CounterReport, &'a Counter)>,
    counted: Option<&'a Counted>,
}

impl<'a> Strips<'a> {
    /// The counters of a report and its timeline.
    pub fn new(report: &'a Report, timeline: &'a Timeline) -> Self {
        let counted = timeline.counted.as_ref();
        let counters = counted.map_or(&[][..], |counted| &counted.counters);
        let known = |counter: &Counter| counter.all.iter().any(|amount| amount.is_counted);
        let all = report.counters.iter().zip(counters);
        Self {
            all: all.filter(|(_, counter)| known(counter)).collect(),
            counted,
        }
    }

    /// Whether there are no such counters.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The control for choosing a counter.
    pub fn choice(&self) -> Markup {
        html! {
            @if !self.is_empty() {
                label for="tl-counter" { "counter" }
                select id="tl-counter" {
                    @for (at, (counter, _)) in self.all.iter().enumerate() {
                        option value=(at) { (counter.title()) }
                    }
                    option value="" { "none" }
                }
            }
        }
    }

    /// A hint on how to read the strips.
    pub fn hint(&self) -> Markup {
        html! {
            @if !self.is_empty() {
                p class="hint" {
                    "Below the threads: how fast the chosen counter grew in the work of all \
                     threads together; below each thread: in the work of this thread. All threads \
                     have the same scale. "
                    "Counts are spread evenly over the work; the time in which a thread waits has \
                     no counts. Hatched: for some work the count or its time is unknown, and the \
                     true value may be higher. "
                    "The key c chooses the next counter."
                    @for (counter, counted) in &self.all {
                        @if counted.untimed > 0 {
                            " Of " (counter.name) " " (count(counted.untimed)) " more were counted \
                                at an unknown time."
                        }
                    }
                }
            }
        }
    }

    /// For each counter its name, its unit, and the amounts of all threads together and of each
    /// thread.
    pub fn data(&self) -> Value {
        let Some(counted) = self.counted else {
            return json!([]);
        };
        let counters = self.all.iter().map(|(counter, found)| {
            let each = counted.each.map(|each| {
                let lanes: Vec<&[Amount]> = found.threads.iter().map(Vec::as_slice).collect();
                strip(each.step_ns, &lanes)
            });
            json!({
                "name": printable(&counter.title()),
                "unit": counter.unit,
                "all": strip(counted.all.step_ns, &[&found.all]),
                "each": each,
            })
        });
        counters.collect()
    }
}

/// Amounts in equal pieces of time: the length of a piece, the amount that 1 stands for, and the
/// lanes.
fn strip(step_ns: u64, lanes: &[&[Amount]]) -> Value {
    let sums = lanes
        .iter()
        .flat_map(|lane| lane.iter())
        .map(|amount| amount.sum);
    let most = sums.fold(0.0, f64::max);
    let scale = if most > 0.0 { most / MOST } else { 1.0 };
    let cells: Vec<String> = lanes.iter().map(|lane| amounts(lane, scale)).collect();
    json!({"step": step_ns, "scale": scale, "cells": cells})
}

/// Three characters of 6 bits each for a piece of time. 16 bits encode the amount, one bit says
/// whether some of it is known, and one whether some of it is unknown. Rounding errors are carried
/// over to the next piece with a known amount.
fn amounts(lane: &[Amount], scale: f64) -> String {
    let mut carried = 0.0;
    let mut out = String::with_capacity(lane.len() * 3);
    for amount in lane {
        let mut nearest = 0.0;
        if amount.sum > 0.0 {
            let exact = amount.sum / scale + carried;
            nearest = exact.round().clamp(0.0, MOST);
            carried = (exact - nearest).clamp(-0.5, 0.5);
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to 65535"
        )]
        let level = nearest as usize;
        let flags = usize::from(amount.is_counted) << 1 | usize::from(amount.is_partial);
        let code = level << 2 | flags;
        for shift in [12, 6, 0] {
            out.push(char::from(DIGITS[code >> shift & 63]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(sum: f64) -> Amount {
        Amount {
            sum,
            is_counted: true,
            is_partial: false,
        }
    }

    fn read(text: &str) -> Vec<(usize, usize)> {
        let digit = |c: &u8| DIGITS.iter().position(|other| other == c).unwrap();
        let codes = text.as_bytes().chunks(3);
        let codes = codes.map(|all| all.iter().fold(0, |code, c| code << 6 | digit(c)));
        codes.map(|code| (code >> 2, code & 3)).collect()
    }

    #[test]
    fn an_unknown_amount_differs_from_none() {
        let unknown = Amount {
            is_partial: true,
            ..Amount::default()
        };
        let lane = [amount(0.0), unknown, Amount::default(), amount(7.0)];
        assert_eq!(
            read(&amounts(&lane, 7.0 / MOST)),
            [(0, 2), (0, 1), (0, 0), (65_535, 2)]
        );
    }

    #[test]
    fn small_amounts_do_not_add_up_to_another_sum() {
        let lane: Vec<Amount> = (0..8192)
            .map(|at| amount([0.3, 0.0, 1e-6][at % 3]))
            .chain([amount(1_000.0)])
            .collect();
        let scale = 1_000.0 / MOST;
        let sum: usize = read(&amounts(&lane, scale)).iter().map(|one| one.0).sum();
        let expected: f64 = lane.iter().map(|amount| amount.sum).sum();
        assert!((sum as f64 * scale - expected).abs() < scale);
    }
}
