//! Reads the fault of each study from the reports, or fails if it is not there.

use anyhow::{Result, ensure};

use super::series::{Pair, Series};

/// The thread with one more tile comes last.
pub fn matmul(pair: &Pair) -> Result<String> {
    let (run, site) = (&pair.fault, "multiply");
    let share = run.last_pct(site, 0)?;
    ensure!(share > 75.0, "T0 is last at {site} in {share:.0} % only");
    Ok(format!(
        "`multiply` holds {:.0} % of the time. T0 comes last there in {share:.0} % of all episodes, \
         {:.1} ms behind the next on average, with {:.0} ms of work against the {:.0} ms of T1. \
         The imbalance is {:.0} %; perfect balance would save {:.0} ms. The rows of `fill_operands` \
         are dealt out in the same way, but all that is lost there is {:.0} ms: not worth a thought.",
        run.phase_pct(&[site]),
        run.lead_ms(site)?,
        run.work_ms(site, 0)?,
        run.work_ms(site, 1)?,
        run.imbalance(site)?,
        run.gain_at_ms(site)?,
        run.lost_at_ms("fill_operands")?,
    ))
}

/// CPU time shows the same thread; without tiles the times are even.
pub fn matmul_pattern(pair: &Pair) -> Result<String> {
    let before = running(&pair.fault, "multiply", pair.threads)?;
    let after = running(&pair.fix, "multiply", pair.threads)?;
    let times = before[0] / before[1];
    ensure!(times > 1.5, "T0 has only {times:.2} times the work of T1");
    even(&after, 1.25)?;
    Ok(format!(
        "Of five tiles T0 gets two and the others one each: it uses {times:.1} times the CPU time \
         of T1."
    ))
}

/// The waiting that remains without tiles.
pub fn matmul_healthy(pair: &Pair) -> Result<String> {
    let (run, site) = (&pair.fix, "multiply");
    let imbalance = run.imbalance(site)?;
    ensure!(imbalance < 20.0, "the imbalance is still {imbalance:.0} %");
    Ok(format!(
        "That is what a healthy program looks like. Somebody is always last, and sbt says who; but \
         it comes last by {:.1} ms and not by {:.1} ms, and the imbalance is {imbalance:.0} %.",
        run.lead_ms(site)?,
        pair.fault.lead_ms(site)?,
    ))
}

/// The last rows have the most work, so the first threads wait.
pub fn lu(pair: &Pair) -> Result<String> {
    let (run, site, last) = (&pair.fault, "update_rows", pair.threads - 1);
    let share = run.last_pct(site, last)?;
    ensure!(
        share > 60.0,
        "T{last} is last at {site} in {share:.0} % only"
    );
    let (first, idle) = (run.idle_ms(site, 0)?, run.idle_ms(site, last)?);
    ensure!(
        first > 2.0 * idle,
        "T0 waits {first:.0} ms, T{last} {idle:.0}"
    );
    Ok(format!(
        "At `update_rows` T{last} comes last in {share:.0} % of all episodes. The idle times show \
         why: T0 has waited for {first:.0} ms and T{last} for {idle:.0} ms. T0 has the rows that are \
         finished first; from the middle of the run on, the first half of the threads has no rows \
         left and nothing to do but wait. The imbalance is {:.0} %; perfect balance would save \
         {:.0} ms.",
        run.imbalance(site)?,
        run.gain_at_ms(site)?,
    ))
}

/// CPU time shows the same order; dealt round robin, the times are even.
pub fn lu_pattern(pair: &Pair) -> Result<String> {
    let before = running(&pair.fault, "update_rows", pair.threads)?;
    let after = running(&pair.fix, "update_rows", pair.threads)?;
    ensure!(
        before.is_sorted(),
        "not more work for later threads: {before:?}"
    );
    even(&after, 1.25)?;
    Ok(format!(
        "The further down the rows, the more work: T{} uses {:.1} times the CPU time of T0. Dealt \
         round robin, the most is {:.2} times the least.",
        pair.threads - 1,
        spread(&before),
        spread(&after),
    ))
}

/// The first thread has nothing to add.
pub fn radix(pair: &Pair) -> Result<String> {
    let (run, site, last) = (&pair.fault, "tree_sum", pair.threads - 1);
    let (idler, worker) = (run.running_ms(site, 0)?, run.running_ms(site, last)?);
    ensure!(
        idler < 0.5 * worker,
        "T0 has {idler:.1} ms of CPU time at {site}, T{last} {worker:.1}"
    );
    let phase = run.phase_pct(&[site]);
    ensure!(phase < 10.0, "{site} holds {phase:.0} % of the time");
    Ok(format!(
        "`tree_sum` has an imbalance of {:.0} %: T{last} has used {worker:.0} ms of CPU \
         time there and T0 {idler:.0} ms, which is what entering and leaving the barrier takes. But \
         imbalance is not cost. The phase holds {phase:.0} % of the time, and perfect balance would \
         save {:.0} ms: with {} threads this is not where to begin. The tree grows with the number \
         of threads.",
        run.imbalance(site)?,
        run.gain_at_ms(site)?,
        pair.threads,
    ))
}

