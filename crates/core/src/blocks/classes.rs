//! Sizes: how much a request takes, in which kind of segment, and in which list a free block waits.
#![forbid(unsafe_code)]

/// Blocks begin at multiples of this, and are multiples of it: what CUDA's own allocations promise, and more.
pub(crate) const GRAIN: u64 = 512;
/// Segments are multiples of this: the driver gives memory in such pages.
pub(crate) const PAGE: u64 = 2 << 20;

/// A list for each size class. There are eight classes to each doubling, so that rounding wastes at most an eighth.
pub(super) const CLASSES: usize = 320;

/// Segments of one kind serve requests of similar sizes, so that small blocks do not break up large ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Up to 512 KiB, in segments of 2 MiB.
    Small,
    /// Up to 16 MiB, in segments of 32 MiB.
    Medium,
    /// Each in a segment of its own, which may be split later.
    Large,
}

impl Kind {
    pub(super) const COUNT: usize = 3;

    /// The kind of segment that a request is served from.
    pub(crate) const fn of(bytes: u64) -> Self {
        match bytes {
            0..=0x8_0000 => Self::Small,
            0x8_0001..=0x100_0000 => Self::Medium,
            _ => Self::Large,
        }
    }

    /// The size of a new segment for a request.
    pub(crate) const fn segment(self, bytes: u64) -> u64 {
        match self {
            Self::Small => PAGE,
            Self::Medium => 16 * PAGE,
            Self::Large => bytes,
        }
    }
}

/// The size of the block for a request. `None` if there is no such number.
pub(crate) fn rounded(bytes: u64) -> Option<u64> {
    if Kind::of(bytes) == Kind::Large {
        return bytes.checked_next_multiple_of(PAGE);
    }
    let grains = bytes.max(1).div_ceil(GRAIN);
    // The distance between two classes there.
    let step = if grains < 16 { 1 } else { 1 << (grains.ilog2() - 3) };
    Some(grains.next_multiple_of(step) * GRAIN)
}

/// The list in which a free block waits: that of the largest class which it can serve.
pub(super) fn class(bytes: u64) -> usize {
    let grains = bytes / GRAIN;
    if grains < 16 {
        return usize::try_from(grains).unwrap_or(0);
    }
    let log = grains.ilog2();
    let step = (grains >> (log - 3)) & 7;
    // At most 8 * 53 + 7, but no device has more than 2^48 bytes.
    let number = u64::from(8 * (log - 2)) + step;
    usize::try_from(number).unwrap_or(0).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_a_requests_class_serves_it_and_wastes_at_most_an_eighth() {
        let mut before = 0;
        for bytes in (1..4096).chain((12..40).flat_map(|log| {
            let power = 1_u64 << log;
            [power - 1, power, power + 1, power + power / 3, power * 2 - 513]
        })) {
            let size = rounded(bytes).unwrap();
            assert!(size >= bytes && size.is_multiple_of(GRAIN), "{bytes} {size}");
            assert!(size - bytes <= GRAIN.max(bytes / 8).max(PAGE * u64::from(bytes > 1 << 24)));
            // A block that waits in the list of its own size is found for a request of that size.
            if Kind::of(bytes) != Kind::Large {
                assert_eq!(rounded(size), Some(size));
                assert!(class(size - GRAIN) < class(size), "{size}");
            }
            if bytes < 4096 {
                assert!(size >= before);
                before = size;
            }
        }
        assert_eq!(rounded(u64::MAX), None);
        assert!(class(u64::MAX) < CLASSES && class(1 << 48) < CLASSES);
    }
}
