//! `View`: the address of an array and how to read it. Validated plain data, no `Drop`.
#![forbid(unsafe_code)]

use crate::device::{Device, Memory};
use crate::dtype::Dtype;
use crate::error::{AddressError, Error, LayoutError};
use crate::layout::{Index, Layout, Measure, byte_offset};

/// Address, device, element type, layout, read-only or not.
///
/// The address is an integer: nothing here dereferences it.
///
/// ```
/// use gpulend::{Device, Dtype, Layout, View};
///
/// let layout = Layout::compact(&[2, 3], Dtype::FLOAT32)?;
/// let view = View::host(0x1000, Dtype::FLOAT32, layout, false)?;
/// assert_eq!((view.device(), view.nbytes()), (Device::CPU, 24));
/// # Ok::<(), gpulend::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    address: u64,
    device: Device,
    memory: Memory,
    dtype: Dtype,
    readonly: bool,
    /// Whether it is read-only by contract: its producer never writes it again, but nothing prevents others from writing.
    immutable: bool,
    layout: Layout,
}

impl View {
    /// A checked view.
    ///
    /// # Errors
    ///
    /// If the layout spans too much for the element type, elements are at null or past the end of
    /// the address space, or the first is misaligned.
    pub fn new(
        address: u64,
        (device, memory): (Device, Memory),
        dtype: Dtype,
        layout: Layout,
        readonly: bool,
    ) -> Result<Self, Error> {
        let measure = Measure::take(layout.shape(), layout.strides(), dtype)?;
        Self::of_layout(address, (device, memory), dtype, (layout, measure), readonly)
    }

    /// The same of a layout that was measured for the element type.
    pub(crate) fn of_layout(
        address: u64,
        (device, memory): (Device, Memory),
        dtype: Dtype,
        (layout, measure): (Layout, Measure),
        readonly: bool,
    ) -> Result<Self, Error> {
        check_address(address, dtype, measure)?;
        Ok(Self { address, device, memory, dtype, readonly, immutable: false, layout })
    }

    /// A view of shape and strides that [`check`] has found possible.
    #[inline(always)]
    pub(crate) fn of_checked(
        address: u64,
        (device, memory): (Device, Memory),
        dtype: Dtype,
        (shape, strides): (&[i64], &[i64]),
        readonly: bool,
    ) -> Self {
        let layout = Layout::of_measured(shape, strides);
        Self { address, device, memory, dtype, readonly, immutable: false, layout }
    }

    /// A checked view of plain host memory.
    ///
    /// # Errors
    ///
    /// As [`View::new`].
    pub fn host(address: u64, dtype: Dtype, layout: Layout, readonly: bool) -> Result<Self, Error> {
        Self::new(address, (Device::CPU, Memory::Host), dtype, layout, readonly)
    }

    /// The address of the first element.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> Device {
        self.device
    }

    /// The kind of memory.
    #[must_use]
    pub const fn memory(&self) -> Memory {
        self.memory
    }

    /// The element type.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Shape and strides.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether writing through this view is forbidden.
    #[must_use]
    pub const fn readonly(&self) -> bool {
        self.readonly
    }

    /// Whether it is read-only by contract alone, as JAX's arrays are: consumers without read-only arrays
    /// receive it with a warning.
    #[must_use]
    pub const fn immutable(&self) -> bool {
        self.immutable
    }

    /// The same bytes, read-only.
    #[must_use]
    pub fn as_readonly(&self) -> Self {
        Self { readonly: true, immutable: false, ..self.clone() }
    }

    /// The same bytes, read-only by contract.
    pub(crate) fn set_immutable(&mut self) {
        (self.readonly, self.immutable) = (true, true);
    }

    /// The same bytes, writable, for a consumer without read-only arrays.
    pub(crate) fn as_writable(&self) -> Self {
        Self { readonly: false, immutable: false, ..self.clone() }
    }

    /// The same layout over host memory at another address.
    pub(crate) fn moved_to_host(&self, address: u64) -> Result<Self, Error> {
        Self::host(address, self.dtype, self.layout.clone(), true)
    }

    /// Bytes of the elements themselves.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.layout.nbytes(self.dtype)
    }

    /// The lowest reachable address and the number of bytes up to the highest.
    #[must_use]
    pub fn extent(&self) -> (u64, u64) {
        let span = self.layout.byte_span(self.dtype);
        (self.address.wrapping_add_signed(span.low), span.bytes())
    }

    /// The extents in storage units: packed sub-byte elements counted in bytes along the last axis.
    #[must_use]
    pub fn storage_shape(&self) -> Vec<i64> {
        let mut shape = self.layout.shape().to_vec();
        if let (true, Some(last)) = (self.dtype.is_packed(), shape.last_mut()) {
            let bits = i128::from(*last) * i128::from(self.dtype.bits());
            // Never more than before, so it fits.
            *last = i64::try_from((bits + 7) / 8).unwrap_or(*last);
        }
        shape
    }

    /// A slice.
    ///
    /// # Errors
    ///
    /// If an index is out of range, or packed elements would begin inside a byte.
    pub fn index(&self, indices: &[Index]) -> Result<Self, Error> {
        let (layout, offset) = self.layout.index(indices)?;
        let address = self.address.wrapping_add_signed(byte_offset(offset, self.dtype)?);
        Ok(Self { address, layout, ..self.clone() })
    }

    /// The axes in reverse order.
    #[must_use]
    pub fn transposed(&self) -> Self {
        Self { layout: self.layout.transposed(), ..self.clone() }
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    ///
    /// If the number of elements differs, or the strides allow no such view.
    pub fn reshaped(&self, shape: &[i64]) -> Result<Self, LayoutError> {
        Ok(Self { layout: self.layout.reshaped(shape, self.dtype)?, ..self.clone() })
    }

    /// The same elements repeated to another shape: along axes of extent 1, and along new axes before the first. Axes of
    /// extent 1 before the first of the shape are left out. `None` if that does not lead to the shape.
    #[must_use]
    pub fn broadcast(&self, shape: &[i64]) -> Option<Self> {
        let (mut extents, mut strides) = (self.layout.shape(), self.layout.strides());
        while extents.len() > shape.len() && extents.first() == Some(&1) {
            (extents, strides) = (&extents[1..], &strides[1..]);
        }
        let new = shape.len().checked_sub(extents.len())?;
        let mut steps = vec![0; new];
        for ((found, stride), wanted) in extents.iter().zip(strides).zip(&shape[new..]) {
            match *found {
                found if found == *wanted => steps.push(*stride),
                1 => steps.push(0),
                _ => return None,
            }
        }
        let layout = Layout::new(shape, &steps, self.dtype).ok()?;
        Some(Self { layout, ..self.clone() })
    }

    /// The same bytes read as another type.
    ///
    /// # Errors
    ///
    /// If the layout does not allow it, or the address is not aligned for the new type.
    pub fn viewed(&self, dtype: Dtype) -> Result<Self, Error> {
        let layout = self.layout.viewed(self.dtype, dtype)?;
        let place = (self.device, self.memory);
        let view = Self::new(self.address, place, dtype, layout, self.readonly)?;
        Ok(Self { immutable: self.immutable, ..view })
    }
}

