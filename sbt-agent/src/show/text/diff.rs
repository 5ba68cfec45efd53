//! Two runs side by side as text: the output of `sbt diff`.

use super::{
    MOST_ROWS, NO_BREAK, Table, line, paragraph,
    phases::{arrow, title},
    rest,
    verdicts::{marked, sentence},
    wrapped,
};
use crate::show::table::{Style, UNKNOWN, Unit, count, duration, ratio};
use sbt_engine::compare::{
    Change, Comparison, PhaseChange, Shares, SiteChange, Slower, Unmatched, UnmatchedKind,
};

mod counters;

/// Maximum number of sites and phases that get a sentence.
const MOST_SENTENCES: usize = 5;

/// The output of `sbt diff`. `tolerance_pct` is the tolerated slowdown in percent, if the user gave
/// one.
pub fn diff(all: &Comparison, tolerance_pct: Option<f64>, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, all, style);
    line(&mut out, "");
    sentences(&mut out, all, tolerance_pct, style);
    if !all.sites.is_empty() {
        title(
            &mut out,
            "PHASE TIME by site, mean; largest increase first",
            style,
        );
        let rows = all.sites.iter().map(|site| Row::site(site, style));
        times(&mut out, "site", rows.collect(), style);
        waiting(&mut out, &all.sites, style);
    }
    counters::counters(&mut out, all, style);
    let several = all.phases.iter().any(|phase| {
        let same = |other: &&PhaseChange| other.after.to == phase.after.to;
        all.phases
            .iter()
            .filter(same)
            .filter(|phase| phase.from.is_some())
            .count()
            > 1
    });
    if several {
        title(&mut out, "PHASES, from barrier to barrier, mean", style);
        let rows = all.phases.iter().map(|phase| Row::phase(phase, style));
        times(&mut out, "phase", rows.collect(), style);
    }
    alone(&mut out, "ONLY BEFORE", &all.only_before, style);
    alone(&mut out, "ONLY AFTER", &all.only_after, style);
    line(&mut out, "");
    for note in &all.notes {
        paragraph(&mut out, &sentence(&format!("note: {note}"), style), style);
    }
    paragraph(&mut out, all.method, style);
    out
}

fn head(out: &mut String, all: &Comparison, style: Style) {
    let dot = if style.unicode { '·' } else { '|' };
    let command = sbt_engine::words::command_line(&all.after.command);
    let text = sentence(&format!("sbt diff {dot} {command}"), style);
    for part in wrapped(&text, style.width) {
        line(out, &style.bold(&part));
    }
    let wall = &all.wall_ns;
    let text = format!(
        "wall time {} ({}); one value per run, so the noise is unknown",
        pair(wall, style),
        change(wall),
    );
    paragraph_plain(out, &text, style);
    let it = &all.efficiency;
    let shares = [
        ("efficiency", it.parallel),
        ("balance", it.load_balance),
        ("serial", it.serialisation),
        ("transfer", it.transfer),
    ];
    let known = |(_, shares): &(&str, Shares)| shares.before.is_some() || shares.after.is_some();
    let written = |(name, shares): (&str, Shares)| {
        let (before, after) = (ratio(shares.before), ratio(shares.after));
        format!("{name} {before} {} {after}", arrow(style)).replace(' ', NO_BREAK)
    };
    let parts: Vec<String> = shares.into_iter().filter(known).map(written).collect();
    if !parts.is_empty() {
        paragraph_plain(out, &parts.join(", "), style);
    }
}

fn paragraph_plain(out: &mut String, text: &str, style: Style) {
    for part in wrapped(text, style.width) {
        line(out, &part);
    }
}

