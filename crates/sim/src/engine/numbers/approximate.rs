//! `.approx`: PTX bounds the error, and the CPU's functions are more accurate.
//!
//! NaN results are PTX's NaN for floats, `0x7fffffff`.

use super::externs::externs;

/// The float, with PTX's NaN for any NaN.
pub(super) fn one_nan(value: f32) -> f32 {
    if value.is_nan() { f32::from_bits(0x7fff_ffff) } else { value }
}

externs! {
    /// The sine.
    sin_approx_f32(a: F32) -> F32 = one_nan(a.sin());
    /// The cosine.
    cos_approx_f32(a: F32) -> F32 = one_nan(a.cos());
    /// Two to the power of `a`.
    ex2_approx_f32(a: F32) -> F32 = one_nan(a.exp2());
    /// The logarithm to base two.
    lg2_approx_f32(a: F32) -> F32 = one_nan(a.log2());
    /// The hyperbolic tangent.
    tanh_approx_f32(a: F32) -> F32 = one_nan(a.tanh());
    /// `1 / a`.
    rcp_approx_f32(a: F32) -> F32 = one_nan(a.recip());
    /// The square root.
    sqrt_approx_f32(a: F32) -> F32 = one_nan(a.sqrt());
    /// One over the square root. Computed as a double, so that it is rounded almost correctly.
    rsqrt_approx_f32(a: F32) -> F32 = one_nan(rsqrt(a.into()));
    /// `a / b`.
    div_approx_f32(a: F32, b: F32) -> F32 = one_nan(a / b);
    /// `1 / a`.
    rcp_approx_f64(a: F64) -> F64 = a.recip();
    /// One over the square root.
    rsqrt_approx_f64(a: F64) -> F64 = a.sqrt().recip();
}

#[expect(clippy::cast_possible_truncation, reason = "the result is a float")]
fn rsqrt(value: f64) -> f32 {
    value.sqrt().recip() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_special_cases_are_those_of_ptx() {
        let nan = 0x7fff_ffff;
        assert_eq!(sin_approx_f32(f32::INFINITY).to_bits(), nan);
        assert_eq!(sin_approx_f32(-0.0).to_bits(), (-0.0_f32).to_bits());
        assert_eq!(cos_approx_f32(f32::NEG_INFINITY).to_bits(), nan);
        assert_eq!(cos_approx_f32(-0.0), 1.0);
        assert_eq!(ex2_approx_f32(f32::NEG_INFINITY).to_bits(), 0);
        assert_eq!(ex2_approx_f32(-0.0), 1.0);
        assert_eq!(ex2_approx_f32(f32::INFINITY), f32::INFINITY);
        assert_eq!(lg2_approx_f32(-1.0).to_bits(), nan);
        assert_eq!(lg2_approx_f32(-0.0), f32::NEG_INFINITY);
        assert_eq!(lg2_approx_f32(8.0), 3.0);
        assert_eq!(tanh_approx_f32(f32::NEG_INFINITY), -1.0);
        assert_eq!(rcp_approx_f32(-0.0), f32::NEG_INFINITY);
        assert_eq!(rcp_approx_f32(f32::NEG_INFINITY).to_bits(), (-0.0_f32).to_bits());
        assert_eq!(sqrt_approx_f32(-1.0).to_bits(), nan);
        assert_eq!(sqrt_approx_f32(-0.0).to_bits(), (-0.0_f32).to_bits());
        assert_eq!(rsqrt_approx_f32(-0.0), f32::NEG_INFINITY);
        assert_eq!(rsqrt_approx_f32(f32::INFINITY).to_bits(), 0);
        assert_eq!(rsqrt_approx_f32(-1.0).to_bits(), nan);
        assert_eq!(rsqrt_approx_f32(16.0), 0.25);
        assert_eq!(rsqrt_approx_f64(16.0), 0.25);
        assert_eq!(rcp_approx_f64(-0.0), f64::NEG_INFINITY);
        assert_eq!(div_approx_f32(0.0, 0.0).to_bits(), nan);
    }
}
