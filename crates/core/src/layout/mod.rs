//! Shape and strides, and the arithmetic on them. Strides count elements.
#![forbid(unsafe_code)]

mod index;
mod reshape;

use smallvec::SmallVec;

use crate::dtype::Dtype;
use crate::error::LayoutError;

pub use index::Index;
pub(crate) use index::byte_offset;

/// The most axes of an array, as in NumPy 2 and torch.
pub const MOST_AXES: usize = 64;

/// Shape and strides of up to this many axes are stored inline; few arrays have more.
const INLINE_AXES: usize = 4;
type Dims = SmallVec<[i64; INLINE_AXES * 2]>;

/// Shape and strides; strides count elements and may be negative or zero.
///
/// A layout cannot exist with a negative extent or with a span that overflows.
///
/// ```
/// use gpulend::{Dtype, Layout};
///
/// let layout = Layout::new(&[2, 3], &[3, -1], Dtype::FLOAT32)?;
/// assert_eq!(layout.byte_span(Dtype::FLOAT32).low, -8);
/// assert!(!layout.is_compact());
/// # Ok::<(), gpulend::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Extents, then as many strides.
    dims: Dims,
}

/// Bytes reachable from the first element: from `low` (zero or less) up to, not including, `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSpan {
    /// Bytes before the first element.
    pub low: i64,
    /// Bytes after the first byte of the first element.
    pub high: i64,
}

impl ByteSpan {
    /// How many bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.high.abs_diff(self.low)
    }
}

/// The sums that show that a layout is possible.
#[derive(Clone, Copy)]
pub(crate) struct Measure {
    /// Elements.
    pub(crate) size: i64,
    /// Bytes from the first to the last.
    pub(crate) span: ByteSpan,
}

impl Measure {
    /// Measures a layout, or says why it is impossible.
    #[inline(always)]
    pub(crate) fn take(shape: &[i64], strides: &[i64], dtype: Dtype) -> Result<Self, LayoutError> {
        if shape.len() != strides.len() {
            return Err(LayoutError::Rank { shape: shape.len(), strides: strides.len() });
        }
        check_rank(shape.len())?;
        // In bits, because packed elements share bytes.
        let bits = i64::from(dtype.storage_bits());
        let (mut low, mut high, mut elements) = (0_i64, bits, 1_i64);
        let (mut empty, mut too_far) = (false, None);
        for (axis, (&extent, &stride)) in shape.iter().zip(strides).enumerate() {
            if extent <= 0 {
                if extent < 0 {
                    return Err(LayoutError::NegativeExtent { axis, extent });
                }
                empty = true;
                continue;
            }
            // An empty axis counts as 1, so that no part of the product overflows either.
            let Some(product) = elements.checked_mul(extent) else {
                return Err(LayoutError::Overflow { axis });
            };
            elements = product;
            let reach = (extent - 1).checked_mul(stride).and_then(|far| far.checked_mul(bits));
            let edge = match reach {
                Some(reach) if reach < 0 => low.checked_add(reach).map(|sum| low = sum),
                Some(reach) => high.checked_add(reach).map(|sum| high = sum),
                None => None,
            };
            if edge.is_none() {
                too_far = too_far.or(Some(axis));
            }
        }
        if elements.checked_mul(bits).is_none() {
            return Err(LayoutError::Overflow { axis: 0 });
        }
        if empty {
            return Ok(Self { size: 0, span: ByteSpan { low: 0, high: 0 } });
        }
        match (too_far, high.checked_add(7)) {
            (None, Some(high)) => {
                let span = ByteSpan { low: low.div_euclid(8), high: high.div_euclid(8) };
                Ok(Self { size: elements, span })
            }
            (axis, _) => Err(LayoutError::Overflow { axis: axis.unwrap_or(0) }),
        }
    }
}

impl Layout {
    /// A checked layout.
    ///
    /// # Errors
    ///
    /// If ranks differ or are too high, an extent is negative, or the span overflows.
    pub fn new(shape: &[i64], strides: &[i64], dtype: Dtype) -> Result<Self, LayoutError> {
        Self::measured(shape, Some(strides), dtype).map(|(layout, _)| layout)
    }

    /// The layout of shape and strides that [`Measure::take`] has found possible.
    #[inline(always)]
    pub(crate) fn of_measured(shape: &[i64], strides: &[i64]) -> Self {
        let rank = shape.len();
        if rank > INLINE_AXES {
            return Self { dims: shape.iter().chain(strides).copied().collect() };
        }
        let mut inline = [0; INLINE_AXES * 2];
        // One by one: a call of memcpy for so few costs more than the measuring.
        for (axis, (&extent, &stride)) in shape.iter().zip(strides).enumerate() {
            inline[axis] = extent;
            inline[axis + rank] = stride;
        }
        Self { dims: Dims::from_buf_and_len(inline, rank * 2) }
    }