/// The list of what became slower, or the statement that nothing did.
fn sentences(out: &mut String, all: &Comparison, tolerance_pct: Option<f64>, style: Style) {
    let slower = all.slower_by(tolerance_pct.unwrap_or(0.0));
    let is_told = |to: &str| {
        slower
            .iter()
            .any(|other| matches!(other, Slower::Site(name, _) if *name == to))
    };
    let mut texts: Vec<String> = Vec::new();
    for it in &slower {
        let (name, change) = match it {
            // Without a tolerance a slower run cannot be distinguished from noise.
            Slower::Whole(_) if tolerance_pct.is_none() => continue,
            Slower::Whole(wall) => ("the whole run".into(), *wall),
            Slower::Site(name, change) => ((*name).to_owned(), *change),
            // The table of phases shows from which site.
            Slower::Phase(_, to, _) if is_told(to) => continue,
            Slower::Phase(from, to, change) => (phase_name(*from, to, style), *change),
        };
        texts.push(format!(
            "slower: {name}: {} ({})",
            pair(change, style),
            self::change(change)
        ));
    }
    let more = texts.len().saturating_sub(MOST_SENTENCES);
    texts.truncate(MOST_SENTENCES);
    if more > 0 {
        texts.push(format!("slower: {more} more, see below"));
    }
    if texts.is_empty() {
        let some = all
            .sites
            .iter()
            .any(|site| site.phase_ns.beyond_noise.is_some());
        texts.push(match tolerance_pct {
            Some(pct) => format!("nothing is slower by more than {pct} % and beyond the noise"),
            None if some => "no site is slower beyond the noise".into(),
            None => "too few episodes of common sites to tell what is slower".into(),
        });
    }
    texts.extend(waits(all, style).take(MOST_SENTENCES));
    let faster = all.sites.iter().filter(|site| {
        let phase = &site.phase_ns;
        phase.beyond_noise == Some(true) && phase.change_pct.is_some_and(|pct| pct < 0.0)
    });
    // The greatest gains stand last.
    for site in faster.rev().take(MOST_SENTENCES) {
        let phase = &site.phase_ns;
        texts.push(format!(
            "faster: {}: {} ({})",
            site.name,
            pair(phase, style),
            change(phase)
        ));
    }
    for text in texts {
        marked(out, &text, |at| at == 0, style);
    }
}

/// The sites at which threads wait for each other longer than before, although the phases before them take
/// no longer.
fn waits(all: &Comparison, style: Style) -> impl Iterator<Item = String> {
    /// Part of the phase from which a longer wait is told.
    const LEAST: f64 = 0.01;
    let longer = |site: &&SiteChange| {
        let grown = |of: &Change| {
            let grown = of.before.zip(of.after);
            grown.map_or(0, |(before, after)| after.saturating_sub(before)) as f64
        };
        let is_longer = |of: &Change| of.beyond_noise == Some(true) && grown(of) > 0.0;
        let phase_ns = site.phase_ns.after.unwrap_or(0) as f64;
        is_longer(&site.barrier_ns)
            && !is_longer(&site.phase_ns)
            && grown(&site.barrier_ns) >= LEAST * phase_ns
    };
    all.sites.iter().filter(longer).map(move |site| {
        let (name, wait) = (&site.name, &site.barrier_ns);
        let times = pair(wait, style);
        let change = change(wait);
        format!("waits longer: {name}: {times} from first to last arrival ({change})")
    })
}

fn phase_name(from: Option<&str>, to: &str, style: Style) -> String {
    format!("{} {} {to}", from.unwrap_or("start"), arrow(style))
}

/// A row of the table of phase times.
struct Row {
    name: String,
    phase: Change,
    episodes: Change,
    cost_ns: Option<i64>,
}

impl Row {
    fn site(site: &SiteChange, style: Style) -> Self {
        // If lines moved, both names are given, to match the source before and after.
        let name = if site.name == site.name_before {
            site.name.clone()
        } else {
            format!("{} (was {})", site.name, site.name_before)
        };
        Self {
            name: sentence(&name, style),
            phase: site.phase_ns,
            episodes: site.episodes,
            cost_ns: site.cost_ns,
        }
    }

    fn phase(phase: &PhaseChange, style: Style) -> Self {
        Self {
            name: sentence(&phase_name(phase.from.as_deref(), &phase.to, style), style),
            phase: phase.phase_ns,
            episodes: phase.episodes,
            cost_ns: phase.cost_ns,
        }
    }
}

