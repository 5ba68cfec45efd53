//! A changed bit is found wherever it is.

use super::{
    cut::{boundaries, fixture, numbers, rewritten},
    *,
};
use crate::record::seal::renewed;

/// The number of bits that are changed in each file.
const FLIPS: usize = 1500;

/// The counts of files with one changed bit, by outcome.
#[derive(Debug, Default)]
struct Outcomes {
    same: usize,
    marked: usize,
    refused: usize,
    by_checksum: usize,
}

fn flipped(whole: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

#[test]
fn a_changed_bit_is_never_another_report_without_a_mark() {
    let folder = tempfile::tempdir().unwrap();
    for (name, rows) in [
        ("pthread.sbt", 40),
        ("openmp.sbt", 1000),
        ("keep.sbt", 100),
        ("statistics.sbt", 8),
    ] {
        let path = folder.path().join("run.sbt");
        rewritten(&fixture(name), &path, rows);
        let whole = fs::read(&path).unwrap();
        let expected = reported(&path);
        let mut outcomes = Outcomes::default();
        // All bits of the beginning and the end, where lengths and the schema are, and some others.
        let bits = whole.len() * 8;
        let ends = (0..64 * 8).chain(bits - 64 * 8..bits);
        let random = numbers(bits as u64).map(|number| number % bits);
        for bit in ends.chain(random.take(FLIPS)) {
            let what = format!("{name}: bit {bit} of {bits}");
            fs::write(&path, flipped(&whole, bit)).unwrap();
            match report(&path) {
                Ok(report) if report.is_complete() => {
                    // Only the mark of the stream's end has bits without a meaning.
                    assert!(bit >= bits - 64 && json(&report) == expected, "{what}");
                    outcomes.same += 1;
                }
                Ok(report) => {
                    let missing = &report.incomplete[0];
                    assert!(report.notes.contains(&missing.text), "{what}");
                    assert!(report.efficiency.is_none(), "{what}");
                    outcomes.marked += 1;
                    let is_sum = missing.text.contains("checksum of batch");
                    outcomes.by_checksum += usize::from(is_sum);
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    assert!(
                        error.contains("run.sbt") && !error.contains('\n'),
                        "{error}"
                    );
                    outcomes.refused += 1;
                    outcomes.by_checksum += usize::from(error.contains("checksum of batch"));
                }
            }
        }
        assert!(outcomes.same > 0 && outcomes.marked + outcomes.refused > FLIPS);
        assert!(outcomes.by_checksum > FLIPS / 2, "{name}: {outcomes:?}");
    }
}

#[test]
fn what_is_damaged_is_said_and_left_out() {
    let written = Written::run(6 * S, None, Ending::Orderly);
    let path = written.path();
    let whole = fs::read(&path).unwrap();
    // In the body of a batch that has others before it.
    let ends = boundaries(&whole);
    let last = ends[ends.len() * 3 / 4] - 1;
    fs::write(&path, flipped(&whole, last * 8)).unwrap();
    let report = report(&path).unwrap();
    let [missing] = &report.incomplete[..] else {
        panic!("{:?}", report.incomplete);
    };
    assert_eq!(missing.kind, "damaged");
    assert!(
        missing.text.contains("the checksum of batch"),
        "{}",
        missing.text
    );
    assert!(
        missing
            .text
            .contains("this batch and all later batches were left out")
    );
    assert!(report.episodes > 100, "{}", report.episodes);
    assert!(report.run.wall_ns < 6 * S, "{}", report.run.wall_ns);
    let site = report
        .sites
        .iter()
        .filter_map(|site| site.phase_ns.as_ref());
    assert!(site.map(|phase| phase.max).max() < Some(S));
}

#[test]
fn what_is_changed_and_sealed_again_gets_past_the_checksum() {
    let written = Written::run(S, None, Ending::Orderly);
    let path = written.path();
    let whole = fs::read(&path).unwrap();
    assert_eq!(renewed(&whole), whole);
    let mut other = 0;
    for bit in numbers(7)
        .map(|number| number % (whole.len() * 8))
        .take(200)
    {
        let bytes = renewed(&flipped(&whole, bit));
        fs::write(&path, &bytes).unwrap();
        let text = match report(&path) {
            Ok(report) => report.incomplete.first().map(|loss| loss.text.clone()),
            Err(error) => Some(error.to_string()),
        };
        other += usize::from(text.is_none_or(|text| !text.contains("checksum of batch")));
    }
    assert!(other > 190, "{other} of 200");
}

#[test]
fn a_bounded_file_keeps_its_checksums_where_it_is_begun_anew() {
    // Several generations: each file has batches that were copied from the file before.
    let written = Written::run(25 * S, Some(KEPT), Ending::Orderly);
    assert_eq!(reported(&written.path()), written.live);
    let whole = fs::read(written.path()).unwrap();
    fs::write(written.path(), flipped(&whole, whole.len() * 4)).unwrap();
    let report = report(&written.path()).unwrap();
    assert_eq!(report.incomplete[0].kind, "damaged");
}
