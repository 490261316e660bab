//! Slices of a layout, with NumPy's rules.

use super::{Dims, Layout, check_rank};
use crate::dtype::Dtype;
use crate::error::LayoutError;

/// One part of an index, as in `a[2, 1:, ..., None]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// One element; the axis disappears.
    At(i64),
    /// A slice; a missing end is the end of the axis.
    Slice {
        /// First element taken.
        start: Option<i64>,
        /// The end, not taken.
        stop: Option<i64>,
        /// Distance between two elements taken.
        step: Option<i64>,
    },
    /// All remaining axes.
    Rest,
    /// A new axis of extent 1.
    New,
}

impl Layout {
    /// The layout of a slice, and its offset in elements from the first.
    ///
    /// # Errors
    ///
    /// If an index is out of range, or there are too many.
    pub fn index(&self, indices: &[Index]) -> Result<(Self, i64), LayoutError> {
        let given = indices
            .iter()
            .filter(|index| matches!(index, Index::At(_) | Index::Slice { .. }))
            .count();
        if indices.iter().filter(|index| matches!(index, Index::Rest)).count() > 1 {
            return Err(LayoutError::TwoEllipses);
        }
        let rank = self.rank();
        if given > rank {
            return Err(LayoutError::TooManyIndices { given, rank });
        }
        let (mut shape, mut strides) = (Dims::new(), Dims::new());
        let (mut axis, mut offset) = (0, 0_i64);
        let rest = rank - given;
        for index in indices {
            match *index {
                Index::New => {
                    shape.push(1);
                    strides.push(0);
                }
                Index::Rest => {
                    shape.extend_from_slice(&self.shape()[axis..axis + rest]);
                    strides.extend_from_slice(&self.strides()[axis..axis + rest]);
                    axis += rest;
                }
                Index::At(index) => {
                    let extent = self.shape()[axis];
                    let at = if index < 0 { index.saturating_add(extent) } else { index };
                    if at < 0 || at >= extent {
                        return Err(LayoutError::Index { axis, index, extent });
                    }
                    // This overflows only for strides of empty arrays, which have no offset.
                    offset = offset.wrapping_add(at.wrapping_mul(self.strides()[axis]));
                    axis += 1;
                }
                Index::Slice { start, stop, step } => {
                    let extent = self.shape()[axis];
                    let (first, length, step) = slice(extent, start, stop, step)?;
                    shape.push(length);
                    // A single element never uses its step, which may be too large to multiply.
                    strides.push(self.strides()[axis].saturating_mul(if length > 1 {
                        step
                    } else {
                        1
                    }));
                    if length > 0 {
                        offset = offset.wrapping_add(first.wrapping_mul(self.strides()[axis]));
                    }
                    axis += 1;
                }
            }
        }
        shape.extend_from_slice(&self.shape()[axis..]);
        strides.extend_from_slice(&self.strides()[axis..]);
        check_rank(shape.len())?;
        let empty = shape.contains(&0);
        shape.extend(strides);
        Ok((Self { dims: shape }, if empty { 0 } else { offset }))
    }
}

/// First element, number of elements and step of a slice over `extent` elements.
fn slice(
    extent: i64,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<(i64, i64, i64), LayoutError> {
    let step = step.unwrap_or(1).max(-i64::MAX);
    if step == 0 {
        return Err(LayoutError::ZeroStep);
    }
    // The ends of forward slices are in 0..=extent, of backward ones in -1..extent.
    let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
    let clamp = |end: i64| {
        let end = if end < 0 { end.saturating_add(extent) } else { end };
        end.clamp(low, high)
    };
    let first = start.map_or(if step > 0 { low } else { high }, clamp);
    let last = stop.map_or(if step > 0 { high } else { low }, clamp);
    let distance = if step > 0 { last - first } else { first - last };
    let length = if distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
    Ok((first, length, step))
}

/// Byte offset of the element `offset`.
///
/// # Errors
///
/// If a packed element begins inside a byte.
pub(crate) fn byte_offset(offset: i64, dtype: Dtype) -> Result<i64, LayoutError> {
    let bits = i64::from(dtype.storage_bits());
    // A checked layout bounds every offset inside it, in bits too.
    let offset_bits = offset * bits;
    if offset_bits % 8 != 0 {
        let every = if bits % 4 == 0 { 8 / bits } else { 4 };
        return Err(LayoutError::InsideByte { element: offset, bits: dtype.bits(), every });
    }
    Ok(offset_bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_outside_is_refused() {
        let layout = Layout::compact(&[2, 3], Dtype::UINT8).unwrap();
        for index in [2, -3, i64::MIN, i64::MAX] {
            assert!(layout.index(&[Index::At(index)]).is_err(), "{index}");
        }
        assert!(layout.index(&[Index::At(0); 3]).is_err());
        let still = Index::Slice { start: None, stop: None, step: Some(0) };
        assert_eq!(layout.index(&[still]), Err(LayoutError::ZeroStep));
    }

    #[test]
    fn extreme_slices_do_not_overflow() {
        let layout = Layout::compact(&[5], Dtype::UINT8).unwrap();
        for start in [None, Some(i64::MIN), Some(i64::MAX)] {
            for stop in [None, Some(i64::MIN), Some(i64::MAX)] {
                for step in [Some(i64::MIN), Some(i64::MAX), Some(-1), Some(1)] {
                    let (slice, _) = layout.index(&[Index::Slice { start, stop, step }]).unwrap();
                    assert!(slice.size() <= 5);
                }
            }
        }
    }

    #[test]
    fn packed_slices_begin_at_a_byte() {
        let four: Dtype = "int4".parse().unwrap();
        assert_eq!(byte_offset(4, four), Ok(2));
        assert_eq!(
            byte_offset(3, four),
            Err(LayoutError::InsideByte { element: 3, bits: 4, every: 2 })
        );
    }
}