fn times(out: &mut String, what: &str, rows: Vec<Row>, style: Style) {
    let all = rows.len();
    let rows: Vec<Row> = rows.into_iter().take(MOST_ROWS).collect();
    let noise = |row: &Row| match row.phase.beyond_noise {
        Some(true) => "beyond",
        Some(false) => "within",
        None => UNKNOWN,
    };
    let episodes = |row: &Row| match (row.episodes.before, row.episodes.after) {
        (Some(before), Some(after)) if before == after => count(after),
        (before, after) => {
            let one = |value: Option<u64>| value.map_or_else(|| UNKNOWN.into(), count);
            format!("{}{}{}", one(before), arrow(style), one(after))
        }
    };
    let cost = |row: &Row| {
        row.cost_ns.map_or_else(
            || UNKNOWN.into(),
            |ns| {
                format!(
                    "{}{}",
                    sign(ns as f64),
                    duration(Some(ns.unsigned_abs()), style)
                )
            },
        )
    };
    let mut table = Table::default();
    table.column(what, rows.iter().map(|row| row.name.clone()).collect());
    both(
        &mut table,
        &rows.iter().map(|row| row.phase).collect::<Vec<_>>(),
        "",
        style,
    );
    table
        .column(
            "change",
            rows.iter().map(|row| change(&row.phase)).collect(),
        )
        .column(
            "noise",
            rows.iter().map(|row| noise(row).to_owned()).collect(),
        )
        .column("in all", rows.iter().map(cost).collect())
        .column("episodes", rows.iter().map(episodes).collect());
    table.write(out, style, style.width.saturating_sub(62).max(16));
    rest(out, all, what, style);
}

fn waiting(out: &mut String, sites: &[SiteChange], style: Style) {
    title(
        out,
        "WAITING, before and after (barrier: mean from first to last arrival)",
        style,
    );
    let sites: Vec<&SiteChange> = sites.iter().take(MOST_ROWS).collect();
    let mut table = Table::default();
    let names = sites.iter().map(|site| sentence(&site.name, style));
    table.column("site", names.collect());
    let column =
        |f: fn(&SiteChange) -> Change| sites.iter().map(|site| f(site)).collect::<Vec<_>>();
    both(
        &mut table,
        &column(|site| site.barrier_ns),
        "barrier",
        style,
    );
    both(&mut table, &column(|site| site.lost_ns), "lost", style);
    let imbalance = |site: &&SiteChange| {
        let one = |share: Option<f64>| {
            share.map_or_else(|| UNKNOWN.into(), |share| format!("{share:.0}"))
        };
        let Shares { before, after } = site.imbalance_pct;
        format!("{}{}{} %", one(before), arrow(style), one(after))
    };
    table.column("imbalance", sites.iter().map(imbalance).collect());
    table.write(out, style, style.width.saturating_sub(60).max(16));
}

/// Two columns with the same unit.
fn both(table: &mut Table, changes: &[Change], what: &str, style: Style) {
    let values = changes
        .iter()
        .flat_map(|change| [change.before, change.after]);
    let unit = Unit::fitting(values);
    let label = unit.label(style);
    let [first, second] = match what {
        "" => [format!("before {label}"), format!("after {label}")],
        _ => [format!("{what} {label}"), "after".into()],
    };
    let cells = |f: fn(&Change) -> Option<u64>| {
        changes.iter().map(|change| unit.write(f(change))).collect()
    };
    table
        .column(first, cells(|change| change.before))
        .column(second, cells(|change| change.after));
}

fn alone(out: &mut String, heading: &str, all: &[Unmatched], style: Style) {
    // Phases that end at such a site exist in one run only as well.
    let sites: Vec<&Unmatched> = all
        .iter()
        .filter(|alone| alone.what == UnmatchedKind::Site)
        .collect();
    if sites.is_empty() {
        return;
    }
    title(out, heading, style);
    for site in sites.iter().take(MOST_ROWS) {
        let text = format!(
            "{}: {}, {} a phase",
            site.name,
            super::plural(site.episodes, "episode"),
            duration(site.phase_ns, style)
        );
        line(out, &sentence(&text, style));
    }
    rest(out, sites.len(), "site", style);
}

fn pair(it: &Change, style: Style) -> String {
    let [before, after] = [it.before, it.after].map(|ns| duration(ns, style));
    format!("{before} {} {after}", arrow(style))
}

