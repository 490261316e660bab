//! Halves and bfloat16, as 16 bits in a register.
//!
//! Each result is rounded once:
//! - Sums and differences are computed as floats. A float has 24 digits, at least twice 11 and two more, so rounding
//!   twice gives the same result as rounding once; results too small for all 24 digits are exact.
//! - A product of halves is exact as a float, one of bfloat16 as a double.
//! - `fma` may need more digits than any float of the CPU has, so it is done in integers.
//!
//! There is one NaN, `0x7fff`. Comparisons are those of floats.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "fields of floats are put together"
)]

use super::Direction;
use super::exact::{self, BFLOAT, DOUBLE, HALF, SINGLE};
use super::externs::externs;

const NAN: u16 = 0x7fff;
const SIGN: u16 = 0x8000;
const HALF_INFINITY: u16 = 0x7c00;
const BFLOAT_INFINITY: u16 = 0x7f80;

/// A float as a half.
#[must_use]
pub fn single_to_half(value: f32, direction: Direction) -> u16 {
    exact::convert(value.to_bits().into(), SINGLE, HALF, direction) as u16
}

/// A double as a half.
#[must_use]
pub fn double_to_half(value: f64, direction: Direction) -> u16 {
    exact::convert(value.to_bits(), DOUBLE, HALF, direction) as u16
}

/// A float as a bfloat16.
#[must_use]
pub fn single_to_bfloat(value: f32, direction: Direction) -> u16 {
    exact::convert(value.to_bits().into(), SINGLE, BFLOAT, direction) as u16
}

/// A double as a bfloat16.
#[must_use]
pub fn double_to_bfloat(value: f64, direction: Direction) -> u16 {
    exact::convert(value.to_bits(), DOUBLE, BFLOAT, direction) as u16
}

/// A half as a float.
#[must_use]
pub fn half_to_single(half: u16) -> f32 {
    let sign = u32::from(half & SIGN) << 16;
    let magnitude = half & !SIGN;
    let bits = match magnitude {
        0..0x400 => (f32::from(magnitude) / 16_777_216.0).to_bits(),
        0x400..HALF_INFINITY => (u32::from(magnitude) << 13) + (112 << 23),
        HALF_INFINITY => f32::INFINITY.to_bits(),
        _ => return f32::from_bits(0x7fff_ffff),
    };
    f32::from_bits(bits | sign)
}

/// A bfloat16 as a float.
#[must_use]
pub fn bfloat_to_single(bfloat: u16) -> f32 {
    if bfloat & !SIGN > BFLOAT_INFINITY {
        return f32::from_bits(0x7fff_ffff);
    }
    f32::from_bits(u32::from(bfloat) << 16)
}

/// The fast path, without 128-bit integers.
fn nearest_half(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16) as u16 & SIGN;
    let magnitude = value.abs();
    let bits = if magnitude.is_nan() {
        return NAN;
    } else if magnitude >= 65_520.0 {
        HALF_INFINITY
    } else if magnitude < 1.0 / 16_384.0 {
        // Halves this small are the multiples of two to the power of -24.
        (magnitude * 16_777_216.0).round_ties_even() as u16
    } else {
        let bits = magnitude.to_bits() - (112 << 23);
        ((bits + 0xfff + (bits >> 13 & 1)) >> 13) as u16
    };
    bits | sign
}

