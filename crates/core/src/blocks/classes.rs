//! Sizes: how much a request takes, in which kind of segment, and in which list a free block waits.
#![forbid(unsafe_code)]

/// Blocks begin at multiples of this, and are multiples of it: what CUDA's own allocations promise, and more.
pub(crate) const GRAIN: u64 = 512;
/// Segments are multiples of this: the driver gives memory in such pages.
pub(crate) const PAGE: u64 = 2 << 20;

/// A list for each size class: eight to each doubling.
pub(super) const CLASSES: usize = 320;
/// Requests up to this share segments.
const MEDIUM: u64 = 8 * PAGE;

/// Segments of one kind serve requests of similar sizes, so that small blocks do not break up large ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Up to 512 KiB, in segments of 2 MiB.
    Small,
    /// More: up to 16 MiB in segments of 32 MiB, others each in one of its own, whose blocks may be split later.
    Large,
}

impl Kind {
    pub(super) const COUNT: usize = 2;

    /// The kind of segment that a request is served from.
    #[inline]
    pub(crate) const fn of(bytes: u64) -> Self {
        if bytes <= PAGE / 4 { Self::Small } else { Self::Large }
    }

    /// The size of a new segment for a block.
    pub(crate) const fn segment(self, bytes: u64) -> u64 {
        match self {
            Self::Small => PAGE,
            Self::Large if bytes <= MEDIUM => 16 * PAGE,
            Self::Large => bytes.next_multiple_of(PAGE),
        }
    }
}

/// The size of the block for a request: rounding more would waste more than it helps to find a block again. `None` if there
/// is no segment of that size.
#[inline]
pub(crate) fn rounded(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)?;
    Some(bytes.max(1).next_multiple_of(GRAIN))
}

/// The list in which a free block waits.
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
    fn a_block_wastes_less_than_a_grain_and_no_smaller_block_is_in_a_later_list() {
        let mut before = 0;
        for bytes in (1..4096).chain((12..40).flat_map(|log| {
            let power = 1_u64 << log;
            [power - 1, power, power + 1, power + power / 3, power * 2 - 513]
        })) {
            let size = rounded(bytes).unwrap();
            assert!(size >= bytes && size.is_multiple_of(GRAIN), "{bytes} {size}");
            assert!(size - bytes < GRAIN, "{bytes} {size}");
            assert_eq!(rounded(size), Some(size));
            assert!(class(size - GRAIN) <= class(size) && class(size) < class(size * 2), "{size}");
            let segment = Kind::of(bytes).segment(size);
            assert!(segment >= size && segment.is_multiple_of(PAGE), "{size} {segment}");
            if bytes < 4096 {
                assert!(size >= before);
                before = size;
            }
        }
        assert_eq!((rounded(u64::MAX), rounded(u64::MAX - PAGE / 2)), (None, None));
        assert_eq!(rounded(0), Some(GRAIN));
        assert!(class(u64::MAX) < CLASSES && class(1 << 48) < CLASSES);
    }
}
