//! Conversions between types, in each rounding mode.
//!
//! Named as `f64_to_s32_zero`. A value out of an integer's range becomes the nearest integer in range. NaN becomes 0,
//! but from a double or into 64 bits it becomes the integer with only its highest bit set, as PTX 9.0 says.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Rust's casts of floats give the nearest integer that fits, which is what is wanted"
)]

use super::Direction;
use super::exact::{self, BFLOAT, DOUBLE, Format, HALF, SINGLE};
use super::externs::externs;

fn whole(value: f64, direction: Direction) -> f64 {
    match direction {
        Direction::Nearest => value.round_ties_even(),
        Direction::Zero => value.trunc(),
        Direction::Down => value.floor(),
        Direction::Up => value.ceil(),
    }
}

fn single(value: i128, direction: Direction) -> f32 {
    f32::from_bits(exact::from_integer(value, SINGLE, direction) as u32)
}

fn double(value: i128, direction: Direction) -> f64 {
    f64::from_bits(exact::from_integer(value, DOUBLE, direction))
}

fn sixteen(value: i128, format: Format, direction: Direction) -> u16 {
    exact::from_integer(value, format, direction) as u16
}

fn narrow(value: f64, direction: Direction) -> f32 {
    f32::from_bits(exact::convert(value.to_bits(), DOUBLE, SINGLE, direction) as u32)
}

/// Rounding a float as a double is exact, and the result is a float again.
fn whole_single(value: f32, direction: Direction) -> f32 {
    if value.is_nan() { f32::from_bits(0x7fff_ffff) } else { whole(value.into(), direction) as f32 }
}

/// A float rounded to 11 digits, ties away from zero.
fn tf32(value: f32) -> f32 {
    if !value.is_finite() {
        return if value.is_nan() { f32::from_bits(0x7fff_ffff) } else { value };
    }
    // A carry out of the significand is the next power of two, or infinity.
    f32::from_bits((value.to_bits() + 0x1000) & 0xffff_e000)
}