    /// A checked row-major layout without gaps.
    ///
    /// # Errors
    ///
    /// If the rank is too high, an extent is negative, or the span overflows.
    pub fn compact(shape: &[i64], dtype: Dtype) -> Result<Self, LayoutError> {
        Self::measured(shape, None, dtype).map(|(layout, _)| layout)
    }

    /// A checked layout and its measure; without strides it is compact.
    pub(crate) fn measured(
        shape: &[i64],
        strides: Option<&[i64]>,
        dtype: Dtype,
    ) -> Result<(Self, Measure), LayoutError> {
        if let Some(strides) = strides {
            let measure = Measure::take(shape, strides, dtype)?;
            return Ok((Self::of_measured(shape, strides), measure));
        }
        check_rank(shape.len())?;
        // The strides follow.
        let mut layout = Self::of_measured(shape, shape);
        layout.fill_compact()?;
        let measure = Measure::take(layout.shape(), layout.strides(), dtype)?;
        Ok((layout, measure))
    }

    /// A checked layout from strides in bytes.
    ///
    /// # Errors
    ///
    /// As [`Layout::new`], and if a stride that is used is not a multiple of the element size.
    pub fn from_byte_strides(
        shape: &[i64],
        strides: &[i64],
        dtype: Dtype,
    ) -> Result<Self, LayoutError> {
        if shape.len() != strides.len() {
            return Err(LayoutError::Rank { shape: shape.len(), strides: strides.len() });
        }
        let itemsize = i64::from(dtype.itemsize());
        let mut elements = SmallVec::<[i64; 4]>::with_capacity(shape.len());
        for (axis, (&extent, &stride)) in shape.iter().zip(strides).enumerate() {
            // The stride of an axis with fewer than two elements is never used.
            if stride % itemsize != 0 && extent > 1 {
                let itemsize = usize::from(dtype.itemsize());
                return Err(LayoutError::BrokenStride { axis, stride, itemsize });
            }
            elements.push(stride / itemsize);
        }
        Self::new(shape, &elements, dtype)
    }

    fn fill_compact(&mut self) -> Result<(), LayoutError> {
        let rank = self.rank();
        let (shape, strides) = self.dims.split_at_mut(rank);
        let mut step: i64 = 1;
        for axis in (0..rank).rev() {
            strides[axis] = step;
            step = step.checked_mul(shape[axis].max(1)).ok_or(LayoutError::Overflow { axis })?;
        }
        Ok(())
    }

    /// The bytes reachable through shape and strides.
    #[must_use]
    pub fn byte_span(&self, dtype: Dtype) -> ByteSpan {
        // This overflows only for a wider type than the layout was checked for: then it saturates.
        Measure::take(self.shape(), self.strides(), dtype)
            .map_or(ByteSpan { low: i64::MIN, high: i64::MAX }, |measure| measure.span)
    }

    /// The number of axes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dims.len() / 2
    }

    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.dims[..self.rank()]
    }

    /// The strides, in elements.
    #[must_use]
    pub fn strides(&self) -> &[i64] {
        &self.dims[self.rank()..]
    }

    /// The number of elements.
    #[must_use]
    pub fn size(&self) -> i64 {
        // An array with an empty axis may have a huge one too; `check` bounded all others.
        if self.is_empty() { 0 } else { self.shape().iter().product() }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// Bytes of the elements themselves, gaps and repetitions not counted.
    #[must_use]
    pub fn nbytes(&self, dtype: Dtype) -> u64 {
        // This overflows only for another type than the layout was checked for: then it saturates.
        self.size().unsigned_abs().saturating_mul(dtype.storage_bits().into()).div_ceil(8)
    }

    /// Whether the elements are row-major without gaps. Strides of axes with fewer than two elements do not matter.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        self.is_compact_over((0..self.rank()).rev())
    }

    /// Whether the elements are column-major without gaps.
    #[must_use]
    pub fn is_compact_columns(&self) -> bool {
        self.is_compact_over(0..self.rank())
    }

    /// Whether the elements have no gaps in some order of the axes.
    #[must_use]
    pub fn is_permuted(&self) -> bool {
        let mut axes: Vec<usize> = (0..self.rank()).collect();
        axes.sort_by_key(|axis| (self.strides()[*axis], self.shape()[*axis]));
        let taken = axes.into_iter().filter(|axis| self.shape()[*axis] > 1);
        self.is_compact_over(taken)
    }

    fn is_compact_over(&self, axes: impl Iterator<Item = usize>) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut step = 1;
        for axis in axes {
            let extent = self.shape()[axis];
            if extent > 1 && self.strides()[axis] != step {
                return false;
            }
            step *= extent;
        }
        true
    }

    /// Whether a stride that is used is negative.
    #[must_use]
    pub fn has_negative_stride(&self) -> bool {
        let mut axes = self.shape().iter().zip(self.strides());
        !self.is_empty() && axes.any(|(&extent, &stride)| extent > 1 && stride < 0)
    }

    /// Whether two elements may share bytes.
    ///
    /// Exact for broadcasts and for every slice of a compact array; layouts
    /// whose axes interleave, such as sliding windows, count as overlapping.
    #[must_use]
    pub fn may_overlap(&self) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut axes: SmallVec<[(u64, u64); 4]> = SmallVec::new();
        for (&extent, &stride) in self.shape().iter().zip(self.strides()) {
            if extent > 1 {
                axes.push((stride.unsigned_abs(), extent.unsigned_abs() - 1));
            }
        }
        axes.sort_unstable();
        let mut reach = 0_u64;
        for (stride, steps) in axes {
            if stride <= reach {
                return true;
            }
            reach = reach.saturating_add(stride.saturating_mul(steps));
        }
        false
    }

    /// The axes in reverse order.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let shape = self.shape().iter().rev();
        let strides = self.strides().iter().rev();
        Self { dims: shape.chain(strides).copied().collect() }
    }

    /// Shape and strides in the form for exports: if an axis has fewer than two
    /// elements, or the array is empty, the stride of a compact array.
    #[must_use]
    pub fn canonical(&self) -> Self {
        // Not a clone, which looks whether the numbers are inline, and copies them by a loop.
        let mut layout = Self::of_measured(self.shape(), self.strides());
        let (empty, rank) = (self.is_empty(), self.rank());
        let (shape, strides) = layout.dims.split_at_mut(rank);
        let mut step = 1_i64;
        for axis in (0..rank).rev() {
            if empty || shape[axis] < 2 {
                strides[axis] = step;
            }
            // The product of all extents was checked when the layout was made.
            step = step.saturating_mul(shape[axis].max(1));
        }
        layout
    }

    /// Pointers to the extents and strides, for consumers that need them.
    pub(crate) fn dims_mut(&mut self) -> (*mut i64, *mut i64) {
        let rank = self.rank();
        let first = self.dims.as_mut_ptr();
        (first, first.wrapping_add(rank))
    }
}