/// Checks shape, strides and the addresses of all elements. Every borrowed array passes this.
///
/// It is separate from the construction of a view, because moving a view through a `Result` costs more than either.
#[inline(always)]
pub(crate) fn check(
    address: u64,
    dtype: Dtype,
    (shape, strides): (&[i64], &[i64]),
) -> Result<Measure, Error> {
    let measure = Measure::take(shape, strides, dtype)?;
    check_address(address, dtype, measure)?;
    Ok(measure)
}

/// Checks the alignment of the first element, and that all elements are in the address space.
#[inline(always)]
fn check_address(address: u64, dtype: Dtype, measure: Measure) -> Result<(), AddressError> {
    let Measure { size, span } = measure;
    if size == 0 {
        return Ok(());
    }
    if address == 0 {
        return Err(AddressError::Null { elements: size });
    }
    let ends = i64::try_from(address).ok().and_then(|address| {
        address.checked_add(span.low).filter(|low| *low >= 0)?;
        address.checked_add(span.high)
    });
    if ends.is_none() {
        return Err(AddressError::OutOfRange { address, bytes: span.bytes() });
    }
    let alignment = u64::from(dtype.alignment());
    // Alignments are powers of two; a division would cost as much as the rest of this function.
    if address & (alignment - 1) != 0 {
        let dtype = dtype.name().into();
        return Err(AddressError::Misaligned { address, alignment, dtype });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(address: u64, shape: &[i64]) -> Result<View, Error> {
        let layout = Layout::compact(shape, Dtype::FLOAT32).unwrap();
        View::host(address, Dtype::FLOAT32, layout, false)
    }

    #[test]
    fn null_is_for_empty_arrays_only() {
        assert_eq!(floats(0, &[2, 3]), Err(AddressError::Null { elements: 6 }.into()));
        assert!(floats(0, &[0, 3]).is_ok());
    }

    #[test]
    fn a_view_stays_inside_the_address_space() {
        assert!(matches!(
            floats(u64::MAX - 7, &[4]),
            Err(Error::Address(AddressError::OutOfRange { .. }))
        ));
        let layout = Layout::new(&[4], &[-1], Dtype::FLOAT32).unwrap();
        assert!(matches!(
            View::host(8, Dtype::FLOAT32, layout, false),
            Err(Error::Address(AddressError::OutOfRange { .. }))
        ));
    }

    #[test]
    fn complex_numbers_align_as_their_parts() {
        let complex: Dtype = "complex128".parse().unwrap();
        let layout = Layout::compact(&[1], complex).unwrap();
        assert!(View::host(0x1008, complex, layout.clone(), false).is_ok());
        assert!(View::host(0x1004, complex, layout, false).is_err());
    }

    #[test]
    fn elements_are_repeated_as_numpy_does() {
        let repeated = |from: &[i64], to: &[i64]| {
            let view = floats(0x1000, from).unwrap().broadcast(to)?;
            Some(view.layout().strides().to_vec())
        };
        assert_eq!(repeated(&[3], &[2, 3]), Some(vec![0, 1]));
        assert_eq!(repeated(&[2, 1], &[2, 5]), Some(vec![1, 0]));
        assert_eq!(repeated(&[], &[2, 2]), Some(vec![0, 0]));
        assert_eq!(repeated(&[1, 1, 3], &[3]), Some(vec![1]));
        assert_eq!(repeated(&[2], &[2, 3]), None);
        assert_eq!(repeated(&[2, 3], &[3]), None);
    }

    #[test]
    fn a_slice_moves_the_address() {
        let view = floats(0x1000, &[2, 3]).unwrap();
        let slice = view.index(&[Index::At(1), Index::At(-1)]).unwrap();
        assert_eq!((slice.address(), slice.layout().rank()), (0x1014, 0));
        let back = Index::Slice { start: None, stop: None, step: Some(-1) };
        let slice = view.index(&[Index::Rest, back]).unwrap();
        assert_eq!((slice.address(), slice.extent()), (0x1008, (0x1000, 24)));
    }
}
