//! Medians, and how figures are written.

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

/// All ratios, in the order in which they were measured.
pub fn pairs(values: &[f64]) -> String {
    let values: Vec<_> = values.iter().map(|value| format!("{value:.2}")).collect();
    values.join(", ")
}

/// A ratio as what it adds: 1.01 is `+1.0 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
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
    fn ratios_are_written_as_what_they_add() {
        assert_eq!(percent(1.012), "+1.2 %");
        assert_eq!(percent(0.99), "-1.0 %");
    }
}