fn check_rank(rank: usize) -> Result<(), LayoutError> {
    if rank > MOST_AXES {
        let rank = i64::try_from(rank).unwrap_or(i64::MAX);
        return Err(LayoutError::TooManyAxes { rank, most: MOST_AXES });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_that_overflows_cannot_exist() {
        let huge = i64::MAX / 2;
        assert!(Layout::new(&[huge, 4], &[1, 1], Dtype::UINT8).is_err());
        assert!(Layout::new(&[3], &[huge], Dtype::FLOAT64).is_err());
        assert!(Layout::new(&[3], &[i64::MIN], Dtype::UINT8).is_err());
        assert!(Layout::compact(&[huge, 4], Dtype::UINT8).is_err());
        assert!(Layout::compact(&[0, huge, huge], Dtype::UINT8).is_err());
    }

    #[test]
    fn wrong_ranks_and_extents_are_refused_by_name() {
        assert_eq!(
            Layout::new(&[1, 2], &[1], Dtype::UINT8),
            Err(LayoutError::Rank { shape: 2, strides: 1 })
        );
        assert_eq!(
            Layout::new(&[1, -2], &[1, 1], Dtype::UINT8),
            Err(LayoutError::NegativeExtent { axis: 1, extent: -2 })
        );
        assert!(matches!(
            Layout::compact(&[1; 65], Dtype::UINT8),
            Err(LayoutError::TooManyAxes { rank: 65, .. })
        ));
    }

    #[test]
    fn byte_strides_must_be_whole_elements_where_they_are_used() {
        assert!(Layout::from_byte_strides(&[2], &[6], Dtype::FLOAT32).is_err());
        assert!(Layout::from_byte_strides(&[1], &[6], Dtype::FLOAT32).is_ok());
        let layout = Layout::from_byte_strides(&[2, 2], &[-8, 4], Dtype::FLOAT32).unwrap();
        assert_eq!(layout.strides(), [-2, 1]);
    }

    #[test]
    fn packed_elements_share_bytes() {
        let four: Dtype = "float4_e2m1fn".parse().unwrap();
        let layout = Layout::compact(&[3], four).unwrap();
        assert_eq!((layout.nbytes(four), layout.byte_span(four).high), (2, 2));
        let six: Dtype = "float6_e2m3fn".parse().unwrap();
        assert_eq!(Layout::compact(&[4], six).unwrap().nbytes(six), 3);
    }

    #[test]
    fn strides_nobody_takes_are_made_canonical() {
        let layout = Layout::new(&[1, 3, 1], &[99, 1, -7], Dtype::UINT8).unwrap();
        assert!(layout.is_compact());
        assert_eq!(layout.canonical().strides(), [3, 1, 1]);
        let layout = Layout::new(&[0, 3], &[5, 5], Dtype::UINT8).unwrap();
        assert_eq!(layout.canonical().strides(), [3, 1]);
    }
}
