//! Floating-point arithmetic that does not round to nearest.
//!
//! Named like `add_f32_zero`. `nearest` is the CPU's own rounding; for `fma` it is here for CPUs without the
//! instruction. Floats have one NaN, `0x7fffffff`. Doubles keep the NaN of the first operand that is one.
#![expect(clippy::cast_possible_truncation, reason = "a float's bits are the low half")]

use super::Direction;
use super::approximate::one_nan;
use super::exact::{self, DOUBLE, SINGLE};
use super::externs::externs;

macro_rules! single {
    ($op:ident($($argument:ident),*), $direction:ident) => {
        f32::from_bits(exact::$op($($argument.to_bits().into(),)* SINGLE, Direction::$direction) as u32)
    };
}

macro_rules! double {
    ($op:ident($($argument:ident),*), $direction:ident) => {
        f64::from_bits(exact::$op($($argument.to_bits(),)* DOUBLE, Direction::$direction))
    };
}

externs! {
    /// `a + b`, towards zero.
    add_f32_zero(a: F32, b: F32) -> F32 = single!(add(a, b), Zero);
    /// `a + b`, down.
    add_f32_down(a: F32, b: F32) -> F32 = single!(add(a, b), Down);
    /// `a + b`, up.
    add_f32_up(a: F32, b: F32) -> F32 = single!(add(a, b), Up);
    /// `a + b`, towards zero.
    add_f64_zero(a: F64, b: F64) -> F64 = double!(add(a, b), Zero);
    /// `a + b`, down.
    add_f64_down(a: F64, b: F64) -> F64 = double!(add(a, b), Down);
    /// `a + b`, up.
    add_f64_up(a: F64, b: F64) -> F64 = double!(add(a, b), Up);
    /// `a - b`, towards zero.
    sub_f32_zero(a: F32, b: F32) -> F32 = single!(sub(a, b), Zero);
    /// `a - b`, down.
    sub_f32_down(a: F32, b: F32) -> F32 = single!(sub(a, b), Down);
    /// `a - b`, up.
    sub_f32_up(a: F32, b: F32) -> F32 = single!(sub(a, b), Up);
    /// `a - b`, towards zero.
    sub_f64_zero(a: F64, b: F64) -> F64 = double!(sub(a, b), Zero);
    /// `a - b`, down.
    sub_f64_down(a: F64, b: F64) -> F64 = double!(sub(a, b), Down);
    /// `a - b`, up.
    sub_f64_up(a: F64, b: F64) -> F64 = double!(sub(a, b), Up);
    /// `a * b`, towards zero.
    mul_f32_zero(a: F32, b: F32) -> F32 = single!(mul(a, b), Zero);
    /// `a * b`, down.
    mul_f32_down(a: F32, b: F32) -> F32 = single!(mul(a, b), Down);
    /// `a * b`, up.
    mul_f32_up(a: F32, b: F32) -> F32 = single!(mul(a, b), Up);
    /// `a * b`, towards zero.
    mul_f64_zero(a: F64, b: F64) -> F64 = double!(mul(a, b), Zero);
    /// `a * b`, down.
    mul_f64_down(a: F64, b: F64) -> F64 = double!(mul(a, b), Down);
    /// `a * b`, up.
    mul_f64_up(a: F64, b: F64) -> F64 = double!(mul(a, b), Up);
    /// `a / b`, towards zero.
    div_f32_zero(a: F32, b: F32) -> F32 = single!(div(a, b), Zero);
    /// `a / b`, down.
    div_f32_down(a: F32, b: F32) -> F32 = single!(div(a, b), Down);
    /// `a / b`, up.
    div_f32_up(a: F32, b: F32) -> F32 = single!(div(a, b), Up);
    /// `a / b`, towards zero.
    div_f64_zero(a: F64, b: F64) -> F64 = double!(div(a, b), Zero);
    /// `a / b`, down.
    div_f64_down(a: F64, b: F64) -> F64 = double!(div(a, b), Down);
    /// `a / b`, up.
    div_f64_up(a: F64, b: F64) -> F64 = double!(div(a, b), Up);
    /// `a * b + c`, rounded once to the nearest.
    fma_f32_nearest(a: F32, b: F32, c: F32) -> F32 = one_nan(a.mul_add(b, c));
    /// `a * b + c`, rounded once towards zero.
    fma_f32_zero(a: F32, b: F32, c: F32) -> F32 = single!(fma(a, b, c), Zero);
    /// `a * b + c`, rounded once down.
    fma_f32_down(a: F32, b: F32, c: F32) -> F32 = single!(fma(a, b, c), Down);
    /// `a * b + c`, rounded once up.
    fma_f32_up(a: F32, b: F32, c: F32) -> F32 = single!(fma(a, b, c), Up);
    /// `a * b + c`, rounded once to the nearest.
    fma_f64_nearest(a: F64, b: F64, c: F64) -> F64 = a.mul_add(b, c);
    /// `a * b + c`, rounded once towards zero.
    fma_f64_zero(a: F64, b: F64, c: F64) -> F64 = double!(fma(a, b, c), Zero);
    /// `a * b + c`, rounded once down.
    fma_f64_down(a: F64, b: F64, c: F64) -> F64 = double!(fma(a, b, c), Down);
    /// `a * b + c`, rounded once up.
    fma_f64_up(a: F64, b: F64, c: F64) -> F64 = double!(fma(a, b, c), Up);
    /// The square root, towards zero.
    sqrt_f32_zero(a: F32) -> F32 = single!(sqrt(a), Zero);
    /// The square root, down.
    sqrt_f32_down(a: F32) -> F32 = single!(sqrt(a), Down);
    /// The square root, up.
    sqrt_f32_up(a: F32) -> F32 = single!(sqrt(a), Up);
    /// The square root, towards zero.
    sqrt_f64_zero(a: F64) -> F64 = double!(sqrt(a), Zero);
    /// The square root, down.
    sqrt_f64_down(a: F64) -> F64 = double!(sqrt(a), Down);
    /// The square root, up.
    sqrt_f64_up(a: F64) -> F64 = double!(sqrt(a), Up);
    /// `1 / a`, towards zero.
    rcp_f32_zero(a: F32) -> F32 = div_f32_zero(1.0, a);
    /// `1 / a`, down.
    rcp_f32_down(a: F32) -> F32 = div_f32_down(1.0, a);
    /// `1 / a`, up.
    rcp_f32_up(a: F32) -> F32 = div_f32_up(1.0, a);
    /// `1 / a`, towards zero.
    rcp_f64_zero(a: F64) -> F64 = div_f64_zero(1.0, a);
    /// `1 / a`, down.
    rcp_f64_down(a: F64) -> F64 = div_f64_down(1.0, a);
    /// `1 / a`, up.
    rcp_f64_up(a: F64) -> F64 = div_f64_up(1.0, a);
}