fn sign(value: f64) -> &'static str {
    match value {
        0.0.. => "+",
        _ => "-",
    }
}

/// A change in percent: `+12.3 %`.
fn change(it: &Change) -> String {
    let Some(pct) = it.change_pct else {
        return UNKNOWN.into();
    };
    change_of(pct)
}

fn change_of(pct: f64) -> String {
    let decimals = usize::from(pct.abs() < 99.95);
    format!("{}{:.decimals$} %", sign(pct), pct.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sbt_engine::{
        compare::compare,
        report::{Report, StatReport},
        samples,
    };

    const PLAIN: Style = Style {
        width: 80,
        color: false,
        unicode: true,
    };

    fn run() -> Report {
        let mut report = samples::calm().report;
        report.run.ended = true;
        report
    }

    fn slower() -> Report {
        let mut report = run();
        for site in report
            .sites
            .iter_mut()
            .filter(|site| site.line == Some(690))
        {
            let longer = |stat: &mut StatReport| stat.mean = stat.mean * 3 / 2;
            site.phase_ns.iter_mut().for_each(longer);
        }
        report
    }

    #[test]
    fn what_is_slower_stands_first_and_lines_fit() {
        let text = diff(&compare(&run(), &slower()), None, PLAIN);
        assert!(
            text.contains("▶ slower: factor_diagonal lu.c:690: "),
            "{text}"
        );
        assert!(text.contains("+50.0 %"), "{text}");
        let row = text
            .lines()
            .find(|line| line.starts_with("factor_diagonal") || line.contains("beyond"));
        assert!(row.is_some(), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}\n{text}");
        }
    }

    #[test]
    fn nothing_is_said_where_nothing_is_slower() {
        let text = diff(&compare(&run(), &run()), None, PLAIN);
        assert!(
            text.contains("no site is slower beyond the noise"),
            "{text}"
        );
        assert!(!text.contains("slower: "), "{text}");
        let text = diff(&compare(&slower(), &run()), Some(5.0), PLAIN);
        assert!(
            text.contains("nothing is slower by more than 5 %"),
            "{text}"
        );
        assert!(
            text.contains("▶ faster: factor_diagonal lu.c:690: "),
            "{text}"
        );
    }

    #[test]
    fn a_longer_wait_in_a_phase_as_long_as_before_is_told() {
        let mut waiting = run();
        for site in &mut waiting.sites {
            let longer = |stat: &mut StatReport| stat.mean = stat.mean * 5 / 2;
            site.barrier_ns.iter_mut().for_each(longer);
        }
        let text = diff(&compare(&run(), &waiting), None, PLAIN);
        assert!(text.contains("▶ no site is slower"), "{text}");
        assert!(
            text.contains("▶ waits longer: factor_diagonal lu.c:690: "),
            "{text}"
        );
        let text = diff(&compare(&waiting, &run()), None, PLAIN);
        assert!(!text.contains("waits longer"), "{text}");
    }

    #[test]
    fn plain_terminals_get_ascii_and_names_drive_nothing() {
        let mut hostile = slower();
        hostile.run.command.push("\u{1b}]0;x\u{7}".into());
        hostile.sites[0].name = Some("\u{1b}[2Jevil\nname".into());
        let ascii = Style {
            unicode: false,
            ..PLAIN
        };
        let text = diff(&compare(&run(), &hostile), None, ascii);
        assert!(text.is_ascii(), "{text}");
        assert!(
            !text.replace('\n', "").contains(char::is_control),
            "{text:?}"
        );
        assert!(text.contains("?[2Jevil?name"), "{text}");
    }

    #[test]
    fn what_only_one_run_has_is_listed() {
        let mut before = run();
        before.sites.retain(|site| site.line != Some(715));
        let text = diff(&compare(&before, &run()), None, PLAIN);
        assert!(text.contains("ONLY AFTER"), "{text}");
        assert!(
            text.contains("update_rows lu.c:715: 1024 episodes"),
            "{text}"
        );
        assert!(!text.contains("ONLY BEFORE"), "{text}");
    }
}
