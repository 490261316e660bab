//! Which element types, layouts and numbers suit a parameter.
#![forbid(unsafe_code)]

use crate::dtype::Dtype;
use crate::error::{Place, SignatureError};
use crate::signature::{Scalar, Type};

/// Whether a pointer may refer to elements of this type.
pub(super) fn is_element(to: &Type, dtype: Dtype) -> bool {
    match to {
        Type::Void | Type::Other(_) => true,
        Type::Scalar(Scalar::Char) => dtype == Dtype::INT8 || dtype == Dtype::UINT8,
        Type::Scalar(_) => to.dtype() == Some(dtype),
        Type::Complex(element) => {
            to.dtype() == Some(dtype) || Type::Scalar(*element).dtype() == Some(dtype)
        }
        Type::Vector { element, lanes } => {
            let pairs = match (element, lanes) {
                (Scalar::Float32, 2) => dtype == Dtype::COMPLEX64,
                (Scalar::Float64, 2) => dtype == Dtype::COMPLEX128,
                _ => false,
            };
            pairs || is_element(&Type::Scalar(*element), dtype)
        }
        Type::Pointer { .. } => dtype == Dtype::UINT64 || dtype == Dtype::INT64,
        Type::Array { of, .. } => is_element(of, dtype),
    }
}

/// The element types that a pointer to this type accepts.
///
/// ```
/// use gpulend::kernel::elements_of;
/// use gpulend::signature::parse_type;
///
/// let names: Vec<_> = elements_of(&parse_type("float2")).map(gpulend::Dtype::name).collect();
/// assert_eq!(names, ["float32", "complex64"]);
/// ```
pub fn elements_of(to: &Type) -> impl Iterator<Item = Dtype> {
    Dtype::all().filter(|dtype| is_element(to, *dtype))
}

/// The error for an array whose element type does not suit the pointer.
#[cold]
pub(super) fn unfit(place: Box<Place>, to: &Type, constant: bool, found: Dtype) -> SignatureError {
    let fits: Box<[&'static str]> = elements_of(to).map(Dtype::name).collect();
    let scalar = Scalar::all().into_iter().find(|scalar| scalar.dtype() == Some(found));
    let declare = scalar.map(|scalar| {
        let kind = Type::Pointer { to: Box::new(Type::Scalar(scalar)), constant };
        kind.to_string().into()
    });
    SignatureError::Dtype { place, found: found.name().into(), fits, declare }
}

/// The number of elements of a row-major contiguous array, otherwise `None`. No intermediate value can
/// overflow.
#[inline]
pub(super) fn compact_elements(shape: &[i64], strides: &[i64]) -> Option<i64> {
    let mut step: i64 = 1;
    for (extent, stride) in shape.iter().zip(strides).rev() {
        if *extent > 1 && *stride != step {
            // An empty array counts as contiguous.
            return shape.contains(&0).then_some(0);
        }
        step = step.saturating_mul(*extent);
    }
    Some(step)
}

pub(super) fn element_bytes(scalar: Scalar) -> usize {
    Type::Scalar(scalar).size().map_or(8, |size| size as usize)
}

#[allow(clippy::cast_precision_loss, reason = "as a float parameter rounds")]
pub(super) fn wide(value: i128) -> f64 {
    value as f64
}

pub(super) const fn infinite(scalar: Scalar) -> u16 {
    if matches!(scalar, Scalar::Float16) { 0x7C00 } else { 0x7F80 }
}

pub(super) fn half(value: f64) -> u16 {
    half::f16::from_f32(narrowed(value)).to_bits()
}

pub(super) fn bfloat(value: f64) -> u16 {
    half::bf16::from_f32(narrowed(value)).to_bits()
}

/// Rounds to fewer bits, to odd, so that a second rounding gives the correctly rounded result.
#[allow(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn narrowed(value: f64) -> f32 {
    let near = value as f32;
    if value.is_nan() || f64::from(near) == value {
        return near;
    }
    let away = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(away)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_once() {
        assert_eq!(half(2_049.0), 0x6800);
        assert_eq!(half(2_049.000_000_1), 0x6801);
        assert_eq!(half(-2_049.000_000_1), 0xE801);
        assert_eq!(half(65_519.999), 0x7BFF);
        assert_eq!(half(65_520.0), 0x7C00);
        assert_eq!(half(1e300), 0x7C00);
        assert_eq!(half(5e-324), 0);
        assert_eq!(half(-0.0), 0x8000);
        assert_eq!(bfloat(1.0 + 2.0_f64.powi(-8) + 1e-12), 0x3F81);
        assert!(half(f64::NAN) & 0x7FFF > 0x7C00);
    }
}