externs! {
    /// `.f32` to `.tf32`, to the nearest, ties away from zero.
    f32_to_tf32_away(a: F32) -> F32 = tf32(a);
    /// `.s32` to `.f16`, to the nearest.
    s32_to_f16_nearest(a: S32) -> F16 = sixteen(a.into(), HALF, Direction::Nearest);
    /// `.s32` to `.f16`, towards zero.
    s32_to_f16_zero(a: S32) -> F16 = sixteen(a.into(), HALF, Direction::Zero);
    /// `.s32` to `.f16`, down.
    s32_to_f16_down(a: S32) -> F16 = sixteen(a.into(), HALF, Direction::Down);
    /// `.s32` to `.f16`, up.
    s32_to_f16_up(a: S32) -> F16 = sixteen(a.into(), HALF, Direction::Up);
    /// `.s32` to `.bf16`, to the nearest.
    s32_to_bf16_nearest(a: S32) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Nearest);
    /// `.s32` to `.bf16`, towards zero.
    s32_to_bf16_zero(a: S32) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Zero);
    /// `.s32` to `.bf16`, down.
    s32_to_bf16_down(a: S32) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Down);
    /// `.s32` to `.bf16`, up.
    s32_to_bf16_up(a: S32) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Up);
    /// `.s32` to `.f32`, to the nearest.
    s32_to_f32_nearest(a: S32) -> F32 = single(a.into(), Direction::Nearest);
    /// `.s32` to `.f32`, towards zero.
    s32_to_f32_zero(a: S32) -> F32 = single(a.into(), Direction::Zero);
    /// `.s32` to `.f32`, down.
    s32_to_f32_down(a: S32) -> F32 = single(a.into(), Direction::Down);
    /// `.s32` to `.f32`, up.
    s32_to_f32_up(a: S32) -> F32 = single(a.into(), Direction::Up);
    /// `.s32` to `.f64`, to the nearest.
    s32_to_f64_nearest(a: S32) -> F64 = double(a.into(), Direction::Nearest);
    /// `.s32` to `.f64`, towards zero.
    s32_to_f64_zero(a: S32) -> F64 = double(a.into(), Direction::Zero);
    /// `.s32` to `.f64`, down.
    s32_to_f64_down(a: S32) -> F64 = double(a.into(), Direction::Down);
    /// `.s32` to `.f64`, up.
    s32_to_f64_up(a: S32) -> F64 = double(a.into(), Direction::Up);
    /// `.u32` to `.f16`, to the nearest.
    u32_to_f16_nearest(a: U32) -> F16 = sixteen(a.into(), HALF, Direction::Nearest);
    /// `.u32` to `.f16`, towards zero.
    u32_to_f16_zero(a: U32) -> F16 = sixteen(a.into(), HALF, Direction::Zero);
    /// `.u32` to `.f16`, down.
    u32_to_f16_down(a: U32) -> F16 = sixteen(a.into(), HALF, Direction::Down);
    /// `.u32` to `.f16`, up.
    u32_to_f16_up(a: U32) -> F16 = sixteen(a.into(), HALF, Direction::Up);
    /// `.u32` to `.bf16`, to the nearest.
    u32_to_bf16_nearest(a: U32) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Nearest);
    /// `.u32` to `.bf16`, towards zero.
    u32_to_bf16_zero(a: U32) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Zero);
    /// `.u32` to `.bf16`, down.
    u32_to_bf16_down(a: U32) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Down);
    /// `.u32` to `.bf16`, up.
    u32_to_bf16_up(a: U32) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Up);
    /// `.u32` to `.f32`, to the nearest.
    u32_to_f32_nearest(a: U32) -> F32 = single(a.into(), Direction::Nearest);
    /// `.u32` to `.f32`, towards zero.
    u32_to_f32_zero(a: U32) -> F32 = single(a.into(), Direction::Zero);
    /// `.u32` to `.f32`, down.
    u32_to_f32_down(a: U32) -> F32 = single(a.into(), Direction::Down);
    /// `.u32` to `.f32`, up.
    u32_to_f32_up(a: U32) -> F32 = single(a.into(), Direction::Up);
    /// `.u32` to `.f64`, to the nearest.
    u32_to_f64_nearest(a: U32) -> F64 = double(a.into(), Direction::Nearest);
    /// `.u32` to `.f64`, towards zero.
    u32_to_f64_zero(a: U32) -> F64 = double(a.into(), Direction::Zero);
    /// `.u32` to `.f64`, down.
    u32_to_f64_down(a: U32) -> F64 = double(a.into(), Direction::Down);
    /// `.u32` to `.f64`, up.
    u32_to_f64_up(a: U32) -> F64 = double(a.into(), Direction::Up);
    /// `.s64` to `.f16`, to the nearest.
    s64_to_f16_nearest(a: S64) -> F16 = sixteen(a.into(), HALF, Direction::Nearest);
    /// `.s64` to `.f16`, towards zero.
    s64_to_f16_zero(a: S64) -> F16 = sixteen(a.into(), HALF, Direction::Zero);
    /// `.s64` to `.f16`, down.
    s64_to_f16_down(a: S64) -> F16 = sixteen(a.into(), HALF, Direction::Down);
    /// `.s64` to `.f16`, up.
    s64_to_f16_up(a: S64) -> F16 = sixteen(a.into(), HALF, Direction::Up);
    /// `.s64` to `.bf16`, to the nearest.
    s64_to_bf16_nearest(a: S64) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Nearest);
    /// `.s64` to `.bf16`, towards zero.
    s64_to_bf16_zero(a: S64) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Zero);
    /// `.s64` to `.bf16`, down.
    s64_to_bf16_down(a: S64) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Down);
    /// `.s64` to `.bf16`, up.
    s64_to_bf16_up(a: S64) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Up);
    /// `.s64` to `.f32`, to the nearest.
    s64_to_f32_nearest(a: S64) -> F32 = single(a.into(), Direction::Nearest);
    /// `.s64` to `.f32`, towards zero.
    s64_to_f32_zero(a: S64) -> F32 = single(a.into(), Direction::Zero);
    /// `.s64` to `.f32`, down.
    s64_to_f32_down(a: S64) -> F32 = single(a.into(), Direction::Down);
    /// `.s64` to `.f32`, up.
    s64_to_f32_up(a: S64) -> F32 = single(a.into(), Direction::Up);
    /// `.s64` to `.f64`, to the nearest.
    s64_to_f64_nearest(a: S64) -> F64 = double(a.into(), Direction::Nearest);
    /// `.s64` to `.f64`, towards zero.
    s64_to_f64_zero(a: S64) -> F64 = double(a.into(), Direction::Zero);
    /// `.s64` to `.f64`, down.
    s64_to_f64_down(a: S64) -> F64 = double(a.into(), Direction::Down);
    /// `.s64` to `.f64`, up.
    s64_to_f64_up(a: S64) -> F64 = double(a.into(), Direction::Up);
    /// `.u64` to `.f16`, to the nearest.
    u64_to_f16_nearest(a: U64) -> F16 = sixteen(a.into(), HALF, Direction::Nearest);
    /// `.u64` to `.f16`, towards zero.
    u64_to_f16_zero(a: U64) -> F16 = sixteen(a.into(), HALF, Direction::Zero);
    /// `.u64` to `.f16`, down.
    u64_to_f16_down(a: U64) -> F16 = sixteen(a.into(), HALF, Direction::Down);
    /// `.u64` to `.f16`, up.
    u64_to_f16_up(a: U64) -> F16 = sixteen(a.into(), HALF, Direction::Up);
    /// `.u64` to `.bf16`, to the nearest.
    u64_to_bf16_nearest(a: U64) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Nearest);
    /// `.u64` to `.bf16`, towards zero.
    u64_to_bf16_zero(a: U64) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Zero);
    /// `.u64` to `.bf16`, down.
    u64_to_bf16_down(a: U64) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Down);
    /// `.u64` to `.bf16`, up.
    u64_to_bf16_up(a: U64) -> BF16 = sixteen(a.into(), BFLOAT, Direction::Up);
    /// `.u64` to `.f32`, to the nearest.
    u64_to_f32_nearest(a: U64) -> F32 = single(a.into(), Direction::Nearest);
    /// `.u64` to `.f32`, towards zero.
    u64_to_f32_zero(a: U64) -> F32 = single(a.into(), Direction::Zero);
    /// `.u64` to `.f32`, down.
    u64_to_f32_down(a: U64) -> F32 = single(a.into(), Direction::Down);
    /// `.u64` to `.f32`, up.
    u64_to_f32_up(a: U64) -> F32 = single(a.into(), Direction::Up);
    /// `.u64` to `.f64`, to the nearest.
    u64_to_f64_nearest(a: U64) -> F64 = double(a.into(), Direction::Nearest);
    /// `.u64` to `.f64`, towards zero.
    u64_to_f64_zero(a: U64) -> F64 = double(a.into(), Direction::Zero);
    /// `.u64` to `.f64`, down.
    u64_to_f64_down(a: U64) -> F64 = double(a.into(), Direction::Down);
    /// `.u64` to `.f64`, up.
    u64_to_f64_up(a: U64) -> F64 = double(a.into(), Direction::Up);
    /// `.f32` to `.s8`, to the nearest.
    f32_to_s8_nearest(a: F32) -> S8 = whole(a.into(), Direction::Nearest) as i8;
    /// `.f32` to `.s8`, towards zero.
    f32_to_s8_zero(a: F32) -> S8 = whole(a.into(), Direction::Zero) as i8;
    /// `.f32` to `.s8`, down.
    f32_to_s8_down(a: F32) -> S8 = whole(a.into(), Direction::Down) as i8;
    /// `.f32` to `.s8`, up.
    f32_to_s8_up(a: F32) -> S8 = whole(a.into(), Direction::Up) as i8;
    /// `.f32` to `.u8`, to the nearest.
    f32_to_u8_nearest(a: F32) -> U8 = whole(a.into(), Direction::Nearest) as u8;
    /// `.f32` to `.u8`, towards zero.
    f32_to_u8_zero(a: F32) -> U8 = whole(a.into(), Direction::Zero) as u8;
    /// `.f32` to `.u8`, down.
    f32_to_u8_down(a: F32) -> U8 = whole(a.into(), Direction::Down) as u8;
    /// `.f32` to `.u8`, up.
    f32_to_u8_up(a: F32) -> U8 = whole(a.into(), Direction::Up) as u8;
    /// `.f32` to `.s16`, to the nearest.
    f32_to_s16_nearest(a: F32) -> S16 = whole(a.into(), Direction::Nearest) as i16;
    /// `.f32` to `.s16`, towards zero.
    f32_to_s16_zero(a: F32) -> S16 = whole(a.into(), Direction::Zero) as i16;
    /// `.f32` to `.s16`, down.
    f32_to_s16_down(a: F32) -> S16 = whole(a.into(), Direction::Down) as i16;
    /// `.f32` to `.s16`, up.
    f32_to_s16_up(a: F32) -> S16 = whole(a.into(), Direction::Up) as i16;
    /// `.f32` to `.u16`, to the nearest.
    f32_to_u16_nearest(a: F32) -> U16 = whole(a.into(), Direction::Nearest) as u16;
    /// `.f32` to `.u16`, towards zero.
    f32_to_u16_zero(a: F32) -> U16 = whole(a.into(), Direction::Zero) as u16;
    /// `.f32` to `.u16`, down.
    f32_to_u16_down(a: F32) -> U16 = whole(a.into(), Direction::Down) as u16;
    /// `.f32` to `.u16`, up.
    f32_to_u16_up(a: F32) -> U16 = whole(a.into(), Direction::Up) as u16;
    /// `.f32` to `.s32`, to the nearest.
    f32_to_s32_nearest(a: F32) -> S32 = whole(a.into(), Direction::Nearest) as i32;
    /// `.f32` to `.s32`, towards zero.
    f32_to_s32_zero(a: F32) -> S32 = whole(a.into(), Direction::Zero) as i32;
    /// `.f32` to `.s32`, down.
    f32_to_s32_down(a: F32) -> S32 = whole(a.into(), Direction::Down) as i32;
    /// `.f32` to `.s32`, up.
    f32_to_s32_up(a: F32) -> S32 = whole(a.into(), Direction::Up) as i32;
    /// `.f32` to `.u32`, to the nearest.
    f32_to_u32_nearest(a: F32) -> U32 = whole(a.into(), Direction::Nearest) as u32;
    /// `.f32` to `.u32`, towards zero.
    f32_to_u32_zero(a: F32) -> U32 = whole(a.into(), Direction::Zero) as u32;
    /// `.f32` to `.u32`, down.
    f32_to_u32_down(a: F32) -> U32 = whole(a.into(), Direction::Down) as u32;
    /// `.f32` to `.u32`, up.
    f32_to_u32_up(a: F32) -> U32 = whole(a.into(), Direction::Up) as u32;
    /// `.f32` to `.s64`, to the nearest.
    f32_to_s64_nearest(a: F32) -> S64 = if a.is_nan() { i64::MIN } else { whole(a.into(), Direction::Nearest) as i64 };
    /// `.f32` to `.s64`, towards zero.
    f32_to_s64_zero(a: F32) -> S64 = if a.is_nan() { i64::MIN } else { whole(a.into(), Direction::Zero) as i64 };
    /// `.f32` to `.s64`, down.
    f32_to_s64_down(a: F32) -> S64 = if a.is_nan() { i64::MIN } else { whole(a.into(), Direction::Down) as i64 };
    /// `.f32` to `.s64`, up.
    f32_to_s64_up(a: F32) -> S64 = if a.is_nan() { i64::MIN } else { whole(a.into(), Direction::Up) as i64 };
    /// `.f32` to `.u64`, to the nearest.
    f32_to_u64_nearest(a: F32) -> U64 = if a.is_nan() { 1 << 63 } else { whole(a.into(), Direction::Nearest) as u64 };
    /// `.f32` to `.u64`, towards zero.
    f32_to_u64_zero(a: F32) -> U64 = if a.is_nan() { 1 << 63 } else { whole(a.into(), Direction::Zero) as u64 };
    /// `.f32` to `.u64`, down.
    f32_to_u64_down(a: F32) -> U64 = if a.is_nan() { 1 << 63 } else { whole(a.into(), Direction::Down) as u64 };
    /// `.f32` to `.u64`, up.
    f32_to_u64_up(a: F32) -> U64 = if a.is_nan() { 1 << 63 } else { whole(a.into(), Direction::Up) as u64 };
    /// `.f64` to `.s8`, to the nearest.
    f64_to_s8_nearest(a: F64) -> S8 = if a.is_nan() { i8::MIN } else { whole(a, Direction::Nearest) as i8 };
    /// `.f64` to `.s8`, towards zero.
    f64_to_s8_zero(a: F64) -> S8 = if a.is_nan() { i8::MIN } else { whole(a, Direction::Zero) as i8 };
    /// `.f64` to `.s8`, down.
    f64_to_s8_down(a: F64) -> S8 = if a.is_nan() { i8::MIN } else { whole(a, Direction::Down) as i8 };
    /// `.f64` to `.s8`, up.
    f64_to_s8_up(a: F64) -> S8 = if a.is_nan() { i8::MIN } else { whole(a, Direction::Up) as i8 };
    /// `.f64` to `.u8`, to the nearest.
    f64_to_u8_nearest(a: F64) -> U8 = if a.is_nan() { 1 << 7 } else { whole(a, Direction::Nearest) as u8 };
    /// `.f64` to `.u8`, towards zero.
    f64_to_u8_zero(a: F64) -> U8 = if a.is_nan() { 1 << 7 } else { whole(a, Direction::Zero) as u8 };
    /// `.f64` to `.u8`, down.
    f64_to_u8_down(a: F64) -> U8 = if a.is_nan() { 1 << 7 } else { whole(a, Direction::Down) as u8 };
    /// `.f64` to `.u8`, up.
    f64_to_u8_up(a: F64) -> U8 = if a.is_nan() { 1 << 7 } else { whole(a, Direction::Up) as u8 };
    /// `.f64` to `.s16`, to the nearest.
    f64_to_s16_nearest(a: F64) -> S16 = if a.is_nan() { i16::MIN } else { whole(a, Direction::Nearest) as i16 };
    /// `.f64` to `.s16`, towards zero.
    f64_to_s16_zero(a: F64) -> S16 = if a.is_nan() { i16::MIN } else { whole(a, Direction::Zero) as i16 };
    /// `.f64` to `.s16`, down.
    f64_to_s16_down(a: F64) -> S16 = if a.is_nan() { i16::MIN } else { whole(a, Direction::Down) as i16 };
    /// `.f64` to `.s16`, up.
    f64_to_s16_up(a: F64) -> S16 = if a.is_nan() { i16::MIN } else { whole(a, Direction::Up) as i16 };
    /// `.f64` to `.u16`, to the nearest.
    f64_to_u16_nearest(a: F64) -> U16 = if a.is_nan() { 1 << 15 } else { whole(a, Direction::Nearest) as u16 };
    /// `.f64` to `.u16`, towards zero.
    f64_to_u16_zero(a: F64) -> U16 = if a.is_nan() { 1 << 15 } else { whole(a, Direction::Zero) as u16 };
    /// `.f64` to `.u16`, down.
    f64_to_u16_down(a: F64) -> U16 = if a.is_nan() { 1 << 15 } else { whole(a, Direction::Down) as u16 };
    /// `.f64` to `.u16`, up.
    f64_to_u16_up(a: F64) -> U16 = if a.is_nan() { 1 << 15 } else { whole(a, Direction::Up) as u16 };
    /// `.f64` to `.s32`, to the nearest.
    f64_to_s32_nearest(a: F64) -> S32 = if a.is_nan() { i32::MIN } else { whole(a, Direction::Nearest) as i32 };
    /// `.f64` to `.s32`, towards zero.
    f64_to_s32_zero(a: F64) -> S32 = if a.is_nan() { i32::MIN } else { whole(a, Direction::Zero) as i32 };
    /// `.f64` to `.s32`, down.
    f64_to_s32_down(a: F64) -> S32 = if a.is_nan() { i32::MIN } else { whole(a, Direction::Down) as i32 };
    /// `.f64` to `.s32`, up.
    f64_to_s32_up(a: F64) -> S32 = if a.is_nan() { i32::MIN } else { whole(a, Direction::Up) as i32 };
    /// `.f64` to `.u32`, to the nearest.
    f64_to_u32_nearest(a: F64) -> U32 = if a.is_nan() { 1 << 31 } else { whole(a, Direction::Nearest) as u32 };
    /// `.f64` to `.u32`, towards zero.
    f64_to_u32_zero(a: F64) -> U32 = if a.is_nan() { 1 << 31 } else { whole(a, Direction::Zero) as u32 };
    /// `.f64` to `.u32`, down.
    f64_to_u32_down(a: F64) -> U32 = if a.is_nan() { 1 << 31 } else { whole(a, Direction::Down) as u32 };
    /// `.f64` to `.u32`, up.
    f64_to_u32_up(a: F64) -> U32 = if a.is_nan() { 1 << 31 } else { whole(a, Direction::Up) as u32 };
    /// `.f64` to `.s64`, to the nearest.
    f64_to_s64_nearest(a: F64) -> S64 = if a.is_nan() { i64::MIN } else { whole(a, Direction::Nearest) as i64 };
    /// `.f64` to `.s64`, towards zero.
    f64_to_s64_zero(a: F64) -> S64 = if a.is_nan() { i64::MIN } else { whole(a, Direction::Zero) as i64 };
    /// `.f64` to `.s64`, down.
    f64_to_s64_down(a: F64) -> S64 = if a.is_nan() { i64::MIN } else { whole(a, Direction::Down) as i64 };
    /// `.f64` to `.s64`, up.
    f64_to_s64_up(a: F64) -> S64 = if a.is_nan() { i64::MIN } else { whole(a, Direction::Up) as i64 };
    /// `.f64` to `.u64`, to the nearest.
    f64_to_u64_nearest(a: F64) -> U64 = if a.is_nan() { 1 << 63 } else { whole(a, Direction::Nearest) as u64 };
    /// `.f64` to `.u64`, towards zero.
    f64_to_u64_zero(a: F64) -> U64 = if a.is_nan() { 1 << 63 } else { whole(a, Direction::Zero) as u64 };
    /// `.f64` to `.u64`, down.
    f64_to_u64_down(a: F64) -> U64 = if a.is_nan() { 1 << 63 } else { whole(a, Direction::Down) as u64 };
    /// `.f64` to `.u64`, up.
    f64_to_u64_up(a: F64) -> U64 = if a.is_nan() { 1 << 63 } else { whole(a, Direction::Up) as u64 };
    /// `.f64` to `.f32`, to the nearest.
    f64_to_f32_nearest(a: F64) -> F32 = narrow(a, Direction::Nearest);
    /// `.f64` to `.f32`, towards zero.
    f64_to_f32_zero(a: F64) -> F32 = narrow(a, Direction::Zero);
    /// `.f64` to `.f32`, down.
    f64_to_f32_down(a: F64) -> F32 = narrow(a, Direction::Down);
    /// `.f64` to `.f32`, up.
    f64_to_f32_up(a: F64) -> F32 = narrow(a, Direction::Up);
    /// To the nearest integer, ties to even.
    whole_f32_nearest(a: F32) -> F32 = whole_single(a, Direction::Nearest);
    /// To the nearest integer, ties to even.
    whole_f64_nearest(a: F64) -> F64 = whole(a, Direction::Nearest);
    /// To an integer, towards zero.
    whole_f32_zero(a: F32) -> F32 = whole_single(a, Direction::Zero);
    /// To an integer, towards zero.
    whole_f64_zero(a: F64) -> F64 = whole(a, Direction::Zero);
    /// To an integer, down.
    whole_f32_down(a: F32) -> F32 = whole_single(a, Direction::Down);
    /// To an integer, down.
    whole_f64_down(a: F64) -> F64 = whole(a, Direction::Down);
    /// To an integer, up.
    whole_f32_up(a: F32) -> F32 = whole_single(a, Direction::Up);
    /// To an integer, up.
    whole_f64_up(a: F64) -> F64 = whole(a, Direction::Up);
    /// `.sat`: clamped to 0 to 1; NaN and -0 become 0.
    saturate_f32(a: F32) -> F32 = if a > 0.0 { a.min(1.0) } else { 0.0 };
    /// `.sat`: clamped to 0 to 1; NaN and -0 become 0.
    saturate_f64(a: F64) -> F64 = if a > 0.0 { a.min(1.0) } else { 0.0 };
}

#[cfg(test)]
mod tests;
