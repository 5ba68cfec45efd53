//! Medians, percentiles, and the format of figures.

/// The middle value; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The least value that `percent` of the values do not exceed; 0 without values.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// Standard deviation from the mean; 0 without values.
pub fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / count).sqrt()
}

/// The ratios of each value to the one that was measured in the same turn.
pub fn ratios(with: &[f64], without: &[f64]) -> Vec<f64> {
    with.iter().zip(without).map(|(a, b)| a / b).collect()
}

/// The ratios as text, in the order of measurement.
pub fn pairs(values: &[f64]) -> String {
    let values: Vec<_> = values.iter().map(|value| format!("{value:.2}")).collect();
    values.join(", ")
}

/// The change that a ratio stands for: 1.01 becomes `+1.0 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// The changes that the ratios stand for, in the order of measurement.
pub fn percents(ratios: &[f64]) -> String {
    let ratios: Vec<_> = ratios.iter().map(|ratio| percent(*ratio)).collect();
    ratios.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert!((median(&[4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-9);
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        for (percent, expected) in [(0, 1.0), (50, 100.0), (99, 198.0), (100, 200.0)] {
            assert!((percentile(&values, percent) - expected).abs() < 1e-9);
        }
        assert!(percentile(&[], 99).abs() < 1e-9);
    }

    #[test]
    fn the_deviation_is_that_of_the_values_themselves() {
        assert!((deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) - 2.0).abs() < 1e-9);
        assert!(deviation(&[]).abs() < 1e-9);
    }

    #[test]
    fn ratios_are_written_as_what_they_add() {
        assert_eq!(percent(1.012), "+1.2 %");
        assert_eq!(percent(0.99), "-1.0 %");
    }
}