fn nearest_bfloat(value: f32) -> u16 {
    if value.is_nan() {
        return NAN;
    }
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// An integer in the same order as the floats, with -0 below 0.
fn place(bits: u16) -> i32 {
    let magnitude = i32::from(bits & !SIGN);
    if bits & SIGN == 0 { magnitude } else { -1 - magnitude }
}

/// The minimum or maximum. If one operand is NaN, the result is the other, or NaN if that is to be kept.
fn choose(a: u16, b: u16, infinity: u16, higher: bool, keep_nan: bool) -> u16 {
    match (a & !SIGN > infinity, b & !SIGN > infinity) {
        (true, true) => NAN,
        (true, false) if !keep_nan => b,
        (false, true) if !keep_nan => a,
        (false, false) => {
            if (place(a) > place(b)) == higher {
                a
            } else {
                b
            }
        }
        _ => NAN,
    }
}

externs! {
    /// To a float, exactly.
    f16_to_f32(a: F16) -> F32 = half_to_single(a);
    /// To a double, exactly.
    f16_to_f64(a: F16) -> F64 = half_to_single(a).into();
    /// From a float, to the nearest.
    f32_to_f16_nearest(a: F32) -> F16 = nearest_half(a);
    /// From a float, towards zero.
    f32_to_f16_zero(a: F32) -> F16 = single_to_half(a, Direction::Zero);
    /// From a float, down.
    f32_to_f16_down(a: F32) -> F16 = single_to_half(a, Direction::Down);
    /// From a float, up.
    f32_to_f16_up(a: F32) -> F16 = single_to_half(a, Direction::Up);
    /// From a double, to the nearest.
    f64_to_f16_nearest(a: F64) -> F16 = double_to_half(a, Direction::Nearest);
    /// From a double, towards zero.
    f64_to_f16_zero(a: F64) -> F16 = double_to_half(a, Direction::Zero);
    /// From a double, down.
    f64_to_f16_down(a: F64) -> F16 = double_to_half(a, Direction::Down);
    /// From a double, up.
    f64_to_f16_up(a: F64) -> F16 = double_to_half(a, Direction::Up);
    /// `a + b`, to the nearest.
    add_f16(a: F16, b: F16) -> F16 = nearest_half(half_to_single(a) + half_to_single(b));
    /// `a - b`, to the nearest.
    sub_f16(a: F16, b: F16) -> F16 = nearest_half(half_to_single(a) - half_to_single(b));
    /// `a * b`, to the nearest.
    mul_f16(a: F16, b: F16) -> F16 = nearest_half(half_to_single(a) * half_to_single(b));
    /// `a * b + c`, rounded once, to the nearest.
    fma_f16(a: F16, b: F16, c: F16) -> F16 =
        exact::fma(a.into(), b.into(), c.into(), HALF, Direction::Nearest) as u16;
    /// `-a`.
    neg_f16(a: F16) -> F16 = a ^ SIGN;
    /// `a` without its sign.
    abs_f16(a: F16) -> F16 = a & !SIGN;
    /// The minimum; a number wins over NaN.
    min_f16(a: F16, b: F16) -> F16 = choose(a, b, HALF_INFINITY, false, false);
    /// The minimum; NaN wins (`.NaN`).
    min_nan_f16(a: F16, b: F16) -> F16 = choose(a, b, HALF_INFINITY, false, true);
    /// The maximum; a number wins over NaN.
    max_f16(a: F16, b: F16) -> F16 = choose(a, b, HALF_INFINITY, true, false);
    /// The maximum; NaN wins (`.NaN`).
    max_nan_f16(a: F16, b: F16) -> F16 = choose(a, b, HALF_INFINITY, true, true);
    /// Two to the power of `a`.
    ex2_f16(a: F16) -> F16 = double_to_half(f16_to_f64(a).exp2(), Direction::Nearest);
    /// The hyperbolic tangent.
    tanh_f16(a: F16) -> F16 = double_to_half(f16_to_f64(a).tanh(), Direction::Nearest);
    /// To a float, exactly.
    bf16_to_f32(a: BF16) -> F32 = bfloat_to_single(a);
    /// To a double, exactly.
    bf16_to_f64(a: BF16) -> F64 = bfloat_to_single(a).into();
    /// From a float, to the nearest.
    f32_to_bf16_nearest(a: F32) -> BF16 = nearest_bfloat(a);
    /// From a float, towards zero.
    f32_to_bf16_zero(a: F32) -> BF16 = single_to_bfloat(a, Direction::Zero);
    /// From a float, down.
    f32_to_bf16_down(a: F32) -> BF16 = single_to_bfloat(a, Direction::Down);
    /// From a float, up.
    f32_to_bf16_up(a: F32) -> BF16 = single_to_bfloat(a, Direction::Up);
    /// From a double, to the nearest.
    f64_to_bf16_nearest(a: F64) -> BF16 = double_to_bfloat(a, Direction::Nearest);
    /// From a double, towards zero.
    f64_to_bf16_zero(a: F64) -> BF16 = double_to_bfloat(a, Direction::Zero);
    /// From a double, down.
    f64_to_bf16_down(a: F64) -> BF16 = double_to_bfloat(a, Direction::Down);
    /// From a double, up.
    f64_to_bf16_up(a: F64) -> BF16 = double_to_bfloat(a, Direction::Up);
    /// `a + b`, to the nearest.
    add_bf16(a: BF16, b: BF16) -> BF16 = nearest_bfloat(bfloat_to_single(a) + bfloat_to_single(b));
    /// `a - b`, to the nearest.
    sub_bf16(a: BF16, b: BF16) -> BF16 = nearest_bfloat(bfloat_to_single(a) - bfloat_to_single(b));
    /// `a * b`, to the nearest.
    mul_bf16(a: BF16, b: BF16) -> BF16 = double_to_bfloat(bf16_to_f64(a) * bf16_to_f64(b), Direction::Nearest);
    /// `a * b + c`, rounded once, to the nearest.
    fma_bf16(a: BF16, b: BF16, c: BF16) -> BF16 =
        exact::fma(a.into(), b.into(), c.into(), BFLOAT, Direction::Nearest) as u16;
    /// `-a`.
    neg_bf16(a: BF16) -> BF16 = a ^ SIGN;
    /// `a` without its sign.
    abs_bf16(a: BF16) -> BF16 = a & !SIGN;
    /// The minimum; a number wins over NaN.
    min_bf16(a: BF16, b: BF16) -> BF16 = choose(a, b, BFLOAT_INFINITY, false, false);
    /// The minimum; NaN wins (`.NaN`).
    min_nan_bf16(a: BF16, b: BF16) -> BF16 = choose(a, b, BFLOAT_INFINITY, false, true);
    /// The maximum; a number wins over NaN.
    max_bf16(a: BF16, b: BF16) -> BF16 = choose(a, b, BFLOAT_INFINITY, true, false);
    /// The maximum; NaN wins (`.NaN`).
    max_nan_bf16(a: BF16, b: BF16) -> BF16 = choose(a, b, BFLOAT_INFINITY, true, true);
    /// Two to the power of `a`.
    ex2_bf16(a: BF16) -> BF16 = double_to_bfloat(bf16_to_f64(a).exp2(), Direction::Nearest);
    /// The hyperbolic tangent.
    tanh_bf16(a: BF16) -> BF16 = double_to_bfloat(bf16_to_f64(a).tanh(), Direction::Nearest);
}

#[cfg(test)]
mod tests;
