//! The same elements under another shape, or the same bytes under another type.

use super::{Dims, Layout};
use crate::dtype::Dtype;
use crate::error::LayoutError;

impl Layout {
    /// The same elements in the same order under another shape, with no copy.
    ///
    /// One extent may be -1: it follows from the others.
    ///
    /// # Errors
    ///
    /// If the number of elements differs, or the strides allow no such view.
    pub fn reshaped(&self, shape: &[i64], dtype: Dtype) -> Result<Self, LayoutError> {
        let size_error =
            || LayoutError::ReshapeSize { size: self.size(), shape: shape.to_vec().into() };
        let shape = self.resolve(shape).ok_or_else(size_error)?;
        if self.is_empty() {
            return Self::compact(&shape, dtype);
        }
        let strides = self.strides_for(&shape).ok_or_else(|| LayoutError::ReshapeCopies {
            from: self.shape().into(),
            strides: self.strides().into(),
            shape: shape.as_slice().into(),
        })?;
        Self::new(&shape, &strides, dtype)
    }

    /// Replaces -1 and checks the number of elements.
    fn resolve(&self, shape: &[i64]) -> Option<Dims> {
        let mut known: i64 = 1;
        let mut open = None;
        for (axis, &extent) in shape.iter().enumerate() {
            match extent {
                -1 if open.is_none() => open = Some(axis),
                0.. => known = known.checked_mul(extent)?,
                _ => return None,
            }
        }
        let mut shape = Dims::from_slice(shape);
        if let Some(axis) = open {
            if known == 0 || self.size() % known != 0 {
                return None;
            }
            shape[axis] = self.size() / known;
            known = self.size();
        }
        (known == self.size()).then_some(shape)
    }

    /// Strides for a shape of as many elements: each run of old axes that covers
    /// a run of new axes must itself be evenly spaced.
    fn strides_for(&self, shape: &[i64]) -> Option<Dims> {
        let old: Vec<(i64, i64)> = self
            .shape()
            .iter()
            .zip(self.strides())
            .map(|(&extent, &stride)| (extent, stride))
            .filter(|&(extent, _)| extent != 1)
            .collect();
        let mut strides = Dims::from_elem(1, shape.len());
        let (mut old_at, mut new_at) = (0, 0);
        while old_at < old.len() {
            let (old_from, new_from) = (old_at, new_at);
            let (mut old_size, mut new_size) = (old[old_at].0, shape[new_at]);
            old_at += 1;
            new_at += 1;
            while old_size != new_size {
                if old_size < new_size {
                    old_size *= old[old_at].0;
                    old_at += 1;
                } else {
                    new_size *= shape[new_at];
                    new_at += 1;
                }
            }
            let run = &old[old_from..old_at];
            if !run.windows(2).all(|pair| pair[0].1 == pair[1].0 * pair[1].1) {
                return None;
            }
            let mut step = run[run.len() - 1].1;
            for axis in (new_from..new_at).rev() {
                strides[axis] = step;
                step = step.saturating_mul(shape[axis]);
            }
        }
        Some(strides)
    }

    /// The same bytes read as another type: the last axis grows or shrinks.
    ///
    /// # Errors
    ///
    /// If the widths differ and the last axis is not compact or does not divide.
    pub fn viewed(&self, from: Dtype, to: Dtype) -> Result<Self, LayoutError> {
        let refuse =
            |reason| LayoutError::View { from: from.name().into(), to: to.name().into(), reason };
        let (old, new) = (i64::from(from.storage_bits()), i64::from(to.storage_bits()));
        if old == new {
            return Ok(self.clone());
        }
        let rank = self.rank();
        if rank == 0 {
            return Err(refuse("the widths differ and there is no last axis to divide"));
        }
        let (extent, stride) = (self.shape()[rank - 1], self.strides()[rank - 1]);
        if stride != 1 && extent > 1 && !self.is_empty() {
            return Err(refuse("the widths differ and the last axis is not contiguous"));
        }
        let bits = extent.checked_mul(old).ok_or(LayoutError::Overflow { axis: rank - 1 })?;
        if bits % new != 0 {
            return Err(refuse("the last axis is not a multiple of the new elements"));
        }
        let mut shape = Dims::from_slice(self.shape());
        let mut strides = Dims::from_slice(self.strides());
        shape[rank - 1] = bits / new;
        if self.is_empty() {
            return Self::compact(&shape, to);
        }
        strides[rank - 1] = 1;
        for axis in 0..rank - 1 {
            let bits = strides[axis].checked_mul(old).ok_or(LayoutError::Overflow { axis })?;
            if bits % new != 0 && shape[axis] > 1 {
                return Err(refuse("an outer stride is not a multiple of the new elements"));
            }
            strides[axis] = bits / new;
        }
        Self::new(&shape, &strides, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[i64], strides: &[i64]) -> Layout {
        Layout::new(shape, strides, Dtype::UINT8).unwrap()
    }

    #[test]
    fn a_shape_that_fits_is_a_view() {
        let flat = layout(&[12], &[1]);
        let folded = flat.reshaped(&[2, -1, 2], Dtype::UINT8).unwrap();
        assert_eq!((folded.shape(), folded.strides()), (&[2, 3, 2][..], &[6, 2, 1][..]));
        let back = folded.reshaped(&[-1], Dtype::UINT8).unwrap();
        assert_eq!(back, flat);
    }

    #[test]
    fn a_shape_that_needs_a_copy_is_refused() {
        let columns = layout(&[2, 3], &[1, 2]);
        assert!(matches!(
            columns.reshaped(&[6], Dtype::UINT8),
            Err(LayoutError::ReshapeCopies { .. })
        ));
        assert!(columns.reshaped(&[2, 3, 1], Dtype::UINT8).is_ok());
        let strided = layout(&[6], &[2]);
        assert_eq!(strided.reshaped(&[2, 3], Dtype::UINT8).unwrap().strides(), [6, 2]);
    }

    #[test]
    fn a_shape_of_another_size_is_refused() {
        let flat = layout(&[6], &[1]);
        for shape in [&[4][..], &[-1, -1], &[-2], &[0, -1], &[i64::MAX, 2], &[]] {
            assert!(flat.reshaped(shape, Dtype::UINT8).is_err(), "{shape:?}");
        }
        let empty = layout(&[0, 3], &[3, 1]);
        assert!(empty.reshaped(&[5, 0], Dtype::UINT8).is_ok());
        assert!(empty.reshaped(&[0, -1], Dtype::UINT8).is_err());
        assert_eq!(layout(&[1, 1], &[9, 9]).reshaped(&[], Dtype::UINT8).unwrap().rank(), 0);
    }

    #[test]
    fn packed_nibbles_are_viewed_as_bytes() {
        let four: Dtype = "float4_e2m1fn".parse().unwrap();
        let nibbles = Layout::compact(&[2, 6], four).unwrap();
        let bytes = nibbles.viewed(four, Dtype::UINT8).unwrap();
        assert_eq!((bytes.shape(), bytes.strides()), (&[2, 3][..], &[3, 1][..]));
        assert_eq!(bytes.viewed(Dtype::UINT8, four).unwrap(), nibbles);
    }
}