/// CPU time shows more levels of the tree; by ranges of digits, the times are even.
pub fn radix_pattern(pair: &Pair) -> Result<String> {
    let before = running(&pair.fault, "tree_sum", pair.threads)?;
    let after = running(&pair.fix, "flat_sum", pair.threads)?;
    let last = pair.threads - 1;
    ensure!(
        before[0] < 0.3 * before[last],
        "T0 works in the tree: {before:?}"
    );
    even(&after, 1.5)?;
    Ok(format!(
        "Of the {:.0} ms of CPU time in the tree T{last} has {:.0} % and T0 {:.0} %; T0 never adds \
         anything.",
        before.iter().sum::<f64>(),
        percent(before[last], &before),
        percent(before[0], &before),
    ))
}

/// All threads but one wait.
pub fn blocks(pair: &Pair) -> Result<String> {
    let (run, site) = (&pair.fault, "factor_panel");
    let imbalance = run.imbalance(site)?;
    ensure!(imbalance > 90.0, "{site} is not serial: {imbalance:.0} %");
    let lost = 100.0 * run.lost_at_ms(site)? / run.lost_ms();
    Ok(format!(
        "`factor_panel` has an imbalance of {imbalance:.0} %: one thread works and the others wait. \
         That phase holds {:.0} % of the time, and {lost:.0} % of all lost time is lost there. \
         Perfect balance would save {:.0} ms. The worker is the owner of the block on the diagonal, \
         and so always one of the same two.",
        run.phase_pct(&[site]),
        run.gain_at_ms(site)?,
    ))
}

/// The same two threads have the phase to themselves; in the mended program little of the phase is
/// left.
pub fn blocks_pattern(pair: &Pair) -> Result<String> {
    let before = running(&pair.fault, "factor_panel", pair.threads)?;
    let after = running(&pair.fix, "factor_panel", pair.threads)?;
    let last = pair.threads - 1;
    let owners = percent(before[0], &before) + percent(before[last], &before);
    ensure!(owners > 90.0, "not the diagonal's owners: {before:?}");
    let rest = 100.0 * after.iter().sum::<f64>() / before.iter().sum::<f64>();
    ensure!(rest < 50.0, "{rest:.0} % of the serial work is left");
    Ok(format!(
        "The threads form a square grid that is laid over the blocks; T0 and T{last} have its \
         diagonal, and {owners:.0} % of the panel's CPU time. Afterwards {rest:.0} % of that time is \
         left to the serial phase."
    ))
}

/// Two phases matter, and the last thread comes last in both.
pub fn water(pair: &Pair) -> Result<String> {
    let (run, last) = (&pair.fault, pair.threads - 1);
    let loops = ["pair_forces", "potential_energy"];
    let both = run.phase_pct(&loops);
    ensure!(both > 80.0, "the pair loops hold {both:.0} % only");
    let mut shares = [0.0; 2];
    for (share, site) in shares.iter_mut().zip(loops) {
        *share = run.last_pct(site, last)?;
        ensure!(
            *share > 80.0,
            "T{last} is last at {site} in {share:.0} % only"
        );
    }
    let [forces, energy] = shares;
    Ok(format!(
        "`pair_forces` and `potential_energy`, two phases of six, hold {both:.0} % of the time: the \
         four others need not be looked at. In both it is T{last} that comes last, in {forces:.0} % \
         and {energy:.0} % of the episodes, since its molecules have the most partners. The \
         imbalances are {:.0} % and {:.0} %; perfect balance would save {:.0} ms.",
        run.imbalance(loops[0])?,
        run.imbalance(loops[1])?,
        run.gain_at_ms(loops[0])? + run.gain_at_ms(loops[1])?,
    ))
}

/// The threads share the triangle as 1, 3, 5, 7; folded, the shares are even.
pub fn water_pattern(pair: &Pair) -> Result<String> {
    let before = running(&pair.fault, "pair_forces", pair.threads)?;
    let after = running(&pair.fix, "pair_forces", pair.threads)?;
    ensure!(
        before.is_sorted(),
        "not more work for later threads: {before:?}"
    );
    let times = spread(&before);
    ensure!(
        times > 3.0,
        "T0 has more than a third of the most: {before:?}"
    );
    even(&after, 1.25)?;
    Ok(format!(
        "By the number of pairs the threads have 1, 3, 5 and 7 of 16 parts; by CPU time the last \
         has {times:.1} times that of the first. Folded, the most is {:.2} times the least.",
        spread(&after),
    ))
}

/// CPU time of each thread in the phase before a site, ms.
pub fn running(series: &Series, site: &str, threads: usize) -> Result<Vec<f64>> {
    (0..threads)
        .map(|thread| series.running_ms(site, thread))
        .collect()
}

fn percent(part: f64, all: &[f64]) -> f64 {
    100.0 * part / all.iter().sum::<f64>()
}

/// The largest value divided by the smallest.
fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    most / least
}

fn even(values: &[f64], limit: f64) -> Result<()> {
    let spread = spread(values);
    ensure!(
        spread < limit,
        "the mended program is uneven, {spread:.2} times: {values:.1?}"
    );
    Ok(())
}
