//! A parameter in a few bytes, for the fast path.
#![forbid(unsafe_code)]

use crate::device::Device;
use crate::dtype::Dtype;
use crate::import::raw::ViewRef;
use crate::kernel::elements::compact_elements;
use crate::signature::{Parameter, Scalar, Type};

/// What the fast path accepts for a parameter. The checker accepts the rest.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// A pointer to elements of one type.
    Array {
        dtype: Dtype,
        constant: bool,
    },
    Integer {
        bits: u8,
        signed: bool,
    },
    Float32,
    Float64,
    Other,
}

impl Slot {
    pub(super) fn of(parameter: &Parameter) -> Self {
        match &parameter.kind {
            Some(Type::Pointer { to, constant }) => match &**to {
                Type::Scalar(scalar) => scalar
                    .dtype()
                    .map_or(Self::Other, |dtype| Self::Array { dtype, constant: *constant }),
                _ => Self::Other,
            },
            Some(Type::Scalar(Scalar::Int { bits, signed })) if *bits <= 64 => {
                Self::Integer { bits: *bits, signed: *signed }
            }
            Some(Type::Scalar(Scalar::Float32)) => Self::Float32,
            Some(Type::Scalar(Scalar::Float64)) => Self::Float64,
            _ => Self::Other,
        }
    }

    /// Accepts an array of a device if it suits. Returns whether the kernel may write to it, and its size in
    /// bytes.
    #[inline(always)]
    pub(super) fn take_array(self, device: Device, view: &ViewRef<'_>) -> Option<(bool, u64)> {
        let Self::Array { dtype, constant } = self else { return None };
        let suits = view.place.0 == device && view.dtype == dtype;
        if !suits || (view.readonly && !constant) {
            return None;
        }
        let elements = compact_elements(view.shape, view.strides)?;
        let bits = elements.unsigned_abs().wrapping_mul(dtype.storage_bits().into());
        Some((!constant, bits.div_ceil(8)))
    }

    /// Accepts an integer if it fits.
    #[inline(always)]
    pub(super) fn take_integer(self, value: i64) -> Option<u64> {
        let Self::Integer { bits, signed } = self else { return None };
        let spare = 64 - u32::from(bits);
        let kept = if signed {
            (value << spare) >> spare
        } else {
            ((value << spare).cast_unsigned() >> spare).cast_signed()
        };
        (kept == value && (signed || value >= 0)).then_some(value.cast_unsigned())
    }

    /// Accepts a floating-point number if it fits.
    #[inline(always)]
    pub(super) fn take_float(self, value: f64) -> Option<u64> {
        match self {
            Self::Float64 => Some(value.to_bits()),
            Self::Float32 => {
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "rounding is what a float parameter means"
                )]
                let narrow = value as f32;
                let fits = narrow.is_finite() || !value.is_finite();
                fits.then_some(narrow.to_bits().into())
            }
            _ => None,
        }
    }
}
