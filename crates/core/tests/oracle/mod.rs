//! The slow, obvious answer: visit every element.

use proptest::prelude::ProptestConfig;

/// Where each element lies, in elements after the first, row by row.
pub(crate) fn offsets(shape: &[i64], strides: &[i64]) -> Vec<i64> {
    let mut found = vec![0];
    for (&extent, &stride) in shape.iter().zip(strides) {
        found = found.iter().flat_map(|&at| (0..extent).map(move |i| at + i * stride)).collect();
    }
    found
}

/// As many cases as `PROPTEST_CASES` says, fewer under Miri; what fails is printed, not kept.
pub(crate) fn config() -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if cfg!(miri) {
        config.cases = 6;
    }
    config
}
