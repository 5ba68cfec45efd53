//! Reproducible noise: a value depends on its index only, so that any thread can create any
//! element, and the original of an overwritten matrix can be recreated for the check.

/// A well-mixed 64-bit value for `index` (the finaliser of `SplitMix64`).
pub fn mix(index: u64) -> u64 {
    let z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number in [-0.5, 0.5) for `index`.
pub fn centred(index: u64) -> f64 {
    (mix(index) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centred_has_the_moments_of_an_even_spread() {
        let values: Vec<f64> = (0..100_000).map(centred).collect();
        let mean = values.iter().sum::<f64>() / 1e5;
        let variance = values.iter().map(|v| v * v).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.005, "{mean}");
        assert!((variance - 1.0 / 12.0).abs() < 0.001, "{variance}");
        assert!(values.iter().all(|v| (-0.5..0.5).contains(v)));
    }
}
